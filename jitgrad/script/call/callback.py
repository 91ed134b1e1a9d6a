"""Python functions called from compiled code: what `@ignore` marks, at run time.

A `callback` node has a `Callback`: the function, how its arguments are made of the node's inputs, and of what types its
results are. While a program with such nodes runs, a `Run` knows the objects of the call: an argument of the script that
goes to the function unchanged is the very object, and what the script assigned so far is stored before the function is
called. What the script has read must still be so afterwards; else the program would go on with old values.

A result that may carry a gradient keeps eager's tape: the call's number is one more result (`handle`), and the
`callback.vjp` node in the backward runs that tape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from jitgrad import random
from jitgrad.classes import dataclass, field
from jitgrad.device import CPU, device
from jitgrad.dtypes import dtype
from jitgrad.eager.arrays.arrays import device_of, library, to_host, transfer
from jitgrad.eager.autograd.engine import grad
from jitgrad.eager.autograd.grad_mode import set_grad_enabled
from jitgrad.eager.autograd.node import Node
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.ops import autocast
from jitgrad.script.call import signature as sig

#: what a result may be besides a tensor
NUMBERS = (bool, int, float)


@dataclass(frozen=True, slots=True)
class TensorResult:
    """A tensor among the results, on a device. `shape`: per axis a size, `(i,)`: the value of the node's input i, None:
    any."""

    dtype: dtype
    shape: tuple[Any, ...]
    device: device = CPU


@dataclass(frozen=True, slots=True)
class TupleResult:
    """A tuple, or namedtuple, of results."""

    type: type
    items: tuple[Any, ...]


@dataclass(slots=True)
class Run:
    """A scripted call under way that calls back.

    Attributes:
        leave: stores what a call-back says and makes its arguments, of its inputs as objects.
        snapshot: what the script has read and a call-back stored, now; comparable.
        changed: the name of the first thing in which two snapshots differ, or "".
        draws: whether the call has reserved the random numbers.
        tapes: per recorded call the results with history, by number, and the tensors it was given.
    """

    leave: Callable[[Any, Any], tuple[Any, Any]]
    snapshot: Callable[[Any], Any]
    changed: Callable[[Any, Any], str]
    draws: bool
    tapes: list[Tape] = field(default_factory=list)


class Recorded(NamedTuple):
    """A backward under way through calls that a `Run` recorded."""

    tapes: list[Tape]


#: what an argument of a call-back may be
ARGUMENTS = (sig.Output, sig.Same, sig.Static, sig.Given, sig.ViewOf, sig.OneOf, sig.Container, sig.Made,
             sig.Text)
Tape = tuple[dict[int, Tensor], dict[int, Tensor]]


class _Runs(threading.local):
    stack: tuple[Any, ...] = ()
    where: device | None = None  # of a program that is interpreted on the host
    tell: Callable[[], None] | None = None


_runs = _Runs()


@contextmanager
def running(run: Any) -> Iterator[None]:
    """`run`, a Run or (in a backward) a Recorded, is the innermost one of this thread inside the `with` block."""
    before = _runs.stack
    _runs.stack = (*before, run)
    try:
        yield
    finally:
        _runs.stack = before


@contextmanager
def on_host(where: device, tell: Callable[[], None]) -> Iterator[None]:
    """Inside, results are NumPy's arrays, wherever they are: for the interpreter of a program of the device `where`.
    `tell` brings what it has written to the tensors that a function may see, before one is called.
    """
    before = _runs.where, _runs.tell
    _runs.where, _runs.tell = where, tell
    try:
        yield
    finally:
        _runs.where, _runs.tell = before


def current() -> Any:
    """The innermost run of this thread."""
    return _runs.stack[-1]


@dataclass(slots=True, eq=False)
class Callback:
    """One place that calls Python.

    Attributes:
        function: what is called.
        arguments: how (args, kwargs) are made: a result tree over the node's inputs.
        stores: what the script assigned or changed before, and did not store: (place, tree over the node's inputs).
        result: None, a type of NUMBERS, a TensorResult or a TupleResult.
        recorded: inputs of the node through which a gradient may flow.
        grad: whether operations are recorded there.
        low: what autocast casts to there.
        random: whether the generator's offset and seed afterwards are results, the last but the handle.
        places: on which device the script has the node's inputs that are tensors, where it is known.
    """

    function: Any
    arguments: sig.Result
    stores: tuple[tuple[sig.Place, sig.Result], ...]
    result: Any
    recorded: tuple[int, ...]
    grad: bool
    low: autocast.Low | None
    random: bool
    places: Mapping[int, device] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def free_axes(self, k: int) -> tuple[int, ...]:
        """The axes of result k whose sizes only the call decides."""
        leaves = _flat(self.result)
        leaf = leaves[k] if k < len(leaves) else None
        return tuple(a for a, s in enumerate(leaf.shape) if s is None) if isinstance(leaf, TensorResult) else ()

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Call the function with the node's inputs; the node's results as arrays and numbers.

        Raises:
            what the function raises.
            TypeError: it returned something else than was declared.
            RuntimeError: it changed what the script has read.
        """
        run: Run = current()
        if _runs.tell is not None:
            _runs.tell()
        given = [self._given(i, v) for i, v in enumerate(values)]
        args, kwargs = run.leave(self, given)
        before = run.snapshot(self)
        others = random.default_generator.lent() if run.draws else nullcontext()
        with others, set_grad_enabled(self.grad), autocast.using(self.low):
            result = self.function(*args, **kwargs)
        changed = run.changed(before, run.snapshot(self))
        if changed:
            raise RuntimeError(f"the ignored function `{self.__name__}` changed {changed}, which the script has read "
                               "already; pass such values as arguments and return the new ones, or assign them in the "
                               "script")
        found: list[Any] = []
        self._flatten(self.result, result, values, found, "")
        outputs = [_result(x._data) if isinstance(x, Tensor) else x for x in found]
        if self.random:
            outputs += [random.default_generator.offset, random.default_generator.key]
        if self.recorded:
            outputs.append(self._record(run, found, {i: given[i] for i in self.recorded}))
        return outputs

    def _given(self, i: int, value: Any) -> Any:
        if isinstance(value, list):
            return [self._given(-1, v) for v in value]
        if not isinstance(value, library(value).ndarray):
            return value
        place = self.places.get(i, _runs.where)
        there = value if place is None else transfer(value, place)
        tensor = wrap(value.copy() if there is value else there)
        if i in self.recorded:
            tensor._needs = True
        return tensor

    # --- results ---

    def _flatten(self, expected: Any, value: Any, values: Sequence[Any], found: list[Any], where: str) -> None:
        """Append the leaves of `value`. Raises TypeError unless it is what was declared."""
        if isinstance(expected, TupleResult):
            if not isinstance(value, tuple) or len(value) != len(expected.items):
                raise self._wrong(where, value, f"a tuple of {len(expected.items)}")
            for i, (e, v) in enumerate(zip(expected.items, value, strict=True)):
                self._flatten(e, v, values, found, f"{where}[{i}]")
        elif isinstance(expected, TensorResult):
            found.append(self._tensor(expected, value, values, where))
        elif expected is None:
            if value is not None:
                raise self._wrong(where, value, "None")
        else:
            if expected is float and type(value) is int:
                value = float(value)
            if type(value) is not expected:
                raise self._wrong(where, value, f"{'an' if expected is int else 'a'} {expected.__name__}")
            found.append(value)

    def _tensor(self, expected: TensorResult, value: Any, values: Sequence[Any], where: str) -> Tensor:
        shape = tuple(values[s[0]] if isinstance(s, tuple) else s for s in expected.shape)
        if not isinstance(value, Tensor) or value.dtype is not expected.dtype or value.ndim != len(shape) or any(
                s is not None and s != n for s, n in zip(shape, value._data.shape, strict=True)):
            sizes = ", ".join("any" if s is None else str(s) for s in shape)
            raise self._wrong(where, value, f"a {expected.dtype} tensor of shape ({sizes})")
        if value.device != expected.device:
            place = f" as {where}" if where else ""
            raise RuntimeError(f"the ignored function `{self.__name__}` returned a tensor on {value.device}{place}, "
                               f"where the script expects one on {expected.device}: say where it is, with "
                               "`@jitgrad.ignore(returns=lambda ...: a tensor like it)`, or move it there")
        return value

    def _wrong(self, where: str, value: Any, expected: str) -> TypeError:
        given = type(value).__name__
        if isinstance(value, Tensor):
            given = f"a {value.dtype} tensor of shape ({', '.join(map(str, value._data.shape))})"
        place = f" as {where}" if where else ""
        return TypeError(f"the ignored function `{self.__name__}` returned {given}{place}, but its annotation (or "
                         f"`returns=`) says {expected}")

    # --- gradient ---

    def _record(self, run: Run, found: Sequence[Any], given: dict[int, Tensor]) -> int:
        """Keep the tape of results that have one; its number, or -1. Raises RuntimeError for other leaves in it."""
        outputs = {k: x for k, x in enumerate(found) if isinstance(x, Tensor) and x.requires_grad}
        if not outputs:
            return -1
        known = {id(x) for x in given.values()}
        foreign = next((x for x in _leaves(outputs.values()) if id(x) not in known), None)
        if foreign is not None:
            raise RuntimeError(
                f"the result of the ignored function `{self.__name__}` depends on a tensor that requires a gradient "
                f"and is no argument (shape {tuple(foreign.shape)}); pass it, or compute under `no_grad`")
        run.tapes.append((outputs, given))
        return len(run.tapes) - 1

    def backward(self, handle: int, wanted: Sequence[int], present: Sequence[int],
                 cotangents: Sequence[Any]) -> list[Any]:
        """Gradients of inputs `wanted` for cotangents of results `present`; None where there is none."""
        if handle < 0:
            return [None] * len(wanted)
        outputs, given = current().tapes[handle]
        reached = [(outputs[k], g) for k, g in zip(present, cotangents, strict=True) if k in outputs]
        if not reached:
            return [None] * len(wanted)
        gradients = grad([y for y, _ in reached], [given[i] for i in wanted], [
            wrap(transfer(g, y.device) if device_of(g) != y.device else g.copy()) for y, g in reached],
            retain_graph=True, allow_unused=True)
        return [None if g is None else _result(g._data) for g in gradients]


def _result(array: Any) -> Any:
    """A copy of an array for the program; for the interpreter on the host."""
    return np.array(to_host(array)) if _runs.tell is not None else array.copy()


def _flat(result: Any) -> list[Any]:
    """The leaves of what a call-back declares."""
    if isinstance(result, TupleResult):
        return [leaf for item in result.items for leaf in _flat(item)]
    return [] if result is None else [result]


def _leaves(tensors: Any) -> Iterator[Tensor]:
    """The tensors at which the history of `tensors` ends."""
    pending: list[Any] = []
    for x in tensors:
        if x._node is None:
            yield x
        else:
            pending.append(x._node)
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for edge in node.edges:
            if edge is None:
                continue
            if isinstance(edge[0], Node):
                pending.append(edge[0])
            else:
                yield edge[0]
