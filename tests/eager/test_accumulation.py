"""Sums of gradients reuse memory, but never memory that somebody else can see."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgrad
from jitgrad.eager.autograd import cotangents
from jitgrad.eager.autograd.node import Node
from jitgrad.eager.construct import wrap


def test_a_second_backward_adds_in_place() -> None:
    x = jitgrad.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    grad = x.grad
    assert grad is not None
    before = grad._data
    (x * 3).sum().backward()
    assert x.grad is grad
    assert grad._data is before
    assert grad.tolist() == [5.0, 5.0, 5.0]
    assert grad._version == 1


def test_the_first_of_several_cotangents_is_summed_over() -> None:
    total = [np.ones(4)]
    memory = total[0].ctypes.data
    result = cotangents.Arrays.add(total[0], np.ones(4), False)
    assert result.ctypes.data == memory
    del result
    known = total[0]
    result = cotangents.Arrays.add(total[0], np.ones(4), False)
    assert result.ctypes.data != memory
    assert known.tolist() == [2.0] * 4
    view = [total[0][1:]]
    assert cotangents.Arrays.add(view[0], np.ones(3), False).base is None
    assert known.tolist() == [2.0] * 4


def test_the_gradient_given_is_not_written() -> None:
    x = jitgrad.ones(4, requires_grad=True)
    g = jitgrad.ones(4)
    u = x * 1
    (u + u + u).backward(g, retain_graph=True)
    (u * 1 + x).backward(g)
    assert g.tolist() == [1.0] * 4
    assert x.grad is not None
    assert x.grad.tolist() == [5.0] * 4


def test_gradients_that_hooks_kept_stay() -> None:
    kept: list[Any] = []
    x = jitgrad.ones(3, requires_grad=True)
    u = x * 1
    late = u * 2
    late.register_hook(kept.append)
    early = u + 1
    early.register_hook(lambda g: kept.append(g) or g)
    (late * 3 + early * 5).sum().backward()
    assert sorted(k.tolist()[0] for k in kept) == [3.0, 5.0]
    assert x.grad is not None
    assert x.grad.tolist() == [11.0] * 3


def test_retained_gradients_stay() -> None:
    x = jitgrad.ones(3, requires_grad=True)
    u = x + 0
    v = u + 0  # passes its cotangent on as it is
    v.retain_grad()
    u.retain_grad()
    (v * 2 + u * 3 + x * 4).sum().backward()
    assert [t.grad.tolist()[0] for t in (v, u, x)] == [2.0, 5.0, 9.0]


def test_what_a_node_keeps_is_not_written() -> None:
    cached = [np.full(3, 2.0, np.float32)]
    x = jitgrad.ones(3, requires_grad=True)
    node = Node("CachedBackward", (x,), lambda cotangents: [cached[0]])
    y = node.attach(wrap(np.ones(3, np.float32)))
    for _ in range(2):
        (y.sum() + (x * 5).sum()).backward(retain_graph=True)
    assert cached[0].tolist() == [2.0] * 3
    assert x.grad is not None
    assert x.grad.tolist() == [14.0] * 3


def test_equal_gradients_do_not_share_memory() -> None:
    a, b = jitgrad.ones(3, requires_grad=True), jitgrad.ones(3, requires_grad=True)
    (a + b).sum().backward()
    (a + b).backward(jitgrad.ones(3))
    assert a.grad is not None
    assert b.grad is not None
    a.grad.mul_(10)
    assert b.grad.tolist() == [2.0] * 3
    c, d = jitgrad.autograd.grad((a + b).sum(), (a, b))
    c.mul_(10)
    assert d.tolist() == [1.0] * 3
