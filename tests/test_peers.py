"""Gradients through loops as other compilers got them wrong, re-created: ours are eager's, and the differences'.

Each program is small and our own; its docstring says what went wrong elsewhere. All run in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {}


def program(*calls: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Register a program with arguments: sequences of floats become tensors that ask for gradients."""
    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = function, calls
        return function
    return register


# --- state that a loop overwrites ----------------------------------------------------------------------------------


@program(([1.0, 2.0], 3), ([0.5, -1.0], 5))
def scalar_state_read_before_it_is_overwritten(x, n: int):
    """Warp: a loop with a run-time bound is not replayed backwards, so its adjoint reads the last state each time."""
    s = x[0]
    for _ in range(n):
        s = s * x[1] + s * s * 0.1
    return s


@program(([2.0, 2.0, 2.0], 1), ([1.0, 3.0, 0.5], 4))
def multiplied_in_place(x, n: int):
    """Warp: `*=` on an array element within a loop gives powers of the final value, or infinity."""
    y = torch.ones_like(x)
    for _ in range(n):
        y = y.clone()
        y *= x
    return y.sum()


@program(([2.0, 4.0], 2), ([1.0, -5.5], 3))
def divided_in_place(x, n: int):
    """Warp: `/=` likewise."""
    y = x * 1.0
    for i in range(n):
        y = y.clone()
        y /= x + i + 1
    return (y * y).sum()


@program(([1.0, 2.0, 3.0],), ([0.5, 0.5],))
def elements_accumulated_in_place(x):
    """Warp: a running sum kept in one element; its adjoint was counted once instead of once per iteration."""
    total = torch.zeros(1, dtype=x.dtype)
    for i in range(x.shape[0]):
        total[0] += x[i] * x[i]
    return total[0] * total[0]


@program(([0.3, 0.7], 6), ([1.1, 0.2], 3))
def two_states_that_change_places(x, n: int):
    """A swap of loop variables: adjoints must change places as well."""
    a, b = x[0], x[1]
    for _ in range(n):
        a, b = b, a * b + torch.sin(a)
    return a - 2 * b


@program(([1.5, 0.5], 3, 2), ([0.9, 0.4], 2, 4))
def inner_loop_over_the_state_of_the_outer(x, n: int, m: int):
    """Taichi: loops in loops with a state that both change; stacks of the inner one were sized for one run of it."""
    s = x[0]
    for i in range(n):
        for j in range(m + i):
            s = torch.tanh(s * x[1] + 0.1 * j)
        s = s + x[0] * s
    return s


@program(([0.4, 0.2, 0.9],), ([1.0, 2.0],))
def vector_state_in_a_loop(x):
    """Quadrants: the stack of a vector state was popped element by element in the wrong order."""
    v = torch.stack([x[0], x[-1], x[0] * x[1]])
    for i in range(x.shape[0]):
        v = torch.stack([v[1] * x[i], v[2] + v[0], v[0] * v[1]])
    return (v * torch.arange(1, 4, dtype=x.dtype)).sum()


# --- exits ---------------------------------------------------------------------------------------------------------


@program(([0.9, 1.7], 100), ([0.5, 3.0], 100), ([5.0, 1.1], 4))
def until_a_condition(x, limit: int):
    """PyTensor: the gradient of a scan that stops early was taken as if it had run to its end."""
    s = x[0]
    for _ in range(limit):
        s = s * x[1]
        if s > 6.0:
            break
    return s * s


@program(([3.0, 0.5],), ([10.0, 0.7],), ([0.1, 0.9],))
def while_of_unknown_length(x):
    """Taichi, JAX: no reverse mode for `while`."""
    s = x[0]
    while s * s > 0.2:
        s = s * x[1] - 0.01 * s * s
    return torch.exp(s)


@program(([1.0, -2.0, 3.0, -4.0],), ([-1.0, 2.0],), ([1.0, 1.0, 1.0],))
def iterations_that_are_skipped(x):
    """Taichi: `continue` in a differentiated loop."""
    s = torch.ones((), dtype=x.dtype)
    for v in x:
        if v < 0:
            continue
        s = s * v + v
    return s


@program(([2.0, 0.8], 5), ([0.5, 1.6], 5), ([0.1, 0.1], 2))
def return_from_a_loop(x, n: int):
    """Catalyst: an early return was ignored, without an error."""
    s = x[0]
    for i in range(n):
        if s > 3.0:
            return s * x[1] * (i + 1)
        s = s + x[1]
    return s * s


@program(([1.2, 0.8], 40), ([1.01, 0.3], 900))
def more_iterations_than_anyone_foresaw(x, n: int):
    """Dr.Jit: beyond `max_iterations` gradients are wrong, silently, in release builds."""
    s = x[0]
    for _ in range(n):
        s = s + 0.01 * torch.sin(s * x[1])
    return s


# --- branches ------------------------------------------------------------------------------------------------------


@program(([1.0, -1.0], True), ([1.0, -1.0], False))
def variable_of_one_side(x, flag: bool):
    """Warp: what one side leaves unset is uninitialised memory; AutoGraph: an error."""
    if flag:
        y = x * 3
    else:
        z = x * x
    return y.sum() if flag else z.sum()


@program(([-1.0, 2.0],), ([3.0, -0.5],))
def leak_by_branch(x):
    """cupy.fuse: a branch on the data is traced once, and the answer is wrong for the other sign."""
    out = torch.zeros((), dtype=x.dtype)
    for v in x:
        out = out + (v if v > 0 else 0.01 * v)
    return out


@program(([0.0, 1.0, 4.0],), ([-1.0, 2.0, 0.25],))
def guarded_root(x):
    """The side not taken must not send NaN through its zero cotangent."""
    total = torch.zeros((), dtype=x.dtype)
    for v in x:
        if v > 0:
            total = total + torch.sqrt(v)
        else:
            total = total + 2 * v
    return total


@program(([0.5, 2.0],), ([-0.5, 0.5],))
def short_circuit(x):
    """Warp: both operands of `and` are evaluated."""
    if x[0] > 0 and torch.log(x[0]).item() < 0:
        return x[0] * x[1]
    return x[1] * 3


@program(([1.0, 2.0], 0.1), ([1.0, 2.0], 0.7), ([1.0, 2.0], -3.0))
def float_that_changes_from_call_to_call(x, rate: float):
    """tinygrad: Python's constants are frozen at the second call; torch.compile: wrong from the third call on."""
    for k in range(2):
        x = x - rate ** (k + 1) * x * x if rate > 0 else x * rate
    return x.sum()


@program(([1.0, 2.0], -7, 3), ([1.0, 2.0], 7, -3))
def signs_of_the_modulus(x, a: int, b: int):
    """Warp, Taichi: the sign of `%` and the direction of `//` are C's."""
    return (x ** 2).sum() * (a % b) + x[0] * (a // b)


@program(([0.5, 0.25, 2.0], 3), ([1.5, 0.1, 1.0], 6))
def list_in_a_loop(x, n: int):
    """AutoGraph: a list appended to in a loop over tensors."""
    states = [x]
    for i in range(n):
        states.append(states[-1] * 0.9 + torch.sin(states[i // 2]))
    return torch.stack(states).prod(0).sum()


@program(([0.5, 2.0], 2), ([1.5, 0.3], 4))
def closures_over_a_loop_variable(x, n: int):
    """AutoGraph: lambdas over a loop's variable see another iteration."""
    total = torch.zeros((), dtype=x.dtype)
    for i in range(n):
        f = lambda v: v ** (i + 1)  # noqa: E731, B023
        total = total + f(x).sum() * (i + 2)
    return total


# --- the test ------------------------------------------------------------------------------------------------------


def tensors(args: tuple[Any, ...]) -> list[Any]:
    return [torch.tensor(a, dtype=torch.float64, requires_grad=True) if isinstance(a, list) else a for a in args]


def value_and_gradients(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, list[np.ndarray]]:
    given = tensors(args)
    result = function(*given)
    result.backward()
    return result.item(), [a.grad.numpy() for a in given if isinstance(a, torch.Tensor)]


def differences(function: Callable[..., Any], args: tuple[Any, ...], step: float = 1e-6) -> list[np.ndarray]:
    found = []
    for k, a in enumerate(args):
        if not isinstance(a, list):
            continue
        slopes = np.zeros(len(a))
        for i in range(len(a)):
            ends = []
            for h in (step, -step):
                moved = [*a[:i], a[i] + h, *a[i + 1:]]
                ends.append(function(*tensors((*args[:k], moved, *args[k + 1:]))).item())
            slopes[i] = (ends[0] - ends[1]) / (2 * step)
        found.append(slopes)
    return found


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loop_gradients(name: str, mode: str) -> None:
    function, calls = PROGRAMS[name]
    with config.override(interpret=mode == "interpreted"):
        scripted = torch.script(function)
        for args in calls:
            expected, slopes = value_and_gradients(function, args)
            found, gradients = value_and_gradients(scripted, args)
            assert found == pytest.approx(expected, rel=1e-12)
            for g, s, d in zip(gradients, slopes, differences(scripted, args), strict=True):
                np.testing.assert_allclose(g, s, rtol=1e-10, atol=1e-12)
                if name != "guarded_root" or 0.0 not in args[0]:  # its slope at zero is a choice
                    np.testing.assert_allclose(g, d, rtol=2e-5, atol=1e-6)
    assert len(scripted.recompilations) == 0


@pytest.mark.parametrize("name", ["scalar_state_read_before_it_is_overwritten", "until_a_condition",
                                  "while_of_unknown_length", "inner_loop_over_the_state_of_the_outer",
                                  "iterations_that_are_skipped"])
def test_second_order(name: str) -> None:
    """torch.compile has none; PyTensor's is untidy."""
    function, calls = PROGRAMS[name]
    scripted = torch.script(function)
    results = []
    for f in (function, scripted):
        x, *rest = tensors(calls[0])
        (g,) = torch.autograd.grad(f(x, *rest), (x,), create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), (x,))
        results.append(h.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9)
