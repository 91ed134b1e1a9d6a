"""Weights with unit spectral norm, with lengths apart from directions, or with orthogonal columns, by `parametrize`."""

from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from jitgrad.nn.utils.parametrize import register_parametrization

_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def _tensor(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# --- lengths and directions ----------------------------------------------------------------------------------------


def norm_except(v: Any, dim: int) -> Any:
    """The norms of v's slices along an axis, with the other axes of size one; of all of v for -1."""
    if dim == -1:
        return v.norm()
    return jitgrad.linalg.vector_norm(v, 2, [i for i in range(v.dim()) if i != dim % v.dim()], True)


class _WeightNorm(Module):
    """g v / |v|."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """Of lengths and of vectors."""
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> Any:
        """Lengths and vectors."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train lengths (`original0`) and directions (`original1`) of a weight, along an axis or (None) as a whole.

    Returns the module. Source: Salimans and Kingma, "Weight Normalization", 2016.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(older_names)
    return module


# --- spectral norms ------------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """A weight by its largest singular value, which steps of the power method follow while training."""

    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations="
                             f"{n_power_iterations}")
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim).detach()
            for side, name in enumerate(("_u", "_v")):
                start = jitgrad.randn(matrix.shape[side], dtype=matrix.dtype, device=matrix.device)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Any, steps: int) -> None:
        with jitgrad.no_grad():
            for _ in range(steps):
                self._u.copy_(F.normalize(jitgrad.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(jitgrad.mv(matrix.T, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """The weight by its norm."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # later steps leave these, which the gradient reads, alone
        return weight / jitgrad.dot(u, jitgrad.mv(matrix, v))

    def right_inverse(self, value: Any) -> Any:
        """The value itself."""
        return value


def as_matrix(weight: Any, dim: int) -> Any:
    """A weight with one of its axes as rows, the others joined."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.flatten(1)


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Module:
    """Divide a weight by its largest singular value, as a matrix with axis `dim` (of output channels) as rows.

    Each call in training mode follows that value by n_power_iterations steps of the power method. Returns the module.
    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.
    """
    weight = _tensor(module, name)
    rows = (1 if isinstance(module, _TRANSPOSED) else 0) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, rows, eps))


# --- orthogonal matrices -------------------------------------------------------------------------------------------


def _make_orthogonal(A: Any) -> Any:
    """The Q of A = Q R for the R with a positive diagonal."""
    x, tau = jitgrad.geqrf(A)
    return jitgrad.linalg.householder_product(x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(Q: Any) -> bool:
    n, k = Q.shape[-2], Q.shape[-1]
    one = jitgrad.eye(k, dtype=Q.dtype, device=Q.device)
    return bool(jitgrad.allclose(Q.mT @ Q, one, atol=10.0 * n * jitgrad.finfo(Q.dtype).eps))


class _Orthogonal(Module):
    """A matrix with orthogonal columns (or rows, of which there are fewer) from one without constraints."""

    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        self.shape, self.orthogonal_map = tuple(weight.shape), orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """(..., n, k), the same."""
        n, k = self.shape[-2], self.shape[-1]
        tall = X
        if n < k:
            tall, n, k = X.mT, k, n
        if self.orthogonal_map == "householder":
            A = tall.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = jitgrad.linalg.householder_product(A, tau)
            Q = Q * tall.diagonal(dim1=-2, dim2=-1).detach().trunc().unsqueeze(-2)
        else:
            A = tall.tril()
            if n != k:
                A = F.pad(A, (0, n - k))
            A = A - A.mT
            if self.orthogonal_map == "matrix_exp":
                Q = jitgrad.matrix_exp(A)
            else:
                one = jitgrad.eye(n, dtype=A.dtype, device=A.device)
                Q = jitgrad.linalg.solve(one - A * 0.5, one + A * 0.5)
            if n != k:
                Q = Q[..., :k]
        if self.use_trivialization:
            Q = self.base @ Q
        return Q.mT if self.shape[-2] < self.shape[-1] else Q

    def right_inverse(self, Q: Any) -> Any:
        """The matrix from which `forward` makes the orthogonal one nearest in the sense of Q R."""
        if tuple(Q.shape) != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{Q.shape}.")
        with jitgrad.no_grad():
            given, wide = Q, self.shape[-2] < self.shape[-1]
            Q = Q.detach().mT if wide else Q.detach()
            n, k = Q.shape[-2], Q.shape[-1]
            if not self.use_trivialization:
                if self.orthogonal_map != "householder":
                    raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                              "parametrizations when use_trivialization=False.")
                A, tau = jitgrad.geqrf(Q)
                diagonal = A.diagonal(dim1=-2, dim2=-1)
                sign = diagonal.sign()
                diagonal.copy_(jitgrad.where(tau == 0, -sign, sign))  # LAPACK skips a reflection by a tau of 0
                return A.mT if wide else A
            if n == k:
                Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
            else:
                rest = jitgrad.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
                Q = _make_orthogonal(jitgrad.cat([Q, rest], -1))
            self.base = Q
            minus = jitgrad.zeros_like(given)
            minus.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # of which the reflections make the identity
            return minus


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:
    """Keep a weight's columns (or rows, where there are fewer) orthogonal, of norm one.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square matrices, else the
            last.
        use_trivialization: whether it is relative to the weight that it begins with, which may then be any that is
            assigned.

    Returns the module. ValueError for a tensor of one axis, or another map.
    Source: Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019.
    """
    weight = _tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
                         f"{orthogonal_map}")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
