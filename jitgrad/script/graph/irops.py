"""The ops of the graph that are not tensor ops: numbers, sizes, structure, sequences, optionals, effects.

`infer` gives output types for these and, through the rows' specs, for every op of the table. Structural ops (`if`,
`while`, `scan`) and ops with data-dependent sizes get their types from whoever builds them.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.ops import OPS
from jitgrad.ops.numbers import NUMBERS
from jitgrad.ops.texts import TEXTS
from jitgrad.ops.types import BOOL, FLOAT, INT, TEXT, OptionalType, SeqType, TensorType, Type


class Effect(enum.Flag):
    """What a node does besides computing its outputs; effects keep their order within a block."""

    NONE = 0
    RAISES = 1  # may leave the program with an exception
    WRITES = 2  # changes memory that outlives the program
    CALLS = 4   # calls back into Python (print, ignored functions)
    MARKS = 8   # nothing at run time: one end of a region (see `autodiff.regions`), what an exception would store


#: to compare with: reading a member of an enumeration takes longer than the rest of the question
NOTHING = Effect.NONE

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
#: what calls Python
CALLING = frozenset(op for op, does in EFFECTS.items() if Effect.CALLS in does)


def effect(op: str, attrs: Mapping[str, Any]) -> Effect:
    """The node's own effect, its blocks not counted. Checked number arithmetic raises OverflowError."""
    if attrs.get("checked"):
        return Effect.RAISES
    return EFFECTS.get(op, NOTHING)


Rule = Callable[[tuple[Type, ...], Mapping[str, Any]], Type]


def _item(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    tensor = types[0]
    assert isinstance(tensor, TensorType)
    return (BOOL, INT, FLOAT)[tensor.dtype.category]


def _elem(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    holder = types[0]
    assert isinstance(holder, (OptionalType, SeqType))
    return holder.elem


#: type rules of the ops with one output that are not rows of the op table
RULES: Mapping[str, Rule] = {
    **{op: row.result for op, row in NUMBERS.items()},
    **dict.fromkeys(("dim.value", "dim.bind", "seq.len", "list.len"), lambda types, attrs: INT),
    **dict.fromkeys(("fill", "full"), lambda types, attrs: TensorType(attrs["dtype"], attrs["shape"])),
    **dict.fromkeys(("opt.get", "seq.get", "list.get"), _elem),
    **dict.fromkeys(("list.put", "list.take", "list.copy"), lambda types, attrs: types[0]),
    "list.new": lambda types, attrs: attrs["type"],
    "opt.has": lambda types, attrs: BOOL,
    "item": _item,
    "leaf": lambda types, attrs: types[0],
    "text": lambda types, attrs: TEXT if attrs.get("error") else TEXTS[attrs["fn"]].result,
    "opt.some": lambda types, attrs: OptionalType(types[0]),
    "opt.none": lambda types, attrs: OptionalType(attrs["type"]),
}


def infer(op: str, types: tuple[Type, ...], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """Output types of a node. Raises KeyError for an unknown op."""
    rule = RULES.get(op)
    if rule is not None:
        return (rule(types, attrs),)
    if op in EFFECTS and op not in TYPED:
        return ()
    result = OPS[op].spec(*types, **attrs)  # type: ignore[misc]
    return result if isinstance(result, tuple) else (result,)
