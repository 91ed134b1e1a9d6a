"""A graph of some calls of a host function, and the calls as it has them, which `replaying.py` compares with others.

    variant = Variant(graphs, records, stream)
    variant.change(i, record)                      # a call of the same identity
    variant.executable.launch(stream)
"""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int64, c_void_p
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.driver.blaslt import WORDS
from jitgrad.codegen.cuda.driver.driverapi import KernelNode
from jitgrad.codegen.cuda.graphs import products
from jitgrad.codegen.cuda.graphs.graphs import Builder, Executable, linear_copy
from jitgrad.codegen.cuda.graphs.replaying import CANNOT, COPY, LAUNCH, PRODUCT, TOGETHER, Moving, Node, Place
from jitgrad.codegen.cuda.graphs.shared import Graphs

LAUNCHES = (LAUNCH, TOGETHER)


@dataclass(frozen=True, slots=True)
class Record:
    """One call: a launch of either kind (`kernel`, `grid`: blocks, threads, shared bytes, `arguments`), or the words of
    another.
    """

    kind: int
    kernel: int = 0
    grid: tuple[int, ...] = ()
    arguments: tuple[bytes, ...] = ()
    words: tuple[int, ...] = ()

    @property
    def identity(self) -> tuple[Any, ...]:
        """What cannot be changed in a graph."""
        if self.kind in LAUNCHES:
            return self.kind, self.kernel
        return (PRODUCT, *self.words[:10], *self.words[13:18]) if self.kind == PRODUCT else (COPY,)


class Variant:
    """A graph of some calls, and the calls as it has them, in the memory that `replaying.py` compares with."""

    def __init__(self, graphs: Graphs, records: Sequence[Record], stream: int):
        self.graphs, self.stream = graphs, stream
        self.identities = [r.identity for r in records]
        self.after: Variant | None = None  # which one followed last
        self.nodes = (Node * len(records))()
        self._kept: list[Any] = []  # what the nodes point to
        self._moving: dict[int, list[Any]] = {}  # likewise, by product
        builder = Builder(graphs.api, graphs.context)
        try:
            self._build(builder, records)
        except BaseException:
            builder.discard()
            raise
        self.executable: Executable = builder.instantiate()

    def _build(self, builder: Builder, records: Sequence[Record]) -> None:
        for node, record in zip(self.nodes, records, strict=True):
            node.kind = record.kind
            if record.kind in LAUNCHES:
                self._launch(node, record)
                node.node = builder.kernel(node.launch, together=record.kind == TOGETHER)
            else:
                self._kept.append((c_int64 * len(record.words))(*record.words))
                node.words = ctypes.addressof(self._kept[-1])
                if record.kind == COPY:
                    node.node = builder.copy(*record.words)
                else:
                    child = self.graphs.product(record.words, self.stream)
                    kernels = self.graphs.kernels(child)
                    node.node = builder.child(child)
                    self._movable(node, record.words, kernels)

    def _movable(self, node: Node, words: Sequence[int], kernels: Sequence[products.Kernel] | None) -> None:
        """Tell `replaying.py` where the kernels of a product, as they are now, have its addresses."""
        places = self.graphs.places(words, self.stream) if kernels else None
        if places is None or not kernels:  # as of products of nothing, which have none
            node.known = 0
            return
        moving = (Moving * len(kernels))()
        alive: list[Any] = [moving]
        for told, kernel, here, handle in zip(moving, kernels, places, products.inner(self.graphs.api, node.node),
                                              strict=True):
            told.launch, kept, begin = kernel.copied()
            listed = (Place * max(1, len(here)))(*[Place(begin + offset, word) for offset, word in here])
            told.node, told.places, told.count = handle, ctypes.addressof(listed), len(here)
            alive += [kept, listed]
        self._moving[node.node] = alive
        node.kernels, node.known = ctypes.addressof(moving), len(kernels)

    def _launch(self, node: Node, record: Record) -> None:
        count = len(record.arguments)
        values = [ctypes.create_string_buffer(a, max(8, len(a))) for a in record.arguments]
        places = (c_void_p * max(1, count))(*[ctypes.addressof(v) for v in values])
        sizes = (c_int64 * max(1, count))(*[len(a) for a in record.arguments])
        self._kept += [*values, places, sizes]
        node.launch.function, node.launch.parameters = record.kernel, ctypes.addressof(places)
        set_grid(node.launch, record.grid)
        node.count, node.sizes = count, ctypes.addressof(sizes)

    def record(self, i: int) -> Record:
        """Call `i` as the graph has it."""
        node = self.nodes[i]
        if node.kind in LAUNCHES:
            return launch_record(node.launch, self.graphs.sizes(node.launch.function), node.kind)
        return Record(node.kind, words=words_at(node.kind, node.words))

    def change(self, i: int, record: Record) -> None:
        """Make call `i`, of the same identity, what `record` says. CudaError where the graph cannot be changed."""
        if self.record(i) == record:
            return
        node, api, handle = self.nodes[i], self.graphs.api, self.executable.handle
        if record.kind in LAUNCHES:
            places = ctypes.cast(node.launch.parameters, ctypes.POINTER(c_void_p))
            for k, value in enumerate(record.arguments):
                ctypes.memmove(places[k], value, len(value))
            set_grid(node.launch, record.grid)
            api.call("cuGraphExecKernelNodeSetParams_v2", handle, node.node, byref(node.launch))
            return
        if record.kind == COPY:
            api.call("cuGraphExecMemcpyNodeSetParams", handle, node.node, byref(linear_copy(*record.words)),
                     self.graphs.context)
        else:
            words = (c_int64 * len(record.words))(*record.words)
            code = self.graphs.moved(handle, byref(node), words, self.graphs.update)
            if code > 0:
                raise api.error("cuGraphExecKernelNodeSetParams_v2", code)
            if code == CANNOT:
                self._replace(node, record.words)
            return
        (c_int64 * len(record.words)).from_address(node.words)[:] = list(record.words)


    def _replace(self, node: Node, words: Sequence[int]) -> None:
        """Put a product that was captured anew in the place of another."""
        child = self.graphs.product(words, self.stream)
        try:
            self.graphs.api.call("cuGraphExecChildGraphNodeSetParams", self.executable.handle, node.node, child)
            kernels = self.graphs.kernels(child)
        finally:
            self.graphs.api.call("cuGraphDestroy", child)
        (c_int64 * len(words)).from_address(node.words)[:] = list(words)
        self._movable(node, words, kernels)


def set_grid(launch: KernelNode, grid: Sequence[int]) -> None:
    """Blocks, threads and bytes of shared memory of a launch."""
    launch.grid[:], launch.block[:], launch.shared = list(grid[:3]), list(grid[3:6]), grid[6]


def words_at(kind: int, address: int) -> tuple[int, ...]:
    """The words of a product or a copy."""
    return tuple((c_int64 * (WORDS if kind == PRODUCT else 3)).from_address(address))


def launch_record(launch: KernelNode, sizes: Sequence[int], kind: int) -> Record:
    """A launch and its arguments, of these sizes."""
    places = ctypes.cast(launch.parameters, ctypes.POINTER(c_void_p))
    arguments = tuple([ctypes.string_at(places[k] or 0, size) for k, size in enumerate(sizes)])
    return Record(kind, launch.function or 0, (*launch.grid, *launch.block, launch.shared), arguments)
