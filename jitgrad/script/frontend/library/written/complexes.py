"""Python's complex numbers made in a script: objects of a class written in Python, of two floats of the run."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args, handles
from jitgrad.script.frontend.values import numbers
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

    def __pow__(self, other: Any) -> Any:
        z = _of(other)
        if z.imag == 0 and abs(z.real) <= 100 and z.real == math.floor(z.real):
            whole = _multiplied(self, abs(int(z.real)))
            if z.real > 0:
                return _finite(whole)
            if not whole:
                raise ZeroDivisionError(POWER)
            return _finite(Complex(1.0) / whole)
        if not self:
            if z.imag != 0 or z.real < 0:
                raise ZeroDivisionError(POWER)
            return Complex()
        size, angle = _ieee("hypot", self.real, self.imag), _ieee("atan2", self.imag, self.real)
        length, phase = _ieee("pow", size, z.real), angle * z.real
        if z.imag != 0:
            length *= _ieee("exp", -angle * z.imag)
            phase += z.imag * _ieee("log", size)
        if math.isinf(phase):  # which has no cosine
            raise ZeroDivisionError(POWER)
        return _finite(Complex(length * _ieee("cos", phase), length * _ieee("sin", phase)))

    def __radd__(self, other: Any) -> Any:
        return _of(other) + self

    def __rsub__(self, other: Any) -> Any:
        return _of(other) - self

    def __rmul__(self, other: Any) -> Any:
        return _of(other) * self

    def __rtruediv__(self, other: Any) -> Any:
        return _of(other) / self

    def __rpow__(self, other: Any) -> Any:
        return _of(other) ** self

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


def _multiplied(z: Any, n: int) -> Any:
    """`z` to the power of a count, in Python's order of products."""
    power = Complex(1.0)
    while n > 0:
        if n % 2 == 1:
            power = power * z
        n //= 2
        if n > 0:
            z = z * z
    return power


def _ieee(name: str, *args: float) -> Any:
    """The function of `math`; infinite where Python raises an OverflowError."""


@handles(_ieee)
def _ieee_of(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    name, *given = args
    return numbers.wrap(context, context.one("num.math", *[numbers.value_of(context, x) for x in given], fn=name))


def _finite(z: Any) -> Any:
    if math.isinf(z.real) or math.isinf(z.imag):
        raise OverflowError("complex exponentiation")
    return z


def _said(of: Callable[[], Any]) -> str:
    """Python's words for a division by zero."""
    try:
        return str(of())
    except ZeroDivisionError as error:
        return str(error)


DIVISION, POWER = _said(lambda: 1j / 0), _said(lambda: 0j**-1)


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
