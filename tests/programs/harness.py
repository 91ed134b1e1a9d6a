"""Runs a program eagerly, interpreted and native: all that can be observed must agree, and nothing is compiled twice.

A module of this package holds programs of one theme, written as a user of PyTorch would write them:

    @program(
        (data(3, 4), weight(4, 4), 0.5),
        (data(1, 4), weight(4, 4), -2.0),
    )
    def name(x, w, rate: float):
        ...

One tuple of arguments per call, all on one script; every call gets copies. Tensors of `weight`, and parameters of
modules among the arguments, get gradients: that of the sum of `r + r * r / 2` over the differentiable results. A
program may be a subclass of `nn.Module`: then it is made once without arguments, and its state lives on from call
to call. Compared are results, printed text, exceptions, gradients (None stays None), the arguments and the module
afterwards, and the random numbers that would come next. After the first call nothing may be compiled, unless a size
becomes 1 or ceases to be (which sizes are 1 is in the key of a specialisation); a program that needs more says so
by `again=`, how often, and why by `reason=`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitgrad
from jitgrad import config, nn
from tests.observe import duplicate, leaves, plain, state

#: relative to the largest element of a tensor; float32 sums in another order differ by this much
TOLERANCES = {"float16": 1e-2, "float32": 5e-5, "float64": 1e-9}
SIZE_ONE = re.compile(r"had (not )?size 1 along axis \d+, has \d+$")
NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
PROGRAMS: dict[str, Program] = {}


@dataclass
class Program:
    """A function or a class of modules, and the calls that it is tried with."""

    make: Any
    calls: tuple[tuple[Any, ...], ...]
    again: int = 0
    reason: str = ""

    def new(self) -> Any:
        """The callable: the function itself, or an instance made under a fixed seed."""
        if not isinstance(self.make, type):
            return self.make
        jitgrad.manual_seed(1)
        return self.make()


def program(*calls: tuple[Any, ...], again: int = 0, reason: str = "") -> Callable[[Any], Any]:
    """Register the decorated function or class with arguments for two or more calls."""
    assert len(calls) >= 2, "one call shows nothing of recompilation"
    assert bool(again) == bool(reason), "say why it is compiled again"

    def register(make: Any) -> Any:
        name = f"{make.__module__.rpartition('.')[2]}::{make.__name__}"
        assert name not in PROGRAMS, f"two programs are called {name}"
        PROGRAMS[name] = Program(make, calls, again, reason)
        return make

    return register


# --- arguments -----------------------------------------------------------------------------------------------------


def data(*shape: int, seed: int = 0, scale: float = 1.0, dtype: Any = np.float32) -> Any:
    """A tensor of normal values that asks for no gradient."""
    return jitgrad.from_numpy((np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype))


def weight(*shape: int, seed: int = 1, scale: float = 0.5, dtype: Any = np.float32) -> Any:
    """A tensor of normal values that asks for a gradient."""
    return data(*shape, seed=seed, scale=scale, dtype=dtype).requires_grad_()


def ints(*values: Any) -> Any:
    """A vector of int64; nested sequences make a matrix."""
    return jitgrad.from_numpy(np.array(values, dtype=np.int64))


def tokens(*shape: int, below: int, seed: int = 2) -> Any:
    """Random int64 in [0, below)."""
    return jitgrad.from_numpy(np.random.default_rng(seed).integers(0, below, shape))


def floats(*values: Any) -> Any:
    """A float32 vector of these values; nested sequences make a matrix."""
    return jitgrad.from_numpy(np.array(values, dtype=np.float32))


def bools(*values: Any) -> Any:
    """A vector of bools; nested sequences make a matrix."""
    return jitgrad.from_numpy(np.array(values, dtype=bool))


# --- one run -------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """All that an observer sees of one call."""

    error: Exception | None = None
    result: Any = None
    gradients: Any = None
    printed: str = ""
    arguments: Any = None
    module: Any = None
    next_random: Any = None


def run(function: Any, given: tuple[Any, ...]) -> Outcome:
    """Call, differentiate, and say everything that can be observed."""
    args = duplicate(given)
    module = function if isinstance(function, nn.Module) else None
    asked = [x for x in leaves([args, module]) if x.requires_grad]
    for x in asked:
        x.grad = None
    outcome = Outcome()
    printed = io.StringIO()
    jitgrad.manual_seed(7)
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*args)
        except Exception as error:  # which exception it is, is compared
            outcome.error = error
        else:
            outcome.result = plain(result)
            reached = [r for r in leaves(result) if r.requires_grad]
            if reached:
                sum((r + r * r * 0.5).sum() for r in reached).backward()
    outcome.gradients = [None if x.grad is None else plain(x.grad) for x in asked]
    outcome.printed = printed.getvalue()
    outcome.arguments = plain(state(args))
    outcome.module = plain(state(module)) if module is not None else None
    outcome.next_random = plain(jitgrad.rand(2))
    return outcome


# --- comparison ----------------------------------------------------------------------------------------------------


def close(a: Any, b: Any) -> bool:
    """Equality of two `plain` values: floats within the tolerance of their dtype, everything else exactly."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind != "f":
            return np.array_equal(a, b)
        finite = np.abs(a[np.isfinite(a)])
        tolerance = TOLERANCES[a.dtype.name]
        return np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, finite.max(initial=0.0)), equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=5e-5, atol=1e-5, equal_nan=True))
    if isinstance(a, str) and isinstance(b, str):
        return close_text(a, b)
    return type(a) is type(b) and a == b


def close_text(a: str, b: str) -> bool:
    """Equality of texts whose decimal numbers may differ by rounding (and, fixed to few digits, by one in the last)."""
    mine, theirs = NUMBER.split(a), NUMBER.split(b)
    return len(mine) == len(theirs) and all(
        x == y or (k % 2 == 1 and "." in x and "." in y and abs(float(x) - float(y)) <= 1e-4 * abs(float(x))
                   + 1.01 * 10.0 ** -min(len(x.partition(".")[2]), 6))
        for k, (x, y) in enumerate(zip(mine, theirs, strict=True)))


def compare(eager: Outcome, other: Outcome, what: str) -> None:
    """Assert that two runs observed the same."""
    mine, theirs = eager.error, other.error
    if (mine is None) != (theirs is None):
        raise AssertionError(f"{what}: eager {mine!r}, compiled {theirs!r}") from (theirs or mine)
    if mine is not None:
        assert type(mine) in type(theirs).__mro__, f"{what}: eager {mine!r}, compiled {theirs!r}"
        assert close_text(str(mine), str(theirs)), f"{what}: eager {mine!r}, compiled {theirs!r}"
    for field in dataclasses.fields(Outcome):
        if field.name != "error":
            a, b = getattr(eager, field.name), getattr(other, field.name)
            assert close(a, b), f"{what}: {field.name}: eager {a}, compiled {b}"


def check(item: Program, modes: tuple[str, ...]) -> None:
    """Assert all that this module's docstring promises of a program."""
    function = item.new()
    eager = [run(function, args) for args in item.calls]
    for mode in modes:
        with config.override(interpret=mode == "interpreted"):
            scripted = jitgrad.script(item.new())
            for k, (args, expected) in enumerate(zip(item.calls, eager, strict=True)):
                compare(expected, run(scripted, args), f"{mode}, call {k}")
            again = [r for r in scripted.recompilations if not SIZE_ONE.search(r)]
            assert len(scripted.recompilations) == scripted.cache_info().compilations - 1
            assert len(again) == item.again, f"{mode}: compiled {len(again)} times more, not {item.again}: {again}"
