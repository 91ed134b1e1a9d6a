"""Loading data: what torch does with the same arguments, and what a seed fixes."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import Generator
from jitgrad.utils import data

torch = pytest.importorskip("torch")


class Rows:
    """A dataset for either library: dicts of a tensor, a float and a list."""

    def __init__(self, lib: Any, n: int = 7) -> None:
        self.lib, self.n = lib, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return {"x": self.lib.tensor([i, -i]), "f": i / 2, "l": [i, (i, f"s{i}")], "a": np.full(2, i, np.float32)}


def plain(value: Any) -> Any:
    """Nested lists with the dtypes of tensors, the same for both libraries."""
    if hasattr(value, "tolist"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [type(value).__name__, *map(plain, value)] if isinstance(value, (list, tuple)) else value


OPTIONS: list[dict[str, Any]] = [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": 7}, {"batch_size": 20},
    {"batch_size": 20, "drop_last": True}, {"batch_size": None}, {"sampler": [3, 1, 1]}, {"num_workers": 0},
    {"sampler": [3, 1, 1], "batch_size": 2}, {"batch_sampler": [[1, 2], [0]]}, {"batch_size": 2, "collate_fn": len},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_as_in_torch(options: dict[str, Any]) -> None:
    ours, theirs = data.DataLoader(Rows(jitgrad), **options), torch.utils.data.DataLoader(Rows(torch), **options)
    expected = [plain(b) for b in theirs]
    assert [plain(b) for b in ours] == expected
    assert [plain(b) for b in ours] == expected  # and once more
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_of_tensors_as_in_torch(options: dict[str, Any]) -> None:
    """The way that gathers whole batches gives what collating single samples gives."""
    values = np.arange(14, dtype=np.float32).reshape(7, 2)
    sets = [lib.utils.data.TensorDataset(lib.tensor(values), lib.arange(7)) for lib in (jitgrad, torch)]
    for wrap in (lambda lib, d: d, lambda lib, d: lib.utils.data.Subset(d, [6, 5, 4, 3, 2, 1, -7]),
                 lambda lib, d: lib.utils.data.Subset(lib.utils.data.Subset(d, range(7)), [6, 5, 4, 3, 2, 1, 0]),
                 lambda lib, d: lib.utils.data.ConcatDataset([d, d]), lambda lib, d: d + d,
                 lambda lib, d: lib.utils.data.StackDataset(d, d),
                 lambda lib, d: lib.utils.data.StackDataset(a=d, b=d)):
        pair = [wrap(lib, d) for lib, d in zip((jitgrad, torch), sets, strict=True)]
        ours, theirs = data.DataLoader(pair[0], **options), torch.utils.data.DataLoader(pair[1], **options)
        assert [plain(b) for b in ours] == [plain(b) for b in theirs]
        assert len(ours) == len(theirs)


def test_a_batch_is_a_copy() -> None:
    x = jitgrad.arange(6).float()
    for batch in data.DataLoader(data.TensorDataset(x), batch_size=6):
        batch[0].zero_()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_batch_of_tensors_reaches_gradients() -> None:
    x = jitgrad.arange(4).float().requires_grad_()
    for (batch,) in data.DataLoader(data.TensorDataset(x), batch_size=3):
        (batch * batch).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


def test_subclasses_of_tensor_dataset_keep_their_samples() -> None:
    class Doubled(data.TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return tuple(2 * t for t in super().__getitem__(index))

    dataset = Doubled(jitgrad.arange(4))
    assert [b[0].tolist() for b in data.DataLoader(dataset, 2)] == [[0, 2], [4, 6]]
    assert [b[0].tolist() for b in data.DataLoader(data.Subset(dataset, [3, 1]), 2)] == [[6, 2]]


def test_getitems_is_used_where_a_dataset_has_it() -> None:
    class Many(data.Dataset[int]):
        def __len__(self) -> int:
            return 5

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * i for i in indices]

    assert [b.tolist() for b in data.DataLoader(Many(), 2)] == [[0, 10], [20, 30], [40]]
    assert [b.tolist() for b in data.DataLoader(data.Subset(Many(), [4, 2]), 2)] == [[40, 20]]
    with pytest.raises(NotImplementedError, match=r"Subclasses of Dataset should implement __getitem__\."):
        Many()[0]

    class Half(data.Subset[int]):
        def __getitem__(self, index: Any) -> int:
            return 0

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(Many(), [0])


class Count(data.IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


class Sized(Count):
    def __len__(self) -> int:
        return self.n


def test_streams() -> None:
    loader = data.DataLoader(Sized(5), batch_size=2)
    assert [b.tolist() for b in loader] == [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]
    assert (len(loader), len(data.DataLoader(Sized(5), 2, drop_last=True)), len(data.DataLoader(Sized(5), None))) == (
        3, 2, 5)
    with pytest.raises(TypeError, match="has no len"):
        len(data.DataLoader(Count(5)))
    chained = Sized(2) + Sized(3)
    assert list(chained) == [0, 1, 0, 1, 2]
    assert len(chained) == 5
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(data.ChainDataset([Sized(2), [1]]))
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        data.ConcatDataset([Sized(2)])
    with pytest.raises(TypeError, match="abstract"):
        data.IterableDataset()  # type: ignore[abstract]
    endless = data.DataLoader(_Endless(), batch_size=2)
    assert [b.tolist() for b in itertools.islice(endless, 2)] == [[0, 1], [2, 3]]


class _Endless(data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


# --- orders --------------------------------------------------------------------------------------------------------


def order(loader: Any) -> list[int]:
    return [i for batch in loader for i in batch[0].tolist()]


def shuffled(**options: Any) -> Any:
    return data.DataLoader(data.TensorDataset(jitgrad.arange(50)), batch_size=8, shuffle=True, **options)


def test_a_seed_fixes_every_epoch() -> None:
    runs = []
    for _ in range(2):
        jitgrad.manual_seed(7)
        loader = shuffled()
        runs.append([order(loader) for _ in range(3)])
    assert runs[0] == runs[1]
    assert len({tuple(o) for o in runs[0]}) == 3
    assert all(sorted(o) == list(range(50)) for o in runs[0])


def test_draws_during_an_epoch_do_not_change_its_order() -> None:
    jitgrad.manual_seed(7)
    expected = order(shuffled())
    jitgrad.manual_seed(7)
    found = []
    for (batch,) in shuffled():
        jitgrad.rand(5)
        found += batch.tolist()
    assert found == expected


def test_a_generator_of_its_own_leaves_the_default_one_alone() -> None:
    jitgrad.manual_seed(1)
    expected = jitgrad.rand(3).tolist()
    jitgrad.manual_seed(1)
    loader = shuffled(generator=Generator().manual_seed(5))
    first, second = order(loader), order(loader)
    assert jitgrad.rand(3).tolist() == expected
    assert first != second
    assert order(shuffled(generator=Generator(5))) == first


def test_a_permutation_is_that_of_randperm() -> None:
    jitgrad.manual_seed(11)
    expected = jitgrad.randperm(40).tolist()
    sampler = data.RandomSampler(range(40), generator=Generator(11))
    assert list(sampler) == expected
    parts = data.random_split(range(40), [30, 10], generator=Generator(11))
    assert [i for p in parts for i in p.indices] == expected


def test_weighted_sampler() -> None:
    weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0]
    drawn = Counter(data.WeightedRandomSampler(weights, 8000, generator=Generator(0)))
    assert set(drawn) == {1, 2, 4}
    for i in (1, 2, 4):
        assert abs(drawn[i] / 8000 - weights[i] / 8) < 0.025
    once = data.WeightedRandomSampler(weights, 3, replacement=False, generator=Generator(0))
    assert sorted(once) == [1, 2, 4]
    firsts = Counter(next(iter(data.WeightedRandomSampler(weights, 1, False, Generator(s)))) for s in range(800))
    assert abs(firsts[4] / 800 - 0.5) < 0.07
    for bad in ([1.0, -1.0], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(RuntimeError):
            list(data.WeightedRandomSampler(bad, 1))
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist"):
        list(data.WeightedRandomSampler(weights, 4, replacement=False))


def test_replacement_is_uniform() -> None:
    drawn = Counter(data.RandomSampler(range(4), replacement=True, num_samples=8000, generator=Generator(3)))
    assert all(abs(drawn[i] / 8000 - 0.25) < 0.025 for i in range(4))


# --- errors --------------------------------------------------------------------------------------------------------

_BAD: list[Any] = [
    lambda d, x: d.DataLoader(x, sampler=[0], shuffle=True), lambda d, x: d.DataLoader(x, batch_size=0),
    lambda d, x: d.DataLoader(x, batch_sampler=[[0]], drop_last=True), lambda d, x: d.DataLoader(x, num_workers=-1),
    lambda d, x: d.DataLoader(x, None, drop_last=True), lambda d, x: d.DataLoader(x, timeout=-1),
    lambda d, x: d.DataLoader(x, prefetch_factor=2), lambda d, x: d.DataLoader(x, persistent_workers=True),
    lambda d, x: d.DataLoader(x[:0], shuffle=True), lambda d, x: d.RandomSampler(x, num_samples=-1),
    lambda d, x: d.RandomSampler(x, replacement=1), lambda d, x: d.WeightedRandomSampler([1.0], 0),
    lambda d, x: d.WeightedRandomSampler([[1.0]], 1), lambda d, x: d.WeightedRandomSampler([1.0], 1, 0),
    lambda d, x: d.BatchSampler(x, True, False), lambda d, x: d.BatchSampler(x, 2, 1),
    lambda d, x: d.random_split(x, [2, 1]), lambda d, x: d.random_split(x, [1.5, -0.5]),
    lambda d, x: d.ConcatDataset([]), lambda d, x: d.ConcatDataset([x])[-5], lambda d, x: d.ConcatDataset([x])[4],
    lambda d, x: d.StackDataset(), lambda d, x: d.StackDataset(x, a=x), lambda d, x: d.StackDataset(x, [1]),
    lambda d, x: d.default_collate([{1, 2}]), lambda d, x: d.default_collate([[1], [1, 2]]),
    lambda d, x: d.default_collate([np.array(["a"])]),
    lambda d, x: setattr(d.DataLoader(x), "batch_size", 3),
]


@pytest.mark.parametrize("case", range(len(_BAD)))
def test_errors_as_in_torch(case: int) -> None:
    with pytest.raises(Exception, match=r".") as theirs:  # its own type is compared below
        _BAD[case](torch.utils.data, [1, 2, 3, 4])
    with pytest.raises(theirs.type) as ours:
        _BAD[case](data, [1, 2, 3, 4])
    assert str(ours.value) == str(theirs.value)


def test_stream_errors_as_in_torch() -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            return iter(())

    for options in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset") as theirs:
            torch.utils.data.DataLoader(Stream(), **options)
        with pytest.raises(ValueError, match="DataLoader with IterableDataset") as ours:
            data.DataLoader(Count(3), **options)
        assert str(ours.value) == str(theirs.value)


def test_splits_by_fractions() -> None:
    for n, fractions in ((10, [0.55, 0.25, 0.2]), (11, [1 / 3] * 3), (3, [0.5, 0.5])):
        ours, theirs = data.random_split(range(n), fractions), torch.utils.data.random_split(range(n), fractions)
        assert [len(p) for p in ours] == [len(p) for p in theirs]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


# --- collation -----------------------------------------------------------------------------------------------------


class Frozen(tuple[Any, ...]):
    """A sequence whose type takes one iterable."""


@pytest.mark.parametrize("samples", [
    [True, False], [1, 2], [1.5, 2], [np.float32(1), np.float32(2)], [np.int8(1), np.int8(2)], ["a", "b"], [b"a", b"b"],
    [np.zeros(2), np.ones(2)], [np.bool_(True), np.bool_(False)], [(1, 2.0), (3, 4.0)], [[1, "a"], [2, "b"]],
    [OrderedDict(a=1), OrderedDict(a=2)], [{"a": {"b": [1, 2]}}, {"a": {"b": [3, 4]}}],
    [Frozen((1, 2)), Frozen((3, 4))], [range(2), range(2)],
], ids=str)
def test_collation_as_in_torch(samples: list[Any]) -> None:
    ours, theirs = data.default_collate(samples), torch.utils.data.default_collate(samples)
    assert plain(ours) == plain(theirs)
    if not hasattr(theirs, "tolist"):
        assert type(ours) is type(theirs)
    for sample in samples:
        assert plain(data.default_convert(sample)) == plain(torch.utils.data.default_convert(sample))
