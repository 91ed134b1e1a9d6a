"""A driver whose device is the host: `compile` for it, and whole programs run as on a GPU, kernels by `host.h`.

Its arrays are NumPy's; its slots are memory that is closed to everybody but kernels, copies and products.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.cuda.driver import blaslt
from jitgrad.codegen.cuda.driver.driver import Driver
from jitgrad.codegen.cuda.kernels import geometry, text
from jitgrad.codegen.program import memory
from tests.codegen.cuda import host

REGION = 1 << 36
ENTRY = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]+\)\s+(\w+)\(([^)]*)\)')


#: bytes of a kernel's parameters by their type; of all others 8
BYTES = {"float": 4, "bool": 1, "int": 4, "u32": 4, "short": 2, "signed char": 1, "unsigned char": 1}


def parameter_bytes(parameters: str) -> tuple[int, ...]:
    """The bytes of each of a kernel's parameters."""
    types = [p.rsplit(" ", 1)[0] for p in parameters.split(", ") if p]
    words = [re.fullmatch(r"const __grid_constant__ jg_table<(\d+)>", t) for t in types]
    return tuple([8 * int(w[1]) if w else BYTES.get(t, 8) for t, w in zip(types, words, strict=True)])


def entries(source: str) -> str:
    """For each kernel of a text, what `fake_launch` takes for its handle."""
    lines = ["struct Entry { int (*run)(void (*)(void**), void**, unsigned, unsigned, unsigned, unsigned); "
             "int (*together)(void (*)(void**), void**, unsigned, unsigned); void (*body)(void**); int device; };"]
    for name, given in ENTRY.findall(source):
        types = [p.rsplit(" ", 1)[0] for p in given.split(", ") if p]
        values = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
        lines.append(f"static void body_{name}(void** a) {{ {name}({values}); }}")
        lines.append(f'extern "C" Entry entry_{name} = {{run, run_together, body_{name}, 0}};')
    return "\n".join(lines)


MASKED = frozenset({blaslt.RELU_AUX, blaslt.RELU_AUX_BIAS, blaslt.DRELU, blaslt.DRELU_BGRAD})
EPILOGUES = MASKED | {blaslt.RELU, blaslt.BIAS, blaslt.RELU_BIAS, blaslt.GELU, blaslt.GELU_BIAS, blaslt.GELU_AUX,
                      blaslt.GELU_AUX_BIAS, blaslt.DGELU, blaslt.DGELU_BGRAD, blaslt.BGRADA, blaslt.BGRADB}
ROOT = np.float32(np.sqrt(2 / np.pi))


def gelu(x: Any) -> Any:
    """GELU by tanh."""
    return x * (0.5 * (1 + np.tanh(ROOT * (x + np.float32(0.044715) * x * x * x))))


def gelu_slope(x: Any) -> Any:
    """Its derivative."""
    t = np.tanh(ROOT * (x + np.float32(0.044715) * x * x * x))
    return 0.5 * (t + 1) + 0.5 * x * (1 - t * t) * ROOT * (1 + np.float32(3 * 0.044715) * x * x)


class _Block:
    """Memory of the region; a free list by size."""

    def __init__(self, driver: HostDriver, size: int):
        self.driver, self.size = driver, size
        spare = driver.spare.get(size)
        if spare:
            self.ptr = spare.pop()
        else:
            if driver.top + size + 512 > driver.region + REGION:
                raise MemoryError
            self.ptr = driver.top
            driver.top += (size + 511) & -512

    def __del__(self) -> None:
        if hasattr(self, "ptr"):
            self.driver.spare.setdefault(self.size, []).append(self.ptr)


class Entry(ctypes.Structure):
    """A kernel as the driver's functions know it."""

    _fields_ = (("run", ctypes.c_void_p), ("together", ctypes.c_void_p), ("body", ctypes.c_void_p),
                ("device", ctypes.c_int))


class HostDriver(Driver):
    """See the module. `device`: which of several it is; its memory is open to launches on it alone."""

    name, arch = "host", "host"
    graphs = None
    several = False
    processors, shared = 3, geometry.MOST_SHARED
    rows = staticmethod(lambda op: functools.partial(op.impl, np))

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self.c = host.shared((host.HERE / "driver.h").read_text())
        self.c.fake_region.restype = ctypes.c_void_p
        self.c.fake_region.argtypes = [ctypes.c_size_t, ctypes.c_int]
        self.region = self.top = self.c.fake_region(REGION, device)
        self.c.fake_log.restype = ctypes.c_void_p
        self.spare: dict[int, list[int]] = {}
        self.launch, self.together, self.read, self.copy = (
            self._function(f"fake_{n}") for n in ("launch", "together", "read", "copy"))
        self._matmul = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))(self.product)
        self.matmul = ctypes.cast(self._matmul, ctypes.c_void_p).value or 0
        self.products: list[list[int]] = []
        self.libraries: list[Any] = []
        self.entries: list[Entry] = []
        self.order = False
        self.stop: Any = None

    def stop_word(self, stream: int) -> int:
        if self.stop is None:
            self.let_go_on(True)
        return int(self.stop.ptr)

    def let_go_on(self, on: bool) -> None:
        """Whether kernels with loops may go on."""
        self.stop = self.stop or self.allocate(4)
        self.c.fake_begin()
        ctypes.c_uint.from_address(self.stop.ptr).value = not on
        self.c.fake_end()

    @contextlib.contextmanager
    def reversed(self, order: bool = True) -> Iterator[None]:
        """Run threads and blocks in descending order meanwhile: a result that depends on it is wrong."""
        before = self.order
        try:
            self._set_order(order)
            yield
        finally:
            self._set_order(before)

    def _set_order(self, order: bool) -> None:
        self.order = order
        for library in self.libraries:
            library.jg_set_reversed(int(order))

    def _function(self, name: str) -> int:
        return ctypes.cast(getattr(self.c, name), ctypes.c_void_p).value or 0

    def on(self) -> Any:
        return contextlib.nullcontext()

    def stream(self) -> int:
        return 0

    def load(self, source: str, names: Sequence[str]) -> list[int]:
        kernels = source.removeprefix(text.prelude())
        library = host.kernels(f"{kernels}\n{entries(kernels)}")
        library.jg_set_reversed(int(self.order))
        self.libraries.append(library)
        found = [Entry.in_dll(library, f"entry_{name}") for name in names]
        mine = [Entry(e.run, e.together, e.body, self.device) for e in found] if self.device else found
        self.entries += mine
        return [ctypes.addressof(e) for e in mine]

    def allocate(self, size: int) -> Any:
        return _Block(self, size)

    def clear(self, block: Any, size: int) -> None:
        self.c.fake_begin()
        ctypes.memset(block.ptr, 0, size)
        self.c.fake_end()

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        found = np.empty(shape, d)
        found.view(np.uint8 if found.ndim else d)[...] = 0xA5 if found.ndim and found.dtype != bool else 0
        return found

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtypes.dtype) -> Any:
        self.c.fake_open()
        return memory.array(address, shape, strides, d)

    def contiguous(self, array: Any) -> Any:
        return np.require(array, requirements=["C", "A"])

    def write_back(self, target: Any, copy: Any) -> None:
        target[...] = copy

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def error(self, status: int) -> Exception:
        return RuntimeError(f"CUDA error {status}")

    def product(self, stream: Any, call: Any) -> int:
        """The product that a call describes."""
        words = [call[k] for k in range(20)]
        self.products.append(words)
        number, trans_a, trans_b, accumulate, m, n, k, lda, ldb, ldc, a, b, c, count, sa, sb, sc = words[:17]
        d = blaslt.DTYPES[number]
        self.c.fake_begin()
        try:
            with np.errstate(all="ignore"):  # half types overflow, as on a GPU
                for i in range(count):
                    x = self.matrix(a + i * sa * d.itemsize, (k, m) if trans_a else (m, k), lda, d)
                    y = self.matrix(b + i * sb * d.itemsize, (n, k) if trans_b else (k, n), ldb, d)
                    z = self.matrix(c + i * sc * d.itemsize, (m, n), ldc, d)
                    if d.is_half:
                        x, y = x.astype(np.float32), y.astype(np.float32)
                    x, y = x.T if trans_a else x, y.T if trans_b else y
                    result = x @ y
                    if accumulate:
                        result = z + result
                    z[...] = self.finished(words, i, x, y, result, d) if words[17] else result
        finally:
            self.c.fake_end()
        return 0

    def finished(self, words: Sequence[int], i: int, x: Any, y: Any, result: Any, d: dtypes.dtype) -> Any:
        """What an epilogue makes of the product of x and y, computed as eager does, but rounded once."""
        m, n = words[4:6]
        (count,), (epilogue, bias, aux) = words[13:14], words[17:]
        assert epilogue in EPILOGUES
        assert d.itemsize < 8
        aux_stride = blaslt.aux_stride(epilogue, n)
        one = epilogue in MASKED or epilogue & (16 | 128) or epilogue >= blaslt.BGRADA
        assert count == 1 or not one, "a gradient or what is kept for it, of a batch"
        assert bool(aux) == bool(aux_stride) or not m, words
        assert bool(bias) == bool(epilogue & (4 | 16 | 768)), words

        def vector(size: int) -> Any:
            return memory.array(bias, (size,), (1,), d)

        if epilogue in (blaslt.BGRADA, blaslt.BGRADB):
            if epilogue == blaslt.BGRADA:
                vector(n)[...] = y.sum(axis=0)
            else:
                vector(m)[...] = x.sum(axis=1)
            return result
        if epilogue & 4:
            result = result + vector(n).astype(result.dtype)
        masks = None
        if epilogue in MASKED:
            masks = memory.array(aux, (m, aux_stride // 8), (aux_stride // 8, 1), dtypes.uint8)
        if epilogue in (blaslt.DRELU, blaslt.DRELU_BGRAD):
            result = np.where(np.unpackbits(masks, axis=1, bitorder="little")[:, :n], result, 0)
        elif epilogue in (blaslt.DGELU, blaslt.DGELU_BGRAD):
            before = self.matrix(aux, (m, n), aux_stride, d)
            result = result * gelu_slope(before.astype(np.float32))
        if epilogue & 16:
            vector(n)[...] = result.sum(axis=0)
        if masks is not None and epilogue & 2:
            kept = np.packbits(~(result <= 0), axis=1, bitorder="little")
            masks[...] = 0xA5  # what is beyond a row is anything
            masks[:, :kept.shape[1]] = kept
        elif aux and epilogue & 32:
            self.matrix(aux, (m, n), aux_stride, d)[...] = result
        if epilogue & 2:
            return np.maximum(result, 0)
        return gelu(result) if epilogue & 32 else result

    def matrix(self, address: int, shape: tuple[int, int], rows: int, d: dtypes.dtype) -> Any:
        return memory.array(address, shape, (rows, 1), d)

    def launches(self) -> list[tuple[int, int, int]]:
        """(kernel, blocks, threads) of what was launched since `forget`."""
        count = min(self.c.fake_launches(), 1 << 16)
        log = (ctypes.c_uint64 * (2 * count)).from_address(self.c.fake_log()) if count else []
        return [(log[2 * i], log[2 * i + 1] & 0xFFFFFFFF, log[2 * i + 1] >> 32) for i in range(count)]

    def waits(self) -> int:
        """How often a host function has waited for the device."""
        return int(self.c.fake_reads())

    def forget(self) -> None:
        """Forget what was launched."""
        self.c.fake_clear()


@functools.cache
def driver() -> HostDriver:
    """The one driver of the process."""
    return HostDriver()
