"""Convolutions and attention (`kernels/tiled/`): compiled on first use, for a machine, and kept in the disk cache.

    address("jg_attention_forward_float32")
    convolved("y", x, w, (N, O, *windows), stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)    # on arrays
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, store
from jitgrad.dims import evaluate
from jitgrad.kernels.tiled import attention, convolution
from jitgrad.kernels.tiled.convolution import Layout
from jitgrad.kernels.tiled.tiles import ELEMENTS

#: the classes that write functions, in `kernels/tiled/<name>_native.py`, by what the names of these begin with; roles
FAMILIES = {module.PREFIX: (name, tuple(module.ROLES)) for name, module in (
    ("Convolution", convolution), ("Attention", attention))}


def is_symbol(name: str) -> bool:
    """Whether a function is one of these."""
    return name.startswith(tuple(FAMILIES))


def address(name: str) -> int:
    """Where a function is, by its symbol."""
    with engine.lock:
        return _loaded(next(filter(name.startswith, FAMILIES)), name.rpartition("_")[2]).address(name)


def keys() -> set[str]:
    """The keys in the disk cache of all that may be there of these."""
    return {runtime.key(family, dtype) for family, _ in FAMILIES.values() for dtype in ELEMENTS}


@lru_cache(maxsize=len(ELEMENTS) * len(FAMILIES))
def _loaded(prefix: str, dtype: str) -> engine.Loaded:
    family, roles = FAMILIES[prefix]

    def make() -> bytes:
        module = import_module(f"jitgrad.kernels.tiled.{family.lower()}_native")
        machine = engine.host()
        functions = getattr(module, family)(dtype, machine.vector_bytes, machine.has_fma, machine.has_avx512)
        return engine.compile_module(functions.text())

    return engine.load(store.kept(runtime.key(family, dtype), make), runtime.symbols(),
                       [f"{prefix}{role}_{dtype}" for role in roles])


@lru_cache(maxsize=len(ELEMENTS) * len(convolution.ROLES))
def _function(role: str, dtype: str) -> Callable[..., None]:
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
    return prototype(address(f"{convolution.PREFIX}{role}_{dtype}"))


def convolved(role: str, a: Any, b: Any, shape: Sequence[int], stride: Sequence[int], padding: Sequence[int],
              dilation: Sequence[int], groups: int) -> Any:
    """The images "x", weights "w" or results "y" of a convolution, of `shape`, from the other two, in that order.

    Arrays of NumPy, both float32 or both float64. Sizes are not checked.
    """
    given = [np.ascontiguousarray(v) for v in (a, b)]
    target = np.empty(tuple(shape), a.dtype)
    x, w, y = (target if r == role else given.pop(0) for r in convolution.ROLES)
    if not target.size:
        return target
    strides = [s // x.itemsize for s in x.strides]
    layout = Layout(x.shape, w.shape, y.shape, strides, stride, padding, dilation, groups, role, x.itemsize)
    words = np.array(layout.words, np.int64)
    scratch = np.empty(evaluate(layout.scratch, {}), x.dtype)
    _function(role, x.dtype.name)(*[v.ctypes.data for v in (words, x, w, y, scratch)])
    return target


__all__ = ["address", "convolved", "is_symbol", "keys"]
