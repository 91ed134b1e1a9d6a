"""Random orders for samplers, from a `Generator`; a permutation is what `randperm` would give from its stream."""

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


def integers(n: int, count: int, generator: Generator | None) -> list[int]:
    """`count` numbers in [0, n)."""
    drawn: list[int] = (random.bits(*_stream(generator).advance(count), (count,)) % n).tolist()
    return drawn


def weighted(weights: NDArray[Any], count: int, replacement: bool, generator: Generator | None) -> list[int]:
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
        steps = np.cumsum(weights)
        u = _uniform(count, generator) * steps[-1]
        # rounding may put u on the last step
        picked = np.minimum(np.searchsorted(steps, u, side="right"), np.flatnonzero(weights)[-1])
    else:
        if count > np.count_nonzero(weights):
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        waiting = np.maximum(-np.log1p(-_uniform(len(weights), generator)), 1e-300)
        picked = np.argsort(-weights / waiting, kind="stable")[:count]
    found: list[int] = picked.tolist()
    return found


def _uniform(n: int, generator: Generator | None) -> NDArray[Any]:
    stream = _stream(generator)
    return random.uniform(*stream.advance(random.words_needed(n, float64)), (n,), float64)


def _stream(generator: Generator | None) -> Generator:
    return random.default_generator if generator is None else generator
