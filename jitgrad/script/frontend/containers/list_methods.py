"""What Python and the library do with a list of run-time length, in plain Python that scripts inline."""

import sys
from collections.abc import Callable
from typing import Any

from jitgrad.ops.library import creation
from jitgrad.ops.library.shapes import join
from jitgrad.script.frontend.containers.contents import same

#: how Python words it
EMPTY = "iterable argument is empty" if sys.version_info >= (3, 12) else "arg is an empty sequence"
_REQUIRED = object()


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


def cached(function: Any) -> Any:
    """`functools.lru_cache` of a function of the script: arguments are what a dict can have as keys."""
    known: Any = {}

    def answer(*args: Any) -> Any:
        if args in known:
            return known[args]
        found = function(*args)
        known[args] = found
        return found

    return answer


def reduced(function: Any, items: Any, *initial: Any) -> Any:
    """`functools.reduce` of items of which only the run knows how many there are."""
    values = iter(items)
    if len(initial) > 0:
        total = initial[0]
    else:
        try:
            total = next(values)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for v in values:
        total = function(total, v)
    return total


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


def paired(items: Any) -> Any:
    """`dict(items)`."""
    out = {}
    for key, value in items.items() if hasattr(items, "keys") else items:
        out[key] = value
    return out


def live(items: Any) -> Any:
    """What `for x in items` gives where its body changes `items`."""
    k = 0
    while k < len(items):
        yield items[k]
        k += 1


def repeated(items: Any, n: int) -> Any:
    """`items * n`."""
    out = []
    for _ in range(n):
        for x in items:
            out.append(x)
    return out


def ordered(items: Any, given: Any, reverse: bool) -> Any:
    """`items` in the order of `given`, their keys: insertion, which is stable in either direction."""
    out: list[Any] = []
    keys: list[Any] = []
    for i in range(len(items)):
        k = given[i]
        at = len(keys)
        while at > 0:
            if not (keys[at - 1] < k if reverse else k < keys[at - 1]):
                break
            at -= 1
        out.insert(at, items[i])
        keys.insert(at, k)
    return out


def total(items: Any, start: Any) -> Any:
    """`sum(items, start)` of numbers."""
    result = start
    for x in items:
        result = result + x
    return result


def total_of_tensors(items: Any, start: Any) -> Any:
    """`sum(items, start)` of tensors: a number where there is none."""
    return start if len(items) == 0 else total_of_some(items, start)


def total_of_some(items: Any, start: Any) -> Any:
    """`sum(items, start)` of tensors of which there is one."""
    result = start + items[0]
    for k in range(1, len(items)):
        result = result + items[k]
    return result


def product(items: Any, start: Any) -> Any:
    """`math.prod(items, start=start)`."""
    result = start
    for x in items:
        result = result * x
    return result


def extreme(items: Any, largest: bool, key: Any = None, default: Any = _REQUIRED) -> Any:
    """`max(items, key=key, default=default)`, or `min`."""
    if len(items) == 0:
        if default is _REQUIRED:
            raise ValueError(f"{'max' if largest else 'min'}() {EMPTY}")
        return default
    result = items[0]
    if key is None:
        for x in items:
            if x > result if largest else x < result:
                result = x
        return result
    best = key(result)
    for k in range(1, len(items)):
        x = items[k]
        measure = key(x)
        if measure > best if largest else measure < best:
            result, best = x, measure
    return result


def filtered(function: Any, items: Any) -> Any:
    """`list(filter(function, items))`."""
    return [x for x in items if function(x)]


def measured(items: Any, key: Any) -> Any:
    """By what `items` are sorted."""
    return [key(x) for x in items]


def read(items: Any) -> Any:
    """The numbers that tensors of one element hold."""
    return [x.item() for x in items]


def of_rows(tensor: Any) -> Any:
    """`tensor.tolist()`."""
    return [row.tolist() for row in tensor]


def sorted_by(items: Any, keys: Any, dtype: Any, reverse: bool) -> Any:
    """`items` in the order of `keys`, which are numbers; equal ones stay as they are."""
    if len(items) == 0:
        return [x for x in items]  # noqa: C416
    vector = creation.zeros(len(keys), dtype=dtype)
    for k in range(len(keys)):
        vector[k] = keys[k]
    order = vector.argsort(descending=reverse, stable=True)
    return [items[int(k)] for k in order]


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
        if same(x, value):
            return True
    return False


def in_tensor(tensor: Any, value: Any) -> bool:
    """`value in tensor`."""
    return bool((tensor == value).any())


def range_length(start: int, stop: int, step: int) -> int:
    """`len(range(start, stop, step))`."""
    n = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return max(n, 0)


def in_range(value: Any, start: Any, stop: Any, step: int) -> bool:
    """`value in range(start, stop, step)`."""
    if step > 0:
        return bool(start <= value) and bool(value < stop) and (value - start) % step == 0
    return bool(stop < value) and bool(value <= start) and (start - value) % -step == 0


def equal(items: Any, others: Any) -> bool:
    """`items == others`."""
    if len(items) != len(others):
        return False
    for k in range(len(items)):  # noqa: SIM110
        if not same(items[k], others[k]):
            return False
    return True


def less(items: Any, others: Any) -> bool:
    """`items < others`."""
    for k in range(min(len(items), len(others))):
        if not same(items[k], others[k]):
            return bool(items[k] < others[k])
    return len(items) < len(others)


def index(items: Any, value: Any) -> int:
    """`items.index(value)`."""
    for k, x in enumerate(items):
        if same(x, value):
            return k
    raise ValueError(f"{value} is not in list")


def index_in_tuple(items: Any, value: Any, *ends: Any) -> int:
    """`items.index(value, *ends)` of a tuple."""
    for k in range(*slice(*(ends or (0,)), *(None,) * (len(ends) < 2)).indices(len(items))):
        if same(items[k], value):
            return k
    raise ValueError("tuple.index(x): x not in tuple")


def count(items: Any, value: Any) -> int:
    """`items.count(value)`."""
    n = 0
    for x in items:
        if same(x, value):
            n += 1
    return n


def remove(items: Any, value: Any) -> None:
    """`items.remove(value)`."""
    for k in range(len(items)):
        if same(items[k], value):
            items.pop(k)
            return
    raise ValueError("list.remove(x): x not in list")


def without_every(items: Any, index: slice) -> Any:
    """What `del items[index]` leaves, where the slice has a step."""
    kept = [True for _ in items]
    for k in list(range(len(items)))[index]:
        kept[k] = False
    return [x for x, keep in zip(items, kept) if keep]  # noqa: B905  (as many as items)


def with_every(items: Any, index: slice, values: Any) -> Any:
    """What `items[index] = values` makes, where the slice has a step."""
    places = list(range(len(items)))[index]
    if len(values) != len(places):
        raise ValueError(f"attempt to assign sequence of size {len(values)} to extended slice of size {len(places)}")
    out = [x for x in items]  # noqa: C416  (scripts go over what `list` does not take)
    for k, v in zip(places, values):  # noqa: B905  (as many as values)
        out[k] = v
    return out


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Any:
    """Numbers as a vector, rows of them as a matrix."""
    if len(data) == 0:
        raise RuntimeError("tensor() of an empty list: a script must know its dtype; use `torch.zeros(0, dtype=...)`")
    if isinstance(data[0], (list, tuple)):
        rows = [creation.tensor(row, dtype=dtype, device=device) for row in data]
        for row in rows:
            if len(row) != len(rows[0]):
                raise ValueError(f"expected sequence of length {len(rows[0])} at dim 1 (got {len(row)})")
        out = join.stack(rows)
        return out.requires_grad_() if requires_grad else out
    out = creation.tensor(data[0], dtype=dtype, device=device).new_zeros(len(data))
    for k in range(len(data)):
        out[k] = data[k]
    return out.requires_grad_() if requires_grad else out


def show(items: Any, file: Any) -> None:
    """Print a list to `file` as `print` does, without a line's end."""
    print("[", end="", file=file)
    for k in range(len(items)):
        if k > 0:
            print(", ", end="", file=file)
        if isinstance(items[k], list):
            show(items[k], file)
        else:
            print(f"{items[k]!r}", end="", file=file)
    print("]", end="", file=file)


#: library function -> what runs in its place on a list of run-time length
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    join.stack: stack, join.cat: cat, join.concat: cat, join.concatenate: cat,
    creation.tensor: tensor,
}
