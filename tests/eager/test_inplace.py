"""Views, in-place writes, versions and the history that follows: torch is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from tests.eager.both import check, error, jt, torch

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
MODIFIED = "modified by an inplace operation"
PROGRAMS = {}


def program(fn):
    assert fn.__name__ not in PROGRAMS
    PROGRAMS[fn.__name__] = fn
    return fn


def leaf(t, *shape, scale=1.0):
    n = int(np.prod(shape))
    return t.tensor(np.arange(1, n + 1, dtype=np.float64).reshape(shape) * scale).requires_grad_()


# --- memory --------------------------------------------------------------------------------------------------------


@program
def views_share_memory(t):
    x = t.zeros(4, 6)
    x[1].fill_(1)
    x[:, 2] = 2
    x.t()[5] = 3
    x.view(-1)[7] = 4
    x.reshape(2, 12)[1, ::3] = 5
    x.unsqueeze(0)[0, 3, 3] = 6
    x.diagonal().add_(10)
    x.permute(1, 0).narrow(0, 1, 2).mul_(2)
    return [x]


@program
def copies_do_not_share(t):
    x = t.zeros(2, 3)
    x.t().reshape(-1)[0] = 1
    x.flip(0)[0, 0] = 1
    x.clone()[0] = 1
    x[t.tensor([0, 1])].fill_(1)
    (x + 0).fill_(1)
    return [x]


@program
def detach_and_data_share(t):
    x = leaf(t, 3)
    y = x * 1
    y.detach()[0] = 7
    y.data[1] = 8
    return [y, y._version, y.detach()._version, y.data._version]


@program
def from_numpy_shares(t):
    a = np.zeros((2, 3), np.float32)
    x = t.from_numpy(a)
    x[0] = 1
    a[1, 1] = 5
    x.t()[2].add_(3)
    return [x, t.from_numpy(a.T), x.numpy() is not None]


@program
def versions(t):
    x = t.zeros(3)
    seen = [x._version]
    x.add_(1)
    seen.append(x._version)
    v = x[0:2]
    v.mul_(2)
    seen += [x._version, v._version, v.view(-1)._version]
    x.detach().zero_()
    seen += [x._version, v._version]
    x[1] = 3
    seen.append(x._version)
    y = x + 1
    seen.append(y._version)
    return seen


@program
def scalar_view_of_vector(t):
    x = t.zeros(3)
    x[1].fill_(4)
    x.select(0, 2).add_(2)
    return [x]


@program
def expanded_memory_cannot_be_written(t):
    e = t.zeros(1).expand(3)
    return [error(lambda: e.add_(1), "more than one element of the written-to tensor"),
            t.zeros(3).expand(3).add_(1),
            t.zeros(2).expand(1, 2).fill_(4)]


@program
def in_place_returns_itself(t):
    x = t.zeros(2)
    y = x
    y += 1
    v = x[0:1]
    return [x.add_(1) is x, y is x, v.mul_(2) is v, x]


@program
def integer_in_place(t):
    x = t.tensor([1, 2, 3])
    x += 2
    x[0] = 9
    x[x > 4] = 0
    return [x, error(lambda: x.add_(1.5), "can't be cast to the desired output type Long"),
            error(lambda: x.add_(t.zeros(2, 3, dtype=t.int64)), "doesn't match the broadcast shape")]


# --- leaves --------------------------------------------------------------------------------------------------------


@program
def leaf_refuses(t):
    w = leaf(t, 3)

    def augmented():
        v = w
        v += 1

    def item():
        w[0] = 1

    return [error(lambda: w.add_(1), LEAF), error(augmented, LEAF), error(item, VIEW_OF_LEAF),
            error(lambda: w[0].zero_(), VIEW_OF_LEAF), error(lambda: w.view(3, 1).mul_(2), VIEW_OF_LEAF), w, w._version]


@program
def leaf_under_no_grad(t):
    w = leaf(t, 3)
    (w * w).sum().backward()
    with t.no_grad():
        w -= 0.1 * w.grad
        w[0] = 5
        w.view(-1)[1].mul_(2)
    out = [w, w.is_leaf, w.requires_grad, w._version]
    w.grad.zero_()
    (w * w).sum().backward()
    return [*out, w.grad]


@program
def leaf_without_grad_gets_history(t):
    x = t.zeros(3, dtype=t.float64)
    w = leaf(t, 3)
    x.add_(w)
    out = [x.requires_grad, x.is_leaf]
    x.mul_(w)
    x.sum().backward()
    return [*out, w.grad]


@program
def copy_from_a_leaf(t):
    w = leaf(t, 3)
    x = t.zeros(3, dtype=t.float64)
    x.copy_(w)
    (x * x).sum().backward()
    return [w.grad, x]


@program
def leaf_view_may_become_a_leaf(t):
    x = t.zeros(4, dtype=t.float64)
    v = x[:2].requires_grad_()
    (v * 3).sum().backward()
    return [v.grad, v.is_leaf, x.requires_grad]


# --- history of what was written -----------------------------------------------------------------------------------


@program
def write_into_part(t):
    w = leaf(t, 3)
    x = t.zeros(2, 3, dtype=t.float64)
    x[0] = w * 2
    x[1] = w * w
    (x * t.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=t.float64)).sum().backward()
    return [w.grad, x]


@program
def overwritten_part_has_no_gradient(t):
    w = leaf(t, 4)
    y = w * 2
    y[1:3] = 0
    y.sum().backward()
    return [w.grad, y]


@program
def overwritten_whole_gets_zero(t):
    w = leaf(t, 3)
    y = w * 2
    y.zero_()
    out = [y.requires_grad, y.is_leaf]
    y.sum().backward()
    return [*out, w.grad]


@program
def in_place_chain(t):
    w = leaf(t, 3, scale=0.3)
    y = w * 2
    y.add_(1).mul_(3).sub_(w)
    y += y
    y.sum().backward()
    return [w.grad, y]


@program
def multiply_in_place_by_differentiable(t):
    w, u = leaf(t, 3), leaf(t, 3, scale=0.5)
    y = w * 2
    y.mul_(u)
    y.div_(w)
    y.sum().backward()
    return [w.grad, u.grad, y]


@program
def activations_in_place(t):
    w = leaf(t, 5, scale=0.4)
    out = []
    for name in ("exp_", "tanh_", "sigmoid_", "sqrt_", "reciprocal_", "relu_", "neg_", "log_", "sin_", "square_",
                 "abs_"):
        w.grad = None
        y = w * 1.5
        getattr(y, name)()
        (y * y).sum().backward()
        out += [name, y, w.grad]
    return out


@program
def clamp_and_pow_in_place(t):
    w = leaf(t, 5, scale=0.4)
    y = w * 1
    y.clamp_(0.5, 1.5).pow_(3)
    y.sum().backward()
    return [w.grad]


@program
def view_written_base_read(t):
    w = leaf(t, 3)
    x = t.zeros(2, 3, dtype=t.float64)
    v = x[0]
    v.copy_(w)
    v.mul_(2)
    (x * x).sum().backward()
    return [w.grad, x, v]


@program
def base_written_view_read(t):
    w = leaf(t, 2, 3)
    x = w * 1
    v = x[0]
    x.mul_(3)
    (v * v).sum().backward()
    return [w.grad, v]


@program
def one_view_written_another_read(t):
    w = leaf(t, 3)
    x = t.ones(3, 3, dtype=t.float64)
    rows, columns = x[1], x[:, 1]
    rows.mul_(w)
    out = [columns.requires_grad, rows.requires_grad, x.requires_grad]
    (columns * columns).sum().backward()
    return [*out, w.grad, columns]


@program
def chain_of_views(t):
    w = leaf(t, 2)
    x = leaf(t, 4, 6) * 1
    v = x.t()[1:5][::2]
    v = v.unsqueeze(0)[0][:, 1:3]
    v.mul_(w)
    (x * x).sum().backward()
    return [w.grad, x]


@program
def view_of_a_written_view(t):
    w = leaf(t, 4)
    x = t.zeros(2, 4, dtype=t.float64)
    v = x[0]
    v.add_(w)
    u = v[1:3]
    u.mul_(5)
    v.sum().backward()
    return [w.grad, x]


@program
def writes_through_different_views(t):
    w = leaf(t, 3)
    x = w.unsqueeze(0) * t.ones(3, 1, dtype=t.float64)
    x[0].mul_(2)
    x[:, 0].mul_(3)
    x.diagonal().mul_(5)
    x.t()[2].add_(w)
    (x * x).sum().backward()
    return [w.grad, x]


@program
def transposed_layout(t):
    w = leaf(t, 2, 3)
    x = (w.t() * 2)
    x.t().reshape(-1)[2:4] *= 10
    flat = x.view(-1) if x.is_contiguous() else x.t().view(-1)
    out = [flat.shape[0]]
    (x * x).sum().backward()
    return [*out, w.grad]


@program
def written_in_a_loop(t):
    w = leaf(t, 3)
    x = t.zeros(4, 3, dtype=t.float64)
    for i in range(4):
        x[i] = w * i if i == 0 else x[i - 1].clone() * w
        if i == 0:
            x[i] += w
    x.sum().backward()
    return [w.grad, x]


@program
def right_side_is_a_view_of_the_left(t):
    w = leaf(t, 4)
    x = w * 1
    x[0:2] = x[2:4]
    x[3] = x[0] + x[1]
    (x * t.tensor([1.0, 2, 3, 4], dtype=t.float64)).sum().backward()
    return [w.grad, x]


@program
def right_side_saves_what_is_written_later(t):
    w = leaf(t, 3)
    x = t.ones(3, 3, dtype=t.float64)
    x[1] = x[0] * w
    x[2] = x[1] * w
    return [error(lambda: x.sum().backward(), MODIFIED)]


@program
def value_used_after_being_written(t):
    w = leaf(t, 3)
    row = w * 2
    x = t.zeros(2, 3, dtype=t.float64)
    x[0] = row
    row2 = row * 3
    (x.sum() + row2.sum()).backward()
    return [w.grad]


@program
def masked_assignment(t):
    w = leaf(t, 5)
    y = w * 1 - 3
    y[y < 0] = 0
    y[t.tensor([3, 4])] *= 2
    (y * y).sum().backward()
    return [w.grad, y]


@program
def index_put_and_masked_fill(t):
    w = leaf(t, 2, 3)
    y = w * 1
    y.masked_fill_(t.tensor([[True, False, False], [False, True, False]]), -1.0)
    y[t.tensor([0, 1]), t.tensor([2, 0])] = t.tensor([5.0, 6.0], dtype=t.float64)
    (y * y).sum().backward()
    return [w.grad, y]


@program
def float32_value_into_float64(t):
    w = t.tensor([1.0, 2.0]).requires_grad_()
    x = t.zeros(2, dtype=t.float64)
    x.copy_(w)
    x[0] = w[1]
    x.sum().backward()
    return [w.grad, x]


@program
def broadcast_write(t):
    w = leaf(t, 3)
    x = t.zeros(2, 2, 3, dtype=t.float64)
    x[:] = w
    x[0, 1] = w[2]
    (x * x).sum().backward()
    return [w.grad, x]


# --- versions of saved values ---------------------------------------------------------------------------------------


@program
def saved_result_modified(t):
    y = leaf(t, 3).exp()
    y.add_(1)
    return [error(lambda: y.sum().backward(), MODIFIED, "is at version 1; expected version 0 instead")]


@program
def saved_operand_modified(t):
    y = leaf(t, 3) * 2
    z = y * y
    y.add_(1)
    return [error(lambda: z.sum().backward(), MODIFIED)]


@program
def saved_operand_modified_through_view(t):
    y = leaf(t, 2, 3) * 2
    z = y * y
    y[0].zero_()
    return [error(lambda: z.sum().backward(), MODIFIED)]


@program
def saved_view_modified_through_base(t):
    y = leaf(t, 2, 3) * 2
    z = y[0] * y[0]
    y.zero_()
    return [error(lambda: z.sum().backward(), MODIFIED)]


@program
def saved_operand_modified_through_detach(t):
    y = leaf(t, 3) * 2
    z = y * y
    y.detach().zero_()
    return [error(lambda: z.sum().backward(), MODIFIED)]


@program
def modified_through_data_is_not_noticed(t):
    w = leaf(t, 3)
    y = w * 1
    z = y * y
    y.data.mul_(2)
    z.sum().backward()
    return [w.grad]


@program
def leaf_modified_between_forward_and_backward(t):
    w = leaf(t, 3)
    z = (w * w).sum()
    with t.no_grad():
        w += 1
    return [error(z.backward, MODIFIED)]


@program
def constant_modified_between(t):
    w, c = leaf(t, 3), t.ones(3, dtype=t.float64)
    z = (w * c).sum()
    c.zero_()
    return [error(z.backward, MODIFIED)]


@program
def unsaved_operands_may_change(t):
    w = leaf(t, 3)
    y = w * 2
    z = y + 1
    y.mul_(3)
    z.sum().backward()
    return [w.grad]


@program
def written_after_use_only_of_its_shape(t):
    w = leaf(t, 2, 3)
    y = w * 1
    s = y.sum(0)
    y.zero_()
    s.sum().backward()
    return [w.grad]


# --- grad modes ----------------------------------------------------------------------------------------------------


@program
def no_grad_write_keeps_history(t):
    w = leaf(t, 3)
    y = w * 2
    with t.no_grad():
        y.add_(10)
        y[0] = 1
    out = [y.requires_grad, y]
    y.sum().backward()
    return [*out, w.grad]


@program
def view_made_under_no_grad(t):
    w = leaf(t, 3)
    y = w * 2
    with t.no_grad():
        v = y[0:2]
        v.add_(5)
    return [error(lambda: v.mul_(2), "A view was created in no_grad mode and is being modified inplace"), y]


@program
def enable_grad_inside_no_grad(t):
    w = leaf(t, 3)
    with t.no_grad():
        y = w * 2
        with t.enable_grad():
            z = w * 3
            z[0] = 0
    out = [y.requires_grad, z.requires_grad]
    z.sum().backward()
    return [*out, w.grad]


@program
def detach_then_write(t):
    w = leaf(t, 3)
    y = w * 2
    d = y.detach()
    d.mul_(5)
    out = [d.requires_grad, y.requires_grad, y]
    y.sum().backward()
    return [*out, w.grad]


@program
def detach_in_place(t):
    w = leaf(t, 3)
    y = w * 2
    y.detach_()
    v = (w * 1)[0]
    return [y.requires_grad, y.is_leaf, error(v.detach_, "Can't detach views in-place")]


# --- retain_grad and hooks across writes -----------------------------------------------------------------------------


@program
def retain_grad_follows_the_tensor(t):
    w = leaf(t, 3)
    y = w * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return [y.grad, w.grad]


@program
def retain_grad_of_base_of_written_view(t):
    w = leaf(t, 3)
    y = w * 2
    y.retain_grad()
    y[0] *= 3
    (y * y).sum().backward()
    return [y.grad, w.grad]


@program
def hooks_stay_with_the_value(t):
    w, seen = leaf(t, 3), []
    y = w * 2
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    return [str(seen), w.grad]


# --- second order ----------------------------------------------------------------------------------------------------


@program
def double_backward_through_writes(t):
    w = leaf(t, 3)
    x = t.ones(2, 3, dtype=t.float64)
    x[0] = w * w
    x[:, 1].mul_(w[1])
    x.add_(w)
    (g,) = t.autograd.grad((x * x * x).sum(), w, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), w)
    return [g, h]


@program
def double_backward_through_diagonal(t):
    w = leaf(t, 3)
    x = w.unsqueeze(1) * w
    x.diagonal().mul_(w)
    (g,) = t.autograd.grad((x * x).sum(), w, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), w)
    return [g, h]


@program
def gradient_accumulates_in_the_same_memory(t):
    w = leaf(t, 3)
    (w * 2).sum().backward()
    g = w.grad
    (w * 3).sum().backward()
    return [g is w.grad, g]


@program
def gradients_do_not_share_memory(t):
    a, b = leaf(t, 3), leaf(t, 3)
    (a + b).sum().backward()
    a.grad.zero_()
    out = [b.grad]
    c = leaf(t, 2, 3)
    c.sum().backward()
    c.grad[0] = 5
    out.append(c.grad)
    d, seed = leaf(t, 3), t.ones(3, dtype=t.float64)
    d.backward(seed)
    d.grad.zero_()
    return [*out, seed]


@program
def mutated_seed_and_returned_gradient(t):
    w = leaf(t, 3)
    y = w * 1
    (g1,) = t.autograd.grad((y + y).sum(), y)
    g1.zero_()
    (w * 1 + w).sum().backward()
    return [w.grad]


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    check(PROGRAMS[name])


def test_many_programs():
    assert len(PROGRAMS) >= 40


def test_overlapping_copy():
    x = jt.tensor([1.0, 2.0, 3.0, 4.0])
    x[1:].copy_(x[:-1])
    assert x.tolist() == [1, 1, 2, 3]


def test_replaced_data_is_used():
    w = jt.tensor([1.0, 2.0]).requires_grad_()
    w.data = jt.tensor([3.0, 4.0])
    (w * w).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [6, 8])


def test_read_only_memory_is_refused():
    frozen = np.frombuffer(b"\0" * 12, np.float32)
    with pytest.raises(RuntimeError, match="read-only"):
        jt.from_numpy(frozen).add_(1)


def test_index_put_where_only_the_target_needs_a_gradient():
    index, add = jt.tensor([2, 0]), jt.ones(2)
    for accumulate in (True, False, True):
        x = jt.ones(3, requires_grad=True)
        y = (x * 2).index_put((index,), add, accumulate=accumulate)
        y.sum().backward()
        assert x.grad.tolist() == ([2, 2, 2] if accumulate else [0, 2, 0])


QUOTIENTS = {"x / y": lambda x, y: x / y, "1 / y": lambda x, y: 1 / y,
             "x / y.sum()": lambda x, y: x / y.sum(), "softsign": lambda x, y: jitgrad.nn.functional.softsign(y),
             "normalize": lambda x, y: jitgrad.nn.functional.normalize(x * y, dim=0), "erfinv": lambda x, y: y.erfinv()}


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("scripted", [False, True])
def test_a_quotient_may_be_written_to(name: str, scripted: bool) -> None:
    """Its derivative reads the operands, as torch's, so that `(x / y).mul_(2)` has one."""
    def whole(x, y):
        return (QUOTIENTS[name](x, y) * 2 + 1).sum()

    def written(x, y):
        z = QUOTIENTS[name](x, y)
        z.mul_(2)
        z += 1
        return z.sum()

    found = []
    for f in (whole, jitgrad.script(written) if scripted else written):
        x = jitgrad.tensor([0.5, -0.25, 0.75], dtype=jitgrad.float64, requires_grad=True)
        y = jitgrad.tensor([0.25, 0.5, -0.125], dtype=jitgrad.float64, requires_grad=True)
        f(x, y).backward()
        found.append([g if g is None else g.tolist() for g in (x.grad, y.grad)])
    assert found[0] == [g if g is None else pytest.approx(g) for g in found[1]]


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, -1.0, 1.5, 2, 3, 0.25])
def test_a_power_may_be_written_to_and_its_operand_not(exponent: float) -> None:
    """The slope of every power reads the operand, as PyTorch's: that of a root is no matter of the root."""
    x = jitgrad.tensor([1.0, 2.0, 3.0], dtype=jitgrad.float64, requires_grad=True)
    y = (x * 1).pow(exponent)
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([exponent * v ** (exponent - 1) for v in (1.0, 2.0, 3.0)])
    a = x * 1
    y = a ** exponent
    a.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
