"""Tensors that are one memory and have each a history of its own: what `detach` and a write with a history make."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


class Held:
    def __init__(self, n):
        self.n = n


def p(*values):
    return torch.tensor([float(k) for k in values], requires_grad=True)


def v(*values):
    return torch.tensor([float(k) for k in values])


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 1), lambda: (p(1, 2), p(3, 4), 0))
def written_after_a_swap(x, y, n: int):
    """Which of two tensors it is only the run knows, and one of them is detached."""
    x, y = x * 1, y * 1
    t = x.detach()
    for _ in range(n):
        t, y = y, t
    t.copy_(y)
    return (x * 2).sum() + (y * 3).sum() + (t * 4).sum()


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 1), lambda: (p(1, 2), p(3, 4), 0))
def written_after_a_swap_and_held(x, y, n: int):
    """The same, and an object and a list refer to it, too."""
    x, y = x * 1, y * 1
    t = x.detach()
    held, rows = Held(t), [t, y]
    for _ in range(n):
        t, y = y, t
    t.mul_(y)
    return (held.n * 2).sum() + (rows[0] * 3).sum() + (rows[1] * 5).sum() + (t * 4).sum()


@nasty(lambda: (v(1, 2), p(3, 4)), lambda: (v(1, 2, 3), p(3, 4, 5)))
def written_twice(h, x):
    """A hidden state is cut off and changed in place, more than once, in the caller's memory."""
    h = h.detach()
    h += x
    h *= 0.5
    return (h * h).sum()


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def both_are_written(x, w):
    """Each write is seen through both, and each keeps its history."""
    y = x * 2
    d = y.detach()
    d += w
    y.add_(1)
    d *= 3
    return (d * d).sum() + (y * 5).sum()


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def one_of_two(x, w):
    """Two calls of `detach` give two tensors: one gets a history, the other does not."""
    y = x * 2
    d, e = y.detach(), y.detach()
    d += w
    e *= 2
    return (d * d).sum() + (e * 3).sum() + (y * 5).sum(), e.requires_grad, d.requires_grad


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def views_of_one_of_two(x, w):
    """The same for views of them, made before the write and after it."""
    y = x * 2
    d, e = y.detach(), y.detach()
    a, b = d[:1], e[:1]
    d[1:] += w[1:]
    d[0] = w[0]
    return (a * 2).sum() + (b * 3).sum() + (d[:1] * 4).sum() + (e[1:] * 5).sum() + y.sum()


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def a_part_is_detached(x, w):
    """A part of the memory has another history than the whole."""
    y = x * 2
    d = y.detach()[1]
    d += w[1]
    y *= 2
    d *= w[0]
    y += 1
    return d * 3 + (y * 5).sum()


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def a_chain(x, w):
    """What was detached and written is detached and written again."""
    y = x * 2
    d = y.detach()
    d += w
    e = d.detach()
    e *= w
    d += 1
    e += 1
    y += 1
    return (d * d).sum() + 3 * (y * y).sum() + 5 * e.sum()


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 3))
def written_in_a_loop(x, w, n: int):
    """As often as the run says."""
    y = x * 2
    d = y.detach()
    d += w
    for _ in range(n):
        d *= 2
        y += 1
    return d.sum() + (y * y).sum()


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 3))
def first_written_in_a_loop(x, w, n: int):
    """It may get no history at all."""
    y = x * 2
    d = y.detach()
    for _ in range(n):
        d += w
        y *= 2
    return d.sum() + (y * 3).sum(), d.requires_grad


@nasty(lambda: (p(1, 2), True), lambda: (p(1, 2, 3), True), lambda: (p(1, 2), False))
def written_in_a_branch(x, flag: bool):
    """And after it no more."""
    y = x * 2
    d = y.detach()
    d += x
    if flag:
        d *= 2
        y += 1
    return (d * d).sum() + (y * y).sum()


@nasty(lambda: (p(1, 2),), lambda: (p(1, 2, 3),))
def a_leaf_in_memory_of_another(x):
    """A leaf is made of it, and both are written while nothing is recorded."""
    y = x * 2
    leaf = y.detach().requires_grad_()
    with torch.no_grad():
        leaf += 1
    y += 2
    (g,) = torch.autograd.grad((leaf * leaf).sum(), leaf)
    return (y * y).sum(), g


@nasty(lambda: (p(1, 2), 3), lambda: (p(1, 2, 3), 0), lambda: (p(1, 2), 1))
def neither_is_the_variable(x, n: int):
    """A variable goes on with another tensor that was detached from the same memory."""
    y = x * 1
    t = y.data
    for _ in range(n):
        y, t = t, y
    t.detach().add_(t)
    return y.sum() * 2 + 1, y.requires_grad


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 1), lambda: (p(1, 2), p(3, 4), 3))
def chosen_of_two_that_are_zero(x, y, n: int):
    """Some of what is multiplied has no gradient to pass on, and only of the sum one is taken."""
    x, y = x * 1, y * 1
    y.zero_()
    x.zero_()
    t = (x, y)[n % 2]
    t.mul_(x)
    return x.sum() + t.sum(), y


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1))
def cut_off_as_often_as_the_run_says(x, y, n: int):
    """Of two results one is changed in the caller's memory, and only of the sum a gradient is taken."""
    x, y = x * 1, y * 1
    x.zero_()
    x, y = y, x
    for _ in range(n):
        y = y.detach()
    return x.sum() + y.sum(), y


@nasty(lambda: (p(1, 2), p(3, 4), True), lambda: (p(1, 2, 3), p(3, 4, 5), False))
def begun_in_a_branch(x, w, flag: bool):
    """Whether it has a history of its own only the run knows; both are written afterwards, and a view of it is."""
    y = x * 2
    d = y.detach()
    held, first = Held(d), d[:1]
    if flag:
        held.n.mul_(w)
    y += 1
    first += w[:1]
    d *= 2
    return (d * d).sum() + (y * y).sum() + (held.n * 3).sum(), d.requires_grad


@nasty(lambda: (p(1, 2), p(3, 4), True), lambda: (p(1, 2, 3), p(3, 4, 5), False))
def in_memory_that_a_branch_made(x, w, flag: bool):
    """On one side it is written there."""
    if flag:
        y = x * 2
        d = y.detach()
        d += w
    else:
        y = x * 3
        d = y.detach()
    y += 1
    d *= 2
    return (d * d).sum() + (y * y).sum(), d.requires_grad


@nasty(lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1), lambda: (p(1, 2), p(3, 4), 2))
def one_of_two_calls(x, w, n: int):
    """Which of two detached tensors it is only the run knows."""
    y = x * 2
    d, e = y.detach(), y.data
    t = (d, e, w * 2)[n]
    t.detach().add_(w)
    t.add_(w)
    return (d * d).sum() + (y * y).sum() + t.sum(), d.requires_grad, e.requires_grad


@nasty(lambda: (p(1, 2), p(3, 4), 3), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1))
def another_one_in_every_iteration(x, w, n: int):
    """The last one has the history of one write, and so has the one before it."""
    y = x * 2
    t = before = y
    for _ in range(n):
        before = t
        for _ in range(1):
            t = y.detach()
        t += w
    return (t * 3).sum() + (before * 5).sum() + y.sum()


@nasty(lambda: (p(1, 2), p(3, 4), 3), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1))
def detached_of_itself_in_every_iteration(x, w, n: int):
    """Each is a view of the one before, and all are one memory."""
    y = x * 1
    t, u = y, y.detach()
    for _ in range(n):
        t = t.detach()[:]
        t += u.clone()
    return (t * 3).sum() + y.sum() + u.sum()


@nasty(lambda: (p(1, 2), p(3, 4), 2), lambda: (p(1, 2), p(3, 4), 0), lambda: (p(1, 2), p(3, 4), 1))
def of_memory_that_may_be_missing(x, w, n: int):
    """A branch makes memory of which a loop detaches tensors, or it does not."""
    t = w * 1
    if n > 1:
        t = x.clone()
    d = t.detach()[:]
    for _ in range(n):
        d.detach().add_(w)
        t.detach().add_(d)
    return (d * 2).sum() + (t * 3).sum()


@nasty(lambda: (p(1, 2), p(3, 4)), lambda: (p(1, 2, 3), p(3, 4, 5)))
def a_view_made_under_no_grad(x, w):
    """It stays without a history when the detached tensor of which it is a view gets one."""
    y = x * 2
    d = y.detach()
    with torch.no_grad():
        v = d[:]
    d *= w
    return y.sum() + v.sum() + d.sum(), v.requires_grad
