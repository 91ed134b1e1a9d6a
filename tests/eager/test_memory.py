"""Strided views, other memory, Python functions of elements, and tensors that change their own shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad


def test_strided_views_share_memory() -> None:
    x = jitgrad.arange(12.0).reshape(3, 4)
    v = x.as_strided((2, 2), (5, 1), 1)
    assert v.tolist() == [[1.0, 2.0], [6.0, 7.0]]
    v.mul_(10)
    assert x.tolist()[0] == [0.0, 10.0, 20.0, 3.0]
    part = x[1:]
    assert part.storage_offset() == 4
    assert part.as_strided((2,), (1,)).tolist() == part[0, :2].tolist()
    assert part.as_strided((2,), (1,), 0).tolist() == [0.0, 10.0]
    assert x.as_strided((0, 3), (1, 1)).shape == (0, 3)
    assert jitgrad.as_strided(x, (), (), 3).item() == 3.0
    with pytest.raises(RuntimeError, match="requiring a storage size of 56 are out of bounds for storage of size 48"):
        x.as_strided((2, 2), (12, 1))
    with pytest.raises(RuntimeError, match="mismatch in length of strides and shape"):
        x.as_strided((2, 2), (12,))
    with pytest.raises(RuntimeError, match="do not lie in order"):
        jitgrad.from_numpy(np.zeros((3, 4))[:, ::2]).as_strided((2,), (1,))


def test_axes_of_nothing_count_as_one_in_strides() -> None:
    def f(x: Any) -> Any:
        none = x.tile([1, 2, 0])
        return none.stride(), none.flip(0).stride(), x.repeat([1, 0, 1, 1]).stride()

    x = jitgrad.ones(3, 3, 2)
    assert f(x) == jitgrad.script(f)(x) == ((6, 1, 1), (6, 1, 1), (6, 6, 2, 1))


def test_strided_views_of_permuted_memory() -> None:
    x = jitgrad.arange(6.0).reshape(2, 3).t().contiguous().t()
    assert x.as_strided((2, 2), (1, 2), 1).tolist() == [[3.0, 4.0], [1.0, 2.0]]
    x.as_strided((2,), (2,), 1).mul_(10)
    assert x.tolist() == [[0.0, 1.0, 2.0], [30.0, 40.0, 5.0]]
    w = jitgrad.arange(6.0, requires_grad=True)
    (g,) = jitgrad.autograd.grad((w.reshape(2, 3).t().contiguous().t() * 2).as_strided((2,), (2,), 1).sum(), w)
    assert g.tolist() == [0.0, 0.0, 0.0, 2.0, 2.0, 0.0]


def test_strided_views_have_gradients_of_both_orders() -> None:
    x = jitgrad.tensor(np.arange(6.0) + 1, requires_grad=True)
    windows = x.as_strided((4, 3), (1, 1))
    (g,) = jitgrad.autograd.grad((windows ** 3).sum(), x, create_graph=True)
    count = np.array([1, 2, 3, 3, 2, 1])
    np.testing.assert_allclose(g.detach().numpy(), 3 * count * (np.arange(6) + 1.0) ** 2)
    (h,) = jitgrad.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h.numpy(), 6 * count * (np.arange(6) + 1.0))
    assert jitgrad.autograd.gradcheck(lambda t: (t * 2).as_strided((2, 2), (3, 1), 1), (x.detach().requires_grad_(),))
    y = x * 1.0
    y.as_strided((3,), (2,)).mul_(5)
    (g,) = jitgrad.autograd.grad(y.sum(), x)
    assert g.tolist() == [5.0, 1.0, 5.0, 1.0, 5.0, 1.0]


def test_scattering_into_a_strided_view() -> None:
    x = jitgrad.zeros(2, 3, requires_grad=True)
    src = jitgrad.ones(2, requires_grad=True)
    y = x.as_strided_scatter(src, (2,), (4,), 1)
    assert y.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    (y * jitgrad.arange(6.0).reshape(2, 3)).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 2.0], [3.0, 4.0, 0.0]]
    assert src.grad.tolist() == [1.0, 5.0]
    with pytest.raises(RuntimeError, match=r"src size = \[2\], slice size = \[3\]"):
        x.as_strided_scatter(src, (3,), (1,))


def test_scripts_refuse_layouts() -> None:
    @jitgrad.script
    def f(x: Any) -> Any:
        return x.as_strided((2,), (1,))

    with pytest.raises(jitgrad.errors.UnsupportedCall, match="`as_strided` of a tensor, which is about its memory"):
        f(jitgrad.zeros(3))


# --- tensors that change their own shape ---------------------------------------------------------------------------


def test_a_tensor_changes_its_shape() -> None:
    x = jitgrad.arange(6.0).reshape(2, 3)
    same = x
    assert x.unsqueeze_(0) is x
    assert same.shape == (1, 2, 3)
    assert x.squeeze_().t_().shape == (3, 2)
    assert x.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert x.transpose_(0, 1).swapaxes_(0, 1).swapdims_(0, 1).shape == (2, 3)
    assert x.as_strided_((2,), (3,)).tolist() == [0.0, 3.0]


def test_its_history_goes_with_it() -> None:
    w = jitgrad.ones(3, 2, requires_grad=True)
    y = w * jitgrad.arange(6.0).reshape(3, 2)
    y.retain_grad()
    y.t_()
    (y * jitgrad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert y.grad.shape == (2, 3)
    assert w.grad.tolist() == [[0.0, 1.0], [4.0, 6.0], [12.0, 15.0]]
    view = (w * 2)[0]
    view.unsqueeze_(0)
    view.mul_(3)
    assert view.shape == (1, 2)
    assert view.requires_grad
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        w.t_()
    with jitgrad.no_grad():
        w.t_()
    assert w.shape == (2, 3)


def test_views_of_a_tensor_that_changed_its_shape() -> None:
    """They share memory; what history they would have is refused."""
    w = jitgrad.ones(2, requires_grad=True)
    x = jitgrad.zeros(2, 2)
    row = x[0]
    x.unsqueeze_(0)
    row.add_(1)
    assert x.tolist() == [[[1.0, 1.0], [0.0, 0.0]]]
    with pytest.raises(RuntimeError, match="has changed its own shape"):
        row.mul_(w)


def test_scripts_refuse_a_change_of_shape() -> None:
    @jitgrad.script
    def f(x: Any) -> Any:
        return x.unsqueeze_(0)

    with pytest.raises(jitgrad.errors.UnsupportedCall, match="a tensor that changes its own shape"):
        f(jitgrad.zeros(3))


# --- other memory, functions of elements ---------------------------------------------------------------------------


def test_resize_and_set() -> None:
    x = jitgrad.arange(4.0)
    assert x.resize_(2, 3) is x
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
    assert x.resize_((2,)).tolist() == [0.0, 1.0]
    assert x.resize_as_(jitgrad.zeros(3, 1)).shape == (3, 1)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        jitgrad.zeros(2, requires_grad=True).resize_(3)
    y = jitgrad.zeros(0).set_(x)
    assert y.is_set_to(x)
    y.fill_(7)
    assert x.tolist() == [[7.0]] * 3
    assert y.set_(x, 1, (2,), (1,)).shape == (2,)
    assert not y.is_set_to(x)
    assert y.set_().shape == (0,)


def test_python_functions_of_elements() -> None:
    x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    view = x.t()
    assert view.apply_(lambda v: v * v) is view
    assert x.tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert x.map_(jitgrad.tensor([1.0, 2.0]), lambda a, b: a + b).tolist() == [[2.0, 6.0], [10.0, 18.0]]
    assert x.map2_(x, x, lambda a, b, c: a + b - c).tolist() == [[2.0, 6.0], [10.0, 18.0]]
    assert jitgrad.arange(3).apply_(lambda v: -v).tolist() == [0, -1, -2]
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        jitgrad.ones(2, requires_grad=True).apply_(abs)


class Named(jitgrad.Tensor):
    """A class of one's own."""


def test_the_same_as_another_class() -> None:
    w = jitgrad.ones(2, requires_grad=True)
    named = (w * 2).as_subclass(Named)
    assert type(named) is Named
    named.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="cls must be a type that inherits from Tensor"):
        w.as_subclass(int)


def test_what_tensors_are() -> None:
    x = jitgrad.zeros(2, 3)
    assert x.is_cpu
    assert [x.is_meta, x.is_quantized, x.is_nested, x.is_mps, x.is_sparse_csr, x.is_xpu] == [False] * 6
    assert (x.dense_dim(), x.sparse_dim(), x.is_shared(), x.is_distributed()) == (2, 0, False, False)
    assert x.to_dense() is x
    assert x.to_dense(jitgrad.float64).dtype is jitgrad.float64
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_where_a_script_runs() -> None:
    @jitgrad.script
    def f(x: Any) -> Any:
        return x + 1 if x.is_cpu else x

    assert f(jitgrad.zeros(1)).item() == 1.0


def test_tensors_of_a_layout() -> None:
    x = jitgrad.empty_strided((2, 3), (1, 2), dtype=jitgrad.float64)
    assert x.stride() == (1, 2)
    assert x.dtype is jitgrad.float64
    assert x.dim_order() == (1, 0)
    assert jitgrad.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert jitgrad.frombuffer(bytearray(b"\1\0\2\0"), dtype=jitgrad.int16).tolist() == [1, 2]


def test_strided_views_of_a_leaf_that_is_a_view() -> None:
    """Its own gradient, not that of the memory's first owner, which has none."""
    x = jitgrad.arange(12.0).reshape(3, 4)[1:].requires_grad_()
    y = x.as_strided((2, 2), (1, 1))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="its own elements"):
        x.as_strided((2,), (1,), 0)


def test_sizes_that_cannot_be() -> None:
    for wrong in (lambda: jitgrad.zeros(3).resize_(-1), lambda: jitgrad.zeros(3).as_strided((-1,), (1,)),
                  lambda: jitgrad.empty_strided((2, 3), (1,)), lambda: jitgrad.zeros(1).new_empty_strided((2, 3), (1,)),
                  lambda: jitgrad.zeros(2).map_(jitgrad.zeros(3), lambda a, b: a),
                  lambda: jitgrad.zeros(2).map_(jitgrad.zeros(3, 2), lambda a, b: a)):
        with pytest.raises(RuntimeError):
            wrong()


def test_detached_parts_know_where_they_are() -> None:
    x = jitgrad.arange(12.0).reshape(3, 4)
    part = x[1].detach()
    assert (part.storage_offset(), part[2:].storage_offset()) == (4, 6)
    assert part.as_strided((2, 2), (1, 4), 1).tolist() == [[1.0, 5.0], [2.0, 6.0]]
    column = (x * 1).requires_grad_().t()[1].detach()
    assert (column.storage_offset(), column.stride()) == (1, (4,))
    assert x.data[1:].data[1].data.storage_offset() == 8
    assert part.clone().storage_offset() == 0
    whole = x.reshape(-1).detach()
    whole.data = jitgrad.zeros(2)
    assert whole.storage_offset() == 0
    assert whole.as_strided((2,), (1,)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("change", [lambda x: x.flip(0), lambda x: x.select_scatter(x[0] * 0, 0, 0),
                                    lambda x: x.slice_scatter(x[:1] * 0, 0, 0, 1)])
def test_copies_that_keep_the_order_of_axes_are_not_contiguous(change: Any, scripted: bool) -> None:
    def f(x: Any) -> Any:
        y = change(x.permute(2, 0, 1))
        y.contiguous().zero_()
        return y

    x = jitgrad.arange(24.0).reshape(2, 4, 3)
    found = (jitgrad.script(f) if scripted else f)(x)
    assert found.abs().sum() > 0
    assert scripted or found.stride() == x.permute(2, 0, 1).stride()


def test_views_made_before_their_base_became_a_leaf_have_gradients_of_their_own() -> None:
    base = jitgrad.ones(3, 2)
    view = base[0]
    base.requires_grad_()
    assert view.requires_grad
    assert view.grad_fn is None
    (view * 2).sum().backward()
    assert view.grad.tolist() == [2.0, 2.0]
    assert base.grad is None
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.add_(1)
    with jitgrad.no_grad():
        base.add_(1)
    (view * 3).sum().backward()  # the memory was written: the view's history is its base's from there on
    assert base.grad.tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_strided_views_of_memory_that_is_seen_in_another_type() -> None:
    x = jitgrad.arange(5)
    part = x.narrow(0, 1, 4).view(jitgrad.float32)
    assert part.storage_offset() == 2
    assert part.as_strided((1, 1), (0, 2), 1).data_ptr() == x.data_ptr() + 4
    y = jitgrad.arange(12.0).reshape(2, 2, 3)[:, 1].view(jitgrad.int32)
    assert y.storage_offset() == 3
    y.as_strided((1,), (1,), 0).zero_()
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        jitgrad.take_along_dim(jitgrad.ones(4, 2), jitgrad.zeros(0, 2, dtype=jitgrad.int64), 1)


def test_views_of_a_tensor_that_changed_its_shape_before_may_be_written() -> None:
    x = jitgrad.tensor([[2.0, -3.0]]).requires_grad_()
    y = x.clone()
    y.t_()
    y.view(2, 1, -1).swapaxes(0, 1).clamp_(-1, 1)
    assert y.tolist() == [[1.0], [-1.0]]
    (y * 3).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_empty_parts_are_where_their_elements_would_be() -> None:
    x = jitgrad.arange(12.0).reshape(3, 4)
    parts = [x.narrow(0, 3, 0), x.narrow(1, 4, 0), x[:, 2:2], x[2:1], x.tensor_split(5, 1)[-1], x[1:].narrow(1, 4, 0)]
    assert [p.storage_offset() for p in parts] == [12, 4, 2, 8, 4, 8]
    assert [x.diagonal(k).storage_offset() for k in (-4, -3, -2, 3, 4)] == [0, 0, 8, 3, 0]
    assert x.narrow(0, 1, 0)[:, 2].as_strided((), ()).item() == 6
    assert x.bfloat16()[:, 2:2].as_strided((), ()).item() == 2
    leaf = jitgrad.ones(2, 3, requires_grad=True)
    leaf[:, 1:1].sum().backward()
    assert leaf.grad.tolist() == [[0.0] * 3] * 2


def test_windows_of_a_part_of_an_expanded_tensor_may_be_written() -> None:
    x = jitgrad.zeros(4, 1)
    whole = x.expand(4, 3)
    whole[:, 1:2].unfold(0, 2, 2).add_(1)
    assert x.tolist() == [[1.0]] * 4
    for part in (whole, whole.unfold(0, 2, 2)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to"):
            part.add_(1)
    locked = np.zeros(4)
    locked.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        jitgrad.from_numpy(locked).unfold(0, 2, 2).add_(1)


def test_what_is_not_written_in_windows_that_overlap_has_its_slope_once() -> None:
    x = jitgrad.ones(2, 4, requires_grad=True)
    y = x * 1
    windows = y.unfold(1, 2, 1)
    windows.scatter_(0, jitgrad.zeros(1, 3, 2, dtype=jitgrad.int64), 3)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [[0.0] * 4, [1.0] * 4]
    (slope,) = jitgrad.autograd.grad(windows.sum(), x, create_graph=True)
    assert slope.tolist() == [[0.0] * 4, [1.0, 2.0, 2.0, 1.0]]
