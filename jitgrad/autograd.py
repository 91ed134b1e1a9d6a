"""Gradients: torch.autograd's names."""

from jitgrad.eager.engine import backward, grad
from jitgrad.eager.function import Function, FunctionCtx, once_differentiable
from jitgrad.eager.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from jitgrad.eager.gradcheck import GradcheckError, gradcheck, gradgradcheck
from jitgrad.eager.tensor import Tensor

Variable = Tensor  #: the old name of a tensor that takes part in differentiation

__all__ = ["Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "enable_grad", "grad", "gradcheck",
           "gradgradcheck", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "once_differentiable", "set_grad_enabled"]
