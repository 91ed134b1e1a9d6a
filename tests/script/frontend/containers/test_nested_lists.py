"""Lists of lists, and changes of slices of lists whose length is known at run time."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as torch
from tests.script.frontend.agree import agree, registry, suite, t

PROGRAMS, program = registry()


@program((3,), (4,), (0,))
def pairs(n: int):
    rows = []
    for i in range(n):
        rows.append([i, i * 2])
    return rows, len(rows[0]) if n > 0 else 0


@program((3, t(5, 2)), (4, t(6, 2)), (2, t(4, 2)), (1, t(3, 2)))
def ragged(n: int, x):
    rows = []
    for i in range(n):
        row = []
        for j in range(i):
            row.append(x[j] * i)
        rows.append(row)
    s = torch.zeros(())
    for row in rows:
        for v in row:
            s = s + v.sum()
    return rows, s


def raised(xs):
    return [x + 1 for x in xs]


@program((2,), (3,), (0,))
def one_function_after_the_other(n: int):
    xs = list(range(n))
    for f in (raised, raised, raised):
        xs = f(xs)
    for k in (1, 2, 3):
        xs = list(map(lambda v, k=k: v + k, xs))
    return xs


@program((2,), (3,))
def paths(n: int):
    found = [[0]]
    for i in range(n):
        found = found + [p + [i] for p in found]  # noqa: RUF005
    return found, found[-1], len(found)


@program((2,), (3,), (0,))
def subsets(n: int):
    found = [[]]
    for i in range(n):
        found = found + [[*p, i] for p in found]
    print(found)
    return found


@program((t(3, 4), 2), (t(5, 3), 3))
def beam_search(x, k: int):
    beams = [([0], torch.zeros(()))]
    for i in range(x.shape[0]):
        new = []
        for seq, score in beams:
            for j in range(x.shape[1]):
                new.append((seq + [j], score + x[i, j]))  # noqa: RUF005
        new.sort(key=lambda b: b[1].item(), reverse=True)
        beams = new[:k]
    return [b[0] for b in beams], torch.stack([b[1] for b in beams])


@program((t(3, 4), 2), (t(5, 3), 3))
def beams_of_numbers(x, k: int):
    beams = [([0], 0.0)]
    for i in range(x.shape[0]):
        new = []
        for seq, score in beams:
            for j in range(x.shape[1]):
                new.append(([*seq, j], score + x[i, j].item()))
        beams = sorted(new, key=lambda b: -b[1])[:k]
    return beams


@program((t(3), 1), (t(4), 3), (t(4), 4))
def states_of_states(x, n: int):
    hs = []
    for i in range(n):
        inner = [x * i]
        for _ in range(i):
            inner.append(torch.tanh(inner[-1] * x))
        hs.append(inner)
    out = x * 0
    for inner in hs:
        out = out + torch.stack(inner).sum(0) * inner[0]
    return out, hs[-1][-1], hs


@program((3,), (5,))
def lists_replaced(n: int):
    rows = []
    for i in range(n):
        rows.append([i])
    for i in range(n):
        rows[i] = rows[i] + [i * 10]
    rows.reverse()
    rows.insert(1, [7])
    rows.extend([[8, 9]])
    a = rows.pop()
    b = rows.pop(0)
    return (rows, a, b, rows[0:2], rows == rows, rows[0] == [7], [7] in rows, a < b, a >= b, rows != [a], len(rows),
            [len(r) for r in rows], max(rows))


@program((5, 1, 3), (4, 0, 2), (6, -2, -1), (6, 3, 1))
def slices_changed(n: int, i: int, j: int):
    a = list(range(n))
    a[i:j] = [7, 8, 9]
    b = list(range(n))
    b[i:] = a
    c = list(range(n))
    del c[i:j]
    d = list(range(n))
    del d[i]
    e = list(range(n))
    e[:j] = range(n)
    f = [1, 2, 3, 4]
    f[i:j] = [9]
    g = [1, 2, 3, 4]
    del g[i]
    h = [1, 2, 3, 4]
    h[1:2] = list(range(n))
    return a, b, c, d, e, f, g, h


@program((t(3), 3), (t(2), 5))
def slices_of_tensors_changed(x, n: int):
    hs = []
    for i in range(n):
        hs.append(x * i)
    hs[1:2] = [x * 2, x + 1]
    del hs[0]
    hs.insert(0, x * x)
    hs.extend([x * 3] * n)
    hs.reverse()
    hs[-1] = hs[-2] * hs[0]
    return hs, torch.stack(hs).sum(0), hs[1:3]


@program((5, 9),)
def deleted_beyond_the_end(n: int, i: int):
    xs = list(range(n))
    del xs[i]
    return xs


test_programs = suite(PROGRAMS)


def grown_after(n: int):
    rows = []
    row = [0]
    for i in range(n):
        row.append(i)
        rows.append(row)
    return rows


def grown_by_another_name(n: int):
    rows = []
    p = [0]
    for i in range(n):
        p.append(i)
        q = p
        rows.append(q)
        p = q
    return rows


def grown_in_the_list(n: int):
    rows = []
    for i in range(n):
        rows.append([i])
    rows[0].append(5)
    return rows


def grown_in_a_tuple(n: int):
    rows = []
    s = ([0], 1)
    for i in range(n):
        s[0].append(i)
        rows.append(s[0])
        s = (s[0], 2)
    return rows


@pytest.mark.parametrize("function", [grown_after, grown_by_another_name, grown_in_the_list, grown_in_a_tuple])
def test_a_list_in_a_list_is_changed(function):
    agree(function, (3,), (4,), (99,), compilations=1)


def test_second_order_of_lists_of_lists():
    def f(x, n: int):
        rows = []
        for i in range(n):
            row = []
            for _ in range(i + 1):
                row.append(torch.tanh(x * (i + 1)))
            rows.append(row)
        out = torch.zeros(())
        for row in rows:
            out = out + (row[0] * row[-1] * x).sum()
        return out

    found = []
    for g in (f, torch.script(f)):
        x = t(3).requires_grad_()
        (first,) = torch.autograd.grad(g(x, 3), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        found.append((first.detach().numpy(), second.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)


def test_a_list_of_one_branch_is_appended_to_a_list_of_the_caller():
    kept = []

    def f(x, k: int):
        v = None
        if k > 1:
            v = [x * 2]
        if v is not None:
            kept.append(v)
        return x

    scripted = torch.script(f)
    for k in (2, 0, 3):
        kept.clear()
        scripted(t(2), k)
        assert [[y.tolist() for y in row] for row in kept] == ([[(t(2) * 2).tolist()]] if k > 1 else [])


def test_items_are_compared_by_identity_first():
    def f(y: float):
        return [y] == [y], (y, 1) == (y, 1), y in [y], y in (1.0, y), [y] == [y + 0.0]

    for y in (float("nan"), 2.0):
        assert torch.script(f)(y) == f(y)
