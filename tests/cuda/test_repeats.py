"""What kernels compute again instead of reading it: values as eager's, bytes, and where it must not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

pytestmark = host.emulated
F = jitgrad.nn.functional


@pytest.fixture(autouse=True)
def on_a_gpu() -> Iterator[None]:
    with gpu():
        yield


def between(x: Any) -> Any:
    y = (x.float() * 0.1).exp()
    k = y.sum().item()
    return y.sqrt() * k


def drawn(x: Any) -> Any:
    y = F.dropout(x.float(), 0.5)
    k = y.sum().item()
    return y * k


def twice(x: Any) -> Any:
    y = x.float().sin()
    k = y.sum().item()
    z = y * k
    m = z.sum(0)
    n = m.sum().item()
    return (z + m) * n


def of_rows(x: Any) -> Any:
    y = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    k = y.sum().item()
    return y * k


def moved(x: Any) -> Any:
    y = x.float().exp()
    k = y.sum().item()
    return y[1:] * k + y[:-1]


def turned(x: Any) -> Any:
    y = x.float().exp()
    k = y.sum().item()
    return y.T * k


def both_ways(x: Any) -> Any:
    y = x.float().exp()
    k = y.sum().item()
    return y.T[:6, :6] * k + y[:6, :6]


def square(x: Any) -> Any:
    y = (x[:6, :6].float() + 1).exp()
    k = y.sum().item()
    return y.T * k + y


def kept(x: Any) -> Any:
    y = x.float().exp()
    k = y.sum().item()
    return y, y * k


def written(x: Any) -> Any:
    y = x.float().exp()
    k = y.sum().item()
    x.mul_(0.5)
    return y * k


def looped(x: Any) -> Any:
    for _ in range(3):
        y = x.float().tanh()
        k = y.sum().item()
        x = (y * k).to(x.dtype)
    return x


def cross_entropy(x: Any) -> Any:
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x, jitgrad.arange(x.shape[0]).to(x.device))
    loss.backward()
    return loss.detach(), x.grad


def smoothed(x: Any) -> Any:
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x, jitgrad.arange(x.shape[0]).to(x.device), label_smoothing=0.1)
    loss.backward()
    return loss.detach(), x.grad


def weighted(x: Any) -> Any:
    x = x.detach().requires_grad_()
    weight = (jitgrad.arange(x.shape[1]) + 1).to(x.device, x.dtype)
    loss = F.cross_entropy(x, jitgrad.arange(x.shape[0]).to(x.device), weight, label_smoothing=0.1)
    loss.backward()
    return loss.detach(), x.grad


def by_places(x: Any) -> Any:
    x = x.detach().requires_grad_()
    rows = jitgrad.arange(x.shape[0], device=x.device)
    loss = -x.log_softmax(1)[rows, jitgrad.arange(x.shape[0], device=x.device) - 3].mean()
    loss.backward()
    return loss.detach(), x.grad


def of_a_product(x: Any) -> Any:
    w = jitgrad.full((x.shape[1], 40), 0.25, dtype=x.dtype).to(x.device).requires_grad_()
    loss = F.cross_entropy(x @ w, jitgrad.arange(x.shape[0]).to(x.device))
    loss.backward()
    return loss.detach(), w.grad


def trained(x: Any) -> Any:
    y = x.detach().clone().requires_grad_()
    loss = F.cross_entropy(y, jitgrad.arange(y.shape[0]).to(x.device))
    loss.backward()
    with jitgrad.no_grad():
        x.sub_(y.grad)
    return loss.detach()


def run(f: Callable[[Any], Any], d: Any, where: str) -> list[np.ndarray[Any, Any]]:
    jitgrad.manual_seed(1)
    x = jitgrad.tensor(np.random.default_rng(0).normal(size=(7, 40)).astype(np.float32)).to(where).to(d)
    found = f(x)
    return [t.to("cpu").double().numpy() for t in (*(found if isinstance(found, tuple) else (found,)), x)]


@pytest.mark.parametrize("d", [jitgrad.float32, jitgrad.bfloat16], ids=str)
@pytest.mark.parametrize("f", [between, drawn, twice, of_rows, moved, turned, both_ways, square, kept, written,
                               looped, cross_entropy, smoothed, weighted, by_places, of_a_product,
                               trained],
                         ids=lambda f: f.__name__)
def test_as_eager(f: Callable[[Any], Any], d: Any) -> None:
    for a, b in zip(run(jitgrad.script(f), d, "cuda"), run(f, d, "cpu"), strict=True):
        rough = 2e-2 if d is jitgrad.bfloat16 else 2e-5
        np.testing.assert_allclose(a, b, rough, rough * (1 + np.abs(b).max()))


def per_element(f: Callable[[Any], Any], d: Any = jitgrad.bfloat16) -> int:
    """Bytes moved for each element of x."""
    found = jitgrad.script(f).traffic(jitgrad.empty(4096, 4096, dtype=d))
    return round(found.bytes / 4096 ** 2)


@pytest.mark.parametrize(("f", "bytes_"), [
    (between, 2 + 2 + 4),       # x twice, not a float32 written and read
    (drawn, 2 + 2 + 4),
    (of_rows, 2 + 2 + 2 + 4),   # one more for the maxima
    (kept, 2 + 4 + 2 + 4),      # x rather than what is stored anyway
    (written, 2 + 4 + 4 + 4 + 2 + 2),
    (cross_entropy, 2 + 2 + 2),
    (smoothed, 2 + 2 + 2),
    (weighted, 2 + 2 + 2),
    (by_places, 2 + 2),
], ids=lambda f: getattr(f, "__name__", ""))
def test_bytes(f: Callable[[Any], Any], bytes_: int) -> None:
    assert per_element(f) == bytes_


def test_what_is_stored_anyway_is_read_where_that_is_not_more() -> None:
    assert per_element(kept, jitgrad.float32) == 4 + 4 + 4 + 4
