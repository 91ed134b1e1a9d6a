"""Paths to objects: read, told to people, and what is assumed of an argument."""

from __future__ import annotations

from collections import defaultdict

import pytest

from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import (Unreadable, argument_guards, broken, describe, parameter_reader, problem,
                                         resolve)


class Holder:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def scaled(factor):
    def inner(x):
        return x * factor

    return inner


def test_paths_are_read_and_told():
    holder = Holder(scale=4.0, table={"lr": [0.1, 0.5]})
    path = sig.Item(sig.Item(sig.Attr(sig.Arg("h"), "table"), "lr"), 1)
    sources = [sig.Attr(sig.Arg("h"), "scale"), path, sig.Cell(scaled(9.0), 0)]
    assert [resolve(s, {"h": holder}) for s in (*sources, sig.Constant("c", 1))] == [4.0, 0.5, 9.0, "c"]
    assert [describe(s) for s in sources] == ["h.scale", "h.table['lr'][1]", "factor"]


def test_what_is_not_there_is_unreadable():
    with pytest.raises(Unreadable, match=r"h\.a"):
        resolve(sig.Attr(sig.Arg("h"), "a"), {"h": Holder()})


@pytest.mark.parametrize("path", [sig.Item(sig.Arg("d"), "a"), sig.At(sig.Arg("d"), sig.Arg("key"))])
def test_an_item_that_is_made_on_demand_is_not_made_to_be_looked_at(path):
    values = {"d": defaultdict(dict), "key": Holder()}
    with pytest.raises(Unreadable):
        resolve(path, values)
    assert problem(sig.Guard(path, "absent", None), values, broken) == ""
    assert len(values["d"]) == 0


def test_what_is_assumed_of_an_argument():
    assert [(describe(g.source), g.kind, g.value) for g in argument_guards(sig.Arg("x"), {"n": [3, None]})] == [
        ("x", "type", dict), ("x", "keys", ("n",)), ("x['n']", "type", list), ("x['n']", "len", 2),
        ("x['n'][0]", "type", int), ("x['n'][1]", "equal", None)]


def test_parameter_reader_binds_like_the_call():
    marker = object()

    def f(a, b=marker, /, c=2, *rest, d, e=marker, **named):
        raise AssertionError

    read = parameter_reader(f)
    assert read(1, d=4) == (1, marker, 2, (), 4, marker, {})
    assert read(1, 2, 3, 4, d=5, z=6) == (1, 2, 3, (4,), 5, marker, {"z": 6})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        read(1)
