"""Exceptions keep their arguments: numbers, tensors, several of them, classes of the user's."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, script


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


class Refused(Exception):
    """An exception with attributes of its own."""

    def __init__(self, code, what):
        super().__init__(f"{code}: {what}")
        self.code, self.what = code, what


def throw(n: int, x, which: int):
    if which == 0:
        raise KeyError(n)
    if which == 1:
        raise StopIteration(x.sum())
    if which == 2:
        raise Refused(n, f"t {n:>4}")
    if which == 3:
        raise ValueError("a", n, 2.5, None, (n, True), [n, "x"])
    if which == 4:
        raise KeyError(7)
    if which == 5:
        raise KeyError("k")
    if which == 6:
        raise KeyError(f"k{n}")
    if which == 7:
        raise ValueError
    if which == 8:
        raise IndexError(x.shape[0], n * 0.5)
    if which == 9:
        raise AssertionError(n)
    if which == 10:
        raise AssertionError((n, "s"))
    return x


def outcome(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error), repr(error), str(error), repr(error.args), getattr(error, "code", None)
    return None


@pytest.mark.parametrize("which", range(12))
def test_arguments(which):
    f = script(throw)
    for n in (5, -3):
        assert outcome(f, n, torch.ones(2), which) == outcome(throw, n, torch.ones(2), which)


def test_a_handler_sees_them():
    @script
    def f(x):
        try:
            raise ValueError(x.sum().item(), "b", [2])
        except ValueError as e:
            a, b, c = e.args
            return x * a * len(b) * c[0]

    assert f(torch.ones(2)).tolist() == f.eager(torch.ones(2)).tolist() == [4, 4]


def test_what_a_class_says_of_its_own_arguments(capsys):
    @script
    def own(x):
        try:
            raise Refused(1, "no")
        except Refused as e:
            print(e)
        return x

    own(torch.ones(1))
    own.eager(torch.ones(1))
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == "1: no"


def test_generated_code_raises_the_same():
    f = script(throw)
    f(1, torch.ones(2), 11)
    assert "raise ValueError('a', " in f.code
    assert "raise KeyError('k')" in f.code
