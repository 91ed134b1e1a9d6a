"""Everything that the caller of a short program can see, compared among eager, native and interpreted execution.

    @nasty(lambda: (ones(3), 2), lambda: (ones(4), 3))
    def name(x, n: int):
        '''What goes wrong elsewhere.'''
        ...

Each lambda makes the arguments of one call anew; the calls are made in sequence on one script. Seen are the exception
or the result, printed text, random numbers that would come next, and what is within reach of the arguments, the result
and the plain globals that the program names: which objects are the same, which tensors share which memory, values,
dtypes, `requires_grad`, `is_leaf` and `grad`, before and after a gradient of the result.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import io
import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import ScriptError
from tests.programs.harness import close

Arguments = Callable[[], tuple[Any, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Arguments, ...]]] = {}
#: what is the same object or not by no rule of Python's
VALUES = (int, float, str, bytes, type(None), type, range, slice, enum.Enum, types.FunctionType, types.ModuleType)


def nasty(*calls: Arguments) -> Callable[[Any], Any]:
    """Register the decorated function, with what makes the arguments of two or more calls."""
    assert len(calls) >= 2, "one call shows nothing of the next"

    def register(function: Any) -> Any:
        name = f"{function.__module__.rpartition('.')[2]}::{function.__name__}"
        assert name not in PROGRAMS, f"two programs are called {name}"
        assert function.__doc__, f"{name} does not say what goes wrong elsewhere"
        PROGRAMS[name] = function, calls
        return function

    return register


class View:
    """A walk over all that is within reach: each object once, in order, and tensors with the memory they show."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []
        self.tensors: list[Any] = []

    def of(self, value: Any) -> Any:
        """The value as nested plain data, in which an object that was there before is its number."""
        if isinstance(value, VALUES):
            return value
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)  # so that no other object gets its id
        if isinstance(value, Tensor):
            self.tensors.append(value)
            grad = self.of(value.grad) if value.is_leaf or value.retains_grad else None
            return ("tensor", value.detach().numpy().copy(), value.requires_grad, value.is_leaf, grad)
        kind = type(value).__name__
        if isinstance(value, dict):
            return (kind, [(self.of(k), self.of(v)) for k, v in value.items()])
        if isinstance(value, (set, frozenset)):
            return (kind, sorted(value, key=repr))
        if isinstance(value, (list, tuple)) or kind == "deque":
            return (kind, [self.of(v) for v in value])
        if isinstance(value, jitgrad.nn.Module):
            return (kind, [self.of(v) for v in (*value.parameters(), *value.buffers())])
        slots = [name for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
        return (kind, [(name, self.of(getattr(value, name))) for name in [*getattr(value, "__dict__", {}), *slots]])

    def shared(self) -> list[Any]:
        """Which tensors share memory, and how far apart they begin."""
        arrays = [t.detach().numpy() for t in self.tensors]
        return [(i, j, b.ctypes.data - a.ctypes.data) for (i, a), (j, b) in
                itertools.combinations(enumerate(arrays), 2) if np.shares_memory(a, b)]


@dataclasses.dataclass
class Seen:
    """One call, as its caller sees it."""

    error: Exception | None = None
    printed: str = ""
    reach: Any = None
    shared: Any = None
    backward: str = ""
    after: Any = None
    next_random: Any = None


def named_globals(function: Any) -> dict[str, Any]:
    """The plain globals that a function names."""
    names = {name for code in codes(function.__code__) for name in code.co_names}
    return {name: value for name, value in function.__globals__.items()
            if name in names and isinstance(value, (bool, int, float, str, list, dict, Tensor))}


def codes(code: types.CodeType) -> list[types.CodeType]:
    """A function's code and that of the functions in it."""
    return [code, *(c for k in code.co_consts if isinstance(k, types.CodeType) for c in codes(k))]


def observe(call: Callable[..., Any], function: Any, make: Arguments) -> Seen:
    """Call, look, differentiate, look again."""
    seen, result, printed = Seen(), None, io.StringIO()
    args = make()
    jitgrad.manual_seed(7)
    with contextlib.redirect_stdout(printed):
        try:
            result = call(*args)
        except Exception as error:  # which one it is, is compared
            seen.error = error
    seen.printed = printed.getvalue()
    view, within = View(), [args, result, named_globals(function)]
    seen.reach, seen.shared = view.of(within), view.shared()
    loss: Any = sum((t.double() + t.double() ** 2 / 2).sum() for t in view.tensors if t.requires_grad and not t.is_leaf)
    if isinstance(loss, Tensor):
        try:
            loss.backward()
        except RuntimeError as error:
            seen.backward = f"{error}"
    seen.after, seen.next_random = View().of(within), jitgrad.rand(2).numpy()
    return seen


def session(call: Callable[..., Any], function: Any, calls: tuple[Arguments, ...]) -> list[Seen]:
    """All calls, on globals that are as they were before the first."""
    kept = {name: copy.deepcopy(value) for name, value in named_globals(function).items()}
    try:
        return [observe(call, function, make) for make in calls]
    finally:
        function.__globals__.update(kept)


def same_error(expected: Exception | None, found: Exception | None) -> bool:
    """Whether the caller is told the same; what is found while compiling has the place besides."""
    if expected is None or not isinstance(found, ScriptError):
        return type(expected) is type(found) and str(expected) == str(found)
    return isinstance(found, type(expected)) and str(expected) in str(found)


def check(name: str, mode: str) -> None:
    """Assert that the calls of a script are seen as those of the function."""
    function, calls = PROGRAMS[name]
    expected = session(function, function, calls)
    with config.override(interpret=mode == "interpreted"):
        found = session(jitgrad.script(function), function, calls)
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert same_error(a.error, b.error), f"call {k}: eager {a.error!r}, {mode} {b.error!r}"
        for field in dataclasses.fields(Seen)[1:]:
            mine, theirs = getattr(a, field.name), getattr(b, field.name)
            assert close(mine, theirs), f"call {k}: {field.name}: eager {mine}, {mode} {theirs}"
