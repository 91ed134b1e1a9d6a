"""Every program of this package, in every execution."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.programs
from tests.programs.harness import PROGRAMS, Program, check, close_text

for _module in pkgutil.iter_modules(tests.programs.__path__):
    if not _module.name.startswith("test_"):
        importlib.import_module(f"tests.programs.{_module.name}")


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("item", [pytest.param(p, id=name) for name, p in sorted(PROGRAMS.items())])
def test_program(item: Program, mode: str) -> None:
    check(item, (mode,))


def test_text_is_compared_up_to_rounding() -> None:
    assert close_text("loss 0.1234 at 3", "loss 0.1235 at 3")
    assert not close_text("loss 0.1234 at 3", "loss 0.1234 at 4")
    assert not close_text("loss 0.12", "loss 0.32")
