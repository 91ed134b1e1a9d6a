"""Random programs of views, in-place writes, reads and grad modes: values, gradients and refusals as in torch."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.eager.both import jt, plain, same, torch

UNARY = ("sin", "exp", "tanh", "neg", "square", "sigmoid", "relu")
# not tanh_ and kin, of which torch saves the result: a later write makes it refuse what ours can differentiate
IN_PLACE = ("sin_", "neg_", "square_", "mul_", "add_", "copy_", "zero_", "sub_", "fill_", "setitem")


class Plan:
    """A program as data: what to do is drawn from shapes alone, so that both libraries do the same."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.steps = []

    def view(self, shape):
        """A view op for a tensor of `shape`, or None."""
        r = self.random
        kinds = ["alias"]
        if shape:
            kinds += ["select", "slice", "step", "unsqueeze"]
        if len(shape) > 1:
            kinds += ["t", "flatten", "diagonal"]
        kind = r.choice(kinds)
        axis = r.randrange(len(shape)) if shape else 0
        n = shape[axis] if shape else 1
        return kind, axis, r.randrange(n)


def apply_view(x, kind, axis, index):
    if kind == "select":
        return x.select(axis, index)
    if kind == "slice":
        return x.narrow(axis, index, x.shape[axis] - index) if index else x.unsqueeze(0)
    if kind == "step" and x.shape[axis] > 1:
        return x[(slice(None),) * axis + (slice(index, None, 2),)]
    if kind == "unsqueeze":
        return x.unsqueeze(axis)
    if kind == "t":
        return x.transpose(0, 1)
    if kind == "flatten":
        return x.view(-1) if x.is_contiguous() else x.transpose(0, 1)
    if kind == "diagonal":
        return x.diagonal()
    return x


def partner(pool, shape, r):
    """A tensor of the pool with this shape, or a number."""
    same = [i for i, t in enumerate(pool) if tuple(t.shape) == shape]
    return r.choice([*same, None])


def write(x, name, y):
    if name in ("mul_", "add_", "sub_", "copy_"):
        if y is None:
            return x.mul_(0.5)
        return getattr(x, name)(y)
    if name == "fill_":
        return x.fill_(0.25)
    if name == "setitem":
        if x.shape:
            x[0] = 0.5 if y is None else y[0]
        return x
    return getattr(x, name)()


def run(t, seed):
    r = random.Random(seed)
    plan = Plan(seed + 1)
    rng = np.random.default_rng(seed)
    leaves = [t.tensor(rng.uniform(-1, 1, shape)).requires_grad_() for shape in ((3, 4), (4,), (3, 3))]
    pool = [*leaves, t.tensor(rng.uniform(-1, 1, (3, 4))), t.zeros(3, 4, dtype=t.float64)]
    log = []
    for step in range(14):
        _ = [x.grad_fn for x in pool]  # torch notices that a base has got history when asked for this
        i = r.randrange(len(pool))
        x = pool[i]
        what = r.random()
        view = plan.view(tuple(x.shape))
        unary, name, other = r.choice(UNARY), r.choice(IN_PLACE), partner(pool, tuple(x.shape), r)
        y = None if other is None else pool[other]
        quiet = r.random() < 0.1
        try:
            if what < 0.35:
                pool.append(apply_view(x, *view))
            elif what < 0.6:
                pool.append(getattr(x, unary)() if y is None else x * y + x)
            elif quiet:
                with t.no_grad():
                    write(x, name, y)
            else:
                write(x, name, y)
        except RuntimeError as e:
            log.append((step, str(e)[:60]))
    for number, x in enumerate(pool):
        if number % 2 or number < 3:
            continue
        total = (x * x).sum()
        try:
            if total.requires_grad:
                total.backward(retain_graph=bool(number % 4))
        except RuntimeError:
            log.append((number, "refused"))
    return [[x.requires_grad for x in pool], [x.is_leaf for x in pool], [x._version for x in pool], log, *pool,
            *(w.grad if w.grad is not None else "none" for w in leaves)]


def judge(seed):
    """Whether the programs could be compared.

    Ours must refuse no write that torch allows, and no backward unless torch refuses one. Torch refuses some that ours
    copes with (a tensor times itself in place, say), and after a failed backward it has added part of the gradients,
    ours none.
    """
    ours, theirs = run(jt, seed), run(torch, seed)
    if ours[3] != theirs[3]:
        assert {e for e in ours[3] if e[1] != "refused"} <= set(theirs[3]), f"seed {seed}: {ours[3]} {theirs[3]}"
        assert any(e[1] == "refused" for e in theirs[3]) or all(e[1] != "refused" for e in ours[3]), f"seed {seed}"
        return False
    if any(e[1] == "refused" for e in ours[3]):
        return False
    try:
        same(plain(ours), plain(theirs))
    except AssertionError as e:
        raise AssertionError(f"seed {seed}: {e}") from e
    return True


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("block", range(6))
def test_random_programs(block):
    compared = sum(judge(seed) for seed in range(block * 1000, block * 1000 + 20))
    assert compared >= 8
