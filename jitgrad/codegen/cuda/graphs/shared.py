"""What the graphs of a device share: its driver's functions, sizes of arguments, products as graphs of their own."""

import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_size_t

from jitgrad.codegen.cuda.driver.blaslt import BlasLt, Call
from jitgrad.codegen.cuda.driver.driverapi import INVALID_VALUE, NON_BLOCKING, DriverApi
from jitgrad.codegen.cuda.graphs import replaying
from jitgrad.codegen.cuda.graphs.graphs import captured


class Graphs:
    """What the replays of a device share.

    Attributes:
        driver: addresses of what the driver has (`driver.py`): launch, together, matmul, copy, read.
        products: gives what multiplies matrices, whose library is loaded at the first product.
        functions: what a host function calls instead.
    """

    def __init__(self, api: DriverApi, products: Callable[[], BlasLt], **driver: int):
        self.api, self.products, self.driver = api, products, driver
        self.functions = replaying.functions()
        self.update = api.address("cuGraphExecKernelNodeSetParams_v2")
        self.context = api.made("cuCtxGetCurrent")
        self._sizes: dict[int, tuple[int, ...]] = {}
        self._stream = 0
        self._capturing = threading.Lock()  # one stream is captured by one thread

    def sizes(self, kernel: int) -> tuple[int, ...]:
        """The bytes of each argument of a kernel. LibraryError where the driver cannot tell (before CUDA 12.4)."""
        found = self._sizes.get(kernel)
        if found is None:
            offset, size = c_size_t(), c_size_t()
            sizes: list[int] = []
            while not (code := self.api.code("cuFuncGetParamInfo", kernel, len(sizes), byref(offset), byref(size))):
                sizes.append(size.value)
            if code != INVALID_VALUE:
                raise self.api.error("cuFuncGetParamInfo", code)
            found = self._sizes[kernel] = tuple(sizes)
        return found

    def product(self, words: Sequence[int], owner: int) -> int:
        """The graph of a product alone."""
        call = Call(*words)
        self.products().prepare(owner, call)  # heuristics and allocation: not while capturing
        with self._capturing:
            if not self._stream:
                self._stream = self.api.made("cuStreamCreate", NON_BLOCKING)
            return captured(self.api, self._stream, lambda stream: self.products().matmul(stream, call, owner))

    def close(self) -> None:
        """Give the stream back."""
        if self._stream:
            self.api.call("cuStreamDestroy_v2", self._stream)
            self._stream = 0
