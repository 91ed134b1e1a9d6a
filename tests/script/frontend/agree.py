"""Small programs run eagerly, interpreted and native: values, gradients, effects and exceptions must agree.

A test module registers programs with `@program(args, args, ...)` (one tuple of arguments per call, all on one script)
and ends with `test_programs = suite(PROGRAMS)`.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import io
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.eager.tensor import Tensor
from jitgrad.script.frontend.source.source import source_of
from tests.observe import duplicate, leaves, plain, sharing, state
from tests.script.frontend.harness import same


def t(*shape: int, seed: int = 0) -> Any:
    """A float32 tensor of normal values."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def ints(*values: int) -> Any:
    """A vector of int64."""
    return torch.from_numpy(np.array(values, dtype=np.int64))


class Case:
    """A program and the calls that it is tried with."""

    def __init__(self, function: Any, calls: tuple[tuple[Any, ...], ...], compilations: int | None, grad: bool):
        self.function, self.calls, self.compilations, self.grad = function, calls, compilations, grad


def registry() -> tuple[list[Case], Callable[..., Any]]:
    """A list of cases and the decorator that fills it."""
    cases: list[Case] = []

    def program(*calls: tuple[Any, ...], compilations: int | None = 1, grad: bool = True) -> Any:
        def add(function: Any) -> Any:
            cases.append(Case(function, calls, compilations, grad))
            return function
        return add

    return cases, program


def suite(cases: list[Case]) -> Any:
    """The test function over the cases: each in both executions."""
    @pytest.mark.parametrize("mode", ["native", "interpreted"])
    @pytest.mark.parametrize("case", cases, ids=[c.function.__name__ for c in cases])
    def test_programs(case: Case, mode: str) -> None:
        with config.override(interpret=mode == "interpreted"):
            agree(case.function, *case.calls, compilations=case.compilations, grad=case.grad)
    return test_programs


def run(function: Any, args: tuple[Any, ...], *, fresh: bool = True) -> dict[str, Any]:
    """Call, differentiate the sum of the results, and say everything that can be observed."""
    args = duplicate(args) if fresh else args
    out, err = io.StringIO(), io.StringIO()
    inputs = leaves(args)
    observed: dict[str, Any] = {"error": None, "value": None}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            result = function(*args)
        except Exception as error:  # which exception it is, is compared
            observed["error"] = error
        else:
            observed["value"], observed["sharing"] = plain(result), sharing(result, *args)
            reached = [r for r in leaves(result) if r.requires_grad]
            observed["recorded"] = [r.requires_grad for r in leaves(result)]
            observed["aliases"] = [[r is a for a in inputs] for r in leaves(result)]
            if reached:
                sum((r * r * 0.5 + r).sum() for r in reached).backward()
                observed["grads"] = [None if a.grad is None else plain(a.grad) for a in inputs]
    observed["printed"], observed["errors"] = out.getvalue(), err.getvalue()
    observed["arguments"] = [plain(state(a)) for a in args]
    return observed


def with_grad(args: Any) -> Any:
    """Arguments whose float tensors ask for gradients."""
    if isinstance(args, Tensor):
        return duplicate(args).requires_grad_() if args.dtype.is_floating_point else args
    if isinstance(args, tuple) and hasattr(args, "_fields"):
        return type(args)(*(with_grad(a) for a in args))
    if isinstance(args, collections.deque):
        return collections.deque(map(with_grad, args), args.maxlen)
    if isinstance(args, (tuple, list)):
        return type(args)(with_grad(a) for a in args)
    if isinstance(args, dict):
        return {k: with_grad(v) for k, v in args.items()}
    if isinstance(args, (types.FunctionType, type, int, float, bool, str, type(None))):
        return args
    return copy.deepcopy(args)


def agree(function: Any, *calls: tuple[Any, ...], compilations: int | None = 1, grad: bool = True) -> None:
    """Assert that `function` and its script are the same to an observer, for every call; without and with gradients."""
    for asks in (False, True) if grad else (False,):
        scripted = torch.script(function)
        loops = any(isinstance(n, (ast.For, ast.While)) for n in ast.walk(source_of(function).node))
        for args in calls:
            given = with_grad(args) if asks else args
            compare(run(function, given), run(scripted, given), (function.__name__, args, asks), loops)
        if compilations is not None:
            found = scripted.cache_info().compilations
            assert found <= compilations, f"{found} compilations: {scripted.recompilations}"


def compare(eager: dict[str, Any], scripted: dict[str, Any], what: Any, loops: bool = False) -> None:
    """Assert that two runs observed the same."""
    mine, theirs = eager.pop("error"), scripted.pop("error")
    if (mine is None) != (theirs is None):
        raise AssertionError(f"{what}: eager {mine!r} {eager}, scripted {theirs!r} {scripted}") from theirs
    if mine is not None:
        assert type(mine) in type(theirs).__mro__, f"{what}: eager {mine!r}, scripted {theirs!r}"
        assert str(mine) in str(theirs), f"{what}: eager {mine!r}, scripted {theirs!r}"
    for key, value in eager.items():
        if key == "aliases" and loops:
            continue  # a variable that a loop rebinds is a new tensor even where the loop did not run
        assert same(value, scripted.get(key)), f"{what}: {key}: eager {value}, scripted {scripted.get(key)}"
