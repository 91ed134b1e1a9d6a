"""Python numbers in registers: what the `num.*` nodes mean, as instructions.

A checked node has a fast path; where it might raise, native code calls back and Python computes that one operation:
exactly its result, or its exception.
"""

from __future__ import annotations

from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.llvm.conversions import DTYPES, KIND_FLOAT, KIND_INT, as_float, as_int, as_type, part_types
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.llvm.scalars import EMIT
from jitgrad.codegen.program.layout import RAISED
from jitgrad.codegen.program.steps import NumberStep
from jitgrad.kernels.values import Code, V
from jitgrad.ops.numbers import FUNCTIONS, family, is_exact
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, Type
from jitgrad.script.graph.ir import Value

_EXACT_INTS = 1 << 53
_LOWEST = -(1 << 63)


Checked = tuple[V, "V | None"]  # a result, and where it is certainly right


class Numbers:
    """Prints number nodes."""

    def __init__(self, printer: Printer):
        self.printer = printer

    def step(self, step: NumberStep) -> None:
        node, printer = step.node, self.printer
        op, out = node.op, node.outputs[0]
        if op == "num.const":
            printer.define(out, *self.constant(node.attrs["value"]))
        elif op == "dim.value":
            printer.define(out, printer.size(node.attrs["dim"]))
        elif op == "dim.bind":
            v = printer.one(node.inputs[0])
            printer.line(f"store i64 {v.name}, ptr {printer.size_variable(node.attrs['symbol'])}")
            printer.define(out, v)
        elif op == "item":
            (source,) = node.inputs
            printer.define(out, printer.as_dtype(source, DTYPES[out.type]))
        elif op == "num.select":
            condition = self.truth(node.inputs[0])
            a, b = (printer.as_type(v, out.type) for v in node.inputs[1:])
            printer.define(out, *[condition.where(x, y) for x, y in zip(a, b, strict=True)])
        else:
            self.compute(step)

    def constant(self, value: Any) -> tuple[V, ...]:
        code = self.printer.code
        if isinstance(value, bool):
            return (code.const(value, "i1", 1),)
        return (code.const(value, "i64" if isinstance(value, int) else "double", 1),)

    def truth(self, value: Value) -> V:
        """`bool(value)`."""
        parts = self.printer.parts(value)
        if value.type == BOOL:
            return parts[0]
        if value.type == NUMBER:
            return parts[0].eq(KIND_FLOAT).where(parts[1].cast("bitcast", "double").ne(0.0), parts[1].ne(0))
        return parts[0].ne(0)

    def compute(self, step: NumberStep) -> None:
        """An operation; checked, with Python as the slow path."""
        node, printer = step.node, self.printer
        out = node.outputs[0]
        if step.site >= 0 and printer.quick and len(part_types(out.type)) == 1 and self.out_of_line(step):
            return
        result, good = self.operation(node.op, node.inputs, node.attrs, out.type)
        if step.site < 0 or good is None:
            printer.define(out, *result)
            return
        names = [printer.variable(v.type) for v in result]
        for name, v in zip(names, result, strict=True):
            printer.code.write(v, name)
        slow, fine = printer.label("slow"), printer.label("go")
        printer.line(f"br i1 {good.name}, label %{fine}, label %{slow}")
        printer.start(slow)
        printer.pass_values(node.inputs)
        printer.call_python(step.site, step.leaving)
        for j, (name, v) in enumerate(zip(names, result, strict=True)):
            printer.code.write(printer.load_word(printer.layout.payload + j, v.elem), name)
        printer.line(f"br label %{fine}")
        printer.start(fine)
        printer.define(out, *[printer.code.read(v.elem, n) for n, v in zip(names, result, strict=True)])

    def out_of_line(self, step: NumberStep) -> bool:
        """A checked operation as a call of a function that all equal ones share; False where nothing is checked.

        For programs that run their steps once: the slow path would be most of their text.
        """
        node, printer = step.node, self.printer
        out = node.outputs[0]
        key = ("number", node.op, tuple(sorted(node.attrs.items())), tuple(v.type for v in node.inputs))
        if key not in printer.module.helpers:
            printer.module.helpers[key] = self.helper(step, f"jg_number{len(printer.module.helpers)}")
        name = printer.module.helpers[key]
        if not name:
            return False
        given = [v for value in node.inputs for v in printer.parts(value)]
        (kind,) = part_types(out.type)
        place = printer.variable(kind)
        arguments = "".join(f", {v.type} {v.name}" for v in given)
        good = printer.code.emit(f"call i1 @{name}(ptr %block, i64 {step.site}{arguments}, ptr {place})", "i1", 1)
        printer.leave_unless(good, RAISED, step.leaving)
        printer.define(out, printer.code.read(kind, place))
        return True

    def helper(self, step: NumberStep, name: str) -> str:
        """The function: computes, or lets Python compute; false where that raised."""
        node, printer = step.node, self.printer
        around, printer.code = printer.code, Code()
        inputs: list[Value] = []
        parameters: list[str] = []
        for value in node.inputs:
            stand_in = Value(value.type)
            inputs.append(stand_in)
            parts = []
            for kind in part_types(value.type):
                parts.append(V(printer.code, f"%a{len(parameters)}", kind, 1))
                parameters.append(f"{kind} {parts[-1].name}")
            printer.values[stand_in] = tuple(parts)
        (result,), good = self.operation(node.op, tuple(inputs), node.attrs, node.outputs[0].type)
        if good is None:
            printer.code = around
            return ""
        printer.code.write(result, "%out")
        printer.line(f"br i1 {good.name}, label %fine, label %slow")
        printer.start("slow")
        printer.pass_values(inputs)
        printer.module.declares["jg_callback"] = "declare i64 @jg_callback(ptr, i64)"
        printer.module.externals.add("jg_callback")
        status = printer.code.emit("call i64 @jg_callback(ptr %block, i64 %site)", "i64", 1)
        printer.line(f"br i1 {status.eq(1).name}, label %take, label %bad")
        printer.start("take")
        printer.code.write(printer.load_word(printer.layout.payload, result.elem), "%out")
        printer.line("br label %fine")
        printer.start("fine")
        printer.line("ret i1 true")
        printer.start("bad")
        printer.line("ret i1 false")
        head = ", ".join(["ptr %block", "i64 %site", *parameters, "ptr %out"])
        code, printer.code = printer.code, around
        printer.module.declares.update(code.declares)
        printer.module.externals |= code.externals
        printer.module.functions.append("\n".join(
            [f"define internal i1 @{name}({head}) nounwind noinline optnone {{", "entry:", *code.lines, "}"]))
        return name

    def operation(self, op: str, inputs: tuple[Value, ...], attrs: Any, type_: Type) -> tuple[tuple[V, ...], V | None]:
        """The registers of a result, and where they are certainly right (None: everywhere)."""
        types = [v.type for v in inputs]
        parts = [self.printer.parts(v) for v in inputs]
        if op == "num.cast":
            return self.cast(inputs[0], attrs["to"])
        if op == "num.not":
            return (~self.truth(inputs[0]),), None
        if is_exact(op, attrs):  # Python computes it
            return self.constant(0.0 if type_ == FLOAT else 0), self.printer.code.const(False, "i1", 1)
        if op == "num.math":
            result, good = self.math(attrs["fn"], [as_float(p, t) for p, t in zip(parts, types, strict=True)],
                                     types[0] in (INT, BOOL), parts[0])
            return (result,), good
        if family(op) == "bitwise" or op == "num.invert":
            return self.bitwise(op, parts, types, type_)
        if NUMBER in types and op != "num.truediv":
            return self.dynamic(op, parts, types, type_)
        if FLOAT in types or op == "num.truediv":
            result, good = self.floats(op, [as_float(p, t) for p, t in zip(parts, types, strict=True)])
            if op == "num.truediv":
                good = self.exact_quotient(good, parts, types)
            return (result,), good
        result, good = self.ints(op, [as_int(p, t) for p, t in zip(parts, types, strict=True)])
        return (result,), good

    def exact_quotient(self, good: V | None, parts: list[tuple[V, ...]], types: list[Type]) -> V | None:
        """Large ints do not fit a double: Python divides those."""
        for p, t in zip(parts, types, strict=True):
            if t in (INT, NUMBER):
                small = (as_int(p, t) + _EXACT_INTS).compare("ule", 2 * _EXACT_INTS)
                if t == NUMBER:
                    small = small | p[0].eq(KIND_FLOAT)
                good = small if good is None else good & small
        return good

    def dynamic(self, op: str, parts: list[tuple[V, ...]], types: list[Type],
                type_: Type) -> tuple[tuple[V, ...], V | None]:
        """Both kinds are computed, the kind chooses."""
        is_float: V | None = None
        for p, t in zip(parts, types, strict=True):
            this = p[0].eq(KIND_FLOAT) if t == NUMBER else self.printer.code.const(t == FLOAT, "i1", 1)
            is_float = this if is_float is None else is_float | this
        assert is_float is not None
        f, good_f = self.floats(op, [as_float(p, t) for p, t in zip(parts, types, strict=True)])
        i, good_i = self.ints(op, [as_int(p, t) if t != FLOAT else self.printer.const(0)
                                   for p, t in zip(parts, types, strict=True)])
        good: V | None = None
        if good_f is not None or good_i is not None:
            yes = self.printer.code.const(True, "i1", 1)
            good = is_float.where(good_f or yes, good_i or yes)
        if type_ == BOOL:
            return (is_float.where(f, i),), good
        bits = is_float.where(f.cast("bitcast", "i64"), i)
        kind = is_float.where(self.printer.const(KIND_FLOAT), self.printer.const(KIND_INT))
        if type_ == FLOAT:
            return (f,), good
        if type_ == INT:
            return (i,), good
        if op in ("num.min", "num.max"):  # the operand itself, with its kind
            first = as_type(parts[0], types[0], NUMBER)
            second = as_type(parts[1], types[1], NUMBER)
            a, b = (as_float(p, t) for p, t in zip(parts, types, strict=True))
            x, y = (as_int(p, t) for p, t in zip(parts, types, strict=True))
            take = is_float.where(b < a, y < x) if op == "num.min" else is_float.where(b > a, y > x)
            return tuple(take.where(s, r) for r, s in zip(first, second, strict=True)), good
        return (kind, bits), good

    # --- kinds ---

    def ints(self, op: str, args: list[V]) -> Checked:
        a, b = args[0], args[-1]
        code = self.printer.code
        if family(op) == "comparison":
            return a.compare(op[4:] if op in ("num.eq", "num.ne") else f"s{op[4:]}", b), None
        if op in ("num.floordiv", "num.mod"):
            row = EMIT["floor_divide" if op == "num.floordiv" else "remainder"]
            return row([a, b], dtypes.int64, dtypes.int64, 0), b.ne(0) & (a.ne(_LOWEST) | b.ne(-1))
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
        pair = code.emit(f"call {{i64, i1}} @{name}(i64 {a.name}, i64 {b.name})", "pair", 1).name
        value = code.emit(f"extractvalue {{i64, i1}} {pair}, 0", "i64", 1)
        return value, ~code.emit(f"extractvalue {{i64, i1}} {pair}, 1", "i1", 1)

    def floats(self, op: str, args: list[V]) -> Checked:
        a, b = args[0], args[-1]
        if family(op) == "comparison":
            return a.compare("une" if op == "num.ne" else f"o{op[4:]}", b), None
        if family(op) == "arithmetic":
            simple = {"num.add": a.__add__, "num.sub": a.__sub__, "num.mul": a.__mul__}.get(op)
            if simple is not None:
                return simple(b), None
            if op == "num.truediv":
                return a / b, b.ne(0.0)
            if op in ("num.min", "num.max"):
                return (b < a if op == "num.min" else b > a).where(b, a), None
            if op == "num.pow":
                result = self.call("pow", [a, b])
                return result, self.finite(result)
            return self.float_division(op, a, b), b.ne(0.0)
        return (-a if op == "num.neg" else a.abs()), None

    def float_division(self, op: str, a: V, b: V) -> V:
        """CPython's `float_divmod`."""
        r = self.call("fmod", [a, b])
        other_sign = r.ne(0.0) & (r < 0).ne(b < 0)
        if op == "num.mod":
            zero = self.printer.code.const(0.0, "double", 1).copysign(b)
            return r.eq(0.0).where(zero, other_sign.where(r + b, r))
        quotient = (a - r) / b
        quotient = other_sign.where(quotient - 1.0, quotient)
        lower = quotient.intrinsic("floor")
        lower = ((quotient - lower) > 0.5).where(lower + 1.0, lower)
        exact = a / b
        zero = self.printer.code.const(0.0, "double", 1).copysign(exact)
        return b.eq(0.0).where(exact, quotient.eq(0.0).where(zero, lower))

    def finite(self, v: V) -> V:
        return v.abs().compare("olt", float("inf"))

    def bitwise(self, op: str, parts: list[tuple[V, ...]], types: list[Type],
                type_: Type) -> tuple[tuple[V, ...], V | None]:
        if type_ == BOOL:
            a, b = parts[0][0], parts[1][0]
            return ((a & b if op == "num.and" else a | b if op == "num.or" else a ^ b),), None
        args = [as_int(p, t) for p, t in zip(parts, types, strict=True)]
        a, b = args[0], args[-1]
        if op == "num.invert":
            return (~a,), None
        if op == "num.rshift":
            clamped = b.compare("ugt", 63).where(63, b)
            return ((b < 0).where(0, a.ashr(clamped)),), b >= 0
        if op == "num.lshift":
            inside = b.compare("ult", 64)
            shift = inside.where(b, 0)
            value = a.shl(shift)
            return (inside.where(value, 0),), inside & value.ashr(shift).eq(a)
        return ((a & b if op == "num.and" else a | b if op == "num.or" else a ^ b),), None

    def cast(self, value: Value, to: str) -> tuple[tuple[V, ...], V | None]:
        parts, type_ = self.printer.parts(value), value.type
        if to == "number":
            return as_type(parts, type_, NUMBER), None
        if to == "bool":
            return (self.truth(value),), None
        if to == "float":
            return (as_float(parts, type_),), None
        if type_ in (BOOL, INT):
            return (as_int(parts, type_),), None
        x = as_float(parts, type_)
        result, good = self.to_int(x)
        if type_ == NUMBER:
            is_float = parts[0].eq(KIND_FLOAT)
            return (is_float.where(result, parts[1]),), ~is_float | good
        return (result,), good

    def to_int(self, x: V) -> tuple[V, V]:
        """A float towards zero, saturating, NaN as 0; and where nothing was lost."""
        return self.printer.code.call("llvm.fptosi.sat.i64.f64", "i64", 1, x), x.abs().compare("olt", 9.2e18)

    def math(self, fn: str, args: list[V], is_int: bool, raw: tuple[V, ...]) -> Checked:
        x, row = args[0], FUNCTIONS[fn]
        if row.result == INT:
            if is_int:
                return (raw[0].cast("zext", "i64") if raw[0].elem == "i1" else raw[0]), None
            return self.to_int(x.intrinsic("roundeven" if fn == "round" else fn))
        if row.result == BOOL:
            if fn == "isnan":
                return x.isnan(), None
            return (x.abs().eq(float("inf")) if fn == "isinf" else self.finite(x)), None
        if fn in ("degrees", "radians"):
            return x * (57.29577951308232 if fn == "degrees" else 0.017453292519943295), None
        if fn == "copysign":
            return x.copysign(args[1]), None
        result = self.call(row.c, args) if row.c else x.intrinsic(fn)
        return result, self.finite(result)

    def call(self, name: str, args: list[V]) -> V:
        """A function of the C library, as Python's math module uses it."""
        return self.printer.code.call(name, "double", 1, *args)
