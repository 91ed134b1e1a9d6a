"""Containers that a script did not make: what comes back is this call's object, and no object is taken for another."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, script


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


class Holder:
    """An object with attributes."""


def add_first(xs):
    xs[0].add_(1)
    return xs


def add_named(d):
    d["x"].add_(1)
    return d, d["list"], (d["inner"],)


def test_a_returned_argument_is_that_of_the_call():
    f = script(add_first)
    for _ in range(3):
        xs = [torch.zeros(2)]
        assert f(xs) is xs
        assert xs[0].tolist() == [1, 1]
    assert f.cache_info().compilations == 1


def test_dicts_and_what_they_hold():
    f = script(add_named)
    for _ in range(2):
        d = {"x": torch.zeros(2), "list": [torch.ones(1)], "inner": {"k": 1.0}}
        whole, held, (inner,) = f(d)
        assert whole is d
        assert held is d["list"]
        assert inner is d["inner"]
    assert f.cache_info().compilations == 1


def test_a_choice_between_two():
    @script
    def f(xs, ys, first: bool):
        return xs if first else ys

    for first in (True, False, True):
        xs, ys = [torch.zeros(1)], [torch.ones(1)]
        assert f(xs, ys, first) is (xs if first else ys)


def test_attributes_that_are_replaced():
    holder = Holder()

    @script
    def f(x):
        return holder.items, holder.named, x + 1

    for _ in range(3):
        holder.items, holder.named = [1.0], {"a": 2.0}
        items, named, _ = f(torch.ones(1))
        assert items is holder.items
        assert named is holder.named


def test_two_attributes_change_places():
    holder = Holder()
    holder.a, holder.b = [1.0], [2.0]

    @script
    def f(x):
        holder.a, holder.b = holder.b, holder.a
        return x + 1

    for _ in range(3):
        a, b = holder.a, holder.b
        f(torch.ones(1))
        assert holder.a is b
        assert holder.b is a


def test_a_new_list_in_several_places_is_one():
    holder = Holder()
    holder.a = holder.b = None

    @script
    def f(x):
        made = [x + 1]
        holder.a, holder.b = made, made
        return made

    for _ in range(2):
        made = f(torch.ones(1))
        assert made is holder.a
        assert made is holder.b


def test_an_optimizers_state():
    p = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([p])
    (p * 2).sum().backward()
    optimizer.step()

    @script
    def f(x):
        return optimizer.state, optimizer.param_groups, x + 1

    for _ in range(2):
        state, groups, _ = f(p)
        assert state is optimizer.state
        assert groups is optimizer.param_groups


@pytest.mark.parametrize("order", [(True, False, True), (False, True, False)])
@pytest.mark.parametrize("kind", [list, dict])
def test_one_container_as_two_arguments(kind, order):
    def of_lists(xs, ys, v):
        xs.append(v)
        return len(ys), ys

    def of_dicts(xs, ys, v):
        xs["new"] = v
        return len(ys), ys

    plain = of_lists if kind is list else of_dicts
    f = script(plain)
    for same in order:
        found = []
        for run in (plain, f):
            xs = [torch.ones(1)] if kind is list else {"old": torch.ones(1)}
            ys = xs if same else xs.copy()
            n, returned = run(xs, ys, torch.zeros(1))
            found.append((n, returned is ys, len(xs), len(ys)))
        assert found[0] == found[1]
    assert f.cache_info().compilations == 2


def test_saved_programs_return_what_they_are_given(tmp_path):
    f = script(add_first)
    f([torch.zeros(2)])
    torch.jit.save(f, tmp_path / "program")
    loaded = torch.jit.load(tmp_path / "program")
    for _ in range(2):
        xs = [torch.zeros(2)]
        assert loaded(xs) is xs
        assert xs[0].tolist() == [1, 1]
