"""Sets of run-time items and sets that change: everything but an order."""

from __future__ import annotations

import contextlib
import io

import pytest

import jitgrad as torch


def set_runtime(n):
    s = set()
    for i in range(n):
        s.add(i * i % 4)
    return (len(s), sorted(s), 2 in s)


def set_literal_rt(n):
    s = {n, n % 3, 1}
    t = {1, 2, 3}
    return (len(s), sorted(s | t), sorted(s & t), sorted(s - t), n in t, sorted(t | s), t == s, s == t,
            s <= t, t >= s, s ^ t == {1}, isinstance(s, set))


def set_comp(n):
    s = {i % 3 for i in range(n)}
    s.discard(1)
    return (len(s), sorted(s), s)


def seen(n):
    seen = set()
    out = []
    k = n
    while k not in seen:
        seen.add(k)
        out.append(k)
        k = k // 2 if k % 2 == 0 else 3 * k + 1
    return (out, len(seen), max(seen), min(seen))


def errs(n):
    s = {n}
    try:
        s.remove(4)
    except KeyError as e:
        print('no', e)
    s.update([1, 2], {n + 1})
    s |= {9}
    return (len(s), sorted(s), s.isdisjoint({77}), s.issuperset([n]), len(s.difference([n])))


def strs(n):
    s = {'a', 'b'}
    s.add('c')
    if n > 3:
        s.add('d')
    return (len(s), 'd' in s, sorted(s))


def tuples(n):
    s = set()
    for i in range(n):
        for j in range(n):
            s.add((i % 2, j % 2))
    return (len(s), (1, n % 2) in s)


def branch(n):
    s = {1, 2}
    if n > 3:
        s.add(n)
    else:
        s.discard(1)
    t = s
    t.add(100)
    return (len(s), 100 in s, bool(s), not set())


def fz(n):
    return (len(frozenset((n, 1, n))), frozenset([n]) == frozenset([3]))


def copies(n):
    s = {n, 1}
    t = s.copy()
    t.add(7)
    return (s, t, s is t, t > s, s < t, s != t)


def grown(n):
    s = {1, 2}
    for i in range(n):
        s = s | {i, 2}
    return (len(s), s == {1, 2, 0})


def halves(n):
    s = {i * 0.5 for i in range(n)}
    return (len(s), 0.5 in s)


def by_a_local_function(n):
    s = set()

    def add(k):
        s.add(k)
    for i in range(n):
        add(i % 3)
    return len(s)


def in_a_dict(n):
    d = {k: set() for k in range(2)}
    for i in range(n):
        d[i % 2].add(i)
    return [len(v) for v in d.values()]


def graph(x, n):
    done, todo, acc = set(), [n % 4], x
    while todo:
        v = todo.pop()
        if v in done:
            continue
        done.add(v)
        acc = acc * 2 + x[v]
        for a, b in [(0, 1), (1, 2), (2, 3), (3, 0)]:
            if a == v:
                todo.append(b)
    return acc, len(done)


def kept_columns(x, n):
    keep = {i for i in range(4) if (i + n) % 2}
    y = x * 0
    for i in range(4):
        if i in keep:
            y = y + x[i]
    return y


NUMBERS = [set_runtime, set_literal_rt, set_comp, seen, errs, strs, tuples, branch, fz,
            copies, grown, halves, by_a_local_function, in_a_dict]


def outcome(function, *args):
    """What it returns and prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        return function(*args), printed.getvalue()


@pytest.mark.parametrize("function", NUMBERS, ids=lambda f: f.__name__)
def test_sets_are_as_in_eager(function):
    scripted = torch.script(function)
    for n in (3, 0, 5, 8):
        assert outcome(scripted, n) == outcome(function, n)
    assert scripted.cache_info().compilations <= 2


@pytest.mark.parametrize("function", [graph, kept_columns])
def test_sets_decide_what_is_differentiated(function):
    scripted = torch.script(function)
    for n in (3, 5):
        results = []
        for f in (scripted, function):
            x = torch.arange(1.0, 5.0).requires_grad_()
            value = f(x, n)
            value, *rest = value if isinstance(value, tuple) else (value,)
            value.sum().backward()
            results.append((value.tolist(), rest, x.grad.tolist()))
        assert results[0] == results[1]
