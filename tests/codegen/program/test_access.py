"""Index maps and strides read what NumPy's views read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.program.access import broadcast, contiguous_strides, is_contiguous, reshape_strides, through
from jitgrad.dims import Symbol, dim, floordiv
from tests.codegen.programs import graph, tensor

n = dim(Symbol("N", not_one=True))

VIEWS = {
    "permute": (lambda F, x: F.permute(x, axes=(2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "expand": (lambda F, x: F.expand(x, shape=(5, 2, 3, 4)), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    "unsqueeze": (lambda F, x: F.unsqueeze(x, axis=1), lambda a: a[:, None]),
    "select": (lambda F, x: F.select(x, axis=1, index=2), lambda a: a[:, 2]),
    "slice": (lambda F, x: F.slice(x, axis=2, start=1, length=2, step=2), lambda a: a[..., 1:4:2]),
    "flip": (lambda F, x: F.flip(x, axes=(0, 2)), lambda a: a[::-1, :, ::-1]),
    "diagonal": (lambda F, x: F.diagonal(x, offset=-1, axis1=2, axis2=0), lambda a: a.diagonal(-1, 2, 0)),
    "reshape": (lambda F, x: F.reshape(x, shape=(1, 2, 3, 1, 4)), lambda a: a.reshape(1, 2, 3, 1, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_read_through_its_index_map(name: str) -> None:
    view, expected = VIEWS[name]
    a = np.arange(24).reshape(2, 3, 4)
    (node,) = [k for k in graph(view, tensor(2, 3, 4)).block.nodes if k.op == name]
    result = expected(a)
    entries: Any = through(node, tuple((axis, 1, 0) for axis in range(result.ndim)))
    for index in np.ndindex(result.shape):
        source = tuple(factor * index[axis] + shift if axis >= 0 else shift for axis, factor, shift in entries)
        assert a[source] == result[index], (index, source)


def test_a_reshape_that_mixes_axes_is_no_index_map() -> None:
    (node,) = graph(lambda F, x: F.reshape(x, shape=(6, 4)), tensor(2, 3, 4)).block.nodes
    assert through(node, ((0, 1, 0), (1, 1, 0))) is None


def test_a_size_that_may_be_one_is_repeated_at_run_time() -> None:
    m = dim(Symbol("M"))
    here = ((0, 1, 0),)
    assert broadcast(here, (1,), (n,)) == ((-1, 0, 0),)
    assert broadcast(here, (n,), (n,)) == here
    ((axis, factor, _),) = broadcast(here, (m,), (n,))
    assert axis == 0
    assert factor not in (0, 1)  # 0 or 1, as the size turns out


@pytest.mark.parametrize(("shape", "order", "target"), [
    ((2, 3, 4), (0, 1, 2), (6, 4)),
    ((2, 3, 4), (2, 0, 1), (4, 6)),
    ((2, 3, 4), (2, 0, 1), (2, 2, 3, 2)),
    ((2, 3, 4), (2, 0, 1), (8, 3)),
    ((4, 6), (1, 0), (2, 3, 4)),
    ((4, 6), (1, 0), (6, 1, 4, 1)),
    ((4, 6), (1, 0), (3, 8)),
    ((1, 6), (1, 0), (2, 3)),
])
def test_a_reshape_copies_only_where_numpy_does(shape: Any, order: Any, target: Any) -> None:
    a = np.zeros(shape, np.int8).transpose(order)
    strides = reshape_strides(a.shape, a.strides, target)
    view = a.view()
    try:
        view.shape = target
    except AttributeError:
        assert strides is None
    else:
        assert strides is not None
        for size, found, expected in zip(target, strides, view.strides, strict=True):
            assert size == 1 or found == expected


def test_sizes_of_the_run_are_matched_by_their_form() -> None:
    rows = contiguous_strides((n, 3, 4))
    assert rows == (12, 4, 1)
    assert is_contiguous((n, 3, 4), rows)
    assert reshape_strides((n, 3, 4), rows, (3 * n, 4)) == (4, 1)
    transposed = (1, n)  # of (n, 4) read as (4, n) with its axes exchanged
    assert not is_contiguous((n, 4), transposed)
    assert reshape_strides((n, 4), transposed, (n, 2, 2)) == (1, 2 * n, n)
    assert reshape_strides((n, 4), transposed, (2 * n, 2)) is None


def test_what_is_left_has_as_many_elements() -> None:
    third, eighth = floordiv(n, 3), floordiv(n, 8)  # of which a check says that third == 8 * eighth
    assert reshape_strides((n, 5, third), (15 * n, 3 * n, 1), (n, 5, 8, eighth)) == (15 * n, 3 * n, eighth, 1)
    assert reshape_strides((n, third), (1, n), (n, 8, eighth)) == (1, n * eighth, n)
    assert reshape_strides((third, 5), (1, n), (8, eighth, 5)) is None
