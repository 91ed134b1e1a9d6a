"""A driver with graphs on the host: what runs on its streams is a list, in order."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import DriverApi, KernelNode
from jitgrad.codegen.cuda.driver.libraries import CudaError
from jitgrad.codegen.cuda.graphs.shared import Graphs
from tests.codegen.cuda.fakecuda import FakeLibrary, fake_driver

#: bytes of the arguments of the kernels that there are
KERNELS = {0x100: (8, 4), 0x200: (8, 8, 8, 2), 0x300: (), 0x400: (8,)}
CONTEXT = 0xC0
Operation = tuple[Any, ...]


def arguments_of(places: Any, kernel: int) -> tuple[bytes, ...]:
    pointers = ctypes.cast(places, ctypes.POINTER(c_void_p))
    return tuple([ctypes.string_at(pointers[k], size) for k, size in enumerate(KERNELS[kernel])])


class FakeGraphs:
    """`ran`: the operations in the order in which the device would run them, with their stream.

    Attributes:
        refused: codes with which the next updates of nodes fail, by the function's name.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[int, Operation]] = []
        self.graphs: dict[int, list[list[Any]]] = {}      # graph -> [node, operation]
        self.executables: dict[int, dict[int, Any]] = {}  # executable -> node -> operation
        self.capturing: dict[int, list[list[Any]]] = {}
        self.refused: dict[str, int] = {}
        self.waits: list[int] = []
        self.prepared: list[Operation] = []
        self.fails: Exception | None = None  # what a product raises
        self.library: FakeLibrary = fake_driver({
            "cuCtxGetCurrent": self.context, "cuGraphCreate": self.create, "cuGraphDestroy": self.destroy,
            "cuGraphAddKernelNode_v2": self.add_kernel,
            "cuGraphKernelNodeSetAttribute": self.set_together, "cuGraphAddMemcpyNode": self.add_copy,
            "cuGraphAddChildGraphNode": self.add_child, "cuGraphInstantiateWithFlags": self.instantiate,
            "cuGraphExecDestroy": lambda executable: self.executables.pop(executable) and None,
            "cuGraphExecKernelNodeSetParams_v2": self.set_kernel, "cuGraphExecMemcpyNodeSetParams": self.set_copy,
            "cuGraphExecChildGraphNodeSetParams": self.set_child, "cuGraphLaunch": self.launch_graph,
            "cuFuncGetParamInfo": self.argument, "cuStreamBeginCapture_v2": self.begin_capture,
            "cuStreamEndCapture": self.end_capture, "cuStreamSynchronize": lambda stream: self.waits.append(stream)})
        self.api = DriverApi(self.library)
        types = (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p)
        self._kept = [ctypes.CFUNCTYPE(c_int, *types)(self.launch), ctypes.CFUNCTYPE(c_int, *types)(self.together),
                      ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self.raw_matmul),
                      ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_size_t, c_void_p)(self.raw_copy),
                      ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)(self.raw_read)]
        launch, together, matmul, copy, read = [ctypes.cast(f, c_void_p).value or 0 for f in self._kept]
        self.shared = Graphs(self.api, lambda: self, launch=launch, together=together, matmul=matmul, copy=copy,
                             read=read)
        f = self.shared.functions
        self.call_launch = ctypes.CFUNCTYPE(c_int, *types)(f.launch)
        self.call_together = ctypes.CFUNCTYPE(c_int, *types)(f.together)
        self.call_matmul = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(f.matmul)
        self.call_copy = ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_size_t, c_void_p)(f.copy)
        self.call_read = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)(f.read)

    # --- the driver ---

    def run(self, stream: int | None, operation: Operation) -> None:
        captured = self.capturing.get(stream or 0)
        if captured is None:
            self.ran.append((stream or 0, operation))
        else:
            captured.append([self.library.fresh("node"), operation])

    def context(self, place: Any) -> None:
        place[0] = CONTEXT

    def create(self, place: Any, flags: int) -> None:
        assert flags == 0
        place[0] = self.library.fresh("graph")
        self.graphs[place[0]] = []

    def destroy(self, graph: int) -> None:
        for node, _ in self.graphs.pop(graph):
            del self.library.alive[node]

    def add(self, place: Any, graph: int, before: Any, count: int, operation: Any) -> None:
        nodes = self.graphs[graph]
        assert [before[k] for k in range(count)] == [n for n, _ in nodes[-1:]]
        place[0] = self.library.fresh("node")
        nodes.append([place[0], operation])

    def add_kernel(self, place, graph, before, count, launch):
        self.add(place, graph, before, count, self.operation(launch[0]))

    def set_together(self, node, attribute, value):
        assert (attribute, value[0].cooperative) == (2, 1)
        for nodes in self.graphs.values():
            for entry in nodes:
                if entry[0] == node:
                    entry[1] = ("together", *entry[1][1:])

    def operation(self, launch: KernelNode) -> Operation:
        return ("launch", launch.function, (*launch.grid, *launch.block, launch.shared),
                arguments_of(launch.parameters, launch.function))

    def add_copy(self, place, graph, before, count, copy, context):
        assert (context, copy[0].from_kind, copy[0].to_kind, copy[0].height, copy[0].depth) == (CONTEXT, 2, 2, 1, 1)
        self.add(place, graph, before, count, ("copy", copy[0].target, copy[0].source, copy[0].bytes))

    def add_child(self, place, graph, before, count, child):
        self.add(place, graph, before, count, [operation for _, operation in self.graphs[child]])

    def instantiate(self, place, graph, flags):
        assert flags == 0
        place[0] = self.library.fresh("executable")
        self.executables[place[0]] = dict(self.graphs[graph])

    def update(self, name: str, executable: int, node: int, operation: Any) -> int:
        code = self.refused.get(name, 0)
        if not code:
            assert node in self.executables[executable]
            self.executables[executable][node] = operation
        return code

    def set_kernel(self, executable, node, launch):
        kind = self.executables[executable][node][0]
        return self.update("kernel", executable, node, (kind, *self.operation(launch[0])[1:]))

    def set_copy(self, executable, node, copy, context):
        return self.update("copy", executable, node, ("copy", copy[0].target, copy[0].source, copy[0].bytes))

    def set_child(self, executable, node, child):
        return self.update("child", executable, node, [operation for _, operation in self.graphs[child]])

    def launch_graph(self, executable, stream):
        self.replays(stream, self.executables[executable].values())

    def replays(self, stream: int | None, operations: Any) -> None:
        """Run what a graph holds."""
        for operation in operations:
            if isinstance(operation, list):
                self.replays(stream, operation)
            else:
                self.replay(stream, operation)

    def replay(self, stream: int | None, operation: Operation) -> None:
        """Run one operation of a graph."""
        self.ran.append((stream or 0, operation))

    def argument(self, kernel, index, offset, size):
        if index >= len(KERNELS[kernel]):
            return 1
        size[0] = KERNELS[kernel][index]
        return 0

    def begin_capture(self, stream, mode):
        assert mode == 2
        assert stream in self.library.alive
        self.capturing[stream] = []

    def end_capture(self, stream, place):
        place[0] = self.library.fresh("graph")
        self.graphs[place[0]] = self.capturing.pop(stream)

    # --- what the host function would call without graphs ---

    def launch(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        self.run(stream, ("launch", kernel, (gx, gy, gz, bx, by, bz, shared), arguments_of(arguments, kernel)))
        return 0

    def together(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        self.run(stream, ("together", kernel, (gx, gy, gz, bx, by, bz, shared), arguments_of(arguments, kernel)))
        return 0

    def raw_matmul(self, stream, words):
        self.run(stream, ("matmul", *(c_int64 * 20).from_address(words)))
        return 0

    def raw_copy(self, to, source, size, stream):
        self.run(stream, ("copy", to, source, size))
        return 0

    def raw_read(self, host, device, size, stream):
        self.run(stream, ("read", device, size))
        ctypes.memmove(host, device.to_bytes(8, "little"), size)
        return 0

    # --- what multiplies matrices ---

    def prepare(self, stream, call):
        assert not self.capturing
        self.prepared.append((stream, *call))

    def matmul(self, stream, call, owner=None):
        if self.fails is not None:
            raise self.fails
        assert (owner, *call) in self.prepared
        self.run(stream, ("matmul", *call))

    # --- calls of a host function ---

    def perform(self, state: int, operation: Operation) -> int:
        """Call what stands for an operation, as generated code does."""
        kind = operation[0]
        if kind in ("launch", "together"):
            call = self.call_launch if kind == "launch" else self.call_together
            _, kernel, grid, arguments = operation
            values = [ctypes.create_string_buffer(a, max(8, len(a))) for a in arguments]
            places = (c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
            return call(kernel, *grid, state, ctypes.addressof(places), None)
        if kind == "matmul":
            words = (c_int64 * 20)(*operation[1:])
            return self.call_matmul(state, ctypes.addressof(words))
        if kind == "copy":
            return self.call_copy(*operation[1:], state)
        host = c_int64()
        status = self.call_read(ctypes.addressof(host), *operation[1:], state)
        assert status or host.value == operation[1]
        return status


def error(code: int) -> CudaError:
    return CudaError("cublasLtMatmul", code, "CUBLAS_STATUS_EXECUTION_FAILED")
