"""Dicts that the script did not make: read by path, items stored when the call ends."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


class Cache:
    """State as an optimizer keeps it: keyed by tensors, and made on demand."""

    def __init__(self, maker: Any = None):
        self.state: Any = ({torch.zeros(1): torch.zeros(1)} if maker is None else
                           dict(maker) if isinstance(maker, dict) else defaultdict(maker))
        self.count = {"steps": 0, "last": None}


def momentum(cache: Cache, x: Any) -> Any:
    if x in cache.state:
        cache.state[x] = cache.state[x] * 0.5 + x
    else:
        cache.state[x] = x.clone()
    return cache.state[x] * 2


def on_demand(cache: Cache, x: Any) -> Any:
    held = cache.state[x]
    if len(held) == 0:
        held["sum"] = torch.zeros_like(x)
    held["sum"] += x
    return held["sum"] + 1


def counts(cache: Cache, x: Any) -> Any:
    cache.count["steps"] += 1
    cache.count["last"] = x * cache.count["steps"]
    return cache.count["last"] + len(cache.state)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("function", "maker"), [
    (momentum, None), (momentum, {}), (momentum, {"a": 1}), (on_demand, dict), (counts, None)])
def test_state_goes_on_as_in_eager(function: Any, maker: Any, interpret: bool) -> None:
    with config.override(interpret=interpret):
        mine, theirs = Cache(maker), Cache(maker)
        x, y = torch.arange(3.0), torch.arange(3.0)
        scripted = torch.script(function)
        for _ in range(4):
            assert scripted(theirs, y).tolist() == function(mine, x).tolist()
        assert scripted.cache_info().compilations <= 2  # without the item, and with it
        assert str(theirs.count) == str(mine.count)
        assert [str(v) for v in theirs.state.values()] == [str(v) for v in mine.state.values()]
        assert function is counts or y in theirs.state


def test_an_item_that_another_changed_is_read_anew() -> None:
    cache, x = Cache(), torch.ones(2)
    scripted = torch.script(momentum)
    scripted(cache, x)
    scripted(cache, x)
    cache.state[x] = torch.full((2,), 10.0)
    assert scripted(cache, x).tolist() == [12.0, 12.0]
    del cache.state[x]
    assert scripted(cache, x).tolist() == [2.0, 2.0]


class Optimizer:
    """Keeps a count for each of its tensors, found where it is and made where it is not."""

    def __init__(self, maker: Any, keys: Any):
        self.state: Any = defaultdict(maker)
        self.keys = keys

    def _made(self, key: Any) -> Any:
        if key not in self.state:
            self.state[key] = {"step": torch.tensor(0.0)}
        return self.state[key]

    def step(self) -> None:
        for key in self.keys:
            held = self.state[key] if key in self.state else self._made(key)
            held["step"].add_(1)


def steps(optimizer: Optimizer, x: Any, n: int) -> Any:
    for _ in range(n):
        x = x * 2
        optimizer.step()
    assert n > 1
    return x


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("key", [torch.ones(2), 0, "a", torch.float32, math.inf], ids=str)
def test_an_item_that_is_made_on_demand_is_made_where_the_program_asks_for_it(key: Any, interpret: bool) -> None:
    """No look at what a call finds makes one, be it for a program that fits or to say why none does."""
    mine, theirs = Optimizer(dict, [key]), Optimizer(dict, [key])
    scripted = torch.script(steps)
    with config.override(interpret=interpret):
        for n, cleared in ((2, True), (3, False), (0, True), (1, True), (2, False), (2, True), (1, False), (0, True)):
            for run, optimizer in ((steps, mine), (scripted, theirs)):
                if cleared:
                    optimizer.state.clear()
                try:
                    run(optimizer, torch.ones(2), n)
                except AssertionError:
                    assert n < 2
            assert str(dict(theirs.state)) == str(dict(mine.state))


def held_or_number(cache: Cache, x: Any, key: Any) -> Any:
    if key in cache.state:
        cache.state[key] = cache.state[key] + x
    else:
        cache.state[key] = x.clone()
    return x + cache.state[key + 1]


@pytest.mark.parametrize("key", [0, 1.5, True])
def test_a_number_is_a_key_of_what_makes_its_items(key: Any) -> None:
    mine, theirs = Cache(float), Cache(float)
    scripted = torch.script(held_or_number)
    for _ in range(3):
        assert scripted(theirs, torch.ones(2), key).tolist() == held_or_number(mine, torch.ones(2), key).tolist()
        assert str(theirs.state) == str(mine.state)


def looked_at(cache: Cache, x: Any, n: int) -> Any:
    for i in range(n):
        if i == 1:
            cache.state[x]["at"] = x
    return x


def changed_where_it_is(cache: Cache, x: Any, n: int) -> Any:
    for _ in range(n):
        cache.state[x]["sum"] = cache.state[x]["sum"] + 1 if "sum" in cache.state[x] else x
    return x


def lengths(cache: Cache, x: Any, n: int) -> Any:
    return [len(cache.state[x]) for _ in range(n)]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("function", [looked_at, changed_where_it_is, lengths])
def test_a_loop_makes_an_item_in_the_iteration_that_asks_for_it(function: Any, interpret: bool) -> None:
    mine, theirs, x = Cache(dict), Cache(dict), torch.ones(2)
    scripted = torch.script(function)
    with config.override(interpret=interpret):
        for n in (0, 1, 2, 3, 1):
            for cache in (mine, theirs):
                if n != 3:
                    cache.state.clear()
            assert str(scripted(theirs, x, n)) == str(function(mine, x, n))
            assert str(theirs.state) == str(mine.state)
