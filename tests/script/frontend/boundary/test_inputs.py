"""Inputs that are one tensor or share memory: right while neither is written, one input or refused where one is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
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


GIVEN = torch.ones(2)


def same_object(x: Any, y: Any) -> Any:
    return x * 2 if x is y else x + y * 10


def same_as_a_global(x: Any) -> Any:
    return x is GIVEN


def place_in_a_list(x: Any, xs: Any) -> int:
    for i, t in enumerate(xs):
        if t is x:
            return i
    return -1


def own_views(x: Any) -> Any:
    v = x[0]
    w = v
    return v is w, x[0] is x[0], v is x, x.t() is x.t()


def test_which_tensors_are_one_object_is_guarded() -> None:
    a, b = torch.ones(2), torch.ones(2)
    one = torch.script(same_object)
    for args in ((a, a), (a, b), (b, b), (b, a)):
        assert one(*args).tolist() == same_object(*args).tolist()
    given = torch.script(same_as_a_global)
    assert [given(a), given(GIVEN), given(b)] == [False, True, False]
    place = torch.script(place_in_a_list)
    for xs in ([b, a], [a, b], [b, b]):
        assert place(a, xs) == place_in_a_list(a, xs)
    assert torch.script(own_views)(torch.ones(2, 2)) == own_views(torch.ones(2, 2))


class Holder:
    def __init__(self) -> None:
        self.count, self.scale, self.on = np.int64(3), np.float32(0.5), np.bool_(True)

    def of(self, x: Any) -> Any:
        return (x * self.count * self.scale if self.on else x), self.count + 1


def test_numbers_of_numpy_are_python_numbers() -> None:
    def f(x: Any, k: Any, s: Any, on: Any) -> Any:
        return (x * k + s if on else x), k + 1

    scripted = torch.script(f)
    for numbers in ((np.int32(2), np.float64(0.5), np.bool_(True)), (np.int32(3), np.float64(0.25), np.bool_(True)),
                    (np.int32(3), np.float64(0.25), np.bool_(False)), (2, 0.5, True)):
        mine, theirs = scripted(torch.ones(2), *numbers), f(torch.ones(2), *numbers)
        assert mine[0].tolist() == theirs[0].tolist()
        assert mine[1] == theirs[1]
    assert scripted.cache_info().compilations == 3
    holder = Holder()
    method = torch.script(holder.of)
    for holder.count in (np.int64(3), np.int64(4)):
        assert method(torch.ones(2))[0].tolist() == holder.of(torch.ones(2))[0].tolist()
        assert method(torch.ones(2))[1] == holder.count + 1


def test_numbers_of_numpy_that_python_has_not_are_known_by_identity() -> None:
    def f(x: Any, k: Any) -> Any:
        return x if k == 2 else x * 3

    scripted = torch.script(f)
    for k in (np.complex64(2), np.complex64(1), np.longdouble(2), np.longdouble(1), np.complex128(2), np.complex128(1)):
        assert scripted(torch.ones(1), k).tolist() == f(torch.ones(1), k).tolist()


CACHE: dict[str, Any] = {}


def test_a_dict_of_the_caller_gets_a_key_from_some_runs() -> None:
    def f(x: Any, k: int) -> Any:
        if k > 0:
            CACHE["k"] = k
        return x * 2

    scripted = torch.script(f)
    for k, expected in ((0, {}), (1, {"k": 1}), (3, {"k": 3}), (0, {"k": 3})):
        scripted(torch.ones(1), k)
        assert expected == CACHE


def test_none_or_a_text_of_the_run_is_returned() -> None:
    def f(x: Any, k: int) -> Any:
        found = None
        if k > 0:
            found = str(k) + "!"
        return found

    scripted = torch.script(f)
    assert [scripted(torch.ones(1), k) for k in (0, 3)] == [None, "3!"]
