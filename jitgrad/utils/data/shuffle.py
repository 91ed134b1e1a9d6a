"""Random orders for samplers, from a `Generator`; a permutation is what `randperm` would give from its stream."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgrad import float64, random
from jitgrad.random import Generator


def own_generator() -> Generator:
    """A generator with a seed that is drawn from the default one."""
    return Generator(seed(None))


def seed(generator: Generator | None) -> int:
    """A seed of 64 bits from a generator, or from the default one."""
    low, high = random.bits(*_stream(generator).advance(2), (2,)).tolist()
    return int(low | high << 32)


def permutation(n: int, generator: Generator | None) -> list[int]:
    """0, ..., n - 1 in random order: the order that sorts n words, equal ones as they come."""
    words = random.bits(*_stream(generator).advance(n), (n,))
    order: list[int] = np.argsort(words, kind="stable").tolist()
    return order


#: so many numbers of a draw are in memory at once
CHUNK = 1 << 14


def integers(n: int, count: int, generator: Generator | None) -> Iterator[int]:
    """`count` numbers in [0, n), of one draw."""
    seed, offset = _stream(generator).advance(count)
    for start in range(0, count, CHUNK):
        yield from (random.bits(seed, offset + random.blocks(start), (min(CHUNK, count - start),)) % n).tolist()


def weighted(weights: NDArray[Any], count: int, replacement: bool, generator: Generator | None) -> Iterator[int]:
    """`count` indices with probabilities in proportion to float64 weights (n,).

    Source: without replacement, the `count` largest of w / e, e exponential: Efraimidis and Spirakis, "Weighted random
    sampling with a reservoir", 2006.

    Raises:
        RuntimeError: negative or infinite weights, none positive, or fewer positive than needed without replacement.
    """
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not weights.sum() > 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement:
        steps, last = np.cumsum(weights), np.flatnonzero(weights)[-1]
        for u in _uniform(count, generator):
            # rounding may put u on the last step
            yield from np.minimum(np.searchsorted(steps, u * steps[-1], side="right"), last).tolist()
    else:
        if count > np.count_nonzero(weights):
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        waiting = np.maximum(-np.log1p(-np.concatenate(list(_uniform(len(weights), generator)))), 1e-300)
        yield from np.argsort(-weights / waiting, kind="stable")[:count].tolist()


def _uniform(n: int, generator: Generator | None) -> Iterator[NDArray[Any]]:
    """n uniform numbers of one draw, a chunk at a time."""
    seed, offset = _stream(generator).advance(random.words_needed(n, float64))
    for start in range(0, n, CHUNK):
        at = offset + random.blocks(random.words_needed(start, float64))
        yield random.uniform(seed, at, (min(CHUNK, n - start),), float64)


def _stream(generator: Generator | None) -> Generator:
    return random.default_generator if generator is None else generator
