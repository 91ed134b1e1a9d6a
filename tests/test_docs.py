"""Examples in the README and in docstrings run as printed."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import linecache
import pkgutil
import re
from pathlib import Path

import pytest

import jitgrad

ROOT = Path(__file__).parent.parent
SKIPPED = {"jitgrad.__main__"}


def python_blocks(path):
    text = path.read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md") if p.name != "internals.md")]


@pytest.mark.parametrize("page", PAGES)  # the blocks of docs/internals.md are signatures, not programs
def test_python_blocks_of_a_page_run(page):
    for number, block in enumerate(python_blocks(ROOT / page)):
        if "onnx" in block and not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
            continue
        filename = f"<{page} block {number}>"
        linecache.cache[filename] = (len(block), None, block.splitlines(keepends=True), filename)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, filename, "exec"), {"__name__": "readme"})
        for line in printed.getvalue().splitlines():
            assert line in (ROOT / page).read_text(), f"{page} does not show what its example prints: {line}"


def modules():
    names = [m.name for m in pkgutil.walk_packages(jitgrad.__path__, "jitgrad.")]
    return [n for n in names if n not in SKIPPED]


@pytest.mark.parametrize("name", modules())
def test_doctests(name):
    if name.startswith("jitgrad.onnx."):
        pytest.importorskip("onnx")
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


def test_every_module_says_what_it_is_for():
    for path in sorted((ROOT / "jitgrad").rglob("*.py")):
        text = path.read_text()
        assert not text.strip() or text.lstrip().startswith('"""'), f"{path.name} has no docstring"
