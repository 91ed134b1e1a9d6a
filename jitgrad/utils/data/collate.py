"""Collation: many samples into one batch of tensors, with torch's rules for what samples may be."""

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import jitgrad
from jitgrad import Tensor

FORBIDDEN = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch from samples of one kind, with a new first axis.

    Tensors, arrays and numbers become one tensor (floats one of float64), strings stay a list, dicts, named tuples,
    lists and tuples become one container of batches (a list for tuples).

    Raises:
        TypeError: samples of another kind.
        RuntimeError: sequences of different lengths, or tensors of different shapes.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return jitgrad.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in "SUO":
            raise TypeError(FORBIDDEN.format(first.dtype))
        return jitgrad.stack([jitgrad.as_tensor(b) for b in batch], 0)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (np.bool_, np.number)):
        return jitgrad.as_tensor(np.array(batch))
    if isinstance(first, float):
        return jitgrad.tensor(batch, dtype=jitgrad.float64)
    if isinstance(first, int):
        return jitgrad.tensor(batch)
    if isinstance(first, Mapping):
        return _mapping(first, {key: default_collate([b[key] for b in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return _sequence(first, [default_collate(samples) for samples in zip(*batch, strict=True)])
    raise TypeError(FORBIDDEN.format(type(first)))


def default_convert(data: Any) -> Any:
    """One sample with its arrays and NumPy numbers as tensors; all else stays."""
    if isinstance(data, (np.ndarray, np.bool_, np.number)):
        return data if data.dtype.kind in "SUO" else jitgrad.as_tensor(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence):
        return _sequence(data, [default_convert(d) for d in data])
    return data


def pinned(data: Any) -> Any:
    """A batch with its tensors in page-locked memory."""
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _mapping(data, {key: pinned(data[key]) for key in data})
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return tuple([pinned(d) for d in data])
    if isinstance(data, Sequence):
        return _sequence(data, [pinned(d) for d in data])
    return data.pin_memory() if hasattr(data, "pin_memory") else data


def _mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """`items` in a mapping of the type of `like`, or in a dict where that type cannot be made so."""
    def filled() -> Any:
        made: Any = copy.copy(like)
        made.update(items)
        return made

    make: Any = type(like)
    return _or_else(filled if isinstance(like, MutableMapping) else lambda: make(items), items)


def _sequence(like: Sequence[Any], items: list[Any]) -> Any:
    """`items` in a sequence of the type of `like`; in a list for a tuple, and where that type cannot be made so."""
    make: Any = type(like)
    if isinstance(like, tuple):
        return make(*items) if hasattr(like, "_fields") else items

    def filled() -> Any:
        made: Any = copy.copy(like)
        made[:] = items
        return made

    return _or_else(filled if isinstance(like, MutableSequence) else lambda: make(items), items)


def _or_else(make: Callable[[], Any], otherwise: Any) -> Any:
    """What `make` makes; `otherwise` where the type's constructor or methods do not take the items."""
    try:
        return make()
    except TypeError:
        return otherwise
