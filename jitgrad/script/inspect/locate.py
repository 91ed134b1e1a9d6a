"""Which source line makes a compiled function differ from plain Python: three suspects, in order.

1. The graph: each value that a line of the Python run assigns must be among the values that the interpreted graph
   computes on that line.
2. The native code of an op: each node is compiled alone and run on what it got in the interpreted graph.
3. The derivative: each node's compiled gradient is compared with that of eager's tape.
"""

import contextlib
import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad.device import device
from jitgrad.dims import Dim
from jitgrad.dtypes import INEXACT_KINDS
from jitgrad.eager.arrays.arrays import host_copy, to_host
from jitgrad.eager.autograd.engine import grad
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import Span
from jitgrad.ops import OPS
from jitgrad.ops.backend import backend
from jitgrad.ops.types import TensorType
from jitgrad.script.call import callback
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.sources import resolve
from jitgrad.script.call.storing import leave_writer
from jitgrad.script.executor import Dispatcher
from jitgrad.script.graph import interpret, marks
from jitgrad.script.graph.ir import Block, Graph, Node, Value
from jitgrad.script.inspect.compare import compare
from jitgrad.script.inspect.state import State

Place = tuple[str, int]
#: values of one line that are kept
LIMIT = 1000


class Recording(interpret._Run):
    """An interpretation that keeps what every node got and gave the first time, and what each line computed."""

    def __init__(self, graph: Graph, inputs: Sequence[Any]):
        self.first: dict[Node, tuple[list[Any], list[Any], dict[str, Any]]] = {}
        self.lines: dict[Place, list[Any]] = defaultdict(list)
        self.spans: dict[Place, Span] = {}
        super().__init__(graph, inputs, lambda target, value: None)

    def node(self, node: Node) -> None:
        given = [self.values[v] for v in node.inputs]
        super().node(node)
        made = [self.values[v] for v in node.outputs]
        if node not in self.first:
            attrs = self.attrs(node.attrs) if node.op in OPS else {}
            self.first[node] = given, made, attrs
        span = node.span
        while span is not None:
            place = (span.file, span.line)
            self.spans.setdefault(place, span)
            if len(self.lines[place]) < LIMIT:
                self.lines[place] += made
            span = span.caller


def locate(function: Dispatcher, args: Any, kwargs: Any, plain: Callable[[], Any], state: State,
           noted: list[marks.Noted]) -> tuple[Span | None, str]:
    """The first line that differs, and how; (None, words) where no single line does.

    Args:
        function: what failed its check.
        args, kwargs: the call, in the state before it.
        plain: the call as plain Python.
        state: puts everything back.
        noted: what ignored functions returned.
    """
    from jitgrad.script.frontend.build import build

    script = build(function.eager, args, kwargs)
    values = function.values_of(function._bind(*args, **kwargs))
    objects = [resolve(s, values) for s in script.inputs]
    arrays = [host_copy(o._data) if isinstance(o, Tensor) else np.array(o) if isinstance(o, np.ndarray) else o
              for o in objects]
    run = Recording(script.graph, arrays)

    def arguments(call: callback.Callback, given: Sequence[Any]) -> Any:
        params = tuple(values)
        leave = leave_writer(params, values, script.inputs, call.arguments, ())
        return leave(tuple(values.values()), objects, given)

    with _quiet(noted), callback.running(callback.Run(arguments, lambda c: None, lambda a, b: "", False)), \
            contextlib.suppress(Exception):  # what the program itself raises
        run.outputs()
    state.restore()
    events: list[tuple[Place, str, Any]] = []
    with _quiet(noted), contextlib.suppress(Exception):
        _trace(plain, set(run.lines), events)
    state.restore()
    unknown = None, "every line by itself gives what plain Python gives"
    return _by_line(run, events) or _by_node(run, script.device) or unknown


@contextlib.contextmanager
def _quiet(noted: list[marks.Noted]) -> Iterator[None]:
    marks.calls.replay = list(noted)
    try:
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            yield
    finally:
        marks.calls.replay = None


# --- the graph against plain Python --------------------------------------------------------------------------------


def _trace(plain: Callable[[], Any], places: set[Place], events: list[tuple[Place, str, Any]]) -> None:
    """Run, noting what each line of `places` assigned: new tensors and numbers in local variables, and results."""
    files = {file for file, _ in places}

    def enter(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        known = {name: _identity(v) for name, v in frame.f_locals.items()}
        line = frame.f_lineno

        def step(frame: Any, event: str, arg: Any) -> Any:
            nonlocal line
            if event in ("line", "return"):
                for name, value in frame.f_locals.items():
                    identity = _identity(value)
                    if known.get(name) != identity:
                        known[name] = identity
                        _note(events, (frame.f_code.co_filename, line), f"`{name}`", value)
                if event == "return":
                    _note(events, (frame.f_code.co_filename, line), "the result", arg)
                line = frame.f_lineno
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        plain()
    finally:
        sys.settrace(before)


def _identity(value: Any) -> Any:
    if isinstance(value, Tensor):
        return id(value), value._version
    return (type(value), value) if isinstance(value, (bool, int, float)) else id(value)


def _note(events: list[tuple[Place, str, Any]], place: Place, name: str, value: Any) -> None:
    if isinstance(value, Tensor):
        events.append((place, name, host_copy(value._data)))
    elif isinstance(value, float):
        events.append((place, name, value))


def _by_line(run: Recording, events: Sequence[tuple[Place, str, Any]]) -> tuple[Span, str] | None:
    for place, name, value in events:
        alike = [v for v in run.lines.get(place, ()) if _alike(v, value)]
        if alike and all(compare(v, value) for v in alike):
            return run.spans[place], f"{name} is {compare(alike[-1], value)}"
    return None


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(a.shape == b.shape and a.dtype == b.dtype)
    return type(a) is type(b)


# --- nodes alone ---------------------------------------------------------------------------------------------------


def _by_node(run: Recording, where: device) -> tuple[Span | None, str] | None:
    for derivative in (False, True):
        for node, (given, made, attrs) in run.first.items():
            if node.op not in OPS or not node.inputs or not all(isinstance(v, np.ndarray) for v in (*given, *made)):
                continue
            if any(isinstance(d, Dim) for a in attrs.values() if isinstance(a, tuple) for d in a):
                continue
            words = _gradient(node, given, attrs, where) if derivative else _alone(node, given, made, attrs, where)
            if words:
                what = f"the gradient of `{node.op}`" if derivative else f"`{node.op}`"
                return node.span, f"{what} is {words}"
    return None


def _graph(node: Node, given: Sequence[Any], made: Sequence[Any], attrs: dict[str, Any]) -> Graph:
    """A graph of one node, for these sizes."""
    params = [Value(_type(v, x)) for v, x in zip(node.inputs, given, strict=True)]
    outputs = tuple(Value(_type(v, x)) for v, x in zip(node.outputs, made, strict=True))
    alone = Node(node.op, tuple(params), attrs, outputs, (), node.span)
    return Graph(Block(tuple(params), [alone], outputs), node.op)


def _type(value: Value, array: Any) -> TensorType:
    assert isinstance(value.type, TensorType)
    return TensorType(value.type.dtype, tuple(array.shape))


def _alone(node: Node, given: Sequence[Any], made: Sequence[Any], attrs: dict[str, Any], where: device) -> str:
    tensors = [wrap(np.array(x)).to(where) for x in given]
    function = GraphFunction.prepare(_graph(node, given, made, attrs), tensors, node.op, device=where)
    outputs = function(tensors, [t._data for t in tensors])
    return next((w for o, m in zip(outputs, made, strict=True) if (w := compare(to_host(o._data), np.asarray(m)))), "")


def _gradient(node: Node, given: Sequence[Any], attrs: dict[str, Any], where: device) -> str:
    row = OPS[node.op]
    if not any(x.dtype.kind in INEXACT_KINDS for x in given) or not callable(row.vjp):
        return ""
    found = []
    for compiled in (True, False):
        tensors = [wrap(np.array(x)).to(where) for x in given]
        for t in tensors:
            t._needs = t._data.dtype.kind in INEXACT_KINDS
        if compiled:
            rows = backend().apply(row, tuple(t.detach() for t in tensors), attrs)
            made = [m._data for m in (rows if isinstance(rows, tuple) else (rows,))]
            function = GraphFunction.prepare(_graph(node, given, made, attrs), tensors, node.op, device=where)
            outputs: Any = function(tensors, [t._data for t in tensors])
        else:
            outputs = backend().apply(row, tuple(tensors), attrs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        outputs = [o for o in outputs if o.requires_grad]
        if not outputs:
            return ""
        cotangents = [wrap(np.cos(np.arange(o._data.size)).reshape(o._data.shape).astype(o._data.dtype)).to(where)
                      for o in outputs]
        found.append(grad(outputs, [t for t in tensors if t._needs], cotangents, allow_unused=True))
    for a, b in zip(*found, strict=True):
        words = compare(*(None if g is None else to_host(g._data) for g in (a, b)))
        if words:
            return words
    return ""
