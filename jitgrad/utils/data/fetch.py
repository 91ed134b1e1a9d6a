"""Batches from indices, or from a stream: what a `DataLoader` does in whatever process loads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from jitgrad.utils.data.collate import default_collate
from jitgrad.utils.data.dataset import IterableDataset, whole_batches

#: for each batch of a stream, in place of indices
NEXT = None


@dataclass(frozen=True, slots=True)
class Loading:
    """How batches are made of a dataset: `batched` of lists of samples; `size` and `drop_last` are a stream's."""

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool
    size: int | None
    drop_last: bool

    def begin(self) -> Callable[[Any], Any]:
        """A pass begins: what makes a batch of indices (of `NEXT` for a stream, then StopIteration at its end)."""
        if isinstance(self.dataset, IterableDataset):
            return self._streamed()
        if not self.batched:
            return lambda index: self.collate(self.dataset[index])
        at_once: Callable[[Any], Any] | None = whole_batches(self.dataset) if self.collate is default_collate else None
        if at_once is not None:
            return at_once
        many = getattr(self.dataset, "__getitems__", None)
        if many:
            return lambda indices: self.collate(many(indices))
        return lambda indices: self.collate([self.dataset[i] for i in indices])

    def _streamed(self) -> Callable[[Any], Any]:
        samples = iter(cast(Iterable[Any], self.dataset))

        def batch(_: Any) -> Any:
            found = list(itertools.islice(samples, self.size))
            if not found or (self.drop_last and len(found) < cast(int, self.size)):
                raise StopIteration
            return self.collate(found)

        return (lambda _: self.collate(next(samples))) if self.size is None else batch
