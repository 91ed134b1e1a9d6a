"""Convolutions without columns, against NumPy's products of columns: every role, type, stride, width of vectors."""

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jitgrad
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, tiled
from jitgrad.kernels.tiled import convolution
from jitgrad.kernels.tiled.convolution import NAMES, Layout
from jitgrad.kernels.tiled.convolution_native import Convolution
from jitgrad.ops.rows import convolutions as rows

#: shapes of x and w, stride, padding, dilation, groups
CASES = [
    *rows._CASES,
    ((3, 5, 9, 11), (10, 5, 3, 4), (2, 3), (1, 2), (1, 1), 1),
    ((2, 8, 17, 40), (24, 4, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((2, 6, 12, 13), (12, 1, 3, 3), (2, 2), (1, 1), (2, 1), 6),
    ((1, 3, 40, 50), (9, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((2, 3, 8, 7), (4, 3, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((20, 6, 14, 14), (16, 6, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    ((2, 40, 5, 5), (70, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # deeper than a tile goes over at once
    ((40, 3, 33), (17, 3, 5), (1,), (4,), (1,), 1),
]


class Columns:
    """NumPy under another name, for which ops have no native code."""

    def __getattr__(self, name):
        return getattr(np, name)


def by_columns(x, w, *how):
    """The three results, by float64 products of NumPy's: y, its gradient g, those of x and w for it."""
    xp, x, w = Columns(), x.astype(np.float64), w.astype(np.float64)
    y = rows._conv(xp, x, w, *how)
    g = np.random.default_rng(1).normal(size=y.shape)
    return y, g, rows._conv_transpose(xp, g, w, x.shape, *how), rows._conv_weight(xp, g, x, w.shape, *how)


def agree(found, expected):
    """Within the rounding of a sum of so many products as these cases have."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    tolerance = 2e-5 if found.dtype == np.float32 else 1e-12
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients(case, dtype):
    xs, ws, *how = case
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=xs).astype(dtype), rng.normal(size=ws).astype(dtype)
    y, g, gx, gw = by_columns(x, w, *how)
    agree(tiled.convolved("y", x, w, y.shape, *how), y)
    agree(tiled.convolved("x", w, g.astype(dtype), xs, *how), gx)
    agree(tiled.convolved("w", x, g.astype(dtype), ws, *how), gw)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_sizes(data):
    rank, groups = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    kernel, stride, dilation = [data.draw(st.tuples(*[st.integers(1, n)] * rank)) for n in (4, 3, 2)]
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * rank))
    spatial = [max((k - 1) * d + 1 - 2 * p, 1) + data.draw(st.integers(0, 9 if rank < 3 else 3))
               for k, d, p in zip(kernel, dilation, padding, strict=True)]
    n, c, o = (data.draw(st.integers(1, m)) for m in (5, 3, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, w = rng.normal(size=(n, c * groups, *spatial)), rng.normal(size=(o * groups, c, *kernel))
    how = stride, padding, dilation, groups
    y, g, gx, gw = by_columns(x, w, *how)
    agree(tiled.convolved("y", x, w, y.shape, *how), y)
    agree(tiled.convolved("x", w, g, x.shape, *how), gx)
    agree(tiled.convolved("w", x, g, w.shape, *how), gw)


@pytest.mark.parametrize(("vector_bytes", "lanes512"), [(16, False), (32, False), (64, True)])
@pytest.mark.parametrize("role", "xwy")
def test_other_machines(vector_bytes, lanes512, role):
    """Tiles and vectors of narrower machines; of wider ones LLVM makes several."""
    text = Convolution("float32", vector_bytes, engine.host().has_fma, lanes512).text()
    loaded = engine.load(engine.compile_module(text), runtime.symbols())
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(loaded.address(f"jg_conv_{role}_float32"))
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4, 9, 10)).astype("float32"), rng.normal(size=(22, 2, 3, 3)).astype("float32")
    how = (2, 1), (1, 1), (1, 2), 2
    y, g, gx, gw = by_columns(x, w, *how)
    given_ = {"x": x, "w": w, "y": g.astype("float32")}
    expected = {"x": gx, "w": gw, "y": y}[role]
    given_[role] = np.full(expected.shape, np.nan, "float32")
    layout = Layout(x.shape, w.shape, y.shape, [s // 4 for s in x.strides], *how, role, 4)
    scratch = np.full(layout.scratch, np.nan, "float32")  # nothing of it may be counted on
    words = np.array(layout.words, np.int64)
    call(*[v.ctypes.data for v in (words, *given_.values(), scratch)])
    agree(given_[role], expected)


def test_every_number_has_a_name():
    layout = Layout((1, 2, 3), (2, 2, 2), (1, 2, 2), (6, 3, 1), (1,), (0,), (1,), 1, "y", 4)
    assert len(layout.words) == len(NAMES) == len(set(NAMES))


def test_images_a_block_at_a_time(monkeypatch):
    """The gradient of the weights over more images than are in memory at once, whole blocks and a rest."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(7, 3, 6, 6)), rng.normal(size=(20, 3, 3, 3))
    how = (1, 1), (0, 0), (1, 1), 1
    y, g, _, gw = by_columns(x, w, *how)
    for block, (outputs, slopes) in itertools.product((1, 1400, 1 << 20), ((20, g), (3, g[:, :3]))):
        monkeypatch.setattr(convolution, "BLOCK", block)
        agree(tiled.convolved("w", x, slopes, (outputs, 3, 3, 3), *how), gw[:outputs])
    assert y.shape == (7, 20, 4, 4)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_no_window_reads_spoils_no_gradient_of_weights(bad):
    x, w = np.ones((1, 1, 4, 5), np.float32), np.ones((1, 1, 1, 2), np.float32)
    x[0, 0, :, 4] = bad
    g = np.ones((1, 1, 4, 2), np.float32)  # windows of stride 2 end before the last column
    found = tiled.convolved("w", x, g, w.shape, (1, 2), (0, 0), (1, 1), 1)
    np.testing.assert_array_equal(found, np.full((1, 1, 1, 2), 8.0, np.float32))


def test_strided_and_empty_arrays():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 6, 5, 3)).transpose(0, 3, 1, 2), rng.normal(size=(4, 3, 3, 2))[:, :, ::-1]
    how = (1, 1), (1, 0), (1, 1), 1
    y, _, _, _ = by_columns(x, w, *how)
    agree(tiled.convolved("y", x, w, y.shape, *how), y)
    assert tiled.convolved("y", x[:0], w, (0, *y.shape[1:]), *how).shape == (0, *y.shape[1:])
    assert tiled.is_symbol("jg_conv_y_float32")
    assert not tiled.is_symbol("jg_gemm_float32")


@pytest.mark.parametrize("case", [
    ((19, 16, 20, 20), (32, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((21, 8, 33, 30), (12, 4, 5, 5), (2, 1), (2, 0), (1, 1), 2),
    ((40, 16, 400), (20, 16, 9), (1,), (4,), (2,), 1),
    ((40, 16, 400), (5, 16, 9), (1,), (4,), (2,), 1),
    ((5, 30, 20, 20), (200, 30, 3, 3), (1, 1), (1, 1), (1, 1), 1)], ids=str)
def test_the_same_bits_on_any_number_of_threads(case):
    xs, ws, *how = case
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=xs).astype("float32"), rng.normal(size=ws).astype("float32")
    y, g, gx, gw = by_columns(x, w, *how)
    before, found = jitgrad.get_num_threads(), []
    for count in (1, 2, 3):
        jitgrad.set_num_threads(count)
        found.append([tiled.convolved("y", x, w, y.shape, *how),
                      tiled.convolved("x", w, g.astype("float32"), xs, *how),
                      tiled.convolved("w", x, g.astype("float32"), ws, *how)])
    jitgrad.set_num_threads(before)
    for expected, *several in zip((y, gx, gw), *found, strict=True):
        agree(several[0], expected)
        assert len({v.tobytes() for v in several}) == 1
    layout = Layout(xs, ws, y.shape, [s // 4 for s in x.strides], *how, "w", 4)
    assert layout.words[NAMES.index("shares")] > 1
