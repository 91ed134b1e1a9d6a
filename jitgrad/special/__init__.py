"""torch.special: the functions of mathematics and statistics that are not elementary."""

from jitgrad.ops.library import (activation as _activation, elementary as _elementary, pointwise as _pointwise,
                                 reduce as _reduce)
from jitgrad.ops.library.special.functions import (airy_ai as airy_ai, bessel_j0 as bessel_j0, bessel_j1 as bessel_j1,
                                                   bessel_y0 as bessel_y0, bessel_y1 as bessel_y1,
                                                   chebyshev_polynomial_t as chebyshev_polynomial_t,
                                                   chebyshev_polynomial_u as chebyshev_polynomial_u,
                                                   chebyshev_polynomial_v as chebyshev_polynomial_v,
                                                   chebyshev_polynomial_w as chebyshev_polynomial_w, entr as entr,
                                                   erfcx as erfcx, gammainc as gammainc, gammaincc as gammaincc,
                                                   hermite_polynomial_h as hermite_polynomial_h,
                                                   hermite_polynomial_he as hermite_polynomial_he, i0 as i0, i0e as i0e,
                                                   i1 as i1, i1e as i1e, laguerre_polynomial_l as laguerre_polynomial_l,
                                                   legendre_polynomial_p as legendre_polynomial_p, log_ndtr as log_ndtr,
                                                   modified_bessel_i0 as modified_bessel_i0,
                                                   modified_bessel_i1 as modified_bessel_i1,
                                                   modified_bessel_k0 as modified_bessel_k0,
                                                   modified_bessel_k1 as modified_bessel_k1,
                                                   multigammaln as multigammaln, ndtr as ndtr, ndtri as ndtri,
                                                   round as round,
                                                   scaled_modified_bessel_k0 as scaled_modified_bessel_k0,
                                                   scaled_modified_bessel_k1 as scaled_modified_bessel_k1,
                                                   shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t,
                                                   shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u,
                                                   shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v,
                                                   shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w,
                                                   spherical_bessel_j0 as spherical_bessel_j0, xlog1py as xlog1py,
                                                   zeta as zeta)

__library__ = True

digamma = psi = _elementary.digamma
erf, erfc, erfinv = _elementary.erf, _elementary.erfc, _elementary.erfinv
exp2, expm1, log1p = _elementary.exp2, _elementary.expm1, _elementary.log1p
expit, gammaln = _elementary.sigmoid, _elementary.lgamma
logit = _activation.logit
polygamma, sinc, xlogy = _pointwise.polygamma, _pointwise.sinc, _pointwise.xlogy
log_softmax, logsumexp, softmax = _reduce.log_softmax, _reduce.logsumexp, _reduce.softmax

__all__ = ["airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
           "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf",
           "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
           "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "laguerre_polynomial_l",
           "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0",
           "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri",
           "polygamma", "psi", "round", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
           "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
           "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy", "zeta"]
