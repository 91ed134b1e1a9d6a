"""The rows of special functions: those of `torch.special` and what their derivatives need.

Most are expressions of other rows, which kernels and eager code compute in float64 whatever the operands' dtype; where
the number of steps depends on the operands, NumPy runs them (trait "in_library").
"""

from . import bessel, exact, gamma, implicit, modified_bessel, normal, polynomials

__all__ = ["bessel", "exact", "gamma", "implicit", "modified_bessel", "normal", "polynomials"]
