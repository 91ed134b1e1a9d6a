"""Attention by blocks: sizes beside and beyond these, masks, strides, NaN, for vectors of every machine."""

import ctypes
import itertools

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, tiled
from jitgrad.kernels.tiled import attention
from jitgrad.kernels.tiled.attention_native import HEADS, KEYS, ROWS, SHARE, Attention
from jitgrad.ops.rows import attention as rows

#: batches, heads, queries, keys, width
SIZES = {"one": (1, 1, 1, 1, 1), "small": (2, 3, 5, 7, 4), "blocks": (1, 2, ROWS, KEYS, 16),
         "beyond": (1, 2, ROWS + 3, 2 * KEYS + 5, 33), "many keys": (1, 1, 3, 3 * KEYS, 8),
         "shares": (2, 1, ROWS + 70, 3 * SHARE + 9, 8), "many queries": (2, 1, 2 * ROWS + 1, 9, 8),
         "no keys": (1, 2, 3, 0, 4), "no queries": (1, 2, 0, 3, 4)}
MASKS = {"none": None, "added": (1, 1, 1, 1), "per key": (1, 0, 0, 1), "per query": (0, 1, 1, 0), "flags": (0, 0, 1, 1),
         "flags per key": (1, 0, 0, 1)}
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}


def functions(name, vector_bytes):
    machine = engine.host()
    if vector_bytes > machine.vector_bytes:
        pytest.skip("this machine's vectors are narrower")
    text = Attention(name, vector_bytes, machine.has_fma and vector_bytes > 16, vector_bytes == 64).text()
    names = {role: f"{attention.PREFIX}{role}_{name}" for role in attention.ROLES}
    loaded = engine.load(engine.compile_module(text), runtime.symbols(), list(names.values()))
    return {role: (loaded, loaded.address(symbol)) for role, symbol in names.items()}


def usual(name):
    return {role: (None, tiled.address(f"{attention.PREFIX}{role}_{name}")) for role in attention.ROLES}


def given(sizes, dtype, seed=0):
    """q, k, v and g, of which every second element of an axis is used: other strides than those of rows."""
    n, h, queries, keys, width = sizes
    rng = np.random.default_rng(seed)
    wide = {name: rng.normal(size=(n, m, 2 * h, width)).astype(dtype)[:, :, ::2]
            for name, m in (("q", queries), ("k", keys), ("v", keys), ("g", queries))}
    return wide


def mask_of(how, sizes, dtype):
    if MASKS[how] is None:
        return None
    shape = [size if there else 1 for size, there in zip(sizes[:4], MASKS[how], strict=True)]
    rng = np.random.default_rng(5)
    if not how.startswith("flags"):
        return rng.normal(size=shape).astype(dtype)
    mask = rng.random(shape) < 0.7
    mask[..., :1, :] &= False  # a query that sees nothing, or none does
    return mask


def run(functions, role, sizes, arrays, causal=False, mask=None, scale=None):
    """Call a function with all that it makes as NaNs."""
    n, h, queries, keys, width = sizes
    dtype = arrays["q"].dtype
    made = {"y": queries, "dq": queries, "dk": keys, "dv": keys}
    places = {name: np.full((n, m, h, width), np.nan, dtype) for name, m in made.items()} | arrays
    places.setdefault("lse", np.full((n, h, queries), np.nan, dtype))
    moves = {name: [s // dtype.itemsize for s in places[name].strides[:3]] for name in attention.WIDE if name in places}
    kind = attention.NO_MASK
    if mask is not None:
        kind = attention.FLAGS if mask.dtype == bool else attention.ADDED
        moves["mask"] = [0 if m == 1 else s // mask.itemsize for m, s in zip(mask.shape, mask.strides, strict=True)]
        places["mask"] = mask
    words = np.array(attention.words(sizes, causal, kind, scale, moves), np.int64)
    _, address = functions[role]
    operands = attention.ROLES[role]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + len(operands)))(address)(
        words.ctypes.data, *[places[name].ctypes.data if name in places else None for name in operands])
    return places


def check(functions, sizes, dtype, causal, how, scale=None):
    arrays, mask = given(sizes, dtype), mask_of(how, sizes, dtype)
    q, k, v, g = (arrays[name] for name in "qkvg")
    attrs = {"scale": scale, "width": 0, **({} if mask is not None else {"causal": causal})}
    more = () if mask is None else (mask,)
    with np.errstate(divide="ignore"):  # the logarithm of no keys
        y, lse = rows._attention(np, q, k, v, *more, **attrs)
        wanted = rows._attention_backward(np, q, k, v, y, lse, g, *more, **attrs)
    tolerance = TOLERANCE[np.dtype(dtype)]
    forward = run(functions, "forward", sizes, arrays, causal, mask, scale)
    np.testing.assert_allclose(forward["y"], y, rtol=tolerance, atol=tolerance)
    if k.shape[1]:
        np.testing.assert_allclose(forward["lse"], lse, rtol=tolerance, atol=tolerance)
    arrays |= {n: forward[n] for n in ("y", "lse")}
    backward = run(functions, "backward", sizes, arrays, causal, mask, scale)
    for name, x in zip(("dq", "dk", "dv"), wanted, strict=True):
        np.testing.assert_allclose(backward[name], x, rtol=4 * tolerance, atol=4 * tolerance, err_msg=name)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_every_vector(name, vector_bytes):
    made = functions(name, vector_bytes)
    for size, causal in itertools.product(("small", "beyond"), (False, True)):
        check(made, SIZES[size], np.dtype(name), causal, "none")
    check(made, SIZES["beyond"], np.dtype(name), False, "flags")


@pytest.mark.parametrize("how", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_and_mask(size, how):
    for dtype, causal in itertools.product((np.float32, np.float64), (False, True) if how == "none" else (False,)):
        check(usual(np.dtype(dtype).name), SIZES[size], dtype, causal, how)
    check(usual("float64"), SIZES[size], np.float64, False, how, scale=0.3)


@pytest.mark.parametrize("sizes", [(2, 3, 150, 200, 24), (1, 1, 700, 900, 8), (2, HEADS // 2, 150, 200, 24)])
def test_the_same_bits_on_any_number_of_threads(sizes):
    before, found = jitgrad.get_num_threads(), []
    arrays = given(sizes, np.float32)
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            forward = run(usual("float32"), "forward", sizes, arrays, True)
            backward = run(usual("float32"), "backward", sizes, arrays | {n: forward[n] for n in ("y", "lse")}, True)
            found.append([x.tobytes() for x in (forward["y"], *[backward[n] for n in ("dq", "dk", "dv")])])
    finally:
        jitgrad.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_scores_of_infinity_and_nan():
    """As a softmax has them: what is only -infinity, or has a NaN or infinity, is NaN; -infinity beside others is 0."""
    sizes = 1, 1, 4, 2 * KEYS, 2
    arrays = {name: np.ones((1, m, 1, 2), np.float32) for name, m in (("q", 4), ("k", 2 * KEYS), ("v", 2 * KEYS))}
    arrays["v"][0, KEYS:] = 3
    mask = np.zeros((1, 1, 4, 2 * KEYS), np.float32)
    mask[..., 0, :KEYS] = -np.inf  # all of the first block
    mask[..., 1, 1:] = -np.inf
    mask[..., 2, 7] = np.nan
    mask[..., 3, KEYS + 1] = np.inf
    y = run(usual("float32"), "forward", sizes, arrays, mask=mask)["y"][0, :, 0, 0]
    assert y[0] == 3
    assert y[1] == 1
    assert np.isnan(y[2:]).all()
