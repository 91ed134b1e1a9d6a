"""The values of a backward pass: arrays, or Tensors where the pass itself is recorded, and how each is handled.

A gradient is added to in place, and given away without a copy, where nobody else knows its memory: references tell.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.eager.arrays.arrays import copy, library, there
from jitgrad.eager.autograd.node import Node, TapedArray, storage_of
from jitgrad.eager.autograd.tape import TAPE, tape_of
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.namespaces import unbroadcast

_ndarray = np.ndarray


def _references(value: Any) -> int:
    """How many references to `value` there are, counted here."""
    return sys.getrefcount(value)


def _references_of_one() -> int:
    """What `_references` says in a function whose argument only its caller knows, in a list or a local variable.

    Measured, for how many references the calls themselves hold differs between versions of Python.
    """
    def callee(array: Any) -> int:
        return _references(array)

    holder, local = [np.zeros(1)], np.zeros(1)
    return min(callee(holder[0]), callee(local))


_ONE = _references_of_one()


def _is_memory(value: Any) -> bool:
    """Whether `value` is an ndarray that owns writable memory (a view of it would be one more reference to it)."""
    return (value.flags.owndata and value.flags.writeable) if type(value) is _ndarray else library(value).owns(value)


def _in_order(value: Any) -> Any:
    """`value`, which nobody else knows, as a C-ordered ndarray with memory of its own."""
    return value if _is_memory(value) and value.flags.c_contiguous else copy(value)


def own(value: Any) -> Any:
    """`value`, which its caller has in a variable and in a dict, likewise; a copy where somebody else knows it too."""
    return copy(value) if _references(value) > _ONE + 1 else _in_order(value)


class Arrays:
    """First order: values are ndarrays, or NumPy scalars."""

    @staticmethod
    def run(node: Node, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return node.first_order(cotangents, needs)

    @staticmethod
    def fit(value: Any, meta: Any) -> Any:
        if value.shape != meta.shape:
            value = (unbroadcast(value, meta.shape) if value.ndim else
                     library(value).xp.broadcast_to(value, meta.shape))
        d = value.dtype
        if d.kind == "c" and meta.dtype.kind != "c":  # what a real tensor gets of complex numbers made of it
            value = value.real
        return value if d is meta.dtype or d == meta.dtype else value.astype(meta.dtype)

    @staticmethod
    def add(total: Any, value: Any, own: bool) -> Any:
        """The sum; written over `total` if that is the engine's `own`, or nobody else knows it."""
        if type(total) is _ndarray and (own or (_references(total) <= _ONE and _is_memory(total))):
            return np.add(total, value, out=total)
        return total + value

    @staticmethod
    def wrap(value: Any) -> Tensor:
        return wrap(value)  # type: ignore[no-any-return]

    @staticmethod
    def unwrap(value: Tensor) -> Any:
        return value._data

    @staticmethod
    def accumulate(leaf: TapedArray, value: Any, known: bool | None = None) -> None:
        """Add to the leaf's gradient; `known`: whether somebody else knows `value`, if the caller counted already."""
        grad = leaf._grad
        if grad is None:
            if known is None:
                known = _references(value) > _ONE
            leaf._grad = wrap(copy(value) if known else _in_order(value))
            return
        data = grad._data
        if type(data) is _ndarray:
            if not data.flags.writeable:
                grad._data = data = data.copy()
            np.add(data, value, out=data)
        else:
            home = library(data)
            if not home.writable(data):
                grad._data = data = copy(data)
            home.xp.add(data, value, out=data)
        storage_of(grad).wrote(data)


class Placed(Arrays):
    """As `Arrays`, where there are several GPUs: each step is done on that of its arrays."""

    @staticmethod
    def run(node: Node, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        with there(cotangents):
            return node.first_order(cotangents, needs)

    @staticmethod
    def fit(value: Any, meta: Any) -> Any:
        with there((value,)):
            return Arrays.fit(value, meta)

    @staticmethod
    def add(total: Any, value: Any, own: bool) -> Any:
        with there((total,)):
            return total + value

    @staticmethod
    def accumulate(leaf: TapedArray, value: Any, known: bool | None = None) -> None:
        known = _references(value) > _ONE
        with there((value,)):
            Arrays.accumulate(leaf, value, known)


class Tensors:
    """`create_graph`: values are Tensors, and everything done to them is recorded."""

    @staticmethod
    def run(node: Node, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return node.on_tape(cotangents, needs)

    @staticmethod
    def fit(value: Any, meta: Any) -> Any:
        if value._data.shape != meta.shape:
            if value._data.ndim:
                value = tape_of(value).sum_to(value, shape=meta.shape)
            else:
                value = TAPE.expand(value, shape=meta.shape)
        return value if value._data.dtype == meta.dtype else TAPE.cast(value, dtype=dtypes.from_numpy(meta.dtype))

    @staticmethod
    def add(total: Any, value: Any, own: bool) -> Any:
        return TAPE.add(total, value)

    @staticmethod
    def wrap(value: Any) -> Tensor:
        return value  # type: ignore[no-any-return]

    unwrap = wrap

    @staticmethod
    def accumulate(leaf: TapedArray, value: Any) -> None:
        if leaf._grad is None:  # a copy: the same Tensor may be the gradient of something else too
            leaf._grad = TAPE.cast(value, dtype=value.dtype)
        else:
            leaf._grad = TAPE.add(leaf._grad, value)
