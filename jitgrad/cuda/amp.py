"""torch.cuda.amp: older names of `jitgrad.amp` for CUDA."""

from typing import Any

from jitgrad.amp import older
from jitgrad.dtypes import dtype as _dtype


class autocast(older.autocast):
    """`jitgrad.autocast("cuda", ...)`. Deprecated."""

    of = "cuda"


class GradScaler(older.GradScaler):
    """`jitgrad.amp.GradScaler("cuda", ...)`. Deprecated."""

    of = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: _dtype | None = None) -> Any:
    """`jitgrad.amp.custom_fwd(..., device_type="cuda")`. Deprecated."""
    return older.custom_fwd("cuda", fwd, cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`jitgrad.amp.custom_bwd(..., device_type="cuda")`. Deprecated."""
    return older.custom_bwd("cuda", bwd)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
