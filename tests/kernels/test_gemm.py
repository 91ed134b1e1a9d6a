"""Products by tiles: edges, transpositions, leading dimensions, for vectors of every machine."""

import ctypes
import itertools

import numpy as np
import pytest

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime
from jitgrad.kernels import products
from jitgrad.kernels.tiled.gemm import DEPTH, Gemm

DTYPES = {"float32": np.float32, "float64": np.float64}


def compiled(name, vector_bytes, has_fma=True):
    text = Gemm(name, vector_bytes, has_fma, vector_bytes == 64).text()
    loaded = engine.load(engine.compile_module(text), runtime.symbols(), [products.TILED + name, products.PACK + name])
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 7)
    return loaded, signature(loaded.address(products.TILED + name))


def check(function, dtype, m, n, k, trans_a, trans_b, more, pad):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    stored = []
    for matrix, turned in ((a, trans_a), (b, trans_b)):
        rows = matrix.T if turned else matrix
        wide = np.full((rows.shape[0], rows.shape[1] + pad), np.nan, dtype)
        wide[:, :rows.shape[1]] = rows
        stored.append(wide)
    c = np.full((m + 1, n + pad), 7, dtype)
    kind = trans_a << products.TRANS_A | trans_b << products.TRANS_B | more << products.ACCUMULATE
    function(stored[0].ctypes.data, stored[1].ctypes.data, c.ctypes.data, m, n, k, stored[0].shape[1],
             stored[1].shape[1], c.shape[1], kind)
    np.testing.assert_array_equal(c[:m, :n], a @ b + (7 if more else 0))  # small integers: exact in any order
    assert (c[m:] == 7).all()
    assert (c[:, n:] == 7).all()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_every_edge(name, vector_bytes):
    if vector_bytes > engine.host().vector_bytes:
        pytest.skip("this machine's vectors are narrower")
    loaded, function = compiled(name, vector_bytes, has_fma=vector_bytes > 16 and engine.host().has_fma)
    sizes = [(1, 1, 1), (8, 48, 5), (9, 49, 3), (15, 31, DEPTH + 1), (21, 100, 2 * DEPTH), (40, 7, 40)]
    for (m, n, k), trans_a, trans_b, more in itertools.product(sizes, *[(False, True)] * 3):
        check(function, DTYPES[name], m, n, k, trans_a, trans_b, more, pad=(m + k) % 3)
    del loaded


def test_bits_do_not_depend_on_the_cut():
    _loaded, function = compiled("float32", engine.host().vector_bytes)
    m, n, k = 37, 75, 3 * DEPTH // 2
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
    whole, parts = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    function(a.ctypes.data, b.ctypes.data, whole.ctypes.data, m, n, k, k, n, n, 0)
    for i, j in itertools.product((0, 3, 20), (0, 16, 21)):
        rows, columns = (3 if i == 0 else 17), ((16 if j == 0 else 5) if j < 21 else n - 21)
        function(a.ctypes.data + 4 * i * k, b.ctypes.data + 4 * j, parts.ctypes.data + 4 * (i * n + j), rows, columns,
                 k, k, n, n, 0)
    assert whole.tobytes() == parts.tobytes()


@pytest.mark.parametrize("name", DTYPES)
def test_a_packed_operand_gives_the_same_bits(name):
    loaded, function = compiled(name, engine.host().vector_bytes)
    m, n, k, lda = 45, 150, DEPTH + 40, 51
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(DTYPES[name]) for shape in ((k, lda), (k, n)))
    packed, as_it_is, found = np.full(m * k, np.nan, a.dtype), np.empty((m, n), a.dtype), np.empty((m, n), a.dtype)
    pack = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2)(loaded.address(products.PACK + name))
    words = np.array([packed.ctypes.data, a.ctypes.data, k, lda])
    for begin, end in ((0, 16), (16, m)):
        pack(words.ctypes.data, begin, end)
    assert sorted(packed) == sorted(a[:, :m].ravel())
    kind = 1 << products.TRANS_A
    function(a.ctypes.data, b.ctypes.data, as_it_is.ctypes.data, m, n, k, lda, n, n, kind)
    function(packed.ctypes.data, b.ctypes.data, found.ctypes.data, m, n, k, lda, n, n, kind | 1 << products.PACKED)
    np.testing.assert_allclose(as_it_is, a[:, :m].T.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    assert as_it_is.tobytes() == found.tobytes()
