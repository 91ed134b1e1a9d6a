"""Functions of one argument that are one op each: exponentials, roots, angles, rounding, sizes and signs."""

from collections.abc import Callable

from jitgrad import dtypes
from jitgrad.dtypes import bool_
from jitgrad.ops import OPS
from jitgrad.ops.autocast import mode, widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import apply, as_operand, bind, cast, inplace, named, require_tensor
from jitgrad.ops.library.keywords import complete

__library__ = True

#: what autocast on a GPU computes in float32
_WIDENED = {"acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
            "sinh", "tan"}


def _float_unary(name: str, doc: str) -> Callable[[AnyTensor[Tensor]], Tensor]:
    """A function that turns integers and bools into floats first."""
    widened = name in _WIDENED

    def fn(input: AnyTensor[Tensor]) -> Tensor:
        if not isinstance(input, AnyTensor):
            require_tensor(name, input)
        if widened and mode.low is not None:
            input = widen(input, "cuda")
        d = input.dtype
        if not d.is_inexact:
            input = cast(input, dtypes.get_default_dtype())
        return backend().apply(OPS[name], (input,), {})

    return named(fn, name, doc)


def _unary(name: str, doc: str) -> Callable[[AnyTensor[Tensor]], Tensor]:
    """A function that keeps the dtype; bools and complex numbers are refused as torch does."""
    def fn(input: AnyTensor[Tensor]) -> Tensor:
        if require_tensor(name, input).dtype is bool_:
            raise NotImplementedError(f'"{name}_cpu" not implemented for \'Bool\'')
        if input.dtype.is_complex:
            raise NotImplementedError(f"{name} is not supported for complex inputs")
        return backend().apply(OPS[name], (input,), {})

    return named(fn, name, doc)


exp = _float_unary("exp", "e to the power of each element.")
exp2 = _float_unary("exp2", "2 to the power of each element.")
expm1 = _float_unary("expm1", "exp(input) - 1, accurate near 0.")
log = _float_unary("log", "The natural logarithm.")
log1p = _float_unary("log1p", "log(1 + input), accurate near 0.")
log2 = _float_unary("log2", "The binary logarithm.")
log10 = _float_unary("log10", "The decimal logarithm.")
sqrt = _float_unary("sqrt", "The square root.")
rsqrt = _float_unary("rsqrt", "1 / sqrt(input).")
sin = _float_unary("sin", "Sine.")
cos = _float_unary("cos", "Cosine.")
tan = _float_unary("tan", "Tangent.")
asin = arcsin = _float_unary("asin", "Arc sine.")
acos = arccos = _float_unary("acos", "Arc cosine.")
atan = arctan = _float_unary("atan", "Arc tangent.")
sinh = _float_unary("sinh", "Hyperbolic sine.")
cosh = _float_unary("cosh", "Hyperbolic cosine.")
tanh = _float_unary("tanh", "Hyperbolic tangent.")
asinh = arcsinh = _float_unary("asinh", "Inverse hyperbolic sine.")
acosh = arccosh = _float_unary("acosh", "Inverse hyperbolic cosine.")
atanh = arctanh = _float_unary("atanh", "Inverse hyperbolic tangent.")
erf = _float_unary("erf", "The error function.")
erfc = _float_unary("erfc", "1 - erf(input).")
erfinv = _float_unary("erfinv", "The inverse of erf.")
lgamma = _float_unary("lgamma", "The logarithm of the absolute value of the gamma function.")
digamma = _float_unary("digamma", "The derivative of lgamma.")
reciprocal = _float_unary("reciprocal", "1 / input.")
sigmoid = _float_unary("sigmoid", "1 / (1 + exp(-input)).")

floor = _unary("floor", "The largest integer not above each element.")
ceil = _unary("ceil", "The smallest integer not below each element.")
trunc = fix = _unary("trunc", "Each element without its fraction.")


def _but_bools(name: str, input: AnyTensor[Tensor]) -> Tensor:
    x = require_tensor(name, input)
    if x.dtype.is_complex and name == "sign":
        raise NotImplementedError("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
                                  "torch.sgn instead.")
    return apply(name, x) if x.dtype is not bool_ else cast(apply("cast", x, dtype=dtypes.int8), bool_)


sign = bind(_but_bools, "sign", "sign", "-1, 0 or 1; bools stay.")


def abs(input: AnyTensor[Tensor]) -> Tensor:
    """The absolute value, real for complex numbers."""
    d = require_tensor("abs", input).dtype
    if d is bool_:
        raise NotImplementedError('"abs_cpu" not implemented for \'Bool\'')
    return backend().apply(OPS["modulus" if d.is_complex else "abs"], (input,), {})


absolute = abs


def sgn(input: AnyTensor[Tensor]) -> Tensor:
    """-1, 0 or 1; of complex numbers input / |input|, 0 at 0."""
    return apply("sgn", input) if require_tensor("sgn", input).dtype.is_complex else sign(input)


def square(input: AnyTensor[Tensor]) -> Tensor:
    """input * input."""
    if require_tensor("square", input).dtype is bool_:
        input = cast(input, dtypes.int64)
    return apply("square", widen(input, "cuda"))


def round(input: AnyTensor[Tensor], *, decimals: int | None = None) -> Tensor:
    """The nearest integer, halves to even; or to a number of decimal places."""
    if require_tensor("round", input).dtype is bool_:
        raise NotImplementedError('"round_cpu" not implemented for \'Bool\'')
    if decimals is not None and not input.dtype.is_floating_point:
        raise NotImplementedError(f'"round_cpu" not implemented for \'{input.dtype.word}\'')
    if not decimals:
        return apply("round", input)
    scale = as_operand(10.0 ** (decimals if decimals > 0 else -decimals), input.dtype)
    up, down = ("mul", "div") if decimals > 0 else ("div", "mul")
    return apply(down, apply("round", apply(up, input, scale)), scale)


# --- in place ------------------------------------------------------------------------------------------------------



def abs_(input: AnyTensor[Tensor]) -> Tensor:
    """In-place version of `abs`. RuntimeError for complex numbers, whose absolute values are real."""
    if require_tensor("abs_", input).dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return _overwrite_abs(input)


_overwrite_abs = inplace(abs)
square_, round_, floor_, ceil_ = inplace(square), inplace(round), inplace(floor), inplace(ceil)
exp_, sqrt_, sin_, cos_ = inplace(exp), inplace(sqrt), inplace(sin), inplace(cos)
tanh_, sigmoid_ = inplace(tanh), inplace(sigmoid)

complete(globals())

__all__ = ["abs", "abs_", "absolute", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh",
           "asin", "asinh", "atan", "atanh", "ceil", "ceil_", "cos", "cos_", "cosh", "digamma", "erf", "erfc", "erfinv",
           "exp", "exp2", "exp_", "expm1", "fix", "floor", "floor_", "lgamma", "log", "log1p", "log2", "log10",
           "reciprocal", "round", "round_", "rsqrt", "sgn", "sigmoid", "sigmoid_", "sign", "sin", "sin_", "sinh",
           "sqrt", "sqrt_", "square", "square_", "tan", "tanh", "tanh_", "trunc"]
