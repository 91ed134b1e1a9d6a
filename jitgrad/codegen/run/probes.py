"""Programs with a timer around every kernel, matrix product and library call, to see what a run costs.

    probed = Probed({"forward": graph})
    outputs = probed["forward"]([x, 0.5])
    for probe, cost in zip(probed.probes["forward"], probed.read("forward")):
        probe.name, probe.nodes, cost.seconds, cost.calls, cost.read, cost.written, cost.flops

The timers are part of the native code: loops, branches and products run as they do without. A timer is two reads of
the processor's cycle counter; sizes are multiplied out after the second, so loops whose sizes change are counted as
they ran. What is neither in a kernel nor in a call (numbers, branches, memory, sequences) is measured as the rest.
"""

import ctypes
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from jitgrad.classes import dataclass
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.llvm.module import ModuleText
from jitgrad.codegen.llvm.program import ProgramPrinter
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.layout import Word, native_name
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.steps import AttentionStep, CallStep, ConvolutionStep, GemmStep, KernelStep
from jitgrad.codegen.run import compile, compiled
from jitgrad.codegen.run.launch import Interface, Launcher, Workspace
from jitgrad.dims import Size, product
from jitgrad.kernels.values import V
from jitgrad.script.graph.ir import Graph, Node

#: words of a probe: cycles, calls, bytes read, bytes written, floating-point operations
WORDS = 5
#: how long the cycle counter is compared with the clock at least, in seconds
CALIBRATION = 0.02
#: steps whose multiplications are counted
PRODUCTS = (GemmStep, ConvolutionStep, AttentionStep)
CLOCK = f"""
define i64 @{native_name("clock")}(ptr %block, ptr %items) nounwind {{
entry:
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}}
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """A step that is timed: what kind, the kernel's symbol or the op, the nodes that it computes."""

    kind: Literal["kernel", "product", "convolution", "attention", "library"]
    name: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step cost since it was last read. Bytes: each element of an operand's window counts once per call."""

    seconds: float
    calls: int
    read: int
    written: int
    flops: int


class Printer(ProgramPrinter):
    """Prints a program with probes. `places`: per probe, its first word in the block; the last one is the whole."""

    def __init__(self, module: ModuleText, program: Program):
        super().__init__(module, program)
        self.probes: list[Probe] = []
        self.places: list[int] = []
        self.nesting = 0

    def steps(self, steps: Sequence[Any]) -> None:
        self.nesting += 1
        whole = self.cycles() if self.nesting == 1 else None
        for step in steps:
            if isinstance(step, (KernelStep, *PRODUCTS)) or (isinstance(step, CallStep) and step.kind == "library"):
                self.probed(step)
            else:
                super().steps((step,))
        self.nesting -= 1
        if whole is not None:
            self.total = self.layout.take(1)
            self.add(self.total, self.cycles() - whole)

    def cycles(self) -> V:
        return self.code.call("llvm.readcyclecounter", "i64", 1)

    def add(self, word: int, value: V) -> None:
        self.store_word(word, self.load_word(word) + value)

    def probed(self, step: Any) -> None:
        place = self.layout.take(WORDS)
        before = self.cycles()
        super().steps((step,))
        taken = self.cycles() - before
        read, written = self.traffic(step)
        self.add(place, taken)
        self.add(place + 1, self.const(1))
        flops = []  # nothing is counted for kernels
        if isinstance(step, PRODUCTS):
            flops = [product((2, *(step.loops if isinstance(step, AttentionStep) else step.sizes)))]
        for word, sizes in ((place + 2, read), (place + 3, written), (place + 4, flops)):
            for size in sizes:
                self.add(word, self.size(size))
        self.places.append(place)
        self.probes.append(self.describe(step))

    def traffic(self, step: Any) -> tuple[list[Size], list[Size]]:
        """Bytes read and bytes written, as sums of sizes."""
        if isinstance(step, KernelStep):
            return _kernel_traffic(step)
        if isinstance(step, PRODUCTS):
            return step.traffic
        found: tuple[list[Size], list[Size]] = step.traffic(self.program.sites[step.site].node)
        return found

    def describe(self, step: Any) -> Probe:
        nodes = self.program.origins.get(step, ())
        if isinstance(step, KernelStep):
            return Probe("kernel", self.module.kernel(step).symbol, nodes)
        if isinstance(step, GemmStep):
            return Probe("product", step.name, nodes)
        if isinstance(step, ConvolutionStep):
            return Probe("convolution", f"convolution of {step.role}", nodes)
        if isinstance(step, AttentionStep):
            return Probe("attention", f"attention {step.kind}", nodes)
        return Probe("library", nodes[0].op if nodes else "library", nodes)


def _kernel_traffic(step: KernelStep) -> tuple[list[Size], list[Size]]:
    read: list[Size] = []
    written: list[Size] = []
    by_index = {s.operand for s in step.kernel.body if s.by_index}
    for number, operand in enumerate(step.kernel.operands):
        count = product(size for size, stride in zip(step.sizes, operand.strides, strict=True)
                        if stride != 0 or number in by_index)
        if operand.role != "out":
            read.append(count * operand.dtype.itemsize)
        if operand.role != "in":
            written.append(count * operand.dtype.itemsize)
    return read, written


class Probed:
    """Programs of one native module, with their probes and a clock.

    Attributes:
        programs: the lowered programs by name, for their fusion reasons.
        probes: per program, its timed steps in program order.
        kernels: symbol -> text of every kernel.

    Raises:
        NotImplementedError: a row has no native form.
    """

    def __init__(self, graphs: Mapping[str, Graph]):
        self.programs = {name: lower(name, graph) for name, graph in graphs.items()}
        module = ModuleText(Printer)
        printers: dict[str, Printer] = {}
        faces: dict[str, Interface] = {}
        for name, program in self.programs.items():
            printers[name] = printer = Printer(module, program)
            module.functions.append(printer.text())
            faces[name] = compile.interface(program, printer.layout)
        module.functions.append(CLOCK)
        module.declares["llvm.readcyclecounter"] = "declare i64 @llvm.readcyclecounter()"
        code = engine.compile_module(module.text())
        externals = {symbol: d.name for symbol, d in module.externals.items()}
        names = [native_name(name) for name in (*faces, "clock")]
        loaded = engine.load(code, compiled.symbols(externals), names)
        self.probes = {name: printer.probes for name, printer in printers.items()}
        self.kernels = {symbol: compile.describe(kernel, symbol) for symbol, kernel in module.kernel_list}
        self._launchers = {name: Launcher(face, loaded.address(native_name(name)), loaded)
                           for name, face in faces.items()}
        self._functions = {name: launcher.build() for name, launcher in self._launchers.items()}
        self._places = {name: printer.places for name, printer in printers.items()}
        self._totals = {name: printer.total for name, printer in printers.items()}
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self._cycles: Callable[[int, int], int] = signature(loaded.address(native_name("clock")))
        self._started = self._cycles(0, 0), time.perf_counter()

    def __getitem__(self, name: str) -> Callable[..., list[Any]]:
        return self._functions[name]

    def _per_second(self) -> float:
        """Cycles per second, from the clock since the module was loaded."""
        cycles, clock = self._started
        wait = CALIBRATION - (time.perf_counter() - clock)
        if wait > 0:
            time.sleep(wait)
        rate: float = (self._cycles(0, 0) - cycles) / (time.perf_counter() - clock)
        return rate

    def _workspaces(self, name: str) -> Iterable[Workspace]:
        found: list[Workspace] = self._launchers[name].scope["pool"]
        return found

    def read(self, name: str) -> tuple[list[Cost], float]:
        """What each probe has counted since the last read, and the seconds of the whole native function."""
        rate = self._per_second()
        counts = [[0] * WORDS for _ in self._places[name]]
        total = 0
        for workspace in self._workspaces(name):
            block = workspace.block
            for found, place in zip(counts, self._places[name], strict=True):
                for k in range(WORDS):
                    found[k] += block[place + k]
                    block[place + k] = 0
            total += block[self._totals[name]]
            block[self._totals[name]] = 0
        return [Cost(cycles / rate, *others) for cycles, *others in counts], total / rate

    def workspace(self, name: str) -> int:
        """Bytes that the program's calls keep for their intermediate results."""
        total = 0
        for workspace in self._workspaces(name):
            block = workspace.block
            total += block[Word.CAPACITY] + sum(block[word + 1] for word in workspace.interface.growable)
            chunk = block[Word.ARENA]
            while chunk:
                previous, capacity = (ctypes.c_int64 * 2).from_address(chunk)
                total += capacity
                chunk = previous
        return total
