"""`functional_call` under its older name; `jitgrad.func.functional_call` is the newer one."""

import warnings
from typing import Any

from jitgrad.func.stateless import functional_call as _call
from jitgrad.nn.module import Module


def functional_call(module: Module, parameters_and_buffers: dict[str, Any], args: Any = None,
                    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False) -> Any:
    """The module's result with other tensors in place of its own, with a FutureWarning."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
                  "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in "
                  "replacement.", FutureWarning, stacklevel=2)
    return _call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
