"""Norms whose backward sums rows and columns in one kernel, and what the backward computes again, as eager has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

pytestmark = host.emulated
F = jitgrad.nn.functional


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(x: Any, w: Any, b: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), w) + b


def residual(x: Any, w: Any, b: Any) -> Any:
    return x + F.gelu(F.layer_norm(x * 2, (x.shape[-1],), w, b))


def dropped(x: Any, w: Any, b: Any) -> Any:
    return F.dropout(F.gelu(x + b), 0.3) * w


def gradients(f: Any, shape: tuple[int, ...], d: Any, where: str, whole: bool = False) -> list[Any]:
    """Result and gradients, as float64 arrays. `whole`: the gradient is taken inside."""
    jitgrad.manual_seed(3)
    rng = np.random.default_rng(0)

    def given(*dims: int) -> Any:
        return jitgrad.tensor(rng.normal(size=dims).astype(np.float32)).to(where).to(d).requires_grad_()

    x, w, b = given(*shape), given(shape[-1]), given(shape[-1])
    g = given(*shape).detach()
    if whole:
        def run(x: Any, w: Any, b: Any, g: Any) -> Any:
            y = f(x, w, b)
            y.backward(g)
            return y.detach()

        y = (jitgrad.script(run) if where == "cuda" else run)(x, w, b, g)
    else:
        y = (jitgrad.script(f) if where == "cuda" else f)(x, w, b)
        y.backward(g)
    return [t.detach().to("cpu").to(jitgrad.float64).numpy() for t in (y, x.grad, w.grad, b.grad)]


@pytest.mark.parametrize("whole", [False, True], ids=["two programs", "one"])
@pytest.mark.parametrize(("shape", "d"), [
    ((3, 7), jitgrad.float32), ((1, 255), jitgrad.float32), ((9, 257), jitgrad.bfloat16), ((2, 3, 16), jitgrad.float32),
    ((300, 8), jitgrad.float16), ((2, 5000), jitgrad.float32), ((0, 5), jitgrad.float32), ((4, 1000), jitgrad.float64),
], ids=str)
@pytest.mark.parametrize("f", [layer_norm, rms_norm, residual, dropped], ids=lambda f: f.__name__)
def test_as_eager(f: Any, shape: tuple[int, ...], d: Any, whole: bool) -> None:
    if whole and shape[0] not in (3, 9, 2):
        pytest.skip("one program of each form is enough")
    with gpu():
        found = gradients(f, shape, d, "cuda", whole)
    wanted = gradients(f, shape, d, "cpu")
    rough = {2: 2e-2 if d is jitgrad.bfloat16 else 4e-3, 4: 2e-5, 8: 1e-12}[d.itemsize]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rough, rough * (1 + np.abs(b).max(initial=0)))


def test_runs_are_equal() -> None:
    with gpu():
        first, second = (gradients(layer_norm, (20, 100), jitgrad.float32, "cuda") for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_batch_norm_has_other_axes() -> None:
    """Sums over rows that the elements need again cannot be in one pass with them."""
    def f(x: Any, w: Any, b: Any) -> Any:
        y = x - x.mean(0, keepdim=True)
        return (y * w + b).softmax(-1)

    with gpu():
        found = gradients(f, (33, 12), jitgrad.float32, "cuda")
    for a, b in zip(found, gradients(f, (33, 12), jitgrad.float32, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


def test_what_is_not_a_number_stays_in_its_row_and_column() -> None:
    with gpu():
        x = jitgrad.ones(40, 24, device="cuda").cumsum(1).requires_grad_()
        w = jitgrad.ones(24, device="cuda", requires_grad=True)
        g = jitgrad.ones(40, 24, device="cuda")
        g[3, 5] = float("nan")
        jitgrad.script(layer_norm)(x, w, None).backward(g)
        dx, dw = (t.grad.cpu().numpy() for t in (x, w))
    assert np.isnan(dx[3]).all()
    assert not np.isnan(np.delete(dx, 3, 0)).any()
    assert np.isnan(dw[5])
    assert not np.isnan(np.delete(dw, 5)).any()


def cross_entropy(x: Any, y: Any, w: Any) -> Any:
    return F.cross_entropy(x, y, w, ignore_index=1, reduction="none")


@pytest.mark.parametrize("whole", [False, True], ids=["two programs", "one"])
@pytest.mark.parametrize(("shape", "d"), [
    ((5, 7), jitgrad.float32), ((1, 255), jitgrad.bfloat16), ((9, 257), jitgrad.float32),
    ((2, 40000), jitgrad.bfloat16), ((2, 11, 3), jitgrad.float32)], ids=str)
def test_cross_entropy(shape: tuple[int, ...], d: Any, whole: bool) -> None:
    def one(f: Any, where: str) -> list[Any]:
        rng = np.random.default_rng(1)
        x = jitgrad.tensor(3 * rng.normal(size=shape).astype(np.float32)).to(where).to(d).requires_grad_()
        y = jitgrad.tensor(rng.integers(0, min(shape[1], 9), (shape[0], *shape[2:]))).to(where)
        w = jitgrad.tensor(rng.uniform(1, 2, shape[1]).astype(np.float32)).to(where).to(d)
        if whole:
            def run(x: Any, y: Any, w: Any) -> Any:
                loss = cross_entropy(x, y, w).sum()
                loss.backward()
                return loss.detach()

            loss = f(run)(x, y, w)
        else:
            loss = f(cross_entropy)(x, y, w).sum()
            loss.backward()
        return [t.detach().to("cpu").to(jitgrad.float64).numpy() for t in (loss, x.grad)]

    with gpu():
        found = one(jitgrad.script, "cuda")
    rough = 2e-2 if d is jitgrad.bfloat16 else 2e-5
    for a, b in zip(found, one(lambda f: f, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rough, rough * np.abs(b).max())
