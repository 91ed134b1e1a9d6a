"""`x[key]` and `x[key] = value` against torch, on generated keys; messages of the usual mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jitgrad

SIZES = st.integers(0, 4)
KINDS = ["int", "slice", "slice", "none", "dots", "tensor", "tensor", "list", "mask", "flag"]


@st.composite
def shapes_and_keys(draw: Any) -> tuple[tuple[int, ...], Any]:
    """A shape of rank 0 to 3 and a key that is mostly valid for it."""
    shape = tuple(draw(st.lists(SIZES, max_size=3)))
    block = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 3)]))
    items: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape) and draw(st.integers(0, 9)) < 8:
        n = shape[axis]
        kind = draw(st.sampled_from(KINDS))
        position = st.integers(-n, max(n - 1, 0))
        if not n and kind in ("int", "tensor", "list"):
            kind = "slice"  # an empty axis has no positions
        if kind == "int":
            items.append(draw(position))
            axis += 1
        elif kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            items.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3]))))
            axis += 1
        elif kind == "none":
            items.append(None)
        elif kind == "dots" and not dots:
            items.append(Ellipsis)
            dots = True
            axis += draw(st.integers(0, len(shape) - axis))
        elif kind == "tensor":
            size = draw(st.sampled_from([block, block[-1:], ()]))
            count = int(np.prod(size))
            items.append(np.array(draw(st.lists(position, min_size=count, max_size=count)), np.int64).reshape(size))
            axis += 1
        elif kind == "list":
            items.append(draw(st.lists(position, min_size=1, max_size=3)))
            axis += 1
        elif kind == "mask":
            width = draw(st.integers(1, min(2, len(shape) - axis)))
            sizes = shape[axis:axis + width]
            count = int(np.prod(sizes))
            items.append(np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool).reshape(sizes))
            axis += width
        elif kind == "flag":
            items.append(draw(st.booleans()))
    return shape, items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


def converted(key: Any, module: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(converted(k, module) for k in key)
    return module.from_numpy(key) if isinstance(key, np.ndarray) else key


def outcome(fn: Any) -> Any:
    """What fn returns, or the class of what it raises."""
    try:
        return fn()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error)


@settings(max_examples=400, deadline=None)
@given(shapes_and_keys())
def test_getitem(case: Any) -> None:
    torch = pytest.importorskip("torch")
    shape, key = case
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    theirs = outcome(lambda: torch.from_numpy(x)[converted(key, torch)].numpy())
    ours = outcome(lambda: jitgrad.from_numpy(x)[converted(key, jitgrad)].numpy())
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        assert ours.shape == theirs.shape
        assert (ours == theirs).all()


@settings(max_examples=400, deadline=None)
@given(shapes_and_keys(), st.data())
def test_setitem(case: Any, data: Any) -> None:
    torch = pytest.importorskip("torch")
    shape, key = case
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    places = outcome(lambda: torch.arange(x.size).reshape(shape)[converted(key, torch)].numpy())
    if isinstance(places, type):
        return
    size = tuple(data.draw(st.sampled_from([n, 1])) for n in places.shape)[data.draw(st.integers(0, 3)):]
    if data.draw(st.integers(0, 9)) == 0:
        size = (*size, 2)
    value: Any = np.arange(100, 100 + int(np.prod(size)), dtype=np.float32).reshape(size)
    if data.draw(st.booleans()):
        value = 7

    def write(module: Any) -> Any:
        t = module.from_numpy(x.copy())
        t[converted(key, module)] = converted(value, module)
        return t.numpy()

    theirs, ours = outcome(lambda: write(torch)), outcome(lambda: write(jitgrad))
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
    elif len(set(places.ravel().tolist())) == places.size:  # of several writes to one place any may win
        assert (ours == theirs).all()


# --- gradients, views, dtypes --------------------------------------------------------------------------------------


def test_reads_are_views_and_writes_reach_the_base() -> None:
    x = jitgrad.zeros(3, 4)
    x[1][2] = 5.0
    x[:, 0] += 1
    x[x > 4] = -1
    x[[0, 2], [3, 3]] = jitgrad.tensor([7.0, 8.0])
    assert x.tolist() == [[1, 0, 0, 7], [1, 0, -1, 0], [1, 0, 0, 8]]


def test_gradient_of_repeated_indices_adds_up() -> None:
    x = jitgrad.ones(3, requires_grad=True)
    (x[[0, 0, 2]] * jitgrad.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 0.0, 4.0]


def test_gradient_of_a_write() -> None:
    x = jitgrad.ones(3, requires_grad=True)
    v = jitgrad.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    y[[0, 2]] = v
    y[y > 2.5] = 0.0
    (y * jitgrad.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None
    assert v.grad is not None
    assert x.grad.tolist() == [0.0, 10.0, 0.0]
    assert v.grad.tolist() == [1.0, 0.0]


def test_written_values_are_cast() -> None:
    x = jitgrad.zeros(3, dtype=jitgrad.int64)
    x[0] = 2.9
    x[1:] = jitgrad.tensor([1.5, 2.5])
    assert x.tolist() == [2, 1, 2]


@pytest.mark.parametrize(("key", "error", "message"), [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ((0, -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    ([3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ((slice(None), [0, -5]), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
    ((..., ...), IndexError, "an index can only have a single ellipsis ('...')"),
    (jitgrad.ones(2), IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (jitgrad.ones(4) > 0, IndexError, "The shape of the mask [4] at index 0 does not match the shape of the indexed "
                                      "tensor [3, 4] at index 0"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    (jitgrad.zeros, IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
                               "valid indices (got function)"),
    (([0, 1], [0, 1, 2]), IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes "
                                      "[2], [3]"),
])
def test_messages(key: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        _ = jitgrad.zeros(3, 4)[key]
    assert str(caught.value) == message


def test_an_index_into_a_number() -> None:
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        _ = jitgrad.tensor(1.0)[0]
    assert jitgrad.tensor(1.0)[None].shape == (1,)
    assert jitgrad.tensor(1.0)[...].item() == 1.0


X, T = jitgrad.arange(12.0).reshape(3, 4), jitgrad.tensor


@pytest.mark.parametrize(("key", "expected"), [  # as PyTorch has it: short lists of more than numbers are keys
    ([T(1), 2], 6.0), ([[0, 1], [1, 2]], [1.0, 6.0]), ([[0, 1]], X[:2].tolist()),
    ([[0, 1]] * 32, [X[:2].tolist()] * 32),
    ([1, T([1, 2])], [5.0, 6.0]), ([slice(0, 2), 1], [1.0, 5.0]), ([Ellipsis, 1], [1.0, 5.0, 9.0]),
    ([None, 1], [X[1].tolist()]), ([T([True, False, True]), 1], [1.0, 9.0]), ([1.5], [X[1].tolist()]),
    ([0, 1.5], X[:2].tolist()), ([1.5, True], [X[1].tolist()] * 2), ([[]], []), ([True, False, True], X[::2].tolist()),
    (([0, 1], [1.5, 0.2]), [1.0, 4.0]), ([T(True), 1], [X[1].tolist()])])
def test_lists_as_keys(key, expected):
    assert X[key].tolist() == expected


@pytest.mark.parametrize(("key", "error"), [
    (1.5, IndexError), ({1}, IndexError), ("a", TypeError), (slice(1.0, 2), TypeError),
    (slice(None, None, 0), ValueError), ([T(1.5)], IndexError), ([0, T(1), 2], IndexError)])
def test_what_is_no_key(key, error):
    with pytest.raises(error):
        X[key]
