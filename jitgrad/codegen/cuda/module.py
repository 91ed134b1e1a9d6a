"""Some graphs for a device: all kernels as CUDA text, and the host functions that launch them as LLVM text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.cuda import runtime, text
from jitgrad.codegen.cuda.device_program import DevicePrinter
from jitgrad.codegen.cuda.geometry import scratch
from jitgrad.codegen.kernel import Kernel
from jitgrad.codegen.lower import lower
from jitgrad.codegen.module import ModuleText
from jitgrad.codegen.program import IfStep, KernelStep, LoopStep
from jitgrad.script.ir import Graph


class DeviceModule(ModuleText):
    """The host functions of several programs, and the kernels that they share.

    Attributes:
        sources: the kernels as CUDA text.
        handles: the functions in these texts, by symbol: their places in the table of handles.
    """

    printer = DevicePrinter

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[Hashable, tuple[str, int]] = {}
        self.sources: list[str] = []
        self.handles: dict[str, int] = {}
        self.externals |= {*runtime.EXTERNALS}

    def forms(self, kernel: Kernel) -> tuple[str, int]:
        """The table with the forms of a kernel, printed unless an equal one is there; the scratch memory it needs."""
        key = llvm_kernel.body_key(kernel)
        found = self.tables.get(key)
        if found is None:
            name = _name(kernel, len(self.tables))
            forms = text.forms(kernel, name)
            self.sources.append(text.source(kernel, name))
            for form in forms:
                for launch in form.launches:
                    self.handles.setdefault(launch.symbol, len(self.handles))
            found = self.tables[key] = f"jg_forms{len(self.tables)}", scratch(forms)
            self.functions.append(runtime.table(found[0], forms, self.handles))
            self.kernel_list.append((forms[0].launches[0].symbol, kernel))
        return found

    def halves(self) -> tuple[str, str]:
        """All of it for the good code generator where something repeats, else for the quick one."""
        quick = all(q for _, q in self.programs)
        return ("", self.text()) if quick else (self.text(), "")

    def _around(self) -> list[str]:
        return [*super()._around(), runtime.handles(len(self.handles)), runtime.TEXT]

    def source(self) -> str:
        """The prelude and all kernels: one text to compile."""
        return "\n".join([text.prelude(), *self.sources])


def kernels(graphs: Mapping[str, Graph]) -> list[str]:
    """The kernels of graphs after passes, in order, equal ones once. Needs no CUDA.

    Without them: matrix products, which are calls of a library, and what stays on the host.
    """
    found: dict[Hashable, Kernel] = {}
    for name, graph in graphs.items():
        for kernel in _kernels(lower(name, graph, device=True).steps):
            found.setdefault(llvm_kernel.body_key(kernel), kernel)
    return [text.source(kernel, _name(kernel, k)) for k, kernel in enumerate(found.values())]


def _name(kernel: Kernel, number: int) -> str:
    return f"{kernel.name}_{number}".replace(".", "_")


def _kernels(steps: Iterable[Any]) -> Iterator[Kernel]:
    for step in steps:
        if isinstance(step, KernelStep):
            yield step.kernel
        elif isinstance(step, IfStep):
            yield from _kernels(step.then)
            yield from _kernels(step.otherwise)
        elif isinstance(step, LoopStep):
            yield from _kernels(step.body)


__all__ = ["DeviceModule", "kernels"]
