"""Operators of tensors: Python's dunders on the library's functions, once for eager and for script tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library import compare, pointwise, reduce
from jitgrad.ops.library.core import OPERAND, is_tensor, library, product
from jitgrad.ops.library.linear_algebra import linalg
from jitgrad.ops.library.shapes import indexing, shape


class Operators(AnyTensor[Tensor]):
    """`+`, `==`, `x[key]`, `len`, `bool` and so on; other operands than tensors and numbers are left to their type."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy's operators leave mixed operands to ours
    __hash__ = object.__hash__
    item: Any

    @library
    def __add__(self: Any, other: Any) -> Tensor:
        return pointwise.add(self, other) if isinstance(other, OPERAND) else NotImplemented

    __radd__ = __add__

    @library
    def __sub__(self: Any, other: Any) -> Tensor:
        return pointwise.sub(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rsub__(self: Any, other: Any) -> Tensor:
        return pointwise.sub(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __mul__(self: Any, other: Any) -> Tensor:
        return pointwise.mul(self, other) if isinstance(other, OPERAND) else NotImplemented

    __rmul__ = __mul__

    @library
    def __truediv__(self: Any, other: Any) -> Tensor:
        return pointwise.div(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rtruediv__(self: Any, other: Any) -> Tensor:
        return pointwise.div(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __floordiv__(self: Any, other: Any) -> Tensor:
        return pointwise.floor_divide(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rfloordiv__(self: Any, other: Any) -> Tensor:
        return pointwise.floor_divide(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __mod__(self: Any, other: Any) -> Tensor:
        return pointwise.remainder(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rmod__(self: Any, other: Any) -> Tensor:
        return pointwise.remainder(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __pow__(self: Any, other: Any) -> Tensor:
        return pointwise.pow(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rpow__(self: Any, other: Any) -> Tensor:
        return pointwise.pow(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __matmul__(self: Any, other: Any) -> Tensor:
        return linalg.matmul(self, other) if is_tensor(other) else NotImplemented

    @library
    def __and__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_and(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __or__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_or(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __xor__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_xor(self, other) if isinstance(other, OPERAND) else NotImplemented

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    @library
    def __lshift__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_left_shift(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rshift__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_right_shift(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rlshift__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_left_shift(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __rrshift__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_right_shift(other, self) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __eq__(self: Any, other: object) -> Tensor:  # type: ignore[override]
        return compare.eq(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ne__(self: Any, other: object) -> Tensor:  # type: ignore[override]
        return compare.ne(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __lt__(self: Any, other: Any) -> Tensor:
        return compare.lt(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __le__(self: Any, other: Any) -> Tensor:
        return compare.le(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __gt__(self: Any, other: Any) -> Tensor:
        return compare.gt(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ge__(self: Any, other: Any) -> Tensor:
        return compare.ge(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __iadd__(self: Any, other: Any) -> Tensor:
        return pointwise.add_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __isub__(self: Any, other: Any) -> Tensor:
        return pointwise.sub_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __imul__(self: Any, other: Any) -> Tensor:
        return pointwise.mul_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __itruediv__(self: Any, other: Any) -> Tensor:
        return pointwise.div_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ifloordiv__(self: Any, other: Any) -> Tensor:
        return pointwise.floor_divide_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __imod__(self: Any, other: Any) -> Tensor:
        return pointwise.remainder_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ipow__(self: Any, other: Any) -> Tensor:
        return pointwise.pow_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __iand__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_and_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ior__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_or_(self, other) if isinstance(other, OPERAND) else NotImplemented

    @library
    def __ixor__(self: Any, other: Any) -> Tensor:
        return compare.bitwise_xor_(self, other) if isinstance(other, OPERAND) else NotImplemented

    __neg__, __pos__, __abs__, __invert__ = pointwise.neg, pointwise.positive, pointwise.abs, compare.bitwise_not
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
        return int(self.item())

    def __float__(self: Any) -> float:
        return float(self.item())

    def __index__(self: Any) -> int:
        if self.dtype.is_floating_point or product(self.shape) != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())
