"""Python's complex numbers made in a script: objects of a class written in Python, of two floats of the run."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args, handles
from jitgrad.script.frontend.values.instances import instance, stood_for
from jitgrad.script.frontend.values.plain import PlainKind
from jitgrad.script.frontend.values.protocol import binary, class_of, compare, is_dynamic, register, type_word


class Complex:
    """Rounds as Python's own: a real operand is one whose imaginary part is 0."""

    stands_for, parts = complex, ("real", "imag")
    instead = "use its parts, `z.real` and `z.imag`"

    def __init__(self, real: Any = 0.0, imag: Any = 0.0):
        self.real, self.imag = float(real), float(imag)

    def __add__(self, other: Any) -> Any:
        z = _of(other)
        return Complex(self.real + z.real, self.imag + z.imag)

    def __sub__(self, other: Any) -> Any:
        z = _of(other)
        return Complex(self.real - z.real, self.imag - z.imag)

    def __mul__(self, other: Any) -> Any:
        z = _of(other)
        return Complex(self.real * z.real - self.imag * z.imag, self.real * z.imag + self.imag * z.real)

    def __truediv__(self, other: Any) -> Any:
        z = _of(other)
        if abs(z.real) >= abs(z.imag):
            if z.real == 0:
                raise ZeroDivisionError(DIVISION)
            ratio = z.imag / z.real
            down = z.real + z.imag * ratio
            return Complex((self.real + self.imag * ratio) / down, (self.imag - self.real * ratio) / down)
        if abs(z.imag) >= abs(z.real):
            ratio = z.real / z.imag
            down = z.real * ratio + z.imag
            return Complex((self.real * ratio + self.imag) / down, (self.imag * ratio - self.real) / down)
        return Complex(math.nan, math.nan)

    def __radd__(self, other: Any) -> Any:
        return _of(other) + self

    def __rsub__(self, other: Any) -> Any:
        return _of(other) - self

    def __rmul__(self, other: Any) -> Any:
        return _of(other) * self

    def __rtruediv__(self, other: Any) -> Any:
        return _of(other) / self

    def __neg__(self) -> Any:
        return Complex(-self.real, -self.imag)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return math.hypot(self.real, self.imag)

    def __repr__(self) -> str:
        real, imag = repr(self.real).removesuffix(".0"), repr(self.imag).removesuffix(".0")
        if self.real == 0 and math.copysign(1.0, self.real) > 0:
            return f"{imag}j"
        return f"({real}{imag}j)" if imag.startswith("-") else f"({real}+{imag}j)"

    def __bool__(self) -> Any:
        return self.real != 0 or self.imag != 0

    def __eq__(self, other: Any) -> Any:
        z = _of(other)
        return self.real == z.real and self.imag == z.imag

    def conjugate(self) -> Any:
        return Complex(self.real, -self.imag)


try:
    _ = 1j / 0
except ZeroDivisionError as _error:
    DIVISION = str(_error)


def _of(value: Any) -> Any:
    """A number as one with two parts."""
    if not isinstance(value, (int, float, complex)):
        return beside(value)
    return Complex(value.real, value.imag) if isinstance(value, complex) else Complex(value)


def beside(value: Any) -> Any:
    """Refuses what is no number."""


@handles(beside)
def _beside(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    raise UnsupportedCall(f"an operation of {type_word(args[0])} with a complex number that the script computes",
                          context.span(), hint="make a tensor of its parts: `torch.complex(real, imag)`")


@register(complex)
class ComplexKind(PlainKind):
    """A complex constant; beside a number of the run one that the script makes."""

    rank = 2

    def _made(self, context: Context, op: Callable[..., Any], name: str, a: Any, b: Any) -> Any:
        if not is_dynamic(a) and not is_dynamic(b):
            return NotImplemented
        if not all(issubclass(stood_for(class_of(v)), (int, float, complex)) for v in (a, b)):
            return NotImplemented
        made = [instance(context, Complex, (v.real, v.imag), {}) if isinstance(v, complex) else v for v in (a, b)]
        return op(context, name, *made)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = self._made(context, binary, op, a, b)
        return super().binary(context, op, a, b) if found is NotImplemented else found

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = self._made(context, compare, op, a, b) if op in ("eq", "ne") else NotImplemented
        return super().compare(context, op, a, b) if found is NotImplemented else found


def _make(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    given = [*args, *kwargs.values()]
    if not any(map(is_dynamic, given)):
        return guarded(context, lambda: cls(*args, **kwargs))
    if any(issubclass(stood_for(class_of(v)), complex) for v in given):
        first, *rest = [v if issubclass(stood_for(class_of(v)), complex) else
                        instance(context, Complex, (v,), {}) for v in given]
        return binary(context, "add", first, binary(context, "mul", rest[0], 1j)) if rest else first
    return instance(context, Complex, args, kwargs)


CONSTRUCTORS.update({complex: _make, Complex: instance})
