"""Epilogues that cuBLASLt does not have, or not as eager: the product alone, then kernels for what follows it.

    composed = Composed(api, load, allocate)
    composed.after(stream, call, ...)       # what the epilogue does, to the product that is in c already
    composed.alike(stream, call, ..., run)  # whether `run` of a call with the epilogue gives what a composed one gives

cuBLASLt documents for which dtypes, strides and alignments it has epilogues, not what ReLU and GELU make of NaN and
infinity, nor how exactly GELU is computed. So these are tried once on the device, on a small product with a bias,
before they and their gradients are relied on: ReLU and its mask to the last bit, GELU within the rounding of its dtype.
The one liberty is GELU of minus infinity, which is -0 or NaN.

Where the half types are rounded: after the product, after the bias, and at the end; an epilogue of cuBLASLt rounds at
the end only.
"""

import ctypes
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.codegen.cuda.kernels import text
from jitgrad.dtypes import dtype

TYPES = {"float32": "float", "float16": "jg_half", "bfloat16": "jg_bfloat"}
THREADS, BLOCKS = 256, 1024
#: rows, columns and inner size of the product that is tried
M, N, K = 16, 256, 16
#: relative and absolute tolerance
TOLERANCE = {"float32": (2e-5, 1e-5), "float16": (2e-3, 2.5e-4), "bfloat16": (1.6e-2, 1e-3)}
# the bits of cuBLASLt's numbers of epilogues
RELU, BIAS_SLOPE, SUM_OF_B, SUM_OF_A = 2, 16, 256, 512


def source(d: dtype) -> str:
    """The kernels for a dtype, with the prelude."""
    t = TYPES[d.name]
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
        self._kernels: dict[dtype, list[int]] = {}

    def kernels(self, d: dtype) -> list[int]:
        """The handles of `jg_finish`, `jg_across` and `jg_along` for a dtype, compiled at the first call."""
        found = self._kernels.get(d)
        if found is None:
            names = [f"jg_{kind}_{TYPES[d.name]}" for kind in ("finish", "across", "along")]
            found = self._kernels[d] = self.load(source(d), names)
        return found

    def _launch(self, stream: int, kernel: int, wanted: int, *arguments: Any) -> None:
        if not wanted:
            return
        places = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
        self.api.call("cuLaunchKernel", kernel, min(wanted, BLOCKS), 1, 1, THREADS, 1, 1, 0, stream, places, None)

    def after(self, stream: int, call: Any, d: dtype, aux_stride: int) -> None:
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

    def alike(self, stream: int, call: Any, d: dtype, aux_stride: int, run: Callable[[Any], None]) -> bool:
        """Whether `run` of a call with ReLU or GELU of a sum gives what `run` without it and `after` give. CudaError.

        Args:
            call: only its dtype and epilogue count.
        """
        what = call.epilogue
        row, bias = np.linspace(-4, 4, N), np.where(np.arange(N) % 3 == 0, 0.5, 0.0)
        row[:8], bias[:8] = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-4, -1e-4, 10), 0
        first, second = np.zeros((M, K)), np.zeros((K, N))
        first[:, 0], second[0] = 1, row  # each row of the product is a copy of `row`
        parts = [v.reshape(-1) for v in (first, second, bias, np.zeros(M * N), np.zeros(M * aux_stride))]
        image = np.concatenate(parts).astype(d.np)
        starts = np.cumsum([0, *map(len, parts[:-1])]).tolist()
        found = []
        for native in (True, False):
            block = self.allocate(image.nbytes)
            a, b, vector, c, aux = [block.ptr + start * image.itemsize for start in starts]
            one = call._replace(m=M, n=N, k=K, lda=K, ldb=N, ldc=N, a=a, b=b, c=c, accumulate=0, transpose_a=0,
                                transpose_b=0, bias=vector, aux=aux if aux_stride else 0, batch=1, stride_a=0,
                                stride_b=0, stride_c=0)
            self.api.call("cuMemcpyHtoDAsync_v2", block.ptr, image.ctypes.data, image.nbytes, stream)
            if native:
                run(one)
            else:
                run(one._replace(epilogue=0, bias=0, aux=0))
                self.after(stream, one, d, aux_stride)
            result = np.empty_like(image[starts[3]:])
            self.api.call("cuMemcpyDtoHAsync_v2", result.ctypes.data, c, result.nbytes, stream)
            self.api.call("cuStreamSynchronize", stream)
            found.append(result)
        if what & RELU:
            x, y = [result[:M * N].astype(np.float32) for result in found]
            masks = [result[M * N:].tobytes() for result in found]
            return bool(np.array_equal(x, y, equal_nan=True) and masks[0] == masks[1])
        x, y = [result.astype(np.float32) for result in found]
        for values in (x, y):
            lowest = values[1:M * N:N]
            lowest[np.isnan(lowest)] = 0
        return bool(np.allclose(x, y, *TOLERANCE[d.name], equal_nan=True))
