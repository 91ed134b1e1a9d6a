"""The ops of the graph that are not tensor ops: numbers, sizes, structure, sequences, optionals, effects.

`infer` gives output types for these and, through the rows' specs, for every op of the table. Structural ops (`if`,
`while`, `scan`) and ops with data-dependent sizes get their types from whoever builds them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, TensorType, Type


class Effect(enum.Flag):
    """What a node does besides computing its outputs; effects keep their order within a block."""

    NONE = 0
    RAISES = 1  # may leave the program with an exception
    WRITES = 2  # changes memory that outlives the program
    CALLS = 4   # calls back into Python (print, ignored functions)


#: number ops: (int, int) -> int, with the kinds promoted bool < int < float as Python does
ARITHMETIC = ("num.add", "num.sub", "num.mul", "num.floordiv", "num.mod", "num.pow", "num.min", "num.max")
COMPARISONS = ("num.eq", "num.ne", "num.lt", "num.le", "num.gt", "num.ge")
BITWISE = ("num.and", "num.or", "num.xor", "num.lshift", "num.rshift")  # bool, bool -> bool for and/or/xor
UNARY = ("num.neg", "num.abs", "num.invert")

#: `num.math` takes attr fn: the name in Python's math module of a float -> float function, or these -> int
MATH_TO_INT = ("floor", "ceil", "trunc", "round")
MATH_TO_BOOL = ("isnan", "isinf", "isfinite")

STRUCTURAL = frozenset({"if", "while", "scan"})

EFFECTS: Mapping[str, Effect] = {
    "check": Effect.RAISES,
    "print": Effect.CALLS,
    "commit": Effect.WRITES,
    "callback": Effect.CALLS | Effect.RAISES,
}


def effect(op: str, attrs: Mapping[str, Any]) -> Effect:
    """The node's own effect, its blocks not counted. Checked number arithmetic raises OverflowError."""
    if attrs.get("checked"):
        return Effect.RAISES
    return EFFECTS.get(op, Effect.NONE)


def _arithmetic(types: Sequence[Type]) -> Type:
    if NUMBER in types:
        return NUMBER
    return FLOAT if FLOAT in types else INT


def infer(op: str, types: tuple[Type, ...], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """Output types of a node. Raises KeyError for an unknown op."""
    if op in ARITHMETIC:
        return (_arithmetic(types),)
    if op == "num.truediv":
        return (FLOAT,)
    if op in COMPARISONS or op == "num.not" or op in ("opt.has",):
        return (BOOL,)
    if op in BITWISE:
        return (BOOL if all(t == BOOL for t in types) and op in ("num.and", "num.or", "num.xor") else INT,)
    if op in UNARY:
        return (INT if types[0] == BOOL else types[0],)
    if op == "num.math":
        fn = attrs["fn"]
        return (INT if fn in MATH_TO_INT else BOOL if fn in MATH_TO_BOOL else FLOAT,)
    if op == "num.const":
        value = attrs["value"]
        return (BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT,)
    if op == "num.cast":
        return ({"bool": BOOL, "int": INT, "float": FLOAT, "number": NUMBER}[attrs["to"]],)
    if op == "num.select":
        return (types[1],)
    if op in ("dim.value", "seq.len"):
        return (INT,)
    if op == "dim.bind":
        return (INT,)
    if op == "item":
        t = types[0]
        assert isinstance(t, TensorType)
        return ((BOOL, INT, FLOAT)[t.dtype.category],)
    if op == "fill":
        return (TensorType(attrs["dtype"], attrs["shape"]),)
    if op == "full":
        return (TensorType(attrs["dtype"], attrs["shape"]),)
    if op == "opt.some":
        return (OptionalType(types[0]),)
    if op == "opt.none":
        return (OptionalType(attrs["type"]),)
    if op == "opt.get":
        assert isinstance(types[0], OptionalType)
        return (types[0].elem,)
    if op == "seq.get":
        assert isinstance(types[0], SeqType)
        return (types[0].elem,)
    if op in ("check", "print", "commit"):
        return ()
    from jitgrad.ops import OPS

    result = OPS[op].spec(*types, **attrs)  # type: ignore[misc]
    return result if isinstance(result, tuple) else (result,)


__all__ = ["ARITHMETIC", "BITWISE", "COMPARISONS", "EFFECTS", "Effect", "MATH_TO_BOOL", "MATH_TO_INT", "STRUCTURAL",
           "UNARY", "effect", "infer"]
