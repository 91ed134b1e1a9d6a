"""What a place is filled with."""

from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dtypes import bool_, dtype
from jitgrad.ops.backend import AnyTensor, Batched
from jitgrad.ops.library.core import apply, as_operand, converted, written_operand
from jitgrad.ops.library.sizes import require

__library__ = True


def filling(value: Any, d: dtype) -> Any:
    """What a place is filled with, a number or a tensor of one, in dtype `d`, which on the CPU must hold it."""
    x: Any = value
    if not isinstance(value, AnyTensor) or value.dtype is d:
        return written_operand(value, d)
    if x.dtype.is_complex and not d.is_complex and d is not bool_:
        x, rest = apply("real", x), apply("imag", x)
        if not x.is_cuda and not isinstance(x, Batched):
            require(rest.item() == 0, RuntimeError, f"value cannot be converted to type {d.name} without overflow")
    if not x.is_cuda and not isinstance(x, Batched):
        written_operand(x.item(), d)
    return converted(value, d)


def repeatable(value: Any, d: dtype, shape: Any) -> Any:
    """What is repeated to a shape, in dtype `d`, which must hold it; of one element torch lets a half type overflow."""
    one = d.is_half and all(isinstance(n, int) and n == 1 for n in shape)
    return (as_operand if one else written_operand)(value, d)


def wrapped(value: Any, d: dtype) -> Any:
    """A number that NumPy takes for a dtype without a word: unsigned types have negative ones modulo their range, and
    half types infinity for what is too large."""
    if d.is_half and isinstance(value, float):
        with np.errstate(over="ignore"):
            return float(np.float64(value).astype(d.np))
    unsigned = d.category == dtypes.INTEGRAL and not d.is_signed
    return value % (1 << 8 * d.itemsize) if unsigned and isinstance(value, int) and value < 0 else value
