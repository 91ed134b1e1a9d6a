"""Batches of products of half types on CuPy's arrays, which CuPy does not have or makes in float32: by cuBLASLt.

    batches(cupy, a, b)    # a @ b, of three and more axes

Sums are float32, rounded once. Batches need not be contiguous, nor written where they broadcast: an axis of the batch
is a stride in the call, others are calls of their own.
"""

from itertools import product
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver.blaslt import DTYPES, Call
from jitgrad.codegen.cuda.driver.cudadriver import of_device
from jitgrad.dtypes import from_numpy


def batches(cupy: Any, a: Any, b: Any) -> Any:
    """a @ b of arrays of one half type, one of them with more than two axes; those before the last two broadcast.

    Raises:
        LibraryError: cuBLASLt is not installed. CudaError: it fails.
    """
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), n = a.shape[-2:], b.shape[-1]
    c = (cupy.empty if k else cupy.zeros)((*outer, m, n), a.dtype)
    if not c.size or not k:
        return c
    (a, turned, down), (b, turned_too, down_too) = (_readable(cupy, x) for x in (a, b))
    arrays = [cupy.broadcast_to(x, (*outer, *x.shape[-2:])) for x in (a, b)] + [c]
    *loops, (count, *strides) = sorted(_axes(outer, arrays)) or [(1, 0, 0, 0)]  # most in one call
    driver, kind = of_device(c.device.id), DTYPES.index(from_numpy(c.dtype))
    stream = driver.stream()
    for index in product(*[range(size) for size, *_ in loops]):
        places = [x.data.ptr + x.itemsize * sum(i * axis[1 + w] for i, axis in zip(index, loops, strict=True))
                  for w, x in enumerate(arrays)]
        driver.lt.matmul(stream, Call(kind, turned, turned_too, 0, m, n, k, down, down_too, n, places[0], places[1],
                                      places[2], count, *strides))
    return c


def _readable(cupy: Any, x: Any) -> tuple[Any, bool, int]:
    """An array whose matrices are rows or columns of neighbours, x or a copy; whether columns, how far the next is."""
    rows, columns = x.shape[-2:]
    down, across = (s // x.itemsize for s in x.strides[-2:])
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return x, False, max(down, columns)
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return x, True, max(across, rows)
    return cupy.ascontiguousarray(x), False, columns


def _axes(outer: tuple[int, ...], arrays: list[Any]) -> list[tuple[int, ...]]:
    """The axes of a batch, each its size and the arrays' strides, those as one that are one for all arrays."""
    found: list[tuple[int, ...]] = []
    for axis in reversed(range(len(outer))):
        size, *strides = outer[axis], *[x.strides[axis] // x.itemsize for x in arrays]
        if size == 1:
            continue
        if found and all(s == found[-1][0] * t for s, t in zip(strides, found[-1][1:], strict=True)):
            found[-1] = size * found[-1][0], *found[-1][1:]
        else:
            found.append((size, *strides))
    return found
