"""Powers of 2, neighbours and common divisors: what is exact."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.dtypes import bool_, complex128, float64
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, named, not_implemented, require_floating,
                                      require_tensor, result_dtype, write)
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
    if not input.dtype.is_floating_point or other.dtype.is_inexact:
        return mul(input, pow(2.0, other))
    if other.dtype is bool_:
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    exponent = cast(other, float64)
    half = apply("floor", exponent * 0.5)  # the power may be too large where the product is not
    return cast(cast(input, float64) * pow(2.0, half) * pow(2.0, exponent - half), input.dtype)


def float_power(input: AnyTensor[Tensor] | Number, exponent: AnyTensor[Tensor] | Number) -> Any:
    """input to the power exponent in float64, or complex128."""
    d = complex128 if result_dtype(input, exponent).is_complex else float64
    return pow(as_operand(input, d), as_operand(exponent, d) if isinstance(exponent, AnyTensor) else exponent)


def float_power_(input: AnyTensor[Tensor], exponent: AnyTensor[Tensor] | Number) -> Tensor:
    """In-place version of `float_power`. RuntimeError unless input is float64."""
    if input.dtype is not float64:
        raise RuntimeError(f"the base given to float_power_ has dtype {input.dtype.word} but the operation's result "
                           "requires dtype Double")
    since = backend().mark()
    return write(input, float_power(input, exponent), since)


def nextafter(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The floating-point number next to input on the way to other. NotImplementedError for integers."""
    d = result_dtype(require_tensor("nextafter", input), require_tensor("nextafter", other, "other", 2))
    require_floating("nextafter", d)
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

__all__ = ["float_power", "frexp", "gcd", "lcm", "ldexp", "nextafter"]
