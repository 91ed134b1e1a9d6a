"""Conjugates: views for who writes to them or to what they are the conjugate of, with memory of their own.

PyTorch's are computed when they are read. Here nothing that reads a tensor knows of them: what is written to one memory
is written to the others too.
"""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.eager.arrays.arrays import library

OVERLAP = ("unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
           "Please clone() the tensor before performing the operation.")


class Mirrors:
    """The conjugates of parts of one memory, and of parts of such conjugates, in the order in which they were made."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: list[tuple[weakref.ref[Any], Any, bool]] = []  # a conjugate, of what, and whether that is none

    def add(self, conjugate: Any, of: Any) -> None:
        """Note an array, the conjugate of another one; its memory is kept equal for as long as somebody has it."""
        self._made = [made for made in self._made if made[0]() is not None]
        self._made.append((weakref.ref(conjugate), of, not self.is_conjugate(of)))

    def whole(self, array: Any) -> Any:
        """The conjugate of which an array is a part; None for a part of the memory itself."""
        return next((c for c, _, _ in self._living() if library(c).shares(c, array)), None)

    def is_conjugate(self, array: Any) -> bool:
        """Whether an array has the conjugates of the memory's numbers: not so those of conjugates."""
        return any(odd for c, _, odd in self._living() if library(c).shares(c, array))

    def follow(self, array: Any) -> None:
        """Let all others show what was written to an array. RuntimeError where elements overlap in one of them."""
        living, written = self._living(), [array]
        for conjugate, of, _ in reversed(living):
            if any(library(conjugate).shares(conjugate, a) for a in written):
                if not library(of).writable(of):
                    raise RuntimeError(OVERLAP)
                of[...] = conjugate.conj()
                written.append(of)
        for conjugate, of, _ in living:
            conjugate[...] = of.conj()

    def _living(self) -> list[tuple[Any, Any, bool]]:
        return [(array, of, odd) for ref, of, odd in self._made if (array := ref()) is not None]
