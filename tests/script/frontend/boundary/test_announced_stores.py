"""When the frontend says what an exception would store: only where something has changed, and once."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.script.frontend.build import build
from jitgrad.script.graph.ir import walk


class Box:
    """Attributes to assign to."""

    def __init__(self) -> None:
        self.a: Any = jitgrad.zeros(2)
        self.b: Any = jitgrad.zeros(2)


def said(f: Any, *args: Any) -> list[tuple[int, bool]]:
    """Per `pending` node how many places it names, and whether it adds to the one before."""
    script = build(f, args, {})
    return [(len(script.recipes[n.attrs["recipe"]]), n.attrs["more"]) for n in walk(script.graph.block)
            if n.op == "pending"]


def test_checks_before_the_first_change():
    def f(box, x, k: int):
        if k > 3:
            raise ValueError("too large")
        y = x * (10 // k)
        box.a = y
        return y

    assert said(f, Box(), jitgrad.ones(2), 1) == []


def test_several_checks_after_one_change():
    def f(box, x, k: int):
        box.a = x * 2
        i = 10 // k
        j = 20 // i
        return x * (i // j)

    assert said(f, Box(), jitgrad.ones(2), 1) == [(1, False)]


def test_what_comes_in_addition():
    def f(box, x, k: int):
        box.a = x * 2
        i = 10 // k
        box.b = x * 3
        j = 10 // i
        box.a = x * 4
        return x * (i // j)

    assert said(f, Box(), jitgrad.ones(2), 1) == [(1, False), (1, True), (2, False)]


def test_one_object_in_two_places_is_said_together():
    def f(box, x, k: int):
        box.a = x * 2
        i = 10 // k
        box.b = box.a
        return x * (10 // i)

    assert said(f, Box(), jitgrad.ones(2), 1) == [(1, False), (2, False)]


def test_a_change_taken_back():
    def f(box, x, k: int):
        before = box.a
        box.a = x * 2
        i = 10 // k
        box.a = before
        return x * (10 // i)

    assert said(f, Box(), jitgrad.ones(2), 1) == [(1, False), (0, False)]


def test_after_a_branch_it_is_said_again():
    def f(box, x, k: int):
        box.a = x * 2
        if k > 1:
            box.b = x * 3
            k = 10 // k
        return x * (10 // k)

    assert said(f, Box(), jitgrad.ones(2), 1) == [(2, False), (2, False)]
