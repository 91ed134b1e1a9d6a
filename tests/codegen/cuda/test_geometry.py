"""Grids are little arithmetic on the products of a kernel's sizes."""

from __future__ import annotations

import pytest

from jitgrad.codegen.cuda.geometry import ANY, Form, Grid, Launch, grid, pick, scratch

FORMS = (Form(1024, (Launch("a", 256, 8, 4096),)), Form(ANY, (Launch("b", 512, 1, 4096, scratch=64),)))


@pytest.mark.parametrize(("inner", "symbol"), [(0, "a"), (1024, "a"), (1025, "b"), (10**12, "b")])
def test_the_first_form_that_is_large_enough(inner, symbol):
    assert pick(FORMS, inner).launches[0].symbol == symbol


def test_scratch_is_what_the_hungriest_form_uses():
    assert scratch(FORMS) == 64
    assert scratch(FORMS[:1]) == 0


@pytest.mark.parametrize(("outer", "x"), [(1, 1), (8, 1), (9, 2), (4096 * 8, 4096), (10**9, 4096)])
def test_blocks_along_x(outer, x):
    assert grid(Launch("a", 256, 8, 4096), outer, 77) == Grid(x, 1, 256, 0)


@pytest.mark.parametrize(("outer", "inner", "y"), [(1, 0, 1), (1, 1000, 1), (1, 1001, 2), (1, 10**9, 64),
                                                   (10, 10**9, 6), (65, 10**9, 1), (10**6, 10**9, 1)])
def test_blocks_along_y_share_the_inner_space(outer, inner, y):
    assert grid(Launch("a", 256, 1, 4096, split=1000, blocks=64), outer, inner).y == y


def test_shared_memory_is_rounded_up():
    launch = Launch("a", 256, 1, 4096, shared=4, unit=1024)
    assert [grid(launch, 1, n).shared for n in (0, 1, 1024, 1025)] == [0, 4096, 4096, 8192]
