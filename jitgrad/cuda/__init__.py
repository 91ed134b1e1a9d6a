"""torch.cuda's questions, answered for a build that computes on the CPU."""

from __future__ import annotations

from typing import Any

from jitgrad.cuda import amp as amp


def is_available() -> bool:
    """False: this version computes on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator but the CPU's."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator but the CPU's."""


def empty_cache() -> None:
    """Nothing."""


def synchronize(device: Any = None) -> None:
    """Raises RuntimeError: there is nothing to wait for."""
    raise RuntimeError("no CUDA device: this version of jitgrad computes on the CPU")


def current_device() -> int:
    """Raises RuntimeError: there is none."""
    raise RuntimeError("no CUDA device: this version of jitgrad computes on the CPU")
