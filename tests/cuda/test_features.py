"""What else scripts and tensors of a GPU can do: as on the CPU, and results where they should be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.errors import CheckFailed
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

pytestmark = host.needs_compiler
F = nn.functional


@pytest.fixture(autouse=True, params=[False, True], ids=["native", "interpreted"])
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    with gpu(), config.override(cache="", interpret=request.param):
        yield


def near(a: Any, b: Any) -> None:
    assert a.is_cuda
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), 1e-5, 1e-6)


def decayed(x: Any) -> Any:
    k = x * 0 + 1
    for _ in range(3):
        if x.sum() > 0:
            k = k * x.sin()
        x = x * 0.5
    return k, x


def test_forward_mode_of_a_script() -> None:
    x, t = jitgrad.randn(2, 5).abs().unbind(0)
    found = jitgrad.func.jvp(jitgrad.script(decayed), (x.cuda(),), (t.cuda(),))
    expected = jitgrad.func.jvp(decayed, (x,), (t,))
    for a, b in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        near(a, b)


def test_an_exception_carries_tensors_of_the_gpu() -> None:
    @jitgrad.script
    def f(x: Any, k: int) -> Any:
        if x.sum() > k:
            raise ValueError("too much", x * 2, k)
        return x

    with pytest.raises(ValueError, match="too much") as told:
        f(jitgrad.ones(3).cuda(), 1)
    _, twice, k = told.value.args
    near(twice, jitgrad.full((3,), 2.0))
    assert k == 1


def test_a_function_sees_what_was_written_in_place() -> None:
    seen: list[Any] = []

    @jitgrad.ignore
    def show(x: Any, more: Any) -> None:
        seen.append((x.tolist(), x.device, more[0].device))

    @jitgrad.script
    def f(x: Any) -> Any:
        x.add_(1)
        show(x, [x * 2])
        x.add_(1)
        return x.sum()

    x = jitgrad.zeros(2).cuda()
    near(f(x), jitgrad.tensor(4.0))
    assert seen == [([1.0, 1.0], x.device, x.device)]


def test_a_checked_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole step is compared with plain Python, and what differs is found."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    optimizer = jitgrad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x, y = jitgrad.randn(6, 4).cuda(), jitgrad.tensor([0, 1, 2, 0, 1, 2]).cuda()
    first = [p.detach().clone() for p in net.parameters()]
    assert jitgrad.script(step, check=True)(x, y).is_cuda
    assert all((p != q).any() for p, q in zip(net.parameters(), first, strict=True))  # one step, and not two

    turn = iter(range(100))

    @jitgrad.ignore(returns=lambda x: x)
    def other(x: Any) -> Any:
        return x + next(turn)

    def drifts(x: Any) -> Any:
        return other(x) * 2

    with pytest.raises(CheckFailed, match="the result"):
        jitgrad.script(drifts, check=True)(x)


def test_a_model_is_exported_from_the_gpu() -> None:
    onnx = pytest.importorskip("onnx")
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = jitgrad.randn(2, 4)
    here = jitgrad.onnx.export(net, (x,), None)
    there = jitgrad.onnx.export(net.cuda(), (x.cuda(),), None)
    assert onnx.printer.to_text(there) == onnx.printer.to_text(here)


def test_a_function_of_which_one_result_is_not_used() -> None:
    """Its cotangent is zeros, on the GPU."""
    class Two(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * 2 + h * 3

    for f in (Two.apply, jitgrad.script(lambda x: Two.apply(x)[0])):
        x = jitgrad.ones(3).cuda().requires_grad_()
        result = f(x)
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        near(x.grad, jitgrad.full((3,), 2.0))


def test_a_view_without_elements_is_a_view() -> None:
    """What is written to it has a gradient, if an empty one."""
    for n in (0, 2):
        x, y = (jitgrad.ones(n, 2).cuda().requires_grad_() for _ in range(2))
        m = x * 2
        m.t().copy_(y.t())
        assert m.t()._base is m
        m.sum().backward()
        near(x.grad, jitgrad.zeros(n, 2))
        near(y.grad, jitgrad.ones(n, 2))
