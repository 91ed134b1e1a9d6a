"""Reductions over outer axes: vectors of neighbours, tails, addresses that are not aligned, several stages."""

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


def of_a_bias(x: Any, b: Any) -> Any:
    return ((x + b).tanh() * x).sum(0), (x * b).amax(0)


def softmax(x: Any, b: Any) -> Any:
    return (x * b).softmax(0)


def between(x: Any, b: Any) -> Any:
    y = x[:-1].unflatten(0, (2, -1)) + b
    return y.sum(1), y.argmax(1)


def from_the_second(x: Any, b: Any) -> Any:
    return (x[:, 1:] * 2).sum(0), x[:, 1:].var(0)


def alone(x: Any, b: Any) -> Any:
    return (b + 1).exp() + x.mean(0)


def drawn(x: Any, b: Any) -> Any:
    return F.dropout(x, 0.5).sum(0) * b


@pytest.mark.parametrize("d", [jitgrad.bfloat16, jitgrad.float16, jitgrad.float32, jitgrad.float64], ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (33, 8), (65, 300)], ids=str)
@pytest.mark.parametrize("f", [of_a_bias, softmax, between, from_the_second, alone, drawn], ids=lambda f: f.__name__)
def test_as_eager(f: Callable[..., Any], shape: tuple[int, int], d: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=shape), rng.normal(size=shape[1:])

    def run(f: Callable[..., Any], where: str) -> list[np.ndarray[Any, Any]]:
        jitgrad.manual_seed(1)
        found = f(*[jitgrad.tensor(a.astype(np.float32)).to(where).to(d) for a in arrays])
        return [t.to("cpu").double().numpy() for t in (found if isinstance(found, tuple) else (found,))]

    rough = {jitgrad.bfloat16: 2e-2, jitgrad.float16: 3e-3, jitgrad.float32: 2e-5, jitgrad.float64: 1e-12}[d]
    for a, b in zip(run(jitgrad.script(f), "cuda"), run(f, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rough, rough * (1 + np.abs(b).max()))


def test_halves_are_read_as_vectors() -> None:
    found = jitgrad.script(of_a_bias).traffic(jitgrad.empty(100, 64, dtype=jitgrad.bfloat16),
                                              jitgrad.empty(64, dtype=jitgrad.bfloat16))
    assert found.launches == 1


def test_sums_of_several_norms_end_in_one_kernel() -> None:
    """Each is added up with its norm's gradient; what the blocks have is added up for all at once, at the end."""
    @jitgrad.script
    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        y = F.layer_norm(x, (x.shape[-1],), a, b)
        return F.layer_norm(y.sin() @ y.T @ x, (x.shape[-1],), c)

    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((9, 40), (40,), (40,), (40,))]
    given = [jitgrad.tensor(a).cuda().requires_grad_() for a in arrays]
    own = [jitgrad.tensor(a).requires_grad_() for a in arrays]
    f(*given).sin().sum().backward()
    f(*own).sin().sum().backward()
    for x, y in zip(given, own, strict=True):
        assert x.grad is not None
        assert y.grad is not None
        np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-3)
    told = str(f.traffic(*given))
    assert [told.count(kind) for kind in ("jg_mix", "jg_col")] == [2, 1]


def normalised(x: Any, b: Any) -> Any:
    y = (x - x.mean(-2, keepdim=True)) / (x.var(-2, correction=0, keepdim=True) + 1e-3).sqrt()
    return y * b, (y * y).tanh().sum(-2)


def weighted(x: Any, b: Any) -> Any:
    return x.softmax(-2) * b, x.log_softmax(-2)


@pytest.mark.parametrize("d", [jitgrad.bfloat16, jitgrad.float32, jitgrad.float64], ids=str)
@pytest.mark.parametrize("shape", [(600, 3), (700, 130), (3, 521, 7), (2, 530, 64)], ids=str)
@pytest.mark.parametrize("f", [normalised, weighted], ids=lambda f: f.__name__)
def test_long_columns_are_shared_by_all_blocks(f: Callable[..., Any], shape: tuple[int, ...], d: Any) -> None:
    """A launch for each stage, with values and gradients as of eager code."""
    rng = np.random.default_rng(0)
    arrays = (rng.normal(size=shape) + 3).astype(np.float32), rng.normal(size=shape[-1:]).astype(np.float32)

    def run(f: Callable[..., Any], where: str) -> list[np.ndarray[Any, Any]]:
        given = [jitgrad.tensor(a).to(where).to(d).detach().requires_grad_() for a in arrays]
        found = f(*given)
        sum((y.float() * y.float()).sum() for y in found).backward()
        return [t.to("cpu").double().detach().numpy() for t in (*found, *[x.grad for x in given])]

    script = jitgrad.script(f)
    assert "_phase0" in str(script.traffic(*[jitgrad.tensor(a).to(d) for a in arrays]))
    rough = {jitgrad.bfloat16: 3e-2, jitgrad.float32: 2e-5, jitgrad.float64: 1e-12}[d]
    for a, b in zip(run(script, "cuda"), run(f, "cpu"), strict=True):
        np.testing.assert_allclose(a, b, rough, rough * (1 + np.abs(b).max()))


def test_a_batch_of_rows_is_normalised_in_two_launches() -> None:
    """Of which the first makes mean and variance; short columns, and many, have blocks of their own."""
    def norm(x: Any) -> Any:
        return F.batch_norm(x, None, None, training=True)

    for shape, form, times in (((40000, 256), "_phase0", 2), ((200, 256), "more", 3), ((600, 40000), "more", 3)):
        found = jitgrad.script(norm).traffic(jitgrad.empty(*shape))
        (step,) = found.steps
        assert step.name.endswith(form)
        size = 4 * shape[0] * shape[1]
        assert times * size <= step.read < (times + 0.1) * size
