"""The native check of arrays: content with what the table says, and with nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.codegen.run import arrays
from jitgrad.codegen.run.arrays import Check, Equal, Expected
from jitgrad.kernels.arrays import ANYWHERE, READ, WRITTEN

F32, F64 = np.dtype("float32"), np.dtype("float64")


def holds(expected, items, equal=()):
    check = Check(expected if isinstance(expected, dict) else dict(enumerate(expected)), equal)
    items = tuple(items)
    found = [check.call(*items) for _ in range(3)]  # each call for itself
    assert len(set(found)) == 1
    return found[0]


def test_the_layout_of_this_numpy_is_known():
    assert arrays.KNOWN


def test_class_dtype_rank_and_sizes():
    expected = [Expected(F32, (2, None, 1))]
    assert holds(expected, [np.zeros((2, 3, 1), F32)])
    assert holds(expected, [np.zeros((2, 0, 1), F32)])
    for other in (np.zeros((2, 3, 1), F64), np.zeros((2, 3), F32), np.zeros((2, 3, 1, 1), F32),
                  np.zeros((3, 3, 1), F32), np.zeros((2, 1, 1), F32), np.zeros((2, 3, 2), F32),
                  np.zeros((2, 3, 1), F32).view(np.recarray), 2.0, None, np.float32(1)):
        assert not holds(expected, [other])
    assert holds([Expected(F32, ())], [np.zeros((), F32)])
    assert not holds([Expected(F32, ())], [np.zeros(1, F32)])
    odd = np.dtype("float32", metadata={"a": 1})
    assert not holds([Expected(F32, (2,))], [np.zeros(2, odd)])  # for Python to judge


def test_every_array_is_looked_at_and_other_items_are_not():
    expected = {1: Expected(F32, (None,)), 3: Expected(F64, (2, 2)), 4: Expected(F32, ())}
    good = [7, np.zeros(3, F32), "text", np.zeros((2, 2)), np.zeros((), F32)]
    assert holds(expected, good)
    for number in expected:
        assert not holds(expected, [*good[:number], np.zeros((5, 5, 5), F32), *good[number + 1:]])


def test_sizes_that_are_equal():
    expected = [Expected(F32, (None, None)), Expected(F32, (None,))]
    pairs = [Equal(0, 1, 1, 0), Equal(0, 0, -1, 4)]
    assert holds(expected, [np.zeros((4, 3), F32), np.zeros(3, F32)], pairs)
    assert not holds(expected, [np.zeros((4, 3), F32), np.zeros(2, F32)], pairs)
    assert not holds(expected, [np.zeros((5, 3), F32), np.zeros(3, F32)], pairs)
    square = [Equal(0, 0, 0, 1)]
    assert holds(expected[:1], [np.zeros((3, 3), F32)], square)
    assert not holds(expected[:1], [np.zeros((3, 2), F32)], square)


def parts(*kinds):
    return [Expected(F64, (None,), kind) for kind in kinds]


def test_what_is_written_has_memory_of_its_own():
    data = np.zeros(20)
    a, b, c = np.zeros(4), np.zeros(4), np.zeros(4)
    assert holds(parts(WRITTEN, WRITTEN, READ), [a, b, c])
    assert not holds(parts(WRITTEN, WRITTEN), [a, a])
    assert not holds(parts(READ, WRITTEN), [a, a])
    assert not holds(parts(WRITTEN, READ), [a, a])
    assert holds(parts(READ, READ, WRITTEN), [a, a, b])
    assert holds(parts(WRITTEN, ANYWHERE), [a, a])
    assert holds(parts(WRITTEN, READ, READ), [a, data[:5], data[3:8]])  # those that are read may overlap
    assert holds(parts(WRITTEN, READ), [data[:5], b])
    assert not holds(parts(WRITTEN, READ), [data[:5], data[2:7]])
    assert not holds(parts(WRITTEN, READ), [data[:5], data])
    assert not holds(parts(WRITTEN, WRITTEN), [data[:5], data[5:]])  # one owner: for Python to look closer
    assert not holds(parts(WRITTEN, READ), [a, np.frombuffer(bytes(32))])  # an owner that is no array


@pytest.mark.parametrize("n", [1, 3, 64, 700])
def test_many_arrays(n):
    items = [np.zeros(k % 7 + 2) for k in range(n)]
    expected = [Expected(F64, (k % 7 + 2,), (WRITTEN, READ, READ, ANYWHERE)[k % 4]) for k in range(n)]
    pairs = [Equal(k, 0, -1, k % 7 + 2) for k in range(n)]
    assert holds(expected, items, pairs)
    for k in range(0, n, 97):
        assert not holds(expected, [*items[:k], np.zeros(1), *items[k + 1:]])
    if n > 8:  # item 0 is written, all of its owner's other views would show it
        read = max(k for k in range(n) if k % 28 == 1)
        owner = np.zeros(9)
        assert holds(expected, [owner[:2], *items[1:]], pairs)
        assert not holds(expected, [owner[:2], *items[1:read], owner[6:], *items[read + 1:]], pairs)


def test_the_table_is_the_checks_own():
    check = Check({0: Expected(F32, (2,))}, [])
    other = Check({0: Expected(F32, (3,))}, [])
    array = np.zeros(2, F32)
    assert check.call(array) is True
    assert other.call(array) is False
    assert check.table[6] == other.table[6] == 1  # calls
