"""Epilogues that cuBLASLt does not have, or not as eager: the product alone, then kernels for what follows it.

    composed = Composed(api, load, allocate)
    composed.after(stream, call, ...)       # what the epilogue does, to the product that is in c already
    composed.alike(stream, call, ..., run)  # whether `run` of a call with the epilogue gives what a composed one gives

cuBLASLt documents for which dtypes, strides and alignments it has epilogues, not what they make of NaN and infinity,
nor how exactly GELU is computed. So each is tried once on the device, on a small product, before it is relied on: ReLU
and its mask to the last bit, the others within the rounding of their dtype. The one liberty is GELU of minus infinity,
which is -0 or NaN.

Where the half types are rounded: after the product, after the bias, and at the end; an epilogue of cuBLASLt rounds at
the end only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.codegen.cuda.kernels import text

TYPES = {"float32": "float", "float16": "jg_half", "bfloat16": "jg_bfloat"}
THREADS, BLOCKS = 256, 1024
#: rows, columns and inner size of the product that is tried
M, N, K = 16, 256, 16
#: relative and absolute tolerance
TOLERANCE = {"float32": (2e-5, 1e-5), "float16": (2e-3, 2.5e-4), "bfloat16": (1.6e-2, 1e-3)}
# the bits of cuBLASLt's numbers of epilogues
RELU, RELU_SLOPE, BIAS_SLOPE, GELU, MEMORY, SUM_OF_B, SUM_OF_A = 2, 8, 16, 32, 128, 256, 512


def source(d: str) -> str:
    """The kernels for a dtype, with the prelude."""
    t = TYPES[d]
    sums = ((f"const {t}*", "x"), ("i64", "inner"), ("i64", "count"), ("i64", "stride"), (f"{t}*", "out"))
    finish = ((f"{t}*", "c"), *[("i64", name) for name in ("m", "n", "stride", "batch", "batch_stride")],
              (f"const {t}*", "bias"), ("unsigned char*", "aux"), ("i64", "aux_stride"), ("int", "what"))
    kernels = [f"""extern "C" __global__ void __launch_bounds__({THREADS}) jg_{kind}_{t}({listed}) {{
    jg_{kind}({names});
}}""" for kind, parameters in (("finish", finish), ("across", sums), ("along", sums))
               for listed, names in [(", ".join(map(" ".join, parameters)), ", ".join(name for _, name in parameters))]]
    return "\n".join([text.prelude(), resources.files(__package__).joinpath("composed.cuh").read_text(), *kernels])


class Composed:
    """Kernels for what follows products. `load` compiles a text of kernels, a handle for each name."""

    def __init__(self, api: DriverApi, load: Callable[[str, Sequence[str]], list[int]],
                 allocate: Callable[[int], Any]):
        self.api, self.load, self.allocate = api, load, allocate
        self._kernels: dict[str, list[int]] = {}

    def kernels(self, d: str) -> list[int]:
        """The handles of `jg_finish`, `jg_across` and `jg_along` for a dtype, compiled at the first call."""
        found = self._kernels.get(d)
        if found is None:
            names = [f"jg_{kind}_{TYPES[d]}" for kind in ("finish", "across", "along")]
            found = self._kernels[d] = self.load(source(d), names)
        return found

    def _launch(self, stream: int, kernel: int, wanted: int, *arguments: Any) -> None:
        if not wanted:
            return
        places = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
        self.api.call("cuLaunchKernel", kernel, min(wanted, BLOCKS), 1, 1, THREADS, 1, 1, 0, stream, places, None)

    def after(self, stream: int, call: Any, d: str, aux_stride: int) -> None:
        """What an epilogue does to a product that is in c, and the sums beside it. CudaError."""
        finish, across, along = self.kernels(d)
        what = call.epilogue
        words = ctypes.c_int64
        if what < SUM_OF_B:
            threads = call.batch * call.m * -(-call.n // 8)
            self._launch(stream, finish, -(-threads // THREADS), words(call.c), words(call.m), words(call.n),
                         words(call.ldc), words(call.batch), words(call.stride_c), words(call.bias), words(call.aux),
                         words(aux_stride), ctypes.c_int(what))
        if what & BIAS_SLOPE:
            x, by_columns, count, inner, stride = call.c, True, call.n, call.m, call.ldc
        elif what == SUM_OF_B:
            x, by_columns, count, inner, stride = call.b, not call.transpose_b, call.n, call.k, call.ldb
        elif what == SUM_OF_A:
            x, by_columns, count, inner, stride = call.a, bool(call.transpose_a), call.m, call.k, call.lda
        else:
            return
        kernel, each = (across, 32) if by_columns else (along, THREADS // 32)
        self._launch(stream, kernel, -(-count // each), words(x), words(inner), words(count), words(stride),
                     words(call.bias))

    # --- trying cuBLASLt's ---

    def alike(self, stream: int, call: Any, d: str, aux_stride: int, run: Callable[[Any], None]) -> bool:
        """Whether `run` of a call with an epilogue gives what `run` without it and then `after` give. CudaError.

        Args:
            call: only its dtype and epilogue count.
        """
        what = call.epilogue
        values, bias, memory = _inputs(d, what, aux_stride)
        item = values.itemsize
        places = np.cumsum([0, M * K * item, K * N * item, M * N * item, N * item])
        size = int(places[-1]) + memory.nbytes
        image = np.zeros(size, np.uint8)

        def put(k: int, array: Any) -> None:
            image[places[k]:places[k] + array.nbytes] = array.reshape(-1).view(np.uint8)

        first = np.zeros((M, K), values.dtype)
        first[:, 0] = 1
        put(0, first)
        put(1, values)
        put(3, bias)
        put(4, memory)
        found = []
        for native in (True, False):
            block = self.allocate(size)
            at = [block.ptr + int(p) for p in places]
            one = call._replace(m=M, n=N, k=K, lda=K, ldb=N, ldc=N, a=at[0], b=at[1], c=at[2], accumulate=0,
                                transpose_a=0, transpose_b=0, bias=at[3] if what & (4 | 16 | 768) else 0,
                                aux=at[4] if aux_stride else 0, batch=1, stride_a=0, stride_b=0, stride_c=0)
            self.api.call("cuMemcpyHtoDAsync_v2", block.ptr, image.ctypes.data, size, stream)
            if native:
                run(one)
            else:
                run(one._replace(epilogue=0, bias=0, aux=0))
                self.after(stream, one, d, aux_stride)
            result = np.empty(size, np.uint8)
            self.api.call("cuMemcpyDtoHAsync_v2", result.ctypes.data, block.ptr, size, stream)
            self.api.call("cuStreamSynchronize", stream)
            found.append(result)
        return _near(found[0][places[2]:], found[1][places[2]:], d, what)


def _inputs(d: str, what: int, aux_stride: int) -> tuple[Any, Any, Any]:
    """The second factor, of whose first row each row of the product is a copy; a bias; what was kept for a gradient."""
    kept = _numpy(d)
    row = np.linspace(-4, 4, N, dtype=np.float32)
    row[:8] = np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-4, -1e-4, 10
    values = np.zeros((K, N), np.float32)
    values[0] = row
    bias = np.where(np.arange(N) % 3 == 0, np.float32(0.5), np.float32(0))
    bias[:8] = 0
    if _masks(what):
        memory = np.tile((np.arange(aux_stride // 8) * 37).astype(np.uint8), M)
    else:
        memory = np.tile(np.where(np.isinf(row), np.float32(3), row[::-1])[:aux_stride], M).astype(kept)
    return values.astype(kept), bias.astype(kept), memory


def _near(x: Any, y: Any, d: str, what: int) -> bool:
    """Whether two images of c, bias and what is kept say the same."""
    size, (relative, absolute) = (M * N + N) * _numpy(d).itemsize, TOLERANCE[d]
    if what & (RELU | RELU_SLOPE) and not what & BIAS_SLOPE:
        relative = absolute = 0
    if _masks(what) and (x[size:] != y[size:]).any():
        return False
    kept = slice(0, size) if _masks(what) else slice(None)
    first, second = (v[kept].view(_numpy(d)).astype(np.float64) for v in (x, y))
    if what & GELU:
        for v in (first, second):
            lowest = v[1:M * N:N]
            lowest[np.isnan(lowest)] = 0
    sums = slice(M * N, M * N + N)  # of M rows
    return bool(np.allclose(first[sums], second[sums], relative, M * absolute, equal_nan=True) and all(
        np.allclose(first[part], second[part], relative, absolute, equal_nan=True)
        for part in (slice(sums.start), slice(sums.stop, None))))


def _masks(what: int) -> bool:
    return bool(what & MEMORY and what & (RELU | RELU_SLOPE))


def _numpy(d: str) -> Any:
    found: dtypes.dtype = getattr(dtypes, d)
    return found.np
