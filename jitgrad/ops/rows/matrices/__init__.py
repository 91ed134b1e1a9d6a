"""Inverses, determinants, factors and functions of matrices: call-backs into NumPy in every backend.

What is singular, not positive definite or not finite gives NaN here; the library's checks raise.
"""

from . import determinants, factors, functions, indefinite, solving, spectral

__all__ = ["determinants", "factors", "functions", "indefinite", "solving", "spectral"]
