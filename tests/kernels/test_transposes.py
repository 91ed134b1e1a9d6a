"""Transposed copies: by tiles and what is left of them, of every order of axes, alone and in chunks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run.on_arrays import rows
from jitgrad.ops import OPS


def copied(x: np.ndarray) -> np.ndarray:
    found = rows.computed(OPS["contiguous"], [x], {})
    assert isinstance(found, np.ndarray)
    assert found.flags.c_contiguous
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.int16, np.bool_])
@pytest.mark.parametrize("shape", [(2, 3), (8, 8), (7, 9), (16, 40), (33, 17), (3, 64), (300, 700)])
def test_matrices(shape: tuple[int, ...], dtype: type) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 100).astype(dtype)
    np.testing.assert_array_equal(copied(x.T), x.T)


def test_every_order_of_axes() -> None:
    x = np.random.default_rng(0).normal(size=(3, 9, 8, 17)).astype(np.float32)
    for axes in itertools.permutations(range(4)):
        np.testing.assert_array_equal(copied(x.transpose(axes)), x.transpose(axes))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks(threads: int) -> None:
    before = jitgrad.get_num_threads()
    jitgrad.set_num_threads(threads)
    try:
        for shape in ((1030, 1101), (40, 129, 77)):
            x = np.random.default_rng(0).normal(size=shape)
            np.testing.assert_array_equal(copied(x.T), x.T)
    finally:
        jitgrad.set_num_threads(before)


@jitgrad.script
def parts(x, k: int):
    return x[:, 1:, k:].transpose(1, 2).contiguous(), x.flip(0).transpose(0, 2).contiguous()


def test_parts_of_tensors_in_a_script() -> None:
    x = jitgrad.rand(5, 21, 30)
    for a, b in zip(parts(x, 3), parts.eager(x, 3), strict=True):
        assert jitgrad.equal(a, b)
        assert a.is_contiguous()
