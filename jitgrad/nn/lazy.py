"""Layers that learn the sizes of their parameters from the first input that they are given."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.module import Module
from jitgrad.nn.modules.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _ConvNd
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.modules.normalization import (BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d,
                                              InstanceNorm3d, _BatchNorm)
from jitgrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

Sizes = int | tuple[int, ...]


class LazyModuleMixin(Module):
    """A module some of whose parameters have no shape before it is called, or before a state is loaded into it.

    A subclass has an `initialize_parameters`, which gets the arguments of the first call and materializes them, and a
    `cls_to_become`, the class that the module is of from then on. A script takes such a module once it has been called.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._load_hook = self.register_load_state_dict_pre_hook(_materialize_like)
        self._initialize_hook = self.register_forward_pre_hook(_infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, and fill them, for these arguments of `forward`."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape."""
        return any(is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))


def _infer_parameters(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The forward pre-hook of the first call."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module._initialize_hook.remove()
    module._load_hook.remove()
    del module._initialize_hook, module._load_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _materialize_like(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    """The hook of loading: what has no shape gets that of what is loaded."""
    for name, p in (*module._parameters.items(), *module._buffers.items()):
        if p is not None and prefix + name in state_dict and is_lazy(p) and not is_lazy(state_dict[prefix + name]):
            p.materialize(state_dict[prefix + name].shape)


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose in_features are the size of the first input's last axis."""

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: dtype | None = None):
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if there are some."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """From the last axis."""
        if self.has_uninitialized_params():
            with jitgrad.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


# --- convolutions --------------------------------------------------------------------------------------------------


class _LazyConvNd(LazyModuleMixin, _ConvNd):
    """A convolution whose in_channels are those of the first input."""

    weight: Any
    bias: Any

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: dtype | None) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if there are some."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def _channels(self, input: Tensor) -> int:
        rank = self._rank
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                               f"{type(self).__name__}, but got input of size: {input.shape}")
        return int(input.shape[input.dim() - rank - 1])

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """From the axis of channels."""
        self.in_channels = self._channels(input)
        if not self.has_uninitialized_params():  # a state was loaded
            return
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels // self.groups) if self.transposed else (
            self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*pair, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvNd):
    """What the lazy convolutions are made with."""

    def __init__(self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: str | Sizes = 0,
                 dilation: Sizes = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
                 device: Any = None, dtype: dtype | None = None):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    """What the lazy transposed convolutions are made with."""

    def __init__(self, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
                 output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1,
                 padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None):
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` whose in_channels are those of the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` whose in_channels are those of the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` whose in_channels are those of the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` whose in_channels are those of the first input."""

    cls_to_become = ConvTranspose3d


# --- normalisation -------------------------------------------------------------------------------------------------


class _LazyNorm(LazyModuleMixin, _BatchNorm):
    """A normalisation of as many features as the first input has."""

    weight: Any
    bias: Any

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: dtype | None = None, *,
                 bias: bool = True):
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if self.affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if self.track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = jitgrad.tensor(0, device=device, dtype=jitgrad.int64)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics, if there are some."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """From the axis of channels."""
        loaded = not self.has_uninitialized_params()
        self._check_input_dim(input)
        self.num_features = input.shape[1]
        if loaded:
            return
        unknown: list[Any] = [self.weight, self.bias, self.running_mean, self.running_var]
        for p in unknown:
            if p is not None:
                p.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` of as many features as the first input has."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` of as many features as the first input has."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` of as many features as the first input has."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An `InstanceNorm1d` of as many features as the first input has, by default affine and with statistics."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """An `InstanceNorm2d` of as many features as the first input has, by default affine and with statistics."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """An `InstanceNorm3d` of as many features as the first input has, by default affine and with statistics."""

    cls_to_become = InstanceNorm3d


__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
           "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
           "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear"]
