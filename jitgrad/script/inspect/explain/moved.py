"""What a call's programs are on a GPU, which any machine can tell: `Traffic`, what they launch and move; their kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.codegen.cuda.host.module import DeviceModule, shown
from jitgrad.codegen.cuda.host.traffic import Moved, traffic
from jitgrad.codegen.cuda.schedule.passes import prepared
from jitgrad.codegen.program.program import Program
from jitgrad.dims import Symbol
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.sources import resolve
from jitgrad.script.executor import Dispatcher
from jitgrad.script.graph.ir import Graph
from jitgrad.script.inspect.explain.measure import PROGRAMS, reasons_of
from jitgrad.script.inspect.lines import lines_of, places


class Traffic:
    """What a call launches and moves on a device. `str()` gives a table.

    Attributes:
        runs: per program ("forward", "backward") its steps in order; see `codegen.cuda.traffic.Moved`.
        reasons: why neighbouring ops are not one kernel.
    """

    def __init__(self, name: str, runs: dict[str, list[Moved]], reasons: list[str]):
        self.name, self.runs, self.reasons = name, runs, reasons

    @property
    def steps(self) -> list[Moved]:
        """All steps, forward then backward."""
        return [step for steps in self.runs.values() for step in steps]

    @property
    def launches(self) -> int:
        """Kernels, products and library calls; those in loops and branches once."""
        return sum(s.launches for s in self.steps)

    @property
    def waits(self) -> int:
        """How often the host waits for a number of the device, likewise."""
        return sum(s.kind == "wait" for s in self.steps)

    @property
    def bytes(self) -> int:
        """Bytes read and written, where they are known, likewise."""
        return sum((s.read or 0) + (s.written or 0) for s in self.steps)

    def __str__(self) -> str:
        rows = [f"{self.name} on a GPU: {self.launches} launches, {_bytes(self.bytes)}"
                + (f", {self.waits} waits" if self.waits else ""),
                f"  {'program':<9} {'launches':>8} {'read':>10} {'written':>10} {'where':<12}"]
        for program, steps in self.runs.items():
            for s in steps:
                rows.append(f"  {program:<9} {s.launches:>8} {_bytes(s.read):>10} {_bytes(s.written):>10} "
                            f"{' '.join(s.inside):<12} {places(lines_of(s.nodes))}: "
                            f"{s.name if s.kind != 'wait' else 'the host waits'}")
        if self.reasons:
            rows += ["", "not one kernel, and why", *(f"  {r}" for r in self.reasons)]
        return "\n".join([*rows, "", NOTES])

    __repr__ = __str__


NOTES = """\
how it was counted
  Bytes are what goes between the kernels and memory: a row that waits in registers or shared memory is read once, one
  that is read again counts again; what every row reads alike counts once. Loops count one iteration, branches both
  sides; ? is a size known at run time."""


class OnGpu(GraphFunction):
    """A function of which only the graphs are made, those that a GPU would run."""

    on_device = True

    def _programs(self, graphs: Mapping[str, Graph]) -> Mapping[str, Callable[..., list[Any]]]:
        self.graphs = dict(graphs)
        return dict.fromkeys(graphs, _not_compiled)


def _not_compiled(*_: Any) -> list[Any]:
    raise NotImplementedError


def on_gpu(function: Dispatcher, params: tuple[Any, ...]) -> tuple[OnGpu, list[Any]]:
    """What a call with these parameters would run on a GPU, and the objects that it would be given."""
    values = function.values_of(params)
    chosen = function.specialisation_of(params)
    script = function.build(values, *chosen.options, late_checks=True)
    objects = [resolve(s, values) for s in script.inputs]
    made = OnGpu.prepare(script.graph, objects, function.__name__, script.differentiable, chosen.function.device)
    assert isinstance(made, OnGpu)
    return made, objects


def module_of(function: Dispatcher, params: tuple[Any, ...]) -> DeviceModule:
    """The kernels that a call with these parameters would run on a GPU."""
    made, _ = on_gpu(function, params)
    return shown(made.graphs, made.ordered, made.hosted)


def count(function: Dispatcher, params: tuple[Any, ...], backward: bool = True) -> Traffic:
    """Lower what a call with these parameters would run on a GPU, and count."""
    made, objects = on_gpu(function, params)
    programs = {name: prepared(name, graph, made.hosted if name == "forward" else ())
                for name, graph in made.graphs.items() if name == "forward" or backward}
    sizes = _sizes(programs["forward"], objects)
    reasons = [reason.text() for name in PROGRAMS if name in programs
               for reason in reasons_of(name, programs[name].reasons)]
    return Traffic(function.__qualname__, {name: traffic(p, sizes) for name, p in programs.items()}, reasons)


def _sizes(program: Program, objects: Sequence[Any]) -> dict[Symbol, int]:
    """What the symbols of the inputs are in this call; the backward has the same ones."""
    return {symbol: objects[i].shape[axis] for symbol, (i, axis) in program.input_symbols.items()
            if objects[i] is not None}


def _bytes(number: int | None) -> str:
    if number is None:
        return "?"
    for limit, unit in ((1e3, "B"), (1e6, "kB"), (1e9, "MB")):
        if number < limit:
            return f"{number * 1e3 / limit:.{0 if unit == 'B' else 1}f} {unit}"
    return f"{number / 1e9:.2f} GB"
