"""What the graphs of a device share: its driver's functions, sizes of arguments, products as graphs of their own."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_size_t

from jitgrad.codegen.cuda.driver import precision
from jitgrad.codegen.cuda.driver.blaslt import BlasLt, Call
from jitgrad.codegen.cuda.driver.driverapi import INVALID_VALUE, NON_BLOCKING, DriverApi
from jitgrad.codegen.cuda.graphs import products, replaying
from jitgrad.codegen.cuda.graphs.graphs import captured


class Graphs:
    """What the replays of a device share.

    Attributes:
        driver: addresses of what the driver has (`driver.py`): launch, together, matmul, copy, read.
        blas: gives what multiplies matrices, whose library is loaded at the first product.
        functions: what a host function calls instead.
    """

    def __init__(self, api: DriverApi, blas: Callable[[], BlasLt], **driver: int):
        self.api, self.blas, self.driver = api, blas, driver
        self.functions = replaying.functions()
        self.update = api.address("cuGraphExecKernelNodeSetParams_v2")
        self.moved = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(self.functions.moved)
        self.context = api.made("cuCtxGetCurrent")
        self._sizes: dict[int, tuple[int, ...]] = {}
        self._places: dict[tuple[int, ...], products.Places | None] = {}
        self._stream = 0
        self._capturing = threading.Lock()  # one stream is captured by one thread

    def sizes(self, kernel: int, is_function: bool = True) -> tuple[int, ...]:
        """The bytes of each argument of a kernel. LibraryError where the driver cannot tell (before CUDA 12.4)."""
        found = self._sizes.get(kernel)
        if found is None:
            asked = "cuFuncGetParamInfo" if is_function else "cuKernelGetParamInfo"
            offset, size = c_size_t(), c_size_t()
            sizes: list[int] = []
            while not (code := self.api.code(asked, kernel, len(sizes), byref(offset), byref(size))):
                sizes.append(size.value)
            if code != INVALID_VALUE:
                raise self.api.error(asked, code)
            found = self._sizes[kernel] = tuple(sizes)
        return found

    def places(self, words: Sequence[int], owner: int) -> products.Places | None:
        """Where a product's kernels have its addresses (`products.py`), remembered for those that are alike."""
        fixed = [x & (products.ALIKE - 1) if w in products.ADDRESSES else x for w, x in enumerate(words)]
        key = (*fixed, *[bool(words[w]) for w in products.ADDRESSES], precision.allow_tf32)
        if key not in self._places:
            self._places[key] = products.found(lambda moved: self._seen(moved, owner), words)
        return self._places[key]

    def kernels(self, graph: int) -> list[products.Kernel] | None:
        """The kernels of a captured graph; None where something else is in it."""
        return products.of_graph(self.api, self.sizes, graph)

    def _seen(self, words: Sequence[int], owner: int) -> list[products.Kernel] | None:
        graph = self.product(words, owner)
        try:
            return self.kernels(graph)
        finally:
            self.api.call("cuGraphDestroy", graph)

    def product(self, words: Sequence[int], owner: int) -> int:
        """The graph of a product alone."""
        call = Call(*words)
        self.blas().prepare(owner, call)  # heuristics and allocation: not while capturing
        with self._capturing:
            if not self._stream:
                self._stream = self.api.made("cuStreamCreate", NON_BLOCKING)
            return captured(self.api, self._stream, lambda stream: self.blas().matmul(stream, call, owner))

    def close(self) -> None:
        """Give the stream back."""
        if self._stream:
            self.api.call("cuStreamDestroy_v2", self._stream)
            self._stream = 0
