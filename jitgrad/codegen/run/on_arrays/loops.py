"""Native loops over NumPy's arrays, called as built-in functions: compiled on first use, kept in the disk cache.

    run = loop(write, 3, "copies", "float")     # write(f: Native, *words: V), of three words, writes the loop
    run(result, x, x.size)                      # the addresses of the arrays' elements, and ints, are its words

What `write` returns is the result, an int64; 0 where it returns nothing.
"""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, store
from jitgrad.codegen.run.launch import ARRAY_DATA
from jitgrad.kernels.builtins import MOST_WORDS
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V

#: NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED: elements in order, each at a multiple of its size
IN_ORDER = 0x0001 | 0x0100

Loop = Callable[..., int]


def loop(write: Callable[..., V | None], words: int, *what: str) -> Loop:
    """The loop that `write` writes for `what`. MemoryError or OSError where there is no memory for native code."""
    assert words <= MOST_WORDS, what
    with engine.lock:
        code = store.kept(runtime.key(*what), lambda: engine.compile_module(_text(write, words)))
        loaded = engine.load(code, {})
    table = (ctypes.c_int64 * 3)(id(np.ndarray), ARRAY_DATA, loaded.address("jg_loop"))
    return runtime.builtin("jg_words", ctypes.addressof(table), (table, loaded))


def remembered(make: Callable[..., Loop]) -> Callable[..., Loop | None]:
    """`make`, which is asked once for each loop; None where there is no memory for native code."""
    found: dict[tuple[Any, ...], Loop] = {}

    def get(*what: Any) -> Loop | None:
        run = found.get(what)
        if run is None:
            try:
                run = found[what] = make(*what)
            except (MemoryError, OSError):
                return None
        return run

    return get


def in_order(x: Any) -> Any:
    """An array with its elements in order; itself where they are."""
    return x if x.flags.num & IN_ORDER == IN_ORDER else np.require(x, requirements=("C", "A"))


def lines(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """How many lines along an axis lie one behind the other, how long they are, and how many lie side by side."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def _text(write: Callable[..., V | None], words: int) -> str:
    machine = engine.host()
    f = Native(machine.has_fma, machine.has_avx512)
    given = V(f, "%words", "ptr", 1)
    found = write(f, *[f.load(given, k) for k in range(words)])
    if not f.has_left:
        f.leave(f.number(0) if found is None else found)
    return "\n".join([*f.declares.values(), *f.defined("i64 @jg_loop", ["ptr %words"])])
