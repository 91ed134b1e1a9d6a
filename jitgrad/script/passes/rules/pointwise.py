"""Rewrite rows for pointwise ops."""

import math
from collections.abc import Sequence

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import (RULES, as_result, constant, is_float, is_power_of_two, row, rule,
                                               rule_of, tensor)

# --- identities with constants -------------------------------------------------------------------------------------


row("mul_one", ("mul", "x", 1), "x")
row("mul_minus_one", ("mul", "x", -1), ("neg", "x"))
row("mul_minus_one", ("div", "x", -1), ("neg", "x"))
row("right_one", ("div", "x", 1), "x")
row("right_one", ("pow", "x", 1), "x")


@rule("div")
def div_power_of_two(r: Rewriter, node: Node) -> Value | None:
    """x / 2^k is x * 2^-k, exactly."""
    x, c = node.inputs
    number = constant(r, c)
    if number is None or not is_float(x) or not is_power_of_two(number) or abs(number) == 1:
        return None
    type_ = tensor(c)
    return r.emit("mul", x, r.emit("full", value=1.0 / number, shape=type_.dims, dtype=type_.dtype))


@rule("add", "sub")
def add_zero(r: Rewriter, node: Node) -> Value | None:
    """x + 0 and x - 0 are x for ints; for floats x + -0.0 and x - 0.0 are (x + 0.0 turns -0.0 into 0.0)."""
    sign, orders = (-1.0, 2) if node.op == "add" else (1.0, 1)
    for x, c in (node.inputs, node.inputs[::-1])[:orders]:
        number = constant(r, c)
        if number is not None and number == 0 and (not is_float(x) or math.copysign(1.0, number) == sign):
            return as_result(r, x, node)
    return None


@rule("pow")
def small_power(r: Rewriter, node: Node) -> Value | None:
    """x ** 2 is x * x; so are the powers 3 and 4, and 1 / x is x ** -1 for floats."""
    x, c = node.inputs
    number = constant(r, c)
    if number not in (2, 3, 4, -1) or tensor(c).dims != ():
        return None
    if number == -1:
        if not is_float(x):
            return None
        one = r.emit("full", value=1.0, shape=(), dtype=tensor(x).dtype)
        return r.emit("div", one, x)
    square = r.emit("mul", x, x)
    return square if number == 2 else r.emit("mul", square, x if number == 3 else square)


@rule_of("exp", "sub")
def exp_of_log_softmax(r: Rewriter, node: Node, inner: Node) -> Value | None:
    """exp(z - log(sum(exp(z)))) is exp(z) * (1 / sum(exp(z))), some ulps closer: the gradient of a cross entropy takes
    the exponentials that are there already. Where z is x - max(x), so that none overflows.
    """
    z, shift = inner.inputs
    shifted, log = r.source(z, "sub"), r.source(shift, "log")
    largest = shifted and r.source(shifted.inputs[1], "amax")
    total = log and r.source(log.inputs[0], "sum")
    powers = total and r.source(total.inputs[0], "exp")
    if (total is None or powers is None or powers.inputs[0] is not z or tensor(z).dtype.is_half
            or shifted is None or largest is None or largest.inputs[0] is not shifted.inputs[0]
            or largest.attrs["axes"] != total.attrs["axes"]):
        return None
    one = r.emit("full", value=1.0, shape=(), dtype=tensor(z).dtype)
    return as_result(r, r.emit("mul", powers.output, r.emit("div", one, total.output)), node)


# --- signs ---------------------------------------------------------------------------------------------------------


def twice(r: Rewriter, node: Node) -> Value | None:
    """f(f(x)) is x for an involution, f(x) for an idempotent f (equal attrs)."""
    inner = r.source(node.inputs[0], node.op)
    if inner is None or inner.attrs != node.attrs:
        return None
    return inner.inputs[0] if "involution" in OPS[node.op].traits else inner.outputs[0]


for _op in OPS.values():
    if _op.arity == 1 and _op.traits & {"involution", "idempotent"}:
        rule(_op.name)(twice)


row("abs_of_neg", ("abs", ("neg", "x")), ("abs", "x"))
row("add_neg", ("add", "x", ("neg", "y")), ("sub", "x", "y"))
row("sub_neg", ("sub", "x", ("neg", "y")), ("add", "x", "y"))
row("neg_times_neg", ("mul", ("neg", "x"), ("neg", "y")), ("mul", "x", "y"))
row("neg_times_neg", ("div", ("neg", "x"), ("neg", "y")), ("div", "x", "y"))

# --- conditions ----------------------------------------------------------------------------------------------------


@rule("where")
def where_constant(r: Rewriter, node: Node) -> Value | None:
    """where(True, a, b) is a."""
    truth = constant(r, node.inputs[0])
    return None if truth is None else as_result(r, node.inputs[1 if truth else 2], node)


row("where_same", ("where", "c", "x", "x"), "x")


@rule_of("where", "logical_not")
def where_not(r: Rewriter, node: Node, inner: Node) -> Value | None:
    """where(not c, a, b) is where(c, b, a)."""
    (c,), (_, a, b) = inner.inputs, node.inputs
    return r.emit("where", c, b, a) if tensor(c).dtype is dtypes.bool_ else None


row("not_of", ("logical_not", ("logical_not", "c")), "c")
# not <: the opposite of an unordered comparison is not one
row("not_of", ("logical_not", ("eq", "x", "y")), ("ne", "x", "y"))
row("not_of", ("logical_not", ("ne", "x", "y")), ("eq", "x", "y"))
row("with_constant", ("logical_and", "c", True), "c")
row("with_constant", ("logical_or", "c", False), "c")

# --- casts ---------------------------------------------------------------------------------------------------------


def is_lossless(a: dtype, b: dtype) -> bool:
    """Whether every value of `a` is a value of `b`."""
    if a is b or a is dtypes.bool_:
        return True
    if b is dtypes.bool_ or (a.is_floating_point and not b.is_floating_point):
        return False
    if a.is_floating_point:
        return a.itemsize <= b.itemsize
    bits = 8 * a.itemsize - (a.is_signed)
    if b.is_floating_point:
        return bits <= {2: 11, 4: 24, 8: 53}[b.itemsize]
    return bits <= 8 * b.itemsize - b.is_signed and (b.is_signed or not a.is_signed)


row("cast_same", ("cast", "x"), "x")


@rule_of("cast", "cast")
def cast_of_cast(r: Rewriter, node: Node, inner: Node) -> Value | None:
    """A cast of a cast that lost nothing is one cast."""
    (x,) = inner.inputs
    lost = not is_lossless(tensor(x).dtype, tensor(inner.output).dtype)
    return None if lost else r.emit("cast", x, dtype=node.attrs["dtype"])


# --- operands that are repeated ------------------------------------------------------------------------------------


def repeated_operand(r: Rewriter, node: Node) -> Value | None:
    """f(expand(x), y) is f(x, y) where f broadcasts x to the same shape; a constant operand needs no shape at all."""
    inputs: list[Value] | None = None
    for i, v in enumerate(node.inputs):
        source = r.nodes.get(v)
        if source is None or (source.op != "expand" and (source.op != "full" or not source.attrs["shape"])):
            continue
        candidate = list(node.inputs if inputs is None else inputs)
        candidate[i] = source.inputs[0] if source.op == "expand" else v
        if source.op == "full":
            type_ = tensor(v)
            if not _gives(node, [c.type if c is not v else TensorType(type_.dtype, ()) for c in candidate]):
                continue
            candidate[i] = r.emit("full", value=source.attrs["value"], shape=(), dtype=type_.dtype)
        elif not _gives(node, [c.type for c in candidate]):
            continue
        inputs = candidate
    return r.emit(node.op, *inputs, **node.attrs) if inputs is not None else None


def _gives(node: Node, types: Sequence[object]) -> bool:
    spec = OPS[node.op].spec
    assert spec is not None
    return bool(spec(*types, **node.attrs) == node.outputs[0].type)


for _op in OPS.values():
    if _op.kind is Kind.POINTWISE and _op.arity is not None and _op.arity > 1:
        RULES.setdefault(_op.name, []).insert(0, ("repeated_operand", repeated_operand))
