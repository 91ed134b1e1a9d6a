"""The scalar primitives of the op table as CUDA C++ expressions: `EXPRESSIONS[name](operands, source, result, attr)`.

Values are in computing types: bool is bool, half types are computed in float, the rest as stored. Operands are atoms
(names or literals), so that no row needs to think about precedence.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jitgrad.classes import dataclass
from jitgrad.dtypes import dtype
from jitgrad.ops import OPS

Row = Callable[[Sequence[str], dtype, dtype, "bool | int | float"], str]

STORED: Mapping[str, str] = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "i64",
    "float16": "jg_half", "bfloat16": "jg_bfloat", "float32": "float", "float64": "double",
}
COMPUTED: Mapping[str, str] = {**STORED, "float16": "float", "bfloat16": "float"}


_NARROW = {"float16": "jg_narrow", "bfloat16": "jg_narrow_bfloat"}


def literal(value: bool | int | float, d: dtype) -> str:
    """A constant in the computing type of `d`."""
    kind = COMPUTED[d.name]
    if kind == "bool":
        return "true" if value else "false"
    if not d.is_floating_point:
        value = int(value)
        if kind == "i64":
            lowest, text = "(i64)0x8000000000000000ULL", f"{value}LL"
        else:
            lowest, text = "(int)0x80000000u", str(value)
        if kind in ("i64", "int"):
            return lowest if value == -(1 << (8 * d.itemsize - 1)) else text if value >= 0 else f"({text})"
        return f"({kind})({value})"
    number = float(value)
    if math.isnan(number):
        return f"({kind})JG_NAN"
    if math.isinf(number):
        return f"({kind})JG_INF" if number > 0 else f"(-({kind})JG_INF)"
    text = f"{np.float32(number)!s}f" if kind == "float" else repr(number)  # the shortest that reads back the same
    return text if math.copysign(1.0, number) > 0 else f"({text})"


def widen(text: str, d: dtype) -> str:
    """A value as stored in memory, in its computing type."""
    return f"jg_widen({text})" if d.is_half else text


def narrow(text: str, d: dtype) -> str:
    """A value in computing type, as stored in memory."""
    return f"{_NARROW[d.name]}({text})" if d.is_half else text


def convert(text: str, source: dtype, target: dtype) -> str:
    """`text` of dtype `source` as `target`: floats to ints truncate, ints wrap."""
    if source is target:
        return text
    kind = COMPUTED[target.name]
    if kind == "bool":
        return f"({text} != {literal(0, source)})"
    if target.is_half:
        odd = source.name == "float64" and target.name == "float16"  # to bfloat16 it is rounded twice, as in torch
        single = f"jg_to_odd({text})" if odd else f"(float)({text})"
        return f"jg_round_bfloat({single})" if target.name == "bfloat16" else widen(narrow(single, target), target)
    if target.is_floating_point or not source.is_floating_point:
        return f"({kind})({text})"
    if kind == "i64":
        return f"jg_to_i64((double)({text}))"
    whole = f"jg_to_i32((double)({text}))"
    return whole if kind == "int" else f"({kind})({whole})"


def _infix(symbol: str, of_bools: str = "") -> Row:
    def row(xs: Sequence[str], s: dtype, d: dtype, attr: bool | int | float) -> str:
        sign = of_bools if of_bools and s.name == "bool" else symbol
        return f"({COMPUTED[d.name]})({f' {sign} '.join(xs)})" if s.itemsize < 4 else f"({f' {sign} '.join(xs)})"
    return row


@dataclass(frozen=True)
class Comparison:
    """The row of a comparison, by its sign."""

    sign: str

    def __call__(self, xs: Sequence[str], s: dtype, d: dtype, attr: bool | int | float) -> str:
        return f"({xs[0]} {self.sign} {xs[1]})"


def _logical(symbol: str) -> Row:
    def row(xs: Sequence[str], s: dtype, d: dtype, attr: bool | int | float) -> str:
        a, b = (x if s.name == "bool" else f"({x} != {literal(0, s)})" for x in xs)
        return f"({a} {symbol} {b})"
    return row


def _call(name: str, xs: Sequence[str], s: dtype) -> str:
    """A function of CUDA's math library: `expf` for float, `exp` for double."""
    return f"{name}{'' if s.name == 'float64' else 'f'}({', '.join(xs)})"


def _math(name: str) -> Row:
    return lambda xs, s, d, attr: _call(name, xs, s)


def _by_kind(of_floats: str, of_ints: str) -> Row:
    return lambda xs, s, d, attr: f"{of_floats if s.is_floating_point else of_ints}({', '.join(xs)})"


def _rounding(name: str) -> Row:
    return lambda xs, s, d, attr: _call(name, xs, s) if s.is_floating_point else xs[0]


def _in_double(name: str) -> Row:
    """Computed in float64, whatever the dtype."""
    return lambda xs, s, d, attr: f"({COMPUTED[d.name]}){name}((double){xs[0]})"


def _abs(xs: Sequence[str], s: dtype, d: dtype, attr: bool | int | float) -> str:
    if s.is_floating_point:
        return _call("fabs", xs, s)
    return f"({COMPUTED[d.name]})({xs[0]} < 0 ? -{xs[0]} : {xs[0]})" if s.is_signed else xs[0]


EXPRESSIONS: Mapping[str, Row] = {
    **{name: _math(name) for name, op in OPS.items() if "elementary" in op.traits},
    "add": _infix("+", "|"), "sub": _infix("-"), "mul": _infix("*", "&"), "div": _infix("/"), "abs": _abs,
    "neg": lambda xs, s, d, a: f"({COMPUTED[d.name]})(-{xs[0]})",
    "maximum": lambda xs, s, d, a: f"jg_max({xs[0]}, {xs[1]})",
    "minimum": lambda xs, s, d, a: f"jg_min({xs[0]}, {xs[1]})",
    "fmod": _by_kind("jg_fmod", "jg_ifmod"), "remainder": _by_kind("jg_fremainder", "jg_iremainder"),
    "floor_divide": _by_kind("jg_ffloor_divide", "jg_ifloor_divide"),
    "floor": _rounding("floor"), "ceil": _rounding("ceil"), "round": _rounding("rint"), "trunc": _rounding("trunc"),
    "pow": lambda xs, s, d, a: (_call("pow", xs, s) if s.is_floating_point
                                else f"({COMPUTED[d.name]})jg_ipow((i64){xs[0]}, (i64){xs[1]})"),
    "rsqrt": lambda xs, s, d, a: f"({literal(1, s)} / {_call('sqrt', xs, s)})",
    "sign": lambda xs, s, d, a: (
        xs[0] if s.name == "bool" else f"{'jg_fsign' if s.is_floating_point else 'jg_sign'}({xs[0]})"),
    "fma": lambda xs, s, d, a: (_call("fma", xs, s) if s.is_floating_point
                                else f"({COMPUTED[d.name]})({xs[0]} * {xs[1]} + {xs[2]})"),
    "where": lambda xs, s, d, a: f"({xs[0]} ? {xs[1]} : {xs[2]})",
    "eq": Comparison("=="), "ne": Comparison("!="), "lt": Comparison("<"), "le": Comparison("<="),
    "gt": Comparison(">"), "ge": Comparison(">="),
    "logical_and": _logical("&&"), "logical_or": _logical("||"), "logical_xor": _logical("!="),
    "logical_not": lambda xs, s, d, a: f"({xs[0]} == {literal(0, s)})",
    "bitwise_and": _infix("&"), "bitwise_or": _infix("|"), "bitwise_xor": _infix("^"),
    "bitwise_not": lambda xs, s, d, a: f"!{xs[0]}" if s.name == "bool" else f"({COMPUTED[d.name]})(~{xs[0]})",
    "bitwise_left_shift": lambda xs, s, d, a: f"jg_shl({xs[0]}, {xs[1]})",
    "bitwise_right_shift": lambda xs, s, d, a: f"jg_shr({xs[0]}, {xs[1]})",
    "cast": lambda xs, s, d, a: convert(xs[0], s, d), "contiguous": lambda xs, s, d, a: xs[0],
    "bitcast": lambda xs, s, d, a: (f"({xs[0]} != 0)" if d.name == "bool" else
                                    widen(f"jg_bits_as<{STORED[d.name]}>({narrow(xs[0], s)})", d)),
    "erf": lambda xs, s, d, a: f"jg_erf({xs[0]})",
    "digamma": _in_double("jg_digamma"), "sqrt": _math("sqrt"),
    "polygamma": lambda xs, s, d, a: f"({COMPUTED[d.name]})jg_polygamma({int(a)}, (double){xs[0]})",
    "random.word": lambda xs, s, d, a: f"jg_philox({', '.join(xs)})",
}
