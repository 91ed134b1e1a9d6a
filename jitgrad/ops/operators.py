"""Operators of tensors: Python's dunders on the library's functions, once for eager and for script tensors."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library import compare, elementary, pointwise, reduce
from jitgrad.ops.library.core import OPERAND, library
from jitgrad.ops.library.keywords import plain
from jitgrad.ops.library.linear_algebra import linalg
from jitgrad.ops.library.shapes import indexing, shape
from jitgrad.ops.library.sizes import product
from jitgrad.ops.methods import Methods


def _operator(fn: Callable[..., Any], operand: Any = OPERAND) -> Callable[[AnyTensor[Tensor], Any], Tensor]:
    """`self <operator> other` by a function of the library."""
    fn = plain(fn)

    @library
    def operator(self: Any, other: Any) -> Any:
        return fn(self, other) if isinstance(other, operand) else NotImplemented

    return operator


def _equality(fn: Callable[..., Any]) -> Callable[[AnyTensor[Tensor], Any], Tensor]:
    """`self == other`, of an array too: Python would otherwise ask whether the two are one object."""
    fn = plain(fn)

    @library
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            other = backend().from_data(other, None, self)
        return fn(self, other) if isinstance(other, OPERAND) else NotImplemented

    return operator


def _reflected(fn: Callable[..., Any]) -> Callable[[AnyTensor[Tensor], Any], Tensor]:
    """`other <operator> self`."""
    fn = plain(fn)

    @library
    def operator(self: Any, other: Any) -> Any:
        return fn(other, self) if isinstance(other, OPERAND) else NotImplemented

    return operator


def _real(number: Any, word: str) -> Any:
    """A number without an imaginary part. RuntimeError for one that has some."""
    if not isinstance(number, complex):
        return number
    if number.imag:
        raise RuntimeError(f"value cannot be converted to type {word} without overflow")
    return number.real


class Operators(Methods[Tensor]):
    """`+`, `==`, `x[key]`, `len`, `bool` and so on; other operands than tensors and numbers are left to their type."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy's operators leave mixed operands to ours
    __hash__ = object.__hash__
    item: Any

    __add__ = _operator(pointwise.add)
    __radd__ = __add__
    __sub__ = _operator(pointwise.sub)
    __rsub__ = _reflected(pointwise.sub)
    __mul__ = _operator(pointwise.mul)
    __rmul__ = __mul__
    __truediv__ = _operator(pointwise.div)
    __rtruediv__ = _reflected(pointwise.div)
    __floordiv__ = _operator(pointwise.floor_divide)
    __rfloordiv__ = _reflected(pointwise.floor_divide)
    __mod__ = _operator(pointwise.remainder)
    __rmod__ = _reflected(pointwise.remainder)
    __pow__ = _operator(pointwise.pow)
    __rpow__ = _reflected(pointwise.pow)
    __matmul__ = _operator(linalg.matmul, AnyTensor)
    __and__ = _operator(compare.bitwise_and)
    __or__ = _operator(compare.bitwise_or)
    __xor__ = _operator(compare.bitwise_xor)
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __lshift__ = _operator(compare.bitwise_left_shift)
    __rshift__ = _operator(compare.bitwise_right_shift)
    __rlshift__ = _reflected(compare.bitwise_left_shift)
    __rrshift__ = _reflected(compare.bitwise_right_shift)
    __eq__ = _equality(compare.eq)  # type: ignore[assignment]
    __ne__ = _equality(compare.ne)  # type: ignore[assignment]
    __lt__ = _operator(compare.lt)
    __le__ = _operator(compare.le)
    __gt__ = _operator(compare.gt)
    __ge__ = _operator(compare.ge)
    __iadd__ = _operator(Methods.add_)
    __isub__ = _operator(Methods.sub_)
    __imul__ = _operator(Methods.mul_)
    __itruediv__ = _operator(Methods.div_)
    __ifloordiv__ = _operator(Methods.floor_divide_)
    __imod__ = _operator(Methods.remainder_)
    __ipow__ = _operator(Methods.pow_)
    __iand__ = _operator(Methods.bitwise_and_)
    __ior__ = _operator(Methods.bitwise_or_)
    __ilshift__ = _operator(Methods.bitwise_left_shift_)
    __irshift__ = _operator(Methods.bitwise_right_shift_)
    __ixor__ = _operator(Methods.bitwise_xor_)

    __neg__, __pos__, __abs__, __invert__ = pointwise.neg, pointwise.positive, elementary.abs, compare.bitwise_not
    __getitem__, __setitem__ = indexing.getitem, indexing.setitem

    def __len__(self: Any) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self: Any) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(shape.unbind(self))

    def __contains__(self: Any, element: Any) -> bool:
        return bool(reduce.any(compare.eq(self, element)).item())

    def __bool__(self: Any) -> bool:
        n = product(self.shape)
        if isinstance(n, int) and n != 1:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if n == 0 else
                               "Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __int__(self: Any) -> int:
        return int(_real(self.item(), "int64_t"))

    def __float__(self: Any) -> float:
        return float(_real(self.item(), "double"))

    def __complex__(self: Any) -> complex:
        return complex(self.item())

    def __index__(self: Any) -> int:
        if self.dtype.is_inexact or product(self.shape) != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())
