"""A cuBLASLt that computes on the host, column-major and by its descriptors, as NVIDIA's documentation says."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jitgrad.codegen.cuda.driver import blaslt
from tests.codegen.cuda.fakecuda import FakeLibrary

#: bfloat16 is kept as the words that hold it
NUMPY = {blaslt.R_32F: np.float32, blaslt.R_64F: np.float64, blaslt.R_16F: np.float16, blaslt.R_16BF: np.uint16}
STATUS = {7: b"CUBLAS_STATUS_INVALID_VALUE", 13: b"CUBLAS_STATUS_EXECUTION_FAILED",
          15: b"CUBLAS_STATUS_NOT_SUPPORTED"}
DESTROYERS = {f"cublasLt{kind}Destroy": "" for kind in ("", "MatmulDesc", "MatrixLayout", "MatmulPreference")}
SIZES = {blaslt.TRANS_A: 4, blaslt.TRANS_B: 4, blaslt.EPILOGUE: 4, blaslt.BIAS_POINTER: 8, blaslt.AUX_POINTER: 8,
         blaslt.AUX_STRIDE: 8, blaslt.AUX_BATCH_STRIDE: 8}


def wide(x: np.ndarray) -> np.ndarray:
    """The numbers of a matrix in float64."""
    return ((x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x).astype(np.float64)


def narrow(x: np.ndarray, d: np.dtype) -> np.ndarray:
    """Numbers as a matrix keeps them, rounded to the nearest, ties to even."""
    if d != np.uint16:
        return x.astype(d)
    words = x.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(x), 0x7FC0, (words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class FakeBlas(FakeLibrary):
    """Plans are checked for what the real library would refuse; `algorithms` are what the heuristic finds."""

    def __init__(self) -> None:
        super().__init__(blaslt.SIGNATURES, destroyers=DESTROYERS)
        self.attributes: dict[int, dict[int, int]] = {}
        self.made: dict[int, tuple[Any, ...]] = {}
        self.algorithms = [(0, 0)]  # (state, workspace) of each
        self.products: list[tuple[Any, ...]] = []
        self.result = 0
        self.passes_nan = True  # whether the mask of ReLU lets the gradient at NaN pass, as eager does
        self.refused: set[int] = set()  # epilogues for which there is no algorithm
        self.handlers = {
            "cublasLtMatmulDescCreate": self.make("MatmulDesc"), "cublasLtMatrixLayoutCreate": self.make("Layout"),
            "cublasLtMatmulPreferenceCreate": self.make("Preference"),
            "cublasLtMatmulDescSetAttribute": self.set, "cublasLtMatrixLayoutSetAttribute": self.set,
            "cublasLtMatmulPreferenceSetAttribute": self.set,
            "cublasLtMatmulAlgoGetHeuristic": self.choose, "cublasLtMatmul": self.multiply}
        texts = {code: ctypes.c_char_p(text) for code, text in STATUS.items()}
        self._names = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(
            lambda code: ctypes.cast(texts.get(code, texts[15]), ctypes.c_void_p).value)

    def address(self, symbol: str) -> int:
        if symbol == "cublasLtGetStatusName":
            return ctypes.cast(self._names, ctypes.c_void_p).value or 0
        return super().address(symbol)

    def make(self, kind: str):
        def handler(place, *arguments):
            place[0] = handle = self.fresh(kind)
            self.made[handle], self.attributes[handle] = arguments, {}
        return handler

    def set(self, handle, attribute, value, size):
        if self.alive[handle] == "MatmulDesc":
            assert size == SIZES[attribute]
        self.attributes[handle][attribute] = int.from_bytes(ctypes.string_at(value, size), "little", signed=True)

    def choose(self, handle, description, a, b, c, d, preference, asked, results, count):
        for layout in (a, b, c):
            _, rows, columns, stride = self.made[layout]
            if stride < rows and columns > 0:
                return blaslt.INVALID_VALUE
        if not self.has(self.attributes[description], *[self.made[x] for x in (a, b, c)],
                        self.attributes[c].get(blaslt.BATCH_COUNT, 1)):
            count[0] = 0
            return blaslt.NOT_SUPPORTED
        count[0] = len(self.algorithms)
        for k, (state, workspace) in enumerate(self.algorithms):
            results[k].state, results[k].workspace, results[k].algorithm[0] = state, workspace, 100 + k
        return 0

    def has(self, more, a, b, c, batch):
        """Whether there is an epilogue for such matrices: NVIDIA's documentation of cublasLtEpilogue_t."""
        epilogue = more.get(blaslt.EPILOGUE, 1)
        if epilogue == 1:
            return True
        rows, stride = c[1], more.get(blaslt.AUX_STRIDE, 0)
        bias, aux = (more.get(k, 0) for k in (blaslt.BIAS_POINTER, blaslt.AUX_POINTER))
        if epilogue in self.refused or a[0] == blaslt.R_64F or (bias | aux) % 16:
            return False
        if epilogue & (4 | 16 | 768) and not bias:
            return False
        if epilogue & 128 and (not aux or stride < rows or stride % (128 if epilogue & 10 else 8)):
            return False
        return batch == 1 or not epilogue & (16 | 128 | 768)

    def matrices(self, address, layout, transposed):
        """(batch, rows, columns) of a column-major matrix."""
        type_, rows, columns, stride = self.made[layout]
        more = self.attributes[layout]
        batch, step = more.get(blaslt.BATCH_COUNT, 1), more.get(blaslt.BATCH_STRIDE, 0)
        d = np.dtype(NUMPY[type_])
        count = (batch - 1) * step + (columns - 1) * stride + rows
        flat = np.frombuffer((ctypes.c_char * (count * d.itemsize)).from_address(address), d)
        view = np.lib.stride_tricks.as_strided(flat, (batch, rows, columns),
                                               (step * d.itemsize, d.itemsize, stride * d.itemsize))
        return view.transpose(0, 2, 1) if transposed else view

    def multiply(self, handle, description, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, workspace, size,
                 stream):
        assert (c, lc) == (d, ld)
        self.products.append((algorithm and ctypes.cast(algorithm, ctypes.POINTER(ctypes.c_uint64))[0], workspace,
                              size, stream))
        if self.result:
            return self.result
        _, scale = self.made[description]
        more = self.attributes[description]
        number = ctypes.c_double if scale == blaslt.R_64F else ctypes.c_float
        x = wide(self.matrices(a, la, more.get(blaslt.TRANS_A)))
        y = wide(self.matrices(b, lb, more.get(blaslt.TRANS_B)))
        out = self.matrices(c, lc, 0)
        with np.errstate(all="ignore"):
            total = number.from_address(alpha).value * (x @ y)
            if number.from_address(beta).value:  # what is there is not read otherwise
                total = total + number.from_address(beta).value * wide(out)
            out[...] = narrow(self.finished(total, more, out.dtype, x, y), out.dtype)
        return 0

    def finished(self, total, more, d, x, y):
        """What an epilogue makes of the product (batch, rows, columns); it has the bias along the rows."""
        epilogue = more.get(blaslt.EPILOGUE, 1)
        rows, columns = total.shape[1:]

        def vector(count):
            return np.frombuffer((ctypes.c_char * (count * d.itemsize)).from_address(more[blaslt.BIAS_POINTER]), d)

        if epilogue in (blaslt.BGRADA, blaslt.BGRADB):
            axis, of = (2, x) if epilogue == blaslt.BGRADA else (1, y)
            vector(rows if epilogue == blaslt.BGRADA else columns)[...] = narrow(of.sum(axis=axis)[0], d)
            return total
        if epilogue & 4:
            total = total + wide(vector(rows))[:, None]
        if epilogue & 128:
            masks = epilogue in (blaslt.RELU_AUX, blaslt.RELU_AUX_BIAS, blaslt.DRELU, blaslt.DRELU_BGRAD)
            stride = more[blaslt.AUX_STRIDE]
            size = stride * columns // 8 if masks else stride * columns * d.itemsize
            aux = np.frombuffer((ctypes.c_char * size).from_address(more[blaslt.AUX_POINTER]), np.uint8 if masks else d)
            aux = aux.reshape(columns, -1)
            if epilogue & 2:
                passed = ~(total[0].T <= 0) if self.passes_nan else total[0].T > 0
                aux[:, :-(-rows // 8)] = np.packbits(passed, axis=1, bitorder="little")
            elif epilogue & 32:
                aux[:, :rows] = narrow(total[0].T, d)
            elif masks:
                total = np.where(np.unpackbits(aux, axis=1, bitorder="little")[:, :rows].T, total, 0)
            else:
                before = wide(aux[:, :rows].T)
                total = total * (gelu(before + 1e-6) - gelu(before - 1e-6)) / 2e-6
            if epilogue & 16:
                vector(rows)[...] = narrow(total.sum(axis=2)[0], d)
        if epilogue & 2:
            total = np.maximum(total, 0)
        return gelu(total) if epilogue & 32 else total
