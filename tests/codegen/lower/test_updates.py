"""Loops that write into parts of a tensor: right whatever else reads it, and linear where nothing else does."""

from __future__ import annotations

import time

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config


def rows(x, n):
    out = torch.zeros(n, 3)
    for i in range(n):
        out[i] = x * i
    return out


def triangle(x, n):
    out = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            if (i + j) % 2 == 0:
                out[i, j] = x[0] * i * j
            else:
                out[j, i] += x[1]
        out[i] *= 2
    return out


def reads_what_it_wrote(x, n):
    out = torch.zeros(n + 2, 3)
    out[0] = x
    for i in range(n):
        out[i + 1] = torch.tanh(out[i] + out[0])
    return out


def keeps_the_old(x, n):
    out, last = torch.zeros(n, 3), torch.zeros(n, 3)
    for i in range(n):
        last = out.clone()
        out[i] = x * i + last[0]
    return out + last


def swaps(x, n):
    out = torch.zeros(n, 3) + x
    for i in range(n - 1):
        a, b = out[i].clone(), out[i + 1].clone()
        out[i], out[i + 1] = b * i, a
    return out


def gathers(x, n):
    out = torch.zeros(n, 3)
    for i in range(n):
        out[torch.tensor([0, i])] = torch.stack([x, x * i])
    return out


def recurrent(x, n):
    h = x[0] * 0
    for i in range(n):
        for j in range(i):
            if j % 2:
                h = torch.tanh(h + x[i] * x[j])
    return h


PROGRAMS = [(rows, 3), (triangle, 3), (reads_what_it_wrote, 3), (keeps_the_old, 3), (swaps, 3), (gathers, 3),
            (recurrent, (9, 2))]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize(("function", "shape"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_as_eager(function, shape, n):
    torch.manual_seed(0)
    x = torch.randn(shape)

    def run(f):
        leaf = x.clone().requires_grad_()
        y = f(leaf, n)
        (y * torch.arange(y.numel()).reshape(y.shape).cos()).sum().backward()
        return y, leaf.grad

    expected = run(function)
    for interpret in (False, True):
        with config.override(interpret=interpret):
            for a, b in zip(run(torch.script(function)), expected, strict=True):
                assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [rows, recurrent])
def test_time_is_linear_in_the_size(function):
    scripted = torch.script(function)

    def seconds(size):
        x = torch.ones((size, 2) if function is recurrent else 3, requires_grad=True)
        n = 9 if function is recurrent else size
        best = 1e9
        for _ in range(5):
            start = time.process_time()
            scripted(x, n).sum().backward()
            best = min(best, time.process_time() - start)
        return best

    seconds(10)
    assert seconds(64000) < 35 * seconds(8000) + 0.02  # 8 times as large


def written(outs, i, depth):
    if depth == 0:
        return
    if i % (depth + 1) != 1:
        written(outs, i, depth - 1)
    else:
        for out in outs:
            out[0] += depth


def many_in_nested_branches(x, n):
    outs = [x * 0, x * 1, x * 2, x * 3, x * 4]
    for i in range(n):
        written(outs, i, 12)
    return outs


def test_ways_through_nested_branches_are_followed_once():  # by every output of every branch they took hours
    x = torch.ones(3)
    for a, b in zip(torch.script(many_in_nested_branches)(x, 9), many_in_nested_branches(x, 9), strict=True):
        assert torch.equal(a, b)


def counts(x):
    n = x.shape[0]
    ones = torch.ones(n, dtype=torch.int64)
    return torch.bincount(ones), torch.zeros(3).index_add(0, ones, torch.ones(n)), torch.zeros(3).scatter_add(
        0, ones, torch.ones(n)), torch.zeros(2, 2).index_put((ones, ones), torch.tensor(2.0), accumulate=True)


def writes(x):
    ones, y = torch.ones(x.shape[0], dtype=torch.int64), torch.zeros(3)
    y[ones] = 5.0
    return y, torch.zeros(3).scatter(0, ones, 2.0), torch.zeros(3).index_fill(0, ones, 2.0)


def slopes(x):
    w = torch.ones(4).requires_grad_()
    w[torch.ones(x.shape[0], dtype=torch.int64)].sum().backward()
    return (w.grad,)


@pytest.mark.parametrize("f", [counts, writes, slopes], ids=lambda f: f.__name__)
def test_equal_places_and_values(f):
    """What is written is the same for each place of the space, and still written as often as there are places."""
    script = torch.script(f)
    for n in (3, 0, 1, 2, 65):
        x = torch.ones(n)
        for ours, eager in zip(script(x), f(x), strict=True):
            assert ours.tolist() == eager.tolist()


def every_row(xs, h):
    out = torch.zeros(xs.shape[0], 3)
    for t in range(xs.shape[0]):
        h = (h + xs[t]).tanh()
        out[t] = h
    return out


def but_one(xs, h):
    out = torch.ones(xs.shape[0] + 1, 3)
    for t in range(xs.shape[0]):
        h = (h + xs[t]).tanh()
        out[t] = h
    return out


def with_the_row_before(xs, h):
    out = torch.ones(xs.shape[0], 3)
    for t in range(xs.shape[0]):
        h = (h + xs[t]).tanh()
        out[t] = h + out[t - 1]
    return out


def half_of_each(xs, h):
    out = torch.ones(xs.shape[0], 3)
    for t in range(xs.shape[0]):
        h = (h + xs[t]).tanh()
        out[t, :2] = h[:2]
    return out


def to_the_end_or_not(xs, h):
    out = torch.ones(xs.shape[0], 3)
    for t in range(xs.shape[0]):
        h = (h + xs[t]).tanh()
        if h.sum() > 1.5:
            break
        out[t] = h
    return out


@pytest.mark.parametrize("function", [every_row, but_one, with_the_row_before, half_of_each, to_the_end_or_not])
def test_what_a_loop_leaves_is_what_was_there(function):
    rng = np.random.default_rng(0)
    f = torch.script(function)
    for steps in (9, 4, 9):
        xs, h = torch.from_numpy(rng.random((steps, 3)).astype(np.float32)), torch.zeros(3)
        np.testing.assert_allclose(f(xs, h).numpy(), function(xs, h).numpy(), rtol=1e-5)


def test_what_every_iteration_writes_a_row_of_has_no_beginning():
    given = torch.ones(9, 3), torch.zeros(3)
    fills = {}
    for function in (every_row, but_one):
        f = torch.script(function)
        f(*given)
        text = "\n".join(f.kernels(*given))
        fills[function] = text.count("copy(")
    assert fills[every_row] < fills[but_one]


def test_rows_that_were_not_written_when_it_raised():
    class Kept:
        out = None

    def loop(kept, xs, limit: float):
        kept.out = torch.zeros(xs.shape[0], 3)
        for t in range(xs.shape[0]):
            if xs[t].sum() > limit:
                raise ValueError("too much")
            kept.out[t] = xs[t]
        return kept.out.sum()

    xs = torch.arange(12.0).reshape(4, 3)
    found = []
    for function in (loop, torch.script(loop)):
        kept = Kept()
        function(kept, xs, 1e9)
        with pytest.raises(ValueError, match="too much"):
            function(kept, xs, 15.0)
        found.append(kept.out.numpy())
    np.testing.assert_array_equal(*found)


def test_a_row_is_computed_where_it_is_kept():
    def function(xs, w, h):
        out = torch.zeros(xs.shape[0], 2, 3)
        for t in range(xs.shape[0]):
            y = (xs[t] * 2).tanh()
            out[t] = y
            h = h + y.mm(w)
        return out, h

    rng = np.random.default_rng(0)
    given = [torch.from_numpy(rng.random(shape).astype(np.float32)) for shape in ((9, 2, 3), (3, 3), (2, 3))]
    f = torch.script(function)
    for found, expected in zip(f(*given), function(*given), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    assert not any("select_scatter(" in kernel for kernel in f.kernels(*given))
