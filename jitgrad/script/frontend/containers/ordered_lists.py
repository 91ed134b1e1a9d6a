"""Lists in an order: `heapq` and `bisect`, as Python that scripts inline, since Python's own is written in C.

A heap is a list that anyone may read, so the items end where Python's own functions put them.
"""

import bisect
import heapq
from collections.abc import Callable
from typing import Any

from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args
from jitgrad.script.frontend.values.protocol import call


def _rise(heap: Any, first: int, k: int) -> None:
    """Move item k up, below no smaller parent, at most to `first`."""
    item = heap[k]
    while k > first and item < heap[(k - 1) >> 1]:
        heap[k] = heap[(k - 1) >> 1]
        k = (k - 1) >> 1
    heap[k] = item


def _sink(heap: Any, first: int) -> None:
    """Move item `first` down: smaller children up to the end, then the item up to where it belongs."""
    item, k, child = heap[first], first, 2 * first + 1
    while child < len(heap):
        if child + 1 < len(heap) and not heap[child] < heap[child + 1]:
            child = child + 1
        heap[k] = heap[child]
        k, child = child, 2 * child + 1
    heap[k] = item
    _rise(heap, first, k)


def _push(heap: Any, item: Any, /) -> None:
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


def _pop(heap: Any, /) -> Any:
    if len(heap) == 0:
        raise IndexError("index out of range")
    item = heap.pop()
    return _replace(heap, item) if len(heap) > 0 else item


def _replace(heap: Any, item: Any, /) -> Any:
    if len(heap) == 0:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _sink(heap, 0)
    return first


def _pushpop(heap: Any, item: Any, /) -> Any:
    return _replace(heap, item) if len(heap) > 0 and heap[0] < item else item


def _heapify(heap: Any, /) -> None:
    for k in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, k)


def _smallest(n: int, iterable: Any, key: Any = None) -> Any:
    return sorted(iterable, key=key)[:max(n, 0)]


def _largest(n: int, iterable: Any, key: Any = None) -> Any:
    return sorted(iterable, key=key, reverse=True)[:max(n, 0)]


def _left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            end = middle
    return lo


def _right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            end = middle
        else:
            lo = middle + 1
    return lo


def _insert_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(_left(a, x if key is None else key(x), lo, hi, key=key), x)


def _insert_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(_right(a, x if key is None else key(x), lo, hi, key=key), x)


_PYTHON: dict[Any, Callable[..., Any]] = {
    heapq.heappush: _push, heapq.heappop: _pop, heapq.heapreplace: _replace, heapq.heappushpop: _pushpop,
    heapq.heapify: _heapify, heapq.nsmallest: _smallest, heapq.nlargest: _largest, bisect.bisect_left: _left,
    bisect.bisect_right: _right, bisect.insort_left: _insert_left, bisect.insort_right: _insert_right}


def _inlined(own: Callable[..., Any]) -> Callable[..., Any]:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        return call(context, own, *args, **kwargs)

    return handler


HANDLERS.update({function: _inlined(own) for function, own in _PYTHON.items()})
