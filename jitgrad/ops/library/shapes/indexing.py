"""`x[key]` and `x[key] = value`: ints, slices, None, Ellipsis, bools, masks, integer tensors and mixtures of them.

A key is read from left to right. What is basic (ints, slices, None) becomes views at once; integer tensors and masks
are collected and applied together at the end, as one `index` (or `index_put`) over the view. So `x[0, :, i]` takes the
int first, and the result's axes are torch's (NumPy, which counts ints among the index arrays, orders them otherwise).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jitgrad.dtypes import bool_, int32, int64, uint8
from jitgrad.ops.autocast import mode
from jitgrad.ops.backend import AnyTensor, Batched, SymNumber, Tensor, backend
from jitgrad.ops.library.core import (OPERAND, SHARED, alias, apply, as_operand, cast, converted, create, expand_to,
                                      require_broadcast, whole, written_operand)
from jitgrad.ops.library.elements.filling import filling
from jitgrad.ops.library.shapes.slices import sliced
from jitgrad.ops.library.sizes import is_empty, is_one, product, require, require_equal, text, wrap_index
from jitgrad.ops.specs import index_result_shape

__library__ = True

# --- integer tensors as indices ------------------------------------------------------------------------------------


def checked_indices(i: Any, n: Any, dim: int, *, negative: bool = True, error: type[Exception] = IndexError) -> Any:
    """An integer tensor as int64 indices in [0, n): negative ones are wrapped if they are allowed at all.

    Raises `error`: "index 5 is out of bounds for dimension 0 with size 3".
    """
    i = cast(i, int64)
    if backend().in_range(i, n):
        return i
    tail = f" is out of bounds for dimension {dim} with size "
    about = f"{tail}{n}" if isinstance(n, int) else f" is out of bounds for dimension {dim}"
    expected = backend().expect_range(i, -n if negative else 0, n, error, "index ", about)
    if expected is not None:
        i = expected
        if not negative:
            return i
        return apply("where", apply("lt", i, as_operand(0, int64)), apply("add", i, as_operand(n, int64)), i)
    asked = whole(i)
    count, everywhere = product(asked.shape), tuple(range(asked.ndim))
    if isinstance(count, int):
        if not count:
            return i
        low, high = (apply(name, asked, axes=everywhere, keepdim=False) for name in ("amin", "amax"))
    else:  # it may be empty: an element that passes goes in front
        line = apply("reshape", asked, shape=(count,))
        low = apply("amin", apply("pad", line, pads=((1, 0),), value=0), axes=(0,), keepdim=False)
        high = apply("amax", apply("pad", line, pads=((1, 0),), value=-1), axes=(0,), keepdim=False)
    least, most = backend().item(low), backend().item(high)
    require(least >= (-n if negative else 0), error, "index ", least, tail, n)
    require(most < n, error, "index ", most, tail, n)
    if not negative or (isinstance(least, int) and least >= 0):
        return i
    wrapped = apply("add", i, as_operand(n, int64))
    return apply("where", apply("lt", i, as_operand(0, int64)), wrapped, i)


def mask_indices(mask: Any) -> list[Any]:
    """The positions where a mask holds: one int64 vector per axis."""
    if isinstance(mask, Batched):
        raise RuntimeError("vmap: We do not support batching operators that can support dynamic shape. Attempting to "
                           "batch over indexing with a boolean mask.")
    places = apply("nonzero", mask)
    return [apply("select", places, axis=1, index=a) for a in range(mask.ndim)]


# --- reading a key -------------------------------------------------------------------------------------------------


class _Advanced:
    """What a key leaves for the end: index tensors at axes of the view; `mask` where a single mask is all of it."""

    __slots__ = ("axes", "fits", "indices", "mask")

    def __init__(self) -> None:
        self.fits: list[Callable[[], None]] = []  # torch looks at dtypes and the shapes of masks at the end
        self.axes: list[int] = []
        #: thunks, as a write through a mask needs no positions; and below what elements must be, on which axis
        self.indices: list[tuple[Callable[[], Any], Any, int]] = []
        self.mask: Any = None

    def tensors(self) -> list[Any]:
        """The index tensors, whose elements nobody has looked at."""
        return [i() for i, _, _ in self.indices]

    def checked(self, view: Any, tensors: list[Any]) -> list[Any]:
        """The index tensors, whose elements are looked at where they choose any."""
        limits = [(n, axis) for _, n, axis in self.indices]
        places = [m for i in tensors for m in i.shape]
        if 0 not in places and any(isinstance(n, int) and n == 0 for n, _ in limits):
            raise IndexError("index is out of bounds for dimension with size 0")
        sizes = places + [m for k, m in enumerate(view.shape) if k not in self.axes]
        none = any(isinstance(m, int) and m == 0 for m in sizes)
        return [i if n is None else create("full", i, value=0, shape=tuple(i.shape), dtype=int64) if none else
                checked_indices(i, n, axis) for i, (n, axis) in zip(tensors, limits, strict=True)]

    def require_fit(self) -> None:
        """IndexError for a tensor of floats, and where a mask has not the shape of the axes that it takes."""
        for fit in self.fits:
            fit()


def _is_index_sequence(item: Any) -> bool:
    return isinstance(item, (list, np.ndarray, range)) or (
        isinstance(item, tuple) and all(isinstance(e, (int, SymNumber, tuple, list)) for e in item))


def _is_tuple(key: Any) -> bool:
    """Whether a key is taken apart: a tuple, or a short sequence of which an item is no number."""
    return isinstance(key, tuple) or (isinstance(key, (list, range)) and len(key) < _SHORT and any(
        item is None or item is Ellipsis or isinstance(item, (AnyTensor, slice, list, tuple, range, str, np.ndarray))
        for item in key))


#: a longer sequence is an index, whatever it holds
_SHORT = 32
#: types of items that mean what they are
_PLAIN = frozenset({slice, int, bool, type(None), type(Ellipsis)})
_SLICES = frozenset({slice})


def _normalised(key: Any) -> list[Any]:
    """The items of a key; sequences have become tensors."""
    items = list(key) if _is_tuple(key) else [key]
    for k, item in enumerate(items):
        if type(item) in _PLAIN:
            continue
        if isinstance(item, np.generic):
            items[k] = item.item()
        elif _is_index_sequence(item):
            items[k] = _sequence(item)
    return items


def _sequence(item: Any) -> Any:
    """An index tensor: of bools, else of ints, of which others lose their fraction."""
    if isinstance(item, np.ndarray):
        made = backend().from_data(item, None)
    elif any(isinstance(e, AnyTensor) for e in item):
        made = apply("cat", *[apply("unsqueeze", as_operand(e, int64), axis=0) for e in item], axis=0)
    else:
        made = backend().from_data(list(item), None)
    return cast(made, int64) if made.dtype.is_floating_point else made


def _consumes(item: Any) -> int:
    """How many axes of the tensor an item takes."""
    if type(item) is slice or type(item) is int:
        return 1
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, AnyTensor) and item.dtype in (bool_, uint8):
        return item.ndim
    if isinstance(item, SymNumber):
        return 0 if item.number_type is bool else 1
    return 1


def _view(x: Any, key: Any) -> tuple[Any, _Advanced]:
    """The basic part of a key as a view of x, and the advanced part."""
    items = _normalised(key)
    used, dots = 0, -1
    for k, item in enumerate(items):
        used += _consumes(item)
        if item is Ellipsis:
            if dots >= 0:
                raise IndexError("an index can only have a single ellipsis ('...')")
            dots = k
    if used > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    advanced = _Advanced()
    view, a, original = x, 0, 0
    for item in items:
        if isinstance(item, slice):
            view = sliced(view, a, item)
            a += 1
            original += 1
        elif item is Ellipsis:
            a += x.ndim - used
            original += x.ndim - used
        elif item is None:
            view = apply("unsqueeze", view, axis=a)
            a += 1
        elif isinstance(item, bool) or (isinstance(item, SymNumber) and item.number_type is bool):
            view = _flag(view, a, bool(item), advanced)
            a += 1
        elif isinstance(item, (int, SymNumber)):
            if isinstance(item, SymNumber) and item.number_type is float:
                raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
                                 "valid indices (got float)")
            view = apply("select", view, axis=a, index=wrap_index(item, view.shape[a], original))
            original += 1
        elif isinstance(item, AnyTensor):
            view, a, original = _tensor_item(view, a, original, item, advanced)
        elif hasattr(item, "__index__"):
            view = apply("select", view, axis=a, index=wrap_index(item.__index__(), view.shape[a], original))
            original += 1
        else:
            if isinstance(item, (str, bytes)):
                raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
            raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                             f"indices (got {type(item).__name__})")
    return view, advanced


def _flag(view: Any, a: int, flag: bool, advanced: _Advanced) -> Any:
    """A bool as an index: a new axis of size one, kept (True) or emptied (False)."""
    advanced.axes.append(a)
    advanced.indices.append((lambda: create("full", view, value=0, shape=(1 if flag else 0,), dtype=int64), None, a))
    return apply("unsqueeze", view, axis=a)


def _refuse_dtype() -> None:
    raise IndexError("tensors used as indices must be long, int, byte or bool tensors")


def _tensor_item(view: Any, a: int, original: int, item: Any, advanced: _Advanced) -> tuple[Any, int, int]:
    """A tensor in a key: the view, and the axes (of the view, of the tensor) after it."""
    d = item.dtype
    if d is not bool_ and d is not uint8:
        if item.ndim == 0 and not d.is_inexact and not isinstance(item, Batched):
            index = wrap_index(backend().item(item), view.shape[a], original)
            return apply("select", view, axis=a, index=index), a, original + 1
        if d is not int64 and d is not int32:
            advanced.fits.append(_refuse_dtype)
        n = view.shape[a]
        advanced.axes.append(a)
        advanced.indices.append((lambda: item, n, original))
        return view, a + 1, original + 1
    mask = cast(item, bool_)
    if item.ndim == 0:
        advanced.axes.append(a)
        advanced.indices.append((lambda: mask_indices(apply("unsqueeze", mask, axis=0))[0], None, a))
        return apply("unsqueeze", view, axis=a), a + 1, original
    def fit() -> None:
        for k, m in enumerate(mask.shape):
            require_equal(m, view.shape[a + k], lambda k=k: (  # type: ignore[misc]
                f"The shape of the mask {text(mask.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{text(view.shape)} at index {a + k}"), IndexError)

    advanced.fits.append(fit)
    if not advanced.axes:
        advanced.mask = (mask, a)
    advanced.axes.extend(range(a, a + mask.ndim))
    found: list[Any] = []

    def positions(k: int) -> Any:
        if not found:
            found.extend(mask_indices(mask))
        return found[k]

    advanced.indices.extend([(partial(positions, k), None, a) for k in range(mask.ndim)])
    return view, a + mask.ndim, original + mask.ndim


# --- x[key] --------------------------------------------------------------------------------------------------------


def getitem(x: AnyTensor[Tensor], key: Any) -> Tensor:
    """x[key]: a view for ints, slices and None; a copy as soon as a tensor, list or bool is in the key.

    Raises IndexError: out of bounds, too many indices, a mask of another shape, a float tensor as index.
    """
    if type(key) is int and x.ndim:
        return apply("select", x, axis=0, index=wrap_index(key, x.shape[0], 0))
    slices = key if type(key) is tuple else (key,)
    if _SLICES.issuperset(map(type, slices)) and len(slices) <= x.ndim:
        part: Any = x
        for a, item in enumerate(slices):
            part = sliced(part, a, item)
        return alias(x) if part is x else part
    if x.ndim == 0 and isinstance(key, int) and not isinstance(key, bool):
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
                         "to convert a 0-dim tensor to a number")
    view, advanced = _view(x, key)
    if not advanced.axes:
        return alias(x) if view is x else view
    advanced.require_fit()
    return apply("index", view, *advanced.checked(view, advanced.tensors()), axes=tuple(advanced.axes))


# --- x[key] = value ------------------------------------------------------------------------------------------------


def as_value(value: Any, like: Any) -> Any:
    """What is to be written, as a tensor of like's dtype."""
    if isinstance(value, AnyTensor):
        return converted(value, like.dtype)
    if isinstance(value, OPERAND):
        # half types get numbers by way of float32: what is too large becomes infinite
        return as_operand(value, like.dtype) if like.dtype.is_half else written_operand(value, like.dtype)
    return backend().from_data(value, like.dtype, like)


def one_element(x: Any) -> bool:
    """Whether it is known that a tensor has one element."""
    return all(isinstance(n, int) and n == 1 for n in x.shape)


def _without_leading_ones(value: Any, rank: int) -> Any:
    while value.ndim > rank and is_one(value.shape[0]):
        value = apply("squeeze", value, axis=0)
    return value


def setitem(x: AnyTensor[Tensor], key: Any, value: Any) -> None:
    """x[key] = value: value is cast to x's dtype and broadcast.

    Raises IndexError as `getitem`; RuntimeError where value's shape does not broadcast.
    """
    given = value
    value = as_value(value, x)
    if key is False:  # nothing is chosen, and torch does not look at the value's shape
        return
    view, advanced = (apply("unsqueeze", x, axis=0), _Advanced()) if key is True else _view(x, key)
    if not advanced.axes:
        value = _without_leading_ones(value, view.ndim)
        if value.ndim > view.ndim:
            raise RuntimeError(f"expand: the number of sizes provided ({view.ndim}) must be greater or equal to the "
                               f"number of dimensions in the tensor ({value.ndim})")
        backend().assign(view, expand_to(value, tuple(view.shape)))
        return
    backend().require_writable(x, memory=False)  # which torch asks before it looks at indices
    _set_chosen(x, view, advanced, given, value)


def _set_chosen(x: Any, view: Any, advanced: _Advanced, given: Any, value: Any) -> None:
    """Write `value`, which is `given` in x's dtype, to what tensors and masks choose of a view of x."""
    advanced.require_fit()
    masked = advanced.mask is not None and len(advanced.axes) == advanced.mask[0].ndim
    filled = masked and isinstance(given, AnyTensor) and one_element(given)
    if filled:
        filling(apply("reshape", given, shape=()), x.dtype)  # it is a number for torch, which the dtype must hold
    if masked and value.ndim == 0:
        mask, a = advanced.mask
        trailing = view.ndim - a - mask.ndim
        if trailing:
            mask = apply("reshape", mask, shape=(*mask.shape, *(1,) * trailing))
        backend().assign(view, apply("where", mask, value, view))
        return
    if isinstance(given, AnyTensor) and not filled:
        if given.dtype is not x.dtype and mode.low is None:
            require_one_shape(advanced.tensors())
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {x.dtype.word} for "
                               f"the destination and {given.dtype.word} for the source.")
        if not backend().apart(view, [given]):
            raise RuntimeError(SHARED)
    axes, indices = tuple(advanced.axes), advanced.tensors()
    value = _without_leading_ones(value, max([i.ndim for i in indices]) + view.ndim - len(axes))
    require_value(view, indices, axes, value)
    indices = advanced.checked(view, indices)
    backend().assign(view, index_put_value(view, indices, axes, value, accumulate=False))


def index_put_value(x: Any, indices: list[Any], axes: tuple[int, ...], value: Any, accumulate: bool) -> Any:
    """x with value written (or added) at checked index tensors."""
    if value.ndim > max([i.ndim for i in indices]) + x.ndim - len(axes):
        require_value(x, indices, axes, value)
    return apply("index_put", x, value, *indices, axes=axes, accumulate=accumulate)


def require_one_shape(tensors: list[Any]) -> None:
    """IndexError where index tensors do not broadcast."""
    try:
        require_broadcast(*tensors)
    except RuntimeError:
        raise IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes "
                         + ", ".join([text(i.shape) for i in tensors])) from None


def require_value(x: Any, indices: list[Any], axes: tuple[int, ...], value: Any) -> None:
    """RuntimeError where a value does not broadcast to what indices choose: torch looks at that before their elements.
    IndexError where they do not broadcast.

    Sizes of the run are left to it, and where there is nothing to choose from that is named.
    """
    shapes, rank = [tuple(i.shape) for i in indices], max([i.ndim for i in indices]) + x.ndim - len(axes)
    known = all(isinstance(n, int) for shape in (x.shape, value.shape, *shapes) for n in shape)
    if is_empty([x.shape[a] for a in axes]) or (not known and value.ndim <= rank):
        return
    require_one_shape(indices)
    target = index_result_shape(tuple(x.shape), shapes, axes) if known else ()
    ends = zip(reversed(value.shape), reversed(target), strict=False)
    if value.ndim > rank or any(m not in (1, n) for m, n in ends):
        raise RuntimeError(f"shape mismatch: value tensor of shape {text(value.shape)} cannot be broadcast to indexing "
                           f"result of {f'shape {text(target)}' if known else f'{rank} axes'}")
