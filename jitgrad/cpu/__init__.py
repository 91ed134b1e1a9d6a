"""torch.cpu: the device that is always there."""

from typing import Any

from jitgrad.cpu import amp


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Nothing: computation on the CPU is done when a call returns."""


__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]
