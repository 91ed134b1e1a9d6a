"""CUDA graphs: parts to build them of, capturing a library's work, conditional nodes.

    graph = Builder(api, context)
    graph.kernel(KernelNode(...)); graph.copy(to, from_, bytes); graph.child(captured(api, stream, run))
    executable = graph.instantiate()
    api.call("cuGraphLaunch", executable.handle, stream)

A builder's nodes follow each other, as in a stream. A graph is built of nodes rather than captured from a stream: then
the handle of each node is known, and nothing depends on what a stream is doing. Only work whose kernels are a library's
own (products) is captured, on a stream of its own, and becomes a child graph.

`Builder.conditional` makes an IF or WHILE node: its bodies are builders too. A kernel sets the condition:

    extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from ctypes import byref, c_uint64, c_void_p
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import (
    CAPTURE_RELAXED,
    COND_IF,
    COND_WHILE,
    COOPERATIVE,
    DEVICE_MEMORY,
    NODE_CONDITIONAL,
    Copy,
    DriverApi,
    KernelNode,
    LaunchAttribute,
    NodeParameters,
)

#: the condition has its default at every launch of the graph
ASSIGN_DEFAULT = 1


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
    """A graph whose nodes run one after the other. `graph`: of somebody else's, for the body of a conditional node."""

    def __init__(self, api: DriverApi, context: int, graph: int = 0):
        self.api, self.context = api, context
        self.graph = graph or api.made("cuGraphCreate", 0)
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

    def handle(self, default: int = 0) -> int:
        """A condition for a node of this graph: pass it to the kernel that sets it."""
        return self.api.made("cuGraphConditionalHandleCreate", self.graph, self.context, default, ASSIGN_DEFAULT)

    def conditional(self, handle: int, kind: int, bodies: int = 1) -> list[Builder]:
        """An IF node (`bodies` 2: with an else) or a WHILE node; builders of its bodies."""
        assert kind == COND_IF or (kind == COND_WHILE and bodies == 1)
        node = NodeParameters()
        node.kind = NODE_CONDITIONAL
        choice = node.of.conditional
        choice.handle, choice.kind, choice.size, choice.context = c_uint64(handle), kind, bodies, self.context
        before = (c_void_p * 1)(self._last) if self._last else None
        self._last = self.api.made("cuGraphAddNode_v2", self.graph, before, None, int(before is not None), byref(node))
        return [Builder(self.api, self.context, choice.graphs[k]) for k in range(bodies)]

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
