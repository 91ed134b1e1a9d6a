"""Text of LLVM instructions, written with Python operators.

`Code` collects lines; a `V` is a value in it: an element type and a number of lanes (1: a scalar). One Python
function over `V`s is therefore the scalar and the vector form of an operation, inline in a kernel or as a function of
the run-time library. Floating-point instructions carry no flags: a result never depends on what surrounds it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

FLOAT_TYPES = frozenset({"float", "double", "half"})
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i256": 256, "half": 16, "float": 32, "double": 64}
SAME_SIZE_INT = {"float": "i32", "double": "i64", "half": "i16"}
MANGLED = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "i256": "i256", "half": "f16",
           "float": "f32", "double": "f64", "ptr": "p0"}

Number = bool | int | float


def literal(value: Number, elem: str) -> str:
    """`value` as a constant of element type `elem` (floats in LLVM's exact hexadecimal form)."""
    if elem == "double":
        return "0x" + struct.pack(">d", value).hex().upper()
    if elem == "float":
        return "0x" + struct.pack(">d", to_float32(float(value))).hex().upper()
    if elem == "half":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if elem == "i1":
        return "true" if value else "false"
    bits = BITS[elem]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def to_float32(value: float) -> float:
    """`value` rounded to float32, overflow to infinity."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def type_text(elem: str, lanes: int) -> str:
    """`float` or `<16 x float>`."""
    return elem if lanes == 1 else f"<{lanes} x {elem}>"


def mangle(elem: str, lanes: int) -> str:
    """A type as it occurs in the name of an intrinsic: `f32` or `v16f32`."""
    return MANGLED[elem] if lanes == 1 else f"v{lanes}{MANGLED[elem]}"


def _aligned(align: int) -> str:
    return f", align {align}" if align else ""


class Code:
    """Lines of one function, fresh names, and the declarations it needs (full text, by name).

    `has_fma`, `has_avx512`: what the machine has.
    """

    __slots__ = ("count", "declares", "has_avx512", "has_fma", "lines")

    def __init__(self, has_fma: bool = True, has_avx512: bool = False) -> None:
        self.has_fma, self.has_avx512 = has_fma, has_avx512
        self.lines: list[str] = []
        self.count = 0
        self.declares: dict[str, str] = {}

    def name(self) -> str:
        """A fresh local name."""
        self.count += 1
        return f"%v{self.count}"

    def emit(self, instruction: str, elem: str, lanes: int) -> V:
        """Append `%new = instruction`; the value it defines."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {instruction}")
        return V(self, name, elem, lanes)

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def element(self, pointer: str, index: object, elem: str = "i64") -> str:
        """The address of an element; `index` is a number or the name of one of 64 bits."""
        return self.emit(f"getelementptr {elem}, ptr {pointer}, i64 {index}", "ptr", 1).name

    def read(self, elem: str, pointer: str, lanes: int = 1, align: int = 0) -> V:
        """What is at an address, which is a multiple of `align`; 0: of the type's own size, as LLVM takes it to be."""
        return self.emit(f"load {type_text(elem, lanes)}, ptr {pointer}{_aligned(align)}", elem, lanes)

    def read_word(self, elem: str, pointer: str) -> V:
        """What is in a word, where a flag is 0 or not."""
        return self.read("i64", pointer).ne(0) if elem == "i1" else self.read(elem, pointer)

    def write(self, value: V, pointer: str, align: int = 0) -> None:
        self.line(f"store {value.type} {value.name}, ptr {pointer}{_aligned(align)}")

    def const(self, value: Number, elem: str, lanes: int) -> V:
        """A constant; no instruction."""
        text = literal(value, elem)
        return V(self, text if lanes == 1 else f"splat ({elem} {text})", elem, lanes)

    def call(self, function: str, elem: str, lanes: int, *args: V) -> V:
        """Call `@function` on values; declares it."""
        kind = type_text(elem, lanes)
        if function not in self.declares:
            self.declares[function] = f"declare {kind} @{function}({', '.join([a.type for a in args])})"
        return self.emit(f"call {kind} @{function}({', '.join([f'{a.type} {a.name}' for a in args])})", elem, lanes)

    def do(self, function: str, *args: V) -> None:
        """Call what returns nothing; declares it."""
        self.declares.setdefault(function, f"declare void @{function}({', '.join([a.type for a in args])})")
        self.line(f"call void @{function}({', '.join([f'{a.type} {a.name}' for a in args])})")


def _operator(float_op: str, int_op: str, swap: bool = False) -> Callable[[V, V | Number], V]:
    """A method for a binary instruction."""
    return lambda self, other: self._binary(float_op, int_op, other, swap)


def _comparison(of_floats: str, of_ints: str) -> Callable[[V, V | Number], V]:
    """A method for a comparison, of signed integers."""
    return lambda self, other: self.compare(of_floats if self.elem in FLOAT_TYPES else of_ints, other)


class V:
    """A value: `elem` is LLVM's element type. Python numbers mix in as constants of the same type."""

    __slots__ = ("code", "elem", "lanes", "name")

    def __init__(self, code: Code, name: str, elem: str, lanes: int):
        self.code, self.name, self.elem, self.lanes = code, name, elem, lanes

    @property
    def type(self) -> str:
        return self.elem if self.lanes == 1 else f"<{self.lanes} x {self.elem}>"

    @property
    def is_float(self) -> bool:
        return self.elem in FLOAT_TYPES

    @property
    def is_number(self) -> bool:
        """Whether this is a constant that is not NaN."""
        nans = [literal(value, self.elem) for value in (float("nan"), -float("nan"))] if self.is_float else []
        return not self.name.startswith("%") and not any(nan in self.name for nan in nans)

    def lift(self, other: V | Number) -> V:
        """`other` as a value of this type."""
        if isinstance(other, V):
            return other
        return self.code.const(other, self.elem, self.lanes)

    def _binary(self, float_op: str, int_op: str, other: V | Number, swap: bool = False) -> V:
        a, b = (self.lift(other), self) if swap else (self, self.lift(other))
        op = float_op if self.elem in FLOAT_TYPES else int_op
        return self.code.emit(f"{op} {self.type} {a.name}, {b.name}", self.elem, self.lanes)

    __add__, __radd__ = _operator("fadd", "add"), _operator("fadd", "add", swap=True)
    __sub__, __rsub__ = _operator("fsub", "sub"), _operator("fsub", "sub", swap=True)
    __mul__, __rmul__ = _operator("fmul", "mul"), _operator("fmul", "mul", swap=True)
    __truediv__, __rtruediv__ = _operator("fdiv", "sdiv"), _operator("fdiv", "sdiv", swap=True)
    __and__, __or__, __xor__ = _operator("", "and"), _operator("", "or"), _operator("", "xor")
    shl, lshr, ashr = _operator("", "shl"), _operator("", "lshr"), _operator("", "ashr")

    def __neg__(self) -> V:
        if self.elem in FLOAT_TYPES:
            return self.code.emit(f"fneg {self.type} {self.name}", self.elem, self.lanes)
        return 0 - self

    def __invert__(self) -> V:
        return self ^ (1 if self.elem == "i1" else -1)

    def op(self, instruction: str, other: V | Number) -> V:
        """A binary instruction by name, for example `udiv`."""
        return self._binary(instruction, instruction, other)

    def compare(self, predicate: str, other: V | Number) -> V:
        """`fcmp`/`icmp` with an LLVM predicate (`olt`, `uno`, `slt`, `ult`...); lanes of i1."""
        op = "fcmp" if self.elem in FLOAT_TYPES else "icmp"
        return self.code.emit(f"{op} {predicate} {self.type} {self.name}, {self.lift(other).name}", "i1", self.lanes)

    __lt__, __le__ = _comparison("olt", "slt"), _comparison("ole", "sle")
    __gt__, __ge__ = _comparison("ogt", "sgt"), _comparison("oge", "sge")
    eq, ne = _comparison("oeq", "eq"), _comparison("une", "ne")

    def isnan(self) -> V:
        return self.compare("uno", self)

    def where(self, if_true: V | Number, if_false: V | Number) -> V:
        """`select`: this is a condition; at least one branch is a V."""
        kind = if_true if isinstance(if_true, V) else if_false
        assert isinstance(kind, V)
        a, b = kind.lift(if_true), kind.lift(if_false)
        return self.code.emit(f"select {self.type} {self.name}, {a.type} {a.name}, {b.type} {b.name}",
                              a.elem, a.lanes)

    def cast(self, instruction: str, elem: str) -> V:
        """A conversion instruction (`fptosi`, `sext`, `bitcast`...) to element type `elem`."""
        return self.code.emit(f"{instruction} {self.type} {self.name} to {type_text(elem, self.lanes)}",
                              elem, self.lanes)

    def bits(self) -> V:
        """The bit pattern, as integers of the same size."""
        return self.cast("bitcast", SAME_SIZE_INT[self.elem])

    def intrinsic(self, name: str, *others: V | Number) -> V:
        """`llvm.<name>.<type>` of values of one type."""
        return self.code.call(f"llvm.{name}.{mangle(self.elem, self.lanes)}", self.elem, self.lanes, self,
                              *[self.lift(o) for o in others])

    def word(self) -> V:
        """A scalar as i64: the bits of a double, or zeros and those of an integer."""
        if self.elem in FLOAT_TYPES:
            return (self if self.elem == "double" else self.cast("fpext", "double")).bits()
        return self if self.elem == "i64" else self.cast("zext", "i64")

    def from_word(self, elem: str) -> V:
        """The scalar that was made this word."""
        if elem in FLOAT_TYPES:
            value = self.cast("bitcast", "double")
            return value if elem == "double" else value.cast("fptrunc", elem)
        return self if elem == "i64" else self.cast("trunc", elem)

    def fma(self, b: V | Number, c: V | Number) -> V:
        """self * b + c, rounded once."""
        return self.intrinsic("fma", b, c)

    def mad(self, b: V | Number, c: V | Number) -> V:
        """self * b + c, in one instruction where the machine has one (else rounded twice)."""
        return self.fma(b, c) if self.code.has_fma else self * b + c

    def scale(self, n: V) -> V | None:
        """self * 2^n for an integral float n, rounded once, in AVX-512's one instruction; None without it."""
        if self.code.has_avx512 and self.lanes * BITS[self.elem] > 512:
            low, high = (self.half(k).scale(n.half(k)) for k in range(2))
            return None if low is None or high is None else low.concat(high)
        if not self.code.has_avx512 or self.lanes * BITS[self.elem] != 512:
            return None
        name = "llvm.x86.avx512.mask.scalef." + ("ps" if self.elem == "float" else "pd") + ".512"
        mask = f"i{self.lanes}"
        self.code.declares[name] = f"declare {self.type} @{name}({self.type}, {self.type}, {self.type}, {mask}, i32)"
        return self.code.emit(f"call {self.type} @{name}({self.type} {self.name}, {self.type} {n.name}, {self.type} "
                              f"zeroinitializer, {mask} -1, i32 4)", self.elem, self.lanes)

    def abs(self) -> V:
        if self.elem in FLOAT_TYPES:
            return self.intrinsic("fabs")
        return (self < 0).where(-self, self)

    def copysign(self, sign: V | Number) -> V:
        return self.intrinsic("copysign", sign)

    def splat(self, lanes: int) -> V:
        """This scalar in every lane."""
        if lanes == 1 or self.lanes == lanes:
            return self
        if not self.name.startswith("%"):
            return V(self.code, f"splat ({self.elem} {self.name})", self.elem, lanes)
        first = self.code.emit(f"insertelement <{lanes} x {self.elem}> poison, {self.elem} {self.name}, i64 0",
                               self.elem, lanes)
        return self.code.emit(f"shufflevector <{lanes} x {self.elem}> {first.name}, <{lanes} x {self.elem}> poison, "
                              f"<{lanes} x i32> zeroinitializer", self.elem, lanes)

    def lane(self, index: int | V) -> V:
        """One lane as a scalar."""
        number = index.name if isinstance(index, V) else index
        return self.code.emit(f"extractelement {self.type} {self.name}, i64 {number}", self.elem, 1)

    def with_lane(self, index: V, value: V) -> V:
        """The same lanes but for one."""
        return self.code.emit(f"insertelement {self.type} {self.name}, {value.type} {value.name}, i64 {index.name}",
                              self.elem, self.lanes)

    def half(self, which: int) -> V:
        """The lower (0) or upper (1) half of the lanes."""
        half = self.lanes // 2
        if half == 1:
            return self.lane(which)
        picks = ", ".join(f"i32 {i + which * half}" for i in range(half))
        return self.code.emit(f"shufflevector {self.type} {self.name}, {self.type} poison, <{half} x i32> <{picks}>",
                              self.elem, half)

    def concat(self, upper: V) -> V:
        """This below `upper`; neither is a scalar unless both are."""
        lanes = self.lanes * 2
        if self.lanes == 1:
            low = self.code.emit(f"insertelement <2 x {self.elem}> poison, {self.elem} {self.name}, i64 0",
                                 self.elem, 2)
            return self.code.emit(f"insertelement <2 x {self.elem}> {low.name}, {self.elem} {upper.name}, i64 1",
                                  self.elem, 2)
        picks = ", ".join(f"i32 {i}" for i in range(lanes))
        return self.code.emit(f"shufflevector {self.type} {self.name}, {upper.type} {upper.name}, "
                              f"<{lanes} x i32> <{picks}>", self.elem, lanes)


def iota(code: Code, elem: str, lanes: int) -> V:
    """The constant 0, 1, ... lanes - 1."""
    if lanes == 1:
        return code.const(0, elem, 1)
    return V(code, "<" + ", ".join(f"{elem} {i}" for i in range(lanes)) + ">", elem, lanes)
