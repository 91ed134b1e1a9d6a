"""torch.fft: Fourier transforms of one and several axes, and the order of their frequencies."""

from jitgrad.ops.library.spectral import transforms as _transforms

__library__ = True

__all__ = list(_transforms.__all__)
globals().update({name: getattr(_transforms, name) for name in __all__})
