"""The driver of a real GPU: CuPy's arrays, memory pool, streams and modules, NVRTC's code, cuBLASLt's products.

    driver = cudadriver.of_device(0)

Launches and copies on the device are the CUDA driver's own functions. `read` is two of its calls, made native; `matmul`
is Python, for cuBLASLt is loaded at the first product. Each thread that asks for the stream, loads kernels or makes
graphs is given the device's context first, which is what the driver's functions work in (CuPy's, the primary one).

Machine code is loaded as `cupy.RawModule`s, whose functions' handles the launcher keeps. It stays loaded as long as the
process lives; equal texts are loaded once.
"""

import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_int, c_void_p
from functools import cache
from typing import Any

import numpy as np

from jitgrad.classes import cached_property
from jitgrad.codegen.cuda.driver import driverapi, libraries
from jitgrad.codegen.cuda.driver.blaslt import BlasLt
from jitgrad.codegen.cuda.driver.driver import Driver
from jitgrad.codegen.cuda.driver.driverapi import PROCESSORS, SHARED_OPTIN, DriverApi
from jitgrad.codegen.cuda.driver.libraries import FAILED, LibraryError, Symbols
from jitgrad.codegen.cuda.driver.rawkernels import raw_kernels
from jitgrad.codegen.cuda.driver.stopping import NOT_READY, Stops
from jitgrad.codegen.cuda.graphs.shared import Graphs
from jitgrad.codegen.cuda.kernels.geometry import STATIC
from jitgrad.codegen.llvm import engine
from jitgrad.cuda.streams import followed
from jitgrad.device import patient
from jitgrad.dtypes import dtype
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

#: how often a stream is asked whether its work is done before Python asks
OFTEN = 1000

LIBRARY = Library()


@LIBRARY.function("i32", host="ptr", device="i64", size="i64", stream="ptr")
def jg_cuda_read_and_wait(f: Native, host: V, device: V, size: V, stream: V) -> V:
    with f.when(f.load(V(f, "@jg_patient", "ptr", 1)).ne(0)):  # there are kernels that may never end
        asked = f.variable(f.number(0))
        with f.loop() as leave:
            with f.when(f.call("cuStreamQuery", "i32", 1, stream).ne(NOT_READY)):
                leave()
            asked.value = asked.value + 1
            with f.when(asked.value > OFTEN):
                status = f.call("jg_cuda_await", "i32", 1, stream)
                with f.when(status.ne(0)):
                    f.leave(status)
    copied = f.call("cuMemcpyDtoHAsync_v2", "i32", 1, host, device, size, stream)
    with f.when(copied.ne(0)):
        f.leave(copied)
    return f.call("cuStreamSynchronize", "i32", 1, stream)


class CudaDriver(Driver):
    """`driver.Driver` on one GPU. `api`, `blas` and `xp` are other than the machine's in tests only.

    Raises:
        LibraryError: a library is missing; the text names what to install. CudaError: the driver cannot work.
    """

    def __init__(self, device: int = 0, xp: Any = None, api: DriverApi | None = None, blas: Symbols | None = None):
        self.xp = libraries.cupy() if xp is None else xp
        self.api = driverapi.driver() if api is None else api
        self.device, self._blas = device, blas
        self.name = f"cuda:{device}"
        self._threads = threading.local()
        self._here()
        handle = self.api.made("cuDeviceGet", device)
        self.arch = self.api.arch(handle)
        self.processors = self.api.attribute(PROCESSORS, handle)
        self.shared = self.api.attribute(SHARED_OPTIN, handle) - STATIC
        self.rows: Any = None
        self.several = False
        self._loaded: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
        self._lock = threading.Lock()
        self._await = ctypes.CFUNCTYPE(c_int, c_void_p)(self._awaited)
        called = ("cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamQuery")
        self._code = engine.load(engine.compile_module(f"{LIBRARY.text()}\n@jg_patient = global i64 0"), {
            **{n: self.api.address(n) for n in called},
            "jg_cuda_await": ctypes.cast(self._await, c_void_p).value or 0}, ["jg_patient"])
        self._product = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self._multiplied)
        self.launch = self.api.address("cuLaunchKernel")
        self.together = self.api.address("cuLaunchCooperativeKernel")
        self.copy = self.api.address("cuMemcpyDtoDAsync_v2")
        self.read = self._code.address("jg_cuda_read_and_wait")
        self.matmul: int = ctypes.cast(self._product, c_void_p).value or 0

    def on(self) -> Any:
        return self.xp.cuda.Device(self.device)

    def _here(self) -> None:
        """Make the device's context this thread's, and start it if it is not there."""
        if not getattr(self._threads, "bound", False):
            with self.xp.cuda.Device(self.device):
                self.xp.cuda.runtime.free(0)
            self._threads.bound = True

    def stream(self) -> int:
        self._here()
        return followed(self.xp.cuda.get_current_stream())

    # --- kernels ---

    def load(self, source: str, names: Sequence[str]) -> list[int]:
        """Compile a text of kernels (from the disk cache if it is there) and load it; a handle for each name.

        Raises:
            CompileError: the text is not CUDA C++. RuntimeError, CuPy's: it cannot be loaded.
        """
        self._here()
        key = source, tuple(names)
        if self.has_loops and key not in self._loaded:
            self.wait(None)  # the driver loads nothing while a kernel runs: for ever, if that never ends
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                with self.on():
                    kernels = raw_kernels(source, self.xp, self.arch)
                    found = self._loaded[key] = [kernels[name] for name in names]
                    for kernel in found:  # may have all the shared memory that a block can have
                        kernel.max_dynamic_shared_size_bytes = self.shared + STATIC - kernel.shared_size_bytes
            with self.on():
                return [kernel.kernel.ptr for kernel in found]

    # --- kernels with loops ---

    @cached_property
    def stops(self) -> Stops:
        """The words by which such kernels are told to stop."""
        patient[self.device] = self.wait
        ctypes.c_int64.from_address(self._code.address("jg_patient")).value = 1
        return Stops(self.api, self.allocate)

    def stop_word(self, stream: int) -> int:
        self._here()
        return self.stops.word(stream)

    def wait(self, stream: int | None) -> None:
        self._here()
        self.stops.wait(stream)

    def _awaited(self, stream: int | None) -> int:
        try:
            self.wait(stream or 0)
            return 0
        except BaseException as error:
            return libraries.failed(error)

    def resident(self, kernel: int, threads: int) -> int:
        self._here()
        return self.processors * self.api.made("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, 0)

    # --- products and graphs ---

    @cached_property
    def lt(self) -> BlasLt:
        """cuBLASLt, loaded when first asked for. LibraryError where it is not installed."""
        self._here()
        return BlasLt(self._blas or libraries.load("cublasLt"), self.api, self.allocate, self.load)

    @cached_property
    def graphs(self) -> Graphs:
        """What replays host functions as CUDA graphs."""
        self._here()  # whose graphs they are
        return Graphs(self.api, lambda: self.lt, launch=self.launch, together=self.together, matmul=self.matmul,
                      copy=self.copy, read=self.read)

    def _multiplied(self, stream: int | None, words: int) -> int:
        try:
            self.lt.called(stream or 0, words)
            return 0
        except BaseException as error:
            return libraries.failed(error)

    def error(self, status: int) -> Exception:
        """The exception for what a function returned, as a number of 32 or 64 bits."""
        code = ctypes.c_int32(status).value
        if code != FAILED:
            return self.api.error("CUDA", code)
        failure = libraries.failure() or LibraryError("a call of CUDA failed")
        if not isinstance(failure, Exception):  # an interrupt: it is raised as what it is
            raise failure
        return failure

    # --- memory and arrays ---

    def allocate(self, size: int) -> Any:
        """Memory of CuPy's pool, with `ptr`; back in the pool when it is dropped. MemoryError."""
        return self.xp.cuda.alloc(max(1, size))

    def clear(self, block: Any, size: int) -> None:
        self.api.call("cuMemsetD8Async", block.ptr, 0, size, self.stream())

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        return self.xp.ndarray(shape, d)

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> Any:
        item = d.itemsize
        first, extent, places = 0, int(np.prod(shape, dtype=np.int64)), None
        if strides is not None:
            places = tuple([s * item for s in strides])
            if extent:
                reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
                first = -sum(r for r in reach if r < 0)  # how many elements lie before the one that is first in order
                extent = 1 + sum(map(abs, reach))
        memory = self.xp.cuda.UnownedMemory(address - first * item, extent * item, None, self.device)
        return self.xp.ndarray(tuple(shape), d.np, self.xp.cuda.MemoryPointer(memory, first * item), strides=places)

    def contiguous(self, array: Any) -> Any:
        if isinstance(array, np.ndarray):
            return self.xp.asarray(array, order="C")
        return array if array.flags.c_contiguous else array.copy()

    def write_back(self, target: Any, copy: Any) -> None:
        target[...] = copy.get() if isinstance(target, np.ndarray) else copy

    def address(self, array: Any) -> int:
        place: int = array.data.ptr
        return place


@cache
def of_device(device: int) -> CudaDriver:
    """The driver of a GPU, made once. RuntimeError, saying what is missing, where it cannot be used."""
    return CudaDriver(device)
