"""docs/language.md: every row has a test."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.programs.nasty.test_nasty import PROGRAMS as NASTY
from tests.script.refusals.test_refusals import CASES, parse

TESTS = Path(__file__).parent
TABLE = TESTS.parent / "docs" / "language.md"
ROWS = [line for line in TABLE.read_text().splitlines() if line.startswith("| ") and not line.startswith(
    ("| construct", "| ---"))]


def test_there_are_enough() -> None:
    assert len(ROWS) >= 80


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    found = re.search(r"`(\w+)(?:\.py)?::(\w+)` \|$", row)
    assert found is not None, "a row names no test"
    module, name = found.groups()
    if module == "refusals":
        assert name in parse(CASES.read_text())
        assert "refused" in row
        return
    if f"{module}::{name}" in NASTY:
        return
    (file,) = [f for root in ("script/frontend", "programs/surprises") for f in (TESTS / root).rglob(f"{module}.py")]
    tests = importlib.import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))
    assert hasattr(tests, name) if name.startswith("test_") else (
        name in [case.function.__name__ for case in tests.PROGRAMS])
