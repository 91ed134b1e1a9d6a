"""Where the addresses of a product lie in the arguments of its kernels, which are a library's own.

    kernels = of_graph(api, sizes, graph)    # with their arguments as they are; None where not all nodes are kernels
    places = found(seen, words)              # per kernel: (offset in its arguments, word of the product)

Of a library's kernels nothing is known but the bytes of their arguments. A product is captured at addresses that are
moved, each by a distance of its own: what differs in the bytes by such a distance is that address, and a second capture
with other distances shows whether this foretells every byte. Capturing runs nothing, so the memory need not exist.
Where something else differs (another kernel, part of an address among other bits) there are no places: such a product
is captured again for other addresses. What was found holds for all addresses that are alike modulo `ALIKE`, for which
cuBLASLt's plan is the same.
"""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_void_p

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.driver.blaslt import Call
from jitgrad.codegen.cuda.driver.driverapi import BUFFER_POINTER, BUFFER_SIZE, KERNEL, DriverApi, KernelNode
from jitgrad.codegen.cuda.driver.libraries import CudaError

#: the words of a product that are addresses
ADDRESSES = tuple([Call._fields.index(name) for name in ("a", "b", "c", "bias", "aux")])
ALIKE = 256
ALIGNMENT = 64  # of arguments: tensor maps are as strictly aligned
#: how far each address is moved: the first capture tells which is which, the second whether that is so
MOVED = tuple([tuple([prime << 20 for prime in primes]) for primes in ((3, 5, 7, 11, 13), (17, 19, 23, 29, 31))])
Places = tuple[tuple[tuple[int, int], ...], ...]
Sizes = Callable[[int, bool], Sequence[int]]  # the bytes of each argument of a function, or of what is none yet


@dataclass(frozen=True)
class Kernel:
    """A kernel of a captured graph: its node, what launches it, the bytes of its arguments with where each begins."""

    node: int
    launch: KernelNode
    data: bytes
    offsets: tuple[int, ...]  # empty: the arguments are one buffer

    @property
    def identity(self) -> tuple[object, ...]:
        """What does not depend on the arguments."""
        launch = self.launch
        return launch.function, launch.kernel, *launch.grid, *launch.block, launch.shared, self.offsets, len(self.data)

    def copied(self) -> tuple[KernelNode, object, int]:
        """A launch with a copy of the arguments, what must live as long as it, and the address of the copy."""
        memory = ctypes.create_string_buffer(len(self.data) + ALIGNMENT)
        begin = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
        ctypes.memmove(begin, self.data, len(self.data))
        launch = KernelNode.from_buffer_copy(self.launch)
        if self.offsets:
            listed = (c_void_p * len(self.offsets))(*[begin + k for k in self.offsets])
            launch.parameters, launch.extra = ctypes.addressof(listed), None
            return launch, (memory, listed), begin
        size = c_size_t(len(self.data))
        listed = (c_void_p * 5)(BUFFER_POINTER, begin, BUFFER_SIZE, ctypes.addressof(size), None)
        launch.parameters, launch.extra = None, ctypes.addressof(listed)
        return launch, (memory, size, listed), begin


def _nodes(api: DriverApi, graph: int) -> list[int]:
    count = c_size_t()
    api.call("cuGraphGetNodes", graph, None, byref(count))
    if not count.value:  # the driver refuses a place for no nodes
        return []
    nodes = (c_void_p * count.value)()
    api.call("cuGraphGetNodes", graph, nodes, byref(count))
    return [nodes[k] or 0 for k in range(count.value)]


def _kernel(api: DriverApi, sizes: Sizes, node: int) -> Kernel:
    launch = KernelNode()
    api.call("cuGraphKernelNodeGetParams_v2", node, byref(launch))
    if launch.parameters:
        pointers = ctypes.cast(launch.parameters, ctypes.POINTER(c_void_p))
        data, offsets = b"", []
        for k, size in enumerate(sizes(launch.function or launch.kernel or 0, bool(launch.function))):
            offsets.append(len(data))
            data += ctypes.string_at(pointers[k] or 0, size).ljust(-(-size // 8) * 8, b"\0")
        return Kernel(node, launch, data, tuple(offsets))
    data = b""
    if launch.extra:
        listed = ctypes.cast(launch.extra, ctypes.POINTER(c_void_p))
        pairs = {listed[0]: listed[1], listed[2]: listed[3]}
        data = ctypes.string_at(pairs[BUFFER_POINTER] or 0, c_size_t.from_address(pairs[BUFFER_SIZE] or 0).value)
    return Kernel(node, launch, data, ())


def of_graph(api: DriverApi, sizes: Sizes, graph: int) -> list[Kernel] | None:
    """The kernels of a graph, in order; None where something else is in it, or arguments cannot be seen."""
    kernels = []
    for node in _nodes(api, graph):
        kind = c_int()
        api.call("cuGraphNodeGetType", node, byref(kind))
        if kind.value != KERNEL:
            return None
        kernels.append(_kernel(api, sizes, node))
        if not kernels[-1].data:
            return None
    return kernels


def inner(api: DriverApi, child: int) -> list[int]:
    """The nodes of the graph that a child node holds."""
    graph = c_void_p()
    api.call("cuGraphChildGraphNodeGetGraph", child, byref(graph))
    return _nodes(api, graph.value or 0)


def _words(kernel: Kernel) -> list[int]:
    return [int.from_bytes(kernel.data[k:k + 8], "little") for k in range(0, len(kernel.data), 8)]


def found(seen: Callable[[Sequence[int]], list[Kernel] | None], words: Sequence[int]) -> Places | None:
    """Where each kernel of a product has which of its addresses; None where that cannot be told.

    `seen` gives the kernels of a product of these words.
    """
    moves = [{w: d for w, d in zip(ADDRESSES, by, strict=True) if words[w]} for by in MOVED]
    captures: list[list[Kernel]] = []
    for by in ({}, *moves):
        try:
            kernels = seen([x + by.get(w, 0) for w, x in enumerate(words)])
        except CudaError:  # it looks at the memory
            return None
        if kernels is None or (captures and [k.identity for k in kernels] != [k.identity for k in captures[0]]):
            return None
        captures.append(kernels)
    places: list[tuple[tuple[int, int], ...]] = []
    for same in zip(*captures, strict=True):
        here: list[tuple[int, int]] = []
        for position, (at, first, second) in enumerate(zip(*map(_words, same), strict=True)):
            if at == first == second:
                continue
            word = next((w for w in moves[0] if (first - at, second - at) == (moves[0][w], moves[1][w])), None)
            if word is None:
                return None
            here.append((8 * position, word))
        places.append(tuple(here))
    return tuple(places)
