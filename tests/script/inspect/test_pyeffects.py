"""Effects as Python statements that do what the graph does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.script.graph.parse import parse
from jitgrad.script.inspect.pycode import to_python


class Refused(Exception):
    """An exception of a module that the text has to import."""


def printed(body: str, inputs: str) -> tuple[Callable[..., Any], str]:
    text = to_python(parse(f"graph f({inputs}) -> ():\n{body}\n  return", {"Refused": Refused}))
    names: dict[str, Any] = {}
    exec(text, names)
    return names["f"], text


@pytest.mark.parametrize(("stated", "arguments"), [
    ("None", ()),
    ("('at ', (0, '', '03d'), '{}')", ("at 007{}",)),
    ("(None, 0, None, ('text', 'k=', (0, 'r', '')), ('tuple', 0), ('list', 0, 0))", (7, None, "k=7", (7,), [7, 7])),
])
def test_a_check_raises_with_its_arguments(stated: str, arguments: tuple[Any, ...]) -> None:
    f, text = printed(f"  check(%c, %k){{error=$Refused, template={stated}}}", "%c: bool, %k: int")
    f(True, 7)
    with pytest.raises(Refused) as caught:
        f(False, 7)
    assert caught.value.args == arguments
    assert "from tests.script.inspect.test_pyeffects import Refused" in text


def test_a_print_ends_its_line_only_where_the_graph_does(capsys: pytest.CaptureFixture[str]) -> None:
    whole, part = "('k ', (0, '', ''), '\\n')", "((0, '', ''), ';')"
    f, _ = printed(f"  print(%k){{template={whole}}}\n  print(%k){{template={part}}}", "%k: int")
    f(3)
    assert capsys.readouterr().out == "k 3\n3;"


def test_a_write_goes_to_the_memory_or_to_what_is_stored() -> None:
    f, _ = printed("  commit(%y){target=0}\n  commit(%m){target=2}", "%x: f32[N], %y: f32[N], %k: int, %m: int")
    x, stored = jitgrad.zeros(2), {}
    f(x, jitgrad.ones(2), 1, 5, stored)
    np.testing.assert_array_equal(x.numpy(), 1)
    assert stored == {"k": 5}
