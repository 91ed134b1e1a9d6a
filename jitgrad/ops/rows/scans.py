"""Running sums and products, and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import cpu_kernels
from jitgrad.ops import checks, specs
from jitgrad.ops.batching.rules import alike
from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import NONDIFF, PARTS, SCAN, SORT, register
from jitgrad.ops.rows.gather import along
from jitgrad.ops.rows.views import backwards
from jitgrad.ops.rules import part_dtype

# --- scans ---------------------------------------------------------------------------------------------------------


#: elements from which a native loop computes a scan or finds an order, and a sort of floats pays for being stable
#: separately
SOME, MANY = 1 << 8, 1 << 12


def _scan(function: str) -> Any:
    def impl(xp: Any, x: Any, axis: int) -> Any:
        if type(x) is np.ndarray:
            y = cpu_kernels().scanned(function, x, axis) if x.size >= SOME else None
            return getattr(x, function)(axis, x.dtype) if y is None else y  # no Python in front of NumPy's methods
        return getattr(xp, function)(x, axis=axis, dtype=x.dtype)
    return impl


def _samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(3, 4)),), {"axis": axis}) for axis in (0, 1)] + [((rng.normal(size=(1,)),), {"axis": 0})]


def _reverse_cumsum(F: Any, x: Any, axis: int) -> Any:
    return F.flip(F.cumsum(F.flip(x, axes=(axis,)), axis=axis), axes=(axis,))


def _cumprod_vjp(F: Any, g: Any, y: Any, x: Any, axis: int) -> tuple[Any]:
    """dx_i = sum over k >= i of g_k times the product of the other x_j, j <= k; no division by zero.

    For x_i nonzero that is (sum of g_k y_k) / x_i. At the first zero of a row the products are those of the row with
    that zero replaced by one. At the second they are the first zero times those of the row with both replaced: zero,
    but with the right slope, so that second derivatives are exact too.
    """
    zero = F.eq(x, 0)
    usual = _reverse_cumsum(F, g * y, axis) / F.where(zero, 1.0, x)
    return (F.only_where(F.expand_like(F.any(zero, axes=(axis,), keepdim=True), x),
                         lambda: _cumprod_slope_at_zeros(F, g, y, x, axis, zero), usual),)


def _cumprod_slope_at_zeros(F: Any, g: Any, y: Any, x: Any, axis: int, zero: Any) -> Any:
    """Of rows with a zero. Zero times what is infinite later in the row is zero, as in torch."""
    rank = F.cumsum(F.cast(zero, dtype=part_dtype(x)), axis=axis)
    first, second = F.logical_and(zero, F.eq(rank, 1)), F.logical_and(zero, F.eq(rank, 2))

    def finite(t: Any, number: int) -> Any:
        return F.where(F.logical_and(F.ge(rank, number), F.ne(t - t, 0)), 0.0, t)

    def at(place: Any, replaced: Any, number: int) -> Any:
        around = F.cumprod(F.where(replaced, 1.0, x), axis=axis)
        total = _reverse_cumsum(F, F.where(F.ge(rank, number), finite(g * around, number + 1), 0.0), axis)
        return F.where(place, total, 0.0)

    usual = finite(_reverse_cumsum(F, finite(g * y, 1), axis) / F.where(zero, 1.0, x), 1)
    first_zero = F.sum(F.where(first, x, 0.0), axes=(axis,), keepdim=True)
    of_zeros = at(first, first, 1) + finite(first_zero * at(second, F.logical_or(first, second), 2), 1)
    return F.where(zero, of_zeros, usual)


_products = _scan("cumprod")


def _cumprod(xp: Any, x: Any, axis: int) -> Any:
    """From one on: of complex numbers the first product too may have a NaN for an infinity."""
    if x.dtype.kind == "c" and x.shape[axis]:
        first, others = ((slice(None),) * axis + (part,) for part in (slice(0, 1), slice(1, None)))
        x = xp.concatenate([x[first] * x.dtype.type(1), x[others]], axis=axis)
    return _products(xp, x, axis)


register("cumsum", 1, SCAN, "Running sums along an axis.", impl=_scan("cumsum"), spec=specs.same,
         dtypes="number", pair=PARTS, traits={"in_library", "total"},
         vjp=lambda F, g, y, x, axis: (_reverse_cumsum(F, g, axis),),
         ref="numpy.cumsum", samples=_samples)
joined("cumprod", 1, SCAN, "Running products along an axis.", impl=_cumprod, spec=specs.same,
       dtypes="number", traits={"in_library", "total"}, vjp=_cumprod_vjp, ref="numpy.cumprod", samples=_samples)

# --- sorting: NaN counts as the largest value, as in torch ---------------------------------------------------------


def _ordered(x: Any, axis: int, first: int, count: int, descending: bool = False, spoiled: bool = False) -> Any:
    """(values, places) in stable order, `count` from number `first` on, by native code; None: NumPy is to find them."""
    if type(x) is np.ndarray and x.size >= SOME:
        return cpu_kernels().ordered(x, axis, first, count, descending, spoiled)
    return None


def _argsort(xp: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    found = _ordered(x, axis, 0, x.shape[axis], descending)
    if found is not None:
        return found[1]
    if descending:  # reversed twice, so that equal elements keep their order
        back = _argsort(xp, backwards(x, (axis,)), axis, False, stable)
        return backwards(x.shape[axis] - 1 - back, (axis,))
    if stable and _is_large(x):
        return _sort_stable(x, axis)[1]
    return xp.argsort(x, axis=axis, kind="stable" if stable else None).astype(np.int64, copy=False)


def _is_large(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.char in "fd" and x.size >= MANY


def _sort_stable(x: Any, axis: int) -> tuple[Any, Any]:
    """(values, indices). NumPy's fast sort is not stable: of equal elements, if not too many, indices are sorted after
    it.
    """
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    i = np.argsort(rows, axis=-1)
    v = rows[along(np, i, rows.ndim - 1)]
    tied = np.zeros(v.shape, np.bool_)  # with the one before
    tied[..., 1:] = (v[..., 1:] == v[..., :-1]) | (v[..., :-1] != v[..., :-1])  # after NaN comes NaN
    ties = np.count_nonzero(tied)
    if ties > x.size >> 3:
        i = np.argsort(rows, axis=-1, kind="stable")
        v = rows[along(np, i, rows.ndim - 1)]
    elif ties:
        runs = tied.copy()
        runs[..., :-1] |= tied[..., 1:]
        places, flat, n = np.flatnonzero(runs), i.reshape(-1), v.shape[-1]
        number = np.cumsum(~tied.reshape(-1)[places])
        flat[places] = flat[places][np.lexsort((flat[places], number))]
        v.reshape(-1)[places] = rows.reshape(-1)[places // n * n + flat[places]]  # 0.0 and -0.0 are equal
    return np.moveaxis(v, -1, axis), np.moveaxis(i, -1, axis).astype(np.int64, copy=False)


def _sort(xp: Any, x: Any, axis: int, descending: bool, stable: bool) -> Any:
    found = _ordered(x, axis, 0, x.shape[axis], descending)
    if found is not None:
        return found
    if stable and not descending and _is_large(x):
        return _sort_stable(x, axis)
    i = _argsort(xp, x, axis, descending, stable)
    return x[along(xp, i, axis)], i


def _topk(xp: Any, x: Any, k: int, axis: int, largest: bool, sorted: bool) -> Any:
    if k > x.shape[axis]:
        raise IndexError("k exceeds the axis")  # the check has torch's words
    found = _ordered(x, axis, 0, k, largest)
    if found is not None:
        return found
    i = _picked(x, k, axis, largest) if type(x) is np.ndarray and k <= FEW < x.shape[axis] // 4 else None
    if i is None:
        i = _argsort(xp, x, axis, largest, True)
        i = i[(*(slice(None),) * axis, slice(0, k))]
    return x[along(xp, i, axis)], i


#: of so many a search for each costs less than sorting
FEW = 16


def _picked(x: Any, k: int, axis: int, largest: bool) -> Any:
    """The indices of the k largest or smallest along a long axis, one after another, each time the first of equal ones;
    None where a number that is picked could not be told from those that are left.
    """
    if x.dtype.kind not in "fiu" or (not largest and x.dtype.kind == "f" and np.isnan(x).any()):
        return None
    gone: Any = (-np.inf if largest else np.inf) if x.dtype.kind == "f" else (
        np.iinfo(x.dtype).min if largest else np.iinfo(x.dtype).max)
    left, find = x.copy(), np.argmax if largest else np.argmin
    found = np.empty((*x.shape[:axis], k, *x.shape[axis + 1:]), np.int64)
    for n in range(k):
        i = np.expand_dims(find(left, axis=axis), axis)
        if (left[along(np, i, axis)] == gone).any():
            return None
        np.put_along_axis(left, i, gone, axis)
        found[(*(slice(None),) * axis, slice(n, n + 1))] = i
    return found


def _sort_vjp(F: Any, g: Any, y: Any, x: Any, axis: int, **attrs: Any) -> tuple[Any]:
    """The values' cotangent goes back where they came from."""
    return (F.scatter(F.zeros_like(x), y[1], g[0], axis=axis),)


def _sort_samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(3, 5)),), {"axis": axis, "descending": down, "stable": True})
            for axis in (0, 1) for down in (False, True)]


register("sort", 1, SORT, "(values, indices) in order along an axis.", impl=_sort, vjp=_sort_vjp, spec=specs.sort,
         dtypes="any", traits={"barebones", "in_library", "total"}, samples=_sort_samples)
register("argsort", 1, SORT, "The indices that sort an axis.", impl=_argsort, vjp=NONDIFF, spec=specs.argsort,
         dtypes="any", traits={"barebones", "in_library", "total"}, samples=_sort_samples)
register("topk", 1, SORT, "(values, indices) of the k largest or smallest along an axis.", impl=_topk, vjp=_sort_vjp,
         spec=specs.topk, check=checks.topk, dtypes="any", traits={"in_library"}, samples=lambda rng: [
             ((rng.normal(size=(3, 5)),), {"k": k, "axis": 1, "largest": largest, "sorted": True})
             for k in (2, 5) for largest in (False, True)])

# --- places: scripts compose them of sorts and of pairs of elements, eager finds them without -------------------------


def _nth_place(F: Any, x: Any, n: Any, axis: int, spoiled: bool) -> Any:
    order = F.argsort(x, axis=axis, descending=False, stable=True)
    place = F.slice(order, axis=axis, start=n, length=1, step=1)
    if not spoiled:
        return place
    nan = F.ne(x, x)
    first = F.argmax(F.cast(nan, dtype=dtypes.int64), axes=(axis,), keepdim=True)
    return F.where(F.any(nan, axes=(axis,), keepdim=True), first, place)


def _nth_place_impl(xp: Any, x: Any, n: int, axis: int, spoiled: bool) -> Any:
    found = _ordered(x, axis, n, 1, spoiled=spoiled)
    if found is not None:
        return found[1]
    numbers = xp is np and x.dtype.kind in "fiu" and not (x.dtype.kind == "f" and np.isnan(x).any())
    if not numbers or x.size < MANY:
        place = _argsort(xp, x, axis, False, True)[(*(slice(None),) * axis, slice(n, n + 1))]
        if numbers or not spoiled:
            return place
        nan = x != x
        return xp.where(nan.any(axis=axis, keepdims=True), xp.expand_dims(nan.argmax(axis=axis), axis), place)
    value = np.partition(x, n, axis=axis)[(*(slice(None),) * axis, slice(n, n + 1))]
    there = x == value
    skipped = n - np.add.reduce(x < value, axis=axis, dtype=np.int64, keepdims=True)  # equal ones that come before
    if skipped.any():
        there = np.cumsum(there, axis=axis) > skipped
    return there.argmax(axis=axis, keepdims=True)


def _extreme_place(F: Any, x: Any, axis: int, least: bool) -> Any:
    length, end = x.shape[axis], x.ndim
    order = (*(a for a in range(end) if a != axis), axis)
    lines = F.permute(x, axes=order)
    rows = F.expand(F.unsqueeze(lines, axis=end - 1), shape=(*lines.shape[:-1], length, length))
    k = F.arange(length=length, dtype=dtypes.int64)
    seen = F.where(F.le(F.unsqueeze(k, axis=0), F.unsqueeze(k, axis=1)), rows, F.lift(
        dtypes.bounds(x.dtype)[least], x.dtype))
    back = (F.argmin if least else F.argmax)(F.flip(seen, axes=(end,)), axes=(end,), keepdim=False)
    place = F.slice(k, axis=0, start=length - 1, length=1, step=1) - back
    return F.permute(F.minimum(place, k), axes=tuple([order.index(a) for a in range(end)]))  # not what fills the rows


def _extreme_place_impl(xp: Any, x: Any, axis: int, least: bool) -> Any:
    lines = x.swapaxes(axis, -1)
    k = xp.arange(lines.shape[-1])
    if xp is np:
        extremes = (np.minimum if least else np.maximum).accumulate(lines, axis=-1)
        place = np.maximum.accumulate(np.where((lines == extremes) | (lines != lines), k, 0), axis=-1)
    else:
        back = xp.where(k <= k[:, None], lines[..., None, :], xp.asarray(
            dtypes.bounds(dtypes.from_numpy(x.dtype))[least], x.dtype))[..., ::-1]
        place = xp.minimum(len(k) - 1 - (back.argmin(axis=-1) if least else back.argmax(axis=-1)), k)
    return place.swapaxes(axis, -1)


def _steps_passed(F: Any, steps: Any, x: Any, equal: bool) -> Any:
    ahead = (F.gt if equal else F.ge)(F.unsqueeze(steps, axis=steps.ndim - 1), F.unsqueeze(x, axis=x.ndim))
    return F.sum(F.cast(F.logical_not(ahead), dtype=dtypes.int64), axes=(x.ndim,), keepdim=False)


def _steps_passed_impl(xp: Any, steps: Any, x: Any, equal: bool) -> Any:
    """By bisection, as torch does where NaNs are among the steps: no memory for pairs."""
    n = steps.shape[-1]
    if xp is np and steps.ndim == 1 and steps.dtype.kind in "fiu" and (not n or steps[-1] == steps[-1]):
        return np.searchsorted(steps, x, "right" if equal else "left")
    low = xp.zeros(x.shape, dtype=np.int64)
    high = low + n
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        step = xp.take_along_axis(steps, xp.minimum(middle, n - 1), -1)
        passed = ~(step > x if equal else step >= x)  # NaN passes all
        low, high = xp.where((low < high) & passed, middle + 1, low), xp.where((low < high) & ~passed, middle, high)
    return low


register("steps_passed", 2, SORT, "How many of ascending steps (..., n) are below each x (..., m), or `equal` to it.",
         impl=_steps_passed_impl, compose=_steps_passed, batch=alike, vjp=NONDIFF, spec=specs.steps_passed,
         dtypes="number", traits={"in_library"}, samples=lambda rng: [
             ((np.sort(rng.integers(0, 5, (*lead, n)) * 1.0, axis=-1), rng.integers(-1, 6, (*lead, 5)) * 1.0),
              {"equal": equal}) for lead in ((), (2,)) for n in (1, 3, 4) for equal in (False, True)])
register("nth_place", 1, SORT, "Where the n-th element in order is along an axis; if it is `spoiled`, the first NaN.",
         impl=_nth_place_impl, compose=_nth_place, vjp=NONDIFF, spec=specs.nth_place, dtypes="number",
         samples=lambda rng: [
             ((x,), {"n": n, "axis": axis, "spoiled": spoiled}) for n in (0, 2) for axis in (0, 1)
             for spoiled in (False, True) for x in (rng.normal(size=(3, 4)), 1.0 * rng.integers(0, 3, (3, 4)))])
register("extreme_place", 1, SORT, "Where the largest or least element so far is along an axis; the last of equals.",
         impl=_extreme_place_impl, compose=_extreme_place, vjp=NONDIFF, spec=specs.argsort, dtypes="any",
         samples=lambda rng: [((x,), {"axis": axis, "least": least})
                              for axis in (0, 1) for least in (False, True)
                              for x in (rng.normal(size=(3, 4)), 1.0 * rng.integers(0, 3, (3, 4)))])
