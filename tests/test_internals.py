"""docs/internals.md is the map: it names the rooms, and nothing that is gone; each room and module says what it is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs" / "internals.md").read_text()
PAGES = [MAP, *(page.read_text() for page in (ROOT / "docs" / "internals").glob("*.md"))]
#: the folders of the compiler
ROOMS = [p for part in ("script", "codegen") for p in (ROOT / "jitgrad" / part).iterdir()
         if (p / "__init__.py").exists()]


def test_every_room_of_the_compiler_is_on_the_map() -> None:
    assert not [room.name for room in ROOMS if room.name not in MAP]


def test_every_module_says_what_it_is() -> None:
    modules = sorted((ROOT / "jitgrad").rglob("*.py"))
    assert len(modules) > 400
    assert not [str(m.relative_to(ROOT)) for m in modules if not re.match(r'"""\S', m.read_text())]


def test_nothing_that_is_named_is_gone() -> None:
    named = {Path(name).name for page in PAGES for name in re.findall(r"`([\w/]+\.py)`", page)}
    there = {p.name for part in ("jitgrad", "tests", "tools") for p in (ROOT / part).rglob("*.py")}
    assert not sorted(named - there)


def test_the_glossary_stays_short() -> None:
    rows = re.findall(r"^\| (?!---)", MAP[MAP.index("## Glossary"):], re.MULTILINE)
    assert 10 < len(rows) - 1 <= 30
