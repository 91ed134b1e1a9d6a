"""torch.fft: Fourier transforms of one and several axes, and the order of their frequencies."""

from jitgrad.ops.library.spectral import transforms as _transforms
from jitgrad.ops.library.spectral.transforms import *  # noqa: F403  (of which type checkers know the names)

__library__ = True

globals()["__all__"] = list(_transforms.__all__)
