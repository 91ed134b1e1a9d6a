"""A batch normalisation in evaluation mode as part of the layer before it."""

import copy
from typing import Any, TypeVar

import jitgrad
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter

M = TypeVar("M", bound=Module)


def _require_eval(layer: Module, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A copy of a convolution that computes what it and the normalisation behind it do.

    `transpose` of a transposed one. AssertionError in training mode, or without running statistics.
    """
    _require_eval(conv, bn)
    fused: Any = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    made: M = fused
    return made


def fuse_conv_bn_weights(conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Weight and bias of that convolution; without conv_b, bn_w or bn_b these are zeros, ones and zeros."""
    scale = jitgrad.rsqrt(bn_rv + bn_eps)
    bias = jitgrad.zeros_like(bn_rm) if conv_b is None else conv_b
    if bn_w is not None:
        scale = scale * bn_w
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    moved = (bias - bn_rm) * scale
    moved = (moved if bn_b is None else moved + bn_b).to(conv_w.dtype if conv_b is None else conv_b.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(moved, bias.requires_grad)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A copy of a linear layer that computes what it and the normalisation behind it do.

    AssertionError in training mode, without running statistics, or for other numbers of features.
    """
    _require_eval(linear, bn)
    fused: Any = copy.deepcopy(linear)
    if fused.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
                             f"linear.out_features={fused.out_features} and bn.num_features={bn.num_features}")
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                      bn.weight, bn.bias)
    made: M = fused
    return made


def fuse_linear_bn_weights(linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any,
                           bn_b: Any) -> tuple[Parameter, Parameter]:
    """Weight and bias of that linear layer."""
    scale = bn_w * jitgrad.rsqrt(bn_rv + bn_eps)
    bias = jitgrad.zeros_like(bn_rm) if linear_b is None else linear_b
    weight = linear_w * scale.unsqueeze(-1).to(linear_w.dtype)
    moved = ((bias - bn_rm) * scale + bn_b).to(linear_w.dtype if linear_b is None else linear_b.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(moved, bias.requires_grad)


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
