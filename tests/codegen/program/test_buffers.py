"""Buffers share memory only while none of them is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.buffers import assign, live_ranges
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import Buffer
from jitgrad.codegen.program.steps import Allocate, Point
from jitgrad.dtypes import float32
from jitgrad.script.graph.ir import Graph
from jitgrad.script.graph.parse import parse
from tests.codegen.programs import agree, graph, tensor


def chain(F: Any, x: Any) -> Any:
    """Each product needs only the one before."""
    for _ in range(6):
        x = F.matmul(x, x)
    return x


def fan(F: Any, x: Any) -> Any:
    """All products are needed at the end."""
    made = [F.matmul(x, x)]
    for _ in range(4):
        made.append(F.matmul(made[-1], x))
    total = made[0]
    for y in made[1:]:
        total = F.matmul(total, y)
    return total


AROUND = """graph f(%x: f32[4, 4], %n: int) -> f32[4, 4]:
  %a: f32[4, 4] = matmul(%x, %x)
  %h: f32[4, 4] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[4, 4]):
      %b: f32[4, 4] = matmul(%p, %p)
      %c: f32[4, 4] = matmul(%b, %a)
      yield %c
  return %h"""


def disjoint(program: Program) -> int:
    """Check that buffers in one slot never live at once; the number of slots."""
    ranges = live_ranges(program)
    chosen, slots = assign(program)
    for a in chosen:
        for b in chosen:
            if a is not b and chosen[a] == chosen[b]:
                assert ranges[a].last < ranges[b].first or ranges[b].last < ranges[a].first
    for buffer, number in chosen.items():
        assert (buffer.size, buffer.dtype.itemsize) in slots[number].sizes
        assert slots[number].growable is (buffer.kind == "growable")
    return len(slots)


@pytest.mark.parametrize(("body", "least", "most"), [(chain, 1, 2), (fan, 5, 7)])
def test_slots_are_used_again_when_their_value_is_dead(body: Callable[..., Any], least: int, most: int) -> None:
    g = graph(body, tensor(4, 4))
    assert least <= disjoint(lower("f", g)) <= most
    agree(g, [np.eye(4, dtype=np.float32) * 0.5], passes=False)


def test_what_is_made_before_a_loop_lives_until_it_ends() -> None:
    g: Graph = parse(AROUND)
    program = lower("f", g)
    disjoint(program)
    agree(g, [np.eye(4, dtype=np.float32)[::-1] * 0.5, 3], passes=False)


def test_pointers_that_lead_to_one_buffer_on_many_ways_are_looked_at_once() -> None:
    slot = Buffer(float32, 4, "slot")
    before = [slot, slot]
    for _ in range(40):  # 2^40 ways
        before = [Buffer(float32, 4, "pointer", aliases=set(before)) for _ in range(2)]
    steps = [Point(((before[0], slot, 0),)), Allocate(slot), Point(((before[1], slot, 0),))]
    ranges = live_ranges(Program("f", (), {}, [], {}, steps, [], [], [], (), {}))
    assert list(ranges) == [slot]
    assert ranges[slot].last == 3


def test_what_pointers_may_point_into_is_found_once_for_all_steps() -> None:
    class Counted(set[Buffer]):
        looked = 0

        def __iter__(self) -> Iterator[Buffer]:
            Counted.looked += 1
            return super().__iter__()

        def __sub__(self, other: Set[Any]) -> set[Buffer]:
            Counted.looked += 1
            return set(self) - other

    slot = Buffer(float32, 4, "slot")
    pointers = [slot]
    for _ in range(20):
        pointers.append(Buffer(float32, 4, "pointer", aliases=Counted(pointers[-1:])))
    steps = [Point(((p, slot, 0),)) for _ in range(50) for p in pointers[1:]]
    ranges = live_ranges(Program("f", (), {}, [], {}, steps, [], [], [], (), {}))
    assert ranges[slot].last == len(steps)
    assert Counted.looked <= 20 * 21  # and not once more for each step
