"""Tables for `jg_arrays`: what a program assumes of NumPy arrays, checked by native code before each call.

The native check is sufficient, not necessary: a dtype that is equal but another object, or memory whose owner is not
an array, is for Python to look at. `kernels/arrays.py` has the layout of a table, and the function.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.codegen.run import runtime
from jitgrad.codegen.run.launch import ARRAY_DATA
from jitgrad.kernels import arrays as native
from jitgrad.kernels.arrays import ANYWHERE, WRITTEN


class Expected(NamedTuple):
    """An array. sizes: numbers, None for any but 1; part: it is written, only read, or its memory does not matter."""

    dtype: np.dtype[Any]
    sizes: tuple[int | None, ...]
    part: int = ANYWHERE


class Equal(NamedTuple):
    """A size that equals another, or (with item -1) the number `other_axis`."""

    item: int
    axis: int
    other: int
    other_axis: int


def _layout() -> bool:
    """Whether this Python and this NumPy lay out their objects as `jg_arrays` reads them: found, not assumed."""
    owner = np.arange(6, dtype=np.int32).reshape(2, 3).copy()
    view = owner[1:]
    start = ARRAY_DATA + 8

    def word(array: Any, offset: int) -> int:
        return ctypes.c_size_t.from_address(id(array) + offset).value

    return (word(owner, native.CLASS) == id(np.ndarray) and word(owner, start) & 0xFFFFFFFF == 2
            and word(owner, start + native.BASE) == 0 and word(view, start + native.BASE) == id(owner)
            and word(owner, start + native.DTYPE) == id(owner.dtype)
            and tuple((ctypes.c_ssize_t * 2).from_address(word(view, start + native.SHAPE))) == (1, 3))


class Check:
    """Calls of `jg_arrays` for one table, `expected` by the number of the argument.

    The function keeps Python's lock: the scratch memory is one call's.
    """

    __slots__ = ("call", "table")
    #: whether arrays, its arguments, are what the table says
    call: Callable[..., bool]

    def __init__(self, expected: Mapping[int, Expected], equal: Sequence[Equal]):
        size = 8
        while size < 4 * len(expected):
            size *= 2
        scratch = (ctypes.c_int64 * (2 * size))()
        words = [id(np.ndarray), ARRAY_DATA + 8, len(expected), len(equal), ctypes.addressof(scratch), size - 1,
                 0]
        for number, e in sorted(expected.items(), key=lambda pair: pair[1].part != WRITTEN):
            words += [number, id(e.dtype), len(e.sizes), e.part, *[-1 if s is None else s for s in e.sizes]]
        words += [word for pair in equal for word in pair]
        self.table = (ctypes.c_int64 * len(words))(*words)
        owner = self.table, scratch, [e.dtype for e in expected.values()]
        self.call = runtime.builtin("jg_check", ctypes.addressof(self.table), owner)


#: where this is False everything is checked in Python
KNOWN = _layout()
