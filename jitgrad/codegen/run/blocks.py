"""A memory handler for NumPy, of native code's functions (`kernels/blocks.py`), for `eager/arrays/blocks.py` to use."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any

import numpy as np
from numpy._core import multiarray

from jitgrad import config
from jitgrad.eager.arrays import blocks

#: of the memory of the machine, and bytes, that are kept at most
SHARE, MOST = 16, 1 << 29
#: the numbers of `PyDataMem_SetHandler` and `PyArray_Empty` in NumPy's table of functions, the same since 1.22
_SET_HANDLER, EMPTY = 304, 184
_NAME, _VERSION = b"jitgrad", 1


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`, with the functions of its allocator."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
                ("new", ctypes.c_void_p), ("zeros", ctypes.c_void_p), ("resize", ctypes.c_void_p),
                ("free", ctypes.c_void_p))


def limit() -> int:
    """Bytes that are kept at most."""
    known = config.current().kept_memory
    if known >= 0:
        return known << 20
    sysconf = getattr(os, "sysconf", None)  # not on Windows
    return min(MOST, sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGE_SIZE") // SHARE) if sysconf else MOST


def manage(functions: Mapping[str, int], code: Any) -> None:
    """The run-time library is there, with functions at these addresses, in `code`."""
    blocks.provide(None, None)
    if not limit():
        return
    handler = _Handler(_NAME, _VERSION, None, *[
        functions[f"jg_block_{name}"] for name in ("new", "zeros", "resize", "free")])
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
    capsule = make(ctypes.addressof(handler), b"mem_handler", None)
    variable = copy_context().run(_variable, capsule)
    if variable is None:
        return
    for immortal in (handler, code):  # arrays are freed when all else is gone
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(functions["jg_keep_blocks"])(limit())
    blocks.provide(variable, capsule)


def _variable(capsule: Any) -> ContextVar[Any] | None:
    """Where NumPy looks for its handler, which is set to ours; None: it is another NumPy, and has its own memory."""
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_function(_SET_HANDLER))(capsule)
    if multiarray.get_handler_name(np.empty(1)) != _NAME.decode():
        return None
    here: Context = copy_context()
    return next((variable for variable, value in here.items() if value is capsule), None)


def numpy_function(number: int) -> int:
    """The address of a function in NumPy's table."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return ctypes.cast(pointer(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))[number] or 0
