"""The registers of Python numbers, and a value of one type as one of another.

int is i64, float double, bool i1; a Number is (kind: 0 bool, 1 int, 2 float; its bits).
"""

from jitgrad import dtypes
from jitgrad.codegen.llvm.scalars import COMPUTED, convert
from jitgrad.dtypes import dtype
from jitgrad.kernels.values import V
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, TensorType, Type

KIND_BOOL, KIND_INT, KIND_FLOAT = 0, 1, 2
_KINDS: dict[Type, int] = {BOOL: KIND_BOOL, INT: KIND_INT, FLOAT: KIND_FLOAT}
DTYPES: dict[Type, dtype] = {BOOL: dtypes.bool_, INT: dtypes.int64, FLOAT: dtypes.float64}


def part_types(type_: Type) -> tuple[str, ...]:
    """LLVM types of a value's registers."""
    if isinstance(type_, TensorType):
        return (COMPUTED[type_.dtype.name],)
    assert not isinstance(type_, OptionalType)
    if type_ == NUMBER:
        return ("i64", "i64")
    return ("double",) if type_ == FLOAT else ("i1",) if type_ == BOOL else ("i64",)


def as_int(parts: tuple[V, ...], type_: Type) -> V:
    """The bits as an int; of a Number, whatever its kind."""
    if type_ == NUMBER:
        return parts[1]
    return parts[0].cast("zext", "i64") if type_ == BOOL else parts[0]


def as_float(parts: tuple[V, ...], type_: Type) -> V:
    if type_ == NUMBER:
        bits = parts[1]
        return parts[0].eq(KIND_FLOAT).where(bits.cast("bitcast", "double"), bits.cast("sitofp", "double"))
    if type_ == FLOAT:
        return parts[0]
    if type_ == INT and not parts[0].name.startswith("%"):
        return parts[0].code.const(float(int(parts[0].name)), "double", 1)
    return parts[0].cast("uitofp" if type_ == BOOL else "sitofp", "double")


def as_dtype(parts: tuple[V, ...], type_: Type, d: dtype) -> V:
    """A number or one element in the computing type of dtype `d`."""
    if type_ == NUMBER:
        kind, bits = parts
        as_float = convert(bits.cast("bitcast", "double"), dtypes.float64, d)
        return kind.eq(KIND_FLOAT).where(as_float, convert(bits, dtypes.int64, d))
    return convert(parts[0], type_.dtype if isinstance(type_, TensorType) else DTYPES[type_], d)


def as_type(parts: tuple[V, ...], source: Type, target: Type) -> tuple[V, ...]:
    """Registers of one type as those of another to which every value can be raised."""
    if source == target or isinstance(target, SeqType):
        return parts
    if target == NUMBER:
        bits = parts[0].cast("bitcast", "i64") if source == FLOAT else as_int(parts, source)
        return (parts[0].code.const(_KINDS[source], "i64", 1), bits)
    if target == FLOAT:
        return (as_float(parts, source),)
    if target == INT:
        return (as_int(parts, source),)
    assert isinstance(target, TensorType), f"{source} as {target}"
    assert isinstance(source, TensorType), f"{source} as {target}"
    return (convert(parts[0], source.dtype, target.dtype),)
