"""Every form of a kernel against NumPy: pointwise, rows, columns, full reductions, scatter; edge sizes and strides."""

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.codegen.llvm import chunks, kernel as llvm_kernel, module
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.run import runtime
from jitgrad.dims import Symbol, dim
from tests.codegen.kernels import Space, run

SIZES = (0, 1, 7, 15, 16, 17, 31, 33, 255, 257)
f32, f64, i64, b8 = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_


def S(op, *args, **fields):
    return Stmt(op, args, **fields)


def execute(space, body, scalars=(), scalar_dtypes=()):
    kernel = Kernel(space.outer, space.inner, tuple(space.operands), tuple(scalar_dtypes), tuple(body))
    run(kernel, space.sizes, space.arrays, scalars, space.values)


def random(rng, shape, d):
    if d is b8:
        return rng.integers(0, 2, shape).astype(bool)
    if d.is_floating_point:
        return rng.standard_normal(shape).astype(d.np)
    info = np.iinfo(d.np)
    return rng.integers(max(info.min, -50), 50, shape).astype(d.np)


# --- pointwise ---

@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("d", dtypes.REALS, ids=lambda d: d.name)
def test_pointwise(size, d):
    rng = np.random.default_rng(size)
    x, y = random(rng, size, d), random(rng, size, d)
    guarded = np.zeros(size + 8, d.np)
    out = guarded[:size]
    space = Space((size,))
    a, b, c = space.operand(x), space.operand(y), space.operand(out, "out")
    execute(space, [S("load", operand=a), S("load", operand=b), S("maximum", 0, 1, dtype=d),
                    S("add", 2, 1, dtype=d), S("store", 3, operand=c)])
    expected = np.maximum(x, y) + y if not d.is_half else (
        np.maximum(x, y).astype(np.float32) + y.astype(np.float32)).astype(d.np)
    np.testing.assert_array_equal(out, expected)
    assert not guarded[size:].any()


@pytest.mark.parametrize("layout", ["plain", "transposed", "reversed", "every_other", "row", "column", "scalar"])
@pytest.mark.parametrize("shape", [(3, 17), (5, 33), (2, 3, 19), (4, 1), (1, 40), (0, 5), (5, 0)])
def test_layouts(shape, layout):
    rng = np.random.default_rng(1)
    if layout == "transposed":
        x = random(rng, shape[::-1], f32).T
    elif layout == "reversed":
        x = random(rng, shape, f32)[..., ::-1]
    elif layout == "every_other":
        x = random(rng, (*shape[:-1], 2 * shape[-1]), f32)[..., ::2]
    elif layout == "row":
        x = random(rng, (*[1] * (len(shape) - 1), shape[-1]), f32)
    elif layout == "column":
        x = random(rng, (*shape[:-1], 1), f32)
    elif layout == "scalar":
        x = random(rng, (1,) * len(shape), f32)
    else:
        x = random(rng, shape, f32)
    for target in (np.zeros(shape, np.float32), np.zeros(shape[::-1], np.float32).T):
        space = Space(shape)
        a, c = space.operand(x), space.operand(target, "out")
        execute(space, [S("load", operand=a), S("mul", 0, 0, dtype=f32), S("store", 1, operand=c)])
        np.testing.assert_array_equal(target, np.broadcast_to(x * x, shape))


@pytest.mark.parametrize("step", [1, 2, -1, 0])
@pytest.mark.parametrize("size", [1, 16, 33])
def test_unknown_stride_along_the_lanes(step, size):
    base = np.arange(3 * size + 3, dtype=np.float32)
    x = base[size:2 * size] if step == 1 else base[size:3 * size:2] if step == 2 else base[2 * size:size:-1] if (
        step == -1) else np.lib.stride_tricks.as_strided(base[5:], (size,), (0,))
    out = np.zeros(size, np.float32)
    space = Space((size,), unknown_strides=(0,))
    a, c = space.operand(x), space.operand(out, "out")
    space.values = {s: (step if k == 0 else 1) for k, s in enumerate(space.values)}
    execute(space, [S("load", operand=a), S("neg", 0, dtype=f32), S("store", 1, operand=c)])
    np.testing.assert_array_equal(out, -x)


def test_in_place_scalars_constants_and_indices():
    x = np.arange(20, dtype=np.float64)
    space = Space((4, 5))
    a = space.operand(x.reshape(4, 5), "inout")
    execute(space, [S("load", operand=a), S("scalar", number=0, dtype=f64), S("index", axis=0), S("index", axis=1),
                    S("mul", 2, 3, dtype=i64), S("cast", 4, dtype=f64), S("const", value=0.5, dtype=f64),
                    S("fma", 0, 1, 5, dtype=f64), S("add", 7, 6, dtype=f64), S("store", 8, operand=a)], (3.0,), (f64,))
    np.testing.assert_array_equal(x.reshape(4, 5),
                                  np.arange(20.0).reshape(4, 5) * 3 + np.outer(range(4), range(5)) + 0.5)


def test_space_without_axes():
    x, out = np.array(3.0, np.float32), np.zeros((), np.float32)
    kernel = Kernel((), (), (Operand(f32, ()), Operand(f32, (), "out")), (f32,),
                    (S("load", operand=0), S("scalar", number=0, dtype=f32), S("exp", 1, dtype=f32),
                     S("mul", 0, 2, dtype=f32), S("store", 3, operand=1)))
    run(kernel, (), (x, out), (1.0,))
    np.testing.assert_allclose(out, 3 * np.exp(np.float32(1)), rtol=1e-6)


def test_mixed_dtypes_share_lanes():
    rng = np.random.default_rng(2)
    x, m = random(rng, 37, f64), random(rng, 37, b8)
    y, out = random(rng, 37, dtypes.float16), np.zeros(37, np.float32)
    space = Space((37,))
    ids = [space.operand(v) for v in (x, m, y)]
    c = space.operand(out, "out")
    execute(space, [*[S("load", operand=k) for k in ids], S("cast", 0, dtype=f32), S("cast", 2, dtype=f32),
                    S("where", 1, 3, 4, dtype=f32), S("store", 5, operand=c)])
    np.testing.assert_array_equal(out, np.where(m, x.astype(np.float32), y.astype(np.float32)))


def test_nan_survives_maximum_and_relu():
    x = np.array([np.nan, 1, -1, np.inf, -np.inf] * 5, np.float32)
    out = np.zeros_like(x)
    space = Space((25,))
    a, c = space.operand(x), space.operand(out, "out")
    execute(space, [S("load", operand=a), S("const", value=0.0, dtype=f32), S("maximum", 0, 1, dtype=f32),
                    S("store", 2, operand=c)])
    np.testing.assert_array_equal(out, np.maximum(x, 0))


# --- reductions ---

REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "fastmax": np.max, "any": np.any,
              "all": np.all, "argmax": np.argmax, "argmin": np.argmin}


def reduce_body(fn, d):
    out = i64 if fn.startswith("arg") else b8 if fn in ("any", "all") else d
    return out, [S("load", operand=0), S("reduce", 0, dtype=out, fn=fn), S("store", 1, operand=1)]


def reduction_input(rng, shape, fn, d):
    if fn == "prod" and d.is_floating_point:
        return (1 + 0.01 * rng.standard_normal(shape)).astype(d.np)
    if fn in ("any", "all"):
        return (rng.integers(0, 40, shape) > (38 if fn == "any" else 0)).astype(d.np)
    if fn.startswith("arg"):
        return rng.integers(0, 5, shape).astype(d.np)  # many ties
    return random(rng, shape, d)


def compare(got, x, fn, d, axis):
    if d.is_half:
        x = x.astype(np.float32)
    expected = REDUCTIONS[fn](x, axis=axis)
    if d.is_floating_point and fn in ("sum", "prod"):
        tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-13}[d.name]
        scale = np.sum(np.abs(x.astype(np.float64)), axis=axis) if fn == "sum" else 1.0
        assert np.all(np.abs(got.astype(np.float64) - expected) <= tolerance * (scale + 1))
    else:
        np.testing.assert_array_equal(got, expected.astype(got.dtype))


KINDS = [(fn, d) for fn in REDUCTIONS for d in dtypes.REALS
         if not (d is b8 and fn in ("sum", "prod")) and not (fn == "fastmax" and not d.is_floating_point)]


@pytest.mark.parametrize(("fn", "d"), KINDS, ids=[f"{fn}-{d.name}" for fn, d in KINDS])
def test_reduce_rows_columns_and_all(fn, d):
    rng = np.random.default_rng(4)
    out_dtype, body = reduce_body(fn, d)
    empty_ok = fn not in ("max", "min", "fastmax", "argmax", "argmin")
    for rows, columns in ((3, 1), (2, 7), (5, 16), (3, 33), (2, 257), (17, 3), (33, 2), (1, 1), (3, 0), (0, 3)):
        x = reduction_input(rng, (rows, columns), fn, d)
        if columns or empty_ok:  # along the rows
            out = np.zeros(rows, out_dtype.np)
            space = Space((rows,), (columns,))
            space.operand(x)
            space.operand(np.broadcast_to(out[:, None], (rows, columns)), "out")
            space.operands[1] = Operand(out_dtype, (1, 0), "out")
            execute(space, body)
            with np.errstate(over="ignore"):
                compare(out, x, fn, d, 1)
        if rows or empty_ok:  # along the columns
            out = np.zeros(columns, out_dtype.np)
            space = Space((columns,), (rows,))
            space.operand(x.T)
            space.operand(out[:, None], "out")
            space.operands[1] = Operand(out_dtype, (1, 0), "out")
            execute(space, body)
            with np.errstate(over="ignore"):
                compare(out, x, fn, d, 0)
        if x.size or empty_ok:  # everything, as two inner axes
            out = np.zeros((), out_dtype.np)
            space = Space((), (rows, columns))
            space.operand(x)
            space.operand(np.lib.stride_tricks.as_strided(out, (rows, columns), (0, 0)), "out")
            space.operands[1] = Operand(out_dtype, (0, 0), "out")
            execute(space, body)
            with np.errstate(over="ignore"):
                compare(out, x, fn, d, None)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fn", ["sum", "dot"])
def test_sums_of_edge_sizes(size, fn):
    rng = np.random.default_rng(size)
    x, y, out = random(rng, size, f32), random(rng, size, f32), np.full(1, 9, np.float32)
    space = Space((), (size,))
    a, b = space.operand(x), space.operand(y)
    space.operands.append(Operand(f32, (0,), "out"))
    space.arrays.append(out)
    args = (0, 1) if fn == "dot" else (0,)
    execute(space, [S("load", operand=a), S("load", operand=b), S("reduce", *args, dtype=f32, fn=fn),
                    S("store", 2, operand=2)])
    expected = (x.astype(np.float64) * (y if fn == "dot" else 1)).sum()
    assert abs(out[0] - expected) <= 2e-6 * (np.abs(x).sum() + 1)


@pytest.mark.parametrize("columns", [False, True])
def test_long_sums_stay_accurate(columns):
    """Partial sums are added in blocks: near NumPy's pairwise error, not growing with the length."""
    n = 1_000_000
    x = np.random.default_rng(0).uniform(0, 1, (n, 1) if columns else n).astype(np.float32)
    out = np.zeros(1, np.float32)
    space = Space((1,), (n,)) if columns else Space((), (n,))
    space.operand(x.T if columns else x)
    space.operands = [Operand(f32, (1, 1) if columns else (1,)), Operand(f32, (1, 0) if columns else (0,), "out")]
    space.arrays, space.values = [x, out], {}
    execute(space, [S("load", operand=0), S("reduce", 0, dtype=f32, fn="sum"), S("store", 1, operand=1)])
    exact = x.astype(np.float64).sum()
    assert abs(out[0] - exact) / exact < (1e-6 if columns else 3e-7)


def test_infinite_padding_does_not_reach_a_sum():
    """Values computed in masked-off lanes (1 / 0 here) are not added."""
    x, out = np.full(5, 4, np.float32), np.zeros(1, np.float32)
    space = Space((), (5,))
    a = space.operand(x)
    space.operands.append(Operand(f32, (0,), "out"))
    space.arrays.append(out)
    execute(space, [S("load", operand=a), S("const", value=1.0, dtype=f32), S("div", 1, 0, dtype=f32),
                    S("reduce", 2, 2, dtype=f32, fn="dot"), S("reduce", 2, dtype=f32, fn="sum"),
                    S("add", 3, 4, dtype=f32), S("store", 5, operand=1)])
    assert out[0] == 5 / 16 + 5 / 4


@pytest.mark.parametrize("fn", ["argmax", "argmin", "max", "min"])
def test_nan_is_the_extremum(fn):
    for place in (0, 3, 20, 36):
        x = np.random.default_rng(place).standard_normal(37).astype(np.float32)
        x[[place, 36]] = np.nan
        out_dtype, body = reduce_body(fn, f32)
        out = np.zeros(1, out_dtype.np)
        space = Space((), (37,))
        space.operand(x)
        space.operands.append(Operand(out_dtype, (0,), "out"))
        space.arrays.append(out)
        execute(space, body)
        np.testing.assert_array_equal(out[0], REDUCTIONS[fn](x))


# --- several stages ---

def softmax_body(fast=True):
    return [S("load", operand=0), S("reduce", 0, dtype=f32, fn="fastmax" if fast else "max"), S("sub", 0, 1, dtype=f32),
            S("exp", 2, dtype=f32), S("reduce", 3, dtype=f32, fn="sum"), S("div", 3, 4, dtype=f32),
            S("store", 5, operand=1)]


@pytest.mark.parametrize("shape", [(3, 1), (4, 10), (2, 16), (5, 100), (3, 257), (0, 4), (4, 0)])
@pytest.mark.parametrize("columns", [False, True])
def test_softmax(shape, columns):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    out = np.zeros_like(x)
    n, d = shape
    if columns:
        space = Space((d,), (n,))
        space.operand(x.T)
        space.operand(out.T, "out")
    else:
        space = Space((n,), (d,))
        space.operand(x)
        space.operand(out, "out")
    execute(space, softmax_body())
    axis = 0 if columns else 1
    if x.size:
        e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(axis, keepdims=True), rtol=2e-6)


def test_softmax_of_nan_is_nan():
    x = np.zeros((2, 20), np.float32)
    x[0, 3] = np.nan
    out = np.zeros_like(x)
    space = Space((2,), (20,))
    space.operand(x)
    space.operand(out, "out")
    execute(space, softmax_body())
    assert np.isnan(out[0]).all()
    np.testing.assert_allclose(out[1], 0.05, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 7), (4, 33), (2, 5, 19)])
def test_layer_norm_with_row_results(shape):
    """Mean and variance per row, kept; weight and bias per column; two outer axes too."""
    rng = np.random.default_rng(1)
    x, w, b = random(rng, shape, f32), random(rng, shape[-1:], f32), random(rng, shape[-1:], f32)
    out, mean = np.zeros_like(x), np.zeros((*shape[:-1], 1), np.float32)
    space = Space(shape[:-1], shape[-1:])
    lead = (1,) * (len(shape) - 1)
    for v in (x, w.reshape(*lead, -1), b.reshape(*lead, -1)):
        space.operand(v)
    space.operand(out, "out")
    space.operand(mean, "out")
    execute(space, [
        S("load", operand=0), S("load", operand=1), S("load", operand=2), S("scalar", number=0, dtype=f32),
        S("reduce", 0, dtype=f32, fn="sum"), S("mul", 4, 3, dtype=f32), S("sub", 0, 5, dtype=f32),
        S("reduce", 6, 6, dtype=f32, fn="dot"), S("mul", 7, 3, dtype=f32), S("const", value=1e-5, dtype=f32),
        S("add", 8, 9, dtype=f32), S("rsqrt", 10, dtype=f32), S("mul", 6, 11, dtype=f32), S("mul", 12, 1, dtype=f32),
        S("add", 13, 2, dtype=f32), S("store", 14, operand=3), S("store", 5, operand=4)], (1 / shape[-1],), (f32,))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean[..., 0], wide.mean(-1), atol=1e-6)
    centred = wide - wide.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_reductions_of_row_values_and_mixed_levels():
    """A reduction over a value that does not vary along the row counts it once per element."""
    rng = np.random.default_rng(3)
    x, r, out = random(rng, (3, 20), f32), random(rng, (3, 1), f32), np.zeros(3, np.float32)
    space = Space((3,), (20,))
    space.operand(x)
    space.operand(r)
    space.operands.append(Operand(f32, (1, 0), "out"))
    space.arrays.append(out)
    execute(space, [S("load", operand=0), S("load", operand=1), S("reduce", 1, dtype=f32, fn="sum"),
                    S("reduce", 0, dtype=f32, fn="max"), S("add", 2, 3, dtype=f32), S("store", 4, operand=2)])
    np.testing.assert_allclose(out, 20 * r[:, 0] + x.max(1), rtol=1e-5)


def test_inner_axes_of_three():
    rng = np.random.default_rng(3)
    x, w, out = random(rng, (4, 5, 6, 7), f32), random(rng, (1, 5, 1, 1), f32), np.zeros(4, np.float32)
    space = Space((4,), (5, 6, 7))
    space.operand(x)
    space.operand(w)
    space.operands.append(Operand(f32, (1, 0, 0, 0), "out"))
    space.arrays.append(out)
    execute(space, [S("load", operand=0), S("load", operand=1), S("reduce", 0, 1, dtype=f32, fn="dot"),
                    S("store", 2, operand=2)])
    np.testing.assert_allclose(out, (x * w).sum((1, 2, 3)), rtol=1e-4, atol=1e-4)


# --- gather and scatter ---

@pytest.mark.parametrize("width", [1, 5, 16, 40])
def test_gather_rows_and_scatter_them_back(width):
    rng = np.random.default_rng(5)
    table, indices = random(rng, (11, width), f32), rng.integers(0, 11, (6, 1))
    out, back = np.zeros((6, width), np.float32), np.zeros((11, width), np.float32)
    stride = Symbol()
    space = Space((6, width))
    index = space.operand(indices)
    space.operands += [Operand(f32, (0, 1)), Operand(f32, (0, 1), "inout")]
    space.arrays += [table, back]
    space.values[stride] = width
    target = space.operand(out, "out")
    execute(space, [S("load", operand=index), S("gather", 0, operand=1, strides=(dim(stride),)),
                    S("store", 1, operand=target), S("scatter_add", 1, 0, operand=2, strides=(dim(stride),))])
    np.testing.assert_array_equal(out, table[indices[:, 0]])
    expected = np.zeros_like(back)
    np.add.at(expected, indices[:, 0], out)
    np.testing.assert_allclose(back, expected, rtol=1e-6)


@pytest.mark.parametrize("d", [f32, f64, i64, b8], ids=lambda d: d.name)
def test_gather_elements(d):
    rng = np.random.default_rng(6)
    x, i, j, out = random(rng, (9, 8), d), rng.integers(0, 9, 37), rng.integers(0, 8, 37), np.zeros(37, d.np)
    space = Space((37,))
    a, b = space.operand(i), space.operand(j)
    space.operands.append(Operand(d, (0,)))
    space.arrays.append(x)
    c = space.operand(out, "out")
    execute(space, [S("load", operand=a), S("load", operand=b), S("gather", 0, 1, operand=2, strides=(8, 1)),
                    S("store", 2, operand=c)])
    np.testing.assert_array_equal(out, x[i, j])


def test_scatter_the_last_wins_and_scatter_add_counts_all():
    rng = np.random.default_rng(7)
    i, v = rng.integers(0, 5, 50), random(rng, 50, f32)
    last, total = np.zeros(5, np.float32), np.zeros(5, np.float32)
    for op, target in (("scatter", last), ("scatter_add", total)):
        space = Space((50,))
        a, b = space.operand(i), space.operand(v)
        space.operands.append(Operand(f32, (0,), "inout"))
        space.arrays.append(target)
        execute(space, [S("load", operand=a), S("load", operand=b), S(op, 1, 0, operand=2, strides=(1,))])
    expected_last, expected_total = np.zeros(5, np.float32), np.zeros(5, np.float32)
    for k in range(50):
        expected_last[i[k]] = v[k]
    np.add.at(expected_total, i, v)
    np.testing.assert_array_equal(last, expected_last)
    np.testing.assert_array_equal(total, expected_total)


# --- texts and keys ---

def relu(n, name="relu", stride=1):
    return Kernel((n,), (), (Operand(f32, (stride,)), Operand(f32, (1,), "out")), (),
                  (S("load", operand=0), S("const", value=0.0, dtype=f32), S("maximum", 0, 1, dtype=f32),
                   S("store", 2, operand=1)), name)


@pytest.mark.parametrize("d", [f32, f64], ids=["float32", "float64"])
def test_a_column_does_not_depend_on_how_many_there_are(d):
    """Many have a form of their own: sums, extremes and exponentials of each are the same bits."""
    def columns(x):
        y = x.exp()
        return y.softmax(0) + (x * 1.5).tanh().sum(0), (x - x.amax(0)).sum(0), y.mean(0)

    f = jitgrad.script(columns)
    x = jitgrad.from_numpy(np.random.default_rng(0).normal(size=(300, 70)).astype(d.np))
    whole = [y.numpy() for y in f(x)]
    for width in (2, 5, 16, 33, 64):
        for y, part in zip(whole, f(x[:, :width].contiguous()), strict=True):
            np.testing.assert_array_equal(part.numpy(), y[..., :width])
    np.testing.assert_allclose(whole[1], (x.numpy() - x.numpy().max(0)).sum(0), rtol=1e-4)


def test_body_key_ignores_sizes_and_names_only():
    a, b = relu(dim(Symbol())), relu(7, "other")
    assert llvm_kernel.body_key(a) == llvm_kernel.body_key(b)
    assert llvm_kernel.emit(a, "k").text == llvm_kernel.emit(b, "k").text
    assert llvm_kernel.body_key(a) != llvm_kernel.body_key(relu(7, stride=2))
    assert llvm_kernel.body_key(relu(7, stride=dim(Symbol()))) == llvm_kernel.body_key(relu(7, stride=dim(Symbol())))


def test_an_equal_kernel_is_not_printed_again(monkeypatch):
    def column_sums(d):  # whose text has a second form, a constant and a function that joins
        n, m = dim(Symbol()), dim(Symbol())
        return Kernel((n,), (m,), (Operand(d, (1, n)), Operand(d, (1, 0), "out")), (),
                      (S("load", operand=0), S("reduce", 0, fn="sum", dtype=d), S("store", 1, operand=1)))
    module.of_body.cache_clear()
    for kernel in (column_sums(f32), relu(3)):
        module.printed(kernel, "first")
    fresh = {symbol: llvm_kernel.emit(k, symbol) for symbol, k in (("k0_a", column_sums(f32)), ("k1_b", relu(3)))}
    monkeypatch.setattr(llvm_kernel, "make_plan", None)
    kept = {"k0_a": module.printed(column_sums(f32), "k0_a"), "k1_b": module.printed(relu(dim(Symbol())), "k1_b")}
    assert kept == fresh
    for symbol, text in fresh.items():
        assert module.SYMBOL not in text.text + "".join([*text.functions, *text.functions.values()])
        assert f"@{symbol}(" in text.text
    other = module.printed(relu(3), "other")
    assert other.text == fresh["k1_b"].text.replace("k1_b", "other")


def test_body_key_tells_equal_numbers_of_different_types_apart():
    def constant(value, d):
        return Kernel((3,), (), (Operand(d, (1,), "out"),), (),
                      (S("const", value=value, dtype=d), S("store", 0, operand=0)))
    values = ((0.0, f32), (-0.0, f32), (0.0, f64), (0, i64), (False, b8))
    keys = {llvm_kernel.body_key(constant(v, d)) for v, d in values}
    assert len(keys) == 5


def test_parameters_in_order():
    n, s = dim(Symbol()), dim(Symbol())
    kernel = Kernel((n,), (4,), (Operand(f32, (s, 1)), Operand(f32, (1, 0), "out")), (f64, b8, dtypes.float16), ())
    listed = [(p.kind, p.llvm_type, p.value) for p in chunks.parameters(kernel)]
    assert listed == [("size", "i64", n), ("size", "i64", 4), ("operand", "ptr", 0), ("operand", "ptr", 1),
                      ("stride", "i64", s), ("scalar", "double", 0), ("scalar", "i1", 1), ("scalar", "float", 2)]


def test_what_is_declared_are_functions_of_the_library():
    kernel = Kernel((3,), (), (Operand(f32, (1,)), Operand(f64, (1,), "out")), (),
                    (S("load", operand=0), S("sin", 0, dtype=f32), S("cast", 1, dtype=f64), S("log", 2, dtype=f64),
                     S("store", 3, operand=1)))
    text = llvm_kernel.emit(kernel, "k")
    called = {name for name in text.declares if not name.startswith("llvm.")}
    assert len(called) == 2
    assert called <= set(runtime.symbols())
