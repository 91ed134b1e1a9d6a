"""Trees there and back."""

from typing import NamedTuple

import pytest

from jitgrad.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize("tree", [3, (), [], (1, [2, {"a": 3, "b": (4,)}]), Point(1, (2, 3)), {"z": 1, "a": {}}])
def test_there_and_back(tree):
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert tree_leaves(tree) == leaves


def test_map():
    assert tree_map(lambda a, b: a + b, (1, [2]), (10, [20])) == (11, [22])
    assert tree_map(str, {"a": (1,)}) == {"a": ("1",)}
    with pytest.raises(ValueError, match=r"shorter|longer"):
        tree_map(lambda a, b: a, (1, 2), (1,))
