"""Loops in CUDA graphs: WHILE nodes that ask a word of device memory, and whether the device can do them.

    conditions = Conditions(api, context, load=..., allocate=..., read=..., lock=...)
    if conditions.works(stream):                    # tried once
        loop = conditions.loop(builder, go)         # from here on `loop.body` is built, not `builder`
        loop.body.kernel(...)                       # something that writes the word at `go`
        loop.end()

The body runs as long as the word at `go` is not 0: it is asked before the loop and at the end of each iteration.

`TEXT` is a unit of its own, loaded when it is first needed: nothing defines `cudaGraphSetConditional` but the driver
that loads it, and an old one does not.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import COND_WHILE, DriverApi, KernelNode
from jitgrad.codegen.cuda.driver.libraries import LibraryError
from jitgrad.codegen.cuda.graphs.graphs import Builder

#: the kernel that asks: the rest of the body has written the word
DECIDE = """
extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void __launch_bounds__(32)
jg_decide(const long long* go, unsigned long long handle) {
    if (threadIdx.x == 0) cudaGraphSetConditional(handle, *go != 0);
}
"""
#: with a body to try it with
TEXT = DECIDE + """
extern "C" __global__ void __launch_bounds__(32)
jg_count(long long* left, long long* done) {
    if (threadIdx.x == 0) { *left -= 1; *done += 1; }
}
"""
#: the functions that old drivers lack
NEEDED = ("cuGraphConditionalHandleCreate", "cuGraphAddNode_v2")
THREADS = 32
#: iterations of the loop that is tried
TRIPS = 3


class Conditions:
    """What the graphs of a device need for loops. `load`, `allocate` and `read` are the driver's (`driver.py`).

    Attributes:
        reason: why the device cannot do it; "" if it can, None as long as that was not tried.
    """

    def __init__(self, api: DriverApi, context: int, *, load: Callable[[str, Sequence[str]], list[int]],
                 allocate: Callable[[int], Any], read: int, lock: threading.Lock):
        self.api, self.context, self.load, self.allocate = api, context, load, allocate
        self.reason: str | None = None
        self._read = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)(read)
        self._lock = lock
        self._decide = 0

    def works(self, stream: int) -> bool:
        """Whether the device does loops in graphs. The first call tries one on the stream, and waits for it."""
        if self.reason is None:
            with self._lock:  # nothing is captured meanwhile
                if self.reason is None:
                    try:
                        self._try(stream)
                        self.reason = ""
                    except RuntimeError as error:
                        self.reason = str(error)
        return not self.reason

    def loop(self, builder: Builder, go: int) -> Loop:
        """Begin a loop in a graph. CudaError."""
        handle = builder.handle()
        self.ask(builder, go, handle)
        (body,) = builder.conditional(handle, COND_WHILE)
        return Loop(self, body, go, handle)

    def ask(self, builder: Builder, go: int, handle: int) -> None:
        """Make the condition what the word at `go` says by then. CudaError."""
        _kernel(builder, self._decide, c_uint64(go), c_uint64(handle))

    def _try(self, stream: int) -> None:
        for name in NEEDED:
            self.api.address(name)
        self._decide, count = self.load(TEXT, ("jg_decide", "jg_count"))
        block = self.allocate(16)
        left, done = block.ptr, block.ptr + 8
        self.api.call("cuMemsetD8Async", left, 0, 16, stream)
        self.api.call("cuMemsetD8Async", left, TRIPS, 1, stream)
        graph = Builder(self.api, self.context)
        try:
            loop = self.loop(graph, left)
            _kernel(loop.body, count, c_uint64(left), c_uint64(done))
            loop.end()
        except BaseException:
            graph.discard()
            raise
        ready = graph.instantiate()
        found = (c_int64 * 2)()
        try:
            for _ in range(2):  # the second time there is nothing left
                ready.launch(stream)
            status = self._read(ctypes.addressof(found), left, 16, stream)
        finally:
            ready.close()
        if status:
            raise self.api.error("a loop in a graph", status)
        if list(found) != [0, TRIPS]:
            raise LibraryError(f"a loop of {TRIPS} iterations in a graph ran {found[1]} times, with {found[0]} left")


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a graph that is being built: `body` takes its nodes."""

    conditions: Conditions
    body: Builder
    go: int
    handle: int

    def end(self) -> None:
        """After the body's last node. CudaError."""
        self.conditions.ask(self.body, self.go, self.handle)


def _kernel(builder: Builder, function: int, *values: Any) -> None:
    places = (c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    builder.kernel(KernelNode(function=function, grid=(1, 1, 1), block=(THREADS, 1, 1),
                              parameters=ctypes.addressof(places)))
