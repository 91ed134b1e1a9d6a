"""What random programs beside PyTorch found: each answer is PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as t
import jitgrad.nn.functional as F
from jitgrad.errors import UnsupportedCall

INF, NAN = math.inf, math.nan


def slopes(f: Callable[[Any], Any], numbers: Any, dtype: Any = t.float32) -> Any:
    """The gradient of a sum."""
    x = t.tensor(numbers, dtype=dtype, requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(("numbers", "correction", "found"), [
    ([1.0, 3.0, 2.0], 3, [INF, INF, NAN]), ([1.0, 3.0, 2.0], 4, [INF, INF, NAN]), ([2.0], 1, [NAN]),
    ([1 + 2j, 3], 2, [INF, INF]), ([2j], 1, [NAN])])
def test_variances_without_degrees_of_freedom(numbers: Any, correction: int, found: Any, scripted: bool) -> None:
    def f(x: Any) -> Any:
        return t.var(x, correction=correction)

    is_complex = np.iscomplexobj(np.array(numbers))
    grad = slopes(t.script(f) if scripted else f, numbers, t.complex64 if is_complex else t.float32)
    np.testing.assert_array_equal(grad.real, found)
    np.testing.assert_array_equal(grad.imag, np.zeros(len(found)))


@pytest.mark.parametrize("scripted", [False, True])
def test_variances_along_axes_divide_by_what_is_left(scripted: bool) -> None:
    def f(x: Any) -> Any:
        return t.var(x, 0, correction=3)

    assert slopes(t.script(f) if scripted else f, [1.0, 3.0]).tolist() == [2.0, -2.0]


@pytest.mark.parametrize("scripted", [False, True])
def test_slopes_of_inverse_roots_have_no_sign_at_zero(scripted: bool) -> None:
    def f(x: Any) -> Any:
        return x ** -0.5

    grad = slopes(t.script(f) if scripted else f, [-0.0, 0.0, -INF, 4.0], t.float64)
    assert grad.tolist() == [-INF, -INF, 0.0, -0.0625]


def test_covariances_are_of_the_dtype_of_rows_and_weights() -> None:
    x, w = t.tensor([[1.0, 2, 3], [4, 5, 7]]), t.tensor([0.5, 1.0, 2.0])
    for d in (t.float16, t.bfloat16):
        found = t.cov(x.to(d), aweights=w)
        assert found.dtype is t.float32
        np.testing.assert_allclose(found.numpy(), [[13 / 14, 1.5], [1.5, 2.5]], rtol=1e-6)
        assert t.cov(x.to(d), fweights=t.tensor([1, 2, 3])).dtype is d
    assert t.cov(x, aweights=w.double()).dtype is t.float64
    with pytest.raises(RuntimeError, match="weights sum to zero"):
        t.cov(x, fweights=t.tensor([0, 0, 0]))


def test_covariances_of_integers_begin_with_their_sums() -> None:
    found = t.cov(t.tensor([[1, 2**62, 2**62, 5], [3, -2**62, 7, 2**62]]))
    np.testing.assert_allclose(found.numpy(), [[3.5446079e37, -7.0892162e36], [-7.0892162e36, 1.4178432e37]], rtol=1e-5)


@pytest.mark.parametrize("scripted", [False, True])
def test_each_nan_is_one_in_the_order_of_sort(scripted: bool) -> None:
    def f(x: Any) -> Any:
        return t.unique(x, return_inverse=True)

    x = t.tensor([NAN, 1.0, NAN, 2.0] * 10, dtype=t.float64)
    values, inverse = (t.script(f) if scripted else f)(x)
    assert len(values) == 22
    order = [p for p in t.sort(x).indices.tolist() if p % 2 == 0]
    assert [inverse[p].item() for p in order] == [*range(2, 22)]


@pytest.mark.parametrize(("call", "strides"), [
    (lambda o: t.ceil(t.ones(4, 4, dtype=t.int64).t(), out=o), (1, 4)),
    (lambda o: t.erf(t.ones(2, 3, 2).permute(1, 2, 0), out=o), (2, 1, 6)),
    (lambda o: t.ne(t.ones(4, 4, 4).permute(2, 1, 0), t.ones(4, 4, 4), out=o), (1, 4, 16)),
    (lambda o: t.ne(t.ones(4, 4, 4), t.ones(4, 4, 4).permute(2, 1, 0), out=o), (16, 4, 1)),
    (lambda o: t.add(t.ones(3, 1, 4), t.ones(4, 4).t(), out=o), (16, 1, 4)),
    (lambda o: t.logical_or(t.ones(2, 1, 2).expand(2, 4, 2), t.ones(2, 4, 1), out=o), (8, 2, 1))])
def test_memory_that_out_gets_lies_as_that_of_the_operands(call: Any, strides: tuple[int, ...]) -> None:
    out = t.zeros(0, dtype=t.int64 if strides == (1, 4) else t.float32)
    assert call(out) is out
    assert out.stride() == strides
    assert (out == call(t.zeros(out.shape, dtype=out.dtype))).all()


def test_without_a_beta_a_smooth_loss_is_that_of_complex_numbers_too() -> None:
    assert F.smooth_l1_loss(t.tensor([3 + 4j]), t.tensor([0.0]), beta=0.0).item() == 5.0


@pytest.mark.parametrize("scripted", [False, True])
def test_a_mask_of_more_axes_than_what_is_scattered_to(scripted: bool) -> None:
    def f(x: Any, mask: Any, source: Any) -> Any:
        return x.masked_scatter(mask, source)

    run = t.script(f) if scripted else f
    assert run(t.ones(3, 0), t.ones(2, 3, 0, dtype=t.bool), t.ones(0)).shape == (2, 3, 0)
    found = run(t.zeros(3), t.tensor([[True, False, True], [False, True, False]]), t.arange(1.0, 5.0))
    assert found.tolist() == [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]


@pytest.mark.parametrize("p", [-2.0, -1.0, 0.5])
@pytest.mark.parametrize("scripted", [False, True])
def test_slopes_of_norms_that_are_nan_are_nan_at_zero_too(p: float, scripted: bool) -> None:
    def f(x: Any) -> Any:
        return t.linalg.vector_norm(x, p)

    run = t.script(f) if scripted else f
    assert np.isnan(slopes(run, [0.0, 1.0, NAN])).all()
    assert slopes(run, [0.0, 0.0]).tolist() == [0.0, 0.0]


def test_differences_of_nothing_are_what_is_given() -> None:
    x = t.ones(2, 0, requires_grad=True)
    assert t.diff(x) is x
    assert t.diff(x, 0, prepend=t.ones(2, 1)).shape == (2, 0)
    assert t.diff(t.ones(2, 3), 4).shape == (2, 0)


def test_masks_of_attention_may_be_of_float32() -> None:
    q = t.ones(1, 2, 4, dtype=t.float16)
    assert F.scaled_dot_product_attention(q, q, q, t.zeros(2, 2)).dtype is t.float16


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16])
def test_one_element_of_a_half_type_may_overflow(dtype: Any) -> None:
    assert t.zeros(1, 1, dtype=dtype).fill_(1e39).item() == t.full((), 1e39, dtype=dtype).item() == INF
    for fill in (lambda: t.zeros(2, dtype=dtype).fill_(1e39), lambda: t.full((2,), 1e39, dtype=dtype)):
        with pytest.raises(RuntimeError, match="without overflow"):
            fill()


def test_scripts_name_arguments_before_leaves() -> None:
    def f(x: Any) -> Any:
        return x.masked_fill_(mask=x > 0, value=-2, nonsense=1)

    for run in (f, t.script(f)):
        with pytest.raises(TypeError, match="nonsense"):
            run(t.ones(2, requires_grad=True))


@pytest.mark.parametrize("write", [lambda x: x.neg_(), lambda x: x.clamp_(-1, 1), lambda x: x.add_(1)])
def test_scripts_name_leaves(write: Any) -> None:
    for run in (write, t.script(lambda x: write(x))):
        with pytest.raises(RuntimeError, match="a leaf Variable"):
            run(t.ones(2, requires_grad=True))


def test_strides_of_views_of_nothing_in_scripts() -> None:
    def f(x: Any) -> Any:
        return x.view_as(x).stride()

    assert t.script(f)(t.ones(3, 0, 2, 4)) == f(t.ones(3, 0, 2, 4)) == (8, 8, 4, 1)


def test_ends_of_lerp_have_one_dtype() -> None:
    with pytest.raises(RuntimeError, match="expected dtype bool for `end`"):
        t.lerp(t.tensor(True), t.tensor(1), t.tensor(1))


@pytest.mark.parametrize("dtype", [t.float32, t.float64, t.int32])
@pytest.mark.parametrize("step", [2, 3, 4, 8, 16])
def test_negatives_over_every_few_elements(dtype: Any, step: int) -> None:
    x = t.arange(1, 9 * step + 1, dtype=dtype)
    x[::step].neg_()
    wanted = np.arange(1, 9 * step + 1)
    wanted[::step] *= -1
    assert x.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [t.float64, t.int32, t.uint8])
@pytest.mark.parametrize("scripted", [False, True])
def test_numbers_written_through_a_view_of_the_bytes(dtype: Any, scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        part = y.view(dtype)
        part.fill_(3)
        return y, part

    y, part = (t.script(f) if scripted else f)(t.zeros(2, 2, dtype=t.int64))
    assert (part == 3).all()
    assert np.array_equal(y.numpy().view(dtype.np), part.numpy())


@pytest.mark.parametrize("dtype", [t.float64, t.int64, t.int32])
@pytest.mark.parametrize("scripted", [False, True])
def test_the_bytes_in_order_are_no_copy(dtype: Any, scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y.view(dtype).ravel()[0] = 3
        return y

    found = (t.script(f) if scripted else f)(t.zeros(2, 3, dtype=t.int64))
    assert found.numpy().view(dtype.np)[0, 0] == 3


@pytest.mark.parametrize("scripted", [False, True])
def test_what_is_written_at_true_is_cast(scripted: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.clone()
        z[True] = y[True]
        return z

    found = (t.script(f) if scripted else f)(t.zeros(2, 3), t.ones(2, 3, dtype=t.float64))
    assert found.dtype is t.float32
    assert found.tolist() == [[1.0] * 3] * 2


def test_what_is_made_of_repeated_elements_is_in_row_order() -> None:
    x = t.flip(t.ones(1, 5).expand(4, 5), (-1,))
    assert x.stride() == (5, 1)
    y = x.clone()
    y.contiguous().add_(1)
    assert (y == 2).all()
    assert t.flip(t.ones(4, 2, 5).permute(1, 2, 0), (-1,)).stride() == (5, 1, 10)


@pytest.mark.parametrize(("view", "moves"), [
    (lambda x: x.diagonal(0, 2, 3), False), (lambda x: x.unfold(3, 2, 2), False),
    (lambda x: x[0].diagonal(0, 1, 2), False),
    (lambda x: x.diagonal(0, 1, 2), True), (lambda x: x.diagonal(0, 0, 3), True), (lambda x: x.unfold(1, 2, 2), True)])
@pytest.mark.parametrize("change", [lambda x: t.flip(x, (0,)), lambda x: x * 2])
def test_writes_to_reshapes_of_what_is_computed_of_views(view: Any, moves: bool, change: Any) -> None:
    """Where the axes of a view lie in another order, as does what is computed of it, a reshape is a copy in eager."""
    def f(x: Any) -> Any:
        y = change(view(x))
        y.reshape(-1).clamp_(-1, 1)
        return y

    x = t.arange(256.0).reshape(4, 4, 4, 4) - 100
    if moves:
        assert f(x).abs().max() > 1
        with pytest.raises(UnsupportedCall, match="may be a copy"):
            t.script(f)(x)
    else:
        assert t.script(f)(x).equal(f(x))


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("chosen", [True, False])
def test_complex_numbers_fill_real_places_where_they_have_no_imaginary_part(scripted: bool, chosen: bool) -> None:
    def filled(x: Any, mask: Any, z: Any) -> Any:
        return t.masked_fill(x, mask, z)

    def written(x: Any, mask: Any, z: Any) -> Any:
        y = x.clone()
        y[:, mask] = z
        return y

    for f, mask in ((filled, t.tensor(chosen)), (written, t.tensor([chosen, False]))):
        run = t.script(f) if scripted else f
        assert run(t.ones(2, 2), mask, t.tensor(3 + 0j))[0, 0].item() == (3.0 if chosen else 1.0)
        with pytest.raises(RuntimeError, match="without overflow"):
            run(t.ones(2, 2), mask, t.tensor(3 + 1j))


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_copies_of_leaves_that_reshape_makes_may_be_written(scripted: bool, grad: bool) -> None:
    def f(x: Any) -> Any:
        y = x.unflatten(1, (4, 2)).select(2, 1).reshape((1, -1))
        y.add_(1)
        return x.sum(), y.sum()

    x = t.ones(2, 8, 2, requires_grad=grad)
    assert [s.item() for s in (t.script(f) if scripted else f)(x)] == [32.0, 32.0]


def test_rms_norm_takes_complex_numbers_by_both_names() -> None:
    z = t.tensor([3 + 4j, 1])
    assert t.rms_norm(z, (2,)).tolist() == F.rms_norm(z, (2,)).tolist()


def test_what_has_no_axes_is_its_own_transpose() -> None:
    x = t.tensor(1.5, requires_grad=True)
    assert x.mT is x
    assert x.H is x


def test_deviations_of_complex_numbers_without_degrees_of_freedom_have_real_slopes() -> None:
    x = t.tensor([1 + 1.5j, 1.5j], requires_grad=True)
    t.std(x, correction=3).backward()
    assert [math.isnan(g.real) for g in x.grad.tolist()] == [True, True]
    assert x.grad.imag.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scripted", [False, True])
def test_means_of_complex_numbers_at_indices_leave_out_what_was_there(scripted: bool) -> None:
    def f(x: Any, i: Any, s: Any) -> Any:
        return x.scatter_reduce(0, i, s, "mean", include_self=False)

    found = (t.script(f) if scripted else f)(t.ones(3) * 1j, t.tensor([0, 0, 2]), t.tensor([1 + 2j, 3, 4j]))
    assert found.tolist() == [2 + 1j, 1j, 4j]


def test_scripts_say_of_nothing_that_it_is_in_row_order() -> None:
    def f(x: Any) -> Any:
        return x.movedim(0, 1).select(0, 1).is_contiguous()

    assert f(t.ones(2, 4, 0))
    assert t.script(f)(t.ones(2, 4, 0))


def test_keywords_that_a_method_of_memory_does_not_take_are_type_errors_in_scripts() -> None:
    def f(x: Any) -> Any:
        return x.storage_offset(nonsense=1)

    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        t.script(f)(t.ones(3))


@pytest.mark.parametrize("scripted", [False, True])
def test_slopes_of_writes_to_overlapping_windows_are_those_of_the_last(scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = x * 1
        windows = y.unfold(0, 2, 1).triu_()
        return y.sum() + windows.sum()

    assert slopes(t.script(f) if scripted else f, [1.0, 2.0, 3.0, 4.0]).tolist() == [2.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("write", [lambda y: y[0].fill_(5), lambda y: y.mul_(2)])
@pytest.mark.parametrize("first", [True, False])
def test_views_of_what_was_written_and_detached_in_place_lead_nowhere(write: Any, first: bool) -> None:
    x = t.ones(4, requires_grad=True)
    y = x * 1
    view = y[:2]
    steps = (lambda: write(y), y.detach_)
    for step in steps if first else steps[::-1]:
        step()
    assert view.requires_grad
    assert not view.is_leaf
    assert t.autograd.grad(view.sum(), x, allow_unused=True) == (None,)


def test_scripts_refuse_to_detach_in_place_what_was_written_under_a_view() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        view = y[:2]
        y[0] = 5
        y.detach_()
        return view

    with pytest.raises(UnsupportedCall, match="written to, and of which there are views"):
        t.script(f)(t.ones(4, requires_grad=True))


@pytest.mark.parametrize("scripted", [False, True])
def test_views_of_one_element_are_one_memory(scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = x.permute(1, 0)
        y[t.tensor([0]), 0] = y
        return x

    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        (t.script(f) if scripted else f)(t.ones(1, 1))


def test_real_parts_of_permuted_complex_numbers_lie_in_row_order_in_an_out() -> None:
    z = t.ones(2, 3, dtype=t.complex128).t()
    assert t.angle(z, out=t.zeros(0)).stride() == (2, 1)
    assert t.exp(z, out=t.zeros(0).cdouble()).stride() == (1, 3)


def test_whether_a_leaf_is_made_is_a_bool_in_scripts_too() -> None:
    with pytest.raises(TypeError, match="'requires_grad'"):
        t.script(lambda x: (x * 1).requires_grad_("constant"))(t.ones(2))


@pytest.mark.parametrize("scripted", [False, True])
def test_values_of_more_axes_than_indices_choose_do_not_fit(scripted: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        x[t.tensor(True), t.tensor([0, 1]), 0] = y
        return x

    with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
        (t.script(f) if scripted else f)(t.ones(3, 2), t.ones(6, 2))


def test_infinite_complex_quotients_are_multiplied_before() -> None:
    found = t.addcdiv(t.ones(1) * 1j, t.tensor([1 + 1j]), t.tensor([0]).byte(), value=5).item()
    assert found.real == found.imag == INF


@pytest.mark.parametrize("mode", ["amin", "prod"])
def test_one_place_may_be_an_index_without_axes(mode: str) -> None:
    found = t.arange(3).scatter_reduce(0, t.tensor(1), t.zeros(2, dtype=t.int64), mode)
    assert found.tolist() == [0, 0, 2]


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("gradient", [NAN, INF])
def test_deviations_of_equal_numbers_have_no_slope_whatever_comes(scripted: bool, gradient: float) -> None:
    def f(x: Any) -> Any:
        return x.std() * gradient

    assert slopes(t.script(f) if scripted else f, [1.0, 1.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scripted", [False, True])
def test_repeated_windows_are_not_written(scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y.unfold(1, 1, 2).expand(2, 2, 1, 3).add_(1)
        return y

    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        (t.script(f) if scripted else f)(t.ones(2, 2))


def test_complex_numbers_times_powers_of_two_keep_their_dtype() -> None:
    found = t.ldexp(t.tensor(1j, dtype=t.complex128), t.tensor([1, 2], dtype=t.int32))
    assert found.dtype is t.complex128
    assert found.tolist() == [2j, 4j]
