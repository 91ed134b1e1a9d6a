"""Views and their write-backs. The impls of views give NumPy views, but for flip, which copies as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dims import floordiv
from jitgrad.ops import checks, specs
from jitgrad.ops.complex.pairs import OnWhole
from jitgrad.ops.opdef import GATHER, NONDIFF, VIEW, register
from jitgrad.ops.rows import _batching as batching
from jitgrad.ops.rules import each, transposed as exchanged


def _samples(*cases: tuple[tuple[int, ...], dict[str, Any]]) -> Any:
    return lambda rng: [((rng.normal(size=shape),), attrs) for shape, attrs in cases]


def _view(name: str, doc: str, impl: Any, **fields: Any) -> None:
    register(name, 1, VIEW, doc, impl=impl, dtypes="any", **fields)


_view("alias", "A view that changes nothing.", lambda xp, x: x[...], spec=specs.same,
      traits={"cheap", "view", "affine", "in_order", "lossless", "total"}, vjp=lambda F, g, y, x: (g,),
      samples=_samples(((2, 3), {}), ((), {}), ((0, 3), {})))
_view("reshape", "The elements in order in another shape.", lambda xp, x, shape: x.reshape(shape), spec=specs.reshaped,
      pair=OnWhole(lambda F, w, shape: F.reshape(w, shape=(*shape, 2))),
      traits={"cheap", "view", "affine", "in_order", "lossless", "reads_memory"}, check=checks.reshape,
      batch=batching.reshape,
      vjp=lambda F, g, y, x, shape: (F.reshape_like(g, x),),
      samples=_samples(((2, 6), {"shape": (3, 4)}), ((1,), {"shape": ()}), ((), {"shape": (1, 1)}),
                       ((0, 3), {"shape": (3, 0, 2)})))
_view("permute", "Axes in another order.", lambda xp, x, axes: x.transpose(axes), spec=specs.permute,
      pair=OnWhole(lambda F, w, axes: F.permute(w, axes=(*axes, len(axes)))),
      batch=batching.permute,
      traits={"cheap", "view", "affine", "lossless", "total"},
      vjp=lambda F, g, y, x, axes: (F.permute(g, axes=tuple(axes.index(i) for i in range(len(axes)))),),
      samples=_samples(((2, 3, 4), {"axes": (2, 0, 1)}), ((), {"axes": ()})))
_view("expand", "Axes of size one repeated, and new leading axes.", lambda xp, x, shape: xp.broadcast_to(x, shape),
      pair=OnWhole(lambda F, w, shape: F.expand(w, shape=(*shape, 2))),
      spec=specs.reshaped, check=checks.expand,
      batch=batching.expand,
      traits={"cheap", "view", "affine", "lossless"}, vjp=lambda F, g, y, x, shape: (F.sum_to(g, shape=x.shape),),
      samples=_samples(((3, 1), {"shape": (2, 3, 4)}), ((3,), {"shape": (3,)}), ((), {"shape": (2,)})))
_view("unsqueeze", "A new axis of size one.", lambda xp, x, axis: x[(*(slice(None),) * axis, None)],
      spec=specs.unsqueeze,
      traits={"cheap", "view", "affine", "in_order", "lossless", "total"},
      vjp=lambda F, g, y, x, axis: (F.squeeze(g, axis=axis),),
      samples=_samples(((2, 3), {"axis": 1}), ((2, 3), {"axis": 2}), ((), {"axis": 0})))
_view("squeeze", "Without an axis of size one.", lambda xp, x, axis: x.squeeze(axis), spec=specs.drop_axis,
      traits={"cheap", "view", "affine", "in_order", "lossless"}, check=checks.squeeze,
      vjp=lambda F, g, y, x, axis: (F.unsqueeze(g, axis=axis),),
      samples=_samples(((2, 1, 3), {"axis": 1}), ((1,), {"axis": 0})))


def backwards(x: Any, axes: tuple[int, ...]) -> Any:
    """A view of an array with axes in reverse order."""
    return x[tuple([_BACKWARDS if a in axes else _ALL for a in range(x.ndim)])]


_ALL, _BACKWARDS = slice(None), slice(None, None, -1)


def _at(axis: int, item: Any) -> tuple[Any, ...]:
    """The index that takes `item` along `axis`; the Ellipsis makes it a view even of a vector."""
    return (*(slice(None),) * axis, item, Ellipsis)


class _Place:
    """A place in the memory of an array, its `base`, which NumPy makes an array of."""

    def __init__(self, interface: dict[str, Any], base: Any):
        self.__array_interface__, self.base = interface, base


def placed(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0) -> Any:
    """A view of NumPy's memory of `x` that begins so many bytes after x does, or at its end.

    It is read-only where x is; what is taken of it may be writable again, as with `expand`, where the memory is.
    """
    owner = x
    while isinstance(owner.base, (np.ndarray, _Place)):
        owner = owner.base
    interface = {**x.__array_interface__, "shape": shape, "strides": strides}
    interface["data"] = interface["data"][0] + first, not (isinstance(owner, np.ndarray) and owner.flags.writeable)
    made = np.asarray(_Place(interface, x)).view(x.dtype)
    if made.flags.writeable and not x.flags.writeable:
        made = made[...]
        made.flags.writeable = False
    return made


def _nothing(x: Any, axis: int, start: int, step: int) -> Any:
    """None of an axis' elements, at the place in memory where the first would be: NumPy's empty slices have the array's
    own. `as_strided` of such a view goes on from there, as torch's."""
    strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1:])
    return placed(x, (*x.shape[:axis], 0, *x.shape[axis + 1:]), strides, start * x.strides[axis])


def _slice(start: int, length: int, step: int) -> slice:
    return slice(start, start + (length - 1) * step + 1, step) if length > 0 else slice(start, start)


_view("select", "Without an axis, at one index of it.", lambda xp, x, axis, index: x[_at(axis, index)],
      spec=specs.drop_axis, check=checks.select, traits={"cheap", "view", "affine"}, adds_back=("select_add", {}),
      vjp=lambda F, g, y, x, **where: (F.select_add(F.zeros_like(x), g, **where),),
      samples=_samples(((3, 4), {"axis": 0, "index": 2}), ((3, 4), {"axis": 1, "index": 0}),
                       ((3,), {"axis": 0, "index": 1})))
_view("slice", "Every step-th element of an axis, `length` of them from `start`.", spec=specs.slice_,
      traits={"cheap", "view", "affine"}, adds_back=("slice_add", {}),
      impl=lambda xp, x, axis, start, length, step: (
          x[_at(axis, _slice(start, length, step))] if length or xp is not np else _nothing(x, axis, start, step)),
      vjp=lambda F, g, y, x, **where: (F.slice_add(F.zeros_like(x), g, **where),),
      samples=_samples(((5, 3), {"axis": 0, "start": 1, "length": 3, "step": 1}),
                       ((3, 7), {"axis": 1, "start": 0, "length": 3, "step": 3}),
                       ((3, 4), {"axis": 1, "start": 4, "length": 0, "step": 1})))
_view("flip", "Axes in reverse order (a copy).", lambda xp, x, axes: backwards(x, axes).copy(), spec=specs.same,
      traits={"involution", "cheap", "affine", "lossless", "total", "keeps_order"},
      vjp=lambda F, g, y, x, axes: (F.flip(g, axes=axes),),
      samples=_samples(((2, 3, 4), {"axes": (0, 2)}), ((3,), {"axes": (0,)}), ((2,), {"axes": ()})))


_view("detach", "x without its history: where the tape ends.", lambda xp, x: x, spec=specs.same, vjp=NONDIFF,
      traits={"view", "in_order"},
      samples=_samples(((2, 3), {}), ((), {})))


#: the integers of so many bytes whose bits are moved
_WORDS = {1: dtypes.uint8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def _other_dtype(F: Any, x: Any, dtype: Any) -> Any:
    """Numbers of another size: the bits of one in several, or of several in one, the lowest first."""
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return F.bitcast(x, dtype=dtype)
    *outer, last = x.shape
    x = F.bitcast(x, dtype=_WORDS[old])
    if old > new:
        count = old // new
        places = F.arange(length=count, dtype=_WORDS[old]) * (8 * new)
        parts = F.cast(F.bitwise_right_shift(F.unsqueeze(x, axis=len(outer) + 1), places), dtype=_WORDS[new])
        return F.bitcast(F.reshape(parts, shape=(*outer, last * count)), dtype=dtype)
    count = new // old
    parts = F.reshape(F.cast(x, dtype=_WORDS[new]), shape=(*outer, floordiv(last, count), count))
    word = None
    for k in range(count):
        part = F.bitwise_and(F.select(parts, axis=len(outer) + 1, index=k), (1 << 8 * old) - 1)
        part = F.bitwise_left_shift(part, 8 * old * k) if k else part
        word = part if word is None else F.bitwise_or(word, part)
    return F.bitcast(word, dtype=dtype)


_view("view_dtype", "The same bytes as numbers of another dtype, without history.", compose=_other_dtype,
      impl=lambda xp, x, dtype: x.view(dtype.np), spec=specs.other_dtype, vjp=NONDIFF, batch=batching.view_dtype,
      traits={"converts", "view"},
      samples=_samples(((2, 8), {"dtype": dtypes.int64}), ((8,), {"dtype": dtypes.uint8}),
                       ((0, 8), {"dtype": dtypes.float32})))


def _diagonal(xp: Any, x: Any, offset: int, axis1: int, axis2: int) -> Any:
    empty = not specs.diagonal_length(x.shape[axis1], x.shape[axis2], offset)
    d = xp.diagonal(x, 0, axis1, axis2)[..., :0] if empty else xp.diagonal(x, offset, axis1, axis2)
    if xp is np and x.flags.writeable:
        d.flags.writeable = True  # NumPy hands out a read-only view
    return d


_DIAGONALS = (((3, 4), {"offset": 1, "axis1": 0, "axis2": 1}), ((2, 4, 3), {"offset": -1, "axis1": 1, "axis2": 2}),
              ((4, 2, 3), {"offset": 0, "axis1": 2, "axis2": 0}), ((2, 2), {"offset": 2, "axis1": 0, "axis2": 1}))
_view("diagonal", "The diagonal of two axes as a new last axis.", _diagonal, spec=specs.diagonal,
      pair=OnWhole(lambda F, w, **where: exchanged(F, F.diagonal(w, **where))),
      traits={"cheap", "view", "affine"},
      vjp=lambda F, g, y, x, **where: (F.diagonal_scatter(F.zeros_like(x), g, **where),),
      samples=_samples(*_DIAGONALS))

# --- write-backs: x with a part replaced by src, or with src added to it -------------------------------------------


def _write(view: str, accumulate: bool) -> Any:
    def impl(xp: Any, x: Any, src: Any, **where: Any) -> Any:
        y = x.copy()
        if view == "select":
            at = _at(where["axis"], where["index"])
        else:
            at = _at(where["axis"], _slice(where["start"], where["length"], where["step"]))
        if accumulate:
            y[at] += src
        else:
            y[at] = src
        return y
    return impl


def _written(view: str) -> Any:
    """Samples of a write-back from the view's."""
    def samples(rng: np.random.Generator) -> Any:
        from jitgrad.ops.opdef import OPS

        row = OPS[view]
        assert row.samples is not None
        assert row.impl is not None
        return [((x, rng.normal(size=row.impl(np, x, **attrs).shape)), attrs) for (x,), attrs in row.samples(rng)]
    return samples


register("select_scatter", 2, GATHER, "x with src written at one index of an axis.", dtypes="any", spec=specs.same,
         impl=_write("select", False),
         batch=batching.write_back(-1), traits={"updates", "keeps_order"}, samples=_written("select"),
         check=checks.select, vjp=each(lambda F, g, y, x, src, **where: F.select_scatter(g, F.zeros_like(src), **where),
                  lambda F, g, y, x, src, **where: F.select(g, **where)))
register("slice_scatter", 2, GATHER, "x with src written to a slice of an axis.", dtypes="any", spec=specs.same,
         impl=_write("slice", False), batch=batching.write_back(0), traits={"updates", "keeps_order"},
         samples=_written("slice"),
         vjp=each(lambda F, g, y, x, src, **where: F.slice_scatter(g, F.zeros_like(src), **where),
                  lambda F, g, y, x, src, **where: F.slice(g, **where)))
register("select_add", 2, GATHER, "x with src added at one index of an axis.", dtypes="any", spec=specs.same,
         impl=_write("select", True),
         batch=batching.write_back(-1), traits={"updates", "accumulates"}, samples=_written("select"),
         check=checks.select,
         vjp=each(lambda F, g, y, x, src, **where: g, lambda F, g, y, x, src, **where: F.select(g, **where)))
register("slice_add", 2, GATHER, "x with src added to a slice of an axis.", dtypes="any", spec=specs.same,
         impl=_write("slice", True),
         batch=batching.write_back(0), traits={"updates", "accumulates"}, samples=_written("slice"),
         vjp=each(lambda F, g, y, x, src, **where: g, lambda F, g, y, x, src, **where: F.slice(g, **where)))


def _diagonal_scatter(F: Any, x: Any, src: Any, offset: int, axis1: int, axis2: int) -> Any:
    """Through index_put, whose index axes must be the two last to match src's layout."""
    rest = tuple(a for a in range(x.ndim) if a not in (axis1, axis2))
    order = (*rest, axis1, axis2)
    steps = F.arange(length=specs.diagonal_length(x.shape[axis1], x.shape[axis2], offset), dtype=dtypes.int64)
    rows, columns = (steps, steps + offset) if offset >= 0 else (steps - offset, steps)
    y = F.index_put(F.permute(x, axes=order), src, rows, columns, axes=(len(rest), len(rest) + 1), accumulate=False)
    return F.permute(y, axes=tuple(order.index(a) for a in range(x.ndim)))


register("diagonal_scatter", 2, GATHER, "x with src written to a diagonal.", dtypes="any", spec=specs.same,
         compose=_diagonal_scatter, batch=batching.diagonal_scatter, samples=_written("diagonal"),
         vjp=each(lambda F, g, y, x, src, **where: F.diagonal_scatter(g, F.zeros_like(src), **where),
                  lambda F, g, y, x, src, **where: F.diagonal(g, **where)))
register("overwrite", 2, GATHER, "src, the new content of x, which a gradient of zeros reaches.", dtypes="any",
         spec=specs.same, compose=lambda F, x, src: src,
         samples=lambda rng: [((rng.normal(size=(3, 4)), rng.normal(size=(3, 4))), {})],
         vjp=each(lambda F, g, y, x, src: F.zeros_like(x), lambda F, g, y, x, src: g))
