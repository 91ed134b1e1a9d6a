"""One node of a graph as a Python expression over jitgrad's public functions.

Rows that have no public function of the same meaning are written as `ops.<row>(...)`; see `pyhelpers`. A 0-dim tensor
made of a number is written as the number where another tensor gives the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad.dims import Dim
from jitgrad.dtypes import dtype, int64
from jitgrad.ops import OPS
from jitgrad.ops.opdef import POINTWISE
from jitgrad.ops.types import ListType, OptionalType, TensorType
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.graph.irops import TYPED
from jitgrad.script.inspect.pynames import Operands
from jitgrad.script.inspect.pytext import (
    ATOM,
    BINDS,
    COMPARE,
    NOT,
    TERNARY,
    UNARY,
    Expression,
    literal,
    wrap,
)

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**", "eq": "==", "ne": "!=", "lt": "<",
         "le": "<=", "gt": ">", "ge": ">=", "num.add": "+", "num.sub": "-", "num.mul": "*", "num.truediv": "/",
         "num.floordiv": "//", "num.mod": "%", "num.pow": "**", "num.eq": "==", "num.ne": "!=", "num.lt": "<",
         "num.le": "<=", "num.gt": ">", "num.ge": ">=", "num.and": "&", "num.or": "|", "num.xor": "^",
         "num.lshift": "<<", "num.rshift": ">>"}
_MAY_RAISE = ("num.truediv", "num.floordiv", "num.mod", "num.pow")


def attribute(p: Operands, value: Any) -> str:
    """An attribute as Python."""
    if isinstance(value, tuple):
        return "(" + ", ".join(attribute(p, v) for v in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, Dim):
        return p.size(value)[0]
    if isinstance(value, dtype):
        return f"jitgrad.{value.name}"
    if isinstance(value, float):
        return literal(value)[0]
    return getattr(value, "__name__", None) or repr(value)


def expression(p: Operands, node: Node) -> Expression:
    """The text of a node with one output; takes its operands from the printer."""
    op = node.op
    if op.startswith("num."):
        return _number(p, node)
    rule = _RULES.get(op)
    if rule is not None:
        found = rule(p, node)
        if found is not None:
            return found
    if op in INFIX and len(node.inputs) == 2:
        return _infix(p, INFIX[op], p.operands(node.inputs))
    if op in TYPED:  # a call of Python, which the text can only name
        return f"{_called(node)}({', '.join(p.strong(v)[0] for v in node.inputs)})", ATOM
    row = OPS.get(op)
    if row is not None and row.kind is POINTWISE and not node.attrs and hasattr(jitgrad, op):
        return f"jitgrad.{op}({', '.join(p.strong(v)[0] for v in node.inputs)})", ATOM
    named = [f"{k}={attribute(p, v)}" for k, v in node.attrs.items()]
    values = [p.take(v)[0] if row is not None and row.kind is POINTWISE and k else p.strong(v)[0]
              for k, v in enumerate(node.inputs)]
    return f"ops.{op.replace('.', '_')}({', '.join(values + named)})", ATOM


def _called(node: Node) -> str:
    name = "".join(c if c.isalnum() else "_" for c in node.attrs["call"].__name__)
    return name if node.op == "callback" else f"backward_of_{name}"


def _infix(p: Operands, symbol: str, args: Sequence[Expression]) -> Expression:
    binds = BINDS[symbol]
    left, right = (binds + 1, binds) if symbol == "**" else (binds + (binds == COMPARE), binds + 1)
    return f"{wrap(args[0], left)} {symbol} {wrap(args[1], right)}", binds


def _number(p: Operands, node: Node) -> Expression:
    op, attrs = node.op, node.attrs
    args = [p.take(v) for v in node.inputs]
    texts = [text for text, _ in args]
    checked = bool(attrs.get("checked"))
    if op in _MAY_RAISE and not checked and not texts[1].strip("-").replace(".", "").isdigit():
        return f"number.{op[4:]}({', '.join(texts)})", ATOM
    if op in INFIX:
        return _infix(p, INFIX[op], args)
    if op in ("num.neg", "num.invert"):
        return f"{'-' if op == 'num.neg' else '~'}{wrap(args[0], UNARY)}", UNARY
    if op == "num.not":
        return f"not {wrap(args[0], NOT)}", NOT
    if op == "num.select":
        return f"{wrap(args[1], NOT)} if {wrap(args[0], NOT)} else {wrap(args[2], TERNARY)}", TERNARY
    if op == "num.cast":
        return args[0] if attrs["to"] == "number" else (f"{attrs['to']}({texts[0]})", ATOM)
    if op == "num.math":
        name = attrs["fn"]
        if checked and name in _EXACT:
            return _EXACT[name](texts), ATOM
        home = "number." if not checked else "" if name == "round" else "math."
        return f"{home}{name}({', '.join(texts)})", ATOM
    return f"{op[4:]}({', '.join(texts)})", ATOM  # abs, min, max


#: functions of numbers that Python spells otherwise than `math.<name>(...)`
_EXACT: dict[str, Callable[[list[str]], str]] = {
    "round_to": lambda xs: f"round({', '.join(xs)})", "pow_modulo": lambda xs: f"pow({', '.join(xs)})",
    "norm": lambda xs: f"math.hypot({', '.join(xs)})", "fsum": lambda xs: f"math.fsum([{', '.join(xs)}])",
    "mantissa": lambda xs: f"math.frexp({xs[0]})[0]", "exponent": lambda xs: f"math.frexp({xs[0]})[1]",
    "fraction": lambda xs: f"math.modf({xs[0]})[0]", "whole": lambda xs: f"math.modf({xs[0]})[1]",
    "dist": lambda xs: f"math.dist([{', '.join(xs[:len(xs) // 2])}], [{', '.join(xs[len(xs) // 2:])}])",
}


# --- rows ------------------------------------------------------------------------------------------------------------


def _method(p: Operands, node: Node, name: str, *arguments: str) -> Expression:
    return f"{wrap(p.strong(node.inputs[0]), ATOM)}.{name}({', '.join(arguments)})", ATOM


def _reduce(p: Operands, node: Node) -> Expression | None:
    type_ = node.inputs[0].type
    assert isinstance(type_, TensorType)
    axes, keep = node.attrs["axes"], node.attrs["keepdim"]
    if not axes or not (type_.dtype.is_floating_point or type_.dtype is int64):
        return None
    whole = len(axes) == len(type_.dims) and not keep
    dim = [] if whole else [str(axes[0]) if len(axes) == 1 else attribute(p, axes)]
    return _method(p, node, node.op, *dim, *(["keepdim=True"] if keep else []))


def _one_axis(p: Operands, node: Node) -> Expression | None:
    axes, keep = node.attrs["axes"], node.attrs["keepdim"]
    return _method(p, node, node.op, str(axes[0]), *(["keepdim=True"] if keep else [])) if len(axes) == 1 else None


def _sizes(p: Operands, node: Node) -> Expression:
    shape = node.attrs["shape"]
    return _method(p, node, node.op, *([attribute(p, d) for d in shape] or ["()"]))


def _subscript(p: Operands, value: Value, axis: int, index: str) -> Expression:
    return f"{wrap(p.strong(value), ATOM)}[{', '.join([':'] * axis + [index])}]", ATOM


def _slice(p: Operands, node: Node) -> Expression | None:
    axis, start, length, step = (node.attrs[k] for k in ("axis", "start", "length", "step"))
    if step != 1:
        return None
    first = "" if start == 0 else attribute(p, start)
    return _subscript(p, node.inputs[0], axis, f"{first}:{attribute(p, start + length)}")


def _permute(p: Operands, node: Node) -> Expression:
    if node.attrs["axes"] == (1, 0):
        return f"{wrap(p.strong(node.inputs[0]), ATOM)}.T", ATOM
    return _method(p, node, "permute", *map(str, node.attrs["axes"]))


def _index(p: Operands, node: Node) -> Expression | None:
    if node.attrs["axes"] != (0,):
        return None
    x, i = node.inputs
    return f"{wrap(p.strong(x), ATOM)}[{p.strong(i)[0]}]", ATOM


def _full(p: Operands, node: Node) -> Expression:
    if not node.attrs["shape"]:
        return p.take(node.inputs[0])
    value = literal(node.attrs["value"])[0] if node.op == "full" else p.take(node.inputs[0])[0]
    shape, d = node.attrs["shape"], attribute(p, node.attrs["dtype"])
    if node.op == "full" and node.attrs["value"] in (0, 1) and shape:
        name = "ones" if node.attrs["value"] else "zeros"
        return f"jitgrad.{name}({attribute(p, shape)}, dtype={d})", ATOM
    return f"jitgrad.full({attribute(p, shape)}, {value}, dtype={d})", ATOM


def _arange(p: Operands, node: Node) -> Expression:
    d = node.attrs["dtype"]
    extra = "" if d is int64 else f", dtype={attribute(p, d)}"
    return f"jitgrad.arange({attribute(p, node.attrs['length'])}{extra})", ATOM


def _clamp(p: Operands, node: Node) -> Expression:
    x, *bounds = [p.strong(v) if k == 0 else p.take(v) for k, v in enumerate(node.inputs)]
    names = {"clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",), "maximum": ("min",),
             "minimum": ("max",)}[node.op]
    return f"{wrap(x, ATOM)}.clamp({', '.join(f'{n}={b}' for n, (b, _) in zip(names, bounds, strict=True))})", ATOM


def _extremum(p: Operands, node: Node) -> Expression | None:
    return _clamp(p, node) if p.is_weak(node.inputs[1]) and not p.is_weak(node.inputs[0]) else None


def _where(p: Operands, node: Node) -> Expression:
    condition, *sides = node.inputs
    texts = [p.strong(condition)[0], *(text for text, _ in p.operands(sides))]
    return f"jitgrad.where({', '.join(texts)})", ATOM


def _cast(p: Operands, node: Node) -> Expression:
    return _method(p, node, "to", attribute(p, node.attrs["dtype"]))


def _gather(p: Operands, node: Node) -> Expression:
    x, *others = node.inputs
    texts = [p.strong(v)[0] for v in others]
    return f"{wrap(p.strong(x), ATOM)}.{node.op}({', '.join([str(node.attrs['axis']), *texts])})", ATOM


def _cat(p: Operands, node: Node) -> Expression:
    return f"jitgrad.cat(({', '.join(p.strong(v)[0] for v in node.inputs)},), {node.attrs['axis']})", ATOM


def _element(p: Operands, node: Node) -> Expression | None:
    if isinstance(node.inputs[0].type, ListType) and isinstance(node.output.type, OptionalType):
        return None  # there may be none
    sequence, k = p.take(node.inputs[0]), p.take(node.inputs[1])
    return f"{wrap(sequence, ATOM)}[{k[0]}]", ATOM


def _passed(p: Operands, node: Node) -> Expression:
    return p.strong(node.inputs[0])


_RULES: dict[str, Callable[[Operands, Node], Expression | None]] = {
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduce), **dict.fromkeys(("argmax", "argmin"), _one_axis),
    "reshape": _sizes, "expand": _sizes, "permute": _permute, "slice": _slice, "index": _index,
    "unsqueeze": lambda p, n: _method(p, n, "unsqueeze", str(n.attrs["axis"])),
    "squeeze": lambda p, n: _method(p, n, "squeeze", str(n.attrs["axis"])),
    "flip": lambda p, n: _method(p, n, "flip", attribute(p, n.attrs["axes"])),
    "diagonal": lambda p, n: _method(p, n, "diagonal", *(str(n.attrs[k]) for k in ("offset", "axis1", "axis2"))),
    "select": lambda p, n: _subscript(p, n.inputs[0], n.attrs["axis"], attribute(p, n.attrs["index"])),
    "cumsum": lambda p, n: _method(p, n, "cumsum", str(n.attrs["axis"])),
    "softmax": lambda p, n: _method(p, n, "softmax", str(n.attrs["axis"])),
    "log_softmax": lambda p, n: _method(p, n, "log_softmax", str(n.attrs["axis"])),
    **dict.fromkeys(("gather", "scatter", "scatter_add"), _gather), "cat": _cat, "cast": _cast, "where": _where,
    **dict.fromkeys(("full", "fill"), _full), "arange": _arange,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamp), **dict.fromkeys(("maximum", "minimum"), _extremum),
    "neg": lambda p, n: (f"-{wrap(p.strong(n.inputs[0]), UNARY)}", UNARY),
    "item": lambda p, n: _method(p, n, "item"),
    "opt.has": lambda p, n: (f"{wrap(p.take(n.inputs[0]), 5)} is not None", COMPARE),
    "opt.some": _passed, "opt.get": _passed, "leaf": _passed,
    "detach": lambda p, n: _method(p, n, "detach"),
    **dict.fromkeys(("seq.get", "list.get"), _element),
    "list.new": lambda p, n: ("[]", ATOM),
    **dict.fromkeys(("seq.len", "list.len"), lambda p, n: (f"len({p.take(n.inputs[0])[0]})", ATOM)),
}


__all__ = ["attribute", "expression"]
