"""Memory that several processes have: tensors are moved into it, and other processes map it.

A block is a file without a name that lives in memory: it is gone with the last process that has it, however that ends.
Who maps a block writes what all others read. On Linux it does not count against the size of /dev/shm.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import sys
import tempfile
import weakref
from typing import Any

import numpy as np

from jitgrad.device import CPU
from jitgrad.eager.autograd.node import Array, TapedArray

#: a block's file may lie here under a name, for who comes after its owner has gone
FOLDER = "/dev/shm"
PREFIX = "jitgrad-"
#: what is said of a tensor with history that another process is to have
HISTORY = ("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
           "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
           "serializing (e.g., putting it on the queue).")

#: the blocks that this process has mapped, by the identity of the array of all their bytes
_blocks: dict[int, Block] = {}


class Block:
    """A mapped file of `size` bytes; `file`, its descriptor, stays open as long as the bytes are in use."""

    __slots__ = ("file", "linkable", "size")

    def __init__(self, file: int, size: int, linkable: bool) -> None:
        self.file, self.size, self.linkable = file, size, linkable


def new_file(size: int, linkable: bool = False) -> int:
    """The descriptor of a file of zeros without a name; OSError where there is no room for one.

    Args:
        linkable: another process shall open it by a name (`link`).
    """
    if linkable:
        file = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    elif hasattr(os, "memfd_create"):
        file = os.memfd_create("jitgrad", os.MFD_CLOEXEC)
    else:
        file, path = tempfile.mkstemp(prefix=PREFIX)
        os.unlink(path)
    try:
        os.truncate(file, size)
    except BaseException:
        os.close(file)
        raise
    return file


def link(file: int, name: str) -> None:
    """Give a linkable file another name, under which one process finds it."""
    # with a folder, of which an absolute path has no need, it is `linkat`, which follows
    os.link(f"/proc/self/fd/{file}", os.path.join(FOLDER, name), src_dir_fd=file, follow_symlinks=True)


def unlinked(name: str) -> int:
    """The descriptor of the file that `link` gave a name, which is free from then on."""
    path = os.path.join(FOLDER, name)
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    os.unlink(path)
    return file


class _System:
    """mmap and munmap of the C library: Python's own keeps a descriptor open for each mapping."""

    def __init__(self) -> None:
        c = ctypes.CDLL(None, use_errno=True)
        self.mmap, self.munmap = c.mmap, c.munmap
        self.mmap.restype = ctypes.c_void_p
        self.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                              ctypes.c_long)
        self.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


_system: _System | None = None


def mapped(file: int, size: int) -> Array:
    """The bytes of a file as an array, uint8, (size,). The file may be closed then; writes are seen by all who map it.

    OSError where the address space has no room.
    """
    global _system
    if not size:
        return np.empty(0, np.uint8)
    if _system is None:
        _system = _System()
    address = _system.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    memory: Any = (ctypes.c_ubyte * size).from_address(address)
    # at exit the process's memory goes anyway, and others may still read it
    weakref.finalize(memory, _system.munmap, address, size).atexit = False
    array: Array = np.frombuffer(memory, np.uint8)
    return array


def of_file(file: int, size: int, linkable: bool = False) -> Array:
    """`mapped`, and remembered as a block, to be sent on: the descriptor is the block's from now on."""
    array = mapped(file, size)
    key = id(array)
    _blocks[key] = Block(file, size, linkable)
    weakref.finalize(array, _forget, key).atexit = False
    return array


def _forget(key: int) -> None:
    os.close(_blocks.pop(key).file)


def owner(array: Array) -> Array:
    """The array whose memory this one is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def block_of(array: Array) -> Block | None:
    """The block that an array lies in."""
    return _blocks.get(id(owner(array)))


def offset_in(array: Array) -> int:
    """How many bytes of its owner come before the first element."""
    first: int = array.__array_interface__["data"][0] - owner(array).__array_interface__["data"][0]
    return first


def is_shared(x: Any) -> bool:
    """Whether other processes may see what is written; a GPU's memory always, as in torch."""
    return bool(x.device != CPU) or block_of(x._data) is not None


def share(x: Any, linkable: bool = False) -> None:
    """Move the memory of a tensor, and with it all tensors that share it, into a block. Not for GPUs.

    An ndarray that someone holds beside the tensors stays where it is.
    """
    if is_shared(x):
        return
    sharing = [x] if _references(x) == _ALONE and x._data.base is None else _sharing(x)
    old = owner(x._data)
    low, high = np.lib.array_utils.byte_bounds(old)
    array = of_file(new_file(high - low, linkable), high - low, linkable)
    start = old.__array_interface__["data"][0] - low
    moved = np.ndarray(old.shape, old.dtype, array, start, old.strides)
    moved[...] = old
    for t in sharing:
        there = t._data
        t._data = np.ndarray(there.shape, there.dtype, array, start + offset_in(there), there.strides)


def _references(x: TapedArray) -> int:
    """A number that is the larger the more others hold a tensor's array."""
    return sys.getrefcount(x._data)


def _alone() -> int:
    x = TapedArray()
    x._data = np.empty(1)
    return _references(x)


#: `_references` of a tensor whose array nobody else holds
_ALONE = _alone()


def _sharing(x: Any) -> list[Any]:
    """All tensors on the memory of one."""
    memory = owner(x._data)
    tensors = [t for t in gc.get_objects() if isinstance(t, TapedArray) and hasattr(t, "_data")]
    return [t for t in tensors if not t.is_cuda and owner(t._data) is memory]
