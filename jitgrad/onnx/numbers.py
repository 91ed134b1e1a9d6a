"""Python numbers as 0-dim tensors: ints are int64, floats double, bools bool. Overflow wraps, as without checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from jitgrad.onnx.emitter import Emitter, floor_divide, numpy_type
from jitgrad.onnx.table import DIRECT, select
from jitgrad.ops.numbers import family
from jitgrad.ops.types import BOOL, FLOAT, INT, Type
from jitgrad.script.graph.ir import Node

_BINARY = {"num.add": "Add", "num.sub": "Sub", "num.mul": "Mul", "num.pow": "Pow", "num.min": "Min", "num.max": "Max"}
_COMPARISONS = {"num.eq": "Equal", "num.lt": "Less", "num.le": "LessOrEqual", "num.gt": "Greater",
                "num.ge": "GreaterOrEqual"}


def convert(e: Emitter, x: str, source: Type, target: Type) -> str:
    """A number as one of another kind, as Python's `int`, `float` and `bool` would."""
    return x if source == target else e.cast(x, numpy_type(target))


def common(types: list[Type]) -> Type:
    """The kind in which Python computes with these: bool < int < float."""
    return FLOAT if FLOAT in types else INT


def number(e: Emitter, node: Node, xs: list[str]) -> str:
    """One `num.` node; the name of its result."""
    op, types = node.op, [v.type for v in node.inputs]
    if op == "num.const":
        return e.constant(node.attrs["value"], numpy_type(node.output.type, node.span))
    if op == "num.cast":
        return convert(e, xs[0], types[0], node.output.type)
    if op == "num.select":
        return select(e, xs[0], xs[1], xs[2], numpy_type(node.output.type, node.span))
    if op == "num.not":
        return e("Not", convert(e, xs[0], types[0], BOOL))
    if op == "num.math":
        return _math(e, node, convert(e, xs[0], types[0], FLOAT))
    if family(op) == "bitwise" and node.output.type == BOOL:
        return e(op[4:].capitalize(), *xs)
    kind = FLOAT if op == "num.truediv" else common(types)
    xs = [convert(e, x, t, kind) for x, t in zip(xs, types, strict=True)]
    rule = RULES.get(op)
    if rule is None:
        raise e.fail(f"`{op}` of numbers")
    return rule(e, xs, kind)


def _floor_divide(e: Emitter, xs: list[str], kind: Type) -> str:
    return e("Floor", e("Div", *xs)) if kind == FLOAT else floor_divide(e, *xs)


def _modulo(e: Emitter, xs: list[str], kind: Type) -> str:
    if kind != FLOAT:
        return e("Mod", *xs)
    return e("Sub", xs[0], e("Mul", e("Floor", e("Div", *xs)), xs[1]))


def _math(e: Emitter, node: Node, x: str) -> str:
    fn = node.attrs["fn"]
    to_int = node.output.type == INT
    if fn == "trunc":
        return e.cast(x, np.int64)
    if fn == "isfinite":
        return e("Not", e("Or", e("IsNaN", x), e("IsInf", x)))
    if fn in ("log2", "log10"):
        return e("Div", e("Log", x), e.constant(math.log(2 if fn == "log2" else 10), np.float64))
    name = "Abs" if fn == "fabs" else DIRECT.get(fn)  # most functions are rows of tensors too
    if name is None or len(node.inputs) != 1:
        raise e.fail(f"`math.{fn}` of a run-time number")
    y = e(name, x)
    return e.cast(y, np.int64) if to_int else y


def _plain(name: str) -> Callable[[Emitter, list[str], Type], str]:
    return lambda e, xs, kind: e(name, *xs)


RULES: Mapping[str, Callable[[Emitter, list[str], Type], str]] = {
    **{op: _plain(name) for op, name in (_BINARY | _COMPARISONS).items()},
    "num.ne": lambda e, xs, kind: e("Not", e("Equal", *xs)),
    "num.truediv": _plain("Div"),
    "num.floordiv": _floor_divide,
    "num.mod": _modulo,
    "num.neg": _plain("Neg"),
    "num.abs": _plain("Abs"),
    "num.invert": lambda e, xs, kind: e("Sub", e("Neg", xs[0]), e.constant(1, np.int64)),
    "num.and": _plain("BitwiseAnd"),
    "num.or": _plain("BitwiseOr"),
    "num.xor": _plain("BitwiseXor"),
}
