"""Operators of tensors: Python's dunders on the library's functions, once for eager and for script tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitgrad.ops.backend import AnyTensor
from jitgrad.ops.library import compare, indexing, linalg, pointwise, reduce, shape
from jitgrad.ops.library.core import OPERAND, library, product


class Operators(AnyTensor):
    """`+`, `==`, `x[key]`, `len`, `bool` and so on; other operands than tensors and numbers are left to their type."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy's operators leave mixed operands to ours
    __hash__ = object.__hash__
    shape: Any
    dtype: Any
    ndim: Any
    item: Any

    @library
    def __add__(self, other: Any) -> Any:
        return pointwise.add(self, other) if isinstance(other, OPERAND) else NotImplemented

    __radd__ = __add__

    @library
    def __sub__(self, other: Any) -> Any:
        return pointwise.sub(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rsub__(self, other: Any) -> Any:
        return pointwise.sub(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __mul__(self, other: Any) -> Any:
        return pointwise.mul(self, other) if isinstance(other, OPERAND) else NotImplemented

    __rmul__ = __mul__

    @library
    def __truediv__(self, other: Any) -> Any:
        return pointwise.div(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rtruediv__(self, other: Any) -> Any:
        return pointwise.div(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __floordiv__(self, other: Any) -> Any:
        return pointwise.floor_divide(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rfloordiv__(self, other: Any) -> Any:
        return pointwise.floor_divide(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __mod__(self, other: Any) -> Any:
        return pointwise.remainder(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rmod__(self, other: Any) -> Any:
        return pointwise.remainder(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __pow__(self, other: Any) -> Any:
        return pointwise.pow(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rpow__(self, other: Any) -> Any:
        return pointwise.pow(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __matmul__(self, other: Any) -> Any:
        return linalg.matmul(self, other) if isinstance(other, AnyTensor) else NotImplemented

    @library
    def __and__(self, other: Any) -> Any:
        return compare.bitwise_and(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __or__(self, other: Any) -> Any:
        return compare.bitwise_or(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __xor__(self, other: Any) -> Any:
        return compare.bitwise_xor(self, other) if isinstance(other, OPERAND) else NotImplemented

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    @library
    def __lshift__(self, other: Any) -> Any:
        return compare.bitwise_left_shift(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rshift__(self, other: Any) -> Any:
        return compare.bitwise_right_shift(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rlshift__(self, other: Any) -> Any:
        return compare.bitwise_left_shift(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rrshift__(self, other: Any) -> Any:
        return compare.bitwise_right_shift(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __eq__(self, other: object) -> Any:
        return compare.eq(self, other) if isinstance(other, OPERAND) else NotImplemented  # type: ignore[arg-type]

    @library
    def __ne__(self, other: object) -> Any:
        return compare.ne(self, other) if isinstance(other, OPERAND) else NotImplemented  # type: ignore[arg-type]

    @library
    def __lt__(self, other: Any) -> Any:
        return compare.lt(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __le__(self, other: Any) -> Any:
        return compare.le(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __gt__(self, other: Any) -> Any:
        return compare.gt(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ge__(self, other: Any) -> Any:
        return compare.ge(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __iadd__(self, other: Any) -> Any:
        return pointwise.add_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __isub__(self, other: Any) -> Any:
        return pointwise.sub_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __imul__(self, other: Any) -> Any:
        return pointwise.mul_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __itruediv__(self, other: Any) -> Any:
        return pointwise.div_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ifloordiv__(self, other: Any) -> Any:
        return pointwise.floor_divide_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __imod__(self, other: Any) -> Any:
        return pointwise.remainder_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ipow__(self, other: Any) -> Any:
        return pointwise.pow_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __iand__(self, other: Any) -> Any:
        return compare.bitwise_and_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ior__(self, other: Any) -> Any:
        return compare.bitwise_or_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ixor__(self, other: Any) -> Any:
        return compare.bitwise_xor_(self, other) if isinstance(other, OPERAND) else NotImplemented

    __neg__, __pos__, __abs__, __invert__ = pointwise.neg, pointwise.positive, pointwise.abs, compare.bitwise_not
    __getitem__, __setitem__ = indexing.getitem, indexing.setitem

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(shape.unbind(self))

    def __contains__(self, element: Any) -> bool:
        return bool(reduce.any(compare.eq(self, element)).item())

    def __bool__(self) -> bool:
        n = product(self.shape)
        if isinstance(n, int) and n != 1:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if n == 0 else
                               "Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point or product(self.shape) != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())
