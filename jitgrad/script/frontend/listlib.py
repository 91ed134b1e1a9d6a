"""What Python and the library do with a list of run-time length, in plain Python that scripts inline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jitgrad.ops.library import creation, join

#: how Python words it
EMPTY = "iterable argument is empty" if sys.version_info >= (3, 12) else "arg is an empty sequence"


def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of equal shape along a new axis dim."""
    if len(tensors) == 0:
        raise RuntimeError("stack(): expected a non-empty list of Tensors")
    first = tensors[0]
    out = first.new_zeros((len(tensors), *first.shape))
    for k in range(len(tensors)):
        x = tensors[k]
        if x.shape != first.shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 "
                               f"and {list(x.shape)} at entry {k}")
        out[k] = x
    return out.movedim(0, dim)


def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors one after the other along axis dim."""
    if len(tensors) == 0:
        raise RuntimeError("cat(): expected a non-empty list of Tensors")
    first = tensors[0].movedim(dim, 0)
    size = 0
    for x in tensors:
        size += x.shape[dim]
    out = first.new_zeros((size, *first.shape[1:]))
    at = 0
    for x in tensors:
        end = at + x.shape[dim]
        out[at:end] = x.movedim(dim, 0)
        at = end
    return out.movedim(0, dim)


def collected(items: Any) -> Any:
    """`list(items)`."""
    out = []
    for x in items:
        out.append(x)
    return out


def repeated(items: Any, n: int) -> Any:
    """`items * n`."""
    out = []
    for _ in range(n):
        for x in items:
            out.append(x)
    return out


def ordered(items: Any, key: Any, reverse: bool) -> Any:
    """`sorted(items, key=key, reverse=reverse)`: insertion, which is stable in either direction."""
    out: list[Any] = []
    keys: list[Any] = []
    for x in items:
        k = x if key is None else key(x)
        at = len(keys)
        while at > 0:
            if not (keys[at - 1] < k if reverse else k < keys[at - 1]):
                break
            at -= 1
        out.insert(at, x)
        keys.insert(at, k)
    return out


def total(items: Any, start: Any) -> Any:
    """`sum(items, start)` of numbers."""
    result = start
    for x in items:
        result = result + x
    return result


def total_of_tensors(items: Any, start: Any) -> Any:
    """`sum(items, start)` of tensors."""
    if len(items) == 0:
        raise RuntimeError("sum() of an empty list of tensors is a number in Python, a tensor in a script")
    result = start + items[0]
    for k in range(1, len(items)):
        result = result + items[k]
    return result


def smallest(items: Any) -> Any:
    """`min(items)`."""
    if len(items) == 0:
        raise ValueError(f"min() {EMPTY}")
    result = items[0]
    for x in items:
        if x < result:
            result = x
    return result


def largest(items: Any) -> Any:
    """`max(items)`."""
    if len(items) == 0:
        raise ValueError(f"max() {EMPTY}")
    result = items[0]
    for x in items:
        if x > result:
            result = x
    return result


def best(items: Any, key: Any, highest: bool) -> Any:
    """`max(items, key=key)` or `min(items, key=key)`."""
    if len(items) == 0:
        raise ValueError(f"{'max' if highest else 'min'}() {EMPTY}")
    result, measure = items[0], key(items[0])
    for i in range(1, len(items)):
        x = items[i]
        k = key(x)
        if measure < k if highest else k < measure:
            result, measure = x, k
    return result


def or_default(items: Any, key: Any, highest: bool, default: Any) -> Any:
    """`max(items, key=key, default=default)` or `min`."""
    if len(items) == 0:
        return default
    if key is not None:
        return best(items, key, highest)
    return largest(items) if highest else smallest(items)


def every(items: Any) -> bool:
    """`all(items)`."""
    for x in items:  # noqa: SIM110  (a script has no generators of run-time length)
        if not x:
            return False
    return True


def some(items: Any) -> bool:
    """`any(items)`."""
    for x in items:  # noqa: SIM110
        if x:
            return True
    return False


def contains(items: Any, value: Any) -> bool:
    """`value in items`."""
    for x in items:  # noqa: SIM110
        if x == value:
            return True
    return False


def in_range(value: Any, start: Any, stop: Any, step: int) -> bool:
    """`value in range(start, stop, step)`."""
    if step > 0:
        return bool(start <= value) and bool(value < stop) and (value - start) % step == 0
    return bool(stop < value) and bool(value <= start) and (start - value) % -step == 0


def index(items: Any, value: Any) -> int:
    """`items.index(value)`."""
    for k in range(len(items)):
        if items[k] == value:
            return k
    raise ValueError(f"{value} is not in list")


def count(items: Any, value: Any) -> int:
    """`items.count(value)`."""
    n = 0
    for x in items:
        if x == value:
            n += 1
    return n


def remove(items: Any, value: Any) -> None:
    """`items.remove(value)`."""
    for k in range(len(items)):
        if items[k] == value:
            items.pop(k)
            return
    raise ValueError("list.remove(x): x not in list")


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Any:
    """Numbers as a vector."""
    if len(data) == 0:
        raise RuntimeError("tensor() of an empty list: a script must know its dtype; use `torch.zeros(0, dtype=...)`")
    out = creation.tensor(data[0], dtype=dtype, device=device).new_zeros(len(data))
    for k in range(len(data)):
        out[k] = data[k]
    return out.requires_grad_() if requires_grad else out


def show(items: Any) -> None:
    """Print a list as `print` does, without a line's end."""
    print("[", end="")
    for k in range(len(items)):
        if k > 0:
            print(", ", end="")
        print(f"{items[k]!r}", end="")
    print("]", end="")


#: library function -> what runs in its place on a list of run-time length
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    join.stack: stack, join.cat: cat, join.concat: cat, join.concatenate: cat,
    creation.tensor: tensor,
}
