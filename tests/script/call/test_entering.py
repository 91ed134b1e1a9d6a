"""The generated entry function: reads what it should, and returns None at the first broken assumption."""

from __future__ import annotations

import enum
import math
import types
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import EntryWriter, separate
from jitgrad.script.call.sources import argument_guards


def outer():
    factor = 2.0

    def inner(x):
        return x * factor

    return inner


class Holder:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Kind(enum.Enum):
    ONE = 1


def enter(values, guards, inputs):
    writer = EntryWriter(list(values), values)
    for guard in guards:
        writer.guard(guard)
    names = [writer.read(s) for s in inputs]
    return writer.finish(f"[{', '.join(names)}]")


def test_every_kind_of_source_is_read_again_at_every_entry():
    function = outer()
    holder = Holder(scale=3.0, table={"lr": [0.1, 0.2]})
    path = sig.Item(sig.Item(sig.Attr(sig.Arg("h"), "table"), "lr"), 1)
    sources = [sig.Attr(sig.Arg("h"), "scale"), path, sig.Cell(function, 0), sig.Constant("c", 1)]
    run = enter({"h": holder}, [], sources)
    assert run((holder,)) == [3.0, 0.2, 2.0, "c"]
    holder.scale, holder.table["lr"][1], function.__closure__[0].cell_contents = 4.0, 0.5, 9.0
    assert run((holder,)) == [4.0, 0.5, 9.0, "c"]


def test_a_global_is_read_from_the_functions_own_module():
    module = types.ModuleType("m")
    exec("k = 5\ndef f(): return k", module.__dict__)
    run = enter({}, [], [sig.Global(module.f, "k")])
    assert run(()) == [5]
    module.k = 6
    assert run(()) == [6]
    del module.k
    assert run(()) is None


@pytest.mark.parametrize(("kind", "value", "good", "bad"), [
    ("is", Holder, Holder, object()),
    ("equal", 3, 3, 4),
    ("equal", 1, 1, True),
    ("equal", True, True, 1),
    ("equal", "a", "a", "b"),
    ("equal", None, None, 0),
    ("type", float, 2.5, 2),
    ("len", 2, [1, 2], [1]),
    ("keys", ("a", "b"), {"a": 1, "b": 2}, {"b": 2, "a": 1}),
])
def test_guards(kind, value, good, bad):
    run = enter({"x": good}, [sig.Guard(sig.Arg("x"), kind, value)], [])
    assert run((good,)) == []
    assert run((bad,)) is None


def test_absence_is_an_assumption_too():
    run = enter({"h": Holder()}, [sig.Guard(sig.Attr(sig.Arg("h"), "hook"), "absent", None)], [])
    assert run((Holder(),)) == []
    assert run((Holder(hook=1),)) is None


def test_what_cannot_be_read_any_more_is_a_miss_and_not_an_error():
    run = enter({"h": Holder(a=1)}, [], [sig.Attr(sig.Arg("h"), "a")])
    assert run((Holder(),)) is None


@pytest.mark.parametrize("path", [sig.Item(sig.Arg("d"), "a"), sig.At(sig.Arg("d"), sig.Arg("key"))])
def test_an_item_that_is_made_on_demand_is_not_made_to_be_looked_at(path):
    key = "a"
    run = enter({"d": defaultdict(list, a=[1]), "key": key}, [], [path])
    assert run((defaultdict(list, a=[2]), key)) == [[2]]
    empty = defaultdict(list)
    assert run((empty, key)) is None
    assert len(empty) == 0


@pytest.mark.parametrize("key", [0, True, -0.0, math.inf, "it's\n", None, b"x", (1, math.inf), 1j, 10 ** 30, Holder,
                                 len, Kind.ONE, jitgrad.float32, jitgrad.device("cpu"), frozenset([1]), range(3)])
def test_any_key_of_a_dict(key):
    path = sig.Item(sig.Arg("d"), key)
    assert enter({"d": {key: 1}}, [], [path])(({key: 2},)) == [2]
    lacks = enter({"d": {}}, [sig.Guard(path, "absent", None)], [])
    assert lacks(({},)) == []
    assert lacks(({key: 1},)) is None


@pytest.mark.parametrize("name", ["a", "a b", "class", "None", "0", "", "a-b", "é"])
def test_any_name_of_an_attribute(name):
    path, writer = sig.Attr(sig.Arg("h"), name), EntryWriter(["h"], {"h": Holder()})
    assert enter({"h": Holder(**{name: 1})}, [], [path])((Holder(**{name: 2}),)) == [2]
    writer.lines.append(writer.assignment(path, "3"))
    holder = Holder()
    writer.finish("[]")((holder,))
    assert getattr(holder, name) == 3


def test_arguments_are_keyed_by_type_and_structure_not_by_value():
    value = {"n": 3, "pair": (1.5, "mode"), "none": None}
    run = enter({"x": value}, argument_guards(sig.Arg("x"), value), [])
    assert run(({"n": 99, "pair": (-2.0, "mode"), "none": None},)) == []
    for other in ({"n": 3.0, "pair": (1.5, "mode"), "none": None}, {"n": 3, "pair": (1.5, "other"), "none": None},
                  {"n": 3, "pair": [1.5, "mode"], "none": None}, {"n": 3, "pair": (1.5, "mode")},
                  {"n": 3, "pair": (1.5, "mode"), "none": 0}, {"n": True, "pair": (1.5, "mode"), "none": None}):
        assert run((other,)) is None


def test_separate():
    a, b = np.zeros(4), np.zeros(4)
    assert separate((a,), (b,))
    assert separate((a[:2],), (a[2:],))
    assert not separate((a[:3],), (a[2:],))
    assert not separate((a, a), ())
    assert separate((), (a, a))
    assert not separate((a,), (np.frombuffer(memoryview(a)),))
    assert separate((a[:0],), (a,))


def _scaled(x: Any, n: int) -> Any:
    return x * n, n + 1


def _summed(numbers: list[int], n: int) -> Any:
    total = 0
    for k in numbers:
        total += k
    return total + n


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("function", "args", "wide"), [
    (_scaled, (jitgrad.ones(2), 2), (jitgrad.ones(2), 2 ** 70)),
    (_scaled, (jitgrad.ones(2, requires_grad=True), 2), (jitgrad.ones(2, requires_grad=True), -2 ** 70)),
    (_summed, ([1, 2], 1), ([1, 2 ** 70], 1))])
def test_an_int_of_more_than_64_bits_is_an_overflow(interpret: bool, function: Any, args: Any, wide: Any) -> None:
    with jitgrad.config.override(interpret=interpret):
        scripted = jitgrad.script(function)
        before = str(scripted(*args))
        with pytest.raises(OverflowError, match="too large to convert to C long"):
            scripted(*wide)
        assert str(scripted(*args)) == before


def test_a_dict_of_known_keys_is_read_at_once():
    table = {"lr": 0.1, "betas": (0.9, 0.99)}
    path = sig.Attr(sig.Arg("h"), "table")
    inputs = [sig.Item(path, "betas"), sig.Item(sig.Item(path, "betas"), 1)]
    holder = Holder(table=table)
    writer = EntryWriter(["h"], {"h": holder}, native=True)
    writer.guard(sig.Guard(path, "keys", ("lr", "betas")))
    run = writer.finish(f"[{', '.join([writer.read(source) for source in inputs])}]")
    assert run((holder,)) == [(0.9, 0.99), 0.99]
    others = {"".join(["l", "r"]): 3, "betas": (5, 7)}, defaultdict(int, lr=3, betas=(5, 7))
    for holds in ({"lr": 3, "betas": (5, 7)}, *others):
        holder.table = holds
        assert run((holder,)) == [(5, 7), 7]
    for broken in ({}, {"lr": 3}, {"betas": (5, 7), "lr": 3}, {**table, "more": 1}, [("lr", 3)], None):
        holder.table = broken
        assert run((holder,)) is None
