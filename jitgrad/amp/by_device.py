"""torch's older names for what autocast does on one device: each warns that it is deprecated."""

import warnings

from jitgrad.amp import autocast_mode
from jitgrad.dtypes import dtype as _dtype


def _warn(old: str, new: str) -> None:
    warnings.warn(f"torch.{old} is deprecated. Please use torch.{new} instead.", DeprecationWarning, stacklevel=3)


def get_autocast_cpu_dtype() -> _dtype:
    """`get_autocast_dtype("cpu")`."""
    _warn("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return autocast_mode.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> _dtype:
    """`get_autocast_dtype("cuda")`."""
    _warn("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return autocast_mode.get_autocast_dtype("cuda")


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    _warn("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return autocast_mode.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    _warn("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    autocast_mode.set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    _warn("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    autocast_mode.set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    _warn("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    autocast_mode.set_autocast_dtype("cuda", dtype)


__all__ = ["get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cpu_enabled", "set_autocast_cpu_dtype",
           "set_autocast_cpu_enabled", "set_autocast_gpu_dtype"]
