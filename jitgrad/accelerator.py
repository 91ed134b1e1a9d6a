"""torch.accelerator's questions, answered for a build that computes on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """False: this version computes on the CPU."""
    return False


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no accelerator."""
    return None


def device_count() -> int:
    """0."""
    return 0
