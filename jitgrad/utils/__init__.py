"""Utilities: data loading."""

from jitgrad.utils import data

__all__ = ["data"]
