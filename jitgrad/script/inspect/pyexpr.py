"""One node of a graph as a Python expression over jitgrad's public functions.

Rows that have no public function of the same meaning are written as `ops.<row>(...)`; see `pyhelpers`. A 0-dim tensor
made of a number is written as the number where another tensor gives the dtype.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad.dims import Dim
from jitgrad.dtypes import dtype, int64
from jitgrad.ops import OPS
from jitgrad.ops.numbers import FUNCTIONS, NUMBERS, may_divide_by_zero
from jitgrad.ops.opdef import POINTWISE
from jitgrad.ops.texts import METHODS, TEXTS
from jitgrad.ops.types import ListType, OptionalType, TensorType
from jitgrad.script.graph.ir import Node
from jitgrad.script.graph.irops import TYPED
from jitgrad.script.inspect.pyeffects import template_text
from jitgrad.script.inspect.pynames import (ATOM, BINDS, COMPARE, NOT, TERNARY, UNARY, Expression, Operands, literal,
                                            wrap)

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
    pointwise = row is not None and row.kind is POINTWISE
    form = FORMS.get(op, "")
    form = form if isinstance(form, str) else form(node)
    public = pointwise and not node.attrs and not form and hasattr(jitgrad, op)
    operands = [(p.take if pointwise and k and not public else p.strong)(v) for k, v in enumerate(node.inputs)]
    attrs = {k: attribute(p, v) for k, v in node.attrs.items()}
    if form:
        return form.format(*(wrap(x, 0 if k else ATOM) for k, x in enumerate(operands)), op=op, **attrs), ATOM
    texts = [text for text, _ in operands] + [f"{k}={text}" for k, text in attrs.items()]
    return f"{'jitgrad' if public else 'ops'}.{op.replace('.', '_')}({', '.join(texts)})", ATOM


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


def _reduction(node: Node) -> str:
    type_ = node.inputs[0].type
    assert isinstance(type_, TensorType)
    axes, keep = node.attrs["axes"], node.attrs["keepdim"]
    if not axes or not (type_.dtype.is_floating_point or type_.dtype is int64):
        return ""
    dim = "" if len(axes) == len(type_.dims) and not keep else str(axes[0]) if len(axes) == 1 else "{axes}"
    return "{0}.{op}(" + dim + (", keepdim=True)" if keep else ")")


def _element(node: Node) -> str:
    may_be_none = isinstance(node.inputs[0].type, ListType) and isinstance(node.output.type, OptionalType)
    return "" if may_be_none else "{0}[{1}]"


#: public names of rows: the text over the operands, the first of them as an atom, and the attributes; "": none
FORMS: dict[str, str | Callable[[Node], str]] = {
    **dict.fromkeys(("cumsum", "log_softmax", "softmax", "squeeze", "unsqueeze"), "{0}.{op}({axis})"),
    **dict.fromkeys(("detach", "item"), "{0}.{op}()"),
    **dict.fromkeys(("amax", "amin", "argmax", "argmin", "mean", "sum"), _reduction),
    **dict.fromkeys(("scatter", "scatter_add"), "{0}.{op}({axis}, {1}, {2})"),
    **dict.fromkeys(("list.get", "seq.get"), _element),
    **dict.fromkeys(("list.len", "seq.len"), "len({0})"),
    "arange": "jitgrad.arange({length}, dtype={dtype})",
    "cast": "{0}.to({dtype})",
    **dict.fromkeys(("bitcast", "view_dtype"), "{0}.view({dtype})"),
    "cat": lambda node: f"jitgrad.cat(({', '.join(f'{{{k}}}' for k in range(len(node.inputs)))},), {{axis}})",
    "clamp": "{0}.clamp(min={1}, max={2})",
    "clamp_max": "{0}.clamp(max={1})",
    "clamp_min": "{0}.clamp(min={1})",
    "diagonal": "{0}.diagonal({offset}, {axis1}, {axis2})",
    **dict.fromkeys(("expand", "reshape"), "{0}.{op}({shape})"),
    "fill": lambda node: "jitgrad.full({shape}, {0}, dtype={dtype})" if node.attrs["shape"] else "{0}",
    "flip": "{0}.flip({axes})",
    "full": "jitgrad.full({shape}, {value}, dtype={dtype})",
    "gather": "{0}.gather({axis}, {1})",
    "index": lambda node: "{0}[{1}]" if node.attrs["axes"] == (0,) else "",
    "list.new": "[]",
    "permute": lambda node: "{0}.T" if node.attrs["axes"] == (1, 0) else "{0}.permute({axes})",
    "select": lambda node: "{0}[" + ":, " * node.attrs["axis"] + "{index}]",
}


def _slice(p: Operands, node: Node) -> Expression | None:
    axis, start, length, step = (node.attrs[k] for k in ("axis", "start", "length", "step"))
    if step != 1:
        return None
    first = "" if start == 0 else attribute(p, start)
    index = ", ".join([":"] * axis + [f"{first}:{attribute(p, start + length)}"])
    return f"{wrap(p.strong(node.inputs[0]), ATOM)}[{index}]", ATOM


def _bounded(p: Operands, node: Node) -> Expression | None:
    """Of a tensor and a number, a clamp."""
    x, bound = node.inputs
    if bound not in p.weak or x in p.weak:
        return None
    name = "min" if node.op == "maximum" else "max"
    return f"{wrap(p.strong(x), ATOM)}.clamp({name}={p.take(bound)[0]})", ATOM


def _where(p: Operands, node: Node) -> Expression:
    condition, *sides = node.inputs
    texts = [p.strong(condition)[0], *(text for text, _ in p.operands(sides))]
    return f"jitgrad.where({', '.join(texts)})", ATOM


#: functions of strings that are no methods: their text
_TEXTS = {"join": "{}.join({})", "len": "len({})", "contains": "{1} in {0}", "eq": "{} == {}", "lt": "{} < {}",
          "le": "{} <= {}", "repeat": "{} * {}"}


def _text(p: Operands, node: Node) -> Expression | None:
    """What cannot raise as Python's users write it."""
    fn, args, names = node.attrs["fn"], node.attrs["args"], node.attrs.get("names", ())

    def operand(stated: Any) -> str:
        kind, *rest = stated
        if kind == "text":
            return template_text(p, rest, node.inputs)
        if kind == "tuple":
            return f"({''.join(operand(a) + ', ' for a in rest)})"
        return wrap(p.take(node.inputs[rest[0]]), ATOM) if kind == "value" else repr(rest[0])

    if TEXTS[fn].raises or names:
        return None
    if fn == "format":
        return operand(args[0]), ATOM
    first, *rest = map(operand, args)
    if fn in METHODS:
        return f"{first}.{fn}({', '.join(rest)})", ATOM
    return _TEXTS[fn].format(first, *rest), ATOM if fn in ("join", "len") else COMPARE


#: what is written in another way, by op; None: as any other
RULES: dict[str, Callable[[Operands, Node], Expression | None]] = {
    "neg": lambda p, node: (f"-{wrap(p.strong(node.inputs[0]), UNARY)}", UNARY),
    "opt.has": lambda p, node: (f"{wrap(p.take(node.inputs[0]), 5)} is not None", COMPARE),
    **dict.fromkeys(("leaf", "opt.get", "opt.some"), lambda p, node: p.strong(node.inputs[0])),
    **dict.fromkeys(("maximum", "minimum"), _bounded),
    "slice": _slice,
    "text": _text,
    "where": _where,
}
