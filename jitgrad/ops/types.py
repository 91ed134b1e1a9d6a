"""Types of graph values. `TensorType` is also the `Spec` (shape and dtype without data) that rules and specs see."""

from __future__ import annotations

from jitgrad.classes import dataclass
from jitgrad.dims import Size
from jitgrad.dtypes import dtype


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor: dtype and one size (int or Dim) per axis."""

    dtype: dtype
    dims: tuple[Size, ...]

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.dims

    @property
    def ndim(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{', '.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class NumberType:
    """A Python int or float of 64 bits, a bool, or a number whose kind is known at run time: a tag and 64 bits.

    Also a string: in native code a handle, of which the number ops see nothing but whether it is empty.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SeqType:
    """One value per iteration of a loop; immutable. Element sizes that the loop binds may differ per element."""

    elem: Type

    def __str__(self) -> str:
        return f"seq<{self.elem}>"


@dataclass(frozen=True, slots=True)
class ListType(SeqType):
    """A Python list of values of one type, as a value: an op that changes it makes a new one.

    Sizes of elements that are not in scope may differ per element. Code generation updates in place what dies.
    """

    def __str__(self) -> str:
        return f"list<{self.elem}>"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A bool and a payload that exists only where the bool is true."""

    elem: Type

    def __str__(self) -> str:
        return f"optional<{self.elem}>"


Type = TensorType | NumberType | SeqType | OptionalType
INT, FLOAT, BOOL, NUMBER = NumberType("int"), NumberType("float"), NumberType("bool"), NumberType("number")
TEXT = NumberType("str")

_SHORT = {"bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
          "uint16": "u16", "uint32": "u32", "uint64": "u64",
          "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
          "complex64": "c64", "complex128": "c128"}
_LONG = {short: name for name, short in _SHORT.items()}


def short_name(d: dtype) -> str:
    """`f32` for float32 and so on: the names of the text form."""
    return _SHORT[d.name]


def long_name(short: str) -> str:
    """The inverse of `short_name`, as the dtype's full name."""
    return _LONG[short]


def map_dims(type_: Type, fn: object) -> Type:
    """`type_` with `fn` applied to every size in it."""
    if isinstance(type_, TensorType):
        return TensorType(type_.dtype, tuple(fn(d) for d in type_.dims))  # type: ignore[operator]
    if isinstance(type_, SeqType):
        return type(type_)(map_dims(type_.elem, fn))
    if isinstance(type_, OptionalType):
        return OptionalType(map_dims(type_.elem, fn))
    return type_
