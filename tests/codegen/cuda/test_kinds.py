"""Every kind and form of CUDA kernel on the host: edge sizes, odd strides, odd addresses."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from jitgrad import dtypes, random
from jitgrad.codegen.cuda.kernels import addresses, each, geometry, text
from jitgrad.codegen.lower.column_sums import PARTS
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.dims import Symbol, dim
from tests.codegen.cuda import host
from tests.codegen.kernels import Space

pytestmark = host.emulated

SIZES = (0, 1, 7, 31, 32, 33, 255, 257, 1000, 4097)
f16, f32, f64, i64, b8 = dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_


def S(op, *args, **fields):
    return Stmt(op, args, **fields)


def execute(space, body, scalars=(), scalar_dtypes=()):
    kernel = Kernel(space.outer, space.inner, tuple(space.operands), tuple(scalar_dtypes), tuple(body))
    host.run(kernel, space.sizes, space.arrays, scalars, space.values)
    return kernel


def place(values, shift=0, pitch=0):
    """A copy of an array that starts `shift` elements behind an aligned address, its rows `pitch` elements longer."""
    rows, columns = values.shape
    memory = np.zeros(rows * (columns + pitch) + shift + 64, values.dtype)
    start = -memory.ctypes.data % 64 // values.itemsize
    view = memory[start + shift:start + shift + rows * (columns + pitch)].reshape(rows, columns + pitch)[:, :columns]
    view[...] = values
    return view


def normal(rng, *shape, d=np.float32):
    return rng.standard_normal(shape).astype(d)


def shifts(*choices):
    return pytest.mark.parametrize(("shift", "pitch"), [(0, 0), *choices], ids=str)


# --- pw ---

@pytest.mark.parametrize("n", SIZES)
@shifts((1, 0), (0, 3), (4, 4))
def test_pointwise_rows_and_a_broadcast_row(n, shift, pitch):
    """x[3, n] * b[n] + c[3], a bool result beside it: several types, several axes."""
    rng = np.random.default_rng(n)
    x, b, c = (normal(rng, *s) for s in ((3, n), (1, n), (3, 1)))
    space = Space((3, n))
    operands = [space.operand(place(x, shift, pitch)), space.operand(place(b, shift)), space.operand(c)]
    total, sign = place(np.zeros((3, n), np.float32), 0, pitch), place(np.zeros((3, n), bool), shift)
    outs = [space.operand(total, "out"), space.operand(sign, "out")]
    execute(space, [*[S("load", operand=k) for k in operands], S("mul", 0, 1, dtype=f32), S("add", 3, 2, dtype=f32),
                    S("const", value=0.0, dtype=f32), S("gt", 4, 5, dtype=b8), S("store", 4, operand=outs[0]),
                    S("store", 6, operand=outs[1])])
    np.testing.assert_array_equal(total, x * b + c)
    np.testing.assert_array_equal(sign, x * b + c > 0)


@pytest.mark.parametrize("d", [f16, f64, i64], ids=lambda d: d.name)
@pytest.mark.parametrize("n", [1, 33, 257])
def test_pointwise_in_place(n, d):
    x = place(np.arange(n).astype(d.np)[None])[0]
    space = Space((n,))
    a = space.operand(x, "inout")
    kernel = execute(space, [S("load", operand=a), S("index", axis=0), S("cast", 1, dtype=d), S("add", 0, 2, dtype=d),
                             S("store", 3, operand=a)])
    np.testing.assert_array_equal(x, np.arange(n).astype(d.np) * 2)
    assert f"jg_write<{16 // d.itemsize}>" in text.source(kernel, "x")


def test_an_operand_that_is_read_again_after_it_was_written_is_no_vector():
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    space = Space((9,))
    a, b = space.operand(x, "inout"), space.operand(y, "out")
    kernel = execute(space, [S("load", operand=a), S("neg", 0, dtype=f32), S("store", 1, operand=a),
                             S("load", operand=a), S("store", 3, operand=b)])
    np.testing.assert_array_equal(y, -np.arange(9))
    assert "jg_read<4>(p0" not in text.source(kernel, "x")


@pytest.mark.parametrize("start", [0, 3])
def test_random_words_of_neighbours(start):
    """Four words are made at once; vectors need not begin where they do."""
    found = np.zeros(4097, np.int64)
    space = Space((4097,))
    a = space.operand(found, "out")
    execute(space, [S("index", axis=0), S("scalar", number=0, dtype=i64), S("scalar", number=1, dtype=i64),
                    S("const", value=start, dtype=i64), S("add", 0, 3, dtype=i64), S("random.word", 4, 1, 2, dtype=i64),
                    S("store", 5, operand=a)], (1234567890123, 77), (i64, i64))
    np.testing.assert_array_equal(found, random.words(1234567890123, 77, 4097 + start)[start:])


# --- row ---

def ends(kernel):
    """What the functions that are launched for longer and longer rows are called."""
    return [form.launches[0].symbol.rpartition("_")[2] for form in text.forms(kernel, "x")]


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def softmax_body(d=f32):
    more = [S("cast", 0, dtype=f32)] if d is f16 else []
    k = len(more)
    return [S("load", operand=0), *more, S("reduce", k, dtype=f32, fn="fastmax"), S("sub", k, k + 1, dtype=f32),
            S("exp", k + 2, dtype=f32), S("reduce", k + 3, dtype=f32, fn="sum"), S("div", k + 3, k + 4, dtype=f32),
            S("store", k + 5, operand=1)]


@pytest.mark.parametrize(("n", "d"), [*[(n, f32) for n in (*SIZES[1:], 8192, 9001)], (33, f16), (1000, f16)], ids=str)
@shifts((1, 0), (0, 3))
def test_softmax_rows(n, shift, pitch, d):
    x = (3 * normal(np.random.default_rng(n), 3, n)).astype(d.np)
    y = place(np.zeros((3, n), d.np), 0, pitch)
    space = Space((3,), (n,))
    space.operand(place(x, shift, pitch))
    space.operand(y, "out")
    kernel = execute(space, softmax_body(d))
    np.testing.assert_allclose(y, softmax(x), 2e-3 if d is f16 else 2e-6, 1e-6)
    assert ends(kernel) == [*["group"] * 4, "block", "shared", "phase0", "sweeps"]
    forms = text.forms(kernel, "x")
    bounds = [form.bound for form in forms]
    assert bounds[:5] == [512, 1024, 2048, 4096, 8192]
    assert 3 * geometry.shared_bytes(forms[4].launches[0], 8192) <= geometry.MOST_SHARED
    assert bounds[-1] == geometry.ANY


@pytest.mark.parametrize("n", [64, 61])
@pytest.mark.parametrize(("op", "compare"), [("gt", np.greater), ("le", np.less_equal), ("eq", np.equal)])
@pytest.mark.parametrize("swapped", [False, True], ids=["place", "number"])
def test_places_in_a_row_are_compared_with_a_number_of_it(op, compare, n, swapped):
    """In 32 bits, however large the number is."""
    limits = np.array([-(1 << 40), -1, 0, 7, 8, 60, 63, 64, 1 << 30, 1 << 40], np.int64)
    x = normal(np.random.default_rng(n), len(limits), n)
    y = np.zeros_like(x)
    space = Space((len(limits),), (n,))
    space.operand(x)
    space.operands.append(Operand(i64, (1, 0)))
    space.arrays.append(limits)
    space.operand(y, "out")
    sides = (1, 2) if swapped else (2, 1)
    kernel = execute(space, [S("load", operand=0), S("load", operand=1), S("index", axis=1), S(op, *sides, dtype=b8),
                             S("const", value=0.0, dtype=f32), S("where", 3, 4, 0, dtype=f32),
                             S("reduce", 5, dtype=f32, fn="max"), S("sub", 5, 6, dtype=f32), S("store", 7, operand=2)])
    assert "jg_short(" in text.source(kernel, "x")
    places, numbers = np.arange(n)[None], limits[:, None]
    masked = np.where(compare(numbers, places) if swapped else compare(places, numbers), np.float32(0), x)
    np.testing.assert_array_equal(y, masked - masked.max(1, keepdims=True))


@pytest.mark.parametrize("n", [256, 255, 5001, 9000])
def test_quotients_of_elements_by_a_number_of_their_row(n):
    """To the bit, in 32 bits: what is usual is multiplied by a reciprocal and corrected, the rest is divided."""
    rng = np.random.default_rng(n)
    divisors = [1.0, 3.0, 1.9999999, 1e10, 7.3e18, 0.3, -5.0, 1e-30, 1e30, np.inf, np.nan, 0.0]
    x = (rng.standard_normal((len(divisors), n)) * 2.0 ** rng.integers(-90, 90, (len(divisors), n))).astype(np.float32)
    x[:, 8:40:8] = [0.0, -0.0, np.inf, -np.inf]
    x[:, 41:44] = [np.nan, 3e38, 1e-44]
    z = np.zeros_like(x)
    z[:, n // 2] = divisors
    y = np.zeros_like(x)
    space = Space((len(divisors),), (n,))
    for values, role in ((x, "in"), (z, "in"), (y, "out")):
        space.operand(values, role)
    kernel = execute(space, [S("load", operand=0), S("load", operand=1), S("reduce", 1, dtype=f32, fn="sum"),
                             S("div", 0, 2, dtype=f32), S("store", 3, operand=2)])
    assert "jg_quotient(" in text.source(kernel, "x")
    with np.errstate(all="ignore"):
        wanted = x / z.sum(1, keepdims=True)
    normal = ~(np.abs(wanted) < np.finfo(np.float32).tiny) | (x == 0)
    np.testing.assert_array_equal(y[normal], wanted[normal])
    np.testing.assert_array_equal(np.signbit(y[normal & (x == 0)]), np.signbit(wanted[normal & (x == 0)]))
    np.testing.assert_allclose(y[~normal], wanted[~normal], 0, 2e-45)


@pytest.mark.parametrize("rows", [1, 2, 9, 300])
@pytest.mark.parametrize("n", [1, 3, 5, 32, 100])
def test_short_rows_share_a_warp(rows, n):
    x, y = normal(np.random.default_rng(n), rows, n), np.zeros(rows, np.float32)
    space = Space((rows,), (n,))
    space.operand(x)
    space.operands.append(Operand(f32, (1, 0), "out"))
    space.arrays.append(y)
    execute(space, [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"), S("store", 1, operand=1)])
    np.testing.assert_allclose(y, x.sum(1), 1e-5, 1e-5)


@pytest.mark.parametrize("fn", ["sum", "argmax"])
@pytest.mark.parametrize(("rows", "n"), [(2, 4097), (3, 30000), (600, 1100)])
def test_long_rows_are_shared_by_blocks(rows, n, fn):
    x = np.random.default_rng(n).integers(-9, 9, (rows, n)).astype(np.float32)
    y = np.zeros(rows, np.int64 if fn == "argmax" else np.float32)
    space = Space((rows,), (n,))
    space.operand(x)
    space.operands.append(Operand(dtypes.from_numpy(y.dtype), (1, 0), "out"))
    space.arrays.append(y)
    kernel = execute(space, [S("load", operand=0), S("reduce", 0, dtype=space.operands[1].dtype, fn=fn),
                             S("store", 1, operand=1)])
    np.testing.assert_array_equal(y, x.argmax(1) if fn == "argmax" else x.sum(1))
    (launch,) = text.forms(kernel, "x")[-1].launches
    assert (geometry.grid(launch, rows, n)[1] > 1) == (rows < 600)


@pytest.mark.parametrize(("n", "c", "h"), [(2, 3, 70), (3, 2, 9000), (2, 140, 61)], ids=str)
def test_rows_over_several_axes(n, c, h):
    """Softmax of each channel: blocks share few long rows, a launch for each stage; of many, each has one block."""
    x, y = normal(np.random.default_rng(n), n, c, h), np.zeros((n, c, h), np.float32)
    space = Space((c,), (n, h))
    for array, role in ((x, "in"), (y, "out")):
        space.operands.append(Operand(f32, (h, c * h, 1), role))
        space.arrays.append(array)
    kernel = execute(space, softmax_body())
    rows = x.transpose(1, 0, 2).reshape(c, -1)
    np.testing.assert_allclose(y.transpose(1, 0, 2).reshape(c, -1), softmax(rows), 2e-6, 1e-6)
    chosen = next(f for f in text.forms(kernel, "x") if n * h <= f.bound and c <= f.rows)
    assert len(chosen.launches) == (3 if (n, c, h) == (3, 2, 9000) else 1)


def test_several_inner_axes_with_argmax_and_a_broadcast():
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 99, (2, 5, 6, 7)).astype(np.float32), normal(rng, 1, 5, 1, 1)
    at, total = np.zeros(2, np.int64), np.zeros(2, np.float32)
    space = Space((2,), (5, 6, 7))
    space.operand(x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2))  # contiguous along the axis in the middle
    space.operand(w)
    space.operands += [Operand(i64, (1, 0, 0, 0), "out"), Operand(f32, (1, 0, 0, 0), "out")]
    space.arrays += [at, total]
    execute(space, [S("load", operand=0), S("load", operand=1), S("reduce", 0, dtype=i64, fn="argmax"),
                    S("reduce", 0, 1, dtype=f32, fn="dot"), S("store", 2, operand=2), S("store", 3, operand=3)])
    np.testing.assert_array_equal(at, x.reshape(2, -1).argmax(1))
    np.testing.assert_allclose(total, (x * w).sum((1, 2, 3)), 1e-4, 1e-3)


# --- all ---

@pytest.mark.parametrize("n", [*SIZES, 30000])
@pytest.mark.parametrize("shift", [0, 1])
def test_dividing_by_the_sum_of_all(n, shift):
    """Two stages over one row: a block, or a launch for each stage. The sum is stored, too."""
    x = np.random.default_rng(n).uniform(1, 2, (1, n)).astype(np.float32)
    y, total = place(np.zeros((1, n), np.float32), shift), np.zeros(1, np.float32)
    space = Space((), (n,))
    space.operand(place(x, shift)[0])
    space.operand(y[0], "out")
    space.operands.append(Operand(f32, (0,), "out"))
    space.arrays.append(total)
    kernel = execute(space, [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"), S("store", 1, operand=2),
                             S("div", 0, 1, dtype=f32), S("store", 3, operand=1)])
    np.testing.assert_allclose(total, x.sum(), 1e-5)
    np.testing.assert_allclose(y, x / x.sum(dtype=np.float64), 1e-5)
    assert [len(form.launches) for form in text.forms(kernel, "x")] == [1, 1, 1, 1, 2]


# --- col ---

@pytest.mark.parametrize("columns", [1, 31, 32, 33, 257])
@pytest.mark.parametrize("n", [0, 1, 7, 33, 1000])
@pytest.mark.parametrize("most", [8, 1], ids=["vectors", "single"])
def test_columns(n, columns, most, monkeypatch):
    monkeypatch.setattr(addresses, "MOST_LANES", most)
    x = np.random.default_rng(n).integers(-9, 9, (n, columns)).astype(np.float32)
    total, at = np.zeros(columns, np.float32), np.zeros(columns, np.int64)
    space = Space((columns,), (n,))
    space.operand(x.T)
    space.operands = [Operand(f32, (1, space.operands[0].strides[1] if n > 1 else dim(Symbol("s"))))]
    if n <= 1:
        space.values = {space.operands[0].strides[1].symbol: columns}
    space.operands += [Operand(f32, (1, 0), "out"), Operand(i64, (1, 0), "out")]
    space.arrays += [total, at]
    kernel = execute(space, [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"),
                             S("reduce", 0, dtype=i64, fn="argmax"), S("store", 1, operand=1),
                             S("store", 2, operand=2)])
    assert text.kind(kernel) == "col"
    np.testing.assert_array_equal(total, x.sum(0))
    if n:
        np.testing.assert_array_equal(at, x.argmax(0))


# --- mix ---

def mixed(rows, n, d, shift=0, pitch=0):
    """y = x - mean(x) along rows, the sum of x and that of x * y over the rows; the parts of these."""
    rng = np.random.default_rng(n)
    x = place(rng.integers(-9, 9, (rows, n)).astype(d.np), shift, pitch)
    y = place(np.zeros((rows, n), d.np), 0, pitch)
    wide = np.float64 if d is f64 else np.float32
    parts = [np.full((PARTS, n), np.nan, wide) for _ in range(2)]
    space = Space((rows,), (n,))
    space.operand(x)
    space.operand(y, "out")
    w = f64 if d is f64 else f32
    space.operands += [Operand(w, (0, 1), "out"), Operand(w, (0, 1), "out")]
    space.arrays += parts
    kernel = execute(space, [S("load", operand=0), S("cast", 0, dtype=w), S("reduce", 1, dtype=w, fn="sum"),
                             S("scalar", number=0, dtype=w), S("div", 2, 3, dtype=w), S("sub", 1, 4, dtype=w),
                             S("column", 1, dtype=w, operand=2), S("mul", 1, 5, dtype=w),
                             S("column", 7, dtype=w, operand=3), S("store", 5, operand=1)], (float(n),), (w,))
    exact = x.astype(np.float64)
    centred = exact - exact.mean(1, keepdims=True)
    rough = 2e-3 if d is f16 else 2e-5
    np.testing.assert_allclose(y, centred, rough, 10 * rough)
    np.testing.assert_array_equal(parts[0].sum(0), exact.sum(0))
    np.testing.assert_allclose(parts[1].sum(0), (exact * centred).sum(0), rough, 0.1)
    assert not parts[0][rows:].any()
    return kernel


@pytest.mark.parametrize(("sizes", "d"), [((3, 2, 2), f32), ((3, 5, 7), f32), ((2, 40, 129), f32), ((300, 3, 4), f32),
                                          ((2, 40, 129), f16), ((2, 40, 129), f64)], ids=str)
@pytest.mark.parametrize("fn", ["sum", "max"])
def test_squared_distances_take_no_pass_of_their_own(sizes, d, fn):
    """From the mean, or from any number of the row; what is far from zero, or from the first, is as exact."""
    x = np.random.default_rng(0).standard_normal(sizes)
    x[0] += 1000
    x[-1, 0, 0] = -500
    x = x.astype(d.np)
    y = np.full((sizes[0], 1, 1), np.nan, f64.np if d is f64 else f32.np)
    space = Space(sizes[:1], sizes[1:])
    space.operand(x)
    space.operand(y, "out")
    w = f64 if d is f64 else f32
    body = [S("load", operand=0), S("cast", 0, dtype=w), S("reduce", 1, dtype=w, fn=fn), S("scalar", number=0, dtype=w),
            S("div", 2, 3, dtype=w), S("sub", 4, 1, dtype=w), S("mul", 5, 5, dtype=w),
            S("reduce", 6, dtype=w, fn="sum"), S("store", 7, operand=1)]
    kernel = execute(space, body, (float(sizes[1] * sizes[2]) if fn == "sum" else 2.0,), (w,))
    exact = x.astype(np.float64)
    number = exact.mean((1, 2), keepdims=True) if fn == "sum" else exact.max((1, 2), keepdims=True) / 2
    np.testing.assert_allclose(y.ravel(), ((exact - number) ** 2).sum((1, 2)), 1e-13 if d is f64 else 2e-6)
    assert ends(kernel) == ["x"]
    assert "jg_moments" in text.source(kernel, "x")


def test_of_what_is_not_finite_squared_distances_are_not_a_number():
    x = np.ones((4, 5, 300), np.float32)
    x[1, 2, 3], x[2, 0, 0], x[3, 4, 299] = np.nan, np.inf, -np.inf
    y = np.zeros((4, 1, 1), np.float32)
    space = Space((4,), (5, 300))
    space.operand(x)
    space.operand(y, "out")
    execute(space, [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"), S("scalar", number=0, dtype=f32),
                    S("div", 1, 2, dtype=f32), S("sub", 0, 3, dtype=f32), S("mul", 4, 4, dtype=f32),
                    S("reduce", 5, dtype=f32, fn="sum"), S("store", 6, operand=1)], (1500.0,), (f32,))
    np.testing.assert_array_equal(y.ravel(), [0, np.nan, np.nan, np.nan])


def test_what_is_no_square_of_a_distance_keeps_its_pass():
    for last in (S("mul", 3, 0, dtype=f32), S("add", 3, 3, dtype=f32), S("abs", 3, dtype=f32)):
        space = Space((2,), (3, 4))
        space.operand(np.zeros((2, 3, 4), np.float32))
        space.operand(np.zeros((2, 1, 1), np.float32), "out")
        body = [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"), S("neg", 1, dtype=f32),
                S("sub", 0, 2, dtype=f32), last, S("reduce", 4, dtype=f32, fn="sum"), S("store", 5, operand=1)]
        kernel = Kernel(space.outer, space.inner, tuple(space.operands), (), tuple(body))
        assert "jg_moments" not in text.source(kernel, "x")
        assert ends(kernel) == ["sweeps", "phase0", "sweeps"]


@pytest.mark.parametrize(("n", "d"), [*[(n, f32) for n in SIZES[1:]], (33, f16), (1000, f16), (257, f64)], ids=str)
@shifts((1, 0), (0, 3))
def test_rows_and_sums_of_columns(n, d, shift, pitch):
    kernel = mixed(9, n, d, shift, pitch)
    assert text.kind(kernel) == "mix"
    assert ends(kernel) == [*["group"] * 10, "shared", "sweeps"]


@pytest.mark.parametrize("rows", [1, 2, 300])
@pytest.mark.parametrize("n", [3, 100])
def test_rows_of_several_warps_and_rounds(rows, n):
    mixed(rows, n, f32)


@pytest.mark.parametrize(("rows", "n", "threads", "blocks"), [
    (1, 100, 256, 1), (1024, 100, 256, 128), (PARTS * 8, 100, 256, PARTS), (PARTS * 8 + 1, 100, 512, 133),
    (1 << 16, 100, 512, PARTS), (200, 2000, 256, 200), (300, 2000, 512, 150), (300, 8192, 1024, PARTS)])
def test_few_rows_with_sums_of_columns_have_smaller_blocks(rows, n, threads, blocks):
    """One for each multiprocessor; of many rows two of 512 threads live on it, or one of a long row."""
    forms = text.forms(mixed(1, 8, f32), "x")
    (launch,) = next(form.launches for form in forms if n <= form.bound and rows <= form.rows)
    assert (launch.threads, geometry.grid(launch, rows, n)[0]) == (threads, blocks)


def test_sums_of_columns_of_no_rows():
    kernel = mixed(2, 5, f32)
    arrays = [np.zeros((0, 5), np.float32), np.zeros((0, 5), np.float32)]
    parts = [np.full((PARTS, 5), np.nan, np.float32) for _ in range(2)]
    loaded = host.library(text.source(kernel, "none"))
    arguments = host.values_of(kernel, (0, 5), [*arrays, *parts], (5.0,), dict.fromkeys(
        {s.symbol for o in kernel.operands for s in o.strides if not isinstance(s, int)}, 5))
    host.launch(loaded, text.forms(kernel, "none")[0], 1, 5, arguments)
    assert not np.any(parts[0])


def test_a_mix_of_long_rows_adds_up_in_memory():
    """Too long for shared memory."""
    kernel = mixed(3, 30000, f32)
    assert text.forms(kernel, "x")[-2].bound < 30000


# --- each ---

def table_of(sizes: list[int], addresses: list[list[int]], least: int = 0) -> tuple[list[int], int]:
    """The words of the table for entries of these sizes and addresses (and scalars), and the number of chunks.

    `least`: chunks of an entry at least, 1 for a reduction.
    """
    words: list[int] = []
    chunks = 0
    for size, own in zip(sizes, addresses, strict=True):
        words += [chunks, size, *own]
        chunks += max(least, -(-size // each.CHUNK))
    return words, chunks


def test_each_updates_parameters_of_all_sizes_at_once():
    """p -= rate * g, and a 0-dim step count of each parameter."""
    rng = np.random.default_rng(0)
    sizes = [0, 1, 7, 257, each.CHUNK, each.CHUNK + 5, 3, 0]
    kernel = Kernel((dim(Symbol("n")),), (), (Operand(f32, (1,), "inout"), Operand(f32, (1,)), Operand(f32, (0,))),
                    (f32,), (S("load", operand=0), S("load", operand=1), S("load", operand=2),
                             S("scalar", number=0, dtype=f32), S("mul", 1, 3, dtype=f32), S("mul", 4, 2, dtype=f32),
                             S("sub", 0, 5, dtype=f32), S("store", 6, operand=0)), "update")
    assert each.fits(kernel)
    grads = [place(normal(rng, 1, n), n % 2)[0] for n in sizes]
    counts = [np.full(1, k, np.float32) for k in range(len(sizes))]
    loaded = host.library(each.each_source(kernel, "update", (True,), len(sizes)))
    results = []
    for reverse in (1, 0):
        params = [place(np.ones((1, n), np.float32), n // 2 % 2)[0] for n in sizes]
        operands = zip(params, grads, counts, strict=True)
        table, chunks = table_of(sizes, [[a.ctypes.data for a in own] for own in operands])
        assert chunks == 7
        loaded.jg_set_reversed(reverse)
        arguments = [(ctypes.c_int64 * len(table))(*table), ctypes.c_int64(len(sizes)), ctypes.c_int64(chunks),
                     ctypes.c_float(0.5)]
        host.launch(loaded, each.each_form(kernel, "update"), chunks, 1, arguments)
        for p, g, c in zip(params, grads, counts, strict=True):
            np.testing.assert_array_equal(p, np.float32(1) - g * np.float32(0.5) * c)
        results.append([p.tobytes() for p in params])
    assert results[0] == results[1]


@pytest.mark.parametrize("fn", ["sum", "max"])
def test_each_reduces_tensors_of_all_sizes_at_once(fn):
    """scale * reduce(x * x) of each; few blocks, so that most have the ends of several tensors, and many."""
    rng = np.random.default_rng(0)
    sizes = [1, 0, 7, 255, 257, 1000, each.CHUNK, 5 * each.CHUNK + 5, 3, 0, 40 * each.CHUNK - 1]
    n = dim(Symbol("n"))
    kernel = Kernel((), (n,), (Operand(f32, (1,)), Operand(f32, (0,), "out"), Operand(f32, (0,))), (f32,),
                    (S("load", operand=0), S("mul", 0, 0, dtype=f32), S("reduce", 1, dtype=f32, fn=fn),
                     S("scalar", number=0, dtype=f32), S("load", operand=2), S("mul", 2, 3, dtype=f32),
                     S("mul", 5, 4, dtype=f32), S("store", 6, operand=1)), "squares")
    assert each.fits(kernel)
    arrays = [place(normal(rng, 1, size), size % 3)[0] for size in sizes]
    factors = [np.full(1, 1 + k, np.float32) for k in range(len(sizes))]
    loaded = host.library(each.each_source(kernel, "squares", (True,), len(sizes)))
    form = each.each_form(kernel, "squares")
    scratch = np.full(form.launches[0].scratch, 0xA5, np.uint8)
    scratch[:geometry.TICKETS] = 0
    found = {}
    for most in (1, 3, 17, 1056):
        for reverse in (1, 0):
            outs = [np.full(1, np.nan, np.float32) for _ in sizes]
            operands = zip(arrays, outs, factors, strict=True)
            table, chunks = table_of(sizes, [[a.ctypes.data for a in own] for own in operands], 1)
            assert chunks == 9 + 6 + 40
            loaded.jg_set_reversed(reverse)
            arguments = [(ctypes.c_int64 * len(table))(*table), ctypes.c_int64(len(sizes)), ctypes.c_int64(chunks),
                         ctypes.c_float(0.5), ctypes.c_void_p(scratch.ctypes.data)]
            launch = replace(form.launches[0], most=most)
            host.launch(loaded, replace(form, launches=(launch,)), chunks, 1, arguments)
            assert not scratch[:geometry.TICKETS].any()
            found[most, reverse] = np.concatenate(outs)
        np.testing.assert_array_equal(found[most, 0], found[most, 1])
        empty = 0 if fn == "sum" else -np.inf
        wanted = [0.5 * (1 + k) * (getattr(np.square(a, dtype=np.float64), fn)() if a.size else empty)
                  for k, a in enumerate(arrays)]
        np.testing.assert_allclose(found[most, 0], wanted, 1e-5)


def test_each_takes_contiguous_pointwise_kernels_only():
    load, store = S("load", operand=0), S("store", 0, operand=1)
    out = Operand(f32, (1,), "out")
    n = dim(Symbol("n"))
    assert each.fits(Kernel((n,), (), (Operand(f32, (1,)), out), (), (load, store)))
    assert not each.fits(Kernel((n,), (), (Operand(f32, (n,)), out), (), (load, store)))
    assert not each.fits(Kernel((n,), (n,), (Operand(f32, (1, 1)), Operand(f32, (1, 0), "out")), (), (load, store)))
