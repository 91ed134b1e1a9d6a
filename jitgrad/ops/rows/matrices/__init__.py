"""Inverses, factors and functions of matrices: call-backs into NumPy in every backend.

What is singular, not positive definite or not finite gives NaN here; the library's checks raise.
"""

from . import factors, functions, indefinite, solving, spectral

__all__ = ["factors", "functions", "indefinite", "solving", "spectral"]
