"""Powers of 2, neighbours, signs, what is finite, and common divisors: what is exact."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.dtypes import bool_, complex128, float64
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, floating, named, not_implemented, number_type,
                                      require_tensor, result_dtype, write)
from jitgrad.ops.library.elementary import abs
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.pointwise import mul, pow

__library__ = True


class frexp_result(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


def frexp(input: AnyTensor[Tensor]) -> frexp_result:
    """Named (mantissa, exponent): mantissa * 2^exponent is input, |mantissa| in [1/2, 1); exponent int32."""
    d = require_tensor("frexp", input).dtype
    if not d.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return frexp_result(*apply("frexp", input))


def ldexp(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """input * 2^other, in input's dtype for integers other; else infinite where 2^other alone is, as in torch."""
    require_tensor("ldexp", other, "other", 2)
    if input.dtype.is_complex and not other.dtype.is_inexact:
        other = cast(other, input.dtype.to_real())
    if not input.dtype.is_floating_point or other.dtype.is_inexact:
        return mul(input, pow(2.0, other))
    if other.dtype is bool_:
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    exponent = cast(other, float64)
    half = apply("floor", exponent * 0.5)  # the power may be too large where the product is not
    return cast(cast(input, float64) * pow(2.0, half) * pow(2.0, exponent - half), input.dtype)


def copysign(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor:
    """The magnitude of input with the sign of other (that of a negative zero too)."""
    d = floating(result_dtype(input, other))
    if d.is_complex:
        raise not_implemented("copysign", d, input, other)
    a, b, zero = abs(as_operand(input, d)), as_operand(other, d), as_operand(0, d)
    negative_zero = apply("lt", apply("reciprocal", b), zero)  # 1 / -0.0 is -inf
    negative = apply("where", apply("eq", b, zero), negative_zero, apply("lt", b, zero))
    a = apply("where", apply("lt", a, zero), b, a)  # a is never below 0: the gradient of `other` is 0, not absent
    return apply("where", negative, apply("neg", a), a)


def nan_to_num(input: AnyTensor[Tensor], nan: Number | None = None, posinf: Number | None = None,
               neginf: Number | None = None) -> Tensor:
    """NaN and infinities replaced: by 0 and the dtype's extremes unless given."""
    d = input.dtype
    for name, number in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
        if number is not None and number_type(number) is complex:
            raise TypeError(f"nan_to_num(): argument '{name}' must be float, not complex")
    if d.is_complex:
        return apply("complex", *[nan_to_num(apply(part, input), nan, posinf, neginf) for part in ("real", "imag")])
    if not d.is_floating_point:
        return apply("cast", input, dtype=d)
    limits = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
              "float64": 1.7976931348623157e308}[d.name]
    x = apply("where", apply("ne", input, input), as_operand(0.0 if nan is None else nan, d), input)
    high = as_operand(limits if posinf is None else posinf, d)
    low = as_operand(-limits if neginf is None else neginf, d)
    x = apply("where", apply("eq", x, as_operand(float("inf"), d)), high, x)
    return apply("where", apply("eq", x, as_operand(float("-inf"), d)), low, x)


def float_power(input: AnyTensor[Tensor] | Number, exponent: AnyTensor[Tensor] | Number) -> Any:
    """input to the power exponent in float64, or complex128."""
    d = complex128 if result_dtype(input, exponent).is_complex else float64
    return pow(as_operand(input, d), as_operand(exponent, d) if isinstance(exponent, AnyTensor) else exponent)


def float_power_(input: AnyTensor[Tensor], exponent: AnyTensor[Tensor] | Number) -> Tensor:
    """In-place version of `float_power`. RuntimeError unless input has the dtype of the result."""
    d = complex128 if result_dtype(input, exponent).is_complex else float64
    if input.dtype is not d:
        raise RuntimeError(f"the base given to float_power_ has dtype {input.dtype.word} but the operation's result "
                           f"requires dtype {d.word}")
    since = backend().mark()
    return write(input, float_power(input, exponent), since)


def nextafter(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The floating-point number next to input on the way to other. NotImplementedError for integers."""
    d = result_dtype(require_tensor("nextafter", input), require_tensor("nextafter", other, "other", 2))
    if not d.is_floating_point:
        raise not_implemented("nextafter", d, input, other)
    return apply("nextafter", cast(input, d), cast(other, d))


def _of_integers(name: str, doc: str) -> Callable[[AnyTensor[Tensor], AnyTensor[Tensor]], Tensor]:
    """An op of whole numbers."""
    def fn(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
        d = result_dtype(input, require_tensor(name, other, "other", 2))
        if d.is_inexact or d is bool_:
            raise not_implemented(name, d, input, other)
        return apply(name, as_operand(input, d), as_operand(other, d))

    return named(fn, name, doc)


gcd = _of_integers("gcd", "The greatest common divisor; NotImplementedError for floats and bools.")
lcm = _of_integers("lcm", "The least common multiple; NotImplementedError for floats and bools.")

complete(globals())

__all__ = ["copysign", "float_power", "frexp", "gcd", "lcm", "ldexp", "nan_to_num", "nextafter"]
