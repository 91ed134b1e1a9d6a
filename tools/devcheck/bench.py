"""A GPU to try things on: kernels, launches, products, timings."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver import blaslt, cudadriver
from jitgrad.codegen.cuda.driver.blaslt import Call
from jitgrad.codegen.cuda.driver.cudadriver import CudaDriver
from jitgrad.codegen.cuda.driver.driverapi import KernelNode
from jitgrad.codegen.cuda.kernels import text
from tools.devcheck.checks import Lost

#: the kernels of the checks; each is `extern "C" __global__` after the generated kernels' own prelude
SOURCES = {
    "axpy": """
extern "C" __global__ void __launch_bounds__(256)
axpy(i64 n, float a, const float* x, float* y) {
    for (i64 t = jg_thread(); t < n; t += jg_threads()) y[t] = a * x[t] + y[t];
}
""",
    "halve": """
extern "C" __global__ void __launch_bounds__(256)
halve(i64 n, const float* x, float* y) {
    for (i64 t = jg_thread(); t < n; t += jg_threads()) y[t] = x[t] * 0.5f;
}
""",
    "words": """
extern "C" __global__ void __launch_bounds__(256)
words(i64 n, i64 seed, i64 offset, i64* y) {
    for (i64 t = jg_thread(); t < n; t += jg_threads()) y[t] = jg_philox(t, seed, offset);
}
""",
    "row_sums": """
extern "C" __global__ void __launch_bounds__(1024)
row_sums(i64 rows, i64 columns, const float* x, float* y) {
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        float sum = 0;
        for (i64 e = threadIdx.x; e < columns; e += blockDim.x) sum += x[row * columns + e];
        const float whole = jg_block<jg_sum<float>>(sum);
        if (threadIdx.x == 0) y[row] = whole;
    }
}
""",
    "add_one": """
extern "C" __global__ void __launch_bounds__(32)
add_one(float* y, float by) { if (jg_thread() == 0) y[0] += by; }
""",
    "large_shared": """
extern "C" __global__ void __launch_bounds__(256)
large_shared(i64 n, float* y) {
    extern __shared__ float kept[];
    for (i64 e = threadIdx.x; e < n; e += blockDim.x) kept[e] = (float)e;
    __syncthreads();
    for (i64 e = threadIdx.x; e < n; e += blockDim.x) y[e] = kept[n - 1 - e];
}
""",
    "meet": """
extern "C" __global__ void __launch_bounds__(512)
meet(i64 rounds, i64* told, i64* wrong, char* scratch) {
    u32* const arrived = (u32*)scratch + 1023;
    for (i64 round = 1; round <= rounds; round++) {
        if (threadIdx.x == 0) told[(round & 1) * gridDim.x + blockIdx.x] = round;
        jg_meet(arrived);
        const i64 other = told[(round & 1) * gridDim.x + (blockIdx.x + 1) % gridDim.x];
        if (other != round) *wrong = round;
    }
}
""",
    "astray": """
extern "C" __global__ void __launch_bounds__(32)
astray(i64 place) { if (jg_thread() == 0) *(float*)place = 1.0f; }
""",
}
Array = Any


def source(name: str) -> str:
    """The whole text of a kernel."""
    return text.prelude() + SOURCES[name]


class Bench:
    """The current device. `stream`: where everything is launched, 0: the default one."""

    def __init__(self, driver: CudaDriver, stream: int = 0):
        self.driver, self.stream = driver, stream
        self.api, self.xp = driver.api, driver.xp

    def kernel(self, name: str) -> int:
        """A kernel of `SOURCES`, compiled and loaded."""
        (handle,) = self.driver.load(source(name), [name])
        return handle

    def parameters(self, arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
        """What a launch takes for arguments (ctypes values and arrays), and what must live until then."""
        values = [a if isinstance(a, ctypes._SimpleCData) else ctypes.c_uint64(self.driver.address(a))
                  for a in arguments]
        return (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values]), values

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Launch a kernel of `SOURCES`. CudaError."""
        places, _kept = self.parameters(arguments)
        self.api.call("cuLaunchKernel", self.kernel(name), blocks, 1, 1, threads, 1, 1, shared, self.stream, places,
                      None)

    def node(self, name: str, blocks: int, threads: int, *arguments: Any) -> tuple[KernelNode, Any]:
        """A launch for a graph, and what must live until it is added."""
        places, kept = self.parameters(arguments)
        made = KernelNode(function=self.kernel(name), grid=(blocks, 1, 1), block=(threads, 1, 1),
                          parameters=ctypes.addressof(places))
        return made, (places, kept)

    def wait(self) -> None:
        """Wait for everything. CudaError for what failed."""
        self.api.call("cuStreamSynchronize", self.stream)

    def array(self, values: Any, dtype: Any = None) -> Array:
        """An array of the device; bfloat16 as the words that hold it, for CuPy knows little of it."""
        host = np.ascontiguousarray(values, dtype)
        return self.xp.asarray(host.view(np.uint16) if host.dtype.name == "bfloat16" else host)

    def host(self, array: Array, dtype: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The numbers of an array of the device, in float64; `dtype`: what its words are."""
        found: np.ndarray[Any, np.dtype[np.float64]] = array.get().view(dtype).astype(np.float64)
        return found

    def product(self, a: Array, b: Array, c: Array, *, ta: bool = False, tb: bool = False, accumulate: bool = False,
                dtype: int = 0, epilogue: int = 0, bias: Array = None, aux: Array = None) -> Call:
        """The words of c (+)= op(a) @ op(b) for row-major arrays; three axes are batches."""
        shape = a.shape[-2:][::-1] if ta else a.shape[-2:]
        batch = c.shape[0] if c.ndim == 3 else 1
        stride_a, stride_b, stride_c = [x.shape[-2] * x.shape[-1] if x.ndim == 3 else 0 for x in (a, b, c)]
        where = self.driver.address
        return Call(dtype, int(ta), int(tb), int(accumulate), shape[0], c.shape[-1], shape[1], a.shape[-1],
                    b.shape[-1], c.shape[-1], where(a), where(b), where(c), batch, stride_a, stride_b, stride_c,
                    epilogue, where(bias) if bias is not None else 0, where(aux) if aux is not None else 0)

    def multiply(self, a: Array, b: Array, c: Array, **options: Any) -> None:
        """Compute a product; options as of `product`. CudaError."""
        self.driver.lt.matmul(self.stream, self.product(a, b, c, **options))

    def timed(self, run: Callable[[], None], times: int = 50) -> float:
        """Microseconds of one run, the median of five series; all of the device's work is waited for."""
        found = []
        for _ in range(5):
            run()
            self.wait()
            started = time.perf_counter()
            for _ in range(times):
                run()
            self.wait()
            found.append((time.perf_counter() - started) / times * 1e6)
        return sorted(found)[2]


@cache
def bench() -> Bench:
    """The first device's bench, on CuPy's current stream."""
    driver = cudadriver.of_device(0)
    return Bench(driver, driver.stream())


def bfloat16() -> Any:
    """NumPy's dtype of bfloat16. Lost without ml_dtypes."""
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise Lost("ml_dtypes is not installed: no arrays of bfloat16") from None
    return np.dtype(ml_dtypes.bfloat16)


def numpy_dtype(number: int) -> Any:
    """The NumPy dtype of a product's dtype."""
    name = blaslt.DTYPES[number].name
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def near(found: Any, expected: Any, tolerance: float, what: str) -> float:
    """The largest error beside the largest value. AssertionError where it is above `tolerance` or not a number."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{what}: {found.shape} for {expected.shape}"
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    error = float(np.abs(found - expected).max(initial=0.0)) / scale
    assert error <= tolerance, f"{what}: relative error {error:.2e} above {tolerance:.0e}"
    return error
