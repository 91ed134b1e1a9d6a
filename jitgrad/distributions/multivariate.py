"""Normal distributions of vectors."""

import math
from typing import Any

import jitgrad
from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, regions, same_as
from jitgrad.eager.tensor import Tensor


def _inverse_factor(precision: Tensor) -> Tensor:
    """The lower factor of the inverse: the flipped Cholesky factor, inverted, is a triangle already."""
    flipped = linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    one = jitgrad.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    factor: Tensor = linalg.solve_triangular(flipped, one, upper=False)
    return factor


class MultivariateNormal(Distribution):
    """The normal distribution of vectors around loc, (..., D).

    Args:
        loc: the mean.
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., D, D): the covariance, its inverse, or its
            lower Cholesky factor.

    Raises ValueError for none or several of them, and for those that are not positive definite.
    """

    has_rsample = True
    arg_constraints = regions(loc=constraints.real_vector, covariance_matrix=constraints.positive_definite,
        precision_matrix=constraints.positive_definite, scale_tril=constraints.lower_cholesky)
    support = constraints.real_vector
    mean = mode = same_as("loc")

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = [(name, value) for name, value in (("covariance_matrix", covariance_matrix), (
            "precision_matrix", precision_matrix), ("scale_tril", scale_tril)) if value is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        wide = jitgrad.broadcast_tensors(loc[..., :1], matrix[..., 0, :1])[0].shape[:-1]
        self.loc = loc.expand(*wide, loc.shape[-1])
        self.shown = ("loc", name)
        self._given = matrix.expand(*wide, *matrix.shape[-2:])
        super().__init__(wide, self.loc.shape[-1:], validate_args)
        if scale_tril is not None:
            self._factor = matrix
        else:
            self._factor = linalg.cholesky(matrix) if covariance_matrix is not None else _inverse_factor(matrix)

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._given if self.shown[1] == "scale_tril" else self._wide(self._factor)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._given if self.shown[1] == "covariance_matrix" else self._wide(self._factor @ self._factor.mT)

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        if self.shown[1] == "precision_matrix":
            return self._given
        one = jitgrad.eye(self._factor.shape[-1], dtype=self.loc.dtype, device=self.loc.device)
        return self._wide(jitgrad.cholesky_solve(one, self._factor))

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        return self._factor.pow(2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale_tril noise."""
        drawn = jitgrad.randn(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._factor @ drawn.unsqueeze(-1)).squeeze(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        """-(|scale_tril^-1 (x - loc)|^2 + D log(2 pi)) / 2 - the logarithm of scale_tril's determinant."""
        distance = mahalanobis(self._factor, value - self.loc)
        return -0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + distance) - half_log_det(self._factor)

    def entropy(self) -> Tensor:
        """D (1 + log(2 pi)) / 2 + the logarithm of scale_tril's determinant."""
        entropy = 0.5 * self.loc.shape[-1] * (1.0 + math.log(2 * math.pi)) + half_log_det(self._factor)
        return entropy.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors around loc, (..., D), of covariance cov_factor cov_factor^T + diag(cov_diag).

    Args:
        loc: the mean.
        cov_factor: (..., D, M), M small: densities and draws cost D M^2.
        cov_diag: (..., D), above 0.

    Raises ValueError for shapes that do not fit.
    """

    has_rsample = True
    shown = ("loc", "cov_factor", "cov_diag")
    arg_constraints = regions(loc=constraints.real_vector, cov_factor=constraints.independent(constraints.real, 2),
        cov_diag=constraints.independent(constraints.positive, 1))
    support = constraints.real_vector
    mean = mode = same_as("loc")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2] != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != size:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {tuple(loc.shape[-1:])}")
        try:
            wide, _, _ = jitgrad.broadcast_tensors(loc, cov_factor[..., 0], cov_diag)
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor "
                             f"{tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}") from error
        self.loc, self.cov_diag = wide, cov_diag.expand(wide.shape)
        self.cov_factor = cov_factor.expand(*wide.shape, cov_factor.shape[-1])
        super().__init__(wide.shape[:-1], wide.shape[-1:], validate_args)
        # the determinant lemma's matrix: 1 + W^T D^-1 W, (M, M)
        self._scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        one = jitgrad.eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        self._capacitance = linalg.cholesky(self._scaled @ self.cov_factor + one)

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        factor: Tensor = linalg.cholesky(self.covariance_matrix)
        return factor

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        covariance: Tensor = self.cov_factor @ self.cov_factor.mT + jitgrad.diag_embed(self.cov_diag)
        return covariance

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse, by Woodbury's identity."""
        a: Tensor = linalg.solve_triangular(self._capacitance, self._scaled, upper=False)
        precision: Tensor = jitgrad.diag_embed(self.cov_diag.reciprocal()) - a.mT @ a
        return precision

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + cov_factor noise + sqrt(cov_diag) noise."""
        shape = self._extended(sample_shape)
        narrow = jitgrad.randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=self.loc.dtype, device=self.loc.device)
        drawn = jitgrad.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.cov_factor @ narrow.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * drawn

    def _log_prob(self, value: Tensor) -> Tensor:
        """The normal density, the inverse and the determinant by those of the (M, M) matrix."""
        away = value - self.loc
        inner = mahalanobis(self._capacitance, (self._scaled @ away.unsqueeze(-1)).squeeze(-1))
        distance = (away.pow(2) / self.cov_diag).sum(-1) - inner
        return -0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return half_log_det(self._capacitance) + 0.5 * self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        """D (1 + log(2 pi)) / 2 + half the logarithm of the covariance's determinant."""
        return 0.5 * self.loc.shape[-1] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()


def half_log_det(factor: Tensor) -> Tensor:
    """The logarithm of a factor's determinant."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """|factor^-1 x|^2."""
    return linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def divergence(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    """The divergence of two normal distributions of vectors."""
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be "
                         "computed")
    ratio = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    trace = ratio.pow(2).sum(-1).sum(-1)
    distance = mahalanobis(q.scale_tril, q.loc - p.loc)
    return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) + 0.5 * (trace + distance - p.loc.shape[-1])


def low_rank_divergence(p: Any, q: Any) -> Tensor:
    """The divergence where p or q has a covariance of low rank: -log q(p's mean) + tr(q^-1 p) / 2 - p's entropy."""
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot "
                         "be computed")
    trace = (q.precision_matrix * p.covariance_matrix).sum(-1).sum(-1)
    found: Tensor = 0.5 * trace - q.log_prob(p.loc) - p.entropy()
    return found
