"""What Python does with a dict whose keys are known at run time, in plain Python that scripts inline.

The dict is two lists of one length, keys and values in the order of insertion. A key is looked for from the front.
"""

from typing import Any

REQUIRED = object()


def find(keys: Any, key: Any) -> int:
    """The place of a key, or -1."""
    at = 0
    for k in keys:
        if k == key:
            return at
        at += 1  # noqa: SIM113  (a counter of a loop that is not unrolled)
    return -1


def getitem(keys: Any, values: Any, key: Any) -> Any:
    """`d[key]`."""
    at = find(keys, key)
    if at < 0:
        raise KeyError(key)
    return values[at]


def get(keys: Any, values: Any, key: Any, default: Any = None) -> Any:
    """`d.get(key, default)`."""
    at = find(keys, key)
    if at < 0:
        return default
    return values[at]


def setitem(keys: Any, values: Any, key: Any, value: Any) -> None:
    """`d[key] = value`."""
    at = find(keys, key)
    if at < 0:
        keys.append(key)
        values.append(value)
    else:
        values[at] = value


def setdefault(keys: Any, values: Any, key: Any, default: Any = None) -> Any:
    """`d.setdefault(key, default)`."""
    at = find(keys, key)
    if at < 0:
        keys.append(key)
        values.append(default)
        return default
    return values[at]


def pop(keys: Any, values: Any, key: Any, default: Any = REQUIRED) -> Any:
    """`d.pop(key)`, `d.pop(key, default)`, and what `del d[key]` does."""
    at = find(keys, key)
    if at < 0:
        if default is REQUIRED:
            raise KeyError(key)
        return default
    keys.pop(at)
    return values.pop(at)


def popitem(keys: Any, values: Any) -> Any:
    """`d.popitem()`."""
    if len(keys) == 0:
        raise KeyError("popitem(): dictionary is empty")
    return keys.pop(), values.pop()


def update(keys: Any, values: Any, more: Any, theirs: Any) -> None:
    """`d.update(other)`."""
    for k, value in zip(more, theirs):  # noqa: B905  (as many of both)
        setitem(keys, values, k, value)


def clear(keys: Any, values: Any) -> None:
    """`d.clear()`."""
    keys.clear()
    values.clear()


def live(size: Any, key: Any, item: Any, before: Any) -> Any:
    """What a loop over a dict gives whose body changes it: `item(k)`, for as long as the keys stay what they were."""
    k = 0
    while True:
        if size() != len(before):
            raise RuntimeError("dictionary changed size during iteration")
        if k == len(before):
            return
        if key(k) != before[k]:
            raise RuntimeError("dictionary keys changed during iteration")
        yield item(k)
        k += 1


def equal(keys: Any, values: Any, more: Any, theirs: Any) -> bool:
    """`d == other`."""
    if len(keys) != len(more):
        return False
    for k, value in zip(keys, values):  # noqa: B905  (as many of both)
        at = find(more, k)
        if at < 0:
            return False
        if theirs[at] != value:
            return False
    return True


def show(keys: Any, values: Any, file: Any) -> None:
    """Print a dict to `file` as `print` does, without a line's end."""
    print("{", end="", file=file)
    first = True
    for k, value in zip(keys, values):  # noqa: B905  (as many of both)
        if not first:
            print(", ", end="", file=file)
        print(f"{k!r}: {value!r}", end="", file=file)
        first = False
    print("}", end="", file=file)
