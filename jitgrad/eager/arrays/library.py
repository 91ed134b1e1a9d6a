"""An array library: NumPy, and what another one does differently, behind one interface."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from jitgrad.device import CPU, device
from jitgrad.eager.arrays.bounds import NOTHING_WRONG
from jitgrad.ops.namespaces import ArrayNamespace

_ndarray = np.ndarray


class Library:
    """NumPy, and what another array library does differently.

    Attributes:
        xp: the module of array functions that the op table's rows are given.
        F: the rows as functions on these arrays.
        ndarray: the class of the arrays.
        several: whether they may be on several devices, of which one is current.
    """

    several = False

    def __init__(self, xp: Any, F: ArrayNamespace, ndarray: type):
        self.xp, self.F = xp, F
        self.ndarray: Any = ndarray

    def device_of(self, array: Any) -> device:
        """Where the array's memory is."""
        return CPU

    def on(self, where: device) -> Any:
        """A context in which new arrays are made on `where`."""
        raise NotImplementedError

    def near(self, arrays: Sequence[Any]) -> Any:
        """A context in which results are made where the arrays are."""
        return nullcontext()

    def from_host(self, array: Any, where: device) -> Any:
        """A copy of a NumPy array; order and strides as NumPy's copy has them."""
        raise NotImplementedError

    def to_host(self, array: Any) -> Any:
        """The NumPy array with the same elements (itself on the CPU)."""
        return array

    def settled(self) -> None:
        """Before numbers are read: raise what went wrong in work that was not waited for."""

    def expect(self, worst: Any, error: type[Exception], head: str, tail: str) -> None:
        """Let `error` be raised, now or when numbers are read, if the one element of `worst` is an index out of range
        and not `bounds.NOTHING_WRONG`."""
        if worst != NOTHING_WRONG:
            raise error(f"{head}{worst}{tail}")

    def scalar(self, array: Any) -> Any:
        """A 0-dim NumPy array as pointwise functions of this library take it."""
        return array

    def writable(self, array: Any) -> bool:
        """Whether the array may be written and no two of its elements share memory."""
        return bool(array.flags.writeable)

    def owns(self, array: Any) -> bool:
        """Whether the array is memory of its own, which may be written by whoever holds the only reference."""
        return type(array) is _ndarray and array.flags.owndata and array.flags.writeable

    def shares(self, a: Any, b: Any) -> bool:
        """Whether two arrays may have memory in common."""
        return np.may_share_memory(a, b)

    def memory(self, array: Any) -> Any:
        """What the memory of an array belongs to: arrays of different ones have no elements in common."""
        while getattr(array, "base", None) is not None:  # a view with strides made by hand has a base of NumPy's own
            array = array.base
        return array

    def together(self, a: Any, b: Any) -> bool:
        """Whether two arrays are on one device."""
        return True

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays have elements in common."""
        return np.shares_memory(a, b)

    def address(self, array: Any) -> int:
        """The address of the first element."""
        return array.ctypes.data  # type: ignore[no-any-return]


HOST = Library(np, ArrayNamespace(np), _ndarray)
