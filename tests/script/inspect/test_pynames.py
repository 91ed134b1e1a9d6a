"""Names of a printed graph: none twice, none of Python's own; sizes are those of values that have them."""

from __future__ import annotations

import pytest

from jitgrad.dims import Size, Symbol, call, dim, evaluate
from jitgrad.dtypes import float32
from jitgrad.ops.types import INT, TensorType
from jitgrad.script.graph.ir import Block, Graph, Value
from jitgrad.script.inspect.pynames import Operands, identifier

N, M = Symbol("N"), Symbol("M")
n, m = dim(N), dim(M)


def test_no_name_is_given_twice() -> None:
    names = Operands(Graph(Block()))
    values = [Value(INT, name) for name in ("x", "x", "x2", "x", "list", "", "", "a.weight", "a_weight")]
    given = [names.name(v) for v in values]
    assert len(set(given)) == len(values)
    assert given[0] == "x"
    assert "list" not in given  # Python's own
    assert all(name.isidentifier() for name in given)
    assert [names.name(v) for v in values] == given  # and keeps it


def test_numbers_of_the_text_form_are_dropped() -> None:
    assert identifier("h.2") == "h"
    assert identifier("0") == "t0"
    assert identifier("") == "t"


@pytest.mark.parametrize(("size", "text"), [
    (4, "4"),
    (n, "x.shape[0]"),
    (2 * n + 1, "1 + 2 * x.shape[0]"),
    (1 - n, "1 - x.shape[0]"),
    (n * m, "x.shape[0] * x.shape[1]"),
    (call("floordiv", n, 2), "(x.shape[0] // 2)"),
    (call("floordiv", n + m, 2), "((x.shape[0] + x.shape[1]) // 2)"),
    (call("max", n - 1, 0), "max(-1 + x.shape[0], 0)"),
])
def test_sizes_are_read_from_the_value_that_binds_them(size: Size, text: str) -> None:
    names = Operands(Graph(Block()))
    names.bind_sizes(Value(TensorType(float32, (n, m)), "x"))
    names.bind_sizes(Value(TensorType(float32, (n,)), "y"))  # the first one stays
    found = names.size(size)[0]
    assert found == text
    shapes = type("x", (), {"shape": (6, 8)})
    assert eval(found, {"x": shapes}) == evaluate(size, {N: 6, M: 8})
