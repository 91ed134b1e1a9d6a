"""Philox: the published vectors, the layout of draws, the stream."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes, random
from jitgrad.random import Generator, bits, philox, uniform, words


def block_of(counter, key):
    """The four words of one counter."""
    even, odd = (np.array([[a], [b]], np.uint64) for a, b in (counter[0::2], counter[1::2]))
    philox(even, odd, key)
    return [int(even[0, 0]), int(odd[0, 0]), int(even[1, 0]), int(odd[1, 0])]


# Source: Random123 (Salmon et al., 2011), tests/kat_vectors, lines philox4x32 10
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers(counter, key, expected) -> None:
    assert block_of(counter, key) == list(expected)


def test_layout_of_words() -> None:
    seed, offset = 0x299F31D0A4093822, (1 << 32) - 1  # the counter's carry into the second word is crossed
    w = words(seed, offset, 10)
    assert w.dtype == np.uint32
    assert w.shape == (10,)
    for block in range(3):
        counter = offset + block
        expected = block_of((counter & 0xFFFFFFFF, counter >> 32, 0, 0), (0xA4093822, 0x299F31D0))
        assert w[4 * block:4 * block + 4].tolist() == expected[:len(w[4 * block:4 * block + 4])]
    assert words(0, 0, 4).tolist() == list(VECTORS[0][2])
    assert words(3, 5, 0).shape == (0,)
    np.testing.assert_array_equal(words(7, (1 << 64) - 1, 8)[4:], words(7, 0, 4))  # the counter wraps
    np.testing.assert_array_equal(words(7, 0, 40000)[20000:], words(7, 5000, 20000))  # over chunks


def test_uniform_is_as_documented() -> None:
    w = words(11, 2, 12)
    np.testing.assert_array_equal(uniform(11, 2, (3, 4), dtypes.float32).reshape(-1),
                                  (w >> 8).astype(np.float32) * np.float32(2.0 ** -24))
    np.testing.assert_array_equal(uniform(11, 2, (12,), dtypes.float16),
                                  uniform(11, 2, (12,), dtypes.float32).astype(np.float16))
    expected = [((int(a) << 32 | int(b)) >> 11) * 2.0 ** -53 for a, b in zip(w[0::2], w[1::2], strict=True)]
    np.testing.assert_array_equal(uniform(11, 2, (6,), dtypes.float64), expected)
    np.testing.assert_array_equal(bits(11, 2, (2, 6)).reshape(-1), w)
    assert bits(11, 2, (2, 6)).dtype == np.int64
    assert uniform(1, 0, (), dtypes.float32).shape == ()


def test_uniform_is_uniform() -> None:
    for d in (dtypes.float32, dtypes.float64):
        u = uniform(1, 0, (200000,), d)
        assert u.min() >= 0
        assert u.max() < 1
        counts = np.histogram(u, 20, (0, 1))[0]
        assert ((counts - 10000) ** 2 / 10000).sum() < 50  # chi-squared, 19 degrees of freedom


def test_generator() -> None:
    g = Generator().manual_seed(5)
    assert g.advance(10) == (5, 0)
    assert g.advance(1) == (5, 3)
    assert g.advance(0) == (5, 4)
    state = g.get_state()
    assert state == (5, 4)
    assert g.advance(4) == (5, 4)
    g.set_state(state)
    assert g.advance(4) == (5, 4)
    assert Generator().manual_seed(-1).seed == (1 << 64) - 1
    assert g.random_seed() == g.initial_seed()
    assert Generator().seed == random.DEFAULT_SEED


@pytest.mark.parametrize("seed", [2 ** 63 + 5, -1])
def test_a_script_draws_for_seeds_of_64_bits(seed):
    def draw(n):
        return jitgrad.rand(n)

    found = []
    for f in (draw, jitgrad.script(draw)):
        jitgrad.manual_seed(seed)
        found.append((f(3).tolist(), jitgrad.rand(2).tolist(), jitgrad.initial_seed()))
    assert found[0] == found[1]
