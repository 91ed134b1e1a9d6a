"""The values of a dict whose keys are known, read at once by native code."""

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.codegen.run import runtime


class Values:
    """Reads dicts of some keys, in their order. KeyError for one that has others."""

    __slots__ = ("_keys", "quick")
    #: the values of a dict; False for one that `look` must look at
    quick: Callable[[Mapping[Any, Any]], tuple[Any, ...] | bool]

    def __init__(self, keys: tuple[Any, ...]):
        self._keys = keys = tuple([sys.intern(key) if type(key) is str else key for key in keys])  # as in most dicts
        table = (ctypes.c_int64 * (2 + len(keys)))(id(dict), len(keys), *map(id, keys))
        self.quick = runtime.builtin("jg_values", ctypes.addressof(table), (table, keys))

    def look(self, found: Mapping[Any, Any]) -> tuple[Any, ...]:
        """The values of any mapping."""
        if tuple(found) != self._keys:
            raise KeyError(found)
        return tuple([found[key] for key in self._keys])
