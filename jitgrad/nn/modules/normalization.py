"""Normalisation layers."""

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Family, Module
from jitgrad.nn.parameter import Parameter, unset


class _Affine(Family):
    """A normalisation with a factor, and what is added, for each feature or channel, if they are wanted."""

    weight: Parameter | None
    bias: Parameter | None

    def _begin_affine(self, weight: bool, bias: bool, *sizes: int, device: Any, dtype: dtype | None) -> None:
        self.register_parameter("weight", unset(weight, *sizes, device=device, dtype=dtype))
        self.register_parameter("bias", unset(weight and bias, *sizes, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """(x - mean) / sqrt(var + eps) over the last axes, times weight plus bias.

    Args:
        normalized_shape: the sizes of those axes.
        eps: keeps the root from zero.
        elementwise_affine: whether there are weight and bias.
        bias: whether there is a bias.

    Attributes:
        weight: normalized_shape, ones; or None.
        bias: normalized_shape, zeros; or None.
    """

    _told, _shown = ("normalized_shape",), ("eps", "elementwise_affine", "bias")

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
                 bias: bool = True, device: Any = None, dtype: dtype | None = None):
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self._begin_affine(elementwise_affine, bias, *self.normalized_shape, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape), the same."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight; eps is the dtype's if None."""

    _told, _shown = ("normalized_shape",), ("eps", "elementwise_affine")

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
                 device: Any = None, dtype: dtype | None = None):
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", unset(elementwise_affine, *self.normalized_shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape), the same."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_Affine):
    """Normalisation of groups of channels (axis 1), with a weight and a bias per channel."""

    _told, _shown = ("num_groups", "num_channels"), ("eps", "affine", "bias")

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
                 dtype: dtype | None = None, *, bias: bool = True):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError("num_channels must be divisible by num_groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._begin_affine(affine, bias, num_channels, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), the same."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(_Affine):
    """Normalisation of each channel (axis 1) over the batch, by running statistics in evaluation mode.

    Args:
        num_features: the number of channels.
        eps: keeps the root from zero.
        momentum: the share of a batch in the running statistics; None: their plain average.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        bias: with affine, whether there is a bias.
    """

    _version = 2
    _ranks: tuple[int, ...]
    _told, _shown = ("num_features",), ("eps", "momentum", "affine", "bias", "track_running_stats")

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: dtype | None = None, *,
                 bias: bool = True):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.running_mean: Tensor | None
        self.running_var: Tensor | None
        self.num_batches_tracked: Tensor | None
        self._begin_affine(affine, bias, num_features, device=device, dtype=dtype)
        tracked = track_running_stats
        how = {"device": device, "dtype": dtype}
        self.register_buffer("running_mean", jitgrad.zeros(num_features, **how) if tracked else None)
        self.register_buffer("running_var", jitgrad.ones(num_features, **how) if tracked else None)
        self.register_buffer("num_batches_tracked",
                             jitgrad.tensor(0, device=device, dtype=jitgrad.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batch seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
                              *rest: Any) -> None:
        """Before version 2 batches were not counted; a state without a version is taken for one of then."""
        if (local_metadata.get("version") or 1) < 2 and self.num_batches_tracked is not None:
            state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._ranks:
            ranks = " or ".join([f"{rank}D" for rank in self._ranks])
            raise ValueError(f"expected {ranks} input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), the same."""
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None, self.weight,
                            self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm, ranks=(2, 3)):
    """Batch normalisation of (N, C) or (N, C, L)."""


class BatchNorm2d(_BatchNorm, ranks=(4,)):
    """Batch normalisation of (N, C, H, W)."""


class BatchNorm3d(_BatchNorm, ranks=(5,)):
    """Batch normalisation of (N, C, D, H, W)."""


class _InstanceNorm(_BatchNorm):
    """Each channel of each element normalised by its own moments, or, where they are tracked, in evaluation mode by the
    running ones."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: dtype | None = None, *,
                 bias: bool = True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) or (C, ...), the same."""
        self._check_input_dim(input)
        axis = input.dim() - self._ranks[0]
        if self.affine and input.size(axis) != self.num_features:
            raise ValueError(f"expected input's size at dim={axis} to match num_features ({self.num_features}), but "
                             f"got: {input.size(axis)}.")
        x = input.unsqueeze(0) if axis == 0 else input
        y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training or not self.track_running_stats,
                            0.0 if self.momentum is None else self.momentum, self.eps)
        return y.squeeze(0) if axis == 0 else y


class InstanceNorm1d(_InstanceNorm, ranks=(2, 3)):
    """Instance normalisation of (N, C, L) or (C, L)."""


class InstanceNorm2d(_InstanceNorm, ranks=(3, 4)):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""


class InstanceNorm3d(_InstanceNorm, ranks=(4, 5)):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""


class LocalResponseNorm(Module):
    """Channels divided by a power of their neighbours' mean square; see `F.local_response_norm`."""

    _told, _shown = ("size",), ("alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), the same."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(Module):
    """Channels divided by a power of their neighbours' sum of squares, of (N, C, H, W).

    As torch's class computes it the first channel is a neighbour of all behind it; `LocalResponseNorm` has the windows
    of the paper.
    """

    _told, _shown = ("size",), ("alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W), the same."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach, channels = (self.size - 1) // 2, input.shape[1]  # as many on either side, of an even size one less
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, reach, reach))
        total = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        left = jitgrad.arange(channels, device=input.device).reshape(-1, 1, 1) > reach
        total = total + jitgrad.where(left, squares[:, :1], 0.0)
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta


__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d",
           "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
