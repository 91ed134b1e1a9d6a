"""Utilities: data loading, checkpointing; each loaded when it is first used (loaders bring worker processes along)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitgrad.utils import checkpoint as checkpoint, data as data, dlpack as dlpack

__all__ = ["checkpoint", "data", "dlpack"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
