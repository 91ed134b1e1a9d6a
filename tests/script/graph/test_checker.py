"""Types that may stand for each other: exact but for sizes that nobody knows to differ."""

from __future__ import annotations

import pytest

from jitgrad.dims import Symbol, dim
from jitgrad.dtypes import float32, float64
from jitgrad.ops.types import INT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.checker import compatible, free_symbols
from jitgrad.script.graph.nodes import payload, symbol_axes

N, M = Symbol("N"), Symbol("M")
n, m = dim(N), dim(M)


def f32(*sizes):
    return TensorType(float32, sizes)


@pytest.mark.parametrize(("source", "target", "expected"), [
    (f32(n), f32(n), True),
    (f32(n), f32(m), True),  # known at run time
    (f32(n), f32(n + 1), False),
    (f32(3), f32(4), False),
    (f32(n), f32(n, 1), False),
    (f32(n), TensorType(float64, (n,)), False),
    (OptionalType(f32(3)), OptionalType(f32(4)), False),
    (OptionalType(f32(3)), f32(3), False),
    (SeqType(f32(n)), SeqType(f32(n + 1)), True),  # elements may differ in size
    (SeqType(f32(n)), SeqType(INT), False),
])
def test_sizes_clash_where_their_difference_is_a_constant(source: Type, target: Type, expected: bool) -> None:
    assert compatible(source, target) is expected


def test_a_bound_symbol_takes_any_size() -> None:
    assert not compatible(f32(n + 1), f32(n))
    assert compatible(f32(n + 1), f32(n), (N,))


def test_symbols_that_a_type_binds_and_needs() -> None:
    type_ = OptionalType(f32(n, m + 1))
    assert symbol_axes(payload(type_)) == [(0, N)]
    assert free_symbols(type_) == {N, M}
    assert symbol_axes(payload(SeqType(f32(n)))) == []
    assert free_symbols(SeqType(f32(n))) == frozenset()
