"""Interfaces and sites as JSON: the same after a way through bytes; nothing but data, and names of exceptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jitgrad import dtypes
from jitgrad.codegen.program.sites import Site
from jitgrad.codegen.run.launch import Interface, OutputPlan
from jitgrad.codegen.run.serial import NotStorable, decode, dump, encode, load, to_json
from jitgrad.errors import ErrorName, Span


class Missing(Exception):
    """One that can be found by its name."""


def through(data: Any) -> Any:
    return json.loads(to_json(data))


@pytest.mark.parametrize("value", [
    None, True, 3, 0.5, "text", (), (1, ("dim", 2), None), dtypes.float16, dtypes.bfloat16,
    ("optional", ("seq", "float")), (dtypes.int64, "x"), float("inf"),
])
def test_values_come_back(value: Any) -> None:
    found = decode(through(encode(value)))
    assert found == value
    assert type(found) is type(value)


def test_exceptions_are_names() -> None:
    found = decode(through(encode(Missing)))
    assert isinstance(found, ErrorName)
    assert found.find() is Missing
    assert encode(found) == encode(Missing)


def test_what_no_other_process_could_find_is_refused() -> None:
    class Local(Exception):
        pass

    for value in (Local, object(), {"a": 1}, (1, [object()])):
        with pytest.raises(NotStorable):
            encode(value)


def test_an_interface_comes_back_with_its_sites() -> None:
    span = Span("model.py", 3, 4, 3, 9, "inner", Span("model.py", 9, 1, 9, 5, "f", None))
    attrs = {"error": ValueError, "template": ("n is ", (0, "", ""))}
    site = Site("check", "check", attrs, ["bool", "int"], None, 2, span)
    face = Interface("f", ["int", ("optional", "float")], {0: 3}, [OutputPlan("int", (2, ("dim", 0)), 5)], {1: 0}, [1],
                     [7], 12, [site])
    found = load(through(dump(face)))
    error = found.sites[0].attrs.pop("error")
    assert error.find() is ValueError
    site.attrs.pop("error")
    assert found == face
