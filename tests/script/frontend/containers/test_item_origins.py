"""Items of lists of run-time length that are tensors of the caller: the script gives back the very objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.eager.tensor import Tensor
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((t(3), t(3, seed=1), 2), (t(3), t(3, seed=1), 0))
def appended(a, b, n: int):
    xs = [a]
    for i in range(n):
        xs.append(b if i == 1 else a * i)
        xs.append(b)
    return xs, len(xs)


@program((t(3), [t(3, seed=1)], True), (t(3), [t(3, seed=1)], False))
def appended_by_a_branch(a, xs, c: bool):
    if c:
        xs.append(a)
        xs.append(a * 2)
    return a.sum()


@program((t(4, 3), 3), (t(4, 3), 0))
def rows(m, n: int):
    out = []
    for i in range(n):
        out.append(m[i])
        out.append(m[n - i])
        if i == 1:
            out.append(m[i + 1] * 2)
    for r in m:
        out.append(r)
    return out


@program((t(3), t(3, seed=1), True), (t(3), t(3, seed=1), False))
def chosen(a, b, c: bool):
    v = a if c else b
    xs = [a * 2]
    if c:
        xs.append(a)
    xs.append(v)
    return xs


@program((t(3), t(3, seed=1), True, 1), (t(3), t(3, seed=1), False, 0))
def one_of_them(a, b, c: bool, k: int):
    xs = [b]
    if c:
        xs.append(a)
    x = xs[k]
    return x, x[1:], xs[0][0]


@program((t(3), t(3, seed=1), 1), (t(3), t(3, seed=1), 3), (t(3), t(3, seed=1), 0))
def last(a, b, n: int):
    xs = []
    for i in range(n):
        xs.append(a if i % 2 == 0 else b)
        xs.append(a + b)
    best = b
    for x in xs[::-1]:
        if x.sum() > best.sum():
            best = x
    return best, xs[1:]


@program((t(3), t(3, seed=1), 2), (t(3), t(3, seed=1), 0))
def pairs_and_optionals(a, b, n: int):
    xs = [(a, 1)]
    ys = [None]
    for i in range(n):
        xs.append((b * i if i == 1 else b, i))
        ys.append(a)
        ys.append(None)
    return xs, ys


@program((t(2, 3), 2), (t(2, 3), 0))
def views_of_items(m, n: int):
    xs = [m]
    for i in range(n):
        xs.append(m * i)
        xs.append(m)
    return [x[0, 1:] for x in xs], [x[i % 2] for i, x in enumerate(xs)]


@program((t(3), t(3, seed=1), 2), (t(3), t(3, seed=1), 0))
def lists_in_lists(a, b, n: int):
    rows = []
    for i in range(n):
        rows.append([a] if i == 0 else [b, a * i])
    return rows


@program((t(3), 2), (t(3), 0))
def by_key(a, n: int):
    d = {}
    for i in range(n):
        d[i] = a if i == 0 else a * i
    return d


@program((t(3), 2), (t(3), 0))
def written_before(a, n: int):
    y = a * 1
    a = a.detach()
    a += 1
    xs = []
    for _ in range(n):
        xs.append(a)
    return xs, y


@program((t(3), [t(3, seed=1)], 3), (t(3), [t(3, seed=1)], 0))
def stored_before_an_exception(a, xs, n: int):
    for _ in range(n):
        xs.append(a)
    if n > 2:
        raise ValueError("more than two")
    return a * 2


@program(([t(3), t(3, seed=1)],), ([t(3), t(3, seed=1), t(3, seed=2)],), ([t(3)],), compilations=2)
def given(xs):
    ys = xs[1:]
    best = xs[0]
    for x in xs:
        if x[0] > 0:
            ys.append(x)
            ys.append(x * 2)
            best = x
    return ys, best


test_programs = suite(PROGRAMS)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [x for part in parts for x in _tensors(part)]


def _where(args: Any, result: Any) -> list[Any]:
    """For every tensor of a result: which argument it is, and whose memory it has."""
    own = _tensors(args)
    return [([x is a for a in own], [np.shares_memory(x._data, a._data) for a in own], x.requires_grad)
            for x in _tensors((result, args))]


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("case", PROGRAMS, ids=[c.function.__name__ for c in PROGRAMS])
def test_they_are_the_objects_of_the_caller(case: Any, mode: str) -> None:
    from tests.observe import duplicate

    with config.override(interpret=mode == "interpreted"):
        scripted = torch.script(case.function)
        for call in case.calls:
            found = []
            for f in (case.function, scripted):
                args = duplicate(call)
                for x in _tensors(args):
                    x.requires_grad_()
                try:
                    found.append(_where(args, f(*args)))
                except (ValueError, RuntimeError) as error:
                    found.append([str(error), *_where(args, ())])
            assert found[0] == found[1]
