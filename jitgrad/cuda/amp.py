"""torch.cuda.amp: older names of `jitgrad.amp` for CUDA, which warn and do nothing on this build, as torch's do."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from jitgrad.amp import autocast_mode, grad_scaler
from jitgrad.dtypes import dtype as _dtype
from jitgrad.dtypes import float16

_TEXT = "`torch.cuda.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}('cuda', args...)` instead."
_FUNCTION = ("`torch.cuda.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}(args..., device_type='cuda')` "
             "instead.")


class autocast(autocast_mode.autocast):
    """`jitgrad.autocast("cuda", ...)`. Deprecated."""

    def __init__(self, enabled: bool = True, dtype: _dtype = float16, cache_enabled: bool = True):
        warnings.warn(_TEXT.format("autocast"), FutureWarning, stacklevel=2)
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`jitgrad.amp.GradScaler("cuda", ...)`. Deprecated."""

    def __init__(self, init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True):
        warnings.warn(_TEXT.format("GradScaler"), FutureWarning, stacklevel=2)
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: _dtype | None = None) -> Any:
    """`jitgrad.amp.custom_fwd(..., device_type="cuda")`. Deprecated."""
    warnings.warn(_FUNCTION.format("custom_fwd"), FutureWarning, stacklevel=2)
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`jitgrad.amp.custom_bwd(..., device_type="cuda")`. Deprecated."""
    warnings.warn(_FUNCTION.format("custom_bwd"), FutureWarning, stacklevel=2)
    return functools.partial(autocast_mode.custom_bwd, device_type="cuda")(bwd)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
