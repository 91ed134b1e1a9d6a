"""Inputs that are one tensor or share memory: right while neither is written, one input or refused where one is."""

from __future__ import annotations

import re
from typing import Any

import pytest

import jitgrad as torch
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.build import build


def writes_first(a: Any, b: Any) -> Any:
    before = b.sum()
    a.add_(1)
    return before, b * 2


def writes_second(a: Any, b: Any) -> Any:
    b.mul_(3)
    return a + b


def writes_an_attribute(a: Any, box: Any) -> Any:
    a.add_(1)
    return box.x * 2  # met after the write


class Box:
    def __init__(self, x: Any):
        self.x = x


def inputs(function: Any, *args: Any) -> int:
    """How many tensors the graph takes."""
    return len(build(function, args, {}).graph.inputs)


@pytest.mark.parametrize("function", [writes_first, writes_second])
def test_one_tensor_on_two_paths_is_one_input_where_it_is_written(function: Any) -> None:
    x, y = torch.arange(4.0), torch.arange(4.0)
    expected = function(x, x)
    found = torch.script(function)(y, y)
    assert str(found) == str(expected)
    assert y.tolist() == x.tolist()
    z = torch.arange(4.0)
    assert inputs(function, z, z) == 1
    assert inputs(function, z, z.clone()) == 2


def test_a_tensor_that_is_met_after_the_write_is_the_written_one() -> None:
    x, y = torch.arange(4.0), torch.arange(4.0)
    assert torch.script(writes_an_attribute)(y, Box(y)).tolist() == writes_an_attribute(x, Box(x)).tolist()


@pytest.mark.parametrize(("function", "second"), [
    (writes_first, lambda x: x[1:3]),
    (writes_second, lambda x: x[1:3]),
    (writes_an_attribute, lambda x: Box(x[1:3])),
])
def test_other_shared_memory_is_refused_where_it_is_written(function: Any, second: Any) -> None:
    x = torch.arange(4.0)
    first = x[0:2] if function is writes_second else x
    with pytest.raises(UnsupportedCall, match="memory that two tensors share") as caught:
        build(function, (first, second(x)), {})
    assert re.search("clone", str(caught.value))


def test_shared_memory_that_nobody_writes_is_read_twice() -> None:
    def reads(a: Any, b: Any) -> Any:
        return a.sum() * b

    x = torch.arange(4.0)
    assert inputs(reads, x, x) == 2
    assert torch.script(reads)(x, x[1:]).tolist() == reads(x, x[1:]).tolist()


def test_halves_of_one_memory_may_be_written() -> None:
    x, y = torch.arange(4.0), torch.arange(4.0)
    torch.script(writes_second)(y[:2], y[2:])
    writes_second(x[:2], x[2:])
    assert y.tolist() == x.tolist()


def test_gradients_make_one_tensor_one_input() -> None:
    def trains(a: Any, b: Any) -> Any:
        (a * b).sum().backward()
        return a.grad

    x = torch.arange(3.0).requires_grad_()
    assert torch.script(trains)(x, x).tolist() == [0.0, 2.0, 4.0]


def test_an_item_of_a_list_of_any_length_that_is_written_is_seen_written() -> None:
    def f(a: Any, xs: Any) -> Any:
        a.add_(1)
        total = torch.zeros(2)
        for x in xs:
            total = total + x
        return total

    scripted = torch.script(f)
    for n in (2, 3, 4):
        scripted(torch.zeros(2), [torch.ones(2) * k for k in range(n)])
    shared = torch.ones(2)
    assert scripted(shared, [torch.ones(2), shared]).tolist() == [3.0, 3.0]
