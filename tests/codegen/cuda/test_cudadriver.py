"""The driver of a real GPU against call-backs: what CUDA is asked, and that failures become exceptions."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.driver import cudadriver, driverapi, libraries, nvrtc
from jitgrad.codegen.cuda.driver.blaslt import Call
from jitgrad.codegen.cuda.driver.cudadriver import CudaDriver
from tests.codegen.cuda.fakeblas import FakeBlas
from tests.codegen.cuda.fakecuda import Stream, fake_driver

KERNELS = 'extern "C" __global__ void one() {}\nextern "C" __global__ void two() {}\n'


class Cupy:
    """As much of cupy as the driver uses; memory is the host's."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.modules: list[str] = []
        self.functions: dict[str, Any] = {}
        self.ndarray = self.array
        self.asarray = lambda a, order: SimpleNamespace(copied=a, order=order)
        stream = Stream(ptr=0x55, synchronize=lambda: self.log.append("wait"))
        self.cuda = SimpleNamespace(
            Device=lambda k: self.device(k), runtime=SimpleNamespace(free=lambda p: self.log.append("bind")),
            get_current_stream=lambda: stream, alloc=self.alloc, UnownedMemory=lambda *a: a,
            MemoryPointer=lambda memory, offset: SimpleNamespace(memory=memory, ptr=memory[0] + offset))

    def device(self, k):
        log = self.log

        class Device:
            def __enter__(self):
                log.append(f"enter {k}")

            def __exit__(self, *_):
                log.append("leave")

        return Device()

    def RawModule(self, path):
        self.modules.append(Path(path).read_text())
        return SimpleNamespace(get_function=self.function)

    def function(self, name):
        assert self.log[-1] == "enter 0"
        self.functions[name] = SimpleNamespace(kernel=SimpleNamespace(ptr=0x100 + len(self.functions)),
                                               shared_size_bytes=1024)
        return self.functions[name]

    def alloc(self, size):
        self.log.append(f"alloc {size}")
        return SimpleNamespace(ptr=0x9000)

    def array(self, shape, dtype, memptr=None, strides=None):
        return SimpleNamespace(shape=shape, dtype=dtype, data=memptr, strides=strides)


def stores(value):
    def handler(place, *rest):
        place[0] = value
    return handler


class Machine:
    def __init__(self, **handlers):
        attributes = {driverapi.MAJOR: 9, driverapi.MINOR: 0, driverapi.SHARED_OPTIN: 232448, driverapi.PROCESSORS: 132}
        self.library = fake_driver({
            "cuDeviceGet": stores(0), "cuDeviceGetAttribute": lambda place, which, d: stores(attributes[which])(place),
            **handlers})
        self.xp, self.blas = Cupy(), FakeBlas()
        self.driver = CudaDriver(0, self.xp, driverapi.DriverApi(self.library), self.blas)


@pytest.fixture
def machine(monkeypatch):
    compiled: list[list[str]] = []

    def compile_units(sources, arch):
        assert arch == "sm_90"
        compiled.append(list(sources))
        return [s.encode() for s in sources]

    monkeypatch.setattr(nvrtc, "compile_units", compile_units)
    made = Machine()
    made.compiled = compiled
    return made


def test_what_it_is(machine):
    driver = machine.driver
    assert (driver.name, driver.arch, driver.stream()) == ("cuda:0", "sm_90", 0x55)
    assert driver.launch == machine.library.address("cuLaunchKernel")
    assert driver.copy == machine.library.address("cuMemcpyDtoDAsync_v2")
    assert machine.xp.log == ["enter 0", "bind", "leave"]


def test_every_thread_gets_the_context(machine):
    def work():
        machine.driver.stream()
        machine.driver.stream()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert machine.xp.log.count("bind") == 2


@pytest.mark.parametrize("act", [lambda d: d.load(KERNELS, ["one"]), lambda d: d.graphs, lambda d: d.lt],
                         ids=["load", "graphs", "products"])
def test_a_thread_has_the_context_whatever_it_does_first(machine, act):
    """A program that is compiled in a thread of its own: CUDA would know no context there."""
    machine.library.handlers["cuCtxGetCurrent"] = stores(0x77)
    thread = threading.Thread(target=act, args=(machine.driver,))
    thread.start()
    thread.join()
    assert machine.xp.log.count("bind") == 2


def test_kernels_are_loaded_once(machine):
    handles = machine.driver.load(KERNELS, ["two", "one"])
    assert [machine.xp.functions[n].kernel.ptr for n in ("two", "one")] == handles
    assert machine.driver.load(KERNELS, ["two", "one"]) == handles
    assert machine.compiled == [[KERNELS]]
    assert machine.xp.modules == [KERNELS]


def test_many_kernels_are_several_modules(machine, monkeypatch):
    monkeypatch.setattr(nvrtc, "KERNELS_PER_UNIT", 1)
    monkeypatch.setattr(nvrtc.divided, "__defaults__", (1,))
    assert len(machine.driver.load(KERNELS, ["one", "two"])) == 2
    assert len(machine.xp.modules) == 2


def test_a_kernel_that_is_not_there(machine):
    with pytest.raises(KeyError, match="three"):
        machine.driver.load(KERNELS, ["one", "three"])


def test_kernels_with_dynamic_shared_memory_may_have_all_of_it(machine):
    machine.driver.load(KERNELS, ["one"])
    assert machine.xp.functions["one"].max_dynamic_shared_size_bytes == 232448 - 1024


def test_reading_waits(machine):
    read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)(
        machine.driver.read)
    machine.library.calls.clear()
    assert read(0x10, 0x20, 8, 0x55) == 0
    assert machine.library.calls == [("cuMemcpyDtoHAsync_v2", (0x10, 0x20, 8, 0x55)),
                                     ("cuStreamSynchronize", (0x55,))]
    machine.library.handlers["cuMemcpyDtoHAsync_v2"] = lambda *_: 1
    machine.library.calls.clear()
    assert read(0x10, 0x20, 8, 0x55) == 1
    assert machine.library.names() == ["cuMemcpyDtoHAsync_v2"]
    machine.library.handlers.update(cuMemcpyDtoHAsync_v2=lambda *_: 0, cuStreamSynchronize=lambda *_: 700)
    assert read(0x10, 0x20, 8, 0x55) == 700
    found = machine.driver.error(700)
    assert str(found) == "CUDA: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"


def test_products_load_cublaslt_when_first_asked(machine):
    multiply = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(machine.driver.matmul)
    assert "lt" not in vars(machine.driver)
    a, b, c = [np.arange(4, dtype="float32").reshape(2, 2) for _ in range(3)]
    words = (ctypes.c_int64 * 20)(*Call(0, 0, 0, 0, 2, 2, 2, 2, 2, 2, a.ctypes.data, b.ctypes.data, c.ctypes.data))
    assert multiply(0x55, ctypes.addressof(words)) == 0
    np.testing.assert_array_equal(c, a @ b)
    machine.blas.result = 13
    assert multiply(0x55, ctypes.addressof(words)) == -1
    assert str(machine.driver.error(0xFFFFFFFF)) == "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"
    machine.driver.lt.close()
    assert not machine.blas.alive


def test_a_missing_cublaslt_is_an_error_of_the_product():
    machine = Machine()
    machine.blas.missing = ("cublasLtCreate",)
    multiply = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(machine.driver.matmul)
    words = (ctypes.c_int64 * 20)(*Call(0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 16, 16, 16))
    assert multiply(0x55, ctypes.addressof(words)) == -1
    assert "cublasLtCreate is not in this version of the library" in str(machine.driver.error(-1))
    assert str(machine.driver.error(-1)) == "a call of CUDA failed"


def test_an_interrupt_stays_one(machine):
    libraries.failed(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        machine.driver.error(-1)
    assert libraries.failure() is None


def test_a_failure_is_of_the_thread_that_made_the_call(machine):
    libraries.failed(ValueError("of this thread"))
    found: list[Exception] = []
    other = threading.Thread(target=lambda: found.append(machine.driver.error(-1)))
    other.start()
    other.join()
    assert [str(e) for e in (*found, machine.driver.error(-1))] == ["a call of CUDA failed", "of this thread"]


def test_memory_and_arrays(machine):
    driver = machine.driver
    assert driver.allocate(0).ptr == 0x9000
    assert machine.xp.log[-1] == "alloc 1"
    driver.clear(driver.allocate(64), 48)
    assert machine.library.calls[-1] == ("cuMemsetD8Async", (0x9000, 0, 48, 0x55))
    assert driver.empty((2, 3), np.float32).shape == (2, 3)
    seen = driver.view(0x1000, (2, 3), (1, 4), dtypes.float32)
    assert (seen.shape, seen.strides, seen.data.memory) == ((2, 3), (4, 16), (0x1000, (1 + 1 + 2 * 4) * 4, None, 0))
    assert driver.address(seen) == 0x1000
    plain = driver.view(0x1000, [2, 3], None, dtypes.float64)
    assert (plain.strides, plain.data.memory) == (None, (0x1000, 48, None, 0))
    assert driver.view(0, (0, 3), (3, 1), dtypes.float32).data.memory == (0, 0, None, 0)
    backwards = driver.view(0x1000, (2, 3), (1, -4), dtypes.float32)  # what comes first in memory is the last column
    assert (backwards.strides, backwards.data.memory) == ((4, -16), (0x1000 - 2 * 16, (1 + 1 + 2 * 4) * 4, None, 0))
    assert driver.address(backwards) == 0x1000


def test_contiguous(machine):
    driver = machine.driver
    given = SimpleNamespace(flags=SimpleNamespace(c_contiguous=True))
    assert driver.contiguous(given) is given
    strided = SimpleNamespace(flags=SimpleNamespace(c_contiguous=False), copy=lambda: "copy")
    assert driver.contiguous(strided) == "copy"
    host = np.zeros(3)
    assert vars(driver.contiguous(host)) == {"copied": host, "order": "C"}
    driver.write_back(host, SimpleNamespace(get=lambda: np.ones(3)))
    np.testing.assert_array_equal(host, 1)


def test_cupys_own_arrays_take_our_views():
    """A view needs no GPU."""
    cupy = pytest.importorskip("cupy")
    driver = object.__new__(CudaDriver)
    driver.xp, driver.device = cupy, 0
    seen = driver.view(0x10000, (2, 3), (1, 4), dtypes.float32)
    assert (seen.shape, seen.strides, seen.dtype, driver.address(seen)) == ((2, 3), (4, 16), np.float32, 0x10000)
    assert driver.contiguous(driver.view(0x10000, (2, 3), None, dtypes.float32)).data.ptr == 0x10000
    assert driver.view(0, (0, 3), None, dtypes.float32).size == 0


def test_a_driver_is_made_once(monkeypatch):
    made: list[int] = []
    monkeypatch.setattr(cudadriver, "CudaDriver", lambda device: made.append(device) or device)
    cudadriver.of_device.cache_clear()
    assert cudadriver.of_device(3) == cudadriver.of_device(3) == 3
    assert made == [3]
    cudadriver.of_device.cache_clear()


def test_loading_waits_for_kernels_that_may_never_end(machine, monkeypatch):
    """The driver would wait itself, where no signal is seen."""
    waits = []
    monkeypatch.setattr(machine.driver, "wait", waits.append)
    machine.driver.load(KERNELS, ["one"])
    assert waits == []
    machine.driver.has_loops = True
    machine.driver.load(KERNELS, ["one"])
    assert waits == []  # it is loaded
    machine.driver.load(KERNELS, ["two"])
    assert waits == [None]
