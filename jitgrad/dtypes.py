"""Data types and torch's promotion between them.

A tensor's dtype beats a number's unless the number is of a higher category (bool < integer < floating), and a tensor
with dimensions beats a 0-dim tensor in the same way.
Source: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class dtype:
    """A data type. Compare with `is` or `==`; there is one object per type."""

    __slots__ = ("category", "is_floating_point", "is_signed", "itemsize", "name", "np")

    def __init__(self, name: str, category: int, np_type: type):
        self.name, self.category, self.np = name, category, np.dtype(np_type)
        self.itemsize = self.np.itemsize
        self.is_floating_point = category == FLOATING
        self.is_signed = self.np.kind in "if"

    @property
    def is_complex(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"jitgrad.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (by_name, (self.name,))


BOOL, INTEGRAL, FLOATING = 0, 1, 2  # categories, in the order of promotion

bool_ = dtype("bool", BOOL, np.bool_)
uint8 = dtype("uint8", INTEGRAL, np.uint8)
int8 = dtype("int8", INTEGRAL, np.int8)
int16 = dtype("int16", INTEGRAL, np.int16)
int32 = dtype("int32", INTEGRAL, np.int32)
int64 = dtype("int64", INTEGRAL, np.int64)
float16 = dtype("float16", FLOATING, np.float16)
float32 = dtype("float32", FLOATING, np.float32)
float64 = dtype("float64", FLOATING, np.float64)

ALL = (bool_, uint8, int8, int16, int32, int64, float16, float32, float64)
FLOATS = (float16, float32, float64)
INTEGERS = (uint8, int8, int16, int32, int64)
_BY_NAME = {d.name: d for d in ALL}
_FROM_NP = {d.np: d for d in ALL}

_default = float32


def by_name(name: str) -> dtype:
    """The dtype called `name`, for example "float32"."""
    return _BY_NAME[name]


def from_numpy(np_dtype: np.dtype) -> dtype:
    """The dtype of a NumPy dtype; TypeError for one that has no counterpart."""
    try:
        return _FROM_NP[np_dtype]
    except KeyError:
        raise TypeError(f"can't convert a NumPy array of dtype `{np_dtype}`; the supported dtypes are "
                        + ", ".join(d.name for d in ALL)) from None


def get_default_dtype() -> dtype:
    """The dtype of floating-point tensors made without one (float32 at start)."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make `d`, a floating-point dtype, the default."""
    global _default
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    _default = d


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype to which both can be cast, as `torch.promote_types`."""
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == FLOATING:
        return a if a.itemsize > b.itemsize else b
    if a is uint8 or b is uint8:  # uint8 with a signed type: the signed type, at least int16
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.itemsize > b.itemsize else b


def of_number(number_type: type) -> dtype:
    """The dtype that a Python bool, int or float takes when it becomes a tensor."""
    if number_type is bool:
        return bool_
    return int64 if number_type is int else _default


def result_type(dimensioned: Iterable[dtype], zero_dim: Iterable[dtype] = (), numbers: Iterable[type] = ()) -> dtype:
    """torch's result dtype of operands grouped as tensors with dimensions, 0-dim tensors, and Python numbers."""
    result: dtype | None = None
    for group in (dimensioned, zero_dim, [of_number(t) for t in numbers]):
        candidate: dtype | None = None
        for d in group:
            candidate = d if candidate is None else promote_types(candidate, d)
        if candidate is not None and (result is None or candidate.category > result.category):
            result = candidate
    assert result is not None, "result_type needs at least one operand"
    return result
