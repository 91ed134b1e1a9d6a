"""Matrix products by cuBLASLt: row-major, batched, with epilogues, for generated code and for Python.

    lt = BlasLt(libraries.load("cublasLt"), driver_api, allocate, load)
    lt.matmul(stream, call)        # `call`: 20 words, the positions below; CudaError
    lt.called(stream, address)     # the same for words in memory, found again by them

cuBLASLt computes column-major: what we call c[m, n] = op(a) @ op(b) is for it the matrix of n rows and m columns
c' = op(b)' @ op(a)', in the same memory. So its A is our b and its B our a, its transpositions are ours, and a bias has
one element for each of its rows: our last axis.

Everything that a product needs but its addresses is a `Plan`, found once for each shape, dtype, strides, epilogue and
alignment of the addresses: descriptors, and the algorithm that the library's heuristic puts first. A repeated call
finds its plan by the words themselves. The way there is Python (some 10 us); inside a graph nothing of it runs.

The workspace is 32 MiB, one for each stream: products of a stream follow each other, so they may share it.

Epilogues are cuBLASLt's numbers. `BGRADA` and `BGRADB` sum op(b) and op(a) over k, to n and to m elements. What `AUX`
writes and the gradients read has rows of `aux_stride` elements: GELU's input is a matrix as c, ReLU's mask has rows of
whole 16 bytes. Where cuBLASLt has no such epilogue (`fits`), finds no algorithm, or does not compute what eager does
(`Composed.alike`), the product is made alone and kernels do the rest (`composed.py`).

By ctypes, because CuPy does not have cuBLASLt, and refuses cuBLAS while a stream is captured.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.driver import precision
from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.codegen.cuda.driver.libraries import CudaError, Functions, Symbols, bind
from jitgrad.codegen.cuda.kernels import composed
from jitgrad.codegen.cuda.kernels.composed import Composed
from jitgrad.cuda.streams import OfStreams

#: dtypes by the number with which a call names them
DTYPES = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
WORKSPACE = 32 << 20

# epilogues
DEFAULT, RELU, BIAS, RELU_BIAS, GELU, GELU_BIAS = 1, 2, 4, 6, 32, 36
RELU_AUX, RELU_AUX_BIAS, DRELU, DRELU_BGRAD = 130, 134, 136, 152
GELU_AUX, GELU_AUX_BIAS, DGELU, DGELU_BGRAD = 160, 164, 192, 208
BGRADA, BGRADB = 256, 512
#: the bit of those that keep something for the backward pass, or read it
MEMORY = 128

# cudaDataType, cublasComputeType_t, and attributes of descriptors
R_32F, R_64F, R_16F, R_16BF = 0, 1, 2, 14
COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32 = 68, 70, 77
TRANS_A, TRANS_B, EPILOGUE, BIAS_POINTER, AUX_POINTER, AUX_STRIDE, AUX_BATCH_STRIDE = 3, 4, 7, 8, 11, 12, 13
BATCH_COUNT, BATCH_STRIDE = 5, 6
MAX_WORKSPACE, ALIGNMENT_A, ALIGNMENT_B, ALIGNMENT_C, ALIGNMENT_D = 1, 5, 6, 7, 8
INVALID_VALUE, NOT_SUPPORTED = 7, 15

_TYPES = (R_32F, R_64F, R_16F, R_16BF)
_Out, _Any = POINTER(c_void_p), c_void_p


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
                ("reserved", c_int * 4))


_SET = (_Any, c_int, _Any, c_size_t)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_Out,),
    "cublasLtDestroy": (_Any,),
    "cublasLtMatmulDescCreate": (_Out, c_int, c_int),
    "cublasLtMatmulDescSetAttribute": _SET,
    "cublasLtMatmulDescDestroy": (_Any,),
    "cublasLtMatrixLayoutCreate": (_Out, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutSetAttribute": _SET,
    "cublasLtMatrixLayoutDestroy": (_Any,),
    "cublasLtMatmulPreferenceCreate": (_Out,),
    "cublasLtMatmulPreferenceSetAttribute": _SET,
    "cublasLtMatmulPreferenceDestroy": (_Any,),
    "cublasLtMatmulAlgoGetHeuristic": (*(_Any,) * 7, c_int, POINTER(Heuristic), POINTER(c_int)),
    "cublasLtMatmul": (*(_Any,) * 14, c_size_t, _Any),
}
#: how many algorithms the heuristic is asked for: the first that works is taken
ASKED = 8
#: calls remembered by all their words; beyond, the memory of them is emptied
REMEMBERED = 4096


class Call(NamedTuple):
    """The words of a product: c[m, n] (+)= op(a)[m, k] @ op(b)[k, n], row-major; strides in elements."""

    dtype: int
    transpose_a: int
    transpose_b: int
    accumulate: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    a: int
    b: int
    c: int
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    epilogue: int = 0
    bias: int = 0
    aux: int = 0


WORDS = len(Call._fields)


def aux_stride(epilogue: int, n: int) -> int:
    """Elements (bits for ReLU's mask) from row to row of what an epilogue stores for the backward pass, 0 for none."""
    if epilogue in (GELU_AUX, GELU_AUX_BIAS, DGELU, DGELU_BGRAD):
        return n
    if epilogue in (RELU_AUX, RELU_AUX_BIAS, DRELU, DRELU_BGRAD):
        return -(-n // 128) * 128
    return 0


def fits(call: Call) -> bool:
    """Whether cuBLASLt has the epilogue of a call, by its documentation.

    Source: cublasLt.h of CUDA 13.0, cublasLtEpilogue_t and cublasLtMatmulDescAttributes_t: the rows of what is kept are
    multiples of 8 elements (GELU) or 128 bits (ReLU), its dtype and the bias's are c's. Addresses are those of whole
    vectors.
    """
    stride = aux_stride(call.epilogue, call.n)
    return bool(call.m and call.n and call.k and call.batch and call.dtype != 1
                and stride % 8 == 0 and not (call.bias | call.aux) % 16
                and (call.batch == 1 or call.epilogue in (BIAS, RELU, RELU_BIAS, GELU, GELU_BIAS)))


def alignment(address: int) -> int:
    """The largest power of two, at most 256, of which an address is a multiple."""
    return min(address & -address, 256) if address else 256


@dataclass
class Plan:
    """A product but for its addresses."""

    description: int
    layouts: tuple[int, int, int]
    alpha: Any
    beta: Any
    algorithm: Any
    workspace: int
    pointers: tuple[int, int] = (0, 0)  # bias and auxiliary output that `description` holds


class Parts(NamedTuple):
    """A product whose epilogue is computed by kernels."""

    plan: Plan | None
    call: Call  # without the epilogue


class BlasLt(Functions):
    """cuBLASLt on the current device. `load` compiles a text of kernels, a handle for each name."""

    def __init__(self, library: Symbols, api: DriverApi, allocate: Callable[[int], Any],
                 load: Callable[[str, Sequence[str]], list[int]]):
        super().__init__(library, SIGNATURES)
        self.api, self.allocate = api, allocate
        self.composed = Composed(api, load, allocate)
        self._proven: dict[tuple[int, int, bool], bool] = {}  # whether an epilogue computes what eager does
        self._status = bind(library, "cublasLtGetStatusName", c_char_p, c_int)
        self._lock = threading.RLock()
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._ready: dict[tuple[bytes, bool], tuple[Plan | Parts | None, Call]] = {}
        self._workspaces: OfStreams[Any] = OfStreams(lambda: allocate(WORKSPACE))
        self._handle = self.made("cublasLtCreate")

    def told(self, code: int) -> tuple[str, str]:
        return (self._status(code) or b"").decode() or f"error {code}", ""

    def _set(self, kind: str, handle: int, attribute: int, value: Any) -> None:
        self.call(f"cublasLt{kind}SetAttribute", handle, attribute, ctypes.byref(value), ctypes.sizeof(value))

    # --- plans ---

    def _layout(self, type_: int, rows: int, columns: int, stride: int, batch: int, batch_stride: int) -> int:
        """`rows` of a matrix as cuBLASLt sees it are consecutive in memory."""
        if columns == 1:
            stride = max(stride, rows)  # the stride of an axis of size 1 is any number
        layout = self.made("cublasLtMatrixLayoutCreate", type_, rows, columns, stride)
        if batch > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, c_int32(batch))
            self._set("MatrixLayout", layout, BATCH_STRIDE, c_int64(batch_stride))
        return layout

    def _describe(self, call: Call, tf32: bool) -> int:
        compute = COMPUTE_64F if call.dtype == 1 else COMPUTE_TF32 if tf32 and call.dtype == 0 else COMPUTE_32F
        made = self.made("cublasLtMatmulDescCreate", compute, R_64F if call.dtype == 1 else R_32F)
        for attribute, transposed in ((TRANS_A, call.transpose_b), (TRANS_B, call.transpose_a)):
            if transposed:
                self._set("MatmulDesc", made, attribute, c_int32(1))
        if call.epilogue > DEFAULT:
            self._set("MatmulDesc", made, EPILOGUE, c_uint32(call.epilogue))
            stride = aux_stride(call.epilogue, call.n)
            if stride:
                self._set("MatmulDesc", made, AUX_STRIDE, c_int64(stride))
                if call.batch > 1:
                    self._set("MatmulDesc", made, AUX_BATCH_STRIDE, c_int64(stride * call.m))
        return made

    def _chosen(self, call: Call, description: int, layouts: tuple[int, int, int]) -> Heuristic:
        """The first algorithm of the heuristic's list that works with these alignments."""
        found, count = (Heuristic * ASKED)(), c_int()
        preference = self.made("cublasLtMatmulPreferenceCreate")
        try:
            self._set("MatmulPreference", preference, MAX_WORKSPACE, c_uint64(WORKSPACE))
            for attribute, address in ((ALIGNMENT_A, call.b), (ALIGNMENT_B, call.a), (ALIGNMENT_C, call.c),
                                       (ALIGNMENT_D, call.c)):
                self._set("MatmulPreference", preference, attribute, c_uint32(alignment(address)))
            a, b, c = layouts
            self.call("cublasLtMatmulAlgoGetHeuristic", self._handle, description, a, b, c, c, preference, ASKED,
                        found, ctypes.byref(count))
        finally:
            self.call("cublasLtMatmulPreferenceDestroy", preference)
        for result in found[:count.value]:
            if not result.state and result.workspace <= WORKSPACE:
                return result
        raise self.error("cublasLtMatmulAlgoGetHeuristic", NOT_SUPPORTED)

    def _point(self, plan: Plan, bias: int, aux: int) -> None:
        if plan.pointers != (bias, aux):
            self._set("MatmulDesc", plan.description, BIAS_POINTER, c_void_p(bias))
            self._set("MatmulDesc", plan.description, AUX_POINTER, c_void_p(aux))
            plan.pointers = (bias, aux)

    def plan(self, call: Call) -> Plan:
        """How to compute a product. CudaError where cuBLASLt cannot."""
        tf32 = precision.allow_tf32
        where = tuple([alignment(x) for x in (call.a, call.b, call.c, call.bias, call.aux)])
        key = (call[:10], call[13:18], where, tf32)
        plan = self._plans.get(key)
        if plan is None:
            type_, made = _TYPES[call.dtype], []
            description = self._describe(call, tf32)
            try:
                # what cuBLASLt calls A is our b; its rows are consecutive, so a matrix of ours has them as columns
                shape_a = (call.n, call.k) if not call.transpose_b else (call.k, call.n)
                shape_b = (call.k, call.m) if not call.transpose_a else (call.m, call.k)
                for (rows, columns), stride, batch_stride in (
                        (shape_a, call.ldb, call.stride_b), (shape_b, call.lda, call.stride_a),
                        ((call.n, call.m), call.ldc, call.stride_c)):
                    made.append(self._layout(type_, rows, columns, stride, call.batch, batch_stride))
                number = c_double if call.dtype == 1 else c_float
                plan = Plan(description, (made[0], made[1], made[2]), number(1), number(1 if call.accumulate else 0),
                            None, 0)
                self._point(plan, call.bias, call.aux)
                chosen = self._chosen(call, description, plan.layouts)
            except CudaError:
                self._release(description, made)
                raise
            plan.algorithm, plan.workspace = chosen.algorithm, chosen.workspace
            self._plans[key] = plan
        return plan

    def _release(self, description: int, layouts: Sequence[int]) -> None:
        self.call("cublasLtMatmulDescDestroy", description)
        for layout in layouts:
            self.call("cublasLtMatrixLayoutDestroy", layout)

    # --- calls ---

    def workspace(self, stream: int) -> int:
        """The address of a stream's workspace."""
        address: int = self._workspaces.of(stream).ptr
        return address

    def prepare(self, stream: int, call: Call) -> None:
        """Find the plan and allocate the workspace, which must not happen while a stream is captured."""
        with self._lock:
            plan = self.way(call, stream)
            if isinstance(plan, Parts):
                self.composed.kernels(DTYPES[call.dtype])
                plan = plan.plan
            if plan is not None:
                self.workspace(stream)

    def matmul(self, stream: int, call: Call, owner: int | None = None) -> None:
        """Compute a product on a stream, with the workspace of the stream `owner` (where a capture will run).

        Raises:
            CudaError: cuBLASLt has no algorithm for it, or fails.
        """
        with self._lock:
            owner = stream if owner is None else owner
            self._run(stream, call, self.way(call, owner), owner)

    def way(self, call: Call, stream: int) -> Plan | Parts | None:
        """How to compute a call: with its epilogue, or the product alone; None where nothing is multiplied."""
        if call.epilogue > DEFAULT:
            if fits(call) and self._is_proven(call, stream):
                try:
                    return self.plan(call)
                except CudaError as error:
                    if error.code not in (INVALID_VALUE, NOT_SUPPORTED):
                        raise
            call = call._replace(epilogue=0, bias=0, aux=0)
            return Parts(self._plain(call), call)
        return self._plain(call)

    def _plain(self, call: Call) -> Plan | None:
        return self.plan(call) if call.m and call.n and call.k and call.batch else None

    def _is_proven(self, call: Call, stream: int) -> bool:
        """Whether cuBLASLt's epilogue computes what eager does. CudaError.

        ReLU and GELU are tried at the first call with them or their gradients. Sums and biases need no trial.
        """
        relu = call.epilogue & (RELU | DRELU) & ~MEMORY
        if not relu and not call.epilogue & (GELU | DGELU) & ~MEMORY:
            return True
        tried = call._replace(epilogue=(RELU_BIAS if relu else GELU_BIAS) | call.epilogue & MEMORY)
        key = (call.dtype, tried.epilogue, precision.allow_tf32)
        found = self._proven.get(key)
        if found is None:
            try:
                found = self.composed.alike(stream, tried, DTYPES[call.dtype], aux_stride(tried.epilogue, composed.N),
                                            lambda trial: self._run(stream, trial, self.plan(trial), stream))
            except CudaError as error:
                if error.code not in (INVALID_VALUE, NOT_SUPPORTED):
                    raise
                found = False
            self._proven[key] = found
        return found

    def _run(self, stream: int, call: Call, plan: Plan | Parts | None, owner: int) -> None:
        if isinstance(plan, Parts):
            self._run(stream, plan.call, plan.plan, owner)
            self.composed.after(stream, call, DTYPES[call.dtype], aux_stride(call.epilogue, call.n))
        elif plan is None:
            self._empty(stream, call)
        else:
            self._point(plan, call.bias, call.aux)
            a, b, c = plan.layouts
            self.call("cublasLtMatmul", self._handle, plan.description, ctypes.byref(plan.alpha), call.b, a, call.a,
                        b, ctypes.byref(plan.beta), call.c, c, call.c, c, plan.algorithm,
                        self.workspace(owner) if plan.workspace else None, plan.workspace, stream)

    def _empty(self, stream: int, call: Call) -> None:
        """Nothing to add up: zeros, unless c is added to."""
        if not call.accumulate and call.m and call.n:
            item = DTYPES[call.dtype].itemsize
            pitch = max(call.ldc, call.n) * item
            for k in range(call.batch):
                self.api.call("cuMemsetD2D8Async", call.c + k * call.stride_c * item, pitch, 0, call.n * item, call.m,
                              stream)

    def called(self, stream: int, words: int) -> None:
        """Compute the product whose words are at an address. CudaError."""
        raw = ctypes.string_at(words, 8 * WORDS)
        key = (raw, precision.allow_tf32)
        with self._lock:
            ready = self._ready.get(key)
            if ready is None:
                call = Call(*memoryview(raw).cast("q"))
                if len(self._ready) >= REMEMBERED:
                    self._ready.clear()
                ready = self._ready[key] = self.way(call, stream), call
            self._run(stream, ready[1], ready[0], stream)

    def close(self) -> None:
        """Give everything back. Nothing may be computed any more."""
        with self._lock:
            for plan in self._plans.values():
                self._release(plan.description, plan.layouts)
            self._plans.clear()
            self._ready.clear()
            self._workspaces.by_handle.clear()
            if self._handle:
                self.call("cublasLtDestroy", self._handle)
                self._handle = 0
