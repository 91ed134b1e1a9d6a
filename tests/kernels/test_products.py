"""Products in native code: every transposition, batch and piece, the same bits on any number of threads."""

import ctypes
import itertools
import os

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.codegen.run import runtime, threads
from jitgrad.kernels import blas, products


@pytest.fixture(autouse=True)
def _as_before():
    before = jitgrad.get_num_threads()
    yield
    jitgrad.set_num_threads(before)


def call(d, a, b, c, sizes, trans_a=False, trans_b=False, accumulate=False, batch=()):
    """`jg_product`: sizes are m, n, k, lda, ldb, ldc; batch has a size and three strides of each axis."""
    gemm = blas.gemm_symbol(d)
    threads.manage_blas(runtime.symbols())
    kind = (trans_a << products.TRANS_A | trans_b << products.TRANS_B | accumulate << products.ACCUMULATE
            | (gemm.kind == "cblas") << products.SHARED | d.itemsize << products.ITEMSIZE)
    name = f"jg_product_{'float' if d is dtypes.float32 else 'double'}_{gemm.int_bits}"
    words = [ctypes.c_void_p, *[ctypes.c_int64] * 11, ctypes.c_void_p]
    axes = np.array(batch, np.int64).ravel()
    ctypes.CFUNCTYPE(None, *words)(runtime.symbols()[name])(
        gemm.address, kind, a.ctypes.data, b.ctypes.data, c.ctypes.data, *sizes, len(batch), axes.ctypes.data)


def numbers(shape, d, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(d.np)


SHAPES = {"small": (3, 5, 4), "rows": (700, 90, 128), "columns": (64, 1001, 257), "long": (40, 72, 5000),
          "vector": (1, 3000, 3000), "many pieces": (2100, 33, 700), "none inside": (300, 200, 0), "empty": (0, 7, 3),
          "edges of tiles": (23, 61, 601), "few columns": (300, 9, 300), "transposed by tiles": (13, 17, 16)}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float64], ids=str)
def test_every_transposition(name, d):
    m, n, k = SHAPES[name]
    a, b, start = numbers((m, k), d), numbers((k, n), d, 1), numbers((m, n), d, 2)
    expected = a @ b  # small integers: exact in any order
    jitgrad.set_num_threads(2)
    for trans_a, trans_b, accumulate in itertools.product((False, True), repeat=3):
        stored_a, stored_b = (np.ascontiguousarray(v.T) if t else v for v, t in ((a, trans_a), (b, trans_b)))
        c = start.copy()
        call(d, stored_a, stored_b, c, (m, n, k, stored_a.shape[1], stored_b.shape[1], n), trans_a, trans_b, accumulate)
        np.testing.assert_array_equal(c, expected + start if accumulate else expected)


def test_a_product_of_part_of_a_matrix():
    d = dtypes.float32
    a, b, c = numbers((400, 300), d), numbers((250, 500), d, 1), np.zeros((400, 450), np.float32)
    call(d, a, b, c, (400, 420, 250, 300, 500, 450))
    np.testing.assert_array_equal(c[:, :420], a[:, :250] @ b[:, :420])
    assert not c[:, 420:].any()


@pytest.mark.parametrize("size", [(3, 5, 4), (96, 80, 70), (300, 280, 200)], ids=str)
@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.int64], ids=str)
def test_batches(size, d):
    m, n, k = size if d.name.startswith(("float32", "float64")) else (3, 5, 4)
    a, b = numbers((4, 3, m, k), d), numbers((3, k, n), d, 1)
    c = np.empty((4, 3, m, n), d.np)
    jitgrad.set_num_threads(3)
    call(d, a, b, c, (m, n, k, k, n, n), batch=((4, 3 * m * k, 0, 3 * m * n), (3, m * k, k * n, m * n)))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("size", [(3, 5, 4), (96, 80, 70), (300, 280, 200)], ids=str)
def test_items_that_are_added_up(size):
    m, n, k = size
    d = dtypes.float32
    a, b = np.random.default_rng(0).normal(size=(6, m, k)), np.random.default_rng(1).normal(size=(6, k, n))
    found = []
    for count in (1, 2, 4):
        jitgrad.set_num_threads(count)
        c = np.zeros((m, n), np.float32)
        call(d, a.astype(np.float32), b.astype(np.float32), c, (m, n, k, k, n, n), accumulate=True,
             batch=((6, m * k, k * n, 0),))
        found.append(c)
    np.testing.assert_allclose(found[0], (a @ b).sum(0), rtol=1e-4, atol=1e-3)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_a_batch_of_none():
    c = np.full(4, 7, np.float32)
    call(dtypes.float32, c, c, c, (2, 2, 2, 2, 2, 2), batch=((0, 4, 4, 4),))
    assert (c == 7).all()


@pytest.mark.parametrize("shapes", [((64, 1000), (1000, 100)), ((513, 300), (300, 257)), ((9, 130, 120), (9, 120, 110)),
                                    ((40, 6000), (6000, 72))], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_on_any_number_of_threads(shapes, dtype):
    def function(a, b):
        return (a @ b).tanh()

    f = jitgrad.script(function)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    found = []
    for count in (1, 2, 3):
        jitgrad.set_num_threads(count)
        a, b = (jitgrad.from_numpy(v).requires_grad_() for v in given)
        y = f(a, b)
        y.sum().backward()
        found.append([v.detach().numpy().tobytes() for v in (y, a.grad, b.grad)])
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(y.detach().numpy(), np.tanh(given[0] @ given[1]), rtol=1e-3, atol=1e-3)


def _blas_threads():
    control = blas.thread_control()
    if control is None:
        pytest.skip("this BLAS has no control of its threads")
    return ctypes.CFUNCTYPE(ctypes.c_int)(control[1])()


def test_the_blas_has_its_threads_again():
    jitgrad.set_num_threads(2)
    before = _blas_threads()
    f = jitgrad.script(lambda a: a @ a)
    a = jitgrad.ones(300, 300)
    assert f(a).sum().item() == 300 ** 3
    assert _blas_threads() == before


def test_a_number_from_the_environment(monkeypatch):
    jitgrad.script(lambda a: a @ a)(jitgrad.ones(3, 3))
    before = _blas_threads()
    monkeypatch.setattr(threads._Control, "asked", 0)
    monkeypatch.setattr(threads._Control, "manages_blas", False)
    with jitgrad.config.override(num_threads=1):
        threads.manage_blas(runtime.symbols())
    assert _blas_threads() == 1
    blas.set_threads(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_multiplies():
    jitgrad.set_num_threads(2)
    f = jitgrad.script(lambda a: a @ a)
    a = jitgrad.ones(300, 300)
    f(a)
    child = os.fork()
    if not child:
        os._exit(0 if all(f(a).sum().item() == 300 ** 3 for _ in range(3)) else 1)
    assert os.waitpid(child, 0)[1] == 0
