"""Gradients: torch.autograd's names."""

import importlib
from typing import TYPE_CHECKING, Any

from jitgrad.autograd.anomaly_mode import *
from jitgrad.eager.autograd.engine import backward, grad
from jitgrad.eager.autograd.function import Function, FunctionCtx, once_differentiable
from jitgrad.eager.autograd.grad_mode import *
from jitgrad.eager.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from jitgrad.eager.tensor import Tensor
from jitgrad.paths import stands_for

if TYPE_CHECKING:
    from jitgrad.autograd import forward_ad, functional, profiler

Variable = Tensor  #: the old name of a tensor that takes part in differentiation


stands_for(__name__, globals(), "function grad_mode variable")


def __getattr__(name: str) -> Any:
    if name in ("forward_ad", "functional", "profiler"):  # on top of `jitgrad.func`, by their first use
        return importlib.import_module(f"jitgrad.autograd.{name}")
    raise AttributeError(f"module 'jitgrad.autograd' has no attribute '{name}'")


__all__ = ["Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "detect_anomaly", "enable_grad",
           "forward_ad", "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled",
           "is_inference_mode_enabled", "no_grad", "once_differentiable", "profiler", "set_detect_anomaly",
           "set_grad_enabled"]
