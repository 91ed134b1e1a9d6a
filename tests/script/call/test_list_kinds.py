"""What the items of a list have in common, which lists fit that, and how it goes through a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jitgrad
from jitgrad.script.call.list_kinds import (BY_CLASS, column, fit, from_plain, is_plain_object, joined, kind_of, paths,
                                            to_plain)


def z(*shape: int, **options: Any) -> Any:
    return jitgrad.zeros(shape, **options)


@pytest.mark.parametrize("items", [
    [],
    [1, 2.0],
    [True, 1],
    [(1, 2), (1,)],
    [()],
    [z(2), z(2, 2)],
    [z(2), z(2, dtype=jitgrad.float64)],
    [z(2), z(2, requires_grad=True)],
    [z(2), 1],
    ["a", "b"],
    [None],
])
def test_items_that_have_no_kind(items: list[Any]) -> None:
    assert kind_of(items) is None


@pytest.mark.parametrize(("items", "fitting", "others"), [
    ([1, 2], [[], [3]], [[1.0], [True], [1, None]]),
    ([(1, 0.5)], [[(2, 1.0), (3, 2.0)]], [[(1.0, 1)], [[1, 0.5]], [(1, 0.5, 1)]]),
    ([z(2, 3), z(4, 3)], [[z(5, 3)], [z(5, 3), z(6, 3)]], [[z(1, 3)], [z(5, 3), z(5, 4)], [z(5)], []]),
    ([z(1, 3), z(4, 3)], [[z(5, 3), z(1, 3)]], [[z(5, 1)]]),
    ([z(2), z(3)], [[], [z(4)]], [[z(1)], [z(4, requires_grad=True)], [z(4, dtype=jitgrad.int64)]]),
])
def test_which_lists_are_of_a_kind(items: Any, fitting: Any, others: Any) -> None:
    kind = kind_of(items)
    assert fit(items, kind)
    assert all(fit(xs, kind) for xs in fitting)
    assert not any(fit(xs, kind) for xs in others)
    assert from_plain(json.loads(json.dumps(to_plain(kind)))) == kind


def test_a_kind_for_two_lists_takes_both() -> None:
    a, b = [z(2, 3), z(4, 3)], [z(1, 5), z(1, 5)]
    both = joined(kind_of(a), kind_of(b))
    assert fit(a, both)
    assert fit(b, both)
    assert not fit(a, kind_of(b))
    assert joined(kind_of([1]), kind_of([1.0])) is None
    assert joined(kind_of([(1, z(2))]), kind_of([(1, z(2, requires_grad=True))])) is None


def test_leaves_of_an_item_and_their_columns() -> None:
    items = [(1, (z(2), 0.5)), (2, (z(3), 1.5))]
    found = [path for path, _ in paths(kind_of(items))]
    assert found == [(0,), (1, 0), (1, 1)]
    assert column(items, (1, 1)) == [0.5, 1.5]


class Plain:
    def __init__(self) -> None:
        self.x = 1


class Own(Plain):
    def __getattr__(self, name: str) -> Any:
        return name


def test_objects_that_are_known_by_their_class() -> None:
    assert is_plain_object(Plain())
    assert not is_plain_object(Own())
    assert not any(map(is_plain_object, [Plain, jitgrad.nn.Linear(1, 1), z(1), [1], {}, json]))
    assert from_plain(to_plain(BY_CLASS)) == BY_CLASS
