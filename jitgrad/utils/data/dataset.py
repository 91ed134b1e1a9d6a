"""Datasets: samples by index, or as a stream.

`whole_batches` finds the datasets whose batches can be made at once: of a `TensorDataset`, and of subsets of one, each
tensor's rows are gathered in one operation.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from jitgrad import Tensor, int64, tensor
from jitgrad.random import Generator
from jitgrad.utils.data.shuffle import permutation

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Base of the datasets with indices: write `__getitem__` and `__len__`.

    `__getitems__`, where a dataset has it, is given a list of indices by `DataLoader`, and returns a list of samples.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        """One after the other."""
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Base of the datasets that are streams: write `__iter__`."""

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        """One after the other."""
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors whose first axes are the samples: sample i is (t[i] for each).

    Raises:
        AssertionError: first sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))

    def batch(self, indices: Iterable[int]) -> list[Tensor]:
        """What `default_collate` makes of the samples at these indices."""
        rows = tensor(list(indices), dtype=int64)
        return [t[rows] for t in self.tensors]


class StackDataset(Dataset[Any]):
    """Datasets of one length side by side: samples are tuples, or dicts of the keywords given.

    Raises:
        ValueError: none, both forms at once, or lengths that differ.
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                             "input/output, but both types are given.")
        self.datasets: Any = args or kwargs
        parts: list[Any] = list(args or kwargs.values())
        if not parts:
            raise ValueError("At least one dataset should be passed")
        self._length = len(parts[0])
        if any(len(p) != self._length for p in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple([d[index] for d in self.datasets])

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other.

    Raises:
        AssertionError: no datasets, or a stream among them.
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate([_length(d) for d in self.datasets]))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError("list index out of range")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for d in self.datasets:
            yield from _stream(d)

    def __len__(self) -> int:
        return sum([_length(_stream(d)) for d in self.datasets])


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    Raises:
        NotImplementedError: a subclass overrides `__getitem__` alone, and `DataLoader` would pass it by.
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        own = type(self)
        if own.__getitem__ is not Subset.__getitem__ and own.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{own.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with your "
                "custom logic. A simple implementation:\n\ndef __getitems__(self, indices):\n    "
                "return [self.__getitem__(idx) for idx in indices]")

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """The samples at indices into this subset."""
        rows = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            found: list[T_co] = many(rows)
            return found
        return [self.dataset[i] for i in rows]

    def __len__(self) -> int:
        return len(self.indices)


def whole_batches(dataset: Any) -> Any:
    """`f(indices) -> batch` if the dataset can make the batch of `default_collate` at once, else None.

    Only the classes here qualify, not their subclasses, which may give samples of their own.
    """
    if type(dataset) is TensorDataset:
        return dataset.batch
    if type(dataset) is Subset:
        inner, chosen = whole_batches(dataset.dataset), dataset.indices
        return inner and (lambda indices: inner([chosen[i] for i in indices]))
    return None


def random_split(dataset: Dataset[T], lengths: Sequence[int | float], generator: Generator | None = None
                 ) -> list[Subset[T]]:
    """Disjoint random subsets of given lengths, or of given fractions that sum to 1.

    What fractions leave over goes to the first subsets, one sample each.

    Args:
        dataset: with a length.
        lengths: ints that sum to the dataset's length, or fractions.
        generator: where the random numbers come from; the default one of `manual_seed` if None.

    Raises:
        ValueError: lengths of another sum, or fractions outside of [0, 1].
    """
    n = _length(dataset)
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        counts = [math.floor(n * fraction) for fraction in lengths]
        for i in range(n - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.",
                              stacklevel=2)
        lengths = counts
    if sum(lengths) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = iter(permutation(n, generator))
    return [Subset(dataset, list(itertools.islice(order, int(count)))) for count in lengths]


def _length(dataset: Any) -> int:
    return len(dataset)


def _stream(dataset: Any) -> Any:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")
    return dataset
