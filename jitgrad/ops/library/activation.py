"""Activations, as `nn.functional` names them. Their parameters may be run-time numbers in a script."""

import math
from collections.abc import Callable
from typing import Any, Protocol

from jitgrad.dtypes import bool_
from jitgrad.ops.autocast import lower, widen
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, select_number
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, floating, inplace, named, not_implemented,
                                      require_floating, require_tensor, written_operand)
from jitgrad.ops.library.elementary import abs, sigmoid, tanh
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.pointwise import add, clamp, div, mul, sub
from jitgrad.ops.library.sizes import require

__library__ = True


def _floats(name: str, x: Any) -> Any:
    require_floating(name, require_tensor(name, x).dtype)
    return x


def _dynamic(*parameters: Any) -> bool:
    """Whether a parameter is a run-time number, which no attribute of an op can hold."""
    return any(isinstance(p, SymNumber) for p in parameters)


# --- without parameters --------------------------------------------------------------------------------------------


def relu(input: AnyTensor[Tensor]) -> Tensor:
    """max(input, 0)."""
    if require_tensor("relu", input).dtype is bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    return apply("relu", input)


def _activation(name: str, doc: str, word: str = "") -> Callable[[AnyTensor[Tensor]], Tensor]:
    """An activation of floats; `word`: torch's for it in its message."""
    def fn(input: AnyTensor[Tensor]) -> Tensor:
        return apply(name, _floats(word or name, input))

    return named(fn, name, doc)


selu = _activation("selu", "The self-normalising elu.")
logsigmoid = _activation("logsigmoid", "log(sigmoid(input)).", "log_sigmoid")


def softsign(input: AnyTensor[Tensor]) -> Tensor:
    """input / (1 + |input|)."""
    x = require_tensor("softsign", input)
    return apply("softsign", x) if x.dtype.is_floating_point else div(x, add(abs(x), 1))


def tanhshrink(input: AnyTensor[Tensor]) -> Tensor:
    """input - tanh(input)."""
    x = require_tensor("tanhshrink", input)
    return apply("tanhshrink", x) if x.dtype.is_floating_point else sub(x, tanh(x))


class Activation(Protocol):
    """`nn.functional`'s form of an activation."""

    def __call__(self, input: AnyTensor[Tensor], inplace: bool = False) -> Tensor: ...


def with_inplace(fn: Callable[[AnyTensor[Tensor]], Tensor]) -> Activation:
    """`fn` with torch's option `inplace`."""
    overwrite = inplace(fn)

    def either(input: AnyTensor[Tensor], inplace: bool = False) -> Tensor:
        return overwrite(input) if inplace else fn(input)

    return named(either, fn.__name__, fn.__doc__ or "")  # type: ignore[return-value]


def _relu6(input: AnyTensor[Tensor]) -> Tensor:
    x = require_tensor("relu6", input)
    return apply("relu6", x) if x.dtype.is_floating_point else hardtanh(x, 0, 6)


def _silu(input: AnyTensor[Tensor]) -> Tensor:
    x = require_tensor("silu", input)
    return mul(x, sigmoid(x)) if x.dtype.is_complex else apply("silu", _floats("silu", x))


relu6 = with_inplace(named(_relu6, "relu6", "min(max(input, 0), 6)."))
silu = with_inplace(named(_silu, "silu", "input * sigmoid(input)."))
mish = with_inplace(_activation("mish", "input * tanh(softplus(input))."))
hardswish = with_inplace(_activation("hardswish", "input * relu6(input + 3) / 6."))
hardsigmoid = with_inplace(_activation("hardsigmoid", "relu6(input + 3) / 6."))


def gelu(input: AnyTensor[Tensor], *, approximate: str = "none") -> Tensor:
    """input times the normal distribution function of input, or its "tanh" approximation."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return apply("gelu" if approximate == "none" else "gelu_tanh", _floats("GeluKernelImpl", input))


def logit(input: AnyTensor[Tensor], eps: Number | None = None) -> Tensor:
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] first if eps is given. NotImplementedError for complex x."""
    if input.dtype.is_complex:
        require_floating("logit", input.dtype)
    x = cast(input, floating(input.dtype))
    if eps is not None:
        inside = clamp(x, eps, 1.0 - eps)  # type: ignore[operator]
        x = apply("where", apply("ne", x, x), x, inside)  # NaN has a slope, which is NaN
    return apply("logit", x)


# --- with parameters -----------------------------------------------------------------------------------------------


def _choose(x: Any, comparison: str, bound: Any, if_true: Any, if_false: Any) -> Any:
    return apply("where", apply(comparison, x, as_operand(bound, x.dtype)), if_true, if_false)


def leaky_relu(input: AnyTensor[Tensor], negative_slope: Number = 0.01) -> Tensor:
    """input where it is positive, else negative_slope * input."""
    x = _floats("leaky_relu", input)
    if _dynamic(negative_slope):
        return _choose(x, "gt", 0, x, mul(x, negative_slope))
    return apply("leaky_relu", x, negative_slope=negative_slope)


def prelu(input: AnyTensor[Tensor], weight: AnyTensor[Tensor]) -> Tensor:
    """leaky_relu with a learned slope: one, or one per channel (axis 1)."""
    input, weight = lower(input), lower(weight)
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.word} and {weight.dtype.word}")
    if not input.dtype.is_floating_point:
        raise not_implemented("prelu", input.dtype)
    if weight.ndim == 1:
        n, channels = weight.shape[0], input.shape[1] if input.ndim > 1 else 1
        require((n - 1) * (n - channels) == 0, RuntimeError, "Mismatch of parameter numbers and input channel size. "
                "Found parameter numbers = ", n, " and channel size = ", channels, ".")
    if weight.ndim == 1 and not input.ndim:
        weight = apply("reshape", weight, shape=())
    if weight.ndim == 1 and input.ndim > 2:
        weight = apply("reshape", weight, shape=(weight.shape[0], *(1,) * (input.ndim - 2)))
    below = _choose(input, "gt", 0, as_operand(0, input.dtype), input)  # an infinite input has no part in the slope
    return _choose(input, "gt", 0, input, apply("mul", below, weight))


def elu(input: AnyTensor[Tensor], alpha: Number = 1.0) -> Tensor:
    """input where it is positive, else alpha * (exp(input) - 1)."""
    x = _floats("elu", input)
    if _dynamic(alpha):
        return _elu(x, alpha, 1.0)
    return apply("elu", x, alpha=alpha, scale=1.0, input_scale=1.0)


def _elu(x: Any, alpha: Any, divisor: Any) -> Any:
    zero = as_operand(0, x.dtype)
    low = _choose(x, "gt", 0, zero, x)  # keeps exp finite where its value is not taken
    scaled = apply("div", low, as_operand(divisor, x.dtype))
    return _choose(x, "gt", 0, x, mul(apply("expm1", scaled), alpha))


def celu(input: AnyTensor[Tensor], alpha: Number = 1.0) -> Tensor:
    """elu with a continuous slope: the input is divided by alpha."""
    x = _floats("elu", input)
    return _elu(x, alpha, alpha) if _dynamic(alpha) else apply("celu", x, alpha=alpha)


def softplus(input: AnyTensor[Tensor], beta: Number = 1.0, threshold: Number = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above the threshold."""
    x = widen(_floats("softplus", input), "cuda")
    if not _dynamic(beta, threshold):
        return apply("softplus", x, beta=beta, threshold=threshold)
    scaled = mul(x, beta)
    linear = apply("gt", scaled, as_operand(threshold, x.dtype))
    safe = apply("where", linear, as_operand(0, x.dtype), scaled)
    return apply("where", linear, x, apply("div", apply("log1p", apply("exp", safe)), as_operand(beta, x.dtype)))


def threshold(input: AnyTensor[Tensor], threshold: Number, value: Number) -> Tensor:
    """input where it is above the threshold, else value."""
    if require_tensor("threshold", input).dtype is bool_:
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")
    (as_operand if input.dtype.is_half else written_operand)(threshold, input.dtype)  # numbers that the dtype holds
    written_operand(value, input.dtype)
    if _dynamic(threshold, value) or not input.dtype.is_floating_point:
        return _choose(input, "le", threshold, written_operand(value, input.dtype), input)
    return apply("threshold", input, threshold=threshold, value=value)


def hardtanh(input: AnyTensor[Tensor], min_val: Number = -1.0, max_val: Number = 1.0) -> Tensor:
    """input clamped to [min_val, max_val]. ValueError where min_val is above max_val."""
    low: Any = min_val
    high: Any = max_val
    require(select_number(low > high, False, True), ValueError, "min_val cannot be greater than max_val")
    x: Any = require_tensor("hardtanh", input)
    if x.dtype is bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if x.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    if not x.dtype.is_floating_point:  # bounds lose their fraction
        bounds = [select_number(v < 0, -(-v // 1), v // 1) for v in (low, high)]
        require(x.dtype.is_signed or bounds[0] >= 0, RuntimeError,
                "cannot do hardtanh on an unsigned type with negative limits")
        return apply("clamp", x, *(written_operand(v, x.dtype) for v in bounds))
    if not _dynamic(min_val, max_val):
        return apply("hardtanh", x, min_val=min_val, max_val=max_val)
    raised = _choose(x, "le", min_val, as_operand(min_val, x.dtype), x)
    return _choose(raised, "ge", max_val, as_operand(max_val, x.dtype), raised)


def hardshrink(input: AnyTensor[Tensor], lambd: Number = 0.5) -> Tensor:
    """input where |input| > lambd, else 0."""
    x = _floats("hardshrink", input)
    size, bound = apply("abs", x), as_operand(lambd, x.dtype)
    other = apply("where", apply("le", size, bound), as_operand(0, x.dtype), as_operand(math.nan, x.dtype))
    return apply("where", apply("gt", size, bound), x, other)  # NaN stays, without a slope


def softshrink(input: AnyTensor[Tensor], lambd: Number = 0.5) -> Tensor:
    """input moved towards 0 by lambd."""
    x = _floats("softshrink", input)
    bound = as_operand(lambd, x.dtype)
    small = apply("where", apply("ne", x, x), x, apply("mul", x, as_operand(0, x.dtype)))  # NaN stays, with its slope
    inner = apply("where", apply("lt", x, apply("neg", bound)), apply("add", x, bound), small)
    return apply("where", apply("gt", x, bound), apply("sub", x, bound), inner)


relu_, selu_, leaky_relu_ = inplace(relu), inplace(selu), inplace(leaky_relu)
elu_, celu_, hardtanh_, threshold_ = inplace(elu), inplace(celu), inplace(hardtanh), inplace(threshold)

complete(globals())

__all__ = ["celu", "celu_", "hardshrink", "logit", "prelu", "relu", "relu_", "selu", "selu_", "threshold",
           "threshold_"]
