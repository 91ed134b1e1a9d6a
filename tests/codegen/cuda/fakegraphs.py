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
KERNELS = {0x100: (8, 4), 0x200: (8, 8, 8, 2), 0x300: (), 0x400: (8,), 0x500: (4, 160), 0x600: (8, 8)}
#: the kernels of a product whose arguments can be seen: one has all its words, and what follows adds up to c
MULTIPLY, ADD_UP = 0x500, 0x600
CONTEXT = 0xC0
Operation = tuple[Any, ...]


def arguments_of(places: Any, kernel: int) -> tuple[bytes, ...]:
    pointers = ctypes.cast(places, ctypes.POINTER(c_void_p))
    return tuple([ctypes.string_at(pointers[k], size) for k, size in enumerate(KERNELS[kernel])])


class FakeGraphs:
    """`ran`: the operations in the order in which the device would run them, with their stream.

    Attributes:
        refused: codes with which the next updates of nodes fail, by the function's name.
        seen: how the arguments of a product's kernels are given: "parameters", "buffer", or as something unknown.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[int, Operation]] = []
        self.graphs: dict[int, list[list[Any]]] = {}      # graph -> [node, operation]
        self.executables: dict[int, dict[int, Any]] = {}  # executable -> node -> operation
        self.capturing: dict[int, list[list[Any]]] = {}
        self.refused: dict[str, int] = {}
        self.seen = ""
        self.inner: dict[int, int] = {}  # child node -> its graph
        self._given: list[Any] = []
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
            "cuGraphGetNodes": self.nodes, "cuGraphNodeGetType": self.type,
            "cuGraphKernelNodeGetParams_v2": self.parameters,
            "cuGraphChildGraphNodeGetGraph": lambda node, place: place.__setitem__(0, self.inner[node]),
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
            if node in self.inner:
                self.destroy(self.inner.pop(node))

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

    def nodes(self, graph, places, count):
        if places and not count[0]:
            return 1
        for k, (node, _) in enumerate(self.graphs[graph] if places else ()):
            places[k] = node
        count[0] = len(self.graphs[graph])
        return 0

    def found(self, node: int) -> Operation:
        (operation,) = [o for nodes in self.graphs.values() for n, o in nodes if n == node]
        return operation

    def type(self, node, place):
        place[0] = 0 if self.found(node)[0] in ("launch", "together") else 2

    def parameters(self, node, place):
        _, kernel, grid, arguments = self.found(node)
        launch = place[0]
        launch.function, launch.grid[:], launch.block[:], launch.shared = kernel, grid[:3], grid[3:6], grid[6]
        if self.seen == "buffer":
            whole = ctypes.create_string_buffer(b"".join(a.ljust(8, b"\0") for a in arguments))
            size = c_size_t(len(whole) - 1)
            listed = (c_void_p * 5)(1, ctypes.addressof(whole), 2, ctypes.addressof(size), None)
            launch.parameters, launch.extra = None, ctypes.addressof(listed)
        else:
            values = [ctypes.create_string_buffer(a, max(8, len(a))) for a in arguments]
            whole = size = values
            listed = (c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
            launch.parameters, launch.extra = ctypes.addressof(listed), None
        self._given += [whole, size, listed]

    def operation(self, launch: KernelNode) -> Operation:
        if launch.parameters is None:
            listed = ctypes.cast(launch.extra, ctypes.POINTER(c_void_p))
            whole = ctypes.string_at(listed[1], c_size_t.from_address(listed[3]).value)
            arguments, begin = [], 0
            for size in KERNELS[launch.function]:
                arguments.append(whole[begin:begin + size])
                begin += max(8, size)
            return ("launch", launch.function, (*launch.grid, *launch.block, launch.shared), tuple(arguments))
        return ("launch", launch.function, (*launch.grid, *launch.block, launch.shared),
                arguments_of(launch.parameters, launch.function))

    def add_copy(self, place, graph, before, count, copy, context):
        assert (context, copy[0].from_kind, copy[0].to_kind, copy[0].height, copy[0].depth) == (CONTEXT, 2, 2, 1, 1)
        self.add(place, graph, before, count, ("copy", copy[0].target, copy[0].source, copy[0].bytes))

    def add_child(self, place, graph, before, count, child):
        self.add(place, graph, before, count, None)
        self.inner[place[0]] = copy = self.library.fresh("node")
        self.graphs[copy] = [[self.library.fresh("node"), operation] for _, operation in self.graphs[child]]

    def instantiate(self, place, graph, flags):
        assert flags == 0
        place[0] = self.library.fresh("executable")
        self.executables[place[0]] = {n: dict(self.graphs[self.inner[n]]) if n in self.inner else o
                                      for n, o in self.graphs[graph]}

    def update(self, name: str, executable: int, node: int, operation: Any) -> int:
        code = self.refused.get(name, 0)
        if not code:
            self.holder(executable, node)[node] = operation
        return code

    def holder(self, executable: int, node: int) -> dict[int, Any]:
        """What has a node: the executable, or a child in it."""
        whole = self.executables[executable]
        (found,) = [d for d in (whole, *[d for d in whole.values() if isinstance(d, dict)]) if node in d]
        return found

    def set_kernel(self, executable, node, launch):
        kind = self.holder(executable, node)[node][0]
        return self.update("kernel", executable, node, (kind, *self.operation(launch[0])[1:]))

    def set_copy(self, executable, node, copy, context):
        return self.update("copy", executable, node, ("copy", copy[0].target, copy[0].source, copy[0].bytes))

    def set_child(self, executable, node, child):
        nodes, operations = self.executables[executable][node], [o for _, o in self.graphs[child]]
        if len(nodes) != len(operations):
            return 910
        new = dict(zip(nodes, operations, strict=True))
        return self.update("child", executable, node, new)

    def launch_graph(self, executable, stream):
        self.replays(stream, self.executables[executable].values())

    def replays(self, stream: int | None, operations: Any) -> None:
        """Run what a graph holds."""
        for operation in operations:
            if isinstance(operation, dict):
                self.replays(stream, operation.values())
            else:
                self.replay(stream, operation)

    def replay(self, stream: int | None, operation: Operation) -> None:
        """Run one operation of a graph."""
        if operation[0] == "launch" and operation[1] == MULTIPLY:
            operation = ("matmul", *(c_int64 * 20).from_buffer_copy(operation[3][1]))
        elif operation[0] == "launch" and operation[1] == ADD_UP:
            c = self.ran[-1][1][13]  # of the product before
            assert operation[3] == (c.to_bytes(8, "little"), (c + 64).to_bytes(8, "little"))
            return
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
        if not self.seen:
            self.run(stream, ("matmul", *call))
            return
        grid, c = (2, 1, 1, 128, 1, 1, 0), call[12]
        mixed = [x << 3 if self.seen == "shifted" and k == 10 else x for k, x in enumerate(call)]
        self.run(stream, ("launch", MULTIPLY, grid, (b"some", bytes((c_int64 * 20)(*mixed)))))
        self.run(stream, ("launch", ADD_UP, grid, (c.to_bytes(8, "little"), (c + 64).to_bytes(8, "little"))))

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
