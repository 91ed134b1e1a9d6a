"""Dicts that the script did not make: read by path, items stored when the call ends."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


class Cache:
    """State as an optimizer keeps it: keyed by tensors, and made on demand."""

    def __init__(self, maker: Any = None):
        self.state: Any = {torch.zeros(1): torch.zeros(1)} if maker is None else defaultdict(maker)
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
@pytest.mark.parametrize(("function", "maker"), [(momentum, None), (on_demand, dict), (counts, None)])
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
