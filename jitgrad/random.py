"""Random words: Philox4x32-10, a counter-based generator, so that every backend draws the same words for a seed.

The key is the 64-bit seed, the counter the 64-bit offset plus the number of the block; a block is four words.
Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgrad.dtypes import dtype

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the key in every round
ROUNDS = 10
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # torch's default seed


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[NDArray[np.uint64], ...]:
    """Ten rounds on arrays of counters: four uint64 arrays of 32-bit words.

    Args:
        counter: four uint64 arrays (or ints) of 32-bit words, which broadcast together; the first is an array.
        key: two 32-bit words.
    """
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = key
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    low, shift = np.uint64(MASK32), np.uint64(32)
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + WEYL[0]) & MASK32, (k1 + WEYL[1]) & MASK32
    return c0, c1, c2, c3


def words(seed: int, offset: int, n: int) -> NDArray[np.uint32]:
    """The first n words of the draw at `offset`: word i is lane i % 4 of block i // 4, uint32, (n,)."""
    blocks = (n + 3) // 4
    counter = np.arange(blocks, dtype=np.uint64) + np.uint64(offset & MASK64)
    key = (seed & MASK32, (seed >> 32) & MASK32)
    lanes = philox((counter & np.uint64(MASK32), counter >> np.uint64(32), 0, 0), key)
    out = np.empty((blocks, 4), np.uint32)
    for lane, values in enumerate(lanes):
        out[:, lane] = values
    return out.reshape(-1)[:n]


def words_needed(count: int, d: dtype) -> int:
    """How many words `count` uniform numbers of dtype `d` take."""
    return 2 * count if d.name == "float64" else count


def blocks(n: int) -> int:
    """By how much a draw of n words advances the offset."""
    return (n + 3) // 4


def uniform(seed: int, offset: int, shape: Sequence[int], d: dtype) -> NDArray[Any]:
    """Uniform numbers in [0, 1) of a floating-point dtype: 24 random bits for float32 and float16, 53 for float64."""
    n = math.prod(shape)
    w = words(seed, offset, words_needed(n, d))
    if d.name == "float64":
        bits = (w[0::2].astype(np.uint64) << np.uint64(32) | w[1::2]) >> np.uint64(11)
        return (bits.astype(np.float64) * 2.0 ** -53).reshape(shape)
    u = (w >> np.uint32(8)).astype(np.float32) * np.float32(2.0 ** -24)
    return u.astype(d.np, copy=False).reshape(shape)


def bits(seed: int, offset: int, shape: Sequence[int]) -> NDArray[np.int64]:
    """Words in [0, 2^32) as int64."""
    return words(seed, offset, math.prod(shape)).astype(np.int64).reshape(shape)


class Generator:
    """A stream of draws: the seed, and the offset at which the next draw starts."""

    def __init__(self, seed: int = DEFAULT_SEED):
        self.seed, self.offset = seed & MASK64, 0
        self._lock = threading.Lock()

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, any int, from its beginning."""
        with self._lock:
            self.seed, self.offset = seed & MASK64, 0
        return self

    def random_seed(self) -> int:
        """Start the stream of a seed from the operating system; that seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.seed

    def initial_seed(self) -> int:
        """The seed of this stream."""
        return self.seed

    def advance(self, n: int) -> tuple[int, int]:
        """Reserve a draw of n words: the (seed, offset) to make it with."""
        with self._lock:
            start = self.offset
            self.offset = (start + blocks(n)) & MASK64
            return self.seed, start

    def get_state(self) -> tuple[int, int]:
        """(seed, offset)."""
        with self._lock:
            return self.seed, self.offset

    def set_state(self, state: tuple[int, int]) -> None:
        """Go on from a state that `get_state` gave."""
        seed, offset = state
        with self._lock:
            self.seed, self.offset = seed & MASK64, offset & MASK64


default_generator = Generator()
