"""Numbers of a script: graph values, and sizes, on which the library computes as on Python's."""

import operator
from collections.abc import Callable
from typing import Any

from jitgrad.dims import Dim, Size, is_not_one
from jitgrad.errors import NotStatic
from jitgrad.ops.backend import SymNumber
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, Type
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.graph.ir import Value

_KINDS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}
TYPES: dict[Type, type] = {BOOL: bool, INT: int, FLOAT: float}


class Number(SymNumber):
    """A run-time number.

    Attributes:
        number_type: bool, int, float; `object` where the kind is known only at run time.
        dim: the size that it is, for an int that is one.
        low, high: bounds low <= self < high of an int, None where unknown; high may be a size.
        denies: for a bool that is `not v`: v.
        span: for the length of a range, that is `max(span, 0)`: the span.
    """

    __slots__ = ("_value", "context", "denies", "dim", "high", "low", "number_type", "size_equality", "span")

    def __init__(self, context: Context, value: Value | None, number_type: type = int, dim: Dim | None = None):
        self.context, self._value, self.number_type, self.dim = context, value, number_type, dim
        self.low: int | None = None
        self.high: Size | None = None
        self.denies: Value | None = None
        self.span: Number | None = None
        self.size_equality = False

    @property
    def held(self) -> Value | None:
        """The graph value that it is; None for a size."""
        return self._value

    @property
    def value(self) -> Value:
        """The graph value; for a size, `dim.value` in this scope."""
        if self._value is not None:
            return self._value
        assert self.dim is not None
        size = self.context.sizes.canonical(self.dim)
        if isinstance(size, int):
            return self.context.constant(size)
        key = ("size", size)
        found = self.context.recall(key)
        if found is None:
            found = self.context.remember(key, self.context.one("dim.value", dim=size))
        value: Value = found
        return value

    @property
    def type(self) -> Type:
        return _KINDS.get(self.number_type, NUMBER)

    @property
    def size(self) -> Size | None:
        """The size that this int is, if it is one."""
        return None if self.dim is None else self.context.sizes.canonical(self.dim)

    def __repr__(self) -> str:
        return f"<{self.number_type.__name__} {self.dim if self.dim is not None else self._value}>"

    def __str__(self) -> str:
        return str(self.dim) if self.dim is not None else repr(self)

    def _binary(self, op: str, other: Any, swapped: bool = False) -> Any:
        if not isinstance(other, (bool, int, float, SymNumber)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return dispatch.binary_number(self.context, op, a, b, checked=False)

    def _compare(self, op: str, other: Any) -> Any:
        if not isinstance(other, (bool, int, float, SymNumber)):
            return NotImplemented
        return dispatch.compare_numbers(self.context, op, self, other)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._binary("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("mod", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("truediv", other, True)

    def __pow__(self, other: Any) -> Any:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, True)

    def __neg__(self) -> Any:
        return dispatch.unary_number(self.context, "neg", self)

    def __abs__(self) -> Any:
        return dispatch.unary_number(self.context, "abs", self)

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("ge", other)

    def __eq__(self, other: object) -> Any:
        if other is self:
            return True
        result = self._compare("eq", other)
        if isinstance(result, Number):
            result.size_equality = True  # `shape == shape` asks whether they are known to be equal
        return result

    def __ne__(self, other: object) -> Any:
        if other is self:
            return False
        return self._compare("ne", other)

    __hash__ = object.__hash__

    def minimum(self, other: Any) -> Any:
        return self._extreme("min", other)

    def maximum(self, other: Any) -> Any:
        return self._extreme("max", other)

    def _extreme(self, fn: str, other: Any) -> Any:
        """The smaller or larger of two numbers; of two sizes a size, so that `x[1:]` and `x[:-1]` have equal ones."""
        return dispatch.extreme_number(self.context, self, other, fn == "max")

    def is_one(self) -> bool:
        """At the first call, guarded where other sizes are possible. Raises NotStatic."""
        size = self.size
        if size is not None and is_not_one(size):
            return False
        try:
            return operator.index(self) == 1
        except NotStatic:
            raise NotStatic("whether the axis is left out depends on its size, which is known only at run time, and "
                            "with it how many axes the result has", self.context.span(),
                            hint="index the axis, `x[:, 0]`, where its size is 1; else leave it") from None

    def known_equal(self, other: Any) -> bool:
        if self is other:
            return True
        size = self.size
        theirs = other.size if isinstance(other, Number) else other
        return size is not None and theirs is not None and isinstance(theirs, (int, Dim)) and size == theirs

    def _not_static(self, what: str) -> NotStatic:
        return NotStatic(f"{what}, but this number is known only at run time", self.context.span(),
                         hint="use a literal or an attribute here, or compute the value outside the script")

    def _assumed(self, what: str) -> Any:
        """The value at the first call, guarded, where it is known at entry. Raises NotStatic."""
        found = self.context.inputs.assumed(self)
        if found is None:
            raise self._not_static(what)
        return found

    def __bool__(self) -> bool:
        if self.size_equality:
            return False
        return bool(self._assumed("a truth value is needed while compiling"))

    def __index__(self) -> int:
        size = self.size
        if isinstance(size, int):
            return size
        if size is not None and self.context.sizes.hint(size) is not None:
            return guarded_int(self)
        return operator.index(self._assumed("a constant int is needed here"))

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self._assumed("a constant float is needed here"))


def guarded_int(number: Number) -> int:
    """The value of a size at the first call, guarded: for places that need a constant. Raises NotStatic."""
    context, size = number.context, number.size
    hint = None if size is None else context.sizes.hint(size)
    if size is None or hint is None:
        raise number._not_static("a constant int is needed here")
    context.sizes.fix(size, hint)
    context.log.append(f"guarded the size {size} == {hint}")
    return hint


def size_number(size: Size) -> int | Number:
    """A size as an int or a Number."""
    context = current()
    size = context.sizes.canonical(size)
    if isinstance(size, int):
        return size
    number = Number(context, None, int, size)
    if context.sizes.at_least(size, 0):
        number.low = 0
    symbol = size.symbol
    if symbol is not None and symbol in context.ranges:
        number.low, number.high = context.ranges[symbol]
    return number


def teaches(context: Context, condition: Number, learnt: Callable[[Context, bool], None]) -> None:
    """`learnt` is told the outcome of a condition in each block that has one."""
    told = learnt if condition.denies is None else lambda cx, outcome: learnt(cx, not outcome)
    context.remember(("teaches", condition.denies or condition.value), told)


def learn(context: Context, condition: Value, outcome: bool) -> None:
    """In this block a condition has an outcome: what that says of items, and of how large an int is."""
    if (told := context.recall(("teaches", condition))) is not None:
        told(context, outcome)
    a, holds, fails = context.recall(("bounds", condition)) or (None, None, None)
    low = holds if outcome else fails
    if low is not None:
        context.remember(("low", a), low)
