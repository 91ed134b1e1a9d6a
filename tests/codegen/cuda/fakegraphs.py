"""A driver with graphs on the host: what runs on its streams is a list, in order."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from types import SimpleNamespace
from typing import Any

from jitgrad.codegen.cuda.driver.driverapi import COND_IF, COND_WHILE, NODE_CONDITIONAL, DriverApi, KernelNode
from jitgrad.codegen.cuda.driver.libraries import CudaError
from jitgrad.codegen.cuda.graphs.shared import Graphs
from tests.codegen.cuda.fakecuda import FakeLibrary, fake_driver

#: bytes of the arguments of the kernels that there are
KERNELS = {0x100: (8, 4), 0x200: (8, 8, 8, 2), 0x300: (), 0x400: (8,)}
#: and of those that loops need
DECIDE, COUNT = 0x1100, 0x1200
LOOPS = {DECIDE: (8, 8), COUNT: (8, 8)}
CONTEXT = 0xC0
Operation = tuple[Any, ...]


def arguments_of(places: Any, kernel: int) -> tuple[bytes, ...]:
    pointers = ctypes.cast(places, ctypes.POINTER(c_void_p))
    sizes = KERNELS.get(kernel) or LOOPS.get(kernel, ())
    return tuple([ctypes.string_at(pointers[k], size) for k, size in enumerate(sizes)])


class FakeGraphs:
    """`ran`: the operations in the order in which the device would run them, with their stream.

    Attributes:
        trips: by the place that loops ask, the iterations of each of them, in order. Asked, the first has one less.
        asked: how often the host waited for such a place.
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
        self.trips: dict[int, list[int]] = {}
        self.asked = 0
        self.broken = ""  # which of the driver's functions fails
        self.conditions: dict[int, int] = {}
        self.defaults: dict[int, int] = {}
        self.told = ctypes.CFUNCTYPE(None, c_uint64, c_uint)(self.conditions.__setitem__)
        self.memory: dict[int, Any] = {}
        self.bodies: list[Any] = []
        self.library: FakeLibrary = fake_driver({
            "cuCtxGetCurrent": self.context, "cuGraphCreate": self.create, "cuGraphDestroy": self.destroy,
            "cuGraphAddKernelNode_v2": self.add_kernel,
            "cuGraphKernelNodeSetAttribute": self.set_together, "cuGraphAddMemcpyNode": self.add_copy,
            "cuGraphAddChildGraphNode": self.add_child, "cuGraphInstantiateWithFlags": self.instantiate,
            "cuGraphExecDestroy": lambda executable: self.executables.pop(executable) and None,
            "cuGraphExecKernelNodeSetParams_v2": self.set_kernel, "cuGraphExecMemcpyNodeSetParams": self.set_copy,
            "cuGraphExecChildGraphNodeSetParams": self.set_child, "cuGraphLaunch": self.launch_graph,
            "cuGraphConditionalHandleCreate": self.condition, "cuGraphAddNode_v2": self.add_conditional,
            "cuMemsetD8Async": self.fill, "cuFuncGetParamInfo": self.argument,
            "cuStreamBeginCapture_v2": self.begin_capture,
            "cuStreamEndCapture": self.end_capture, "cuStreamSynchronize": lambda stream: self.waits.append(stream)})
        self.api = DriverApi(self.library)
        types = (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p)
        self._kept = [ctypes.CFUNCTYPE(c_int, *types)(self.launch), ctypes.CFUNCTYPE(c_int, *types)(self.together),
                      ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self.raw_matmul),
                      ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_size_t, c_void_p)(self.raw_copy),
                      ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)(self.raw_read)]
        launch, together, matmul, copy, read = [ctypes.cast(f, c_void_p).value or 0 for f in self._kept]
        self.shared = Graphs(self.api, lambda: self, launch=launch, together=together, matmul=matmul, copy=copy,
                             read=read, load=self.load, allocate=self.allocate)
        f = self.shared.functions
        self.call_launch = ctypes.CFUNCTYPE(c_int, *types)(f.launch)
        self.call_together = ctypes.CFUNCTYPE(c_int, *types)(f.together)
        self.call_matmul = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(f.matmul)
        self.call_copy = ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_size_t, c_void_p)(f.copy)
        self.call_read, self.call_repeat = [
            ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)(g) for g in (f.read, f.repeat)]

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
        for node, operation in self.graphs.pop(graph):
            del self.library.alive[node]
            if operation[:1] == ("conditional",):
                for body in operation[3]:
                    self.destroy(body)
                    del self.library.alive[body]

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
        self.conditions.update(self.defaults)
        self.replays(stream, self.executables[executable].values())

    def replays(self, stream: int | None, operations: Any) -> None:
        """Run what a graph holds."""
        for operation in operations:
            if isinstance(operation, list):
                self.replays(stream, operation)
            elif operation[0] == "conditional":
                _, kind, handle, bodies = operation
                chosen = 0 if self.conditions[handle] else 1
                while kind == COND_WHILE and self.conditions[handle]:
                    self.replays(stream, [o for _, o in self.graphs[bodies[0]]])
                if kind == COND_IF and chosen < len(bodies):
                    self.replays(stream, [o for _, o in self.graphs[bodies[chosen]]])
            else:
                self.replay(stream, operation)

    def replay(self, stream: int | None, operation: Operation) -> None:
        """Run one operation of a graph."""
        if operation[0] != "launch" or operation[1] not in LOOPS:
            self.ran.append((stream or 0, operation))
            return
        first, second = [int.from_bytes(a, "little") for a in operation[3]]
        if operation[1] == DECIDE:
            self.conditions[second] = self.ask(first) if first in self.trips else c_int64.from_address(first).value
        else:
            c_int64.from_address(first).value -= 1
            c_int64.from_address(second).value += 1

    def ask(self, place: int) -> int:
        """Whether a loop has another iteration."""
        trips = self.trips[place]
        if not trips[0]:
            return trips.pop(0)
        trips[0] -= 1
        return trips[0] + 1

    # --- loops ---

    def condition(self, place, graph, context, default, flags):
        assert (context, flags) == (CONTEXT, 1)
        assert graph in self.graphs
        place[0] = handle = self.library.fresh("condition")
        del self.library.alive[handle]
        self.defaults[handle] = default

    def add_conditional(self, place, graph, before, edges, count, node):
        assert (node[0].kind, edges) == (NODE_CONDITIONAL, None)
        of = node[0].of.conditional
        assert of.handle in self.defaults
        graphs = (c_void_p * of.size)(*[self.library.fresh("body") for _ in range(of.size)])
        for body in graphs:
            self.graphs[body] = []
        self.bodies.append(graphs)
        of.graphs = ctypes.cast(graphs, ctypes.POINTER(c_void_p))
        self.add(place, graph, before, count, ("conditional", of.kind, of.handle, list(graphs)))

    def load(self, source: str, names: Any) -> list[int]:
        assert list(names) == ["jg_decide", "jg_count"]
        return [DECIDE, COUNT]

    def allocate(self, size: int) -> Any:
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return SimpleNamespace(ptr=ctypes.addressof(block))

    def fill(self, to, value, size, stream):
        ctypes.memset(to, value, size)

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
        return 2 if self.broken == "launch" else 0

    def together(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        self.run(stream, ("together", kernel, (gx, gy, gz, bx, by, bz, shared), arguments_of(arguments, kernel)))
        return 2 if self.broken == "together" else 0

    def raw_matmul(self, stream, words):
        self.run(stream, ("matmul", *(c_int64 * 20).from_address(words)))
        return 0

    def raw_copy(self, to, source, size, stream):
        self.run(stream, ("copy", to, source, size))
        return 2 if self.broken == "copy" else 0

    def raw_read(self, host, device, size, stream):
        if self.broken == "read":
            return 2
        if device in self.memory:
            ctypes.memmove(host, device, size)
            return 0
        if device in self.trips:
            self.asked += 1
            ctypes.memmove(host, self.ask(device).to_bytes(8, "little"), size)
            return 0
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
        if kind == "loop":  # place, trips, body
            _, place, trips, body = operation
            self.trips.setdefault(place, []).append(trips)
            while not (status := self.call_repeat(ctypes.addressof(host), place, 8, state)) and host.value:
                for one in body:
                    if (status := self.perform(state, one)):
                        return status
            return status
        status = self.call_read(ctypes.addressof(host), *operation[1:], state)
        assert status or host.value == operation[1]
        return status


def error(code: int) -> CudaError:
    return CudaError("cublasLtMatmul", code, "CUBLAS_STATUS_EXECUTION_FAILED")
