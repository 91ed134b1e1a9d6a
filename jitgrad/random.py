"""Random words: Philox4x32-10, a counter-based generator, so that every backend draws the same words for a seed.

The key is the 64-bit seed, the counter the 64-bit offset plus the number of the block; a block is four words.
Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad import locks
from jitgrad.device import resolve
from jitgrad.dtypes import dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # added to the key in every round
ROUNDS = 10
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
DEFAULT_SEED = 67280421310721  # torch's default seed


_M = np.array([[MULTIPLIERS[0]], [MULTIPLIERS[1]]], np.uint64)
_LOW, _SHIFT = np.uint64(MASK32), np.uint64(32)
_CHUNK = 4096  # blocks at a time, so that the state stays in the cache


def philox(even: NDArray[np.uint64], odd: NDArray[np.uint64], key: tuple[int, int]) -> None:
    """Ten rounds in place on n blocks: `even` holds words 0 and 2 of the counters, `odd` 1 and 3, uint64, (2, n)."""
    (k0, k1), (w0, w1) = key, WEYL
    keys = np.array([[[(k0 + r * w0) & MASK32], [(k1 + r * w1) & MASK32]] for r in range(ROUNDS)], np.uint64)
    products = np.empty_like(even)
    swapped = products[::-1]
    for round_key in keys:
        np.multiply(even, _M, out=products)
        np.right_shift(swapped, _SHIFT, out=even)
        even ^= odd
        even ^= round_key
        np.bitwise_and(swapped, _LOW, out=odd)


def words(seed: int, offset: int, n: int) -> NDArray[np.uint32]:
    """The first n words of the draw at `offset`: word i is lane i % 4 of block i // 4, uint32, (n,)."""
    count = blocks(n)
    out = np.empty((count, 4), np.uint32)
    key = (seed & MASK32, (seed >> 32) & MASK32)
    for start in range(0, count, _CHUNK):
        part = out[start:start + _CHUNK]
        counter = np.arange(len(part), dtype=np.uint64) + np.uint64((offset + start) & MASK64)
        even, odd = np.zeros((2, 2, len(part)), np.uint64)
        np.bitwise_and(counter, _LOW, out=even[0])
        np.right_shift(counter, _SHIFT, out=odd[0])
        philox(even, odd, key)
        part[:, 0::2], part[:, 1::2] = even.T, odd.T
    return out.reshape(-1)[:n]


def words_needed(count: int, d: dtype) -> int:
    """How many words `count` uniform numbers of dtype `d` take."""
    return 2 * count if d.name == "float64" else count


def blocks(n: int) -> int:
    """By how much a draw of n words advances the offset."""
    return (n + 3) // 4


def uniform(seed: int, offset: int, shape: Sequence[int], d: dtype) -> NDArray[Any]:
    """Uniform numbers in [0, 1) of a floating-point dtype: 24 random bits, 53 for float64."""
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
    """A stream of draws: the seed, and the offset at which the next draw starts. Threads that share it draw apart."""

    def __init__(self, seed: int | None = None, *, device: Any = "cpu"):
        self._seed, self.offset = (DEFAULT_SEED if seed is None else seed) & MASK64, 0
        self.device = resolve(device)
        self._lock = threading.RLock()
        locks.new_in_children(self)

    @property
    def key(self) -> int:
        """The seed as a signed number of 64 bits, which is what compiled code holds."""
        return self._seed - (self._seed >> 63 << 64)

    @key.setter
    def key(self, value: int) -> None:
        self._seed = value & MASK64

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, any int, from its beginning."""
        with self._lock:
            self._seed, self.offset = seed & MASK64, 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed from the operating system; that seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of this stream."""
        return self._seed

    def advance(self, n: int) -> tuple[int, int]:
        """Reserve a draw of n words: the (seed, offset) to make it with."""
        with self._lock:
            start = self.offset
            self.offset = (start + blocks(n)) & MASK64
            return self._seed, start

    def __enter__(self) -> Generator:
        """Inside, no other thread draws: for programs, which read the state when they begin and store it later."""
        self._lock.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Inside of `with` this generator, others may draw: while a program waits for what is not part of it."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    @property
    def position(self) -> tuple[int, int]:
        """Seed and offset; assigned, the stream goes on from there."""
        with self._lock:
            return self._seed, self.offset

    @position.setter
    def position(self, value: tuple[int, int]) -> None:
        with self._lock:
            self._seed, self.offset = (n & MASK64 for n in value)

    def get_state(self) -> Any:
        """The state as a tensor, uint8 (16,): seed and offset."""
        import jitgrad

        return jitgrad.from_numpy(np.array(self.position, "<u8").view(np.uint8))

    def set_state(self, new_state: Any) -> Generator:
        """Go on from a state that `get_state` gave; the generator.

        Raises TypeError for what is no tensor of bytes, RuntimeError for one that has another size or gaps.
        """
        import jitgrad

        if not isinstance(new_state, jitgrad.Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.is_cuda or new_state.dtype is not jitgrad.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if not new_state.is_contiguous():
            raise RuntimeError("RNG state must be contiguous")
        if new_state.numel() != 16:
            raise RuntimeError("Expected a generator's state of size 16 but found the input RNG state size to be "
                               f"{new_state.numel()}")
        self.position = tuple(new_state.detach().numpy().reshape(-1).view("<u8").tolist())
        return self

    def clone_state(self) -> Generator:
        """Another generator that draws what this one will draw."""
        other = Generator(device=self.device)
        other.position = self.position
        return other


default_generator = Generator()


# --- the default generator -----------------------------------------------------------------------------------------


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`; the generator."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start a stream that differs from run to run; its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the current stream."""
    return default_generator.initial_seed()


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """What is drawn inside does not count: the default generator's stream goes on behind as it was in front.

    `devices` is for programs that name GPUs, which draw from the same stream here.
    """
    before = default_generator.position
    try:
        yield
    finally:
        if enabled:
            default_generator.position = before
