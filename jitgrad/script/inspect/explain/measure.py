"""Run a specialisation with timers and say what each step cost. Nothing that the run does is kept.

Memory that the program writes is copied before each run, numbers that it assigns are dropped, and what it prints goes
nowhere; a program that raises, raises here too.
"""

import contextlib
import io
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad import config
from jitgrad.classes import dataclass, field
from jitgrad.codegen.program.sequences import SeqHandle
from jitgrad.codegen.run.probes import Cost, Probe, Probed
from jitgrad.ops.types import TensorType
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.graph.ir import Graph, Loop, Node, Value, walk
from jitgrad.script.graph.irops import STRUCTURAL
from jitgrad.script.inspect.lines import Line, line_of, lines_of

#: runs after the first: until this many seconds have passed, at most so many
SECONDS, RUNS = 0.1, 30
#: a program in the order in which they run
PROGRAMS = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel, product or library call of a program.

    Attributes:
        label: "k0", "product 2"...: unique.
        ops: the ops that it computes.
        lines: source lines of these; the first one is charged with the cost.
        dtype: of what the first op makes; "" where no op is known.
    """

    program: str
    kind: str
    label: str
    ops: tuple[str, ...]
    lines: tuple[Line, ...]
    cost: Cost
    dtype: str = ""


@dataclass(slots=True)
class Run:
    """One program's figures. Seconds are medians: of the native code with timers, and of a call without."""

    steps: list[Step]
    timed: float
    untimed: float
    workspace: int
    runs: int

    @property
    def rest(self) -> float:
        """Seconds between steps: numbers, branches, memory, sequences and the timers."""
        return max(0.0, self.timed - sum(s.cost.seconds for s in self.steps))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a producer and a consumer are not one kernel, and in how many places."""

    program: str
    producer: str
    consumer: str
    lines: tuple[Line | None, Line | None]
    why: str

    def text(self, count: int = 1) -> str:
        """One line, for so many places."""
        first, second = (str(line.number) if line is not None else "?" for line in self.lines)
        return (f"{self.program}: {self.producer} (line {first}) -> {self.consumer} (line {second})"
                f"{f', {count} times' if count > 1 else ''}: {self.why}")


def reasons_of(name: str, reasons: Iterable[tuple[Node, Node, str]]) -> Counter[Reason]:
    """Why ops of a program are not one kernel, counted by the user's lines."""
    return Counter(Reason(name, a.op, b.op, (line_of(a.span), line_of(b.span)), why) for a, b, why in reasons)


@dataclass(slots=True)
class Measured:
    """Everything that a measurement found. `saved`: bytes by line; `kept`: inputs that the backward reads again."""

    runs: dict[str, Run] = field(default_factory=dict)
    saved: dict[Line | None, int] = field(default_factory=dict)
    kept: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)
    kernels: dict[str, str] = field(default_factory=dict)


class ProbedFunction(GraphFunction):
    """A function whose programs have timers."""

    def _programs(self, graphs: Mapping[str, Graph]) -> Mapping[str, Callable[..., list[Any]]]:
        probed = Probed(graphs)
        if not hasattr(self, "probed"):
            self.probed: dict[str, Probed] = {}
            self.graphs: dict[str, Graph] = {}
        self.probed.update(dict.fromkeys(graphs, probed))
        self.graphs.update(graphs)
        return {name: probed[name] for name in graphs}


def _ones(output: Any) -> Any:
    """A cotangent for an output: an array, the items of a list, or None."""
    if isinstance(output, SeqHandle):
        return [_ones(v) for v in output.to_list()]
    return None if output is None else np.ones_like(output)


def measure(graph: Graph, objects: Sequence[Any], name: str, differentiable: Sequence[int] | None,
            plain: GraphFunction | None, backward: bool) -> Measured:
    """Compile `graph` (before passes) with timers for inputs like `objects`, run it, and collect.

    Args:
        plain: the same function without timers; None: it is compiled here.
        backward: also run the gradient, for cotangents of ones.
    """
    with config.override(interpret=False):
        timed: ProbedFunction = ProbedFunction.prepare(graph, objects, name, differentiable)  # type: ignore[assignment]
        if plain is None:
            plain = GraphFunction.prepare(graph, objects, name, differentiable)
        return _Session(timed, plain, objects).run(backward)


class _Session:
    def __init__(self, timed: ProbedFunction, plain: GraphFunction, objects: Sequence[Any]):
        self.timed, self.plain = timed, plain
        self.arrays = [getattr(o, "_data", o) for o in objects]
        self.labels: dict[str, int] = {}

    def run(self, backward: bool) -> Measured:
        result = Measured()
        timed, plain = self.timed, self.plain
        with contextlib.redirect_stdout(io.StringIO()):
            result.runs["forward"] = self.repeat("forward", lambda: timed.forward(*self.forward_inputs()),
                                                 lambda: plain.forward(*self.forward_inputs()))
            if timed.differentiable:
                outputs = timed.forward(*self.forward_inputs())
                self.saved(result, outputs)
                if backward:
                    self.backward(result, outputs)
        for program in result.runs:
            probed = timed.probed[program]
            result.kernels.update(probed.kernels)
            result.reasons += reasons_of(program, probed.programs[program].reasons)
        return result

    def forward_inputs(self) -> tuple[list[Any], Callable[[int, Any], None]]:
        """Inputs of their own where the program writes; nothing is committed."""
        written = self.timed.writes
        return [a.copy() if i in written else a for i, a in enumerate(self.arrays)], lambda target, value: None

    def backward(self, result: Measured, outputs: list[Any]) -> None:
        timed, plain = self.timed, self.plain
        cotangents = [_ones(outputs[i]) for i in timed.differentiable]
        kept = [outputs[i] if i >= 0 else self.arrays[~i] for i in timed.residuals]
        plain_outputs = plain.forward(*self.forward_inputs())
        plain_kept = [plain_outputs[i] if i >= 0 else self.arrays[~i] for i in plain.residuals]
        result.runs["backward"] = self.repeat("backward", lambda: timed.backward(kept, (), cotangents),
                                              lambda: plain.backward(plain_kept, (), cotangents))

    def repeat(self, program: str, timed: Callable[[], Any], plain: Callable[[], Any]) -> Run:
        """A program's figures, of several runs with timers and without."""
        timed()
        probed = self.timed.probed[program]
        probed.read(program)
        costs: list[tuple[list[Cost], float]] = []
        started = time.perf_counter()
        while not costs or (len(costs) < RUNS and time.perf_counter() - started < SECONDS):
            timed()
            costs.append(probed.read(program))
        plain()
        seconds: list[float] = []
        while not seconds or (len(seconds) < RUNS and sum(seconds) < SECONDS):
            begun = time.perf_counter()
            plain()
            seconds.append(time.perf_counter() - begun)
        return self.collect(program, costs, statistics.median(seconds))

    def collect(self, program: str, costs: list[tuple[list[Cost], float]], untimed: float) -> Run:
        steps, probed = [], self.timed.probed[program]
        for position, probe in enumerate(probed.probes[program]):
            mine = [run[position] for run, _ in costs]
            last = mine[-1]
            seconds = statistics.median(c.seconds for c in mine)
            cost = Cost(seconds, last.calls, last.read, last.written, last.flops)
            steps.append(Step(program, probe.kind, self.label(probe), _ops(probe), tuple(lines_of(probe.nodes)), cost,
                              _dtype(probe)))
        timed = statistics.median(total for _, total in costs)
        return Run(steps, timed, untimed, probed.workspace(program), len(costs))

    def label(self, probe: Probe) -> str:
        kind = {"kernel": "kernel", "product": "product"}.get(probe.kind, probe.name)
        number = self.labels[kind] = self.labels.get(kind, 0) + 1
        return f"{kind} {number}"

    def saved(self, result: Measured, outputs: Sequence[Any]) -> None:
        """Bytes of what the forward keeps for the backward, by the line that made it."""
        graph = self.timed.graphs["forward"]
        makers = {v: n for n in walk(graph.block) for v in n.outputs}
        for place in self.timed.residuals:
            if place < 0:
                result.kept += _nbytes(self.arrays[~place])
                continue
            line = line_of(getattr(_maker(makers, graph.outputs[place]), "span", None))
            result.saved[line] = result.saved.get(line, 0) + _nbytes(outputs[place])


def _maker(makers: Mapping[Value, Node], value: Value) -> Node | None:
    """The node that really makes a value: inside the loop or branch whose result it is."""
    found: Node | None = None
    while value in makers:
        found = node = makers[value]
        if node.op == "opt.some":
            value = node.inputs[0]
        elif node.blocks:
            position = node.outputs.index(value)
            inside = [v for block in node.blocks if (v := _carried(node, block.results[position])) in makers
                      and makers[v].op != "opt.none"]
            if not inside:
                break
            value = inside[0]
        else:
            break
    return found


def _carried(node: Node, value: Value) -> Value:
    """What an iteration makes of a value that it was given, where it is such a value."""
    if node.op == "if" or value not in (loop := Loop(node)).carry_params:
        return value
    return loop.carry_results[loop.carry_params.index(value)]


def _nbytes(value: Any) -> int:
    return 0 if value is None else int(getattr(value, "nbytes", 8))


def _dtype(probe: Probe) -> str:
    """The dtype of what the first op of a step makes."""
    types = [v.type for node in probe.nodes[:1] for v in node.outputs[:1]]
    return types[0].dtype.name if types and isinstance(types[0], TensorType) else ""


def _ops(probe: Probe) -> tuple[str, ...]:
    """The ops that a step computes; for memory that is moved because of a loop, branch or result, the kernel's name."""
    ops = tuple(node.op for node in probe.nodes)
    if probe.kind == "kernel" and (not ops or STRUCTURAL.intersection(ops)):
        return (probe.name.partition("_")[2],)
    return ops
