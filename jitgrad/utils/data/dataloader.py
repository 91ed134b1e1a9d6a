"""`DataLoader`: batches of a dataset, in order or shuffled."""

import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, cast

from jitgrad.device import has_gpu
from jitgrad.random import Generator
from jitgrad.utils.data import shuffle as shuffle_words
from jitgrad.utils.data.collate import default_collate, default_convert, pinned
from jitgrad.utils.data.dataset import Dataset, IterableDataset
from jitgrad.utils.data.fetch import NEXT, Loading
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)

#: what a loader's length and order follow from
FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class DataLoader(Generic[T_co]):
    """Iterates over batches of a dataset; each iteration is a new pass, shuffled anew.

    Args:
        dataset: with indices, or a stream (`IterableDataset`).
        batch_size: samples in a batch; None for single samples, not collated.
        shuffle: visit the samples in random order.
        sampler: gives the indices, instead of `shuffle`.
        batch_sampler: gives lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: processes that load batches; 0: they are loaded by the thread that iterates.
        collate_fn: makes a batch from a list of samples; `default_collate` if None. Runs in the workers.
        pin_memory: batches are put in memory that a GPU reads directly; without a GPU nothing.
        drop_last: leave out a last batch that is not full.
        timeout: seconds that a batch of a worker may take; 0: any time.
        worker_init_fn: called in each worker with its number when it begins.
        multiprocessing_context: of `multiprocessing`, or the name of a start method; makes the workers.
        prefetch_factor: batches that each worker has ready or in work; 2 if None.
        persistent_workers: the workers stay from one pass to the next.
        pin_memory_device: accepted for torch's sake.
        in_order: whether batches come in the order of their indices, or as they are ready.
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
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._iterator: Any = None
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and "_initialized" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """What makes the worker processes; None: what `multiprocessing` makes them by."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = _checked_context(context, self.num_workers)

    def __iter__(self) -> Iterator[Any]:
        """Batches; with `pin_memory`, where there is a GPU, in memory that it reads directly.

        A pass draws a seed for the workers, whether there are any or not, so that their number does not change what is
        drawn after it.
        """
        if self.pin_memory and not has_gpu():
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
                          "won't be used.", stacklevel=2)
        base_seed = shuffle_words.seed(self.generator)
        batches = self._from_workers(base_seed) if self.num_workers else map(self._loading().begin(), self._tasks())
        return map(pinned, batches) if self.pin_memory and has_gpu() else batches

    def _tasks(self) -> Iterator[Any]:
        """What a batch is made of: indices, or for a stream `NEXT` again and again."""
        if isinstance(self.dataset, IterableDataset):
            return itertools.repeat(NEXT)
        return iter(cast(Iterable[Any], self.sampler if self.batch_sampler is None else self.batch_sampler))

    def _loading(self) -> Loading:
        return Loading(self.dataset, self.collate_fn, self.batch_sampler is not None, self.batch_size, self.drop_last)

    def _from_workers(self, base_seed: int) -> Iterator[Any]:
        from jitgrad.utils.data.workers import WorkerIterator

        batches: WorkerIterator | None = self._iterator
        if batches is None or not batches.alive:
            batches = WorkerIterator(
                self._context or multiprocessing.get_context(), self.num_workers, self._loading(), base_seed=base_seed,
                prefetch=cast(int, self.prefetch_factor), timeout=self.timeout, worker_init_fn=self.worker_init_fn,
                in_order=self.in_order, persistent=self.persistent_workers)
            if self.persistent_workers:
                self._iterator = batches
        batches.begin(self._tasks())
        return batches

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
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if usable is not None and num_workers > usable:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {usable}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.", stacklevel=3)


def _checked_context(context: Any, num_workers: int) -> Any:
    if context is None:
        return None
    if not num_workers:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
                         f"got num_workers={num_workers}")
    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(f"multiprocessing_context option should specify a valid start method in {known!r}, but "
                             f"got multiprocessing_context={context!r}")
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={context}")
    return context


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
