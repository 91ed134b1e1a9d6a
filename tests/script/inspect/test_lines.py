"""Which user's line a node belongs to."""

from __future__ import annotations

import os

import jitgrad
from jitgrad.errors import Span
from jitgrad.script.inspect.lines import Line, function_around, functions_of, line_of, outside

HERE = __file__
INSIDE = os.path.join(os.path.dirname(jitgrad.__file__), "nn", "functional.py")


def outer():
    def inner():
        return 1

    return inner


def test_the_innermost_place_outside_the_package():
    mine = Span(HERE, 7, 1, 7, 4, "f")
    deep = Span(INSIDE, 3, 1, 3, 4, "relu", Span(INSIDE, 9, 1, 9, 4, "g", mine))
    assert outside(deep) is mine
    assert line_of(deep) == Line(HERE, 7)
    alone = Span(INSIDE, 3, 1, 3, 4, "relu")
    assert outside(alone) is None
    assert line_of(alone) == Line(INSIDE, 3)
    assert line_of(None) is None


def test_functions_around_lines():
    first = outer.__code__.co_firstlineno
    assert function_around(Line(HERE, first + 2)).name == "inner"
    assert function_around(Line(HERE, first)).name == "outer"
    assert function_around(Line(HERE, 1)) is None
    (only,) = functions_of([Line(HERE, first + 2), Line(HERE, first + 4)])
    assert (only.name, only.first) == ("outer", first)
    assert Line(HERE, first + 2) in only
    assert str(Line(HERE, 3)) == "test_lines.py:3"
