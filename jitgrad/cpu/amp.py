"""torch.cpu.amp: older names of `jitgrad.amp` for the CPU."""

from __future__ import annotations

import warnings

from jitgrad.amp import autocast_mode, grad_scaler
from jitgrad.dtypes import bfloat16
from jitgrad.dtypes import dtype as _dtype

_TEXT = "`torch.cpu.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}('cpu', args...)` instead."


class autocast(autocast_mode.autocast):
    """`jitgrad.autocast("cpu", ...)`. Deprecated."""

    def __init__(self, enabled: bool = True, dtype: _dtype = bfloat16, cache_enabled: bool = True):
        warnings.warn(_TEXT.format("autocast"), FutureWarning, stacklevel=2)
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`jitgrad.amp.GradScaler("cpu", ...)`. Deprecated."""

    def __init__(self, init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True):
        warnings.warn(_TEXT.format("GradScaler"), FutureWarning, stacklevel=2)
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast"]
