"""torch.amp: mixed precision. `autocast` chooses dtypes for regions of code, `GradScaler` keeps small gradients."""

from jitgrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from jitgrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
