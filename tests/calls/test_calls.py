"""Every generated call gives what PyTorch gave: numbers, dtypes, shapes, types of errors, `out`."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.ops.library.calls.forms import table
from tests.calls import record
from tests.calls.generator import calls, evaluate, observed, same

#: calls that are answered otherwise here, one a line, under the reason
DIFFERENT = Path(__file__).with_name("different.txt")


@cache
def recorded() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(record.FILE.read_text())
    return found


@cache
def different() -> frozenset[str]:
    return frozenset(line for line in DIFFERENT.read_text().splitlines() if line and not line.startswith("#"))


def written(space: str, call: Any) -> str:
    """A call as `different.txt` has it."""
    return f"{space}: {call.text}" + (f" <{call.out}>" if call.out else "")


@pytest.mark.parametrize("key", list(recorded()))
def test_answers(key: str) -> None:
    space, _, name = key.partition(":")
    entry, found = recorded()[key], calls(space, name)
    assert record.digest(found) == entry["calls"], "the calls have changed: python -m tests.calls.record"
    wrong = {}
    with np.errstate(all="ignore"):
        for call, use in zip(found, entry["uses"], strict=True):
            ours = evaluate(call, jitgrad)
            if same(observed(ours, name not in record.UNCERTAIN), entry["answers"][use]) is (
                    written(space, call) in different()):
                wrong[written(space, call)] = (ours, entry["answers"][use])
    assert not wrong


def test_what_is_recorded_is_what_is_there() -> None:
    there = {f"{space}:{name}" for space in record.SPACES for name in table()[space]
             if calls(space, name) and record.has(jitgrad, space, name)}
    assert there == recorded().keys(), "python -m tests.calls.record"


def test_differences_are_of_recorded_calls() -> None:
    known = {written(*key.split(":")[:1], call) for key in recorded() for call in calls(*key.split(":"))}
    assert different() <= known


def test_the_generator_makes_every_form() -> None:
    texts = {c.text for c in calls("torch", "sum")}
    assert {"t.sum(x)", "t.sum(input=x)", "t.sum(x=x)", "t.sum(x, 1)", "t.sum(x, dim=1)".replace("dim=", ""),
            "t.sum(x, 1, keepdim=True)", "t.sum(input=x, dim=1)", "t.sum(input=x, axis=1)", "t.sum(i, 1)"} <= texts
    assert {c.out for c in calls("torch", "sum")} == {"", "same", "empty", "double", "long"}


def test_answers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    if not re.match(r"2\.13\.", torch.__version__):
        pytest.skip("the answers are PyTorch 2.13's")
    for key in list(recorded())[::20]:
        space, _, name = key.partition(":")
        entry = recorded()[key]
        for use, answer in zip(entry["uses"], record.answers(calls(space, name), torch, name), strict=True):
            assert same(answer, entry["answers"][use]), key
