"""Dicts that are filled by run-time keys: counts, caches, memos."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from tests.script.frontend.agree import ints, registry, suite, t

PROGRAMS, program = registry()


@program((7,), (3,), (0,))
def counts_by_get(n: int):
    counts = {}
    for i in range(n):
        k = i * i % 5
        counts[k] = counts.get(k, 0) + 1
    return counts, len(counts), 4 in counts


@program((ints(3, 1, 3, 2, 1, 3),), (ints(5, 5),))
def counts_by_in(x):
    counts = {}
    for v in x:
        k = int(v)
        if k in counts:
            counts[k] += 1
        else:
            counts[k] = 1
    best = 0
    for k in counts:
        if counts[k] > best:
            best = counts[k]
    print(counts)
    return best, list(counts.keys()), list(counts.values()), sum(counts.values()), max(counts, key=lambda k: counts[k])


@program((t(4, 3), 4), (t(6, 2), 6), (t(2, 3), 2))
def cache_of_states(x, n: int):
    cache = {}
    h = torch.zeros(x.shape[1])
    for i in range(n):
        h = torch.tanh(h + x[i])
        cache[i] = h
    out = torch.zeros(x.shape[1])
    for k, v in cache.items():
        out = out + v * k
    return out, cache[n - 1], cache.get(n, h * 0), cache


@program((5,), (9,), (1,))
def fibonacci_memo(n: int):
    memo = {0: 0, 1: 1}
    for i in range(2, n + 1):
        memo[i] = memo[i - 1] + memo[i - 2]
    return memo[n], len(memo)


@program((4, 3), (2, 5))
def keys_that_are_pairs(n: int, m: int):
    table = {}
    for i in range(n):
        for j in range(m):
            if i == 0 or j == 0:
                table[(i, j)] = 1
            else:
                table[(i, j)] = table[(i - 1, j)] + table[(i, j - 1)]
    return table[(n - 1, m - 1)], (0, n + m) in table, len(table)


@program((6,), (3,))
def taken_out(n: int):
    d = {}
    for i in range(n):
        d[i * 3] = i + 0.5
    a = d.pop(3)
    b = d.pop(n + 1000, -1.0)
    del d[0]
    c = d.popitem()
    e = d.setdefault(n * 7, 2.5)
    other = d.copy()
    other[n] = 1.0
    d.update({1: 9.0})
    return d, a, b, c, e, other, d == other, d != other, bool(d)


@program((3,), (5,))
def emptied(n: int):
    d = {}
    for i in range(n):
        d[i] = i
        if i == 2:
            d.clear()
    return d, 2 in d, 3 not in d


@program((True,), (False,))
def key_on_one_side(c: bool):
    d = {"a": 1}
    if c:
        d["b"] = 2
    return len(d), d, "b" in d, d.get("b", 7), d["a"]


@program((4, 2), (4, 9))
def missing(n: int, k: int):
    d = {}
    for i in range(n):
        d[i] = i * 2
    return d[k]


@program((t(3), 4), (t(2), 3))
def gradients_through_values(x, n: int):
    d = {}
    for i in range(n):
        k = i % 2
        d[k] = d.get(k, x * 0) + torch.sin(x * i)
    return d[0] * d[1]


test_programs = suite(PROGRAMS)


def test_a_dict_that_was_given():
    def f(d, n: int):
        for i in range(n):
            d[i] = d.get(i, 0) + 1
        return len(d)

    scripted = torch.script(f)
    for n in (2, 5):
        mine, theirs = {1: 5}, {1: 5}
        assert f(mine, n) == scripted(theirs, n)
        assert list(mine.items()) == list(theirs.items())


def test_second_order():
    def f(x, n: int):
        d = {}
        for i in range(n):
            d[i] = torch.tanh(x * i)
        out = torch.zeros(())
        for k in d:
            out = out + (d[k] * x).pow(2).sum()
        return out

    found = []
    for g in (f, torch.script(f)):
        x = t(3).requires_grad_()
        (first,) = torch.autograd.grad(g(x, 4), x, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), x)[0].numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_a_dict_that_changes_while_a_loop_goes_over_it():
    def f(n: int):
        d = {}
        for i in range(n):
            d[i] = i
        for k in d:
            d[k + 1] = k
        return d

    for n in (3, 99):
        with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
            torch.script(f)(n)


def test_a_dict_that_some_runs_change_while_a_loop_goes_over_it():
    def f(n: int):
        d = {"a": 1, "b": 2}
        for _ in d:
            if n > 5:
                d["c"] = n
        return d

    with pytest.raises(ScriptError, match="a dict to which some runs add while a loop goes over it"):
        torch.script(f)(2)


def test_memory_in_a_dict_is_not_written():
    def by_the_loop(n: int):
        h = torch.zeros(2)
        d = {0: h}
        for i in range(1, n):
            h.add_(1)
            d[i] = torch.ones(2)
        return d

    with pytest.raises(ScriptError, match="may or may not change another tensor"):
        torch.script(by_the_loop)(3)
