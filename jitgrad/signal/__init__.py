"""torch.signal: windows for spectra, by their number of places."""

from jitgrad.signal import windows as windows

__all__ = ["windows"]
