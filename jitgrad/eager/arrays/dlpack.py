"""bfloat16 by the DLPack protocol, which NumPy does not speak: it is handed the numbers as uint16.

A capsule holds a struct that says the dtype; between the library that wrote it and the one that reads it, the code of
the dtype is exchanged. Source: https://dmlc.github.io/dlpack/latest/c_api.html.
"""

import ctypes
from typing import Any

import numpy as np

from jitgrad.dtypes import bfloat16

UINT, BFLOAT = 1, 4  # DLPack's codes of kinds of numbers
#: where in the struct of a capsule of this name the tensor begins, and where in that its dtype is
BEGIN, DTYPE = {b"dltensor": 0, b"dltensor_versioned": 32}, 20


def exported(array: Any, **asked: Any) -> Any:
    """The capsule of a bfloat16 ndarray."""
    capsule = array.view(np.uint16).__dlpack__(**asked)
    _dtype(capsule)[0] = BFLOAT
    return capsule


def imported(source: Any) -> Any:
    """The ndarray on the memory of what exports itself, or of a capsule."""
    reader = _Reader(source)
    array = np.from_dlpack(reader)
    return array.view(bfloat16.np) if reader.is_bfloat16 else array


def _dtype(capsule: Any) -> Any:
    """The bytes of a capsule's dtype: its code, bits, and lanes."""
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    name = name_of(capsule)
    if name not in BEGIN:
        raise ValueError(f"a DLPack capsule of the name {name!r}, which was read already or is of another protocol")
    return (ctypes.c_uint8 * 4).from_address(pointer(capsule, name) + BEGIN[name] + DTYPE)


class _Reader:
    """What NumPy is given for a source: bfloat16 is said to be uint16."""

    def __init__(self, source: Any):
        self._source = source
        self.is_bfloat16 = False

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self._source.__dlpack__(**asked) if hasattr(self._source, "__dlpack__") else self._source
        dtype = _dtype(capsule)
        if (dtype[0], dtype[1]) == (BFLOAT, 16):
            dtype[0], self.is_bfloat16 = UINT, True
        return capsule

    def __dlpack_device__(self) -> Any:
        own = getattr(self._source, "__dlpack_device__", None)
        return own() if own else (1, 0)
