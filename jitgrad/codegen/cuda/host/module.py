"""Some graphs for a device: all kernels as CUDA text, and the host functions that launch them as LLVM text."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from jitgrad.codegen.cuda.driver import runtime
from jitgrad.codegen.cuda.kernels import each, text
from jitgrad.codegen.cuda.kernels.geometry import Form, scratch
from jitgrad.codegen.cuda.kernels.tiled import attention, convolution
from jitgrad.codegen.cuda.kernels.tiled.library import library
from jitgrad.codegen.cuda.schedule import launches, resident
from jitgrad.codegen.cuda.schedule.passes import prepared
from jitgrad.codegen.cuda.schedule.regions import region_name
from jitgrad.codegen.llvm import kernel as llvm_kernel
from jitgrad.codegen.llvm.module import ModuleText
from jitgrad.codegen.program.device_steps import EachStep, ResidentStep
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import AttentionStep, ConvolutionStep, KernelStep
from jitgrad.script.graph.ir import Graph


class DeviceModule(ModuleText):
    """The host functions of several programs, and the kernels that they share.

    Attributes:
        sources: the kernels as CUDA text.
        head: the texts that some of them need besides the prelude, in order.
        handles: the functions in these texts, by symbol: their places in the table of handles.
    """

    def __init__(self, printer: Callable[[Any, Program], Any] | None = None) -> None:
        super().__init__(printer)
        self.tables: dict[Hashable, tuple[str, int]] = {}
        self.regions: dict[str, tuple[int, int]] = {}
        self.sources: list[str] = []
        self.head: dict[str, None] = {}
        self.handles: dict[str, int] = {}

    def forms(self, kernel: Kernel) -> tuple[str, int]:
        """The table with the forms of a kernel, printed unless an equal one is there; the scratch memory it needs."""
        key = llvm_kernel.body_key(kernel)
        found = self.tables.get(key)
        if found is None:
            name = _name(kernel, len(self.sources))
            forms = text.forms(kernel, name)
            found = self.tables[key] = self._add(kernel, forms, text.source(kernel, name)), scratch(forms)
        return found

    def each_forms(self, step: EachStep) -> tuple[str, int, int]:
        """The table with the form of a kernel over a table of operands, the entries that it has room for (some more
        than are needed), and the scratch memory it needs.
        """
        most = each.MOST_WORDS // each.width(step.kernel, step.shared)
        room = min(most, 1 << (len(step.parts) - 1).bit_length())
        key = "each", room, step.shared, llvm_kernel.body_key(step.kernel)
        found = self.tables.get(key)
        if found is None:
            name = _name(step.kernel, len(self.sources))
            source, forms = each.each_source(step.kernel, name, step.shared, room), (each.each_form(step.kernel, name),)
            found = self.tables[key] = self._add(step.kernel, forms, source), scratch(forms)
        return found[0], room, found[1]

    def attention(self, step: AttentionStep) -> str:
        """The table with the form of a kernel of attention, printed unless an equal one is there."""
        d = step.reads[0].dtype
        mask = next((r.dtype for r in step.mask), None)
        key = "attention", step.kind, d, step.width, step.causal, mask
        found = self.tables.get(key)
        if found is None:
            name = f"{step.name}_{len(self.sources)}"
            self.head |= dict.fromkeys(attention.LIBRARY)
            self.sources.append(attention.source(step.kind, d, step.width, step.causal, name, mask))
            found = self.tables[key] = self._table((attention.form(step.kind, step.width, name),)), 0
        return found[0]

    def convolution(self, step: ConvolutionStep) -> str:
        """The table with the form of a kernel of convolutions, printed unless an equal one is there."""
        d, rank, rows = step.y.dtype, len(step.y.dims) - 2, convolution.rows_for(step.words[3])
        key = "convolution", step.role, d, rank, rows
        found = self.tables.get(key)
        if found is None:
            name = f"{step.name}_{len(self.sources)}"
            self.head |= dict.fromkeys(convolution.LIBRARY)
            self.sources.append(convolution.source(step.role, d, rank, rows, name))
            found = self.tables[key] = self._table((convolution.form(step.role, rank, rows, name),)), 0
        return found[0]

    def resident(self, step: ResidentStep) -> tuple[int, int]:
        """The handle of the kernel of a region, printed unless an equal one is there; the scratch memory it needs."""
        source = resident.resident_source(step, "")
        found = self.regions.get(source)
        if found is None:
            name = f"{region_name(step)}_{len(self.sources)}"
            symbol = launches.symbol_of(name)
            self.sources.append(resident.resident_source(step, name))
            self.handles[symbol] = len(self.handles)
            found = self.regions[source] = self.handles[symbol], launches.scratch_bytes(step)
        return found

    def _add(self, kernel: Kernel, forms: Sequence[Form], source: str) -> str:
        self.sources.append(source)
        self.kernel_list.append((forms[0].launches[0].symbol, kernel))
        return self._table(forms)

    def _table(self, forms: Sequence[Form]) -> str:
        for form in forms:
            for launch in form.launches:
                self.handles.setdefault(launch.symbol, len(self.handles))
        name = f"jg_forms{len(self.tables)}"
        self.functions.append(runtime.table(name, forms, self.handles))
        return name

    def halves(self) -> tuple[str, str]:
        """All of it for the good code generator where something repeats, else for the quick one."""
        quick = all(q for _, q in self.programs) and not self._parts(False)
        return ("", self.text()) if quick else (self.text(), "")

    def _around(self) -> list[str]:
        return [*super()._around(), runtime.handles(len(self.handles)), runtime.LIBRARY.declarations]

    def source(self) -> str:
        """The prelude and all kernels: one text to compile."""
        return "\n".join([text.prelude(), library(self.head), *self.sources])


def shown(graphs: Mapping[str, Graph], ordered: bool = False, hosted: Collection[int] = ()) -> DeviceModule:
    """A module with the kernels of graphs after passes, in order, equal ones once, and nothing else. Needs no CUDA.

    Without them: matrix products, which are calls of a library, and what stays on the host. `hosted`: inputs of
    "forward" that are on the host.
    """
    module = DeviceModule()
    for name, graph in graphs.items():
        for step in every(prepared(name, graph, hosted if name == "forward" else (), ordered).steps):
            if isinstance(step, ResidentStep):
                module.resident(step)
            elif isinstance(step, AttentionStep):
                module.attention(step)
            elif isinstance(step, ConvolutionStep):
                module.convolution(step)
            elif isinstance(step, EachStep):
                module.each_forms(step)
            elif isinstance(step, KernelStep):
                module.forms(step.kernel)
    return module


def _name(kernel: Kernel, number: int) -> str:
    return f"{kernel.name}_{number}".replace(".", "_")
