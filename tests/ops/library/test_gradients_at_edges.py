"""Slopes, dtypes and shapes at the edges of functions are PyTorch's: its numbers are written here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.nn.functional as F

NAN, INF = math.nan, math.inf
#: function of x, x, the gradient of its sum
SLOPES = {
    "logit": (torch.logit, [-0.5, 0.0, -0.0, 0.25, 1.0, 1.5, NAN], [NAN, INF, INF, 16 / 3, INF, NAN, NAN]),
    "logit_eps": (lambda x: torch.logit(x, 0.3), [-0.5, 0.25, 0.5, 0.9, NAN], [0.0, 0.0, 4.0, 0.0, NAN]),
    "norm_of_negative_order": (lambda x: torch.linalg.vector_norm(x, -2), [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
    "hardshrink": (F.hardshrink, [NAN, 0.5, INF, 0.25, 1.0], [0.0, 0.0, 1.0, 0.0, 1.0]),
    "cumprod": (lambda x: torch.cumprod(x, 0), [1.0, INF, 0.0, 3.0], [INF, NAN, INF, 0.0]),
    "cumprod_of_two_zeros": (lambda x: torch.cumprod(x, 0), [2.0, 0.0, 2.0, 0.0, INF], [1.0, 6.0, 0.0, 0.0, 0.0]),
    "div_trunc": (lambda x: torch.div(x, 0.0, rounding_mode="trunc"), [INF, 1.0, 0.0, NAN], [0.0, 0.0, 0.0, 0.0]),
    "squeeze_of_no_axes": (lambda x: x.unsqueeze(0).squeeze([])[0] * 2, [1.0, 2.0], [2.0, 2.0])}


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str, scripted: bool) -> None:
    function, numbers, wanted = SLOPES[name]
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    run: Any = torch.script(function) if scripted else function
    run(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def cofactors(a: Any) -> Any:
    n = len(a)
    return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)]
                     for i in range(n)])


def slope_of_det(x: Any) -> Any:
    return torch.autograd.grad(torch.linalg.det(x), x, torch.ones((), dtype=x.dtype), create_graph=True)[0]


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("rank", range(5))
def test_determinants_of_singular_matrices_have_slopes(rank: int, kind: type, scripted: bool) -> None:
    rng = np.random.default_rng(rank)
    tall, wide, h = [rng.normal(size=s) + (1j * rng.normal(size=s) if kind is complex else 0)
                     for s in ((4, rank), (rank, 4), (4, 4))]
    a = tall @ wide
    x = torch.tensor(a, requires_grad=True)
    run: Any = torch.script(slope_of_det) if scripted and kind is float else slope_of_det
    first = run(x)
    np.testing.assert_allclose(first.detach().numpy(), cofactors(a).conj(), atol=1e-10)
    second, = torch.autograd.grad(first, x, torch.tensor(h))
    along = (cofactors(a + 1e-5 * h) - cofactors(a - 1e-5 * h)) / 2e-5
    np.testing.assert_allclose(second.numpy(), along.conj(), atol=1e-6)


def test_determinants_have_slopes_of_third_order() -> None:
    x = torch.tensor(np.random.default_rng(0).normal(size=(3, 3)), requires_grad=True)
    assert torch.autograd.gradgradcheck(slope_of_det, (x,))


def filled(x: Any, i: Any, value: Any) -> Any:
    return x.index_fill(0, i, value)


@pytest.mark.parametrize("run", [filled, torch.script(filled)])
def test_an_index_given_twice_fills_once(run: Any) -> None:
    x, value = torch.zeros(3, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    y = run(x, torch.tensor([0, 0, 1]), value)
    y.backward(torch.tensor([1.0, 2.0, 4.0]))
    assert y.tolist() == [1.0, 1.0, 0.0]
    assert value.grad.item() == 3.0
    assert x.grad.tolist() == [0.0, 0.0, 4.0]


def test_slices_that_renorm_leaves_have_their_slope() -> None:
    x = torch.tensor([[NAN, 1.0], [3.0, 4.0], [0.1, 0.2]], dtype=torch.float64, requires_grad=True)
    torch.renorm(x, 2, 0, 1.0).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[1, 1], [0.032, -0.024], [1, 1]], rtol=1e-6)


def test_a_norm_of_negative_order_of_infinities() -> None:
    assert torch.linalg.vector_norm(torch.tensor([INF, -INF]), -2).item() == INF


def test_integers_differ_as_integers_before_they_are_divided() -> None:
    x = torch.tensor([2**31 - 1, 0, -2**31, 5], dtype=torch.int32)
    np.testing.assert_allclose(torch.gradient(x)[0].numpy(), [-2147483648.0, 0.5, 2.5, -2147483648.0], rtol=1e-6)


@pytest.mark.parametrize(("kind", "dtype"), [(bool, torch.bool), (int, torch.int64), (float, torch.float64),
                                             (complex, torch.complex128)])
def test_pythons_types_are_dtypes(kind: type, dtype: Any) -> None:
    x = torch.ones(2)
    made = [torch.tensor([1], dtype=kind), torch.zeros(2, dtype=kind), torch.full((2,), 1, dtype=kind),
            torch.eye(2, dtype=kind), torch.ones_like(x, dtype=kind), x.new_ones(2, dtype=kind), x.to(kind),
            x.to(dtype=kind), x.sum(dtype=kind), torch.scalar_tensor(1, dtype=kind), torch.as_tensor([1], dtype=kind)]
    assert {m.dtype for m in made} == {dtype}


@pytest.mark.parametrize("make", [
    lambda d: torch.ones(2, dtype=d), lambda d: torch.tensor([1], dtype=d), lambda d: torch.arange(3, dtype=d),
    lambda d: torch.logspace(0, 1, 2, dtype=d), lambda d: torch.nansum(torch.ones(2), dtype=d),
    lambda d: torch.ones(2).to(dtype=d)])
@pytest.mark.parametrize("wrong", ["float32", str, 3])
def test_what_is_no_dtype_is_refused(make: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match="dtype"):
        make(wrong)


def test_scans_in_place_keep_their_dtype() -> None:
    x = torch.tensor([100, 100], dtype=torch.int8)
    assert x.cumsum_(axis=0).tolist() == [100, -56]
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        torch.ones(2).cumprod_(0, dtype=torch.float64)
    with pytest.raises(NotImplementedError, match="cumsum"):
        torch.tensor([True]).cumsum_(0)


def test_out_takes_the_order_of_the_result() -> None:
    x = torch.ones(2, 3, 4).permute(1, 2, 0)
    assert torch.sgn(x, out=torch.empty(0)).stride() == (4, 1, 12)
    with pytest.raises(TypeError, match="must be tuple of Tensors"):
        torch.slogdet(torch.eye(2), out=torch.empty(0))
    with pytest.raises(TypeError, match="input types can't be cast"):
        torch.cat([x, x], out=torch.empty(0, dtype=torch.int64))


def test_viewed_as_its_own_dtype_a_tensor_has_no_history() -> None:
    x = torch.ones(2, requires_grad=True) * 2
    y = x.view(torch.float32)
    assert not y.requires_grad
    assert y is not x
    y.t_().add_(1)
    assert x.tolist() == [3.0, 3.0]


def test_masks_larger_than_their_tensor() -> None:
    mask = torch.tensor([[True, False, True], [False, True, True]])
    found = torch.tensor(0.5).masked_scatter(mask, torch.arange(4.0))
    assert found.tolist() == [[0.0, 0.5, 1.0], [0.5, 2.0, 3.0]]


@pytest.mark.parametrize("copied", [lambda x: x.clone(), lambda x: x.double(), lambda x: x.bfloat16()])
def test_copies_of_repeated_elements_are_in_order(copied: Any) -> None:
    y = copied(torch.zeros(2, 1, 5).expand(2, 2, 5))
    assert y.stride() == (10, 5, 1)
    y.flatten().add_(1)
    assert y.sum().item() == 20.0
    assert copied(torch.zeros(3, 1).expand(3, 2).t()).stride() == (3, 1)


def test_targets_have_the_sizes_of_their_losses() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        F.nll_loss(torch.zeros(3, 5, 2, 3), torch.zeros(3, 2, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="batch_size"):
        F.nll_loss(torch.zeros(3, 5), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="1D target must have size 1"):
        F.nll_loss(torch.zeros(5), torch.zeros(2, dtype=torch.int64))
    assert F.nll_loss(-torch.arange(5.0), torch.tensor([3]), reduction="none").item() == 3.0
    assert torch.tensor(True).cumsum_(0).item() is True


@pytest.mark.parametrize("scripted", [False, True])
def test_binary_cross_entropy_at_certainty_has_finite_slopes(scripted: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return F.binary_cross_entropy(x, y, reduction="none")

    x, y = torch.tensor([0.0, 1.0, 1.0, 0.25]).requires_grad_(), torch.tensor([0.5, 0.5, 1.0, 0.5]).requires_grad_()
    loss = (torch.script(f) if scripted else f)(x, y)
    loss.sum().backward()
    np.testing.assert_allclose(loss.detach().numpy(), [50.0, 50.0, 0.0, -0.5 * math.log(0.1875)], rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), [-0.5e12, 0.5e12, 0.0, -0.25 / 0.1875], rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), [100.0, -100.0, -100.0, math.log(0.75 / 0.25)], rtol=1e-5)


@pytest.mark.parametrize("scripted", [False, True])
def test_what_is_written_over_as_a_whole_gets_zeros(scripted: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return torch.slice_scatter(x, y, 0)

    x, y = torch.ones(2).requires_grad_(), torch.ones(2).requires_grad_()
    found = torch.autograd.grad((torch.script(f) if scripted else f)(x, y).sum(), (x, y))
    assert [g.tolist() for g in found] == [[0.0, 0.0], [1.0, 1.0]]
