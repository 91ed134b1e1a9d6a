"""Helpers on parameters and their gradients."""

import math
import warnings
from collections.abc import Iterable
from typing import Any

import jitgrad
from jitgrad.eager.autograd.engine import listed as _listed
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.utils import (parametrizations as parametrizations, parametrize as parametrize, prune as prune,
                              rnn as rnn, stateless as stateless)
from jitgrad.nn.utils.creation import skip_init as skip_init
from jitgrad.nn.utils.fusion import (fuse_conv_bn_eval as fuse_conv_bn_eval,
                                     fuse_conv_bn_weights as fuse_conv_bn_weights,
                                     fuse_linear_bn_eval as fuse_linear_bn_eval,
                                     fuse_linear_bn_weights as fuse_linear_bn_weights)
from jitgrad.nn.utils.older_norms import (remove_spectral_norm as remove_spectral_norm,
                                          remove_weight_norm as remove_weight_norm, spectral_norm as spectral_norm,
                                          weight_norm as weight_norm)
from jitgrad.paths import stands_for


def _part(t: Tensor, norm_type: float) -> Any:
    """What one tensor adds to the norm of several."""
    t = t.detach()
    if norm_type == math.inf:
        return t.abs().max()
    return (t * t).sum() if norm_type == 2.0 else (t.abs() ** norm_type).sum()


def _norm(parts: list[Any], norm_type: float, error_if_nonfinite: bool) -> Any:
    """The norm whose parts these are."""
    if len(parts) == 0:
        return jitgrad.tensor(0.0)
    if norm_type == math.inf:
        total = jitgrad.stack(parts).max()
    elif norm_type == 2.0:
        total = jitgrad.stack(parts).sum().sqrt()
    else:
        total = jitgrad.stack(parts).sum() ** (1.0 / norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
                           "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
                           "anyway, set `error_if_nonfinite=False`")
    return total


def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """The norm of all tensors taken as one vector, 0-dim. RuntimeError where it is not finite, if asked for."""
    norm_type = float(norm_type)
    return _norm([_part(t, norm_type) for t in _listed(tensors)], norm_type, error_if_nonfinite)


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
    """Scale the gradients in place so that their common norm is at most max_norm; the norm before, 0-dim."""
    parameters = _listed(parameters)
    norm_type = float(norm_type)
    with jitgrad.no_grad():
        parts = [_part(p.grad, norm_type) for p in parameters if p.grad is not None]
        total = _norm(parts, norm_type, error_if_nonfinite)
        scale = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(scale)
    return total


def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Any,
                          foreach: bool | None = None) -> None:
    """Scale the gradients in place by max_norm / total_norm, if that is below 1: the end of `clip_grad_norm_`."""
    with jitgrad.no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.mul_(scale)


def clip_grad_norm(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                   error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
    """`clip_grad_norm_`, with a FutureWarning."""
    warnings.warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
                  FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp the gradients in place to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with jitgrad.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(min=-clip_value, max=clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after another in one vector."""
    return jitgrad.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Overwrite the parameters with the parts of one vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    values: Any = vec
    start = 0
    for p in parameters:
        p.data = values[start : start + p.numel()].view_as(p).data
        start += p.numel()


stands_for(__name__, globals(), "clip_grad convert_parameters init spectral_norm weight_norm")
