"""Matrix products by cuBLASLt: row-major meaning, what is asked of the library, and what is given back."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from jitgrad.codegen.cuda.driver import blaslt, libraries, precision
from jitgrad.codegen.cuda.driver.blaslt import BlasLt, Call
from jitgrad.codegen.cuda.driver.driverapi import DriverApi
from jitgrad.codegen.cuda.driver.libraries import CudaError
from tests.codegen.cuda.fakeblas import FakeBlas, gelu
from tests.codegen.cuda.fakecuda import fake_driver

rng = np.random.default_rng(0)
DTYPES = {"float32": 0, "float64": 1, "float16": 2}


class Case:
    """A BlasLt on call-backs; all that it made must be given back."""

    def __init__(self) -> None:
        self.library, self.driver = FakeBlas(), fake_driver({"cuMemsetD2D8Async": self.clear})
        self.allocated: list[int] = []
        self.lt = BlasLt(self.library, DriverApi(self.driver), self.allocate, lambda source, names: [])
        self.after: list[Call] = []  # what kernels are to do
        self.lt.composed = SimpleNamespace(alike=lambda *_: True, kernels=lambda d: [],
                                           after=lambda stream, call, *_: self.after.append(call))

    def allocate(self, size: int) -> SimpleNamespace:
        self.allocated.append(size)
        return SimpleNamespace(ptr=0x700000 + len(self.allocated))

    def clear(self, address, pitch, value, width, height, stream):
        for row in range(height):
            ctypes.memset(address + row * pitch, value, width)

    def called(self, stream: int, call: Call) -> None:
        words = (ctypes.c_int64 * 20)(*call)
        self.lt.called(stream, ctypes.addressof(words))


@pytest.fixture
def case():
    made = Case()
    yield made
    made.lt.close()
    made.lt.close()
    assert not made.library.alive


def matrix(d, rows, columns, transposed=False, padding=0, batch=()):
    """Random values in memory with `padding` elements after each row; the matrix as it is meant, and its row stride."""
    shape = (columns, rows) if transposed else (rows, columns)
    memory = rng.standard_normal((*batch, shape[0], shape[1] + padding)).astype(d)
    stored = memory[..., :shape[1]]
    return memory, (stored.swapaxes(-1, -2) if transposed else stored), shape[1] + padding


def aligned(x):
    """A copy at an address that is a multiple of 256."""
    memory = np.empty(x.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    made = memory[start:start + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def tolerance(d):
    return {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}[d]


@pytest.mark.parametrize("d", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_row_major_products(case, d, ta, tb, accumulate):
    for m, n, k in ((3, 5, 4), (1, 5, 4), (3, 1, 4), (3, 5, 1), (1, 1, 1)):
        memory_a, a, lda = matrix(d, m, k, ta, padding=1)
        memory_b, b, ldb = matrix(d, k, n, tb, padding=2)
        memory_c, c, ldc = matrix(d, m, n, padding=3)
        expected = a.astype("float64") @ b.astype("float64") + (c if accumulate else 0)
        rest = memory_c[:, n:].copy()
        case.lt.matmul(7, Call(DTYPES[d], ta, tb, accumulate, m, n, k, lda, ldb, ldc, memory_a.ctypes.data,
                               memory_b.ctypes.data, memory_c.ctypes.data))
        np.testing.assert_allclose(c, expected, rtol=tolerance(d), atol=tolerance(d))
        np.testing.assert_array_equal(memory_c[:, n:], rest)


def test_batches(case):
    memory_a, a, lda = matrix("float32", 3, 4, True, batch=(5,))
    memory_b, b, ldb = matrix("float32", 4, 6)
    memory_c, c, ldc = matrix("float32", 3, 6, padding=1, batch=(5,))
    case.lt.matmul(0, Call(0, 1, 0, 0, 3, 6, 4, lda, ldb, ldc, memory_a.ctypes.data, memory_b.ctypes.data,
                           memory_c.ctypes.data, 5, memory_a[0].size, 0, memory_c[0].size))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize(("epilogue", "activation", "biased"), [
    (blaslt.BIAS, lambda x: x, True), (blaslt.RELU, lambda x: np.maximum(x, 0), False),
    (blaslt.RELU_BIAS, lambda x: np.maximum(x, 0), True), (blaslt.GELU_BIAS, gelu, True),
    (blaslt.GELU_AUX_BIAS, gelu, True)])
def test_epilogues(case, epilogue, activation, biased):
    memory_a, a, lda = matrix("float32", 3, 4)
    memory_b, b, ldb = matrix("float32", 4, 8)
    memory_c, c, ldc = matrix("float32", 3, 8)
    bias = aligned(rng.standard_normal(8).astype("float32"))
    aux = aligned(np.zeros((3, 8), "float32"))
    case.lt.matmul(0, Call(0, 0, 0, 0, 3, 8, 4, lda, ldb, ldc, memory_a.ctypes.data, memory_b.ctypes.data,
                           memory_c.ctypes.data, epilogue=epilogue, bias=bias.ctypes.data, aux=aux.ctypes.data))
    assert not case.after
    before = a @ b + (bias if biased else 0)
    np.testing.assert_allclose(c, activation(before), rtol=1e-5, atol=1e-6)
    if epilogue & 128:
        np.testing.assert_allclose(aux, before, rtol=1e-5, atol=1e-6)


def test_rows_of_what_is_kept():
    assert blaslt.aux_stride(blaslt.RELU_AUX_BIAS, 130) == 256
    assert blaslt.aux_stride(blaslt.GELU_AUX_BIAS, 130) == blaslt.aux_stride(blaslt.DGELU, 130) == 130
    assert blaslt.aux_stride(blaslt.BIAS, 130) == 0


def test_epilogues_that_there_are():
    good = Call(0, 0, 0, 0, 8, 16, 4, 4, 16, 16, 256, 512, 768, epilogue=blaslt.GELU_AUX_BIAS, bias=1024, aux=2048)
    assert blaslt.fits(good)
    for change in ({"n": 12}, {"bias": 1028}, {"aux": 2050}, {"k": 0}, {"m": 0}, {"dtype": 1}, {"batch": 2}):
        assert not blaslt.fits(good._replace(**change)), change
    masked = good._replace(epilogue=blaslt.RELU_AUX_BIAS, n=12, ldb=12, ldc=12)  # rows of 128 bits whatever n is
    assert blaslt.fits(masked)
    assert blaslt.fits(good._replace(epilogue=blaslt.RELU_BIAS, aux=0, batch=2, n=3))


def test_what_the_library_has_not_is_left_to_kernels(case):
    call, _kept = small_call(epilogue=blaslt.RELU, n=2)
    case.library.refused = {blaslt.RELU}
    case.called(0, call)
    assert case.after == [call]
    assert case.library.names().count("cublasLtMatmul") == 1
    case.lt.composed.alike = lambda *_: False
    other = call._replace(epilogue=blaslt.GELU)
    for _ in range(2):
        case.called(0, other)
    assert case.after == [call, other, other]


def test_nothing_to_add_up(case):
    memory, c, ldc = matrix("float64", 2, 3, padding=2, batch=(2,))
    rest = memory[..., 3:].copy()
    call = Call(1, 0, 0, 1, 2, 3, 0, 1, 3, ldc, 0, 0, memory.ctypes.data, 2, 0, 0, memory[0].size)
    before = c.copy()
    case.called(0, call)
    np.testing.assert_array_equal(c, before)
    case.called(0, call._replace(accumulate=0))
    np.testing.assert_array_equal(c, 0)
    np.testing.assert_array_equal(memory[..., 3:], rest)
    case.called(0, call._replace(m=0))
    biased = call._replace(dtype=0, accumulate=0, epilogue=blaslt.BIAS)
    case.called(0, biased)
    assert case.after == [biased]
    assert "cublasLtMatmul" not in case.library.names()


def small_call(**more):
    arrays = [np.zeros(64, "float32") for _ in range(3)]
    a, b, c = ((x.ctypes.data + 15) & -16 for x in arrays)
    call = Call(0, 0, 0, 0, 2, 2, 2, 2, 2, 2, a, b, c)._replace(**more)
    return call, arrays


def test_a_repeated_call_asks_nothing(case):
    call, _kept = small_call()
    for _ in range(3):
        case.called(5, call)
    case.called(6, call)
    assert case.library.names().count("cublasLtMatmulAlgoGetHeuristic") == 1
    assert case.library.names().count("cublasLtMatmul") == 4
    assert case.allocated == []  # this algorithm needs no workspace


def test_a_plan_is_for_shape_and_alignment(case):
    call, _kept = small_call(a=1 << 20, b=1 << 21, c=1 << 22)
    plan = case.lt.plan(call)
    assert case.lt.plan(call._replace(a=(1 << 20) + 512)) is plan
    assert case.lt.plan(call._replace(a=(1 << 20) + 4)) is not plan
    assert case.lt.plan(call._replace(accumulate=1)) is not plan
    assert case.lt.plan(call._replace(m=1)) is not plan
    precision.set_allow_tf32(True)
    try:
        assert case.lt.plan(call) is not plan
        assert case.library.made[case.lt.plan(call).description] == (blaslt.COMPUTE_TF32, blaslt.R_32F)
    finally:
        precision.set_allow_tf32(False)
    assert case.lt.plan(call) is plan
    assert case.library.made[plan.description] == (blaslt.COMPUTE_32F, blaslt.R_32F)


def test_alignments_reach_the_heuristic(case):
    seen = []
    choose = case.library.handlers["cublasLtMatmulAlgoGetHeuristic"]

    def watch(*arguments):
        seen.append(dict(case.library.attributes[arguments[6]]))
        return choose(*arguments)

    case.library.handlers["cublasLtMatmulAlgoGetHeuristic"] = watch
    case.lt.plan(small_call(a=0x1004, b=0x1010, c=0x1200)[0])
    assert seen == [{blaslt.MAX_WORKSPACE: 32 << 20, blaslt.ALIGNMENT_A: 16, blaslt.ALIGNMENT_B: 4,
                     blaslt.ALIGNMENT_C: 256, blaslt.ALIGNMENT_D: 256}]


def test_the_first_algorithm_that_works_and_a_workspace_for_each_stream(case):
    case.library.algorithms = [(15, 0), (0, 64 << 20), (0, 1 << 20)]
    call, _kept = small_call()
    for stream in (5, 5, 6):
        case.called(stream, call)
    case.lt.matmul(99, call, owner=6)
    workspaces = [0x700001, 0x700001, 0x700002, 0x700002]
    assert case.library.products == [(102, w, 1 << 20, s) for w, s in zip(workspaces, (5, 5, 6, 99), strict=True)]
    assert case.allocated == [32 << 20] * 2


def test_prepared_before_a_capture(case):
    case.library.algorithms = [(0, 512)]
    call, _kept = small_call()
    case.lt.prepare(5, call)
    assert case.allocated == [32 << 20]
    made = len(case.library.calls)
    case.lt.matmul(5, call)
    assert case.library.names()[made:] == ["cublasLtMatmul"]


def test_pointers_of_an_epilogue_are_set_where_they_differ(case):
    vectors = np.zeros((3, 64), "float32")
    places = [(v.ctypes.data + 255) & -256 for v in vectors]
    call, _kept = small_call(epilogue=blaslt.BIAS, bias=places[0])
    for place in (places[0], places[0], places[1], places[0]):
        case.called(0, call._replace(bias=place))
    sets = [c for n, c in case.library.calls if n == "cublasLtMatmulDescSetAttribute" and c[1] == blaslt.BIAS_POINTER]
    assert len(sets) == 3


def test_errors_have_their_names(case):
    case.library.algorithms = []
    call, _kept = small_call()
    with pytest.raises(CudaError, match="cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"):
        case.lt.matmul(0, call)
    assert set(case.library.alive.values()) == {"cublasLtCreate"}
    with pytest.raises(CudaError, match="cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"):
        case.called(0, call)
    case.library.algorithms, case.library.result = [(0, 0)], 13
    with pytest.raises(CudaError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
        case.called(0, call)


def test_memory_of_calls_is_bounded(case, monkeypatch):
    monkeypatch.setattr(blaslt, "REMEMBERED", 4)
    call, _kept = small_call()
    arrays = np.zeros((20, 64), "float32")
    for row in arrays:
        case.called(0, call._replace(a=(row.ctypes.data + 255) & -256))
        assert len(case.lt._ready) <= 4


def test_the_real_library_takes_our_descriptors():
    """Without a GPU there is no handle, but descriptors check sizes and attributes."""
    try:
        library = libraries.load("cublasLt")
    except RuntimeError as error:
        pytest.skip(str(error))
    lt = object.__new__(BlasLt)
    libraries.Functions.__init__(lt, library, blaslt.SIGNATURES)
    lt._status = libraries.bind(library, "cublasLtGetStatusName", ctypes.c_char_p, ctypes.c_int)
    call = Call(3, 1, 1, 0, 6, 5, 4, 6, 4, 8, 0, 0, 0, 3, 24, 20, 48, blaslt.GELU_AUX_BIAS, 512, 1024)
    for which in (call, call._replace(dtype=1, epilogue=0), call._replace(dtype=0, batch=1, epilogue=blaslt.DRELU)):
        description = lt._describe(which, True)
        lt._point(SimpleNamespace(description=description, pointers=(0, 0)), 512, 1024)
        layouts = [lt._layout(blaslt._TYPES[which.dtype], 5, 6, 8, which.batch, 48)]
        lt._release(description, layouts)
    with pytest.raises(CudaError, match="cublasLtMatrixLayoutSetAttribute: CUBLAS_STATUS_INVALID_VALUE"):
        lt._set("MatrixLayout", lt._layout(0, 5, 6, 8, 1, 0), blaslt.BATCH_COUNT, ctypes.c_int64(3))
