"""What the items of a list have in common, where a program takes the list with a length known at run time.

A program is compiled for one length at first: its items are then separate objects, which may differ in all. Where a
call brings another length, the program that is compiled for it takes every length, of items of one kind (`Kind`):

    Tensors          tensors of one dtype and rank, all or none of which ask for a gradient
    int, float, bool numbers
    tuple            tuples of these

Objects of a user's class have a kind too, `BY_CLASS`: a program is compiled for one object at first, then for its
class.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from jitgrad.classes import dataclass
from jitgrad.device import CPU, device as Device
from jitgrad.dtypes import by_name, dtype
from jitgrad.ops.backend import AnyTensor

NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tensors:
    """What is known of every tensor.

    Attributes:
        dtype: its dtype.
        ones: per axis, whether its size is 1: True, False, or None where tensors differ.
        same: per axis, whether all have one size.
        requires_grad: whether it asks for a gradient.
        ordered: whether the memory of all is in row order.
        device: where they are.
    """

    dtype: dtype
    ones: tuple[bool | None, ...]
    same: tuple[bool, ...]
    requires_grad: bool
    ordered: bool
    device: Device = CPU

    def joined(self, other: Tensors) -> Tensors:
        """What holds for the tensors of two lists."""
        ones = tuple(a if a is b else None for a, b in zip(self.ones, other.ones, strict=True))
        same = tuple(a and b and one is not None for a, b, one in zip(self.same, other.same, ones, strict=True))
        return Tensors(self.dtype, ones, same, self.requires_grad, self.ordered and other.ordered, self.device)


#: of an item: a type of numbers, or a tuple of kinds
Kind = Any
#: of an object of which a program assumes the class, and what it reads of it
BY_CLASS = "by class"


#: our own modules whose objects are as those of a user's class
OPEN = "jitgrad.sparse."


def is_plain_object(value: Any) -> bool:
    """Whether a value is an object of a user's class that finds its attributes where Python does."""
    cls = type(value)
    if isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType, enum.Enum, tuple, list, dict,
                          AnyTensor)):
        return False
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False
    own = any(name in vars(c) for c in cls.__mro__[:-1] for name in ("__getattr__", "__getattribute__"))
    return not own and all(c is object or c.__module__.startswith(OPEN) or c.__module__.partition(".")[0] not in (
        "jitgrad", "builtins") for c in cls.__mro__) and hasattr(value, "__dict__")


def kind_of(items: Sequence[Any]) -> Kind | None:
    """What all items of a list are; None where they are not of one kind, or there is none."""
    if not items:
        return None
    kind = type(items[0])
    if kind is tuple:
        width = len(items[0])
        if any(type(i) is not tuple or len(i) != width for i in items):
            return None
        kinds = tuple([kind_of(column) for column in zip(*items, strict=True)])
        return None if None in kinds or not kinds else kinds
    if kind in (int, float, bool):
        return kind if all(type(i) is kind for i in items) else None
    return _of_tensors(items)


def _of_tensors(items: Sequence[Any]) -> Tensors | None:
    if not all(isinstance(x, AnyTensor) for x in items):
        return None
    first = items[0]
    needs = bool(first.requires_grad)
    if any(x.dtype is not first.dtype or x.ndim != first.ndim or bool(x.requires_grad) is not needs for x in items):
        return None
    if any(x.device != first.device for x in items):
        return None
    columns = list(zip(*(x._data.shape for x in items), strict=True))
    ones = tuple([all(n == 1 for n in c) or (False if all(n != 1 for n in c) else None) for c in columns])
    ordered = all(x._data.flags.c_contiguous for x in items)
    return Tensors(first.dtype, ones, tuple([len(set(c)) == 1 for c in columns]), needs, ordered, first.device)


def joined(a: Kind, b: Kind) -> Kind | None:
    """The kind of the items of two lists; None where there is none."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = tuple([joined(x, y) for x, y in zip(a, b, strict=True)])
        return None if None in parts else parts
    if isinstance(a, Tensors) and isinstance(b, Tensors):
        alike = a.dtype is b.dtype and a.device == b.device and a.requires_grad is b.requires_grad and (
            len(a.ones) == len(b.ones))
        return a.joined(b) if alike else None
    return a if a is b else None


def fit(items: Sequence[Any], kind: Kind) -> bool:
    """Whether all items are of a kind. Nothing is known of a size that no item has: an empty list then fits not."""
    if isinstance(kind, Tensors):
        return _fit_tensors(items, kind)
    if isinstance(kind, tuple):
        width = len(kind)
        return all(type(i) is tuple and len(i) == width for i in items) and all(
            fit([i[k] for i in items], part) for k, part in enumerate(kind))
    return all(type(i) is kind for i in items)


def _fit_tensors(items: Sequence[Any], kind: Tensors) -> bool:
    wanted, needs, rank = kind.dtype.np, kind.requires_grad, len(kind.ones)
    shapes, ordered, on_host = set(), kind.ordered, kind.device.type == "cpu"
    for x in items:
        tensor: Any = x
        if not isinstance(x, AnyTensor) or tensor.requires_grad is not needs:
            return False
        array = tensor._data
        if (type(array) is np.ndarray) is not on_host or (not on_host and tensor.device != kind.device):
            return False
        if array.dtype != wanted or array.ndim != rank or (
                ordered and not array.flags.c_contiguous):
            return False
        shapes.add(array.shape)
    if not shapes:
        return not any(same and one is not True for same, one in zip(kind.same, kind.ones, strict=True))
    for axis, (one, same) in enumerate(zip(kind.ones, kind.same, strict=True)):
        sizes = {shape[axis] for shape in shapes}
        if (same and len(sizes) > 1) or (one is True and sizes != {1}) or (one is False and 1 in sizes):
            return False
    return True


def paths(kind: Kind, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Kind]]:
    """The numbers and tensors of an item: the path to each, and its kind."""
    if isinstance(kind, tuple):
        for k, part in enumerate(kind):
            yield from paths(part, (*path, k))
    else:
        yield path, kind


def column(items: Sequence[Any], path: tuple[int, ...]) -> list[Any]:
    """What is found on a path of every item."""
    found = list(items)
    for k in path:
        found = [i[k] for i in found]
    return found


def to_plain(kind: Kind) -> Any:
    """A kind as JSON."""
    if isinstance(kind, tuple):
        return ["tuple", [to_plain(part) for part in kind]]
    if isinstance(kind, Tensors):
        return ["tensors", kind.dtype.name, list(kind.ones), list(kind.same), kind.requires_grad,
                kind.ordered, str(kind.device)]
    return ["object"] if kind == BY_CLASS else ["number", kind.__name__]


def from_plain(stored: Any) -> Kind:
    """The inverse of `to_plain`."""
    match stored:
        case ["tuple", parts]:
            return tuple([from_plain(part) for part in parts])
        case ["tensors", name, ones, same, needs, ordered, where]:
            return Tensors(by_name(name), tuple(ones), tuple(same), needs, ordered, Device(where))
    if stored == ["object"]:
        return BY_CLASS
    return {"int": int, "float": float, "bool": bool}[stored[1]]
