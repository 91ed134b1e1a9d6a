"""Making tensors: of arrays, numbers and nested sequences."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import require_gpu
from jitgrad.dtypes import dtype
from jitgrad.eager.arrays import arrays, dlpack
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import Array, Storage, TapedArray

_ndarray, _met = np.ndarray, arrays.MET
#: DLPack's numbers
CPU_KIND, PINNED_KIND = 1, 3
_new = object.__new__
Tensor: type[Any]


def install(cls: type[TapedArray]) -> None:
    """Called once by `tensor.py`, which builds on this module: the class of tensors."""
    global Tensor
    Tensor = cls


def wrap(array: Any, cls: type[Any] | None = None) -> Any:
    """A Tensor of an ndarray (or of a NumPy scalar), sharing memory, without history. The hot path: checks nothing."""
    t = _new(cls or Tensor)
    t._data = array if type(array) is _ndarray or type(array) in _met else np.asarray(array)
    t._needs, t._base = False, None
    if mode.inference:
        t._storage = Storage(inference=True)
    return t


def wrap_each(arrays: list[Any], which: Iterable[int]) -> None:
    """Put Tensors (see `wrap`) in the place of some arrays; None stays."""
    new, cls, inference = _new, Tensor, mode.inference
    for i in which:
        array = arrays[i]
        if array is not None:
            t = arrays[i] = new(cls)
            t._data = array if type(array) is _ndarray or type(array) in _met else np.asarray(array)
            t._needs, t._base = False, None
            if inference:
                t._storage = Storage(inference=True)


def lift(number: Any, d: dtype) -> Any:
    """A 0-dim Tensor; ints too large for a narrow integer dtype wrap, as in torch."""
    if type(number) is float and -65504.0 <= number <= 65504.0 and not mode.inference:  # `wrap`, without a call
        t = _new(Tensor)
        t._data, t._needs, t._base = np.array(number, d.np), False, None
        return t
    try:
        if d.is_complex or -65504 <= number <= 65504:
            array = np.array(number, d.np)
        else:  # too large for a narrow float: infinite, of which NumPy would warn
            with np.errstate(all="ignore"):
                array = np.array(number, d.np)
    except OverflowError:
        if not -(1 << 63) <= number < 1 << 63:
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
        array = np.array(number, np.int64).astype(d.np)
    return wrap(array)


def from_numpy(ndarray: Array) -> Any:
    """A Tensor that shares memory with `ndarray`. TypeError for what is no ndarray or has no counterpart dtype."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtypes.from_numpy(ndarray.dtype)
    return wrap(ndarray.view(_ndarray))


def new_tensor(data: Any, d: dtype | None = None) -> Any:
    """A leaf with a copy of `data`: numbers, nested sequences, arrays, tensors. The dtype is inferred as torch does."""
    if isinstance(data, TapedArray):
        return wrap(data._data.astype(data._data.dtype if d is None else d.np, order="C"))
    home = arrays.foreign(data)
    if home is not None:
        found = dtypes.from_numpy(data.dtype)
        return wrap(data.astype((d or found).np, order="C"))
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.array(data, copy=True, order="C")
        found = dtypes.from_numpy(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("="))
        return wrap(array.astype((d or found).np, copy=False))
    if exports(data):
        return new_tensor(shared(data), d)
    with np.errstate(all="ignore"):
        return wrap(_from_sequence(data, d))


def exports(data: Any) -> bool:
    """Whether an object is an array of any library, which others may use by the DLPack protocol."""
    return hasattr(data, "__dlpack__")


def shared(source: Any) -> Any:
    """A Tensor on the memory of another library's array, or of a capsule, by the DLPack protocol."""
    kind = source.__dlpack_device__()[0] if hasattr(source, "__dlpack_device__") else CPU_KIND
    if kind in (CPU_KIND, PINNED_KIND):
        return from_numpy(dlpack.imported(source))
    array = require_gpu().from_dlpack(source)
    dtypes.from_numpy(array.dtype)
    arrays.foreign(array)  # CuPy's arrays are known from here on
    return wrap(array)


def _from_sequence(data: Any, d: dtype | None) -> Array:
    shape, items = _flatten(data)
    if d is None:
        d = _infer(items)
    kinds = set(map(type, items))
    if not d.is_complex and any(issubclass(k, (complex, np.complexfloating)) for k in kinds):
        raise TypeError("must be real number, not complex")
    try:
        if d.category == dtypes.INTEGRAL and any(issubclass(k, (float, np.floating)) for k in kinds):
            array = np.array([_wrapped(v, d) if isinstance(v, (int, np.integer)) else int(v) for v in items], d.np)
        elif d.category == dtypes.INTEGRAL and not d.is_signed:
            array = np.array([_wrapped(v, d) for v in items], d.np)
        else:
            array = np.array(items, d.np)
    except OverflowError:
        if any(isinstance(v, (float, np.floating)) for v in items):
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
        if any(not -(1 << 63) <= int(v) < 1 << 63 for v in items):
            raise ValueError("Overflow when unpacking long long") from None
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
    return array.reshape(shape)


def _wrapped(number: Any, d: dtype) -> Any:
    """An int as an unsigned dtype has it: negative ones modulo its range, unless they are below it, or 64 bits wide."""
    span = 1 << 8 * d.itemsize
    return int(number) + span if not d.is_signed and d.itemsize < 8 and -span < number < 0 else number


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and elements of nested sequences; ValueError where they are ragged."""
    shape: list[int] = []
    level: list[Any] = [data]
    while True:
        if any(exports(v) and v.ndim for v in level):
            level = [v.tolist() if exports(v) else v for v in level]
        if not level or not isinstance(level[0], Sequence) or isinstance(level[0], (str, bytes)):
            break
        length = len(level[0])
        below: list[Any] = []
        for v in level:
            if not isinstance(v, Sequence):
                raise TypeError(f"not a sequence at dim {len(shape)}: {v!r}")
            if len(v) != length:
                raise ValueError(f"expected sequence of length {length} at dim {len(shape)} (got {len(v)})")
            below.extend(v)
        shape.append(length)
        level = below
    items = [v.item() if exports(v) and not v.ndim else v for v in level]
    for kind in set(map(type, items)):
        if not issubclass(kind, (bool, int, float, complex, np.generic)):
            raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    return tuple(shape), items


def _infer(items: Iterable[Any]) -> dtype:
    found: dtype | None = None
    for kind in set(map(type, items)):
        d = dtypes.from_numpy(np.dtype(kind)) if issubclass(kind, np.generic) else dtypes.of_number(
            bool if kind is bool else next(k for k in (int, float, complex) if issubclass(kind, k)))
        found = d if found is None else dtypes.promote_types(found, d)
    return found if found is not None else dtypes.get_default_dtype()
