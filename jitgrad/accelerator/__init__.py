"""torch.accelerator: the same questions as `jitgrad.cuda`, for whatever kind of device there is."""

from typing import Any

from jitgrad import cuda
from jitgrad.device import device, has_gpu


def is_available() -> bool:
    """Whether there is a GPU that can be used."""
    return has_gpu()


def current_accelerator(check_available: bool = False) -> device | None:
    """`device("cuda")`; None where there is no GPU."""
    return device("cuda") if has_gpu() else None


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the current GPU."""
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Make a GPU the current one."""
    cuda.set_device(device)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was given."""
    cuda.synchronize(device)


current_device_idx, set_device_idx = current_device_index, set_device_index

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "device_count", "is_available",
           "set_device_idx", "set_device_index", "synchronize"]
