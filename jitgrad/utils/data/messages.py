"""Objects between two processes that a socket joins, where arrays and tensors are copied into a shared block.

A message is pickled with its arrays out of band (pickle's protocol 5). What is larger than a few words goes, aligned,
into a block, and the block's descriptor through the socket; the receiver's arrays lie in the block. So nothing large
passes the socket, which takes `IN_FLIGHT` messages without anybody reading: who sends does not wait.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
from multiprocessing import reduction
from typing import Any, cast

import numpy as np

from jitgrad.eager import shared
from jitgrad.eager.autograd.node import Array
from jitgrad.eager.tensor import Tensor

#: messages that a socket takes before a sender waits, on systems with the least room for them
IN_FLIGHT = 100
#: bytes that go through the socket itself, at most
INLINE = 512
#: parts begin at multiples of this, for vector instructions
ALIGNED = 64
_HEAD = struct.Struct("=qq")


class _Pickler(pickle.Pickler):
    """Pickles what `multiprocessing` pickles (connections, locks), and copies tensors, whoever shares them."""

    def __init__(self, file: Any, buffer_callback: Any) -> None:
        super().__init__(file, 5, buffer_callback=buffer_callback)
        known: Any = reduction.ForkingPickler(io.BytesIO())
        self.dispatch_table = {cls: reduce for cls, reduce in known.dispatch_table.items()
                               if reduce.__module__ != "jitgrad.multiprocessing.reductions"}

    def reducer_override(self, obj: Any) -> Any:
        """RuntimeError for a tensor with history, as where it is shared."""
        if isinstance(obj, Tensor) and obj.grad_fn is not None:
            raise RuntimeError(shared.HISTORY)
        return NotImplemented


class Channel:
    """One end of a pair of connected sockets."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def close(self) -> None:
        """No more messages."""
        self.socket.close()

    def send(self, obj: Any) -> None:
        """Send an object. OSError where the other end is closed; what pickle raises for what it cannot pickle."""
        buffers: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        _Pickler(file, buffers.append).dump(obj)
        parts = [file.getbuffer(), *(buffer.raw() for buffer in buffers)]
        if not buffers and parts[0].nbytes <= INLINE:
            self.socket.sendall(_HEAD.pack(parts[0].nbytes, 0) + parts[0])
            return
        sizes = np.array([part.nbytes for part in parts], np.int64)
        starts, total = _places(sizes)
        block = shared.new_file(total)
        try:
            for start, part in zip((0, *starts), (sizes.data.cast("B"), *parts), strict=True):
                _write(block, start, part)  # of a fresh file faster than by mapping it
            socket.send_fds(self.socket, [_HEAD.pack(len(parts), total)], [block])
        finally:
            os.close(block)

    def receive(self) -> Any:
        """The next object; its arrays lie in the block. EOFError where the other end is closed."""
        head, files, _, _ = socket.recv_fds(self.socket, _HEAD.size, 1)
        count, total = _HEAD.unpack(head + self._bytes(_HEAD.size - len(head)))
        if not total:
            return pickle.loads(self._bytes(count))
        try:
            memory = shared.mapped(files[0], total)
        finally:
            os.close(files[0])
        sizes = memory[:count * 8].view(np.int64)
        whole = memoryview(cast(Any, memory))
        parts = [whole[start:start + size]
                 for start, size in zip(_places(sizes)[0], sizes.tolist(), strict=True)]
        return pickle.loads(parts[0], buffers=parts[1:])

    def _bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                raise EOFError("the other process has closed its end")
            found += part
        return found


def pair() -> tuple[Channel, Channel]:
    """Two ends that are connected. NotImplementedError on a system whose sockets carry no descriptors."""
    if not hasattr(socket, "send_fds"):
        raise NotImplementedError("worker processes need sockets that carry file descriptors")
    here, there = socket.socketpair()
    return Channel(here), Channel(there)


def _write(file: int, start: int, part: memoryview) -> None:
    while part.nbytes:
        count = os.pwrite(file, part, start)
        part, start = part[count:], start + count


def _places(sizes: Array) -> tuple[list[int], int]:
    """Where parts of these sizes begin, behind the table of them, and where the last one ends."""
    ends = np.cumsum([-(-n // ALIGNED) * ALIGNED for n in (sizes.nbytes, *sizes.tolist())])
    return ends[:-1].tolist(), int(ends[-1])
