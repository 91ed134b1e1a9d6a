"""Random words in kernels, made cheap: neighbours take theirs from whole blocks, and a comparison is one of integers.

`uniform >= p`, as of a dropout mask, is monotone in the word that the number is made of. So the first word for which it
holds decides it, for every device and dtype the same, and what makes the number of the word is not computed at all.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from jitgrad.codegen.program.kernel import RANDOM_WORD, Kernel, Stmt
from jitgrad.codegen.program.plan import STORES
from jitgrad.dtypes import bfloat16, float16, float32, float64, int32, int64

_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
_WORDS = 1 << 32
#: conversions of what a shifted word can be that keep the order, and that round the same everywhere
_RISING = frozenset({(int64, int32), (int32, float32), (float32, float16), (float32, bfloat16), (float32, float64)})


def step_of(kernel: Kernel, i: int, axis: int) -> int | None:
    """By how much statement i grows with the index along an axis; None: not known, or it needs memory."""
    stmt = kernel.body[i]
    if stmt.op == "index":
        return int(stmt.axis == axis)
    if stmt.op in ("const", "scalar"):
        return 0
    if stmt.op not in ("add", "mul") or stmt.dtype is not int64:
        return None
    a, b = (step_of(kernel, k, axis) for k in stmt.args)
    if a is None or b is None:
        return None
    if stmt.op == "add":
        return a + b
    return 0 if a == b == 0 else None


def simplified(kernel: Kernel) -> Kernel:
    """The kernel with thresholds of words in place of comparisons of the numbers that they make."""
    return _simplified(kernel) if any(s.op == RANDOM_WORD for s in kernel.body) else kernel


@lru_cache(256)
def _simplified(kernel: Kernel) -> Kernel:
    body: list[Stmt] = []
    place: list[int] = []  # where a statement is now
    for i, stmt in enumerate(kernel.body):
        found = _threshold(kernel, i)
        if found is None:
            body.append(replace(stmt, args=tuple([place[a] for a in stmt.args])))
        else:
            word, first, upwards = found
            body.append(Stmt("const", dtype=int64, value=first))
            body.append(Stmt("ge" if upwards else "lt", (place[word], len(body) - 1), stmt.dtype))
        place.append(len(body) - 1)
    return kernel if len(body) == len(kernel.body) else replace(kernel, body=_alive(body))


def _alive(body: list[Stmt]) -> tuple[Stmt, ...]:
    """The statements that something stored needs."""
    wanted = [s.op in STORES for s in body]
    for i in range(len(body) - 1, -1, -1):
        if wanted[i]:
            for a in body[i].args:
                wanted[a] = True
    place, kept = [0] * len(body), 0
    for i, w in enumerate(wanted):
        place[i] = kept
        kept += w
    return tuple([replace(s, args=tuple([place[a] for a in s.args])) for s, w in zip(body, wanted, strict=True) if w])


def _threshold(kernel: Kernel, i: int) -> tuple[int, int, bool] | None:
    """The word that comparison i looks at, the first one from which on it holds, or (False) no longer does."""
    stmt, body = kernel.body[i], kernel.body
    if stmt.op not in _COMPARED:
        return None
    constants = [body[a].op == "const" for a in stmt.args]
    if constants.count(True) != 1:
        return None
    other, side = (stmt.args[k] for k in (constants.index(True), constants.index(False)))
    chain = _chain(kernel, side)
    if chain is None:
        return None
    word, number = chain
    compare, against = _COMPARED[stmt.op], kernel.dtype_of(other).np.type(body[other].value)
    upwards = (stmt.op in ("ge", "gt")) is constants[1]

    def holds(w: int) -> bool:
        return bool(compare(number(w), against) if constants[1] else compare(against, number(w))) == upwards

    return word, _first(holds), upwards


def _first(holds: Callable[[int], bool]) -> int:
    """The first word for which a condition holds that then holds for all larger ones; 2^32: none."""
    low, high = 0, _WORDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _chain(kernel: Kernel, i: int) -> tuple[int, Callable[[Any], Any]] | None:
    """The word that statement i is made of in steps none of which falls, and what makes it of a word."""
    stmt, body = kernel.body[i], kernel.body
    if stmt.op == RANDOM_WORD:
        return i, np.int64
    found = _chain(kernel, stmt.args[0]) if stmt.args and all(body[a].op == "const" for a in stmt.args[1:]) else None
    if found is None:
        return None
    word, inner = found
    d, below = kernel.dtype_of(i), kernel.dtype_of(stmt.args[0])
    if stmt.op == "cast" and (below, d) in _RISING:
        return word, lambda w: d.np.type(inner(w))
    number = body[stmt.args[1]].value if len(stmt.args) == 2 else 0
    if stmt.op == "bitwise_right_shift" and d is int64 and 0 < number < 32:
        return word, lambda w: inner(w) >> np.int64(number)
    if stmt.op == "mul" and d is below is float32 and number > 0:
        return word, lambda w: inner(w) * np.float32(number)
    return None
