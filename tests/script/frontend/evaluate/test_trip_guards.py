"""A number that becomes a tensor in a loop: zero iterations leave the number, in a program of their own."""

from __future__ import annotations

import pytest

import jitgrad


def scalars(x, n: int):
    s = 0
    for i in range(n):
        s = s + x[i]
    return s


def vectors(x, n: int):
    s = 0
    for i in range(n):
        s = s + x * i
    return s


def stepped(x, n: int):
    s = 1.5
    for i in range(1, n, 2):
        s = s + x[i]
    return s


def rows(x, n: int):
    s = 0
    for row in x[:]:
        s = s + row
    return s


@pytest.mark.parametrize("function", [scalars, vectors, rows])
@pytest.mark.parametrize("order", [(3, 0, 2, -1, 5), (0, 3, 0, 4)])
def test_zero_iterations_are_their_own_program(function, order):
    scripted = jitgrad.script(function)
    for n in order:
        x = jitgrad.arange(6.0) if function is not rows else jitgrad.arange(float(max(n, 0)))
        expected, found = function(x, n), scripted(x, n)
        assert type(found) is type(expected)
        if isinstance(expected, jitgrad.Tensor):
            assert found.dtype is expected.dtype
            assert found.tolist() == expected.tolist()
        else:
            assert found == expected
    assert scripted.cache_info().compilations == 2
    assert "whether a loop runs" in scripted.recompilations[0]


def test_where_the_length_is_not_known_at_entry_the_number_is_a_tensor_from_the_start():
    scripted = jitgrad.script(stepped)
    x = jitgrad.arange(6.0)
    assert scripted(x, 6).item() == stepped(x, 6).item()
    assert float(scripted(x, 1)) == stepped(x, 1)
    assert scripted.cache_info().compilations == 1
