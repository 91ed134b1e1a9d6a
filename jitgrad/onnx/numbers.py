"""Python numbers as 0-dim tensors: ints are int64, floats double, bools bool. Overflow wraps, as without checks.

A number op is the row of the tensor op that computes the same, of numbers of one kind.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from jitgrad.onnx.emitter import Emitter, numpy_type
from jitgrad.onnx.table import ROWS
from jitgrad.ops.numbers import family
from jitgrad.ops.types import BOOL, FLOAT, INT, Type
from jitgrad.script.graph.ir import Node, Value

#: the rows whose names are not those of the number ops and functions
_ROWS: Mapping[str, str] = {
    "min": "minimum", "max": "maximum", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not", "not": "logical_not",
    "fabs": "abs"}


def convert(e: Emitter, x: str, source: Type, target: Type) -> str:
    """A number as one of another kind, as Python's `int`, `float` and `bool` would."""
    return x if source == target else e.cast(x, numpy_type(target))


def number(e: Emitter, node: Node, xs: list[str]) -> str:
    """One `num.` node; the name of its result."""
    op, types, result = node.op[4:], [v.type for v in node.inputs], node.output.type
    if op == "const":
        return e.constant(node.attrs["value"], numpy_type(result, node.span))
    if op == "cast":
        return convert(e, xs[0], types[0], result)
    if op == "select":
        return str(ROWS["where"](e, node, *xs))
    if op == "math":
        fn = node.attrs["fn"]
        if fn == "isfinite":
            x = convert(e, xs[0], types[0], FLOAT)
            return e("Not", e("Or", e("IsNaN", x), e("IsInf", x)))
        if len(xs) != 1 or _ROWS.get(fn, fn) not in ROWS:
            raise e.fail(f"`math.{fn}` of a run-time number")
        y = _computed(e, node, fn, xs, FLOAT)
        return e.cast(y, np.int64) if result == INT else y
    if op == "not" or (family(node.op) == "bitwise" and result == BOOL):
        kind: Type = BOOL
    else:  # in which Python computes: bool < int < float
        kind = FLOAT if op == "truediv" or FLOAT in types else INT
    if _ROWS.get(op, op) not in ROWS:
        raise e.fail(f"`{node.op}` of numbers")
    return _computed(e, node, op, xs, kind)


def _computed(e: Emitter, node: Node, name: str, xs: list[str], kind: Type) -> str:
    """The row of an op or function, of numbers of one kind."""
    given = [convert(e, x, v.type, kind) for x, v in zip(xs, node.inputs, strict=True)]
    row = _ROWS.get(name, name)
    return str(ROWS[row](e, replace(node, op=row, inputs=tuple([Value(kind) for _ in given])), *given))
