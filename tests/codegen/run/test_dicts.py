"""Dicts whose keys are known are read at once: by native code, or by Python where it must look closer."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict

import pytest

from jitgrad.codegen.run.dicts import Values


class Upper(dict):
    def __getitem__(self, key):
        return super().__getitem__(key).upper()


def other(text):
    """An equal string that is another object."""
    return "".join(list(text))


def test_a_dict_of_these_keys_in_their_order():
    a, b, c = object(), [], 1.5
    values = Values(("a", 3, None))
    before = [sys.getrefcount(x) for x in (a, b, c, values)]
    assert values.quick({"a": a, 3: b, None: c}) == (a, b, c)
    assert [sys.getrefcount(x) for x in (a, b, c, values)] == before


@pytest.mark.parametrize("found", [
    {}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"b": 2, "a": 1}, {"a": 1, "c": 2}, {"a": 1, 1: 2}, [("a", 1)], None, 7,
])
def test_what_has_other_keys_is_not_read(found):
    values = Values(("a", "b"))
    for _ in range(3):
        assert values.quick(found) is False
        with pytest.raises((KeyError, TypeError)):
            values.look(found)


@pytest.mark.parametrize("found", [
    {other("aa"): "x", other("bb"): "y"}, OrderedDict(aa="x", bb="y"), defaultdict(list, aa="x", bb="y"),
    Upper(aa="x", bb="y"),
])
def test_keys_that_are_other_objects_and_dicts_of_other_classes_are_for_python(found):
    values = Values(("aa", "bb"))
    assert values.quick(found) is False
    assert values.look(found) == (found["aa"], found["bb"])


def test_a_dict_from_which_keys_were_taken():
    found = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}
    del found["a"], found["c"], found["f"]
    assert Values(("b", "d", "e")).quick(found) == (2, 4, 5)
    found["a"] = 1
    assert Values(("b", "d", "e")).quick(found) is False
    assert Values(("b", "d", "e", "a")).quick(found) == (2, 4, 5, 1)


def test_keys_are_kept_alive_and_interned():
    values = Values((other("never_heard_of"), int("9" * 30)))
    found = {"never_heard_of": 1, int("9" * 30): 2}
    assert values.quick(found) is False  # the number is another object
    assert values.look(found) == (1, 2)
    assert Values((other("never_heard_of"),)).quick({"never_heard_of": 1}) == (1,)
