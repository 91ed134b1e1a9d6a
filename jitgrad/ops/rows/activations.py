"""Activations: expressions in other rows, with a rule of their own where it saves memory or decides a kink.

At a kink the slope is torch's: relu'(0) = 0, and hardtanh, relu6 and hardsigmoid are flat at their bounds. At NaN it
is too: that of the side that a comparison leaves NaN on, which for elu and hardswish is the curved one.
"""

import math
from typing import Any

from jitgrad.ops.opdef import EXPRESSION
from jitgrad.ops.rows._pointwise import attr_samples, pointwise
from jitgrad.ops.rules import each

SQRT_HALF, SQRT_2_OVER_PI, INV_SQRT_2PI = math.sqrt(0.5), math.sqrt(2.0 / math.pi), 1.0 / math.sqrt(2.0 * math.pi)

# --- the relu family -----------------------------------------------------------------------------------------------

pointwise("relu", 1, "max(x, 0); NaN stays NaN.", lambda xp, x: xp.maximum(x, 0), dtypes="number",
          compose=lambda F, x: F.maximum(x, 0), vjp=lambda F, g, y, x: (F.where(F.le(y, 0), 0.0, g),),
          traits={"idempotent", "cheap"})
pointwise("leaky_relu", 1, "x where it is positive, else negative_slope * x.",
          compose=lambda F, x, negative_slope: F.where(F.gt(x, 0), x, x * negative_slope),
          vjp=lambda F, g, y, x, negative_slope: (F.where(F.gt(x, 0), g, g * negative_slope),),
          samples=attr_samples({"negative_slope": 0.1}))
pointwise("threshold", 1, "x where it is above the threshold, else value.",
          compose=lambda F, x, threshold, value: F.where(F.le(x, threshold), value, x),
          vjp=lambda F, g, y, x, threshold, value: (F.where(F.le(x, threshold), 0.0, g),),
          samples=attr_samples({"threshold": 0.5, "value": -1.0}))
pointwise("hardtanh", 1, "x clamped to [min_val, max_val], flat at the bounds.", traits={"idempotent"},
          compose=lambda F, x, min_val, max_val: F.minimum(F.maximum(x, min_val), max_val),
          vjp=lambda F, g, y, x, min_val, max_val: (
              F.where(F.logical_or(F.le(x, min_val), F.ge(x, max_val)), 0.0, g),),
          samples=attr_samples({"min_val": -1.0, "max_val": 1.5}))
pointwise("relu6", 1, "x clamped to [0, 6].", compose=lambda F, x: F.hardtanh(x, min_val=0.0, max_val=6.0),
          traits={"idempotent"}, domain=(-3.0, 9.0))
pointwise("hardsigmoid", 1, "relu6(x + 3) / 6.", compose=lambda F, x: F.relu6(x + 3.0) / 6.0,
          vjp=lambda F, g, y, x: (F.where(F.logical_and(F.gt(x, -3.0), F.lt(x, 3.0)), g / 6.0, 0.0),),
          domain=(-5.0, 5.0))
pointwise("hardswish", 1, "x * relu6(x + 3) / 6.", compose=lambda F, x: x * F.relu6(x + 3.0) / 6.0,
          vjp=lambda F, g, y, x: (F.where(F.le(x, -3.0), 0.0, F.where(F.ge(x, 3.0), g, g * (x / 3.0 + 0.5))),),
          domain=(-5.0, 5.0))

# --- losses --------------------------------------------------------------------------------------------------------


def _binary_cross_entropy(F: Any, x: Any, t: Any) -> Any:
    return (t - 1.0) * F.maximum(F.log1p(-x), -100.0) - t * F.maximum(F.log(x), -100.0)


pointwise("binary_cross_entropy", 2, "-(t log(x) + (1 - t) log(1 - x)), each logarithm at least -100; torch's slope: "
          "finite at 0 and 1, where that of a logarithm is not.", compose=_binary_cross_entropy, domain=(0.1, 0.9),
          vjp=each(lambda F, g, y, x, t: g * (x - t) / F.maximum((1.0 - x) * x, 1e-12),
                   lambda F, g, y, x, t: g * (F.maximum(F.log1p(-x), -100.0) - F.maximum(F.log(x), -100.0))))

# --- exponential linear units --------------------------------------------------------------------------------------


def _elu(F: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return F.where(F.le(x, 0), F.expm1(x * input_scale) * (alpha * scale), x * scale)


def _elu_vjp(F: Any, g: Any, y: Any, x: Any, alpha: float, scale: float, input_scale: float) -> tuple[Any]:
    high = F.gt(x, 0)
    low = F.where(high, 0.0, x)  # keeps exp finite where its value is not taken
    return (F.where(high, g * scale, g * F.exp(low * input_scale) * (alpha * scale * input_scale)),)


pointwise("elu", 1, "scale * x where x is positive, else scale * alpha * (exp(input_scale * x) - 1).", compose=_elu,
          vjp=_elu_vjp,
          samples=attr_samples({"alpha": 1.0, "scale": 1.0, "input_scale": 1.0},
                               {"alpha": 1.7, "scale": 1.1, "input_scale": 0.5}))
# Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
pointwise("selu", 1, "The self-normalising elu.",
          compose=lambda F, x: F.elu(x, alpha=SELU_ALPHA, scale=SELU_SCALE, input_scale=1.0))
pointwise("celu", 1, "elu with a continuous slope: input scaled by 1 / alpha.",
          compose=lambda F, x, alpha: F.elu(x, alpha=alpha, scale=1.0, input_scale=1.0 / alpha),
          samples=attr_samples({"alpha": 1.3}))

# --- the sigmoid family --------------------------------------------------------------------------------------------

pointwise("sigmoid", 1, "1 / (1 + exp(-x)).", compose=lambda F, x: 1.0 / (1.0 + F.exp(-x)),
          pair=EXPRESSION,
          vjp=lambda F, g, y, x: (g * (y * (1.0 - y)),), ref="scipy.special.expit")

pointwise("logit", 1, "log(x / (1 - x)), NaN and with a slope of NaN outside [0, 1].", domain=(0.1, 0.9),
          compose=lambda F, x: F.log(x / (1.0 - x)), ref="scipy.special.logit",
          vjp=lambda F, g, y, x: (F.where(F.gt(F.abs(x - 0.5), 0.5), math.nan, g / F.abs(x * (1.0 - x))),))


def _silu_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    s = F.sigmoid(x)
    return (g * (s * (1.0 + x * (1.0 - s))),)


pointwise("silu", 1, "x * sigmoid(x).", compose=lambda F, x: x / (1.0 + F.exp(-x)), vjp=_silu_vjp)
pointwise("logsigmoid", 1, "log(sigmoid(x)).", vjp=lambda F, g, y, x: (g * F.sigmoid(-x),),
          compose=lambda F, x: F.minimum(x, 0.0) - F.log1p(F.exp(-F.abs(x))))


def _softplus(F: Any, x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    linear = F.gt(scaled, threshold)
    return F.where(linear, x, F.log1p(F.exp(F.where(linear, 0.0, scaled))) / beta)


def _softplus_vjp(F: Any, g: Any, y: Any, x: Any, beta: float, threshold: float) -> tuple[Any]:
    scaled = x * beta
    return (F.where(F.gt(scaled, threshold), g, g * F.sigmoid(scaled)),)


pointwise("softplus", 1, "log(1 + exp(beta * x)) / beta, x itself where beta * x is above the threshold.",
          compose=_softplus, vjp=_softplus_vjp,
          samples=attr_samples({"beta": 1.0, "threshold": 20.0}, {"beta": 2.0, "threshold": 3.0}))


def _mish_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    t = F.tanh(F.softplus(x, beta=1.0, threshold=20.0))
    return (g * (t + x * (F.sigmoid(x) * (1.0 - t * t))),)


pointwise("mish", 1, "x * tanh(softplus(x)).", vjp=_mish_vjp,
          compose=lambda F, x: x * F.tanh(F.softplus(x, beta=1.0, threshold=20.0)))


# --- gelu ----------------------------------------------------------------------------------------------------------


def _gelu_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    cdf = (F.erf(x * SQRT_HALF) + 1.0) * 0.5
    pdf = F.exp(x * x * -0.5) * INV_SQRT_2PI
    return (g * (cdf + x * pdf),)


def _gelu_tanh_inner(F: Any, x: Any) -> Any:
    return F.tanh((x + x * x * x * 0.044715) * SQRT_2_OVER_PI)


def _gelu_tanh_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    t = _gelu_tanh_inner(F, x)
    slope = (x * x * (3 * 0.044715) + 1.0) * SQRT_2_OVER_PI
    return (g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope),)


# Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016
pointwise("gelu", 1, "x times the normal distribution function of x.", vjp=_gelu_vjp,
          compose=lambda F, x: x * 0.5 * (F.erf(x * SQRT_HALF) + 1.0))
pointwise("gelu_tanh", 1, "gelu by its tanh approximation.", vjp=_gelu_tanh_vjp,
          compose=lambda F, x: x * 0.5 * (_gelu_tanh_inner(F, x) + 1.0))

# --- others --------------------------------------------------------------------------------------------------------

pointwise("softsign", 1, "x / (1 + |x|).", compose=lambda F, x: x / (F.abs(x) + 1.0))
pointwise("tanhshrink", 1, "x - tanh(x).", compose=lambda F, x: x - F.tanh(x))
