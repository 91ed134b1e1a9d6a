"""Datasets, samplers and loaders."""

# ruff: noqa: E501  (messages)

import itertools
from collections import namedtuple

import numpy as np
import pytest

import jitgrad
from jitgrad.random import Generator
from jitgrad.utils import data
from jitgrad.utils.data import shuffle


def test_long_draws_are_lazy():
    sampler = data.RandomSampler(range(7), replacement=True, num_samples=10**10)
    assert len(sampler) == 10**10
    assert set(itertools.islice(sampler, 1000)) == set(range(7))
    weighted = data.WeightedRandomSampler([0.0, 2.0, 1.0], 10**10)
    assert set(itertools.islice(weighted, 1000)) == {1, 2}


@pytest.mark.parametrize("kind", [lambda g: data.RandomSampler(range(7), True, 40, g),
                                  lambda g: data.WeightedRandomSampler([1.0, 2.0, 3.0], 40, generator=g)])
def test_chunks_of_a_draw_are_the_draw(kind, monkeypatch):
    found = []
    for chunk in (1 << 14, 8):
        monkeypatch.setattr(shuffle, "CHUNK", chunk)
        generator = Generator().manual_seed(3)
        found.append((list(kind(generator)), generator.position))
    assert found[0] == found[1]


def numbers(n=10):
    return data.TensorDataset(jitgrad.arange(n), jitgrad.arange(n) * 2)


def test_tensor_dataset():
    dataset = numbers()
    assert len(dataset) == 10
    assert [t.item() for t in dataset[3]] == [3, 6]
    assert len(dataset + dataset) == 20
    assert [t.item() for t in (dataset + dataset)[13]] == [3, 6]
    assert [t.item() for t in (dataset + dataset)[-1]] == [9, 18]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(jitgrad.ones(2), jitgrad.ones(3))


def test_batches_in_order():
    loader = data.DataLoader(numbers(), batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert [b[0].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [b[1].tolist() for b in batches] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert isinstance(batches[0], list)
    short = data.DataLoader(numbers(), batch_size=4, drop_last=True)
    assert len(short) == len(list(short)) == 2


def test_a_seed_gives_an_order():
    def orders(loader):
        return [[x for b in loader for x in b[0].tolist()] for _ in range(2)]

    jitgrad.manual_seed(3)
    first = orders(data.DataLoader(numbers(), batch_size=3, shuffle=True))
    jitgrad.manual_seed(3)
    assert orders(data.DataLoader(numbers(), batch_size=3, shuffle=True)) == first
    assert first[0] != first[1]
    assert sorted(first[0]) == list(range(10))
    jitgrad.manual_seed(3)
    own = []
    for _ in range(2):
        generator = Generator().manual_seed(5)
        own.append(orders(data.DataLoader(numbers(), shuffle=True, generator=generator)))
    assert own[0] == own[1] != first


def test_collate():
    Point = namedtuple("Point", "x y")
    batch = [{"t": jitgrad.ones(2), "n": 1, "f": 0.5, "s": "a", "a": np.zeros(3), "p": Point(1, 2.0), "l": [1, True]},
             {"t": jitgrad.zeros(2), "n": 2, "f": 1.5, "s": "b", "a": np.ones(3), "p": Point(3, 4.0), "l": [2, False]}]
    result = data.default_collate(batch)
    assert result["t"].tolist() == [[1, 1], [0, 0]]
    assert (result["n"].tolist(), result["n"].dtype) == ([1, 2], jitgrad.int64)
    assert (result["f"].tolist(), result["f"].dtype) == ([0.5, 1.5], jitgrad.float64)
    assert result["s"] == ["a", "b"]
    assert result["a"].dtype == jitgrad.float64
    assert result["p"].x.tolist() == [1, 3]
    assert [t.tolist() for t in result["l"]] == [[1, 2], [True, False]]
    assert data.default_collate([np.float32(1), np.float32(2)]).dtype == jitgrad.float32
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "):
        data.default_collate([object()])


class Squares(data.Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return i * i


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_loaders_of_other_datasets():
    assert [b.tolist() for b in data.DataLoader(Squares(), 2)] == [[0, 1], [4, 9], [16]]
    assert list(data.DataLoader(Squares(), batch_size=None)) == [0, 1, 4, 9, 16]
    assert list(data.DataLoader(Squares(), 2, collate_fn=sum)) == [1, 13, 16]
    assert [b.tolist() for b in data.DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in data.DataLoader(Stream(), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    loader = data.DataLoader(Squares(), batch_sampler=[[4, 0], [1]])
    assert [b.tolist() for b in loader] == [[16, 0], [1]]
    assert len(loader) == 2
    assert [b.tolist() for b in data.DataLoader(Squares(), 3, sampler=[3, 2, 1, 0])] == [[9, 4, 1], [0]]


@pytest.mark.parametrize(("kwargs", "message"), [
    ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive with batch_size, shuffle, "),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching and is mutually exclusive"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
])
def test_loader_errors(kwargs, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        data.DataLoader(Squares(), **kwargs)


def test_subsets_and_splits():
    jitgrad.manual_seed(0)
    parts = data.random_split(numbers(), [7, 3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(p[i][0].item() for p in parts for i in range(len(p))) == list(range(10))
    jitgrad.manual_seed(0)
    assert [p.indices for p in data.random_split(numbers(), [7, 3])] == [p.indices for p in parts]
    assert [len(p) for p in data.random_split(numbers(), [0.55, 0.25, 0.2])] == [6, 2, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        data.random_split(numbers(), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(numbers(), [1.5, -0.5])
    subset = data.Subset(numbers(), [5, 1])
    assert [b[0].tolist() for b in data.DataLoader(subset, 2)] == [[5, 1]]
    assert subset[[0, 1]][0].tolist() == [5, 1]


def test_samplers():
    jitgrad.manual_seed(0)
    drawn = list(data.RandomSampler(range(5), replacement=True, num_samples=200))
    assert (len(drawn), set(drawn)) == (200, set(range(5)))
    more = list(data.RandomSampler(range(5), num_samples=12))
    assert sorted(more[:5]) == sorted(more[5:10]) == list(range(5))
    assert len(more) == 12
    assert sorted(data.SubsetRandomSampler([7, 8, 9])) == [7, 8, 9]
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        data.RandomSampler(range(5), num_samples=0)
