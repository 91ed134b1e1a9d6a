"""`map_location`: on which devices the tensors of a file come back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.device import CPU, device as Device, require_gpu, resolve
from jitgrad.eager.construct import from_numpy

#: a device for all; a device (or its name) for that which a tensor was saved from; or a function of a tensor on the CPU
#: and the name of the device that it was saved from, which returns the tensor where it goes, or None
MapLocation = Device | str | int | Mapping[Any, Any] | Callable[[Any, str], Any] | None


class Locations:
    """Moves tensors as `map_location` says, and tells where those of a device go.

    Raises:
        RuntimeError: a device that is not there.
    """

    def __init__(self, wanted: MapLocation = None):
        self._function: Callable[[Any, str], Any] | None = None
        self._table: dict[str, Any] = {}
        self._everywhere: Device | None = None
        if isinstance(wanted, Mapping):
            self._table = {str(saved): there for saved, there in wanted.items()}
        elif callable(wanted):
            self._function = wanted
        elif wanted is not None:
            self._everywhere = resolve(wanted)

    def tensor(self, t: Any, saved: str) -> Any:
        """A tensor on the CPU, moved to where one that was saved from the device `saved` goes."""
        if self._function is not None:
            made = self._function(t, saved)
            if made is not None:
                return made
        there = self._named(saved)
        return t if there.type == "cpu" else t.to(there)

    def device(self, saved: str) -> Device:
        """Where tensors that were saved from the device `saved` go."""
        if self._function is not None:
            made = self._function(from_numpy(np.zeros(0, np.float32)), saved)
            if made is not None:
                there: Device = made.device
                return there
        return self._named(saved)

    def attribute(self, saved: Device) -> Device:
        """What becomes of an object that is a device: it moves too, unless it is not there or only says "a GPU"."""
        if saved.type != "cpu" and saved.index is None and not (self._everywhere or self._function or
                                                                str(saved) in self._table):
            return saved
        try:
            return self.device(str(saved))
        except RuntimeError:
            return saved

    def _named(self, saved: str) -> Device:
        if self._everywhere is not None:
            return self._everywhere
        if saved in self._table:
            return resolve(self._table[saved])
        found = Device(saved)
        if found.type == "cpu":
            return CPU
        try:
            require_gpu()
        except RuntimeError as missing:
            raise RuntimeError(f"Attempting to deserialize a tensor on {saved}, but no CUDA device can be used here. "
                               "Use load(..., map_location='cpu') to have it on the CPU, or make a GPU usable: "
                               f"{missing}") from None
        return resolve(found)
