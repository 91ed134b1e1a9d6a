"""Calls of one program, and everything that an observer can see of each."""

from __future__ import annotations

import bisect
import contextlib
import heapq
import inspect
import io
import itertools
import linecache
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import ScriptError
from jitgrad.script.stored.values import NotSavable
from tests.fuzz import world

PARAMETERS = "x, y, w, b, c, n: int, s: float, flag, maybe, xs, box"
ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, StopIteration,
          TypeError, ValueError)
#: a gradient that needs a value which is gone is refused; what it has done by then depends on the order of its steps
OVERWRITTEN = "modified by an inplace operation"
#: errors by which a script refuses at run time
FROM_ARGUMENTS = "create_graph=True computes a scripted function's gradient from its arguments"


def compile_source(source: str, name: str, **more: Any) -> Callable[..., Any]:
    """Execute the source so that `inspect` can find it again; `more`: what it may name besides."""
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"jitgrad": jitgrad, "State": world.State, "OFFSET": 1, "__name__": "fuzz", "heapq": heapq,
                             "bisect": bisect, "itertools": itertools, "Record": world.Record, "Odd": world.Odd,
                             "Odder": world.Odder, "replace": replace, **more}
    exec(compile(source, filename, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


def optimizer_of(source: str) -> str:
    """The optimizer that the program's first line names."""
    first = source.partition("\n")[0]
    return first[2:] if first[2:] in world.OPTIMIZERS else "SGD"


@dataclass
class Outcome:
    """What one run of a program did."""

    value: Any = None
    gradients: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)
    error: str = ""
    printed: str = ""
    state: Any = None
    refused: str = ""
    unsaved: str = ""  # why the program cannot be in a file
    overwritten: bool = False


def plain(value: Any, depth: int = 0) -> Any:
    """Tensors as copied arrays, objects as dicts of what they hold."""
    if isinstance(value, Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *(plain(v, depth + 1) for v in value)]
    if isinstance(value, dict):
        return {str(k) if not isinstance(k, Tensor) else f"key {i}": plain(v, depth + 1)
                for i, (k, v) in enumerate(value.items())}
    return value


def leaves(value: Any) -> list[Tensor]:
    """The tensors in a result."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in leaves(v)] if isinstance(value, (tuple, list)) else []


def _seeded(function: Callable[..., Any], seed: int, given: tuple[Any, ...]) -> Any:
    """A call by a thread, whose generator of random numbers starts at the seed."""
    jitgrad.manual_seed(seed)
    return function(*given)


class Session:
    """Calls of one function in one mode; a box may live from one to the next."""

    def __init__(self, function: Callable[..., Any], second_order: bool, optimizer: str = "SGD"):
        self.function, self.second_order, self.optimizer = function, second_order, optimizer
        self.box: Any = None
        self.scope = inspect.unwrap(function).__globals__

    def prepared(self, given: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
        """What is called, with what, and where the attributes are that it changes."""
        return self.function, given, self.box

    def run(self, case: world.Case) -> Outcome:
        """Call, differentiate, catch."""
        outcome = Outcome()
        if not case.again or self.box is None:
            self.box = world.Box(case.arrays[0].shape[1], self.optimizer, case.n)
        box = self.box
        x, y, w, b = [jitgrad.from_numpy(a.copy()).requires_grad_() for a in case.arrays[:4]]
        c = jitgrad.from_numpy(case.arrays[4].copy())
        maybe = jitgrad.from_numpy(case.arrays[1] * 0.5) if case.maybe else None
        xs = [jitgrad.from_numpy(case.arrays[3] * 0.3), jitgrad.from_numpy(case.arrays[3] - 0.2)]
        if case.change == "y is x":
            y = x
        if case.change in ("no gradient of x", "no gradients"):
            for t in (x,) if case.change == "no gradient of x" else (x, y, w, b):
                t.requires_grad_(False)
        if case.change == "maybe is c":
            maybe = c
        if case.change == "one tensor twice in xs":
            xs[1] = xs[0]
        self.scope["OFFSET"] = int(case.change[-1]) if case.change.startswith("OFFSET") else 1
        mode = jitgrad.no_grad() if case.change == "no_grad" else contextlib.nullcontext()
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed), mode:
                function, given, box = self.prepared((x, y, w, b, c, case.n, case.s, case.flag, maybe, xs, box))
                if case.change == "in a thread":
                    with ThreadPoolExecutor(1) as pool:
                        result = pool.submit(_seeded, function, case.n, given).result()
                else:
                    result = _seeded(function, case.n, given)
            outcome.value = plain(result)
        except NotSavable as reason:
            outcome.unsaved = str(reason)
        except ScriptError as error:
            outcome.refused, outcome.error = f"{type(error).__name__}: {error.message}", f"{error}"
        except ERRORS as error:
            outcome.error = f"{type(error).__name__}: {error}"
        else:
            try:
                self._differentiate(result, [x, y, w, b, box.p, box.q], outcome)
            except ERRORS as error:
                outcome.error = f"{type(error).__name__}: {error}"
                outcome.overwritten = OVERWRITTEN in outcome.error
                if FROM_ARGUMENTS in outcome.error:
                    outcome.refused = outcome.error
        outcome.printed = printed.getvalue()
        outcome.state = plain([c, xs, maybe, box.p, box.q, box.total, box.count, box.scale, box.last,
                               *(t.grad for t in (x, y, w, b, box.p, box.q)), dict(box.opt.state.items()),
                               box.opt.param_groups[0]["lr"],
                               [(t.requires_grad, t.is_leaf) for t in leaves((c, *xs, maybe, box.total, box.last))]])
        return outcome

    def _differentiate(self, result: Any, tensors: list[Any], outcome: Outcome) -> None:
        found = [t for t in leaves(result) if t.requires_grad and t.grad_fn is not None]
        if not found:
            return
        value = sum(((t * (0.5 + 0.25 * i)).sum() for i, t in enumerate(found)),
                    jitgrad.zeros((), dtype=jitgrad.float64))
        if not self.second_order:
            value.backward()
            outcome.gradients = [None if t.grad is None else t.grad.numpy().copy() for t in tensors]
            return
        first = jitgrad.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
        outcome.gradients = [None if g is None else g.detach().numpy() for g in first]
        total = sum(((g * g).sum() for g in first if g is not None), jitgrad.zeros((), dtype=jitgrad.float64))
        outcome.second = [None] * len(tensors)
        if total.requires_grad:
            second = jitgrad.autograd.grad(total, tensors, allow_unused=True)
            outcome.second = [None if g is None else g.numpy() for g in second]


class SavedSession(Session):
    """Each call runs what a file holds of the program, saved for that call alone as a method of the box."""

    def prepared(self, given: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
        *arguments, box = given
        box.__class__ = type("Box", (world.Box,), {"run": self.function})
        file = io.BytesIO()
        jitgrad.jit.save(box.run, file, example_inputs=tuple(arguments))
        file.seek(0)
        loaded = jitgrad.jit.load(file)
        return loaded, tuple(arguments), _Changed(loaded, box)


class _Changed:
    """The attributes of a loaded box and of its optimizer; those that the program does not use, as they were."""

    def __init__(self, loaded: Any, box: Any):
        self._loaded, self._box = loaded, box

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._loaded, name):
            return getattr(self._box, name)
        found = getattr(self._loaded, name)
        return _Changed(found, self._box.opt) if name == "opt" else found


def as_method(source: str) -> str:
    """The source of a program as a method of its box."""
    return source.replace(f"def f({PARAMETERS})", f"def f(box, {PARAMETERS.removesuffix(', box')})")


__all__ = ["Outcome", "SavedSession", "Session", "as_method", "compile_source", "optimizer_of"]
