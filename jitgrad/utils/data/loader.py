"""Batches of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.random import Generator
from jitgrad.utils.data.dataset import Dataset, IterableDataset, TensorDataset
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch from samples: tensors and arrays stacked, numbers in a tensor, tuples, lists and dicts item by item.

    Floats become float64 and ints int64, as in torch. TypeError for anything else.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return jitgrad.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        return jitgrad.from_numpy(np.stack(batch))
    if isinstance(first, np.generic):
        return jitgrad.from_numpy(np.asarray(batch))
    if isinstance(first, float):
        return jitgrad.tensor(batch, dtype=jitgrad.float64)
    if isinstance(first, int):
        return jitgrad.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(items) for items in zip(*batch, strict=True)))
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(items) for items in zip(*batch, strict=True)]
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                    f"{type(first)}")


class DataLoader:
    """Iterates over a dataset in batches.

    Args:
        dataset: with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: None: samples come one by one.
        shuffle: a new random order in each pass, from `generator` (a `jitgrad.Generator`; the default one if None).
        sampler: gives indices, in place of `shuffle`.
        batch_sampler: gives lists of indices, in place of batch_size, shuffle, sampler and drop_last.
        num_workers: 0; batches are made in this process.
        collate_fn: makes a batch from a list of samples.
        drop_last: leave out a last batch that is shorter.
    """

    def __init__(self, dataset: Dataset[Any], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Iterable[int] | None = None, batch_sampler: Iterable[list[int]] | None = None,
                 num_workers: int = 0, collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None,
                 multiprocessing_context: Any = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True):
        if num_workers != 0:
            raise NotImplementedError("DataLoader(num_workers=...): batches are made in this process; use "
                                      "num_workers=0")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        is_stream = isinstance(dataset, IterableDataset)
        if is_stream and (shuffle or sampler is not None or batch_sampler is not None):
            option = "shuffle" if shuffle else "sampler" if sampler is not None else "batch_sampler"
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {option} option")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and not is_stream:
            sampler = (RandomSampler(dataset, generator=generator) if shuffle  # type: ignore[arg-type]
                       else SequentialSampler(dataset))  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None and not is_stream:
            assert sampler is not None
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.num_workers = num_workers
        self.collate_fn = collate_fn or default_collate

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._stream()
        if self.batch_sampler is None:
            assert self.sampler is not None
            return (self.dataset[i] for i in self.sampler)
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            return self._rows(self.dataset, self.batch_sampler)
        return (self.collate_fn(self._samples(indices)) for indices in self.batch_sampler)

    def _samples(self, indices: list[int]) -> list[Any]:
        several = getattr(self.dataset, "__getitems__", None)
        return list(several(indices)) if several is not None else [self.dataset[i] for i in indices]

    def _rows(self, dataset: TensorDataset, batches: Iterable[list[int]]) -> Iterator[list[Tensor]]:
        """Batches of a TensorDataset: rows gathered at once."""
        for indices in batches:
            rows = jitgrad.from_numpy(np.asarray(indices, np.int64))
            yield [t[rows] for t in dataset.tensors]

    def _stream(self) -> Iterator[Any]:
        """An IterableDataset's samples, in batches if there is a batch size."""
        assert isinstance(self.dataset, IterableDataset)
        batch: list[Any] = []
        for sample in self.dataset:
            if self.batch_size is None:
                yield sample
                continue
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        source: Any = self.batch_sampler if self.batch_sampler is not None else self.sampler
        if source is None:
            n = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(source)
