"""CUDA graphs: parts to build them of, capturing a library's work.

    graph = Builder(api, context)
    graph.kernel(KernelNode(...)); graph.copy(to, from_, bytes); graph.child(captured(api, stream, run))
    executable = graph.instantiate()
    api.call("cuGraphLaunch", executable.handle, stream)

A builder's nodes follow each other, as in a stream. A graph is built of nodes rather than captured from a stream: then
the handle of each node is known, and nothing depends on what a stream is doing. Only work whose kernels are a library's
own (products) is captured, on a stream of its own, and becomes a child graph.
"""

import weakref
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import (CAPTURE_RELAXED, COOPERATIVE, DEVICE_MEMORY, Copy, DriverApi,
                                                   KernelNode, LaunchAttribute)


def captured(api: DriverApi, stream: int, run: Callable[[int], None]) -> int:
    """The graph of the work that `run` gives to `stream`, which must be non-blocking. It is the caller's to destroy."""
    api.call("cuStreamBeginCapture_v2", stream, CAPTURE_RELAXED)
    graph = c_void_p()
    try:
        run(stream)
    except BaseException:
        api.code("cuStreamEndCapture", stream, byref(graph))
        if graph.value:
            api.code("cuGraphDestroy", graph)
        raise
    api.call("cuStreamEndCapture", stream, byref(graph))
    assert graph.value
    return graph.value


def linear_copy(to: int, source: int, size: int) -> Copy:
    """The description of a copy of device memory."""
    copy = Copy()
    copy.from_kind = copy.to_kind = DEVICE_MEMORY
    copy.source, copy.target, copy.bytes, copy.height, copy.depth = source, to, size, 1, 1
    return copy


def _destroy(api: DriverApi, graph: int, executable: int) -> None:
    if executable:
        api.code("cuGraphExecDestroy", executable)
    api.code("cuGraphDestroy", graph)


class Executable:
    """An instantiated graph; destroyed, with the graph that its nodes belong to, when it is dropped or closed."""

    def __init__(self, api: DriverApi, graph: int, handle: int):
        self.api, self.handle = api, handle
        self._end = weakref.finalize(self, _destroy, api, graph, handle)
        self._end.atexit = False  # the driver may be gone by then, and everything with it

    def launch(self, stream: int) -> None:
        """Run it on a stream. CudaError."""
        self.api.call("cuGraphLaunch", self.handle, stream)

    def close(self) -> None:
        """Destroy it now. Nothing may run it any more."""
        self._end()


class Builder:
    """A graph whose nodes run one after the other."""

    def __init__(self, api: DriverApi, context: int):
        self.api, self.context = api, context
        self.graph = api.made("cuGraphCreate", 0)
        self._last: int = 0

    def _add(self, call: str, *what: Any) -> int:
        """A node behind the last one."""
        before = ((c_void_p * 1)(self._last), 1) if self._last else (None, 0)
        self._last = self.api.made(call, self.graph, *before, *what)
        return self._last

    def kernel(self, parameters: KernelNode, together: bool = False) -> int:
        """Launch a kernel; its arguments are copied. `together`: all blocks are resident at once. The node."""
        node = self._add("cuGraphAddKernelNode_v2", byref(parameters))
        if together:
            self.api.call("cuGraphKernelNodeSetAttribute", node, COOPERATIVE, byref(LaunchAttribute(cooperative=1)))
        return node

    def copy(self, to: int, source: int, size: int) -> int:
        """Copy device memory, at least one byte. The node."""
        return self._add("cuGraphAddMemcpyNode", byref(linear_copy(to, source, size)), self.context)

    def child(self, graph: int) -> int:
        """All of another graph, which is copied and destroyed. The node."""
        try:
            return self._add("cuGraphAddChildGraphNode", graph)
        finally:
            self.api.call("cuGraphDestroy", graph)

    def instantiate(self) -> Executable:
        """The graph, ready to run. It belongs to the result from now on."""
        try:
            handle = self.api.made("cuGraphInstantiateWithFlags", self.graph, 0)
        except BaseException:
            self.discard()
            raise
        return Executable(self.api, self.graph, handle)

    def discard(self) -> None:
        """Destroy a graph that was not instantiated."""
        self.api.call("cuGraphDestroy", self.graph)
