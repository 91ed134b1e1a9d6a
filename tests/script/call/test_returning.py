"""Results are rebuilt as the function returned them: containers, identities, static parts."""

from __future__ import annotations

from collections import namedtuple

from jitgrad.script.call.returning import result_writer
from jitgrad.script.call.signature import Container, Output, Same, Static

Pair = namedtuple("Pair", ["first", "second"])


def rebuild(result, inputs=(), outputs=()):
    return result_writer(result)(inputs, outputs, (), {})


def test_leaves():
    marker = object()
    assert rebuild(Output(1), outputs=[10, 20]) == 20
    assert rebuild(Same(0), inputs=[marker]) is marker
    assert rebuild(Static(None)) is None
    assert rebuild(Static(marker)) is marker


def test_containers_keep_their_type():
    items = (Output(0), Static("s"))
    assert rebuild(Container(tuple, None, items), outputs=[1]) == (1, "s")
    assert rebuild(Container(tuple, None, ())) == ()
    assert rebuild(Container(list, None, items), outputs=[1]) == [1, "s"]
    assert rebuild(Container(Pair, None, items), outputs=[1]) == Pair(1, "s")
    assert rebuild(Container(dict, ("a", 2), items), outputs=[1]) == {"a": 1, 2: "s"}
    assert rebuild(Container(set, None, items), outputs=[1]) == {1, "s"}


def test_one_list_returned_twice_is_one_object():
    shared = Container(list, None, (Output(0),), identity=7)
    first, second = rebuild(Container(tuple, None, (shared, shared)), outputs=[1])
    assert first is second
    again = Container(list, None, (Output(0),))
    first, second = rebuild(Container(tuple, None, (again, again)), outputs=[1])
    assert first is not second
    assert first == second
