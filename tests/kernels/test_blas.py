"""The matrix product that native code calls, for every dtype, transposition and the call-back in its place."""

import ctypes
import io
from pathlib import Path

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.kernels import blas

NUMERIC = [d for d in dtypes.REALS if d is not dtypes.bool_]


def call(gemm, d, trans_a, trans_b, a, b, c, beta):
    integer = ctypes.c_int64 if gemm.int_bits == 64 else ctypes.c_int32
    scalar = ctypes.c_float if d is dtypes.float32 else ctypes.c_double
    i32, pointer = ctypes.c_int32, ctypes.c_void_p
    function = ctypes.CFUNCTYPE(None, i32, i32, i32, integer, integer, integer, scalar, pointer, integer, pointer,
                                integer, scalar, pointer, integer)(gemm.address)
    m, n = c.shape
    k = a.shape[0] if trans_a == blas.TRANS else a.shape[1]
    function(blas.ROW_MAJOR, trans_a, trans_b, m, n, k, 1.0, a.ctypes.data, a.shape[1], b.ctypes.data, b.shape[1], beta,
             c.ctypes.data, c.shape[1])


def random(rng, shape, d):
    if d.is_floating_point:
        return rng.standard_normal(shape).astype(d.np)
    return rng.integers(-3 if d.is_signed else 0, 4, shape).astype(d.np)


@pytest.mark.parametrize("d", NUMERIC, ids=lambda d: d.name)
@pytest.mark.parametrize("kind", ["found", "callback"])
@pytest.mark.parametrize("trans_a", [blas.NO_TRANS, blas.TRANS])
@pytest.mark.parametrize("trans_b", [blas.NO_TRANS, blas.TRANS])
def test_gemm(d, kind, trans_a, trans_b):
    rng = np.random.default_rng(0)
    gemm = blas.gemm_symbol(d) if kind == "found" else blas._callback(d)
    m, k, n = 5, 7, 3
    a, b = random(rng, (m, k), d), random(rng, (k, n), d)
    stored_a = np.ascontiguousarray(a.T) if trans_a == blas.TRANS else a
    stored_b = np.ascontiguousarray(b.T) if trans_b == blas.TRANS else b
    start = random(rng, (m, n), d)
    wide = np.float64 if d.is_floating_point else np.int64
    tolerance = {"float16": 4e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 4e-15}.get(d.name, 0)
    for beta in (0.0, 1.0):
        c = start.copy()
        call(gemm, d, trans_a, trans_b, stored_a, stored_b, c, beta)
        expected = a.astype(wide) @ b.astype(wide) + int(beta) * start.astype(wide)
        if not d.is_floating_point:
            expected = expected.astype(d.np)
        np.testing.assert_allclose(c.astype(wide), expected.astype(wide), atol=tolerance * 8, rtol=tolerance)


def test_rows_farther_apart_than_their_length():
    a = np.arange(12.0).reshape(3, 4)
    view = blas.matrix(a.ctypes.data, 3, 2, 4, dtypes.float64)
    np.testing.assert_array_equal(view, a[:, :2])


@pytest.mark.parametrize("kind", ["found", "callback"])
def test_no_rows_and_no_inner_axis(kind):
    d = dtypes.float32
    gemm = blas.gemm_symbol(d) if kind == "found" else blas._callback(d)
    c = np.full((2, 3), 7, np.float32)
    integer = ctypes.c_int64 if gemm.int_bits == 64 else ctypes.c_int32
    i32, pointer, scalar = ctypes.c_int32, ctypes.c_void_p, ctypes.c_float
    function = ctypes.CFUNCTYPE(None, i32, i32, i32, integer, integer, integer, scalar, pointer, integer, pointer,
                                integer, scalar, pointer, integer)(gemm.address)
    function(blas.ROW_MAJOR, blas.NO_TRANS, blas.NO_TRANS, 2, 3, 0, 1.0, c.ctypes.data, 1, c.ctypes.data, 3, 0.0,
             c.ctypes.data, 3)
    np.testing.assert_array_equal(c, 0)
    function(blas.ROW_MAJOR, blas.NO_TRANS, blas.NO_TRANS, 0, 3, 4, 1.0, c.ctypes.data, 4, c.ctypes.data, 3, 0.0,
             c.ctypes.data, 3)


def test_threads_can_be_set():
    control = blas.thread_control()
    if control is None:
        pytest.skip("this BLAS has no control of its threads")
    setter = ctypes.CFUNCTYPE(None, ctypes.c_int)(control[0])
    getter = ctypes.CFUNCTYPE(ctypes.c_int)(control[1])
    before = getter()
    setter(1)
    assert getter() == 1
    setter(before)
    assert getter() == before


def test_set_threads():
    control = blas.thread_control()
    if control is None:
        pytest.skip("this BLAS has no control of its threads")
    getter = ctypes.CFUNCTYPE(ctypes.c_int)(control[1])
    before = getter()
    blas.set_threads(1)
    assert getter() == 1
    blas.set_threads(before)


def test_numpys_own_blas_comes_first(monkeypatch):
    packages = Path(np.__file__).parent.parent
    foreign, system = packages / "other.libs" / "libopenblas.so", Path("/usr/lib/libopenblas.so.0")
    own = packages / "numpy.libs" / "libscipy_openblas64_-1.so"
    lines = "".join(f"7f00-7f01 r-xp 00000000 08:01 12 {p}\n" for p in (foreign, system, own))
    monkeypatch.setattr(blas, "open", lambda *_, **__: io.StringIO(lines), raising=False)
    assert list(blas._loaded_libraries())[:3] == [str(own), str(system), str(foreign)]
