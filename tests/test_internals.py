"""docs/internals.md is a map: it names every module of the compiler, and none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs" / "internals.md").read_text()


def named() -> set[str]:
    """The file names in back quotes; `lower_*.py` names no file."""
    return {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", MAP)}


def test_every_module_of_the_compiler_is_named() -> None:
    modules = {p.name for part in ("script", "codegen") for p in (ROOT / "jitgrad" / part).rglob("*.py")}
    assert not sorted(modules - named() - {"__init__.py"})


def test_nothing_that_is_named_is_gone() -> None:
    assert not sorted(named() - {p.name for part in ("jitgrad", "tests") for p in (ROOT / part).rglob("*.py")})
