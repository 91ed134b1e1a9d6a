"""The scalar primitives of the op table as LLVM instructions: EMIT[name](values, operand dtypes, result dtype, attr).

Values are in *computing* types: bool is i1, half types are computed in float, the rest as stored; bfloat16, for which
few machines have instructions, is stored by integer arithmetic. A row works for one lane and for many. Transcendental
functions are calls into the run-time library (`kernels/runtime.py`).
"""

import math
import operator
from collections.abc import Callable

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.program.kernel import RANDOM_WORD
from jitgrad.dtypes import dtype
from jitgrad.kernels.functions import symbol_of
from jitgrad.kernels.math import math32, math64_special
from jitgrad.kernels.values import BITS, Number, V, mangle
from jitgrad.ops import OPS

STORED = {"bool": "i8", "uint8": "i8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
          "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}
COMPUTED = {**STORED, "bool": "i1", "float16": "float", "bfloat16": "float"}

Row = Callable[[list[V], dtype, dtype, Number], V]


def widen(value: V, d: dtype) -> V:
    """A value as stored in memory, in its computing type."""
    if d is dtypes.bool_:
        return value.ne(0)
    if d is dtypes.bfloat16:
        return value.cast("zext", "i32").shl(16).cast("bitcast", "float")
    return value.cast("fpext", "float") if d is dtypes.float16 else value


def narrow(value: V, d: dtype) -> V:
    """A value in computing type, as stored in memory."""
    if d is dtypes.bool_:
        return value.cast("zext", "i8")
    if d is dtypes.bfloat16:
        return _upper_half(value)
    return value.cast("fptrunc", "half") if d is dtypes.float16 else value


def _upper_half(value: V) -> V:
    """float32 as bfloat16's bits, rounded to the nearest, ties to even; every NaN is the quiet one."""
    bits = value.bits()
    nearest = (bits + 0x7FFF + (bits.lshr(16) & 1)).lshr(16)
    return value.isnan().where(0x7FC0, nearest).cast("trunc", "i16")


def bits_as(value: V, source: dtype, target: dtype) -> V:
    """The bits of a number of dtype `source` as one of `target`, which is as large."""
    stored = value.bits().lshr(16).cast("trunc", "i16") if source is dtypes.bfloat16 else narrow(value, source)
    elem = STORED[target.name]
    return widen(stored if stored.elem == elem else stored.cast("bitcast", elem), target)


def convert(value: V, source: dtype, target: dtype) -> V:
    """`value` of dtype `source` as `target`: floats to ints truncate, ints wrap."""
    if source is target:
        return value
    if target is dtypes.bool_:
        return value.ne(0)
    if target.is_floating_point:
        if source is dtypes.float64 and target is dtypes.float16:
            value = _round_to_odd(value)
        elif source.is_floating_point:
            value = _resize_float(value, COMPUTED[target.name])
        else:
            instruction = "sitofp" if source.is_signed else "uitofp"
            value = value.cast(instruction, COMPUTED[target.name])
        return widen(narrow(value, target), target) if target.is_half else value
    elem = COMPUTED[target.name]
    if source.is_floating_point:
        return _float_to_int(value, target)
    if BITS[value.elem] > BITS[elem]:
        return value.cast("trunc", elem)
    if BITS[value.elem] == BITS[elem]:
        return value
    return value.cast("sext" if source.is_signed else "zext", elem)


def _resize_float(value: V, elem: str) -> V:
    if value.elem == elem:
        return value
    return value.cast("fpext" if BITS[elem] > BITS[value.elem] else "fptrunc", elem)


def _round_to_odd(value: V) -> V:
    """float64 as float32 such that rounding it further, to float16, gives what one rounding would."""
    rounded = value.cast("fptrunc", "float")
    back = rounded.cast("fpext", "double")
    bits = rounded.bits()
    bits = (back.abs() > value.abs()).where(bits - 1, bits)
    return (bits | back.ne(value).cast("zext", "i32")).cast("bitcast", "float")


def _float_to_int(value: V, target: dtype) -> V:
    """Towards zero; narrower types through int32 with wrap-around.

    What does not fit, NaN too, becomes what the machine's own instruction gives, so that results are NumPy's: the
    lowest integer on x86, elsewhere the nearest one or 0.
    """
    from jitgrad.codegen.llvm.engine import host

    elem = COMPUTED[target.name]
    wide = "i64" if target is dtypes.int64 else "i32"
    name = f"llvm.fptosi.sat.{mangle(wide, value.lanes)}.{mangle(value.elem, value.lanes)}"
    result = value.code.call(name, wide, value.lanes, value)
    if host().triple.startswith(("x86", "i686", "amd64")):
        result = (value < 2.0 ** (BITS[wide] - 1)).where(result, -(1 << (BITS[wide] - 1)))
    return result if wide == elem else result.cast("trunc", elem)


# --- arithmetic ---

def keep_nan_extremum(a: V, b: V, greater: bool, signed: bool = True) -> V:
    """max (or min) of a and b; NaN if either is."""
    if a.is_float:
        if b.is_number:  # one comparison says both, and is one instruction with the choice where b is not zero
            return a.compare("ugt" if greater else "ult", b).where(a, b)
        return ((a > b if greater else a < b) | a.isnan()).where(a, b)
    return a.compare(("s" if signed else "u") + ("gt" if greater else "lt"), b).where(a, b)


def _rounding(name: str) -> Row:
    return lambda xs, s, d, attr: xs[0].intrinsic(name) if xs[0].is_float else xs[0]


def _safe_divisor(a: V, b: V, s: dtype) -> tuple[V, V]:
    """b with 0 and the overflowing -1 replaced by 1, and where it was 0: integer division must not trap."""
    zero = b.eq(0)
    bad = zero
    if s.is_signed:
        bad = zero | (b.eq(-1) & a.eq(-(1 << (BITS[a.elem] - 1))))
    return bad.where(1, b), zero


def _fmod(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    a, b = xs
    if a.is_float:
        return library("fmod", [a, b])
    b, zero = _safe_divisor(a, b, s)
    return zero.where(0, a.op("srem" if s.is_signed else "urem", b))


def _remainder(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    """Sign of the divisor, as Python's `%`."""
    a, b = xs
    if a.is_float:
        r = library("fmod", [a, b])
        return (r.ne(0) & (r < 0).ne(b < 0)).where(r + b, r)
    b, zero = _safe_divisor(a, b, s)
    if not s.is_signed:
        return zero.where(0, a.op("urem", b))
    r = a.op("srem", b)
    return zero.where(0, (r.ne(0) & ((r ^ b) < 0)).where(r + b, r))


def _floor_divide(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    """Rounds down; for floats as torch: (a - remainder(a, b)) / b, corrected to the nearest integer."""
    a, b = xs
    if a.is_float:
        r = library("fmod", [a, b])
        quotient = (a - r) / b
        quotient = (r.ne(0) & (r < 0).ne(b < 0)).where(quotient - 1.0, quotient)
        lower = quotient.intrinsic("floor")
        rounded = ((quotient - lower) > 0.5).where(lower + 1.0, lower)
        exact = a / b
        rounded = quotient.eq(0).where(a.code.const(0.0, a.elem, a.lanes).copysign(exact), rounded)
        return b.eq(0).where(exact, rounded)
    b, zero = _safe_divisor(a, b, s)
    if not s.is_signed:
        return zero.where(0, a.op("udiv", b))
    q, r = a.op("sdiv", b), a.op("srem", b)
    return zero.where(0, (r.ne(0) & ((r ^ b) < 0)).where(q - 1, q))


def _pow(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    if xs[0].is_float:
        return library("pow", xs)
    elem = xs[0].elem  # in int64: powers wrap alike
    if elem != "i64":
        xs = [x.cast("sext" if s.is_signed else "zext", "i64") for x in xs]
    power = library("ipow", xs)
    return power if elem == "i64" else power.cast("trunc", elem)


def _sign(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    x = xs[0]
    if s is dtypes.bool_:
        return x
    if x.is_float:
        one = x.code.const(1.0, x.elem, x.lanes)
        return (x.eq(0) | x.isnan()).where(0.0, one.copysign(x))
    if not s.is_signed:
        return x.ne(0).cast("zext", x.elem)
    return (x > 0).cast("zext", x.elem) - (x < 0).cast("zext", x.elem)


# --- comparison, logic, bits ---

def _comparison(float_predicate: str, predicate: str) -> Row:
    def row(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
        a, b = xs
        if a.is_float or predicate in ("eq", "ne"):
            return a.compare(float_predicate if a.is_float else predicate, b)
        return a.compare(("s" if s.is_signed else "u") + predicate, b)
    return row


def _logical(method: Callable[[V, V], V]) -> Row:
    return lambda xs, s, d, attr: method(*[x if x.elem == "i1" else x.ne(0) for x in xs])


def _left_shift(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    a, b = xs
    inside = b.compare("ult", BITS[a.elem])
    return inside.where(a.shl(inside.where(b, 0)), 0)


def _right_shift(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    a, b = xs
    bits = BITS[a.elem]
    inside = b.compare("ult", bits)
    if s.is_signed:
        return a.ashr(inside.where(b, bits - 1))
    return inside.where(a.lshr(inside.where(b, 0)), 0)


# --- the run-time library ---

#: functions short enough to stand in the kernel: in vectors they save the call and its spilled registers
INLINE: dict[str, Callable[[V], V]] = {"exp": math32.exp, "tanh": math32.tanh}


def library(name: str, xs: list[V]) -> V:
    """A math function: in place, or a call into the run-time library (float64 at 32-bit lanes is two calls)."""
    from jitgrad.codegen.llvm.engine import host

    x = xs[0]
    if name in INLINE and x.elem == "float" and x.lanes > 1:
        return INLINE[name](x)
    widest = host().vector_bytes * 8 // BITS[x.elem]
    if x.lanes > widest:
        return library(name, [v.half(0) for v in xs]).concat(library(name, [v.half(1) for v in xs]))
    if 1 < x.lanes < widest:
        return library(name, [v.concat(v) for v in xs]).half(0)
    return x.code.call(symbol_of(name, x.elem, x.lanes), x.elem, x.lanes, *xs)


def _library(name: str) -> Row:
    return lambda xs, s, d, attr: library(name, xs)


def _polygamma(xs: list[V], s: dtype, d: dtype, attr: Number) -> V:
    """In place and in float64: the order is part of the code."""
    x, n = xs[0], int(attr)
    if n == 0:
        return library("digamma", xs)
    value = math64_special.polygamma(_resize_float(x, "double"), n)
    return _resize_float(value, x.elem)


EMIT: dict[str, Row] = {
    "add": lambda xs, s, d, a: xs[0] | xs[1] if s is dtypes.bool_ else xs[0] + xs[1],
    "sub": lambda xs, s, d, a: xs[0] - xs[1],
    "mul": lambda xs, s, d, a: xs[0] & xs[1] if s is dtypes.bool_ else xs[0] * xs[1],
    "div": lambda xs, s, d, a: xs[0] / xs[1],
    "neg": lambda xs, s, d, a: -xs[0],
    "abs": lambda xs, s, d, a: xs[0].abs() if s.is_signed else xs[0],
    "minimum": lambda xs, s, d, a: keep_nan_extremum(xs[0], xs[1], False, s.is_signed),
    "maximum": lambda xs, s, d, a: keep_nan_extremum(xs[0], xs[1], True, s.is_signed),
    "fmod": _fmod, "remainder": _remainder, "floor_divide": _floor_divide,
    "floor": _rounding("floor"), "ceil": _rounding("ceil"), "round": _rounding("roundeven"),
    "trunc": _rounding("trunc"), "pow": _pow, "sign": _sign, "polygamma": _polygamma,
    "sqrt": lambda xs, s, d, a: xs[0].intrinsic("sqrt"),
    "rsqrt": lambda xs, s, d, a: 1.0 / xs[0].intrinsic("sqrt"),
    "fma": lambda xs, s, d, a: xs[0].fma(xs[1], xs[2]) if xs[0].is_float else xs[0] * xs[1] + xs[2],
    "where": lambda xs, s, d, a: xs[0].where(xs[1], xs[2]),
    "eq": _comparison("oeq", "eq"), "ne": _comparison("une", "ne"), "lt": _comparison("olt", "lt"),
    "le": _comparison("ole", "le"), "gt": _comparison("ogt", "gt"), "ge": _comparison("oge", "ge"),
    "logical_and": _logical(operator.and_), "logical_or": _logical(operator.or_), "logical_xor": _logical(operator.xor),
    "logical_not": lambda xs, s, d, a: ~xs[0] if xs[0].elem == "i1" else xs[0].eq(0),
    "bitwise_and": lambda xs, s, d, a: xs[0] & xs[1], "bitwise_or": lambda xs, s, d, a: xs[0] | xs[1],
    "bitwise_xor": lambda xs, s, d, a: xs[0] ^ xs[1], "bitwise_not": lambda xs, s, d, a: ~xs[0],
    "bitwise_left_shift": _left_shift, "bitwise_right_shift": _right_shift,
    "cast": lambda xs, s, d, a: convert(xs[0], s, d), "contiguous": lambda xs, s, d, a: xs[0],
    "bitcast": lambda xs, s, d, a: bits_as(xs[0], s, d),
    **{name: _library(name) for name, op in OPS.items() if "elementary" in op.traits},
    RANDOM_WORD: _library("philox"),
}


# --- reductions ---

@dataclass(frozen=True, slots=True)
class Fold:
    """How a reduction starts, and how it joins two parts of one dtype."""

    identity: Callable[[dtype], Number]
    combine: Callable[[V, V, dtype], V]


def _extremum(greater: bool) -> Fold:
    """The largest or smallest; NaN if there is one."""
    def identity(d: dtype) -> Number:
        if d.is_floating_point:
            return -math.inf if greater else math.inf
        if d is dtypes.bool_:
            return not greater
        bits = 8 * d.itemsize - d.is_signed
        return (-(1 << bits) if d.is_signed else 0) if greater else (1 << bits) - 1

    def combine(a: V, b: V, d: dtype) -> V:
        if d is dtypes.bool_:
            return a | b if greater else a & b
        return keep_nan_extremum(a, b, greater, d.is_signed)

    return Fold(identity, combine)


_MAX, _MIN = _extremum(greater=True), _extremum(greater=False)
_SUM = Fold(lambda d: 0, lambda a, b, d: a | b if d is dtypes.bool_ else a + b)
#: by the rows' `fold`, and what lowering makes of these; argmax and argmin compare with `better`
FOLDS: dict[str, Fold] = {
    "sum": _SUM, "dot": _SUM, "prod": Fold(lambda d: 1, lambda a, b, d: a & b if d is dtypes.bool_ else a * b),
    "any": Fold(lambda d: 0, lambda a, b, d: a | b), "all": Fold(lambda d: 1, lambda a, b, d: a & b),
    "max": _MAX, "argmax": _MAX, "min": _MIN, "argmin": _MIN,
    "fastmax": Fold(_MAX.identity, lambda a, b, d: (a > b if d.is_signed else a.compare("ugt", b)).where(a, b)),
}


def better(fn: str, value: V, index: V, best: V, best_index: V, d: dtype) -> V:
    """Whether (value, index) beats the best of argmax/argmin: NaN is the extremum, ties go to the lower index."""
    sign = "s" if d.is_signed else "u"
    ahead = index.compare("slt", best_index)
    if value.is_float:
        strict = value > best if fn == "argmax" else value < best
        nan, best_nan = value.isnan(), best.isnan()
        return strict | (nan & ~best_nan) | ((value.eq(best) | (nan & best_nan)) & ahead)
    strict = value.compare(sign + ("gt" if fn == "argmax" else "lt"), best)
    return strict | (value.eq(best) & ahead)


def merged(fn: str, d: dtype, a: list[V], b: list[V]) -> list[V]:
    """Two accumulators of a reduction as one. Those of argmax and argmin are a value and its place."""
    if len(a) == 2:
        take = better(fn, b[0], b[1], a[0], a[1], d)
        return [take.where(b[0], a[0]), take.where(b[1], a[1])]
    return [FOLDS[fn].combine(a[0], b[0], d if fn not in ("any", "all") else dtypes.bool_)]


def elements(fn: str, d: dtype) -> list[str]:
    """The element types of an accumulator of values of a dtype."""
    if fn in ("any", "all"):
        return ["i1"]
    return [COMPUTED[d.name], "i64"] if fn in ("argmax", "argmin") else [COMPUTED[d.name]]
