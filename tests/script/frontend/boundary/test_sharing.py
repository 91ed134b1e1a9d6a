"""Results and stored objects share memory with the arguments and with one another as in eager: a write to one after the
call is seen by the same others."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


class Box:
    def __init__(self, x: Any) -> None:
        self.x = x


def none_or_argument(x, y, xs, box, c: bool):
    if c:
        return None
    return y


def swapped(x, y, xs, box, c: bool):
    for _ in range(3 if c else 2):
        x, y = y, x
    return y


def kept_by_a_loop(x, y, xs, box, c: bool):
    best = x
    for k in range(4):
        if k == 2 and c:
            best = y
    return best, best[0]


def left_by_break(x, y, xs, box, c: bool):
    for k in range(3):
        if k == 1:
            if c:
                x = y
            break
    return x


def stored_view_of_a_result(x, y, xs, box, c: bool):
    m = x * 2
    xs.append(m[0])
    return m


def stored_twice(x, y, xs, box, c: bool):
    m = x * 2 if c else y * 2
    xs.append(m)
    box.x = m[1]
    return m.t()


def put_in_twice(x, y, xs, box, c: bool):
    xs[1] = xs[0] * 2
    xs.append(xs[1 if c else 0])
    return xs


def chosen_in_a_tuple(x, y, xs, box, c: bool):
    p = (x, 1) if c else (y, 2)
    return {"p": p, "first": p[0][:1]}


def chosen_attribute(x, y, xs, box, c: bool):
    box.x = x if c else y * 1
    return box.x


def chosen_twice(x, y, xs, box, c: bool):
    a = x if c else y
    b = y if c else x
    return a if x.sum() > 100 else b


def item_or_new(x, y, xs, box, c: bool):
    m = xs[0] if c else x[0] * 3
    return [m, m]


def object_or_none(x, y, xs, box, c: bool):
    b = box if c else None
    return b.x if b is not None else x[1]


PROGRAMS = [none_or_argument, swapped, kept_by_a_loop, left_by_break, stored_view_of_a_result, stored_twice,
            put_in_twice, chosen_in_a_tuple, chosen_attribute, chosen_twice, item_or_new, object_or_none]


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [
        value.x] if isinstance(value, Box) else []
    return [t for item in held for t in tensors(item)]


def seen(f: Any, c: bool) -> list[Any]:
    """What every tensor within reach holds after each of them was written in turn."""
    args = (torch.ones(2, 2), torch.zeros(2, 2), [torch.ones(2), torch.zeros(2)], Box(torch.full((2,), 3.0)))
    found = [args, f(*args, c)]
    for k, t in enumerate(tensors(found)):
        t.add_(10 ** (k % 5))
    return [t.tolist() for t in tensors(found)]


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_writes_after_the_call_are_seen_by_the_same_tensors(program: Any, mode: str) -> None:
    with config.override(interpret=mode == "interpreted"):
        scripted = torch.script(program)
        for c in (True, False, True):
            assert seen(scripted, c) == seen(program, c), c
