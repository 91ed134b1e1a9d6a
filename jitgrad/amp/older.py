"""The names of `torch.cpu.amp` and `torch.cuda.amp`: those of `jitgrad.amp` for one device, with a warning."""

import functools
import warnings
from typing import Any, ClassVar

from jitgrad.amp import autocast_mode, grad_scaler
from jitgrad.dtypes import dtype as _dtype
from jitgrad.ops.autocast import DEFAULTS

_TEXT = "`torch.{0}.amp.{1}(args...)` is deprecated. Please use `torch.amp.{1}('{0}', args...)` instead."
_FUNCTION = ("`torch.{0}.amp.{1}(args...)` is deprecated. Please use `torch.amp.{1}(args..., device_type='{0}')` "
             "instead.")


class autocast(autocast_mode.autocast):
    """`jitgrad.autocast(device, ...)`. A subclass says which device."""

    of: ClassVar[str]

    def __init__(self, enabled: bool = True, dtype: _dtype | None = None, cache_enabled: bool = True):
        warnings.warn(_TEXT.format(self.of, "autocast"), FutureWarning, stacklevel=2)
        super().__init__(self.of, enabled=enabled, dtype=dtype or DEFAULTS[self.of], cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`jitgrad.amp.GradScaler(device, ...)`. A subclass says which device."""

    of: ClassVar[str]

    def __init__(self, init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True):
        warnings.warn(_TEXT.format(self.of, "GradScaler"), FutureWarning, stacklevel=2)
        super().__init__(self.of, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(device: str, fwd: Any, cast_inputs: _dtype | None) -> Any:
    """`jitgrad.amp.custom_fwd(..., device_type=device)`."""
    warnings.warn(_FUNCTION.format(device, "custom_fwd"), FutureWarning, stacklevel=3)
    return functools.partial(autocast_mode.custom_fwd, device_type=device)(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(device: str, bwd: Any) -> Any:
    """`jitgrad.amp.custom_bwd(..., device_type=device)`."""
    warnings.warn(_FUNCTION.format(device, "custom_bwd"), FutureWarning, stacklevel=3)
    return functools.partial(autocast_mode.custom_bwd, device_type=device)(bwd)
