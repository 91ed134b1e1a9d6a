"""Branches and loops that a GPU decides by itself: eager's values and gradients, and how often the host waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.codegen.cuda.host import device_regions
from jitgrad.codegen.cuda.kernels import text
from tests.codegen.cuda import host, machinecode
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.emulated


@pytest.fixture(autouse=True)
def driver() -> Iterator[StandinDriver]:
    with gpu() as driver, config.override(cache="", debug_arena=True):
        yield driver


def newton(x: Any, tol: float) -> Any:
    dx = torch.ones_like(x)
    while dx.abs().max() > tol:
        dx = (x - 0.5 * torch.sin(x) - 1.0) / (1.0 - 0.5 * torch.cos(x))
        x = x - dx
    return x


def bounded(x: Any, tol: float, limit: int) -> Any:
    k = 0
    err = tol + 1.0
    while err > tol and k < limit:
        new = torch.cos(x)
        err = (new - x).abs().max().item()
        x = new
        k += 1
    return x, k, err


def power(a: Any, v: Any) -> Any:
    old = v * 0
    while (v - old).abs().max() > 1e-3:
        old = v
        w = a @ v
        v = w / w.norm()
    return v, v @ (a @ v)


def conjugate(a: Any, b: Any) -> Any:
    x = torch.zeros_like(b)
    r = b - a @ x
    p = r
    rs = (r * r).sum()
    for _ in range(50):
        ap = a @ p
        alpha = rs / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = (r * r).sum()
        if new.sqrt() < 1e-5:
            break
        p = r + (new / rs) * p
        rs = new
    return x


def softmax_fixed_point(x: Any, w: Any) -> Any:
    """Rows, columns, products with transposed operands."""
    y = torch.softmax(x, 1)
    change = torch.ones((), device=x.device)
    while change > 1e-3:
        new = torch.softmax(y @ w.t() + x - y.mean(0), 1)
        change = (new - y).abs().sum(1).max()
        y = new
    return y * 2


def nested(x: Any) -> Any:
    while x.sum() > 1.0:
        y = x
        while y.max() > 0.5:
            y = y * 0.5
        x = x - 0.25 * y if y.sum() > 0.3 else x * 0.5
    return x + 1


def branch(x: Any) -> Any:
    y = x * 2
    z = y.exp() if y.sum() > 0 else y - 1
    return z * 3


def branches(x: Any) -> Any:
    y = x * 2
    if y.sum() > 0:
        if y.max() > 3:
            y = y - y.max()
        y = torch.softmax(y, 0)
    elif y.min() < -3:
        y = y.abs()
    return y * x


def counts(n: Any, start: int) -> Any:
    """Integers of 64 bits, bools, a counter that is returned."""
    steps = start
    while bool((n != 1).any()):
        n = torch.where(n == 1, n, torch.where(n % 2 == 0, n // 2, 3 * n + 1))
        steps += 1
    return n, steps


def inside(x: Any, w: Any) -> Any:
    """A loop between products that cuBLASLt makes."""
    h = x @ w
    while h.abs().max() > 1.0:
        h = h * 0.5
    return h @ w.t()


def zigzag(x: Any) -> Any:
    """What each branch saves is there in some iterations only."""
    while x.abs().max() > 0.2:
        if x.sum() > 0:
            y = x.sin()
            x = 0.7 * x - 0.1 * y * y
        else:
            x = 0.8 * x
    return x


def guarded(x: Any) -> Any:
    """Checks that only branches in a loop make."""
    while x.abs().sum() > 1.0:
        if x.sum() > 0:
            x = x * 0.5 - 0.01 * x.max() * x.sin()
        else:
            x = x * 0.7 - 0.01 * x.min() * x
    return x


def equilibrium(x: Any, w: Any, b: Any) -> Any:
    """Products with a bias and an activation until nothing changes."""
    F = torch.nn.functional
    h = F.relu(F.linear(x, w, b))
    change = h.abs().max() + 1.0
    while change > 1e-3:
        y = F.gelu(F.linear(h, w, b), approximate="tanh")
        new = F.relu(F.linear(y, w.t() * 0.5)) * 0.5 + x * 0.1
        change = (new - h).abs().max()
        h = new
    return h


def between(x: Any, w: Any) -> Any:
    """Branches and loops between products with epilogues, and inside a loop of the host's."""
    for _ in range(3):
        h = torch.nn.functional.linear(x, w).relu()
        while h.abs().max() > 1.0:
            h = h * 0.5
        h = h - 1 if h.sum() > 2.0 else h + 1
        x = torch.nn.functional.linear(h, w.t()).relu()
    return x


def summed(x: Any) -> Any:
    """In place, and a carry that is only added to."""
    total = torch.zeros_like(x)
    while total.max() < 10.0:
        total += x.abs() + 0.5
    return total


def randn(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, dtype=dtype)


def definite(n: int) -> Any:
    m = randn(n, n)
    return m @ m.t() + n * torch.eye(n)


@dataclass(frozen=True)
class Case:
    """waits: of a call without gradient, and of one with backward; None: not differentiable."""

    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    waits: int
    backward: int | None
    tolerance: float = 1e-4

    def __str__(self) -> str:
        return self.function.__name__


PROGRAMS = [
    Case(newton, lambda n: (randn(n), 1e-5), 0, 2),
    Case(newton, lambda n: (randn(n, 3).double().t(), 1e-9), 0, 2),
    Case(newton, lambda n: (randn(n).to(torch.float16), 0.02), 0, 2, 2e-2),
    Case(bounded, lambda n: (randn(n), 1e-2, 20), 1, 1),
    Case(power, lambda n: (definite(5), randn(5)), 0, 2, 1e-3),
    Case(conjugate, lambda n: (definite(n % 60 + 1), randn(n % 60 + 1)), 0, 3, 1e-3),
    Case(softmax_fixed_point, lambda n: (randn(n % 70 + 1, 12), 0.1 * randn(12, 12)), 0, 2),
    Case(nested, lambda n: (randn(n).abs(),), 0, None),
    Case(branch, lambda n: (randn(n),), 0, 1),
    Case(branches, lambda n: (randn(n),), 0, None),
    Case(counts, lambda n: (torch.arange(1, n % 40 + 2), 5), 1, None),
    Case(inside, lambda n: (randn(n % 50 + 1, 7), randn(7, 4)), 0, 2),
    Case(zigzag, lambda n: (randn(n),), 0, 3),
    Case(guarded, lambda n: (randn(n % 300 + 1),), 0, 3),
    Case(equilibrium, lambda n: (randn(n % 40 + 1, 5), 0.2 * randn(5, 5), randn(5)), 0, None, 1e-3),
    Case(equilibrium, lambda n: tuple([t.double() for t in (randn(n % 70 + 1, 37), 0.05 * randn(37, 37), randn(37))]),
         0, None),
    Case(between, lambda n: (randn(n % 50 + 1, 7), randn(4, 7)), 0, None),
    Case(summed, lambda n: (randn(n),), 0, None),
]


def flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def same(found: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(flat(found), flat(expected), strict=True):
        if isinstance(b, torch.Tensor):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a.detach().cpu().double().numpy(), b.detach().cpu().double().numpy(), tolerance,
                                       tolerance)
        else:
            assert type(a) is type(b)
            assert a == pytest.approx(b, rel=tolerance)


@pytest.mark.parametrize("order", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("case", PROGRAMS, ids=str)
def test_values(case: Case, order: bool, driver: StandinDriver) -> None:
    """The threads of each block in both orders; three blocks run at the same time."""
    scripted = torch.script(case.function)
    with driver.reversed(order):
        for n in (1, 7, 257, 9000) if not order else (257,):
            arguments = case.arguments(n)
            moved = tuple([a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments])
            same(scripted(*moved), case.function(*arguments), case.tolerance)
            before = driver.waits()
            scripted(*moved)
            assert driver.waits() - before == case.waits


def gradients(function: Callable[..., Any], where: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Of the sum of the results' squares, with respect to the arguments, moved to a device."""
    leaves = [a.detach().to(where).requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments]
    results = [r for r in flat(function(*leaves)) if isinstance(r, torch.Tensor)]
    sum([(r * r).sum() for r in results]).backward()
    return [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("case", [c for c in PROGRAMS if c.backward is not None], ids=str)
def test_gradients(case: Case, driver: StandinDriver) -> None:
    scripted = torch.script(case.function)
    for n in (1, 7, 257):
        arguments = case.arguments(n)
        found = gradients(scripted, "cuda", arguments)
        same(tuple(found), tuple(gradients(case.function, "cpu", arguments)), 10 * case.tolerance)
        before = driver.waits()
        gradients(scripted, "cuda", arguments)
        assert case.backward is not None
        assert driver.waits() - before <= case.backward


def test_a_loop_goes_on_where_a_sequence_was_full(driver: StandinDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_regions, "MOST_KEPT", 2)

    def decay(x: Any) -> Any:
        k = 0
        while x.abs().max() > 0.1:
            x = x * 0.9 + 0.01 * torch.sin(x)
            k += 1
        return x, k

    x, y = randn(33).requires_grad_(), randn(33)
    cuda = x.detach().cuda().requires_grad_()
    result, k = torch.script(decay)(cuda)
    expected, steps = decay(x)
    assert k == steps > 16
    (result * y.cuda()).sum().backward()
    (expected * y).sum().backward()
    same((result, cuda.grad), (expected, x.grad), 1e-4)


def test_what_the_kernel_cannot_do_the_host_does(driver: StandinDriver) -> None:
    """A counter near the end of 64 bits, an empty reduction, a large product: eager's result or exception."""
    large = (1 << 63) - 2
    n = torch.arange(1, 9)
    with pytest.raises(OverflowError):
        torch.script(counts)(n.cuda(), large)
    with pytest.raises((RuntimeError, IndexError)) as told:
        torch.script(newton)(randn(0).cuda(), 0.1)
    with pytest.raises(type(told.value)):
        newton(randn(0), 0.1)


def test_what_a_loop_leaves_as_it_was(driver: StandinDriver) -> None:
    """A counter and a tensor that are read after a loop that never ran, inside a loop of the host's."""
    @torch.script
    def f(x: Any, n: int) -> Any:
        steps, y = 7, x * 2
        for _ in range(n):
            while y.sum() > 100.0:
                y = y * 0.5
                steps = 3
            y = torch.cumsum(y, 0)
        return y, steps

    for start in (1.0, 90.0):
        for n in (0, 2):
            x = torch.full((3,), start)
            same(f(x.cuda(), n), f.eager(x, n), 1e-6)


def test_no_iterations_and_nan(driver: StandinDriver) -> None:
    scripted = torch.script(summed)
    for values in ([20.0, 1.0], [float("nan"), 1.0], [float("inf"), -1.0]):
        x = torch.tensor(values)
        same(scripted(x.cuda()), summed(x), 1e-6)


def test_shared_memory_of_a_block_is_enough() -> None:
    """Many reductions over columns, of several types, are left to the host; products share their tiles."""
    def many(x: Any, y: Any, z: Any) -> Any:
        while x.abs().max() > 1.0:
            a, b, c = x.sum(0), y.amax(0), z.amin(0)
            d, e, f = x.argmax(0), y.prod(0), z.argmin(0)
            x = x * 0.5 + (0.0 * (a + b + c + d + e + f)).float()
        return x

    def products(x: Any, w: Any) -> Any:
        while x.abs().max() > 1e-3:
            x = 0.1 * (x @ w + x.t() @ w + x @ w.t() + torch.relu(x @ w) + x.t() @ w.t())
        return x

    values = torch.randn(40, 6)
    texts = {}
    for name, f, given in (("many", many, (values, values.double(), values.to(torch.int64))),
                           ("products", products, (torch.randn(6, 6), torch.randn(6, 6) * 0.1))):
        texts[name] = [k for k in torch.script(f).kernels(*given, device="cuda")
                       if "jg_loop_" in k and "jg_loop_numbers" not in k]
    assert not texts["many"]
    assert len(texts["products"]) == 1
    if machinecode.by_nvrtc() or machinecode.NVCC:
        used = machinecode.compiled("\n".join([text.prelude(), *texts["products"]]), "sm_90")
        assert all(facts.stack <= machinecode.BARRIER and facts.registers <= 128 for facts in used.values())


def test_a_loop_that_never_ends_can_be_stopped(driver: StandinDriver) -> None:
    """All blocks leave it, and the next loop is not stopped."""
    def f(x: Any, to: Any) -> Any:
        while (x.sum() > to).any():
            x = x * 0.5
        return x * 2

    script = torch.script(f)
    ones = torch.ones(20000).cuda()
    expected = script(ones, torch.tensor(3.0).cuda()).cpu().numpy()
    driver.let_go_on(False)
    script(ones, torch.tensor(-1.0).cuda())
    driver.let_go_on(True)
    np.testing.assert_array_equal(script(ones, torch.tensor(3.0).cuda()).cpu().numpy(), expected)


def test_a_loop_that_only_counts_can_be_stopped(driver: StandinDriver) -> None:
    """It has no barrier of its own."""
    def f(x: Any) -> int:
        n = 0
        while x.sum() > 0:
            n = n + 1
        return n

    script = torch.script(f)
    assert script(torch.zeros(3).cuda()) == 0
    driver.let_go_on(False)
    script(torch.ones(3).cuda())
    driver.let_go_on(True)
    assert script(torch.zeros(3).cuda()) == 0


def test_kernels_with_loops_are_printed() -> None:
    kernels = torch.script(newton).kernels(randn(10), 1e-5, device="cuda")
    (loop,) = [k for k in kernels if "jg_loop_" in k]
    assert "while (" in loop
    assert "__restrict__" not in loop  # what one iteration reads another has written
    assert loop.count("jg_meet_or_stop(arrived, stop, seen)") == 1  # one barrier an iteration


def test_branches_in_a_loop_of_known_length_keep_what_the_gradient_needs() -> None:
    """Room for all iterations is made before the loop."""
    def f(x: Any, w: Any) -> Any:
        for k in range(3):
            if (x @ w).sum() > 0.2:
                w = w * 0.5
            x = torch.tanh(x) + k * w
        return x

    torch.manual_seed(0)
    given = [torch.randn(3, 3, dtype=torch.float64) for _ in range(2)]
    found = []
    for function in (torch.script(f), f):
        x, w = (t.cuda().requires_grad_() for t in given)
        y = function(x, w)
        y.sum().backward()
        found.append([t.detach().cpu().numpy() for t in (y, x.grad, w.grad)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
