"""Runs one program in one mode and says everything that an observer can see; compares two such observations."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import re
import types
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import ScriptError
from tests.fuzz import world
from tests.fuzz.generator import program

PARAMETERS = "x, y, w, b, c, n: int, s: float, flag, maybe, xs, box"
ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
#: eager refuses a gradient that needs a value which is gone; a script, whose values never change, has it
OVERWRITTEN = "modified by an inplace operation"
#: errors by which a script refuses at run time
EMPTY_SUM = "is a number in Python, a tensor in a script"
FROM_ARGUMENTS = "create_graph=True computes a scripted function's gradient from its arguments"


def compile_source(source: str, name: str) -> Callable[..., Any]:
    """Execute the source so that `inspect` can find it again."""
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"jitgrad": jitgrad, "State": world.State, "OFFSET": 1, "__name__": "fuzz"}
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
    """A call by another thread, whose generator of random numbers starts at the seed too."""
    jitgrad.manual_seed(seed)
    return function(*given)


class Session:
    """Calls of one function in one mode; a box may live from one to the next."""

    def __init__(self, function: Callable[..., Any], second_order: bool, optimizer: str = "SGD"):
        self.function, self.second_order, self.optimizer = function, second_order, optimizer
        self.box: Any = None
        self.scope = inspect.unwrap(function).__globals__

    def run(self, case: world.Case) -> Outcome:
        """Call, differentiate, catch."""
        outcome = Outcome()
        columns = case.arrays[0].shape[1]
        if not case.again or self.box is None:
            self.box = world.Box(columns, self.optimizer, case.n)
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
        tensors = [x, y, w, b, box.p, box.q]
        printed = io.StringIO()
        jitgrad.manual_seed(case.n)
        try:
            with contextlib.redirect_stdout(printed), mode:
                given = (x, y, w, b, c, case.n, case.s, case.flag, maybe, xs, box)
                if case.change == "in a thread":
                    with ThreadPoolExecutor(1) as pool:
                        result = pool.submit(_seeded, self.function, case.n, given).result()
                else:
                    result = self.function(*given)
            outcome.value = plain(result)
        except ScriptError as error:
            outcome.refused, outcome.error = f"{type(error).__name__}: {error.message}", f"{error}"
        except ERRORS as error:
            outcome.error = f"{type(error).__name__}: {error}"
            if EMPTY_SUM in outcome.error:
                outcome.refused = outcome.error
        else:
            try:
                self._differentiate(result, tensors, outcome)
            except ERRORS as error:
                outcome.error = f"{type(error).__name__}: {error}"
                outcome.overwritten = OVERWRITTEN in outcome.error
                if FROM_ARGUMENTS in outcome.error:
                    outcome.refused = outcome.error
        outcome.printed = printed.getvalue()
        outcome.state = plain([c, xs, maybe, box.p, box.q, box.total, box.count, box.scale, box.last,
                               *(t.grad for t in tensors), dict(box.opt.state.items()),
                               box.opt.param_groups[0]["lr"]])
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


def close(a: Any, b: Any) -> bool:
    """Equal to an observer: kinds, structure, floats up to rounding."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(v, b[k]) for k, v in a.items())
    if isinstance(a, float):
        return bool(np.isclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True))
    if isinstance(a, (types.FunctionType, type)):
        return a is b
    return bool(a == b)


def foreseen(expected: Outcome, got: Outcome) -> bool:
    """Whether a program that cannot be compiled surely raises this exception."""
    return bool(got.refused and expected.error and expected.error.partition(": ")[2] in got.error)


def _zeros(text: str) -> str:
    """Printed text with the sign of rounded zeros dropped: that of a sum that cancels is the rounding's."""
    return re.sub(r"-(0\.0+)(?!\d)", r"\1", text)


def difference(expected: Outcome, got: Outcome) -> str:
    """What differs, or nothing."""
    if not expected.overwritten and expected.error != got.error and not foreseen(expected, got):
        return f"exception: expected {expected.error or 'none'!r}, got {got.error or 'none'!r}"
    if _zeros(expected.printed) != _zeros(got.printed) and not got.refused:
        return f"printed: expected {expected.printed!r}, got {got.printed!r}"
    if not close(expected.value, got.value):
        return f"value: expected {expected.value}, got {got.value}"
    if expected.overwritten or got.refused:
        return ""
    if not expected.error:
        for what, wanted, found in (("gradient", expected.gradients, got.gradients),
                                    ("second-order gradient", expected.second, got.second)):
            if not wanted:  # a result without history; a script knows only what may have one, and reaches nothing
                wanted = [None] * len(found)
            for i, (a, b) in enumerate(zip(wanted, found, strict=False)):
                if (a is None) != (b is None):
                    if what == "second-order gradient" and not np.any(a if b is None else b):
                        continue  # eager's None is zero here where a branch made a first gradient vanish
                    return f"{what} {i}: expected {_presence(a)}, got {_presence(b)}"
                if a is not None and not close(a, b):
                    return f"{what} {i}: expected {a}, got {b}"
    a, b = expected.state, got.state
    if expected.error:  # attributes that are bound anew are stored when a call ends, not when it raises
        a, b = ([v for name, v in zip(STATE[1:], s[1:] if isinstance(s[0], str) else s, strict=False) if name in KEPT]
                for s in (a, b))
    if not close(a, b):
        return f"state: {differing(expected.state, got.state)}"
    return ""


def _presence(gradient: Any) -> str:
    return "None" if gradient is None else "a tensor"


#: what an exception leaves as eager does: memory and numbers
KEPT = ("c", "maybe", "box.p", "box.q", "box.count", "box.scale")
STATE = ("list", "c", "xs", "maybe", "box.p", "box.q", "box.total", "box.count", "box.scale", "box.last", "x.grad",
         "y.grad", "w.grad", "b.grad", "p.grad", "q.grad", "optimizer", "lr")


def differing(a: Any, b: Any) -> str:
    """The first part of the state that differs."""
    if a is None or b is None:
        return f"expected {a}, got {b}"
    for name, p, q in zip(STATE, a, b, strict=False):
        if not close(p, q):
            return f"{name}: expected {p}, got {q}"
    return ""


@dataclass
class Report:
    """The outcome of one program: what differs, or why it was refused, or neither."""

    problem: str = ""
    refused: str = ""
    compilations: int = 0
    died: bool = False  # crashed or took too long, so that nothing makes it smaller here


def check_source(source: str, name: str, second_order: bool, cases: Sequence[world.Case],
                 modes: Sequence[str] = ("interpreted", "native")) -> Report:
    """Compare the modes of one program with eager on every case."""
    function, optimizer = compile_source(source, name), optimizer_of(source)
    eager = Session(function, second_order, optimizer)
    expected = [eager.run(case) for case in cases]
    report = Report()
    for mode in modes:
        with config.override(interpret=mode == "interpreted"):
            scripted = jitgrad.script(function)
            session = Session(scripted, second_order, optimizer)
            for i, (case, wanted) in enumerate(zip(cases, expected, strict=True)):
                if case.again and (expected[i - 1].error or expected[i - 1].overwritten):
                    break  # the state after a failed gradient is not compared, so nothing may build on it
                outcome = session.run(case)
                if outcome.refused and not foreseen(wanted, outcome):
                    report.refused = outcome.refused
                    return report
                found = difference(wanted, outcome)
                if found:
                    report.problem = f"{mode}, arguments {case}: {found}"
                    return report
            report.compilations = scripted.cache_info().compilations
    return report


def check_program(seed: int, modes: tuple[str, ...] = ("interpreted", "native")) -> Report:
    """Generate and compare one program. A crash of the compiler is a problem like any other."""
    try:
        return check_source(program(seed).source, str(seed), seed % 10 == 0, world.sequence(seed), modes)
    except Exception as error:  # whatever it is, it is the finding
        return Report(f"{type(error).__name__}: {error}")


__all__ = ["Outcome", "Report", "Session", "check_program", "check_source", "compile_source", "difference"]
