"""Whether a value of one type may be where another type is said to be, and the symbols that a type needs or binds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitgrad import dims
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Value, type_symbols


def compatible(source: Type, target: Type, binds: Sequence[Symbol] = ()) -> bool:
    """Whether a `source` may be where a `target` is said to be: equal but for sizes that may be equal.

    Sizes over symbols in `binds`, or in a sequence's element, are taken as they come.
    """
    if isinstance(source, TensorType) and isinstance(target, TensorType):
        return (source.dtype is target.dtype and len(source.dims) == len(target.dims)
                and all(_may_equal(s, t, binds) for s, t in zip(source.dims, target.dims, strict=True)))
    if isinstance(source, SeqType) and type(source) is type(target):
        return compatible(source.elem, target.elem, (*binds, *type_symbols(target.elem)))
    if isinstance(source, OptionalType) and isinstance(target, OptionalType):
        return compatible(source.elem, target.elem, binds)
    return source == target


def _may_equal(a: Size, b: Size, binds: Sequence[Symbol]) -> bool:
    if a == b or (isinstance(b, Dim) and binds and not dims.symbols(b).isdisjoint(binds)):
        return True
    return isinstance(a - b, Dim)


def types_of(values: Iterable[Value]) -> list[Type]:
    """The types of values."""
    return [v.type for v in values]


def lone_symbols(type_: Type) -> set[Symbol]:
    """The symbols that stand alone as a size in a type whose sizes are known where it is."""
    if isinstance(type_, OptionalType):
        return lone_symbols(type_.elem)
    if isinstance(type_, TensorType):
        return {d.symbol for d in type_.dims if isinstance(d, Dim) and d.symbol is not None}
    return set()


def free_symbols(type_: Type) -> frozenset[Symbol]:
    """The symbols of a type that must be in scope: not those in a sequence's element, which may be existential."""
    if isinstance(type_, SeqType):
        return frozenset()
    return free_symbols(type_.elem) if isinstance(type_, OptionalType) else type_symbols(type_)
