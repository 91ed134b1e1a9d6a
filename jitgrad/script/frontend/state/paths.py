"""Paths of views: what of a storage a reference shows."""

from collections.abc import Mapping
from typing import Any

Path = tuple[tuple[str, Mapping[str, Any]], ...]
#: the attribute of an alias by which a path says that the tensor is one item of a batch (`batches/items.py`)
ITEM = "item"


def marks(path: Path) -> Path:
    """What of a path says of which batches the tensor is an item."""
    return tuple([step for step in path if ITEM in step[1]])


def paths_equal(a: Path, b: Path) -> bool:
    """Whether two paths show the same."""
    return len(a) == len(b) and all(x == y and dict(m) == dict(n) for (x, m), (y, n) in zip(a, b, strict=True))
