"""Special functions of one tensor: Bessel functions, the normal distribution, and what goes with the gamma function."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import bool_, float32
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library import elementary
from jitgrad.ops.library.core import (Number, apply, as_operand, bind, cast, floating, named, not_implemented,
                                      require_floating, require_tensor, result_dtype)
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import require, static_int

__library__ = True


def _function(name: str, doc: str, first: str = "input", halves: bool = False) -> Callable[[AnyTensor[Tensor]], Tensor]:
    """A function that is one op; integers and bools become floats. Those that have no half types raise for them."""
    def fn(input: AnyTensor[Tensor]) -> Tensor:
        d = floating(require_tensor(name, input, first).dtype)
        if d.is_half and not halves:
            raise not_implemented(name, d)
        return apply(name, cast(input, d))

    return named(fn, name, doc)


i0 = _function("i0", "The modified Bessel function of the first kind, of order 0.", halves=True)
i0e = _function("i0e", "exp(-|input|) * i0(input), which does not overflow.", halves=True)
i1 = _function("i1", "The modified Bessel function of the first kind, of order 1.", halves=True)
i1e = _function("i1e", "exp(-|input|) * i1(input), which does not overflow.", halves=True)
bessel_j0 = _function("bessel_j0", "The Bessel function of the first kind, of order 0.")
bessel_j1 = _function("bessel_j1", "The Bessel function of the first kind, of order 1.")
bessel_y0 = _function("bessel_y0", "The Bessel function of the second kind, of order 0; NaN below 0.")
bessel_y1 = _function("bessel_y1", "The Bessel function of the second kind, of order 1; NaN below 0.")
modified_bessel_i0 = _function("i0", "The modified Bessel function of the first kind, of order 0: `i0`.")
modified_bessel_i1 = _function("i1", "The modified Bessel function of the first kind, of order 1: `i1`.")
modified_bessel_k0 = _function("modified_bessel_k0", "The modified Bessel function of the second kind, of order 0.")
modified_bessel_k1 = _function("modified_bessel_k1", "The modified Bessel function of the second kind, of order 1.")
scaled_modified_bessel_k0 = _function("scaled_modified_bessel_k0", "exp(x) * modified_bessel_k0(x).", "x")
scaled_modified_bessel_k1 = _function("scaled_modified_bessel_k1", "exp(x) * modified_bessel_k1(x).", "x")
spherical_bessel_j0 = _function("spherical_bessel_j0", "sin(x) / x, 1 at 0.", "x")
airy_ai = _function("airy_ai", "Airy's function Ai; it has no gradient.", "x")
erfcx = _function("erfcx", "exp(input^2) * erfc(input), which does not underflow.")
ndtr = _function("ndtr", "The standard normal distribution function.", halves=True)
log_ndtr = _function("log_ndtr", "The logarithm of the standard normal distribution function, also far below 0.")


def _of_floats(fn: Callable[..., Tensor], input: AnyTensor[Tensor], *, decimals: int = 0) -> Tensor:
    require_floating("round_vml", require_tensor("round", input).dtype)
    return fn(input, decimals=decimals)


round = bind(_of_floats, elementary.round, "round", "`torch.round`, of floats only.")
ndtri = _function("ndtri", "The inverse of the standard normal distribution function; NaN outside [0, 1].")
entr = _function("entr", "-input * log(input): 0 at 0, -inf below.", halves=True)


def mvlgamma(input: AnyTensor[Tensor], p: int) -> Tensor:
    """The logarithm of the gamma function of p x p matrices: a sum of lgamma at p places half apart.

    Raises RuntimeError for p below 1.
    """
    count = static_int(p)
    require(count >= 1, RuntimeError, "p has to be greater than or equal to 1")
    if input.dtype is bool_:
        raise RuntimeError("The input dtype must be a floating point or integral type")
    x: Any = cast(input, floating(input.dtype))
    total = apply("lgamma", x) + count * (count - 1) * 0.28618247146235004  # log(pi) / 4
    for j in range(1, count):
        total = total + apply("lgamma", apply("where", apply("eq", x, as_operand(math.inf, x.dtype)), x, x - 0.5 * j))
    return total


multigammaln = mvlgamma

# --- of two tensors ------------------------------------------------------------------------------------------------


def _pair(name: str, row: str, doc: str, numbers: bool = False) -> Callable[[Any, Any], Any]:
    """A function of two tensors, or with `numbers` a tensor and a number, that is one op of floats that broadcast."""
    def fn(input: AnyTensor[Tensor] | Number, other: AnyTensor[Tensor] | Number) -> Any:
        d = floating(result_dtype(input, other))
        if not numbers:
            require_tensor(name, input)
            require_tensor(name, other, "other", 2)
        elif not isinstance(input, AnyTensor) and not isinstance(other, AnyTensor):
            raise TypeError(f"{name}(): one of the arguments must be a Tensor")
        integral = isinstance(input, AnyTensor) and not result_dtype(input, other).is_inexact
        if (d.is_half and row == "zeta") or (integral and row in ("gammainc", "gammaincc")):
            raise not_implemented(name, result_dtype(input, other), input, other)
        wide = float32 if d.is_half and row in ("gammainc", "gammaincc") else d
        return cast(apply(row, as_operand(input, wide), as_operand(other, wide)), d)

    fn.__dict__["__op__"] = row  # of which in-place forms ask what it takes
    return named(fn, name, doc)


xlog1py = _pair("xlog1py", "xlog1py", "input * log1p(other), 0 where input is 0.", numbers=True)
_logaddexp2 = _pair("logaddexp2", "logaddexp2", "")


def logaddexp2(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """log2(2^input + 2^other) without overflow. NotImplementedError where both are integers."""
    d = result_dtype(input, require_tensor("logaddexp2", other, "other", 2))
    if not d.is_floating_point:
        raise not_implemented("logaddexp2", d, input, other)
    return _logaddexp2(input, other)


zeta = _pair("zeta", "zeta", "Hurwitz's zeta function of order input at other; no gradient of the order.", numbers=True)
igamma = gammainc = _pair("igamma", "gammainc", "The regularised lower incomplete gamma function P(input, other).")
igammac = gammaincc = _pair("igammac", "gammaincc", "The regularised upper incomplete gamma function Q(input, other).")

# --- polynomials ---------------------------------------------------------------------------------------------------


def _polynomial(name: str, words: str) -> Callable[[Any, Any], Any]:
    def fn(x: AnyTensor[Tensor] | Number, n: AnyTensor[Tensor] | Number) -> Any:
        d = floating(result_dtype(x, n))
        if d.is_half:
            raise not_implemented(name, d, x, n)
        return apply(name, as_operand(x, d), as_operand(n, d))

    return named(fn, name, f"{words} of degree n (a tensor or a number, rounded towards 0) at x; 0 for a negative one.")


chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", "Chebyshev's polynomial of the first kind")
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", "Chebyshev's polynomial of the second kind")
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", "Chebyshev's polynomial of the third kind")
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", "Chebyshev's polynomial of the fourth kind")
shifted_chebyshev_polynomial_t = _polynomial("shifted_chebyshev_polynomial_t", "Chebyshev's first kind on [0, 1],")
shifted_chebyshev_polynomial_u = _polynomial("shifted_chebyshev_polynomial_u", "Chebyshev's second kind on [0, 1],")
shifted_chebyshev_polynomial_v = _polynomial("shifted_chebyshev_polynomial_v", "Chebyshev's third kind on [0, 1],")
shifted_chebyshev_polynomial_w = _polynomial("shifted_chebyshev_polynomial_w", "Chebyshev's fourth kind on [0, 1],")
hermite_polynomial_h = _polynomial("hermite_polynomial_h", "The physicists' Hermite polynomial")
hermite_polynomial_he = _polynomial("hermite_polynomial_he", "The probabilists' Hermite polynomial")
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", "Laguerre's polynomial")
legendre_polynomial_p = _polynomial("legendre_polynomial_p", "Legendre's polynomial")

def standard_gamma_grad(concentration: AnyTensor[Tensor], draw: AnyTensor[Tensor]) -> Tensor:
    """How draws of gamma numbers of rate 1 move with the concentration, their probability of less being kept."""
    return apply("standard_gamma_grad", concentration, draw)


def dirichlet_grad(draw: AnyTensor[Tensor], concentration: AnyTensor[Tensor], total: AnyTensor[Tensor]) -> Tensor:
    """How a share moves with its concentration, over 1 - the share; `total` is the sum of all concentrations."""
    return apply("dirichlet_grad", draw, concentration, total)


complete(globals())

__all__ = ["i0", "igamma", "igammac", "logaddexp2", "mvlgamma"]
