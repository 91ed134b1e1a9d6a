"""The arrays that tensors consist of: NumPy's on the CPU, CuPy's on a GPU, and what eager needs to know of either.

`library(array)` says to which an array belongs. The hot paths ask `type(array) is ndarray` first, so that the CPU pays
one comparison; all that is different elsewhere is behind `Library`.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from jitgrad.device import CPU, cpu_kernels, device, require_gpu
from jitgrad.eager.arrays.cupy_arrays import CupyLibrary
from jitgrad.eager.arrays.library import HOST, Library
from jitgrad.ops import OPS

_ndarray = np.ndarray
#: elements of an operand from which native code computes what it can (`codegen/run/on_arrays/rows.py`)
MANY = 1 << 16
#: elements from which it takes the place of several of NumPy's calls: examples made by hand have fewer
FEW = 1 << 8

#: the libraries of arrays met so far that are not NumPy's; empty where no GPU was used
MET: dict[type, Library] = {}


def library(array: Any) -> Library:
    """The library of an array; NumPy's for NumPy's scalars and Python's numbers."""
    kind = type(array)
    return HOST if kind is _ndarray else MET.get(kind, HOST)


def on_device(where: device) -> Library:
    """The library of the arrays on a device, which is there (`device.resolve`)."""
    if where.type == "cpu":
        return HOST
    cupy = require_gpu()
    found = MET.get(cupy.ndarray)
    if found is None:
        found = MET[cupy.ndarray] = CupyLibrary(cupy)
    return found


def foreign(array: Any) -> Library | None:
    """The library of an array that is not NumPy's: of one that was met before, or of a CuPy array."""
    found = MET.get(type(array))
    if found is None and type(array).__module__.partition(".")[0] == "cupy":
        cupy = require_gpu()
        if isinstance(array, cupy.ndarray):
            return on_device(device("cuda", array.device.id))
    return found


def several() -> bool:
    """Whether arrays may be on several GPUs."""
    return bool(MET) and any(found.several for found in MET.values())


def there(values: Sequence[Any]) -> Any:
    """A context in which results are made where the first array that is not on the CPU is: with several GPUs."""
    for value in values:
        found = MET.get(type(value))
        if found is not None:
            return found.near((value,))
    return nullcontext()


def filled_like(array: Any, name: str) -> Any:
    """`ones_like(array)` or `zeros_like(array)`, where the array is."""
    with there((array,)):
        return getattr(library(array).xp, name)(array)


def _order(shape: Sequence[int], arrays: Sequence[Any]) -> list[int]:
    """The axes as they lie in the memory of what is computed of arrays element by element, the smallest stride first.

    Of two axes the first array tells in which both have a stride, one of its own.
    Source: TensorIterator::reorder_dimensions, aten/src/ATen/TensorIterator.cpp
    """
    rank = len(shape)
    steps = [(0,) * (rank - x.ndim) + tuple([s if n == m else 0 for s, n, m in zip(
        x.strides, x.shape, shape[rank - x.ndim:], strict=True)]) for x in arrays]

    def later(a: int, b: int) -> int:
        for p, q in [(s[a], s[b]) for s in steps]:
            if p and q and (p != q or shape[a] > shape[b]):
                return 1 if p >= q else -1
        return 0

    order = [*reversed(range(len(shape)))]
    for i in range(1, len(order)):
        for k in reversed(range(i)):
            found = later(order[k], order[i])
            if found > 0:
                order[k], order[i], i = order[i], order[k], k
            elif found < 0:
                break
    return order


def lying(xp: Any, shape: Sequence[int], dtype: Any, arrays: Sequence[Any]) -> Any:
    """Memory for what is computed of arrays element by element, its axes in the order of theirs."""
    order = _order(shape, arrays)[::-1]
    return xp.empty([shape[a] for a in order], dtype).transpose([order.index(a) for a in range(len(order))])


def copy(array: Any) -> Any:
    """A copy in row order; a NumPy scalar becomes an array."""
    found = MET.get(type(array))
    if found is None:
        if type(array) is _ndarray and array.size >= MANY and not array.flags.c_contiguous:
            made = cpu_kernels().row(OPS["contiguous"], [array], {})
            if made is not None:
                return made
        return np.array(array, order="C")
    with found.near((array,)):
        return array.copy(order="C")


def settle() -> None:
    """Raise what went wrong in work, on any device, that was not waited for."""
    for found in MET.values():
        found.settled()


def transfer(array: Any, where: device) -> Any:
    """The array on another device (a copy), or itself where it is there already."""
    here = library(array)
    if here is HOST:
        return array if where.type == "cpu" else on_device(where).from_host(array, where)
    if where.type == "cpu":
        return here.to_host(array)
    if here.device_of(array) == where:
        return array
    with here.on(where):
        return array.copy()


def device_of(array: Any) -> device:
    """Where an array's memory is."""
    return CPU if type(array) is _ndarray else library(array).device_of(array)


def together(a: Any, b: Any) -> bool:
    """Whether two arrays are on one device."""
    return type(a) is type(b) and (type(a) is _ndarray or library(a).together(a, b))


def to_host(array: Any) -> Any:
    """The NumPy array with the same elements; itself on the CPU."""
    return array if type(array) is _ndarray else library(array).to_host(array)


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays, of any libraries, have elements in common."""
    if type(a) is _ndarray and type(b) is _ndarray:
        return np.shares_memory(a, b)
    return type(a) is type(b) and library(a).overlap(a, b)


def host_copy(array: Any) -> Any:
    """A NumPy array with the same elements and memory of its own."""
    return array.copy() if type(array) is _ndarray else to_host(array)


def different_devices(a: device, b: device) -> RuntimeError:
    """torch's error for operands on several devices."""
    return RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {a} and {b}!")
