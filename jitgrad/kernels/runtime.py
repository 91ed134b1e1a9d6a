"""The run-time library: the math functions that kernels call, and a check of arrays, as the text of one LLVM module.

For each function and float type there is a vector form at the machine's full width (`jg_exp_v16f32`) and a scalar form
(`jg_exp_f32`), which is a lane of the vector form, so that a value does not depend on where it is computed. It is
compiled once per machine and version and kept in the disk cache (`codegen/llvm/engine.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.kernels import arrays, math32, math64, math64_special
from jitgrad.kernels.functions import BINARY64, UNARY32, UNARY64, Function
from jitgrad.kernels.values import Code, V, mangle, type_text
from jitgrad.random import MASK32, MULTIPLIERS, ROUNDS, WEYL

CIRCULAR = ("sin", "cos", "tan")
#: functions of float32 that are the float64 function, rounded
THROUGH64 = tuple(name for name in (*UNARY64, *BINARY64, "tan", "fmod") if name not in UNARY32)


class _Module:
    """Functions as text, with their shared declarations."""

    def __init__(self, vector_bytes: int, has_fma: bool, has_avx512: bool):
        self.lanes = {"float": vector_bytes // 4, "double": vector_bytes // 8}
        self.has_fma, self.has_avx512 = has_fma, has_avx512
        self.text: list[str] = []
        self.declares: dict[str, str] = {}
        self.defined: list[str] = []

    def symbol(self, name: str, elem: str, lanes: int) -> str:
        return f"jg_{name}_{mangle(elem, lanes)}"

    def begin(self, symbol: str, elem: str, lanes: int, arity: int, internal: bool = False) -> tuple[Code, list[V]]:
        """Start a function of `arity` equal arguments."""
        code = Code(self.has_fma, self.has_avx512)
        kind = type_text(elem, lanes)
        names = [f"%x{k}" for k in range(arity)]
        linkage = "internal " if internal else ""
        code.lines.append(f"define {linkage}{kind} @{symbol}({', '.join(f'{kind} {n}' for n in names)}) nounwind {{")
        code.lines.append("entry:")
        self.defined.append(symbol)
        return code, [V(code, n, elem, lanes) for n in names]

    def end(self, code: Code, value: V) -> None:
        code.lines += [f"  ret {value.type} {value.name}", "}", ""]
        self.text += code.lines
        self.declares.update(code.declares)

    def function(self, name: str, elem: str, arity: int, body: Function) -> None:
        """The vector form from `body`, and the scalar form that uses one lane of it."""
        lanes = self.lanes[elem]
        code, args = self.begin(self.symbol(name, elem, lanes), elem, lanes, arity)
        self.end(code, body(*args))
        self.scalar(name, elem, arity)

    def scalar(self, name: str, elem: str, arity: int) -> None:
        """The scalar form: one lane of the vector form."""
        lanes = self.lanes["double" if elem == "i64" else elem]
        code, args = self.begin(self.symbol(name, elem, 1), elem, 1, arity)
        result = code.call(self.symbol(name, elem, lanes), elem, lanes, *[a.splat(lanes) for a in args])
        self.end(code, result.lane(0))

    def through64(self, name: str, arity: int, body: Function | None = None) -> None:
        """float32 by the float64 function, on half of the lanes at a time."""
        lanes = self.lanes["float"]
        code, args = self.begin(self.symbol(name, "float", lanes), "float", lanes, arity)
        halves = []
        for which in (0, 1):
            wide = [a.half(which).cast("fpext", "double") for a in args]
            result = body(*wide) if body else code.call(self.symbol(name, "double", lanes // 2), "double",
                                                        lanes // 2, *wide)
            halves.append(result.cast("fptrunc", "float"))
        self.end(code, halves[0].concat(halves[1]))
        self.scalar(name, "float", arity)

    def rare(self, code: Code, condition: V, fast: V, function: str, args: Sequence[V]) -> V:
        """`fast`, but lanes where `condition` holds are computed one by one with the scalar `function`."""
        lanes, elem = fast.lanes, fast.elem
        some = code.call(f"llvm.vector.reduce.or.{mangle('i1', lanes)}", "i1", 1, condition)
        code.declares[f"llvm.vector.reduce.or.{mangle('i1', lanes)}"] = (
            f"declare i1 @llvm.vector.reduce.or.{mangle('i1', lanes)}(<{lanes} x i1>)")
        kind, vector = elem, fast.type
        names = {n: code.name() for n in ("lane", "value", "next", "hit", "new", "updated", "more", "result")}
        picks, call_args = [], []
        for a in args:
            pick = code.name()
            picks.append(f"  {pick} = extractelement {a.type} {a.name}, i64 {names['lane']}")
            call_args.append(f"{kind} {pick}")
        code.declares[function] = f"declare {kind} @{function}({', '.join([kind] * len(args))})"
        code.lines += [
            f"  br i1 {some.name}, label %rare, label %all",
            "rare:",
            f"  {names['lane']} = phi i64 [ 0, %entry ], [ {names['next']}, %join ]",
            f"  {names['value']} = phi {vector} [ {fast.name}, %entry ], [ {names['updated']}, %join ]",
            f"  {names['hit']} = extractelement <{lanes} x i1> {condition.name}, i64 {names['lane']}",
            f"  br i1 {names['hit']}, label %one, label %join",
            "one:",
            *picks,
            f"  {names['new']} = call {kind} @{function}({', '.join(call_args)})",
            f"  {names['more']} = insertelement {vector} {names['value']}, {kind} {names['new']}, i64 {names['lane']}",
            "  br label %join",
            "join:",
            f"  {names['updated']} = phi {vector} [ {names['value']}, %rare ], [ {names['more']}, %one ]",
            f"  {names['next']} = add i64 {names['lane']}, 1",
            f"  %again = icmp ult i64 {names['next']}, {lanes}",
            "  br i1 %again, label %rare, label %all",
            "all:",
            f"  {names['result']} = phi {vector} [ {fast.name}, %entry ], [ {names['updated']}, %join ]",
        ]
        return V(code, names["result"], elem, lanes)


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
    """The bits of 2/pi, and sin, cos, tan of one double beyond math64.LARGE_ANGLE (Payne and Hanek's reduction).

    With x = m 2^e, 256 bits of 2/pi are enough: those above are multiples of 4 quadrants. They are read from the byte
    that makes the product's top two bits the quadrant.
    """
    table = _two_over_pi().to_bytes(168, "little")
    escaped = "".join("\\" + format(b, "02X") for b in table)
    module.text.append(f'@jg_two_over_pi = internal constant [168 x i8] c"{escaped}"')
    for name in CIRCULAR:
        code, (x,) = module.begin(f"jg_{name}_large", "double", 1, 1, internal=True)
        bits = x.abs().bits()
        exponent = bits.lshr(52) - 1075
        mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
        low = 1280 - 254 - exponent
        byte = (low + 7).lshr(3)
        shift = byte.shl(3) - low
        address = code.name()
        code.lines.append(f"  {address} = getelementptr i8, ptr @jg_two_over_pi, i64 {byte.name}")
        window = code.emit(f"load i256, ptr {address}, align 1", "i256", 1)
        m = code.emit(f"zext i64 {mantissa.shl(shift).name} to i256", "i256", 1)
        product = code.emit(f"mul i256 {window.name}, {m.name}", "i256", 1)
        top = code.emit(f"lshr i256 {product.name}, 192", "i256", 1)
        high = code.emit(f"trunc i256 {top.name} to i64", "i64", 1)
        quadrant = high.lshr(62) + (high.lshr(61) & 1)
        fraction = code.emit(f"shl i256 {product.name}, 2", "i256", 1)
        negative = code.emit(f"icmp slt i256 {fraction.name}, 0", "i1", 1)
        minus = code.emit(f"sub i256 0, {fraction.name}", "i256", 1)
        size = code.emit(f"select i1 {negative.name}, i256 {minus.name}, i256 {fraction.name}", "i256", 1)
        code.declares["llvm.ctlz.i256"] = "declare i256 @llvm.ctlz.i256(i256, i1)"
        zeros = code.emit(f"call i256 @llvm.ctlz.i256(i256 {size.name}, i1 false)", "i256", 1)
        normal = code.emit(f"shl i256 {size.name}, {zeros.name}", "i256", 1)
        leading = code.emit(f"lshr i256 {normal.name}, 192", "i256", 1)
        word = code.emit(f"trunc i256 {leading.name} to i64", "i64", 1)
        count = code.emit(f"trunc i256 {zeros.name} to i64", "i64", 1)
        upper = (word & -2048).cast("uitofp", "double")
        lower = (word & 2047).cast("uitofp", "double")
        unit = (1023 - 64 - count).shl(52).cast("bitcast", "double")  # weight of the word's lowest bit
        upper, lower = upper * unit, lower * unit
        r = upper * math64.PIO2[0]
        lost = upper.fma(math64.PIO2[0], -r) + (lower * math64.PIO2[0] + upper * math64.PIO2[1])
        # an odd function of x: work with |x|, where r has the sign of the fraction
        r, lost = negative.where(-r, r), negative.where(-lost, lost)
        value = math64.circular(name, quadrant, r, lost)
        if name != "cos":
            value = (x < 0).where(-value, value)
        value = x.abs().compare("uge", math64.INF).where(float("nan"), value)
        module.end(code, value)


def _circular(module: _Module) -> None:
    for name in CIRCULAR:
        lanes = module.lanes["double"]
        code, (x,) = module.begin(module.symbol(name, "double", lanes), "double", lanes, 1)
        quadrant, r, lost = math64.reduce_angle(x)
        fast = math64.circular(name, quadrant, r, lost)
        if name != "cos":
            fast = x.eq(0).where(x, fast)
        value = module.rare(code, x.abs().compare("ugt", math64.LARGE_ANGLE), fast, f"jg_{name}_large", [x])
        module.end(code, value)
        module.scalar(name, "double", 1)
    for name in ("sin", "cos"):
        lanes = module.lanes["float"]
        code, (x,) = module.begin(f"jg_{name}_large32", "float", 1, 1, internal=True)
        wide = code.call(module.symbol(name, "double", 1), "double", 1, x.cast("fpext", "double"))
        module.end(code, wide.cast("fptrunc", "float"))
        code, (x,) = module.begin(module.symbol(name, "float", lanes), "float", lanes, 1)
        fast = math32.circular(name, x)
        if name == "sin":
            fast = x.eq(0).where(x, fast)
        value = module.rare(code, x.abs().compare("ugt", math32.LARGE_ANGLE), fast, f"jg_{name}_large32", [x])
        module.end(code, value)
        module.scalar(name, "float", 1)


def _fmod(module: _Module) -> None:
    """Exact: one step where the quotient has at most 53 bits, else C's fmod."""
    code, (a, b) = module.begin("jg_fmod_slow", "double", 1, 2, internal=True)
    module.end(code, code.emit(f"frem double {a.name}, {b.name}", "double", 1))
    lanes = module.lanes["double"]
    code, (x, y) = module.begin(module.symbol("fmod", "double", lanes), "double", lanes, 2)
    a, b = x.abs(), y.abs()
    quotient = (a / b).intrinsic("trunc")
    r = (-quotient).fma(b, a)
    r = (r < 0).where(r + b, r)
    r = (r >= b).where(r - b, r)
    easy = (quotient < 4503599627370496.0) & (b > 1e-290) & a.compare("olt", math64.INF) & b.compare(
        "olt", math64.INF)
    value = module.rare(code, ~easy, r.copysign(x), "jg_fmod_slow", [x, y])
    module.end(code, value)
    module.scalar("fmod", "double", 2)


def _integer_power(module: _Module) -> None:
    """Wrapping int64 powers by squaring; negative exponents give 0, 1 or -1, as torch does."""
    lanes = module.lanes["double"]
    kind = type_text("i64", lanes)
    symbol = module.symbol("ipow", "i64", lanes)
    code, (base, exponent) = module.begin(symbol, "i64", lanes, 2)
    start = (exponent < 0).where(0, exponent)
    one = code.const(1, "i64", lanes)
    result, square, rest = (V(code, code.name(), "i64", lanes) for _ in range(3))
    code.lines += ["  br label %loop", "loop:"]
    hole = len(code.lines)
    some = code.emit(f"call i64 @llvm.vector.reduce.or.v{lanes}i64({kind} {rest.name})", "i64", 1).ne(0)
    code.declares[f"llvm.vector.reduce.or.v{lanes}i64"] = f"declare i64 @llvm.vector.reduce.or.v{lanes}i64({kind})"
    code.lines += [f"  br i1 {some.name}, label %step, label %end", "step:"]
    following = [(rest & 1).ne(0).where(result * square, result), square * square, rest.lshr(1)]
    code.lines.append("  br label %loop")
    code.lines[hole:hole] = [
        f"  {phi.name} = phi {kind} [ {first.name}, %entry ], [ {then.name}, %step ]"
        for phi, first, then in zip((result, square, rest), (one, base, start), following, strict=True)]
    code.lines.append("end:")
    odd = (exponent & 1).ne(0)
    inverse = base.eq(1).where(one, base.eq(-1).where(odd.where(-one, one), 0))
    module.end(code, (exponent < 0).where(inverse, result))
    module.scalar("ipow", "i64", 2)


def _philox(module: _Module) -> None:
    """Word `index` of the draw of `seed` at `offset` (int64 lanes): lane index % 4 of block index // 4.

    Source: `jitgrad/random.py`, whose words these are.
    """
    lanes = module.lanes["double"]
    code, (index, seed, offset) = module.begin(module.symbol("philox", "i64", lanes), "i64", lanes, 3)
    block = index.lshr(2) + offset
    a, b, c, d = block & MASK32, block.lshr(32), code.const(0, "i64", lanes), code.const(0, "i64", lanes)
    k0, k1 = seed & MASK32, seed.lshr(32)
    for number in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = second.lshr(32) ^ b ^ k0, second & MASK32, first.lshr(32) ^ d ^ k1, first & MASK32
        if number < ROUNDS - 1:
            k0, k1 = (k0 + WEYL[0]) & MASK32, (k1 + WEYL[1]) & MASK32
    odd, late = (index & 1).ne(0), (index & 2).ne(0)
    module.end(code, late.where(odd.where(d, c), odd.where(b, a)))
    module.scalar("philox", "i64", 3)


def _half(module: _Module) -> None:
    """Conversions of float16 in integer arithmetic, which LLVM calls on machines without F16C (round to even).

    Source: F. Giesen, float_to_half_fast3_rtne, https://gist.github.com/rygorous/2156668
    """
    code = Code()
    code.lines += ["define float @__extendhfsf2(half %h) nounwind {", "entry:"]
    bits = V(code, "%h", "half", 1).bits().cast("zext", "i32")
    magnitude, sign = bits & 0x7FFF, (bits & 0x8000).shl(16)
    normal = magnitude.shl(13) + (112 << 23)
    normal = magnitude.compare("uge", 0x7C00).where(normal + (112 << 23), normal)
    small = (magnitude.cast("uitofp", "float") * 2.0**-24).bits()
    value = magnitude.compare("ult", 0x400).where(small, normal) | sign
    module.end(code, value.cast("bitcast", "float"))
    code = Code()
    code.lines += ["define half @__truncsfhf2(float %f) nounwind {", "entry:"]
    bits = V(code, "%f", "float", 1).bits()
    magnitude, sign = bits & 0x7FFFFFFF, bits & -0x80000000
    big = magnitude.compare("ugt", 255 << 23).where(magnitude.code.const(0x7E00, "i32", 1), 0x7C00)
    small = (magnitude.cast("bitcast", "float") + 0.5).bits() - (126 << 23)
    normal = (magnitude + (((15 - 127) << 23) + 0xFFF) + (magnitude.lshr(13) & 1)).lshr(13)
    value = magnitude.compare("ult", 113 << 23).where(small, normal)
    value = magnitude.compare("uge", 143 << 23).where(big, value) | sign.lshr(16)
    module.end(code, value.cast("trunc", "i16").cast("bitcast", "half"))
    module.defined += ["__extendhfsf2", "__truncsfhf2"]


def module_text(vector_bytes: int, has_fma: bool, has_avx512: bool) -> tuple[str, tuple[str, ...]]:
    """The module's text and the names that it exports."""
    module = _Module(vector_bytes, has_fma, has_avx512)
    for name, body in UNARY64.items():
        module.function(name, "double", 1, body)
    for name, body in BINARY64.items():
        module.function(name, "double", 2, body)
    _large_angle(module)
    _circular(module)
    _fmod(module)
    for name, body in UNARY32.items():
        module.function(name, "float", 1, body)
    for name in THROUGH64:
        if name == "pow":
            module.through64(name, 2, lambda x, y: math64_special.pow(x, y, precise=False))
        elif name == "erfinv":
            module.through64(name, 1, lambda x: math64_special.erfinv(x, precise=False))
        else:
            module.through64(name, 2 if name in BINARY64 or name == "fmod" else 1)
    _integer_power(module)
    _philox(module)
    _half(module)
    module.text.append(arrays.LIBRARY.text())
    module.defined += arrays.LIBRARY.functions
    declares = [line for name, line in module.declares.items() if name not in module.defined]
    exports = tuple(n for n in module.defined if not n.endswith(("_large", "_large32", "_slow")))
    return "\n".join([*declares, *module.text]), exports
