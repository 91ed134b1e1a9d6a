"""The run-time library: the math functions that kernels call, and a check of arrays, as the text of one LLVM module.

For each function and float type there is a vector form at the machine's full width (`jg_exp_v16f32`) and a scalar form
(`jg_exp_f32`), which is a lane of the vector form, so that a value does not depend on where it is computed. It is
compiled once per machine and version and kept in the disk cache (`codegen/llvm/engine.py`).
"""

from functools import partial

from jitgrad.kernels import arrays
from jitgrad.kernels.functions import Function, binary64, symbol_of, unary32, unary64
from jitgrad.kernels.math import math32, math64, math64_special
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V, mangle
from jitgrad.random import MASK32, MULTIPLIERS, ROUNDS, WEYL

CIRCULAR = ("sin", "cos", "tan")
#: functions of float32 that are the float64 function, rounded
THROUGH64 = tuple(name for name in (*unary64, *binary64, "tan", "fmod") if name not in unary32)


def on_lanes(name: str, elem: str) -> Function:
    """A function of one argument on any number of lanes of a float type; of float32 it may be float64's, rounded."""
    if elem == "double" or name in unary32:
        return (unary64 if elem == "double" else unary32)[name]
    return lambda x: unary64[name](x.cast("fpext", "double")).cast("fptrunc", "float")


class _Module:
    """Functions as text, with their shared declarations."""

    def __init__(self, vector_bytes: int, has_fma: bool, has_avx512: bool):
        self.lanes = {"float": vector_bytes // 4, "double": vector_bytes // 8, "i64": vector_bytes // 8}
        self.has_fma, self.has_avx512 = has_fma, has_avx512
        self.text: list[str] = []
        self.declares: dict[str, str] = {}
        self.defined: list[str] = []

    def define(self, symbol: str, elem: str, lanes: int, arity: int, body: Function, internal: bool = False) -> None:
        """A function of `arity` equal arguments."""
        code = Native(self.has_fma, self.has_avx512)
        args = [V(code, f"%x{k}", elem, lanes) for k in range(arity)]
        value = body(*args)
        code.leave(value)
        name = f"{'internal ' if internal else ''}{value.type} @{symbol}"
        self.text += code.defined(name, [f"{a.type} {a.name}" for a in args])
        self.declares.update(code.declares)
        self.defined.append(symbol)

    def function(self, name: str, elem: str, arity: int, body: Function) -> None:
        """The vector form from `body`, and the scalar form that uses one lane of it."""
        lanes = self.lanes[elem]
        symbol = symbol_of(name, elem, lanes)
        self.define(symbol, elem, lanes, arity, body)
        self.define(symbol_of(name, elem, 1), elem, 1, arity, lambda *args: args[0].code.call(
            symbol, elem, lanes, *[a.splat(lanes) for a in args]).lane(0))

    def through64(self, name: str, arity: int, body: Function | None = None) -> None:
        """float32 by the float64 function, on half of the lanes at a time."""
        lanes = self.lanes["double"]

        def halves(*args: V) -> V:
            made = []
            for which in (0, 1):
                wide = [a.half(which).cast("fpext", "double") for a in args]
                result = body(*wide) if body else args[0].code.call(
                    symbol_of(name, "double", lanes), "double", lanes, *wide)
                made.append(result.cast("fptrunc", "float"))
            return made[0].concat(made[1])

        self.function(name, "float", arity, halves)


def native(x: V) -> Native:
    """The function that a value is of."""
    assert isinstance(x.code, Native)
    return x.code


def rare(condition: V, fast: V, function: str, *args: V) -> V:
    """`fast`, but lanes where `condition` holds are computed one by one with the scalar `function`."""
    code = native(fast)
    result = code.variable(fast)
    with code.when(any_of(condition)), code.each(fast.lanes) as lane, code.when(condition.lane(lane)):
        new = code.call(function, fast.elem, 1, *[a.lane(lane) for a in args])
        result.value = result.value.with_lane(lane, new)
    return result.value


def any_of(x: V) -> V:
    """All lanes joined by "or"."""
    return x.code.call(f"llvm.vector.reduce.or.{mangle(x.elem, x.lanes)}", x.elem, 1, x)


def _two_over_pi() -> int:
    """floor(2 / pi * 2^1280), from Machin's formula for pi."""
    bits = 1400
    one = 1 << bits

    def arctan_inverse(n: int) -> int:
        total = term = one // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return ((2 << 1280) << bits) // pi


def _large_angle(module: _Module) -> None:
    """The bits of 2/pi, and sin, cos, tan of one double beyond math64.LARGE_ANGLE."""
    table = _two_over_pi().to_bytes(168, "little")
    escaped = "".join("\\" + format(b, "02X") for b in table)
    module.text.append(f'@jg_two_over_pi = internal constant [168 x i8] c"{escaped}"')
    for name in CIRCULAR:
        module.define(f"jg_{name}_large", "double", 1, 1, partial(_reduced, name), internal=True)


def _reduced(name: str, x: V) -> V:
    """Payne and Hanek's reduction.

    With x = m 2^e, 256 bits of 2/pi are enough: those above are multiples of 4 quadrants. They are read from the byte
    that makes the product's top two bits the quadrant.
    """
    code = x.code
    bits = x.abs().bits()
    exponent = bits.lshr(52) - 1075
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    low = 1280 - 254 - exponent
    byte = (low + 7).lshr(3)
    shift = byte.shl(3) - low
    window = code.emit(f"load i256, ptr {code.element('@jg_two_over_pi', byte.name, 'i8')}, align 1", "i256", 1)
    product = window * mantissa.shl(shift).cast("zext", "i256")
    high = product.lshr(192).cast("trunc", "i64")
    quadrant = high.lshr(62) + (high.lshr(61) & 1)
    fraction = product.shl(2)
    negative = fraction < 0
    size = negative.where(-fraction, fraction)
    zeros = code.call("llvm.ctlz.i256", "i256", 1, size, code.const(False, "i1", 1))
    word = size.shl(zeros).lshr(192).cast("trunc", "i64")
    unit = (1023 - 64 - zeros.cast("trunc", "i64")).shl(52).cast("bitcast", "double")  # weight of word's lowest bit
    upper, lower = ((word & part).cast("uitofp", "double") * unit for part in (-2048, 2047))
    r = upper * math64.PIO2[0]
    lost = upper.fma(math64.PIO2[0], -r) + (lower * math64.PIO2[0] + upper * math64.PIO2[1])
    # an odd function of x: work with |x|, where r has the sign of the fraction
    r, lost = negative.where(-r, r), negative.where(-lost, lost)
    value = math64.circular(name, quadrant, r, lost)
    if name != "cos":
        value = (x < 0).where(-value, value)
    return x.abs().compare("uge", math64.INF).where(float("nan"), value)


def _circular(name: str, x: V) -> V:
    if x.elem == "float":
        fast, limit, large = math32.circular(name, x), math32.LARGE_ANGLE, f"jg_{name}_large32"
    else:
        fast, limit, large = math64.circular(name, *math64.reduce_angle(x)), math64.LARGE_ANGLE, f"jg_{name}_large"
    if name != "cos":
        fast = x.eq(0).where(x, fast)
    return rare(x.abs().compare("ugt", limit), fast, large, x)


def _fmod(x: V, y: V) -> V:
    """Exact: one step where the quotient has at most 53 bits, else C's fmod."""
    a, b = x.abs(), y.abs()
    quotient = (a / b).intrinsic("trunc")
    r = (-quotient).fma(b, a)
    r = (r < 0).where(r + b, r)
    r = (r >= b).where(r - b, r)
    easy = (quotient < 4503599627370496.0) & (b > 1e-290) & a.compare("olt", math64.INF) & b.compare(
        "olt", math64.INF)
    return rare(~easy, r.copysign(x), "jg_fmod_slow", x, y)


def _integer_power(base: V, exponent: V) -> V:
    """Wrapping int64 powers by squaring; negative exponents give 0, 1 or -1, as torch does."""
    code = native(base)
    one = code.const(1, "i64", base.lanes)
    result, square = code.variable(one), code.variable(base)
    rest = code.variable((exponent < 0).where(0, exponent))
    with code.loop() as stop:
        left = rest.value
        with code.when(any_of(left).eq(0)):
            stop()
        result.value = (left & 1).ne(0).where(result.value * square.value, result.value)
        square.value = square.value * square.value
        rest.value = left.lshr(1)
    inverse = base.eq(1).where(one, base.eq(-1).where((exponent & 1).ne(0).where(-one, one), 0))
    return (exponent < 0).where(inverse, result.value)


def _philox(index: V, seed: V, offset: V) -> V:
    """Word `index` of the draw of `seed` at `offset` (int64 lanes): lane index % 4 of block index // 4.

    Source: `jitgrad/random.py`, whose words these are.
    """
    block = index.lshr(2) + offset
    zero = index.code.const(0, "i64", index.lanes)
    a, b, c, d = block & MASK32, block.lshr(32), zero, zero
    k0, k1 = seed & MASK32, seed.lshr(32)
    for number in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = second.lshr(32) ^ b ^ k0, second & MASK32, first.lshr(32) ^ d ^ k1, first & MASK32
        if number < ROUNDS - 1:
            k0, k1 = (k0 + WEYL[0]) & MASK32, (k1 + WEYL[1]) & MASK32
    odd, late = (index & 1).ne(0), (index & 2).ne(0)
    return late.where(odd.where(d, c), odd.where(b, a))


# --- conversions of float16 in integer arithmetic, which LLVM calls on machines without F16C (round to even) ---
# Source: F. Giesen, float_to_half_fast3_rtne, https://gist.github.com/rygorous/2156668


def _widened(half: V) -> V:
    bits = half.bits().cast("zext", "i32")
    magnitude, sign = bits & 0x7FFF, (bits & 0x8000).shl(16)
    normal = magnitude.shl(13) + (112 << 23)
    normal = magnitude.compare("uge", 0x7C00).where(normal + (112 << 23), normal)
    small = (magnitude.cast("uitofp", "float") * 2.0**-24).bits()
    value = magnitude.compare("ult", 0x400).where(small, normal) | sign
    return value.cast("bitcast", "float")


def _narrowed(single: V) -> V:
    bits = single.bits()
    magnitude, sign = bits & 0x7FFFFFFF, bits & -0x80000000
    big = magnitude.compare("ugt", 255 << 23).where(magnitude.code.const(0x7E00, "i32", 1), 0x7C00)
    small = (magnitude.cast("bitcast", "float") + 0.5).bits() - (126 << 23)
    normal = (magnitude + (((15 - 127) << 23) + 0xFFF) + (magnitude.lshr(13) & 1)).lshr(13)
    value = magnitude.compare("ult", 113 << 23).where(small, normal)
    value = magnitude.compare("uge", 143 << 23).where(big, value) | sign.lshr(16)
    return value.cast("trunc", "i16").cast("bitcast", "half")


def module_text(vector_bytes: int, has_fma: bool, has_avx512: bool) -> tuple[str, tuple[str, ...]]:
    """The module's text and the names that it exports."""
    module = _Module(vector_bytes, has_fma, has_avx512)
    for name, body in unary64.items():
        module.function(name, "double", 1, body)
    for name, body in binary64.items():
        module.function(name, "double", 2, body)
    _large_angle(module)
    for name in CIRCULAR:
        module.function(name, "double", 1, partial(_circular, name))
    for name in ("sin", "cos"):
        wide = symbol_of(name, "double", 1)
        module.define(f"jg_{name}_large32", "float", 1, 1, lambda x, wide=wide: x.code.call(
            wide, "double", 1, x.cast("fpext", "double")).cast("fptrunc", "float"), internal=True)
        module.function(name, "float", 1, partial(_circular, name))
    module.define("jg_fmod_slow", "double", 1, 2, lambda a, b: a.op("frem", b), internal=True)
    module.function("fmod", "double", 2, _fmod)
    for name, body in unary32.items():
        module.function(name, "float", 1, body)
    for name in THROUGH64:
        if name == "pow":
            module.through64(name, 2, lambda x, y: math64_special.pow(x, y, precise=False))
        elif name == "erfinv":
            module.through64(name, 1, lambda x: math64_special.erfinv(x, precise=False))
        else:
            module.through64(name, 2 if name in binary64 or name == "fmod" else 1)
    module.function("ipow", "i64", 2, _integer_power)
    module.function("philox", "i64", 3, _philox)
    module.define("__extendhfsf2", "half", 1, 1, _widened)
    module.define("__truncsfhf2", "float", 1, 1, _narrowed)
    module.text.append(arrays.LIBRARY.text())
    module.defined += arrays.LIBRARY.functions
    declares = [line for name, line in module.declares.items() if name not in module.defined]
    exports = tuple(n for n in module.defined if not n.endswith(("_large", "_large32", "_slow")))
    return "\n".join([*declares, *module.text]), exports
