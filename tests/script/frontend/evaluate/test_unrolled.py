"""Loops that are unrolled where a script would be refused with them, and loops over what they change."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.errors import NotStatic, UnsupportedCall
from tests.script.frontend.agree import agree, registry, suite, t
from tests.script.frontend.templates.test_references import moving_view, one_of_several
from tests.script.refusals import test_refusals as refusals

PROGRAMS, program = registry()
MANY = "99"  # iterations of the refused programs: more than are unrolled


@program((t(3), 3, 1), (t(3), 4, -1), (t(3), 4, 9), compilations=None)
def item_written(x, n: int, k: int):
    ls = []
    for i in range(n):
        ls.append(x * i)
    ls[k] += 1
    return ls


@program((t(3), 3), compilations=None)
def each_item_written(x, n: int):
    ls = [x * i for i in range(n)]
    for v in ls:
        v += 1
    for i in range(n):
        ls[i].mul_(2)
    return ls


@program((t(3), 3), (t(3), 5), compilations=None)
def list_in_a_list_grown(x, n: int):
    rows = []
    for _ in range(n):
        rows.append([])
    for i in range(n):
        rows[i].append(x * i)
        rows[0].append(x + i)
    return rows


@program((t(3), 5), compilations=None)
def list_in_a_dict_grown(x, n: int):
    d = {}
    for i in range(n):
        if i % 3 not in d:
            d[i % 3] = []
        d[i % 3].append(x * i)
    return d


@program((t(3), 3), compilations=None)
def dicts_in_a_dict(x, n: int):
    d = {}
    for i in range(n):
        d[i] = {"h": x * i}
    for i in range(n):
        d[i]["h"] = d[i]["h"] + 1
    return d


@program((t(3), 3), compilations=None)
def keys_made_of_numbers(x, n: int):
    m = {"a": x * 1}
    for i in range(n):
        m[str(i)] = x * i
    m["a"] += 1
    return m


@program((t(3), 3), (t(3), 1), (t(3), 0), compilations=None)
def item_kept_and_written(x, n: int):
    best = None
    ls = []
    for i in range(n):
        ls.append(x * i)
        if i == 1:
            best = ls[i]
    if best is not None:
        best += 100
    return ls


program((t(2), 3), compilations=None)(one_of_several)
program((t(3, 2), 3), compilations=None, grad=False)(moving_view)


@program((t(3),))
def list_grows_while_looped(x):
    xs = [x * 1, x * 2]
    for v in xs:
        if len(xs) < 5:
            xs.append(v * 2)
    return sum(xs)


@program((t(3),))
def item_replaced_while_looped(x):
    xs = [1, 2, 3]
    for v in xs:
        xs[1] = 10
        x = x * v
    return x


@program(())
def list_shrinks_while_looped():
    xs = [1, 2, 3, 4]
    for v in xs:
        xs.remove(v)
    return xs


@program((t(3),))
def list_shrinks_while_enumerated(x):
    xs = [x, x * 2, x * 3]
    seen = []
    for i, v in enumerate(xs):
        seen.append(v)
        if i == 0:
            xs.pop()
    return len(seen)


@program(())
def list_grows_behind_an_iterator():
    xs = [1, 2, 3]
    it = iter(xs)
    first = next(it)
    xs.append(9)
    return first, list(it)


@program((t(3),))
def list_grows_while_zipped(x):
    xs = [x, x * 2]
    seen = []
    for v, k in zip(xs, (1, 2, 3, 4), strict=False):
        if len(xs) < 4:
            xs.append(v * k)
        seen.append(v)
    return seen


@program(())
def list_shrinks_behind_an_iterator():
    xs = [1, 2, 3, 4]
    it = iter(xs)
    first = next(it)
    xs.pop()
    return first, list(it)


@program(())
def list_grows_in_a_comprehension():
    xs = [1, 2]
    return [xs.append(v) if len(xs) < 5 else v for v in xs], xs


@program(())
def dict_grows_while_looped():
    d = {"a": 1, "b": 2}
    for k in d:
        d[k + "x"] = 1
    return d


@program(())
def dict_grows_behind_a_view():
    d = {"a": 1, "b": 2}
    for k, v in d.items():
        if k == "a":
            d["z"] = v + 1
    return d


@program(())
def dict_shrinks_behind_a_view():
    d = {"a": 1, "b": 2}
    keys = d.keys()
    for k in keys:
        del d[k]
    return d


@program((t(3),))
def values_replaced_behind_a_view(x):
    d = {"a": 1, "b": 2}
    for k, v in d.items():
        d[k] = v + 1
    return d, x


@program((t(3),))
def views_of_dicts(x):
    d = {"a": x, "b": x * 2}
    keys = d.keys()
    d["c"] = x * 3
    return (len(keys), list(keys), "a" in keys, sorted(keys), max(d.values(), key=lambda v: float(v.sum())),
            [*d.values()], tuple(d.items()), dict(d.items()), list(zip(keys, d.values(), strict=True)), str(keys),
            d.keys() == {"a", "b", "c"}, bool(d.items()), sorted(d.keys() - {"a"}))


test_programs = suite(PROGRAMS)


def longer_all_the_time():
    xs = [1]
    for v in xs:
        xs.append(v)
    return xs


def longer_with_every_item():
    xs = [1]
    return [xs.append(v) for v in xs]


@pytest.mark.parametrize("function", [longer_all_the_time, longer_with_every_item])
def test_endless_growth_is_refused(function):
    with pytest.raises(NotStatic, match="makes what it goes over longer") as raised:
        torch.script(function)()
    assert "test_unrolled.py" in str(raised.value)


def test_items_of_views_that_the_run_decides():
    def f(x, k: int):
        d = {"a": k, "b": 2}
        return d.items() == {("a", 1), ("b", 2)}

    with pytest.raises(UnsupportedCall, match="a set operation on run-time values"):
        torch.script(f)(torch.ones(1), 1)


def test_each_number_of_iterations_is_compiled():
    f = torch.script(item_written)
    for n in (2, 3, 3, 2):
        assert [v.tolist() for v in f(torch.ones(1), n, 0)] == [v.tolist() for v in item_written(torch.ones(1), n, 0)]
    assert f.cache_info().compilations == 2
    assert "unrolled the loops of at most 64 iterations" in str(f.explain(torch.ones(1), 2, 0))


def test_no_more_than_so_many_iterations_in_nested_loops():
    def f(x, n: int):
        rows = []
        for i in range(n):
            for j in range(n):
                rows.append(x * (i + j))
        rows[0] += 1
        return rows[0]

    assert torch.script(f)(torch.ones(1), 8).tolist() == [1.0]
    with pytest.raises(UnsupportedCall, match="may or may not change another tensor"):
        torch.script(f)(torch.ones(1), 9)


@pytest.mark.parametrize("name", [
    name for name, (_, call, _) in refusals.parse(refusals.CASES.read_text()).items()
    if MANY in call and name != "list_changed_by_its_loop"])  # which never ends
def test_what_is_refused_with_many_iterations_agrees_with_eager_in_few(name: str) -> None:
    text, call, _ = refusals.parse(refusals.CASES.read_text())[name]
    file = f"{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"torch": torch, "np": np, "__name__": "case", "floats": refusals.floats}
    exec(compile(text, file, "exec"), scope)
    arguments = eval(f"({call.replace(MANY, '3')})", scope)
    agree(scope["f"], arguments, compilations=None, grad=False)
