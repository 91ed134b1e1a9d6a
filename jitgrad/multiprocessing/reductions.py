"""How tensors are sent to other processes: their memory is moved into a block, of which the receiver gets a handle.

Sender and receiver then have the same memory, as with torch. A handle is one of two:
- "file_descriptor": a duplicate of the block's descriptor, which the sender must be there to give.
- "file_system": a name in /dev/shm, free again once received, that outlives the sender. Linux only.
"""

from __future__ import annotations

import os
import uuid
from multiprocessing import reduction
from typing import Any

import numpy as np

from jitgrad.eager import shared
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import Buffer, Parameter


class _Strategy:
    current = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The strategies of this system."""
    named = hasattr(os, "O_TMPFILE") and os.access(shared.FOLDER, os.W_OK)
    return {"file_descriptor", "file_system"} if named else {"file_descriptor"}


def get_sharing_strategy() -> str:
    """How tensors are sent."""
    return _Strategy.current


def set_sharing_strategy(new_strategy: str) -> None:
    """How tensors are sent from now on. AssertionError for a strategy that this system does not have."""
    known = get_all_sharing_strategies()
    if new_strategy not in known:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {known}")
    _Strategy.current = new_strategy


class _Name:
    """The handle that is a name."""

    def __init__(self, file: int) -> None:
        self.name = f"{shared.PREFIX}{uuid.uuid4().hex}"
        shared.link(file, self.name)

    def detach(self) -> int:
        """The descriptor, once."""
        return shared.unlinked(self.name)


def reduce_tensor(x: Tensor) -> tuple[Any, ...]:
    """What pickle writes of a tensor for another process.

    RuntimeError for one with history; a GPU's tensor is sent as its elements.
    """
    if x.grad_fn is not None:
        raise RuntimeError(shared.HISTORY)
    if x.is_cuda or not x.numel():
        return x.__reduce_ex__(5)  # type: ignore[no-any-return]
    named = _Strategy.current == "file_system"
    shared.share(x, linkable=named)
    block: Any = shared.block_of(x._data)
    handle = _Name(block.file) if named and block.linkable else reduction.DupFd(block.file)
    array = x._data
    place = (shared.offset_in(array), array.shape, array.strides, array.dtype)
    return rebuild_tensor, (type(x), handle, block.size, place, x._needs, x._user_attributes())


def rebuild_tensor(cls: type[Any], handle: Any, size: int, place: tuple[Any, ...], needs: bool,
                   attributes: dict[str, Any]) -> Any:
    """The tensor on the block that the handle is of."""
    offset, shape, strides, dtype = place
    made = wrap(np.ndarray(shape, dtype, shared.of_file(handle.detach(), size), offset, strides), cls)
    made._needs = needs
    made.__dict__.update(attributes)
    return made


def register() -> None:
    """From now on `multiprocessing` sends tensors so."""
    for cls in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(cls, reduce_tensor)
