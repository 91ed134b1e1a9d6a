"""Distributions of matrices: covariances, and the factors of correlations."""

import math
import warnings
from typing import Any

import jitgrad
from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions
from jitgrad.distributions.gammas import Beta, standard_gamma
from jitgrad.distributions.multivariate import _inverse_factor, half_log_det
from jitgrad.eager.tensor import Tensor


class LKJCholesky(Distribution):
    """The distribution of the lower Cholesky factors of (dim, dim) correlations whose density is as det^(c - 1).

    Its c is the concentration, above 0; of 1 all correlations are as likely. ValueError for a dim below 2.
    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion
    method", 2009; draws are by the onion method. torch's draws are of larger correlations than its density has.
    """

    shown = ("concentration",)
    arg_constraints = regions(concentration=constraints.positive)
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim, self.concentration = dim, broadcast(concentration)[0]
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Row by row: a direction, and by a beta number the share of the unit that is not on the diagonal."""
        with jitgrad.no_grad():
            c = self.concentration.detach()
            row = jitgrad.arange(self.dim, dtype=c.dtype, device=c.device)
            above = c.unsqueeze(-1) + 0.5 * (self.dim - 1 - row)
            share = Beta((0.5 * row).clamp(min=0.5), above, validate_args=False).sample(sample_shape).unsqueeze(-1)
            drawn = jitgrad.randn(self._extended(sample_shape), dtype=c.dtype, device=c.device).tril(-1)
            first = row.unsqueeze(-1) == 0
            length = jitgrad.where(first, 1.0, drawn.pow(2).sum(-1, keepdim=True).sqrt())
            w = share.sqrt() * (drawn / length)
            rest = (1 - w.pow(2).sum(-1)).clamp(min=jitgrad.finfo(c.dtype).tiny)
            return w + jitgrad.diag_embed(rest.sqrt())

    def _made_again(self, given: dict[str, Any], batch_shape: Any) -> Any:
        return Distribution._made_again(self, {"dim": self.dim, **given}, batch_shape)

    def _log_prob(self, value: Tensor) -> Tensor:
        """The sum over the diagonal of (2 (c - 1) + dim - i) log(L_ii), i from 2, and what makes the integral 1."""
        c, n = self.concentration, self.dim - 1
        order = 2 * (c - 1).unsqueeze(-1) + self.dim - jitgrad.arange(2, self.dim + 1, device=c.device)
        density = (order * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = c + 0.5 * n
        whole = 0.5 * n * math.log(math.pi) + jitgrad.mvlgamma(alpha - 0.5, n) - jitgrad.lgamma(alpha) * n
        return density - whole


class Wishart(ExponentialFamily):
    """The distribution of the sums of x x^T over df normal vectors x around 0, (..., D).

    Args:
        df: above D - 1, no whole number need be.
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., D, D): the vectors' covariance, its
            inverse, or its lower Cholesky factor.

    AssertionError for none or several matrices, ValueError for those that are not positive
    definite, and for a df too small; a warning for a df below D, which scripts do not give.
    """

    has_rsample = True
    support = constraints.positive_definite
    _mean_carrier_measure = 0.0

    def __init__(self, df: Parameter, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None):
        given = [(name, value) for name, value in (("covariance_matrix", covariance_matrix), (
            "precision_matrix", precision_matrix), ("scale_tril", scale_tril)) if value is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        self._size = matrix.shape[-1]
        self.df = broadcast(df, matrix[..., 0, 0])[0]
        if bool((self.df <= self._size - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {self._size - 1}.")
        if not jitgrad.jit.is_scripting() and bool((self.df < self._size).any()):
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < "
                          "ndim.", stacklevel=2)
        self.shown = (name, "df")
        self._given = matrix.expand(*self.df.shape, self._size, self._size)
        if scale_tril is not None:
            self.scale_tril = self._given
        super().__init__(self.df.shape, (self._size, self._size), validate_args)
        if scale_tril is None:
            factor = linalg.cholesky(matrix) if covariance_matrix is not None else _inverse_factor(matrix)
            self.scale_tril = factor.expand(self._given.shape)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """df is above D - 1."""
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._size - 1)}

    @property
    def covariance_matrix(self) -> Tensor:
        """The vectors' covariance."""
        return self._given if self.shown[0] == "covariance_matrix" else self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        if self.shown[0] == "precision_matrix":
            return self._given
        one = jitgrad.eye(self._size, dtype=self.df.dtype, device=self.df.device).expand(self.scale_tril.shape)
        return jitgrad.cholesky_solve(one, self.scale_tril)

    def _wide(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        """df covariance_matrix."""
        return self._wide(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(df - D - 1) covariance_matrix, NaN up to a df of D + 1."""
        factor = self.df - self._size - 1
        return self._wide(jitgrad.where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """df (v_ij^2 + v_ii v_jj)."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._wide(self.df) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """By Bartlett's decomposition: the factor times a triangle of normal numbers and roots of chi-squared ones."""
        noise = jitgrad.randn(self._extended(sample_shape), dtype=self.df.dtype, device=self.df.device).tril(-1)
        row = jitgrad.arange(self._size, dtype=self.df.dtype, device=self.df.device)
        half = (0.5 * (self.df.unsqueeze(-1) - row)).expand(noise.shape[:-1])
        squares = (2 * standard_gamma(half)).clamp(min=jitgrad.finfo(noise.dtype).eps ** 2)
        factor: Tensor = self.scale_tril @ (noise + jitgrad.diag_embed(squares.sqrt()))
        drawn: Tensor = factor @ factor.mT
        return drawn

    def _log_prob(self, value: Tensor) -> Tensor:
        """(df - D - 1) / 2 log det(x) - tr(covariance^-1 x) / 2, and what makes the integral 1."""
        df, d = self.df, self._size
        value, factor = jitgrad.broadcast_tensors(value, self.scale_tril)
        trace = jitgrad.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        whole = df * (d * math.log(2) / 2 + half_log_det(self.scale_tril)) + jitgrad.mvlgamma(df / 2, d)
        log_det: Tensor = linalg.slogdet(value)[1]
        return (df - d - 1) / 2 * log_det - trace / 2 - whole

    def entropy(self) -> Tensor:
        """The expectation of -log_prob, by digamma."""
        df, d = self.df, self._size
        half = jitgrad.arange(d, dtype=df.dtype, device=df.device) / 2
        digammas = jitgrad.digamma((df / 2).unsqueeze(-1) - half).sum(-1)
        return ((d + 1) * (d * math.log(2) / 2 + half_log_det(self.scale_tril)) + jitgrad.mvlgamma(df / 2, d)
                - (df - d - 1) / 2 * digammas + df * d / 2)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._size - 1) / 2

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        (x, y), d = natural, self._size
        half: Any = y + (d + 1) / 2
        log_det: Tensor = linalg.slogdet(-2 * x)[1]
        normalizer: Tensor = half * (d * math.log(2) - log_det) + jitgrad.mvlgamma(half, d)
        return normalizer
