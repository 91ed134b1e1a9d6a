"""An axis of a tensor sliced as Python slices."""

from typing import Any

from jitgrad.ops.backend import AnyTensor, SymNumber, backend, select_number
from jitgrad.ops.library.core import apply
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import ceil_div, maximum, minimum, require

__library__ = True


def _bound(b: Any) -> Any:
    if b is None or isinstance(b, (int, SymNumber)):
        return b
    if isinstance(b, AnyTensor):
        return backend().item(b)
    if not hasattr(b, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return b.__index__()


def sliced(view: Any, a: int, item: slice) -> Any:
    """Axis a of the view, sliced as Python slices: bounds are clamped, negative ones count from the end."""
    if item.start is None and item.stop is None and item.step is None:
        return view
    start, stop, step = _bound(item.start), _bound(item.stop), _bound(item.step)
    n = view._sizes[a]
    if step is None:
        step = 1
    else:
        require(step != 0, ValueError, "slice step cannot be zero")
        require(step > 0, ValueError, "step must be greater than zero")
    if not (isinstance(n, SymNumber) or isinstance(start, SymNumber) or isinstance(stop, SymNumber)
            or isinstance(step, SymNumber)):
        known = range(n)[start:stop:step]
        if len(known) == n and step == 1:
            return view
        return apply("slice", view, axis=a, start=known.start, length=len(known), step=step)
    if type(start) is type(stop) is int and stop <= start and (start < 0) == (stop < 0):  # none, whatever n is
        return take_slice(view, a, 0, 0, 1)
    first, length = _clipped(start, stop, n)
    return take_slice(view, a, first, ceil_div(length, step), step)


def _clipped(start: Any, stop: Any, n: Any) -> tuple[Any, Any]:
    """First index and length (step 1) of a slice of an axis of n elements; n or a bound is symbolic.

    Equal slices should have lengths of equal form, so the common ones are written without detours:
    x[k:] and x[:-k] both have max(n - k, 0) elements, x[:k] and x[-k:] min(k, n).
    """
    from_end = isinstance(start, int) and start < 0
    if stop is None:
        end = n
    elif isinstance(stop, int):
        end = minimum(stop, n) if stop >= 0 else n + stop
    else:
        end = minimum(select_number(stop < 0, stop + n, stop), n)
    if start is None or (isinstance(start, int) and start == 0):
        never_negative = stop is None or (isinstance(stop, int) and stop >= 0)
        return 0, end if never_negative else maximum(end, 0)
    if from_end:
        first = maximum(n + start, 0)
        return first, minimum(n, -start) if stop is None else maximum(end - first, 0)
    if isinstance(start, int):
        return minimum(start, n), maximum(end - start, 0)
    first = minimum(maximum(select_number(start < 0, start + n, start), 0), n)
    return first, maximum(end - first, 0)
