"""Arithmetic, minima and maxima, and the elementwise functions that are made of several ops."""

from functools import partial
from typing import Any, overload

from jitgrad import dtypes
from jitgrad.dtypes import bool_
from jitgrad.ops import OPS
from jitgrad.ops.autocast import mode, widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend, select_number
from jitgrad.ops.library.core import (Number, Scalar, apply, as_operand, binary, bind, cast, composite, floating,
                                      in_float32, inplace, not_implemented, number_type, pair, pair_dtype,
                                      require_broadcast, require_floating, require_tensor, result_dtype, rounds, whole,
                                      written_operand)
from jitgrad.ops.library.elementary import reciprocal, sin, trunc
from jitgrad.ops.library.elements import complex_sums
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import product, require

__library__ = True

# --- arithmetic ----------------------------------------------------------------------------------------------------


def _require_alpha(alpha: Any, d: dtypes.dtype) -> None:
    """torch's RuntimeError for a factor that results of a dtype do not have."""
    kind = number_type(alpha)
    if kind is complex and not d.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if kind is float and not d.is_inexact:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind is bool and d is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")


def _scaled(other: Any, alpha: Any, d: dtypes.dtype) -> Any:
    x = as_operand(other, d)
    return x if type(alpha) is int and alpha == 1 else apply("mul", x, written_operand(alpha, d))


def _scaled_in_float32(fn: Any, input: Any, other: Any, alpha: Any, d: dtypes.dtype) -> Any:
    """input + alpha * other (or -) of a half type, rounded once; numbers are of that type first, as in torch."""
    operands = as_operand(input, d), as_operand(other, d), written_operand(alpha, d)
    return in_float32(lambda a, b, c: fn(a, mul(b, c)), d, *operands)


@overload
def add(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar, *, alpha: Scalar = ...) -> Tensor: ...
@overload
def add(input: Scalar, other: AnyTensor[Tensor], *, alpha: Scalar = ...) -> Tensor: ...
def add(input: Any, other: Any, *, alpha: Scalar = 1) -> Any:
    """input + alpha * other."""
    if type(alpha) is not int or alpha != 1:
        d = pair_dtype(input, other)
        _require_alpha(alpha, d)
        if d.is_half:
            return _scaled_in_float32(add, input, other, alpha, d)
        other = _scaled(other, alpha, d)
    return binary("add", input, other)


def _dtype_of(x: Any) -> dtypes.dtype:
    return x.dtype if isinstance(x, AnyTensor) else dtypes.of_number(number_type(x))


@overload
def sub(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar, *, alpha: Scalar = ...) -> Tensor: ...
@overload
def sub(input: Scalar, other: AnyTensor[Tensor], *, alpha: Scalar = ...) -> Tensor: ...
def sub(input: Any, other: Any, *, alpha: Scalar = 1) -> Any:
    """input - alpha * other. RuntimeError for bools."""
    d = pair_dtype(input, other)
    if _dtype_of(input) is bool_ or _dtype_of(other) is bool_:
        if d is bool_:
            raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                               "`logical_xor()` operator instead.")
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                           "invert a mask, use the `~` or `logical_not()` operator instead.")
    if type(alpha) is not int or alpha != 1:
        _require_alpha(alpha, d)
        if d.is_half:
            return _scaled_in_float32(sub, input, other, alpha, d)
        other = _scaled(other, alpha, d)
    return backend().apply(OPS["sub"], (as_operand(input, d), as_operand(other, d)), {})


def rsub(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """other - alpha * input."""
    return sub(other, input, alpha=alpha)


@overload
def mul(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar) -> Tensor: ...
@overload
def mul(input: Scalar, other: AnyTensor[Tensor]) -> Tensor: ...
def mul(input: Any, other: Any) -> Any:
    """input * other."""
    d = (operands := pair(input, other))[0].dtype
    if d.is_half and rounds(d, input, other):
        return in_float32(mul, d, input, other)
    return backend().apply(OPS["mul"], operands, {})


@overload
def div(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Scalar, *, rounding_mode: str | None = ...) -> Tensor: ...
@overload
def div(input: Scalar, other: AnyTensor[Tensor], *, rounding_mode: str | None = ...) -> Tensor: ...
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other; rounding_mode "trunc" rounds towards zero, "floor" down. Integers divide to floats without it."""
    d = pair_dtype(input, other)
    if rounding_mode is None:
        d = floating(d)
        if d.is_half and not isinstance(input, AnyTensor):  # torch's way
            return mul(reciprocal(as_operand(other, d)), input)
        if d.is_half and rounds(d, other):
            return in_float32(div, d, input, other)
        operands = (as_operand(input, d), as_operand(other, d))
        return backend().apply(OPS["div"], operands, {})
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                           f"'{rounding_mode}'")
    if d is bool_ or d.is_complex:
        raise not_implemented("div_trunc", d, input, other)
    a, b = as_operand(input, d), as_operand(other, d)
    if rounds(d, other):
        return in_float32(div, d, input, other, rounding_mode="trunc")
    if d.is_floating_point:
        return apply("div_trunc", a, b)
    return apply("floor_divide", apply("sub", a, fmod(a, other)), b)


def _divided(name: str, input: Any, other: Any) -> Any:
    """A division with a remainder; of integers by zero, on the CPU, it raises torch's error."""
    d = pair_dtype(input, other)
    if d is bool_ or d.is_complex:
        raise not_implemented(name, d, input, other)
    if not d.is_floating_point and not any(isinstance(x, AnyTensor) and x.is_cuda
                                                                  for x in (input, other)):
        nonzero = other != 0
        if isinstance(other, AnyTensor):
            asked = whole(other)
            nonzero = backend().item(apply("all", asked, axes=tuple(range(asked.ndim)), keepdim=False))
        nothing = isinstance(input, AnyTensor) and product(input.shape) == 0
        require(select_number(nothing, True, nonzero), RuntimeError, "ZeroDivisionError")
    return binary(name, input, other)


@overload
def floor_divide(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor: ...
@overload
def floor_divide(input: Number, other: AnyTensor[Tensor]) -> Tensor: ...
def floor_divide(input: Any, other: Any) -> Any:
    """The largest integer not above input / other, in the promoted dtype."""
    if isinstance(input, AnyTensor) and rounds(input.dtype, other):
        return in_float32(floor_divide, input.dtype, input, other)
    return _divided("floor_divide", input, other)


@overload
def remainder(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor: ...
@overload
def remainder(input: Number, other: AnyTensor[Tensor]) -> Tensor: ...
def remainder(input: Any, other: Any) -> Any:
    """input - other * floor(input / other), as Python's %."""
    return _divided("remainder", input, other)


def fmod(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor:
    """input - other * trunc(input / other), as C's fmod."""
    return _divided("fmod", input, other)


def neg(input: AnyTensor[Tensor]) -> Tensor:
    """-input. RuntimeError for bools."""
    if require_tensor("neg", input).dtype is bool_:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
                           "a mask, use the `~` or `logical_not()` operator instead.")
    return apply("neg", input)


def positive(input: AnyTensor[Tensor]) -> Tensor:
    """input itself. RuntimeError for bools."""
    x = require_tensor("positive", input)
    if x.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return x


@overload
def pow(input: AnyTensor[Tensor], exponent: AnyTensor[Tensor] | Scalar) -> Tensor: ...
@overload
def pow(input: Scalar, exponent: AnyTensor[Tensor]) -> Tensor: ...
def pow(input: Any, exponent: Any) -> Any:
    """input to the power exponent. RuntimeError for an integer tensor to a negative Python int."""
    if mode.low is not None:
        input, exponent = widen(input, "cuda"), widen(exponent, "cuda")
    d = pair_dtype(input, exponent)
    if isinstance(exponent, (int, float)):  # known now: the cases that need no power function
        if not d.is_inexact and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if isinstance(input, AnyTensor) and d is not bool_:
            x = as_operand(input, d)
            if exponent in (2, 3):
                return apply("square", x) if exponent == 2 else _cube(x)
            if d.is_inexact and exponent in _ROOTS:
                return apply("root", x, exponent=float(exponent))
            if d.is_half or not d.is_inexact:
                return apply("pow", x, written_operand(exponent, d))
    if d is bool_:  # a ** b is a >= b there
        if isinstance(exponent, AnyTensor):
            raise not_implemented("pow", d, input, exponent)
        return apply("logical_or", as_operand(input, d), apply("logical_not", as_operand(exponent, d)))
    return apply("pow", as_operand(input, d), as_operand(exponent, d))


@partial(composite, short=True)
def _cube(x: Any) -> Any:
    return apply("mul", apply("square", x), x)


_ROOTS = (0.5, -0.5, -1)


def addcmul(input: AnyTensor[Tensor], tensor1: AnyTensor[Tensor], tensor2: AnyTensor[Tensor], *,
            value: Number = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    d = result_dtype(input, tensor1, tensor2)
    if d is bool_:
        raise not_implemented("addcmul", d, input, tensor1, tensor2)
    if d.is_half:
        return in_float32(addcmul, d, input, tensor1, tensor2, value=value)
    return add(input, _scaled(mul(cast(tensor1, d), cast(tensor2, d)), value, d))


def addcdiv(input: AnyTensor[Tensor], tensor1: AnyTensor[Tensor], tensor2: AnyTensor[Tensor], *,
            value: Number = 1) -> Tensor:
    """input + value * tensor1 / tensor2. RuntimeError for integers."""
    if not result_dtype(tensor1, tensor2).is_inexact:
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
                           "will perform a true division of tensor1 and tensor2.")
    d = result_dtype(input, tensor1, tensor2)
    if d.is_half:
        return in_float32(addcdiv, d, input, tensor1, tensor2, value=value)
    a, b, one = cast(tensor1, d), cast(tensor2, d), isinstance(value, int) and value == 1
    if d.is_complex and not one:  # infinite quotients tell the order
        return add(input, div(mul(a, as_operand(value, d)), b))
    return add(input, div(a, b) if one else mul(div(a, b), as_operand(value, d)))


def lerp(input: AnyTensor[Tensor], end: AnyTensor[Tensor], weight: AnyTensor[Tensor] | Number) -> Tensor:
    """input + weight * (end - input), computed from the nearer end."""
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, AnyTensor) and x.dtype is not input.dtype and (x.ndim or name == "end"):
            raise RuntimeError(f"expected dtype {input.dtype.name} for `{name}` but got dtype {x.dtype.name}")
    d = result_dtype(input, weight) if isinstance(weight, AnyTensor) and not weight.ndim else input.dtype
    input, end = cast(input, d), cast(end, d)
    if not d.is_inexact:
        raise not_implemented("lerp_kernel", d, input, end, weight)
    if d.is_complex:
        w = as_operand(weight, d)
        size = apply("modulus", w)
        distance, one = apply("sub", end, input), as_operand(1, d)
        ends = add(input, mul(w, distance)), sub(end, mul(distance, sub(one, w)))
        return apply("where", apply("lt", size, as_operand(0.5, size.dtype)), *ends)
    if rounds(d, weight):
        return in_float32(lerp, d, input, end, weight)
    return apply("lerp", input, end, as_operand(weight, d))


# --- functions made of these ----------------------------------------------------------------------------------------


def frac(input: AnyTensor[Tensor]) -> Tensor:
    """input - trunc(input). NotImplementedError for integers."""
    require_floating("frac", require_tensor("frac", input).dtype)
    return sub(input, trunc(input))


def polygamma(n: int, input: AnyTensor[Tensor]) -> Tensor:
    """The n-th derivative of digamma."""
    x = cast(input, floating(input.dtype))
    return apply("digamma", x) if n == 0 else apply("polygamma", x, n=n)


def atan2(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """The angle of the point (other, input)."""
    d = floating(result_dtype(input, require_tensor("atan2", other, "other", 2)))
    if d.is_complex:
        raise not_implemented("atan2", d, input, other)
    return apply("atan2", as_operand(input, d), as_operand(other, d))


def logaddexp(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor:
    """log(exp(input) + exp(other)) without overflow. NotImplementedError where both are integers."""
    d = pair_dtype(input, require_tensor("logaddexp", other, "other", 2))
    if d.is_complex:
        return complex_sums.logaddexp(as_operand(input, d), as_operand(other, d))
    if not d.is_floating_point:
        raise not_implemented("logaddexp", d, input, other)
    return binary("logaddexp", input, other)


@overload
def xlogy(input: AnyTensor[Tensor], other: AnyTensor[Tensor] | Number) -> Tensor: ...
@overload
def xlogy(input: Number, other: AnyTensor[Tensor]) -> Tensor: ...
def xlogy(input: Any, other: Any) -> Any:
    """input * log(other), 0 where input is 0."""
    d = floating(result_dtype(input, other))
    return apply("xlogy", as_operand(input, d), as_operand(other, d))


def hypot(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """sqrt(input^2 + other^2), by the larger operand's scale."""
    d = result_dtype(input, require_tensor("hypot", other, "other", 2))
    if not d.is_floating_point:
        raise not_implemented("hypot", d, input, other)
    return apply("hypot", as_operand(input, d), as_operand(other, d))


_DEGREES = {"deg2rad": 0.017453292519943295, "rad2deg": 57.29577951308232}


def _turned(name: str, input: AnyTensor[Tensor]) -> Tensor:
    if require_tensor(name, input).dtype.is_complex:
        raise RuntimeError(f"{name} is not supported for complex tensors.")
    return mul(input, _DEGREES[name])


deg2rad = bind(_turned, "deg2rad", "deg2rad", "Degrees to radians. RuntimeError for complex numbers.")
rad2deg = bind(_turned, "rad2deg", "rad2deg", "Radians to degrees. RuntimeError for complex numbers.")


def sinc(input: AnyTensor[Tensor]) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    x = cast(input, floating(input.dtype))
    zero, one = as_operand(0, x.dtype), as_operand(1, x.dtype)
    at_zero = apply("eq", x, zero)
    scaled = mul(apply("where", at_zero, one, x), 3.141592653589793)
    return apply("where", at_zero, one, div(sin(scaled), scaled))


# --- minima, maxima, choice ----------------------------------------------------------------------------------------


def _require_ordered(name: str, input: Any, other: Any) -> None:
    if result_dtype(input, require_tensor(name, other, "other", 2)).is_complex:
        raise RuntimeError(f"{name} not implemented for complex tensors.")


def _extremum(name: str, input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    _require_ordered(name, input, other)
    return binary(name, require_tensor(name, input), other)


maximum = bind(_extremum, "maximum", "maximum", "The larger of two elements; NaN if one is NaN.")
minimum = bind(_extremum, "minimum", "minimum", "The smaller of two elements; NaN if one is NaN.")


def _without_nan(name: str, input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    _require_ordered("fmax" if name == "ge" else "fmin", input, other)
    d = result_dtype(input, other)
    a, b = as_operand(input, d), as_operand(other, d)
    return apply("where", apply("logical_or", apply(name, a, b), apply("ne", b, b)), a, b)


fmax = bind(_without_nan, "ge", "fmax", "The larger of two elements, the first of equal ones; the other of a NaN.")
fmin = bind(_without_nan, "le", "fmin", "The smaller of two elements, the first of equal ones; the other of a NaN.")


def clamp(input: AnyTensor[Tensor], min: AnyTensor[Tensor] | Number | None = None,
          max: AnyTensor[Tensor] | Number | None = None) -> Tensor:
    """Elements below min become min, then those above max become max. RuntimeError without a bound."""
    x = require_tensor("clamp", input)
    bounds = (min, max) if min is not None and max is not None else tuple([b for b in (min, max) if b is not None])
    if not bounds:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    d = result_dtype(x, *bounds)
    if d.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    if d is bool_ and len(bounds) == 1 and isinstance(bounds[0], AnyTensor):
        return apply("logical_and" if min is None else "logical_or", x, bounds[0])
    if d is bool_:
        raise NotImplementedError('"clamp_scalar_cpu" not implemented for \'Bool\'')
    x = cast(x, d)
    if max is None:
        return apply("clamp_min", x, written_operand(min, d))
    if min is None:
        return apply("clamp_max", x, written_operand(max, d))
    return apply("clamp", x, written_operand(min, d), written_operand(max, d))


def clamp_min(input: AnyTensor[Tensor], min: AnyTensor[Tensor] | Number) -> Tensor:
    """Elements below min become min."""
    return clamp(input, _bound("clamp_min", min))


def clamp_max(input: AnyTensor[Tensor], max: AnyTensor[Tensor] | Number) -> Tensor:
    """Elements above max become max."""
    require_broadcast(input, *[max] if isinstance(max, AnyTensor) else ())
    return clamp(input, None, _bound("clamp_max", max))


def _bound(name: str, bound: Any) -> Any:
    if bound is None:
        raise TypeError(f"{name}() received an invalid combination of arguments - got NoneType for a bound")
    return bound


clip = clamp

# --- in place ------------------------------------------------------------------------------------------------------

neg_, clamp_ = inplace(neg), inplace(clamp)

# --- torch's other names for the same things -----------------------------------------------------------------------

arctan2 = atan2
divide = true_divide = div
multiply = mul
negative = neg
subtract = sub

complete(globals())

__all__ = ["add", "addcdiv", "addcmul", "arctan2", "atan2", "clamp", "clamp_", "clamp_max", "clamp_min", "clip",
           "deg2rad", "div", "divide", "floor_divide", "fmax", "fmin", "fmod", "frac", "hypot", "lerp",
           "logaddexp", "maximum", "minimum", "mul", "multiply", "neg", "neg_", "negative", "polygamma",
           "positive", "pow", "rad2deg", "remainder", "rsub", "sinc", "sub", "subtract", "true_divide", "xlogy"]
