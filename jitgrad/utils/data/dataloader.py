"""`DataLoader`: batches of a dataset, in order or shuffled."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, cast

from jitgrad.device import has_gpu
from jitgrad.random import Generator
from jitgrad.utils.data.collate import default_collate, default_convert, pinned
from jitgrad.utils.data.dataset import Dataset, IterableDataset, whole_batches
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)

#: what a loader's length and order follow from
FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"))


class DataLoader(Generic[T_co]):
    """Iterates over batches of a dataset; each iteration is a new pass, shuffled anew.

    Args:
        dataset: with indices, or a stream (`IterableDataset`).
        batch_size: samples in a batch; None for single samples, not collated.
        shuffle: visit the samples in random order.
        sampler: gives the indices, instead of `shuffle`.
        batch_sampler: gives lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: accepted for torch's sake; batches are loaded by the thread that iterates.
        collate_fn: makes a batch from a list of samples; `default_collate` if None.
        pin_memory: batches are put in memory that a GPU reads directly; without a GPU nothing.
        timeout, worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers,
            pin_memory_device, in_order: accepted for torch's sake; they are about worker processes and devices.
        drop_last: leave out a last batch that is not full.
        generator: where `shuffle` takes its random numbers from. Without one each pass takes a seed from the default
            generator, so that `manual_seed` makes the order reproducible.

    Raises:
        ValueError: options that exclude each other, as in torch.
    """

    def __init__(self, dataset: Dataset[T_co], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler[Any] | Iterable[Any] | None = None,
                 batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None,
                 multiprocessing_context: Any = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterableDataset):
            _check_stream(shuffle, sampler, batch_sampler)
        _check_exclusive(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None and not isinstance(dataset, IterableDataset):
            source = cast(Sized, dataset)
            sampler = RandomSampler(source, generator=generator) if shuffle else SequentialSampler(source)
        if batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        if collate_fn is None:
            single = batch_size is None and batch_sampler is None
            collate_fn = default_convert if single else default_collate
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn
        self.generator = generator
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and "_initialized" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        """Batches; with `pin_memory`, where there is a GPU, in memory that it reads directly."""
        return map(pinned, self._collated()) if self.pin_memory and has_gpu() else self._collated()

    def _collated(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._streamed()
        if self.batch_sampler is None:
            indices = iter(cast(Iterable[Any], self.sampler))
            return (self.collate_fn(cast(Any, self.dataset[i])) for i in indices)
        return self._batches(iter(self.batch_sampler))

    def _batches(self, batches: Iterator[list[Any]]) -> Iterator[Any]:
        dataset, collate = self.dataset, self.collate_fn
        at_once = whole_batches(dataset) if collate is default_collate else None
        if at_once is not None:
            for indices in batches:
                yield at_once(indices)
            return
        many = getattr(dataset, "__getitems__", None)
        for indices in batches:
            yield collate(many(indices) if many else [dataset[i] for i in indices])

    def _streamed(self) -> Iterator[Any]:
        samples = iter(cast(Iterable[Any], self.dataset))
        if self.batch_size is None:
            for sample in samples:
                yield self.collate_fn(sample)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        """The number of batches. TypeError where the dataset or the sampler has no length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(cast(Sized, self.sampler if self.batch_sampler is None else self.batch_sampler))
        n = len(cast(Sized, self.dataset))
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        if num_workers == 0:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
                             "enable multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                             f"{name}={value}")


def _check_exclusive(batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                             "drop_last")
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
