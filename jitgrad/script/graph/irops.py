"""The ops of the graph that are not tensor ops: numbers, sizes, structure, sequences, optionals, effects.

`infer` gives output types for these and, through the rows' specs, for every op of the table. Structural ops (`if`,
`while`, `scan`) and ops with data-dependent sizes get their types from whoever builds them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, TensorType, Type


class Effect(enum.Flag):
    """What a node does besides computing its outputs; effects keep their order within a block."""

    NONE = 0
    RAISES = 1  # may leave the program with an exception
    WRITES = 2  # changes memory that outlives the program
    CALLS = 4   # calls back into Python (print, ignored functions)
    MARKS = 8   # nothing at run time: one end of a region (see `autodiff.regions`), what an exception would store


#: number ops: (int, int) -> int, with the kinds promoted bool < int < float as Python does
ARITHMETIC = ("num.add", "num.sub", "num.mul", "num.floordiv", "num.mod", "num.pow", "num.min", "num.max")
COMPARISONS = ("num.eq", "num.ne", "num.lt", "num.le", "num.gt", "num.ge")
BITWISE = ("num.and", "num.or", "num.xor", "num.lshift", "num.rshift")  # bool, bool -> bool for and/or/xor
UNARY = ("num.neg", "num.abs", "num.invert")

#: `num.math` takes attr fn: the name in Python's math module of a float -> float function, or these -> int
MATH_TO_INT = ("floor", "ceil", "trunc", "round")
MATH_TO_BOOL = ("isnan", "isinf", "isfinite")
#: or one of these, which take their operands as they are and which Python computes (`number_ops`): to int, to float,
#: or (`round_to`) to the type of the first operand
EXACT_TO_INT = ("gcd", "lcm", "factorial", "comb", "perm", "isqrt", "pow_modulo", "exponent")
EXACT_TO_FLOAT = ("remainder", "nextafter", "ulp", "ldexp", "mantissa", "fraction", "whole", "fsum", "dist", "norm")
EXACT = frozenset({*EXACT_TO_INT, *EXACT_TO_FLOAT, "round_to"})

STRUCTURAL = frozenset({"if", "while", "scan"})
#: ops whose results have the types that whoever made the node gave them
TYPED = frozenset({"custom", "callback", "callback.vjp"})

#: reads that are valid only where a check, a condition or a loop's counter says so
GUARDED = frozenset({"opt.get", "seq.get", "list.get"})

EFFECTS: Mapping[str, Effect] = {
    "check": Effect.RAISES,
    "print": Effect.CALLS,
    "commit": Effect.WRITES,
    "region.begin": Effect.MARKS,
    "region.end": Effect.MARKS,
    "pending": Effect.MARKS,
    "callback": Effect.CALLS | Effect.RAISES,
}


def effect(op: str, attrs: Mapping[str, Any]) -> Effect:
    """The node's own effect, its blocks not counted. Checked number arithmetic raises OverflowError."""
    if attrs.get("checked"):
        return Effect.RAISES
    return EFFECTS.get(op, Effect.NONE)


Rule = Callable[[tuple[Type, ...], Mapping[str, Any]], Type]


def _arithmetic(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    if NUMBER in types:
        return NUMBER
    return FLOAT if FLOAT in types else INT


def _bitwise(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return BOOL if all(t == BOOL for t in types) else INT


def _math(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    fn = attrs["fn"]
    if fn == "round_to":
        return types[0]
    return INT if fn in MATH_TO_INT or fn in EXACT_TO_INT else BOOL if fn in MATH_TO_BOOL else FLOAT


def is_exact(op: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a number op is one that Python computes, in native code too."""
    return op == "num.math" and attrs["fn"] in EXACT


def _const(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    value = attrs["value"]
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def _item(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    tensor = types[0]
    assert isinstance(tensor, TensorType)
    return (BOOL, INT, FLOAT)[tensor.dtype.category]


def _elem(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    holder = types[0]
    assert isinstance(holder, (OptionalType, SeqType))
    return holder.elem


def _filled(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    return TensorType(attrs["dtype"], attrs["shape"])


_KINDS: Mapping[str, Type] = {"bool": BOOL, "int": INT, "float": FLOAT, "number": NUMBER}

#: type rules of the ops with one output that are not rows of the op table
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys((*COMPARISONS, "num.not", "opt.has"), lambda types, attrs: BOOL),
    **dict.fromkeys(("num.and", "num.or", "num.xor"), _bitwise),
    **dict.fromkeys(("num.lshift", "num.rshift", "dim.value", "dim.bind", "seq.len", "list.len"),
                    lambda types, attrs: INT),
    **dict.fromkeys(UNARY, lambda types, attrs: INT if types[0] == BOOL else types[0]),
    **dict.fromkeys(("fill", "full"), _filled),
    **dict.fromkeys(("opt.get", "seq.get", "list.get"), _elem),
    **dict.fromkeys(("list.put", "list.take", "list.copy"), lambda types, attrs: types[0]),
    "list.new": lambda types, attrs: attrs["type"],
    "num.truediv": lambda types, attrs: FLOAT,
    "num.math": _math,
    "num.const": _const,
    "num.cast": lambda types, attrs: _KINDS[attrs["to"]],
    "num.select": lambda types, attrs: types[1],
    "item": _item,
    "leaf": lambda types, attrs: types[0],
    "opt.some": lambda types, attrs: OptionalType(types[0]),
    "opt.none": lambda types, attrs: OptionalType(attrs["type"]),
}

_NO_OUTPUTS = frozenset({"check", "print", "commit", "region.begin", "region.end", "pending"})


def infer(op: str, types: tuple[Type, ...], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """Output types of a node. Raises KeyError for an unknown op."""
    rule = RULES.get(op)
    if rule is not None:
        return (rule(types, attrs),)
    if op in _NO_OUTPUTS:
        return ()
    from jitgrad.ops import OPS

    result = OPS[op].spec(*types, **attrs)  # type: ignore[misc]
    return result if isinstance(result, tuple) else (result,)


__all__ = [
    "ARITHMETIC",
    "BITWISE",
    "COMPARISONS",
    "EFFECTS",
    "GUARDED",
    "MATH_TO_BOOL",
    "MATH_TO_INT",
    "STRUCTURAL",
    "TYPED",
    "UNARY",
    "Effect",
    "effect",
    "infer",
]
