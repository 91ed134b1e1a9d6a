"""Tensors on their way between devices; a gradient takes the way back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.device import device, require_gpu
from jitgrad.eager.arrays import arrays
from jitgrad.eager.autograd.grad_mode import mode
from jitgrad.eager.autograd.node import Lasting, T, TapedArray
from jitgrad.eager.construct import wrap


class Move(Lasting):
    """A copy on another device."""

    __slots__ = ("back",)
    title = "ToCopyBackward"

    def __init__(self, x: TapedArray):
        self.begin((x,))
        self.back = x.device

    def first_order(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return [arrays.transfer(cotangents[0], self.back)]

    def on_tape(self, cotangents: list[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        return [move(cotangents[0], self.back)]


def move(x: T, where: device) -> T:
    """x on a device (`device.resolve` gives one with an index): a copy with history, or x itself if it is there."""
    array = x._data
    moved = arrays.transfer(array, where)
    if moved is array:
        return x
    result: T = wrap(moved)
    if mode.enabled and x.requires_grad:
        Move(x).attach(result)
    return result


def pin(x: Any) -> Any:
    """A copy of a CPU tensor in page-locked memory, from which copies to a GPU are fast; x itself if it is there."""
    if x.is_cuda:
        raise RuntimeError(f"cannot pin '{x.type()}' only dense CPU tensors can be pinned")
    if is_pinned(x):
        return x
    array = x._data
    memory = require_gpu().cuda.alloc_pinned_memory(max(array.nbytes, 1))
    pinned = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
    pinned[...] = array
    return wrap(pinned)


def is_pinned(x: TapedArray) -> bool:
    """Whether a CPU tensor is in page-locked memory."""
    base: Any = x._data
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return type(base).__name__ == "PinnedMemoryPointer"
