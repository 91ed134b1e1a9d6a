"""Every nasty program, native and interpreted."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.programs.nasty
from tests.programs.nasty.harness import PROGRAMS, check

pytestmark = pytest.mark.sampled("stories")

for _module in pkgutil.iter_modules(tests.programs.nasty.__path__):
    if not _module.name.startswith("test_"):
        importlib.import_module(f"tests.programs.nasty.{_module.name}")


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nasty(name: str, mode: str) -> None:
    check(name, mode)


def test_there_are_two_hundred() -> None:
    assert len(PROGRAMS) >= 200
