"""The rows that complex numbers alone have."""

from . import parts

__all__ = ["parts"]
