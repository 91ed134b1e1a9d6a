"""Regenerated source parses back to the same tree."""

import ast

import pytest

from jitgrad.script.inspect.unparse import unparse

SOURCES = [
    "def f(x, *, k=2):\n    return x[1:2, ..., ::3] + k\n",
    "match x:\n    case [1, y]:\n        z = y\n    case _:\n        z = 0\n",
    "x = -(a ** -b) if not (a and b) else f'{a:>{w}} {b!r}'\n",
    "for i, (a, *b) in enumerate(c):\n    if (n := a) > 1:\n        continue\nelse:\n    del a\n",
    "with f() as g, h():\n    lambda x, /, y=1, *a, **k: (yield)\n",
]


@pytest.mark.parametrize("source", SOURCES)
def test_round_trip(source: str) -> None:
    tree = ast.parse(source)
    assert ast.dump(ast.parse(unparse(tree))) == ast.dump(tree)


def test_expression_and_statement() -> None:
    tree = ast.parse("y = a[1:2, ..., ::3]").body[0]
    assert isinstance(tree, ast.Assign)
    assert unparse(tree) == "y = a[1:2, ..., ::3]"
    assert ast.dump(ast.parse(unparse(tree.value), mode="eval").body) == ast.dump(tree.value)
