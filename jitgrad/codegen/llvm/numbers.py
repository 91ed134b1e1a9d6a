"""Python numbers in registers: what the `num.*` nodes mean, as instructions.

A checked node has a fast path; where it might raise, native code calls back and Python computes that one operation:
exactly its result, or its exception.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.llvm.conversions import DTYPES, KIND_FLOAT, KIND_INT, as_float, as_int, as_type, part_types
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.llvm.scalars import EMIT
from jitgrad.codegen.program.layout import Status
from jitgrad.codegen.program.steps import NumberStep
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V
from jitgrad.ops.numbers import FUNCTIONS, family, is_exact
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, Type
from jitgrad.script.graph.ir import Value

_EXACT_INTS = 1 << 53
_LOWEST = -(1 << 63)


Checked = tuple[V, "V | None"]  # a result, and where it is certainly right (None: everywhere)
Result = tuple[tuple[V, ...], "V | None"]  # the same, of several registers


def number_step(p: Printer, step: NumberStep) -> None:
    node = step.node
    op, out = node.op, node.outputs[0]
    if op == "num.const":
        p.define(out, *constant(p, node.attrs["value"]))
    elif op == "dim.value":
        p.define(out, p.size(node.attrs["dim"]))
    elif op == "dim.bind":
        v = p.one(node.inputs[0])
        p.line(f"store i64 {v.name}, ptr {p.size_variable(node.attrs['symbol'])}")
        p.define(out, v)
    elif op == "item":
        (source,) = node.inputs
        p.define(out, p.as_dtype(source, DTYPES[out.type]))
    elif op == "num.select":
        condition = truth(p, node.inputs[0])
        a, b = (p.as_type(v, out.type) for v in node.inputs[1:])
        p.define(out, *[condition.where(x, y) for x, y in zip(a, b, strict=True)])
    else:
        compute(p, step)


def constant(p: Printer, value: Any) -> tuple[V, ...]:
    return (p.code.const(value, "i1" if isinstance(value, bool) else "i64" if isinstance(value, int) else "double", 1),)


def truth(p: Printer, value: Value) -> V:
    """`bool(value)`."""
    parts = p.parts(value)
    if value.type == BOOL:
        return parts[0]
    if value.type == NUMBER:
        return parts[0].eq(KIND_FLOAT).where(parts[1].cast("bitcast", "double").ne(0.0), parts[1].ne(0))
    return parts[0].ne(0)


def compute(p: Printer, step: NumberStep) -> None:
    """An operation; checked, with Python as the slow path."""
    node, out = step.node, step.node.outputs[0]
    if step.site >= 0 and p.quick and len(part_types(out.type)) == 1 and out_of_line(p, step):
        return
    result, good = operation(p, node.op, node.inputs, node.attrs, out.type)
    if step.site < 0 or good is None:
        p.define(out, *result)
        return
    found = [p.code.variable(v) for v in result]
    with p.code.unless(good):
        p.pass_values(node.inputs)
        p.call_python(step.site, step.leaving)
        for j, (place, v) in enumerate(zip(found, result, strict=True)):
            place.value = p.load_word(p.layout.payload + j, v.elem)
    p.define(out, *[place.value for place in found])


def out_of_line(p: Printer, step: NumberStep) -> bool:
    """A checked operation as a call of a function that all equal ones share; False where nothing is checked.

    For programs that run their steps once: the slow path would be most of their text.
    """
    node, out = step.node, step.node.outputs[0]
    key = ("number", node.op, tuple(sorted(node.attrs.items())), tuple(v.type for v in node.inputs))
    if key not in p.module.helpers:
        p.module.helpers[key] = helper(p, step, f"jg_number{len(p.module.helpers)}")
    name = p.module.helpers[key]
    if not name:
        return False
    given = [v for value in node.inputs for v in p.parts(value)]
    (kind,) = part_types(out.type)
    place = p.variable(kind)
    arguments = "".join(f", {v.type} {v.name}" for v in given)
    good = p.code.emit(f"call i1 @{name}(ptr %block, i64 {step.site}{arguments}, ptr {place})", "i1", 1)
    p.leave_unless(good, Status.RAISED, step.leaving)
    p.define(out, p.code.read(kind, place))
    return True


def helper(p: Printer, step: NumberStep, name: str) -> str:
    """The function: computes, or lets Python compute; false where that raised."""
    node = step.node
    around, p.code = p.code, Native()
    inputs: list[Value] = []
    parameters: list[str] = []
    for value in node.inputs:
        stand_in = Value(value.type)
        inputs.append(stand_in)
        parts = []
        for kind in part_types(value.type):
            parts.append(V(p.code, f"%a{len(parameters)}", kind, 1))
            parameters.append(f"{kind} {parts[-1].name}")
        p.values[stand_in] = tuple(parts)
    (result,), good = operation(p, node.op, tuple(inputs), node.attrs, node.outputs[0].type)
    if good is not None:
        code = p.code
        code.write(result, "%out")
        with code.unless(good):
            p.pass_values(inputs)
            with code.unless(p.called_back("%site")):
                code.leave(code.number(False, "i1"))
            code.write(p.load_word(p.layout.payload, result.elem), "%out")
        code.leave(code.number(True, "i1"))
        p.module.helper(code, f"i1 @{name}", ["ptr %block", "i64 %site", *parameters, "ptr %out"])
    p.code = around
    return name if good is not None else ""


def operation(p: Printer, op: str, inputs: tuple[Value, ...], attrs: Any, type_: Type) -> Result:
    """The registers of a result, and where they are certainly right (None: everywhere)."""
    types = [v.type for v in inputs]
    parts = [p.parts(v) for v in inputs]
    if op == "num.cast":
        return cast(p, inputs[0], attrs["to"])
    if op == "num.not":
        return (~truth(p, inputs[0]),), None
    if is_exact(op, attrs):  # Python computes it
        return constant(p, 0.0 if type_ == FLOAT else 0), p.code.const(False, "i1", 1)
    if op == "num.math":
        result, good = math(p, attrs["fn"], [*map(as_float, parts, types)], types[0] in (INT, BOOL), parts[0])
    elif family(op) == "bitwise" or op == "num.invert":
        result, good = bitwise(op, parts, types, type_)
    elif NUMBER in types and op != "num.truediv":
        return dynamic(p, op, parts, types, type_)
    elif FLOAT in types or op == "num.truediv":
        result, good = floats(p, op, [*map(as_float, parts, types)])
        if op == "num.truediv":
            good = exact_quotient(good, parts, types)
    else:
        result, good = ints(p, op, [*map(as_int, parts, types)])
    return (result,), good


def exact_quotient(good: V | None, parts: list[tuple[V, ...]], types: list[Type]) -> V | None:
    """Large ints do not fit a double: Python divides those."""
    for x, t in zip(parts, types, strict=True):
        if t in (INT, NUMBER):
            small = (as_int(x, t) + _EXACT_INTS).compare("ule", 2 * _EXACT_INTS)
            if t == NUMBER:
                small = small | x[0].eq(KIND_FLOAT)
            good = small if good is None else good & small
    return good


def dynamic(p: Printer, op: str, parts: list[tuple[V, ...]], types: list[Type], type_: Type) -> Result:
    """Both kinds are computed, the kind chooses."""
    is_float = reduce(operator.or_, (x[0].eq(KIND_FLOAT) if t == NUMBER else p.code.const(t == FLOAT, "i1", 1)
                                 for x, t in zip(parts, types, strict=True)))
    f, good_f = floats(p, op, [*map(as_float, parts, types)])
    i, good_i = ints(p, op, [as_int(x, t) if t != FLOAT else p.const(0) for x, t in zip(parts, types, strict=True)])
    good: V | None = None
    if good_f is not None or good_i is not None:
        yes = p.code.const(True, "i1", 1)
        good = is_float.where(good_f or yes, good_i or yes)
    if type_ == BOOL:
        return (is_float.where(f, i),), good
    bits = is_float.where(f.cast("bitcast", "i64"), i)
    kind = is_float.where(p.const(KIND_FLOAT), p.const(KIND_INT))
    if type_ == FLOAT:
        return (f,), good
    if type_ == INT:
        return (i,), good
    if op in ("num.min", "num.max"):  # the operand itself, with its kind
        first, second = (as_type(x, t, NUMBER) for x, t in zip(parts, types, strict=True))
        a, b = map(as_float, parts, types)
        x, y = map(as_int, parts, types)
        take = is_float.where(b < a, y < x) if op == "num.min" else is_float.where(b > a, y > x)
        return tuple(take.where(s, r) for r, s in zip(first, second, strict=True)), good
    return (kind, bits), good


# --- kinds ---

#: rounded down, which is as Python does it; for floats CPython's `float_divmod`
_DIVISIONS = {"num.floordiv": EMIT["floor_divide"], "num.mod": EMIT["remainder"]}


def ints(p: Printer, op: str, args: list[V]) -> Checked:
    a, b = args[0], args[-1]
    code = p.code
    if family(op) == "comparison":
        return a.compare(op[4:] if op in ("num.eq", "num.ne") else f"s{op[4:]}", b), None
    if op in _DIVISIONS:
        return _DIVISIONS[op]([a, b], dtypes.int64, dtypes.int64, 0), b.ne(0) & (a.ne(_LOWEST) | b.ne(-1))
    if op == "num.pow":
        return EMIT["pow"]([a, b], dtypes.int64, dtypes.int64, 0), code.const(False, "i1", 1)
    if op in ("num.min", "num.max"):
        return (b < a if op == "num.min" else b > a).where(b, a), None
    if op == "num.neg":
        return 0 - a, a.ne(_LOWEST)
    if op == "num.abs":
        return a.abs(), a.ne(_LOWEST)
    name = f"llvm.s{op[4:]}.with.overflow.i64"
    code.declares[name] = f"declare {{i64, i1}} @{name}(i64, i64)"
    pair = code.emit(f"call {{i64, i1}} @{name}(i64 {a.name}, i64 {b.name})", "{i64, i1}", 1).name
    value = code.emit(f"extractvalue {{i64, i1}} {pair}, 0", "i64", 1)
    return value, ~code.emit(f"extractvalue {{i64, i1}} {pair}, 1", "i1", 1)


_FLOAT_OPS: dict[str, Callable[[V, V], V]] = {
    "num.add": operator.add, "num.sub": operator.sub, "num.mul": operator.mul}
_BIT_OPS: dict[str, Callable[[V, V], V]] = {
    "num.and": operator.and_, "num.or": operator.or_, "num.xor": operator.xor}


def floats(p: Printer, op: str, args: list[V]) -> Checked:
    a, b = args[0], args[-1]
    if family(op) == "comparison":
        return a.compare("une" if op == "num.ne" else f"o{op[4:]}", b), None
    if op in _FLOAT_OPS:
        return _FLOAT_OPS[op](a, b), None
    if family(op) == "arithmetic":
        if op == "num.truediv":
            return a / b, b.ne(0.0)
        if op in ("num.min", "num.max"):
            return (b < a if op == "num.min" else b > a).where(b, a), None
        if op == "num.pow":
            result = call(p, "pow", [a, b])
            return result, finite(p, result)
        value = _DIVISIONS[op]([a, b], dtypes.float64, dtypes.float64, 0)
        if op == "num.mod":  # zero has the divisor's sign
            value = value.eq(0.0).where(p.code.const(0.0, "double", 1).copysign(b), value)
        return value, b.ne(0.0)
    return (-a if op == "num.neg" else a.abs()), None


def finite(p: Printer, v: V) -> V:
    return v.abs().compare("olt", float("inf"))


def bitwise(op: str, parts: list[tuple[V, ...]], types: list[Type], type_: Type) -> Checked:
    args = [x[0] if type_ == BOOL else as_int(x, t) for x, t in zip(parts, types, strict=True)]
    a, b = args[0], args[-1]
    if op in _BIT_OPS:
        return _BIT_OPS[op](a, b), None
    if op == "num.invert":
        return ~a, None
    if op == "num.rshift":
        clamped = b.compare("ugt", 63).where(63, b)
        return (b < 0).where(0, a.ashr(clamped)), b >= 0
    inside = b.compare("ult", 64)
    shift = inside.where(b, 0)
    value = a.shl(shift)
    return inside.where(value, 0), inside & value.ashr(shift).eq(a)


def cast(p: Printer, value: Value, to: str) -> Result:
    parts, type_ = p.parts(value), value.type
    if to == "number":
        return as_type(parts, type_, NUMBER), None
    if to == "bool":
        return (truth(p, value),), None
    if to == "float":
        return (as_float(parts, type_),), None
    if type_ in (BOOL, INT):
        return (as_int(parts, type_),), None
    x = as_float(parts, type_)
    result, good = to_int(p, x)
    if type_ == NUMBER:
        is_float = parts[0].eq(KIND_FLOAT)
        return (is_float.where(result, parts[1]),), ~is_float | good
    return (result,), good


def to_int(p: Printer, x: V) -> tuple[V, V]:
    """A float towards zero, saturating, NaN as 0; and where nothing was lost."""
    return p.code.call("llvm.fptosi.sat.i64.f64", "i64", 1, x), x.abs().compare("olt", 9.2e18)


def math(p: Printer, fn: str, args: list[V], is_int: bool, raw: tuple[V, ...]) -> Checked:
    x, row = args[0], FUNCTIONS[fn]
    if row.result == INT:
        if is_int:
            return (raw[0].cast("zext", "i64") if raw[0].elem == "i1" else raw[0]), None
        return to_int(p, x.intrinsic("roundeven" if fn == "round" else fn))
    if row.result == BOOL:
        if fn == "isnan":
            return x.isnan(), None
        return (x.abs().eq(float("inf")) if fn == "isinf" else finite(p, x)), None
    if fn in ("degrees", "radians"):
        return x * (57.29577951308232 if fn == "degrees" else 0.017453292519943295), None
    if fn == "copysign":
        return x.copysign(args[1]), None
    result = call(p, row.c, args) if row.c else x.intrinsic(fn)
    return result, finite(p, result)


def call(p: Printer, name: str, args: list[V]) -> V:
    """A function of the C library, as Python's math module uses it."""
    return p.code.call(name, "double", 1, *args)
