"""Indices on a GPU are checked there, and what is found is raised when the host next waits for the GPU.

To look at the indices at once would make the host wait at every lookup. An index out of range reads or writes an
element that exists (CuPy wraps it around); the error comes before any number of the result can be seen.
"""

from collections import OrderedDict
from typing import Any

from jitgrad.device import gpu_kernels

#: how many of the latest checks are known by their words
KNOWN = 4096
#: what a script's check leaves where all indices are in range
NOTHING_WRONG = -(1 << 63)


class Bounds:
    """The checks of one array library's indices.

    `awaited`: what scripts have left to be looked at. `flags`: for each GPU the number of a check that failed, and an
    index that was out of range; `open`: GPUs with checks of which nobody has looked at the outcome.
    """

    def __init__(self, cupy: Any):
        self.cupy = cupy
        self.flags: dict[int, Any] = {}
        self.open: set[int] = set()
        self.words: OrderedDict[int, tuple[type[Exception], str, str]] = OrderedDict()
        self.count = 0
        self.awaited: list[tuple[Any, type[Exception], str, str]] = []

    def expect(self, indices: Any, low: int, high: int, error: type[Exception], head: str,
               tail: str) -> None:
        """Let `error` be raised later if an index is not in [low, high), with the head, it and the tail."""
        there: int = indices.device.id
        self.count += 1
        self.words[self.count] = (error, head, tail)
        if len(self.words) > KNOWN:
            self.words.popitem(last=False)
        kernels = gpu_kernels()
        with indices.device:
            flag = self.flags.get(there)
            if flag is None:
                flag = self.flags[there] = self.cupy.zeros(2, "int64")
            kernels.check_range(self.cupy, indices, low, high, self.count, flag)
        self.open.add(there)

    def await_(self, worst: Any, error: type[Exception], head: str, tail: str) -> None:
        """Let `error` be raised later if the array of one element `worst` has an index in it, not `NOTHING_WRONG`."""
        self.awaited.append((worst, error, head, tail))
        if len(self.awaited) >= KNOWN:
            self.look()

    def look(self) -> None:
        """Raise what was found since the last time. Waits for the GPUs that have checked something."""
        awaited, self.awaited = self.awaited, []
        there: dict[int, list[Any]] = {}
        for worst, *_ in awaited:
            there.setdefault(worst.device.id, []).append(worst.reshape(1))
        found = {}
        for number, ones in there.items():
            with ones[0].device:
                found[number] = iter(self.cupy.concatenate(ones).get().tolist())
        for worst, error, head, tail in awaited:
            index = next(found[worst.device.id])
            if index != NOTHING_WRONG:
                raise error(f"{head}{index}{tail} (on a GPU this is found when a result is first read)")
        while self.open:
            flag = self.flags[self.open.pop()]
            number, index = flag.get().tolist()
            if number:
                with flag.device:
                    flag.fill(0)
                error, head, tail = self.words.get(number, (IndexError, "index ", " is out of bounds"))
                raise error(f"{head}{index}{tail} (on a GPU this is found when a result is first read)")
