"""Variables of the environment are read when a script is called."""

from __future__ import annotations

import os
from typing import Any

import pytest

import jitgrad as torch
from jitgrad.errors import UnsupportedCall


def scaled(x: Any) -> Any:
    return x * int(os.environ["JITGRAD_TEST_A"])


def asked(x: Any) -> Any:
    return os.environ.get("JITGRAD_TEST_B", "none"), os.getenv("JITGRAD_TEST_B"), "JITGRAD_TEST_A" in os.environ


def caught(x: Any) -> Any:
    try:
        return os.environ["JITGRAD_TEST_B"]
    except KeyError as error:
        return f"no {error}"


@pytest.mark.parametrize("function", [scaled, asked, caught])
def test_it_is_as_it_is_at_the_call(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, x = torch.script(function), torch.ones(2)
    for a, b in (("3", None), ("4", None), ("4", "q"), (None, "q"), ("3", None)):
        for name, value in (("JITGRAD_TEST_A", a), ("JITGRAD_TEST_B", b)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        try:
            expected = repr(function(x))
        except KeyError as error:
            with pytest.raises(KeyError, match=str(error)):
                scripted(x)
        else:
            assert repr(scripted(x)) == expected


def test_a_change_of_it_is_refused() -> None:
    @torch.script
    def changed(x: Any) -> Any:
        os.environ["JITGRAD_TEST_A"] = "5"
        return x

    with pytest.raises(UnsupportedCall):
        changed(torch.ones(2))
    assert "JITGRAD_TEST_A" not in os.environ
