"""What a place is filled with."""

from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops.backend import AnyTensor, Batched
from jitgrad.ops.library.core import converted, written_operand

__library__ = True


def filling(value: Any, d: dtype) -> Any:
    """What a place is filled with, a number or a tensor of one, in dtype `d`, which on the CPU must hold it."""
    x: Any = value
    if not isinstance(value, AnyTensor) or value.dtype is d:
        return written_operand(value, d)
    if not x.is_cuda and not isinstance(x, Batched):
        written_operand(x.item(), d)
    return converted(value, d)


def wrapped(value: Any, d: dtype) -> Any:
    """A number as one that NumPy takes for a dtype: unsigned types have negative ones modulo their range."""
    unsigned = d.category == dtypes.INTEGRAL and not d.is_signed
    return value % (1 << 8 * d.itemsize) if unsigned and isinstance(value, int) and value < 0 else value
