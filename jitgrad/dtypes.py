"""Data types and torch's promotion between them.

A tensor's dtype beats a number's unless the number is of a higher category (bool < integer < floating < complex), and a
tensor with dimensions beats a 0-dim tensor in the same way; a complex number beside a float64 tensor is complex128.
Source: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc

The half types, float16 and bfloat16, are kept in 16 bits and computed in float32 (`ops/halves.py`). NumPy has no
bfloat16: `ml_dtypes` has, and is imported when the dtype is first used.

uint16, uint32 and uint64 are, as in torch, types to hold data in: they promote with floating-point types only, and a
row has them where it only moves elements or its trait `barebones` says so.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np


class dtype:
    """A data type. Compare with `is` or `==`; there is one object per type.

    Attributes:
        category: BOOL, INTEGRAL, FLOATING or COMPLEX.
        is_inexact: floating-point or complex: what can have a gradient.
        is_half: kept in 16 bits, computed in float32.
        is_barebones: one of the unsigned integers that most ops do not have.
        word: torch's word for it in messages.
        c_name: C++'s name for its elements, as torch's messages have it.
        np: NumPy's dtype of the arrays that hold it.
    """

    __slots__ = ("c_name", "category", "is_barebones", "is_complex", "is_floating_point", "is_half", "is_inexact",
                 "is_signed", "itemsize", "name", "np", "word")
    np: np.dtype[Any]

    def __init__(self, name: str, category: int, np_type: type | None, word: str, c_name: str, itemsize: int = 0):
        self.name, self.category, self.itemsize, self.word, self.c_name = name, category, itemsize, word, c_name
        self.is_floating_point, self.is_complex = category == FLOATING, category == COMPLEX
        self.is_signed = self.is_inexact = category >= FLOATING
        if np_type is not None:
            self.np = np.dtype(np_type)
            self.itemsize, self.is_signed = self.np.itemsize, self.np.kind in "ifc"
        self.is_half = self.is_floating_point and self.itemsize == 2
        self.is_barebones = category == INTEGRAL and not self.is_signed and self.itemsize > 1

    def __getattr__(self, name: str) -> Any:
        """NumPy's dtype of bfloat16, on its first use."""
        if name != "np":
            raise AttributeError(f"'dtype' object has no attribute '{name}'")
        import ml_dtypes

        self.np = np.dtype(ml_dtypes.bfloat16)
        FROM_NP[self.np] = self
        return self.np

    def to_complex(self) -> "dtype":
        """The complex dtype whose parts have this dtype, itself if it is complex. RuntimeError where there is none."""
        if self.is_complex:
            return self
        if self.is_half:
            raise RuntimeError(f"complex numbers whose parts are {self.name} are not available: convert to float32")
        if self.is_barebones:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.word}")
        return complex128 if self is float64 else complex64

    def to_real(self) -> "dtype":
        """The dtype of the parts of a complex dtype; any other is itself."""
        return self if not self.is_complex else float64 if self is complex128 else float32

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (by_name, (self.name,))


BOOL, INTEGRAL, FLOATING, COMPLEX = 0, 1, 2, 3  # categories, in the order of promotion

bool_ = dtype("bool", BOOL, np.bool_, "Bool", "bool")
uint8 = dtype("uint8", INTEGRAL, np.uint8, "Byte", "unsigned char")
int8 = dtype("int8", INTEGRAL, np.int8, "Char", "signed char")
int16 = dtype("int16", INTEGRAL, np.int16, "Short", "short")
int32 = dtype("int32", INTEGRAL, np.int32, "Int", "int")
int64 = dtype("int64", INTEGRAL, np.int64, "Long", "long long")
uint16 = dtype("uint16", INTEGRAL, np.uint16, "UInt16", "short unsigned int")
uint32 = dtype("uint32", INTEGRAL, np.uint32, "UInt32", "unsigned int")
uint64 = dtype("uint64", INTEGRAL, np.uint64, "UInt64", "long unsigned int")
float16 = dtype("float16", FLOATING, np.float16, "Half", "c10::Half")
bfloat16 = dtype("bfloat16", FLOATING, None, "BFloat16", "c10::BFloat16", 2)
float32 = dtype("float32", FLOATING, np.float32, "Float", "float")
float64 = dtype("float64", FLOATING, np.float64, "Double", "double")
complex64 = cfloat = dtype("complex64", COMPLEX, np.complex64, "ComplexFloat", "c10::complex<float>")
complex128 = cdouble = dtype("complex128", COMPLEX, np.complex128, "ComplexDouble", "c10::complex<double>")

#: the real types that kernels compute with
REALS = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEX_TYPES = (complex64, complex128)
BAREBONES = (uint16, uint32, uint64)
ALL = (*REALS, *BAREBONES, *COMPLEX_TYPES)
#: `kind` of the NumPy dtypes of what can have a gradient ("V": what NumPy did not define) ...
INEXACT_KINDS = "fcV"
#: ... `char` of those of half types, of those that complex numbers have, and of those of barebones types
HALF_CHARS, COMPLEX_CHARS, BAREBONES_CHARS = "eE", "FD", "".join(d.np.char for d in BAREBONES)
INTEGERS = (uint8, int8, int16, int32, int64)
_BY_NAME = {d.name: d for d in ALL}


class _FromNumPy(dict["np.dtype[Any]", dtype]):
    """The dtype of a NumPy dtype. KeyError for one that has no counterpart."""

    def __missing__(self, key: np.dtype[Any]) -> dtype:
        if key.name == bfloat16.name and key == bfloat16.np:
            return bfloat16
        raise KeyError(key)


FROM_NP = _FromNumPy({d.np: d for d in ALL if d is not bfloat16})

_default = float32
_OF_PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}


def by_name(name: str) -> dtype:
    """The dtype called `name`, for example "float32"."""
    return _BY_NAME[name]


def from_numpy(np_dtype: np.dtype) -> dtype:
    """The dtype of a NumPy dtype; TypeError for one that has no counterpart."""
    try:
        return FROM_NP[np_dtype]
    except KeyError:
        raise TypeError(f"can't convert a NumPy array of dtype `{np_dtype}`; the supported dtypes are "
                        + ", ".join(d.name for d in ALL)) from None


def get_default_dtype() -> dtype:
    """The dtype of floating-point tensors made without one (float32 at start)."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make `d`, a floating-point dtype, the default."""
    global _default
    if not given(d).is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    _default = d


def given(asked: Any, otherwise: dtype | None = None) -> dtype:
    """The dtype that is asked for, perhaps as Python's bool, int, float or complex; without one another or the default.

    TypeError for what is none.
    """
    if asked is None:
        return otherwise or _default
    if isinstance(asked, dtype):
        return asked
    if isinstance(asked, type) and asked in _OF_PYTHON:
        return _OF_PYTHON[asked]
    raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(asked).__name__}")


def bounds(d: dtype) -> tuple[Any, Any]:
    """What nothing of a dtype is smaller than, and larger."""
    if d.is_floating_point:
        return -math.inf, math.inf
    return (False, True) if d.np.kind == "b" else (int(np.iinfo(d.np).min), int(np.iinfo(d.np).max))


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype to which both can be cast, as `torch.promote_types`."""
    a, b = given(type1), given(type2)
    if a is b:
        return a
    if (a.is_barebones or b.is_barebones) and not (a.is_floating_point or b.is_floating_point):
        raise RuntimeError("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                           f"{a.word} and {b.word}")
    if a.category != b.category:
        higher, lower = (a, b) if a.category > b.category else (b, a)
        return complex128 if higher.is_complex and lower is float64 else higher
    if a.category >= FLOATING:
        if a.itemsize == b.itemsize:  # float16 and bfloat16
            return float32
        return a if a.itemsize > b.itemsize else b
    if a is uint8 or b is uint8:  # uint8 with a signed type: the signed type, at least int16
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.itemsize > b.itemsize else b


def of_number(number_type: type) -> dtype:
    """The dtype that a Python bool, int, float or complex takes when it becomes a tensor."""
    if number_type is bool:
        return bool_
    if number_type is complex:
        return complex128 if _default is float64 else complex64
    return int64 if number_type is int else _default


def result_type(dimensioned: Iterable[dtype], zero_dim: Iterable[dtype] = (), numbers: Iterable[type] = ()) -> dtype:
    """torch's result dtype of operands grouped as tensors with dimensions, 0-dim tensors, and Python numbers."""
    result: dtype | None = None
    for group in (dimensioned, zero_dim, [of_number(t) for t in numbers]):
        candidate: dtype | None = None
        for d in group:
            candidate = d if candidate is None else promote_types(candidate, d)
        if candidate is not None and (result is None or candidate.category > result.category):
            floats = result is not None and result.is_floating_point
            result = result.to_complex() if floats and candidate.is_complex else candidate  # type: ignore[union-attr]
    assert result is not None, "result_type needs at least one operand"
    return result


# --- beside the dtype: how elements are stored ---------------------------------------------------------------------


class layout:
    """Which elements a tensor stores: `strided` ones store all."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


class memory_format:
    """An order of the axes in memory. To wish for one has no effect: tensors are stored in the order of their axes.

    `order`: the axes from that of the largest stride to that of the smallest; none: as they come.
    """

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        self._name, self.order = name, order

    def __repr__(self) -> str:
        return f"torch.{self._name}"


strided = layout("strided")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))
legacy_contiguous_format = contiguous_format

__all__ = ["bfloat16", "cdouble", "cfloat", "channels_last", "channels_last_3d", "complex64", "complex128",
           "contiguous_format", "dtype", "float16", "float32", "float64", "get_default_dtype", "int8", "int16", "int32",
           "int64", "layout", "legacy_contiguous_format", "memory_format", "preserve_format", "promote_types",
           "set_default_dtype", "strided", "uint8", "uint16", "uint32", "uint64"]
