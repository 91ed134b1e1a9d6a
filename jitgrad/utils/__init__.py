"""Utilities: data loading, checkpointing."""

from jitgrad.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
