"""Writes through a reshape reach the original only where eager's reshape is a view; else they are refused."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.errors import UnsupportedCall


def permuted(y):
    z = y.t() + 1
    u = z.reshape(-1)
    u *= 2
    return z


def permuted_in_a_branch(y):
    z = y.t() + 1 if y.sum() > 0 else y.t() * 2
    u = z.reshape(-1)
    u *= 2
    return z


def permuted_in_a_loop(y, n: int):
    z = y.t() + 1
    for _ in range(n):
        z = z * 2
    u = z.reshape(-1)
    u *= 2
    return z


def plain(y):
    z = y + 1
    u = z.reshape(-1)
    u *= 2
    return z


def argument(y):
    u = y.reshape(-1)
    u *= 2
    return y.sum()


def test_the_result_of_a_permuted_operand_is_not_in_row_order():
    y = jitgrad.arange(6.0).reshape(2, 3)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted)(y)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted_in_a_branch)(y)
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        jitgrad.script(permuted_in_a_loop)(y, 2)
    assert jitgrad.script(plain)(y).tolist() == plain(y).tolist()


def test_the_order_of_an_argument_is_guarded():
    scripted = jitgrad.script(argument)
    x = jitgrad.arange(6.0).reshape(2, 3)
    assert scripted(x).item() == 30.0
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(UnsupportedCall, match="may be a copy"):
        scripted(x.t())
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert scripted(jitgrad.ones(2, 5)).item() == 20.0
    assert scripted.cache_info().compilations == 1
