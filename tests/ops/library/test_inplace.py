"""In-place functions: values, dtypes, aliasing, and torch's refusals."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad


def pair() -> tuple[Any, Any]:
    x = jitgrad.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    return x, x[:, 1]


@pytest.mark.parametrize(("write", "expected"), [
    (lambda v: v.add_(1), [-1.0, 6.0]), (lambda v: v.add_(v, alpha=2), [-6.0, 15.0]),
    (lambda v: v.sub_(1), [-3.0, 4.0]),
    (lambda v: v.mul_(2), [-4.0, 10.0]), (lambda v: v.div_(2), [-1.0, 2.5]), (lambda v: v.pow_(2), [4.0, 25.0]),
    (lambda v: v.zero_(), [0.0, 0.0]), (lambda v: v.fill_(7), [7.0, 7.0]), (lambda v: v.clamp_(min=0), [0.0, 5.0]),
    (lambda v: v.relu_(), [0.0, 5.0]), (lambda v: v.copy_(jitgrad.tensor([1, 2])), [1.0, 2.0]),
    (lambda v: v.neg_(), [2.0, -5.0]), (lambda v: v.abs_(), [2.0, 5.0]),
    (lambda v: v.masked_fill_(v > 0, 0), [-2.0, 0.0]), (lambda v: v.copy_(jitgrad.tensor(3.0)), [3.0, 3.0]),
    (lambda v: v.index_fill_(0, jitgrad.tensor([1]), 9), [-2.0, 9.0]),
    (lambda v: v.eq_(5), [0.0, 1.0]), (lambda v: v.lerp_(jitgrad.zeros(2), 0.5), [-1.0, 2.5]),
    (lambda v: v.addcmul_(v, v, value=2), [6.0, 55.0]), (lambda v: v.floor_divide_(2), [-1.0, 2.0]),
    (lambda v: v.remainder_(3), [1.0, 2.0]), (lambda v: v.scatter_(0, jitgrad.tensor([0]), 1.0), [1.0, 5.0]),
])
def test_a_write_to_a_view_reaches_its_base(write: Any, expected: list[float]) -> None:
    x, v = pair()
    result = write(v)
    assert result is v
    assert x[:, 1].tolist() == expected
    assert x[:, 0].tolist() == [1.0, 4.0]


def test_augmented_assignment_keeps_the_object() -> None:
    x = jitgrad.ones(3)
    same = x
    x += 1
    x *= jitgrad.tensor([1.0, 2.0, 3.0])
    x -= 1
    x /= 2
    x **= 2
    assert x is same
    assert x.tolist() == [0.25, 2.25, 6.25]
    i = jitgrad.tensor([5, 6])
    i //= 4
    i %= 2
    i |= 2
    i &= 3
    i ^= 1
    assert i.tolist() == [2, 2]


@pytest.mark.parametrize(("write", "message"), [
    (lambda: jitgrad.tensor([1]).add_(1.5), "result type Float can't be cast to the desired output type Long"),
    (lambda: jitgrad.tensor([1]).div_(2), "result type Float can't be cast to the desired output type Long"),
    (lambda: jitgrad.tensor([True]).add_(1), "result type Long can't be cast to the desired output type Bool"),
    (lambda: jitgrad.zeros(3).add_(jitgrad.zeros(2, 3)),
     "output with shape [3] doesn't match the broadcast shape [2, 3]"),
    (lambda: jitgrad.zeros(1, 3).add_(jitgrad.zeros(2, 3)),
     "output with shape [1, 3] doesn't match the broadcast shape [2, 3]"),
    (lambda: jitgrad.zeros(2, requires_grad=True).mul_(2),
     "a leaf Variable that requires grad is being used in an in-place operation."),
])
def test_refusals(write: Any, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        write()
    assert str(caught.value) == message


def test_a_wider_result_is_narrowed() -> None:
    x = jitgrad.zeros(2, dtype=jitgrad.float16)
    x += jitgrad.tensor([1.5, 2.5], dtype=jitgrad.float64)
    assert x.dtype is jitgrad.float16
    i = jitgrad.zeros(2, dtype=jitgrad.int32)
    i += jitgrad.tensor([1, 2])
    assert i.dtype is jitgrad.int32
    assert i.tolist() == [1, 2]
