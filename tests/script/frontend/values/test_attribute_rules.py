"""Attributes that go by a rule of their class's, or by another name: refused, never read past the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, nn, script
from jitgrad.errors import UnsupportedCall


class Doubling:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)


class Reading:
    def __init__(self) -> None:
        self.v = 1

    def __getattribute__(self, name: str) -> Any:
        return 42 if name == "v" else object.__getattribute__(self, name)


@dataclass
class Ruled:
    a: int = 1

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)


class Plain:
    def __init__(self) -> None:
        self.v = 1.0


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.zeros(2))


def assigned(obj: Any, n: int) -> Any:
    obj.v = n
    return obj.v


@pytest.mark.parametrize("make", [lambda n: Doubling(n).v, lambda n: Ruled(n).a])
def test_objects_that_a_script_makes_hold_what_their_class_says(make: Any) -> None:
    assert script(make)(3) == make(3) == 6


def test_those_that_are_asked_by_a_rule_are_not_made() -> None:
    with pytest.raises(UnsupportedCall, match="making a `Reading`"):
        script(lambda: Reading().v)()


@pytest.mark.parametrize(("obj", "rule"), [(Doubling(1), "__setattr__"), (Reading(), "__getattribute__"),
                                           (Ruled(), "__setattr__")])
def test_those_that_were_given_are_not_assigned_to(obj: Any, rule: str) -> None:
    with pytest.raises(UnsupportedCall, match=f"whose class has a `{rule}` of its own"):
        script(assigned)(obj, 2)


def through_the_dict(obj: Any, n: int) -> Any:
    obj.__dict__["v"] = n
    return obj.v


def dict_after(obj: Any, n: int) -> Any:
    obj.v = n * 1.5
    return obj.__dict__["v"]


def dict_before(obj: Any, n: int) -> Any:
    held = obj.__dict__
    obj.v = n * 1.5
    return held["v"]


@pytest.mark.parametrize(("function", "text"), [
    (through_the_dict, "a change of the `__dict__` of an object"),
    (dict_after, "`__dict__` of an object after its `v` is assigned"),
    (dict_before, "assignment to `v` of an object whose `__dict__` is read")])
def test_the_dict_of_an_object_is_another_name_of_its_attributes(function: Any, text: str) -> None:
    with pytest.raises(UnsupportedCall, match=text):
        script(function)(Plain(), 2)


def registry_written(layer: Any) -> Any:
    layer._buffers["k"] = layer.k + 1
    return layer.k


def registry_read(layer: Any) -> Any:
    layer.k = layer.k + 1
    return layer._buffers["k"]


@pytest.mark.parametrize("function", [registry_written, registry_read])
def test_so_are_the_registries_of_a_module(function: Any) -> None:
    with pytest.raises(UnsupportedCall, match="`_buffers` of an object"):
        script(function)(Layer())


def by_name(layer: Any, n: int) -> Any:
    layer.calls = n
    layer.k = layer.k + 1
    return [b + n for b in layer.buffers()], layer.k, layer.calls


@pytest.mark.parametrize("interpret", [False, True])
def test_buffers_that_are_assigned_are_found_by_name(interpret: bool) -> None:
    with config.override(interpret=interpret):
        buffers, k, calls = script(by_name)(Layer(), 3)
    assert (buffers[0].tolist(), k.tolist(), calls) == ([4.0, 4.0], [1.0, 1.0], 3)


class Switched:
    k = 3


def kept_or_own(obj: Any, n: int) -> Any:
    if n:
        obj.k = obj.k + n
    return obj.k


def test_what_no_run_assigned_stays_the_class_s() -> None:
    f, obj = script(kept_or_own), Switched()
    assert (f(obj, 0), vars(obj)) == (3, {})
    Switched.k = 10
    try:
        assert (f(obj, 0), f(obj, 1), f(obj, 1), vars(obj)) == (10, 11, 12, {"k": 12})
    finally:
        Switched.k = 3
    assert (f(obj, 0), f(Switched(), 0)) == (12, 3)
