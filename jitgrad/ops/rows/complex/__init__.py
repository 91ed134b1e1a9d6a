"""The rows that complex numbers alone have."""

from . import parts, transforms

__all__ = ["parts", "transforms"]
