"""A GPU on the host for `CudaDriver`: kernels by g++, products by NumPy, graphs as lists."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from ctypes import c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver import driverapi, nvrtc
from jitgrad.codegen.cuda.driver.cudadriver import CudaDriver
from jitgrad.codegen.cuda.kernels import text
from tests.codegen.cuda import fakegraphs, host
from tests.codegen.cuda.fakeblas import FakeBlas
from tests.codegen.cuda.fakecuda import Stream
from tests.codegen.cuda.fakedriver import entries, parameter_bytes


class Array(np.ndarray):
    """An array of the "device"."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def get(self) -> Any:
        return np.array(self)


class Cupy:
    """As much of cupy as the driver and the checks use."""

    RawModule: Any

    def __init__(self) -> None:
        default = Stream(ptr=0x55, synchronize=lambda: None)
        self.streams = [default]
        self.cuda = SimpleNamespace(
            Device=lambda k=0: contextlib.nullcontext(SimpleNamespace(id=k)),
            runtime=SimpleNamespace(free=lambda p: None), get_current_stream=lambda: self.streams[-1],
            Stream=self.stream, alloc=self.alloc, UnownedMemory=lambda address, *_: address,
            MemoryPointer=lambda address, offset: address + offset)

    @contextlib.contextmanager
    def stream(self, non_blocking: bool) -> Iterator[None]:
        self.streams.append(Stream(ptr=0x66, synchronize=lambda: None))
        yield
        self.streams.pop()

    def alloc(self, size: int) -> Any:
        memory = np.zeros(size + 256, np.uint8)
        return SimpleNamespace(ptr=(memory.ctypes.data + 255) & -256, memory=memory)

    def asarray(self, values: Any, order: str = "C") -> Array:
        return np.array(np.asarray(values), order=order).view(Array)

    def ndarray(self, shape: Any, dtype: Any, memptr: int | None = None, strides: Any = None) -> Array:
        if memptr is None:
            return np.empty(shape, dtype).view(Array)
        item = np.dtype(dtype).itemsize
        extent = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + item if strides else (
            int(np.prod(shape)) * item)
        whole = np.frombuffer((ctypes.c_char * extent).from_address(memptr), np.uint8)
        return np.ndarray(shape, dtype, whole, strides=strides).view(Array)


class Gpu(fakegraphs.FakeGraphs):
    """Graphs that run."""

    def __init__(self) -> None:
        host_library = host.shared((host.HERE / "driver.h").read_text())
        types = (c_void_p, *(ctypes.c_uint,) * 7, c_void_p, c_void_p, c_void_p)
        self.execute = {kind: ctypes.CFUNCTYPE(ctypes.c_int, *types)((f"fake_{kind}", host_library))
                        for kind in ("launch", "together")}
        self.names: dict[str, int] = {}
        super().__init__()
        attributes = {driverapi.MAJOR: 9, driverapi.MINOR: 0, driverapi.SHARED_OPTIN: 232448,
                      driverapi.PROCESSORS: 3}
        self.library.handlers.update({
            "cuDeviceGet": lambda place, device: place.__setitem__(0, device),
            "cuDriverGetVersion": lambda place: place.__setitem__(0, 13000),
            "cuDeviceGetAttribute": lambda place, which, device: place.__setitem__(0, attributes[which]),
            "cuLaunchKernel": self.launch, "cuLaunchCooperativeKernel": self.together,
            "cuMemcpyDtoDAsync_v2": self.raw_copy,
            "cuMemcpyHtoDAsync_v2": lambda to, source, size, stream: ctypes.memmove(to, source, size) and 0,
            "cuMemcpyDtoHAsync_v2": lambda to, source, size, stream: ctypes.memmove(to, source, size) and 0,
            "cuMemsetD2D8Async": self.clear,
            "cuMemsetD8Async": lambda to, value, size, stream: ctypes.memset(to, value, size) and 0})
        self.blas = Blas(self)
        xp = Cupy()
        xp.RawModule = self.module
        self.driver = CudaDriver(0, xp, self.api, self.blas)

    # --- kernels ---

    def module(self, path: str) -> Any:
        """As cupy.RawModule."""
        source = Path(path).read_text().removeprefix(text.prelude())
        library = host.kernels(f"{source}\n{entries(source)}")
        return SimpleNamespace(get_function=lambda name: self.function(library, source, name))

    def function(self, library: Any, source: str, name: str) -> Any:
        """As cupy.RawKernel."""
        found = re.search(rf"[\n ]{name}\(([^)]*)\) {{", source)
        assert found is not None
        place = ctypes.addressof(ctypes.c_char.in_dll(library, f"entry_{name}"))
        fakegraphs.KERNELS[place] = parameter_bytes(found[1])
        return SimpleNamespace(kernel=SimpleNamespace(ptr=place), shared_size_bytes=0)

    def launch(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        places = ctypes.cast(arguments, c_void_p).value
        return super().launch(kernel, gx, gy, gz, bx, by, bz, shared, stream, places, extra)

    def together(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra=None):
        places = ctypes.cast(arguments, c_void_p).value
        return super().together(kernel, gx, gy, gz, bx, by, bz, shared, stream, places, extra)

    def run(self, stream: int | None, operation: Any) -> None:
        if (stream or 0) in self.capturing:
            super().run(stream, operation)
        else:
            self.do(operation)

    def do(self, operation: Any) -> None:
        if isinstance(operation, list):
            for part in operation:
                self.do(part)
        elif operation[0] in ("launch", "together"):
            _, kernel, grid, arguments = operation
            values = [ctypes.create_string_buffer(a, max(8, len(a))) for a in arguments]
            places = (c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
            assert self.execute[operation[0]](kernel, *grid, None, ctypes.addressof(places), None) == 0
        elif operation[0] == "copy":
            ctypes.memmove(*operation[1:])
        else:
            assert operation[0] == "product"
            operation[1]()

    def clear(self, address, pitch, value, width, height, stream):
        for row in range(height):
            ctypes.memset(address + row * pitch, value, width)

    # --- graphs ---

    def replay(self, stream, operation):
        self.do(operation)


class Blas(FakeBlas):
    """Products of a stream that is captured are kept, with what their descriptions say at that time."""

    def __init__(self, gpu: Gpu):
        super().__init__()
        self.gpu = gpu

    def multiply(self, *arguments: Any) -> int:
        if arguments[-1] in self.gpu.capturing:
            said = dict(self.attributes[arguments[1]])
            self.gpu.run(arguments[-1], ("product", lambda: self.again(said, arguments)))
            return 0
        return super().multiply(*arguments)

    def again(self, said: dict[int, int], arguments: Any) -> None:
        now, self.attributes[arguments[1]] = self.attributes[arguments[1]], said
        super().multiply(*arguments)
        self.attributes[arguments[1]] = now


def compiled(source: str, arch: str) -> bytes:
    """What stands for machine code: the text."""
    return source.encode()


def gpu(monkeypatch: Any) -> Gpu:
    """An emulated GPU, for which texts stand as they are for machine code."""
    monkeypatch.setattr(nvrtc, "compile", compiled)
    monkeypatch.setattr(nvrtc, "compile_units", lambda sources, arch: [s.encode() for s in sources])
    monkeypatch.setattr(nvrtc, "compiler", lambda: SimpleNamespace(version=(13, 0)))
    return Gpu()


@contextlib.contextmanager
def installed(monkeypatch: Any) -> Iterator[Gpu]:
    """The bench is on an emulated GPU."""
    from jitgrad.codegen.cuda.driver import cudadriver
    from tools.devcheck import bench

    made = gpu(monkeypatch)
    monkeypatch.setattr(cudadriver, "of_device", lambda device: made.driver)
    monkeypatch.setattr(bench.Bench, "timed", lambda self, run, times=1: (run(), 1.0)[1])
    bench.bench.cache_clear()
    try:
        yield made
    finally:
        bench.bench.cache_clear()
