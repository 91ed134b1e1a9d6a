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
from jitgrad.ops.numbers import FUNCTIONS, NUMBERS, may_divide_by_zero
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

INFIX = {**{name: row.infix for name, row in OPS.items() if row.infix},
         **{name: row.infix for name, row in NUMBERS.items() if row.infix and row.arity == 2}}


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
    rule = RULES.get(op)
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
    if may_divide_by_zero(op) and not checked and not texts[1].strip("-").replace(".", "").isdigit():
        return f"number.{op[4:]}({', '.join(texts)})", ATOM
    if op in INFIX:
        return _infix(p, INFIX[op], args)
    if op in ("num.neg", "num.invert"):
        return f"{NUMBERS[op].infix}{wrap(args[0], UNARY)}", UNARY
    if op == "num.not":
        return f"not {wrap(args[0], NOT)}", NOT
    if op == "num.select":
        return f"{wrap(args[1], NOT)} if {wrap(args[0], NOT)} else {wrap(args[2], TERNARY)}", TERNARY
    if op == "num.cast":
        return args[0] if attrs["to"] == "number" else (f"{attrs['to']}({texts[0]})", ATOM)
    if op == "num.math":
        form = FUNCTIONS[attrs["fn"]].text if checked else f"number.{attrs['fn']}({{}})"
        each = len(texts) // form.count("{}")
        return form.format(*(", ".join(texts[k:k + each]) for k in range(0, len(texts), each))), ATOM
    return f"{op[4:]}({', '.join(texts)})", ATOM  # abs, min, max


# --- rows ------------------------------------------------------------------------------------------------------------

Rule = Callable[["Operands", Node], "Expression | None"]
#: how nodes are written, by op; None: as any other
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function into the table."""
    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function
    return enter


def _method(p: Operands, node: Node, name: str, *arguments: str) -> Expression:
    return f"{wrap(p.strong(node.inputs[0]), ATOM)}.{name}({', '.join(arguments)})", ATOM


@rule("sum", "mean", "amax", "amin")
def _reduce(p: Operands, node: Node) -> Expression | None:
    type_ = node.inputs[0].type
    assert isinstance(type_, TensorType)
    axes, keep = node.attrs["axes"], node.attrs["keepdim"]
    if not axes or not (type_.dtype.is_floating_point or type_.dtype is int64):
        return None
    whole = len(axes) == len(type_.dims) and not keep
    dim = [] if whole else [str(axes[0]) if len(axes) == 1 else attribute(p, axes)]
    return _method(p, node, node.op, *dim, *(["keepdim=True"] if keep else []))


@rule("argmax", "argmin")
def _one_axis(p: Operands, node: Node) -> Expression | None:
    axes, keep = node.attrs["axes"], node.attrs["keepdim"]
    return _method(p, node, node.op, str(axes[0]), *(["keepdim=True"] if keep else [])) if len(axes) == 1 else None


@rule("reshape", "expand")
def _sizes(p: Operands, node: Node) -> Expression:
    shape = node.attrs["shape"]
    return _method(p, node, node.op, *([attribute(p, d) for d in shape] or ["()"]))


def _subscript(p: Operands, value: Value, axis: int, index: str) -> Expression:
    return f"{wrap(p.strong(value), ATOM)}[{', '.join([':'] * axis + [index])}]", ATOM


@rule("slice")
def _slice(p: Operands, node: Node) -> Expression | None:
    axis, start, length, step = (node.attrs[k] for k in ("axis", "start", "length", "step"))
    if step != 1:
        return None
    first = "" if start == 0 else attribute(p, start)
    return _subscript(p, node.inputs[0], axis, f"{first}:{attribute(p, start + length)}")


@rule("permute")
def _permute(p: Operands, node: Node) -> Expression:
    if node.attrs["axes"] == (1, 0):
        return f"{wrap(p.strong(node.inputs[0]), ATOM)}.T", ATOM
    return _method(p, node, "permute", *map(str, node.attrs["axes"]))


@rule("index")
def _index(p: Operands, node: Node) -> Expression | None:
    if node.attrs["axes"] != (0,):
        return None
    x, i = node.inputs
    return f"{wrap(p.strong(x), ATOM)}[{p.strong(i)[0]}]", ATOM


@rule("full", "fill")
def _full(p: Operands, node: Node) -> Expression:
    if not node.attrs["shape"]:
        return p.take(node.inputs[0])
    value = literal(node.attrs["value"])[0] if node.op == "full" else p.take(node.inputs[0])[0]
    shape, d = node.attrs["shape"], attribute(p, node.attrs["dtype"])
    if node.op == "full" and node.attrs["value"] in (0, 1) and shape:
        name = "ones" if node.attrs["value"] else "zeros"
        return f"jitgrad.{name}({attribute(p, shape)}, dtype={d})", ATOM
    return f"jitgrad.full({attribute(p, shape)}, {value}, dtype={d})", ATOM


@rule("arange")
def _arange(p: Operands, node: Node) -> Expression:
    d = node.attrs["dtype"]
    extra = "" if d is int64 else f", dtype={attribute(p, d)}"
    return f"jitgrad.arange({attribute(p, node.attrs['length'])}{extra})", ATOM


def _clamp(*bounds: str) -> Rule:
    """`x.clamp(min=..., max=...)`, the row's further operands being these bounds."""
    def text(p: Operands, node: Node) -> Expression:
        x, *limits = [p.strong(v) if k == 0 else p.take(v) for k, v in enumerate(node.inputs)]
        named = ", ".join(f"{n}={b}" for n, (b, _) in zip(bounds, limits, strict=True))
        return f"{wrap(x, ATOM)}.clamp({named})", ATOM
    return text


def _extremum(bound: str) -> Rule:
    """The same of a tensor and a number."""
    return lambda p, n: _clamp(bound)(p, n) if p.is_weak(n.inputs[1]) and not p.is_weak(n.inputs[0]) else None


rule("clamp")(_clamp("min", "max"))
rule("clamp_min")(_clamp("min"))
rule("clamp_max")(_clamp("max"))
rule("maximum")(_extremum("min"))
rule("minimum")(_extremum("max"))


@rule("where")
def _where(p: Operands, node: Node) -> Expression:
    condition, *sides = node.inputs
    texts = [p.strong(condition)[0], *(text for text, _ in p.operands(sides))]
    return f"jitgrad.where({', '.join(texts)})", ATOM


@rule("cast")
def _cast(p: Operands, node: Node) -> Expression:
    return _method(p, node, "to", attribute(p, node.attrs["dtype"]))


@rule("gather", "scatter", "scatter_add")
def _gather(p: Operands, node: Node) -> Expression:
    x, *others = node.inputs
    texts = [p.strong(v)[0] for v in others]
    return f"{wrap(p.strong(x), ATOM)}.{node.op}({', '.join([str(node.attrs['axis']), *texts])})", ATOM


@rule("cat")
def _cat(p: Operands, node: Node) -> Expression:
    return f"jitgrad.cat(({', '.join(p.strong(v)[0] for v in node.inputs)},), {node.attrs['axis']})", ATOM


@rule("seq.get", "list.get")
def _element(p: Operands, node: Node) -> Expression | None:
    if isinstance(node.inputs[0].type, ListType) and isinstance(node.output.type, OptionalType):
        return None  # there may be none
    sequence, k = p.take(node.inputs[0]), p.take(node.inputs[1])
    return f"{wrap(sequence, ATOM)}[{k[0]}]", ATOM


rule("squeeze", "unsqueeze", "cumsum", "softmax", "log_softmax")(
    lambda p, n: _method(p, n, n.op, str(n.attrs["axis"])))
rule("flip")(lambda p, n: _method(p, n, "flip", attribute(p, n.attrs["axes"])))
rule("diagonal")(lambda p, n: _method(p, n, "diagonal", *(str(n.attrs[k]) for k in ("offset", "axis1", "axis2"))))
rule("select")(lambda p, n: _subscript(p, n.inputs[0], n.attrs["axis"], attribute(p, n.attrs["index"])))
rule("item", "detach")(lambda p, n: _method(p, n, n.op))
rule("neg")(lambda p, n: (f"-{wrap(p.strong(n.inputs[0]), UNARY)}", UNARY))
rule("opt.has")(lambda p, n: (f"{wrap(p.take(n.inputs[0]), 5)} is not None", COMPARE))
rule("opt.some", "opt.get", "leaf")(lambda p, n: p.strong(n.inputs[0]))
rule("list.new")(lambda p, n: ("[]", ATOM))
rule("seq.len", "list.len")(lambda p, n: (f"len({p.take(n.inputs[0])[0]})", ATOM))


__all__ = ["attribute", "expression"]
