"""Wrong programs and the exact message that each gets: file, line, column, caret, reason, hint.

`refusals.case` holds `=== name`, the program, `--- call`, `--- expected`. Run this file as a script to rewrite the
expected texts after a deliberate change, and read the difference.
"""

from __future__ import annotations

import linecache
import math
import pathlib
import sys
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from jitgrad.script.frontend.build import build
from jitgrad.script.frontend.source.syntax import check_syntax

CASES = pathlib.Path(__file__).with_name("refusals.case")


def parse(text: str) -> dict[str, tuple[str, str, str]]:
    """name -> (program, call, expected)."""
    cases = {}
    for block in text.split("=== ")[1:]:
        name, rest = block.split("\n", 1)
        program, rest = rest.split("--- call ", 1)
        call, expected = rest.split("\n", 1)
        cases[name.strip()] = (program, call.strip(), expected.removeprefix("--- expected\n").rstrip("\n"))
    return cases


def floats(*shape: int) -> Any:
    return torch.from_numpy(np.ones(shape, dtype=np.float32))


def ints(*shape: int) -> Any:
    return torch.from_numpy(np.ones(shape, dtype=np.int64))


def message(name: str, program: str, call: str) -> str:
    """The text that decorating and calling the program's `f` raises."""
    file = f"{name}.py"
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"torch": torch, "math": math, "np": np, "__name__": "case"}
    exec(compile(program, file, "exec"), scope)
    scope["args"] = lambda *args, **kwargs: (args, kwargs)
    args, kwargs = eval(f"args({call})", {**scope, "floats": floats, "ints": ints})
    try:
        check_syntax(scope["f"])
        build(scope["f"], args, kwargs)
    except ScriptError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        del linecache.cache[file]
    return "no error"


@pytest.mark.parametrize("name", list(parse(CASES.read_text())))
def test_refusal(name: str) -> None:
    program, call, expected = parse(CASES.read_text())[name]
    assert message(name, program, call) == expected


def test_there_are_enough() -> None:
    assert len(parse(CASES.read_text())) >= 40


def test_no_source() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x): return x", scope)
    with pytest.raises(ScriptError) as caught:
        check_syntax(scope["f"])
    assert str(caught.value) == (
        "no source: the source of `f` cannot be read (`<string>`)\n"
        "hint: define the function in a file (a module, a script or a notebook cell); before an `exec(text)`, keep the "
        "text: `linecache.cache[name] = len(text), None, text.splitlines(True), name`, and run `exec(compile(text, "
        "name, 'exec'))` with a name of your own")


def rewrite() -> None:
    """Write the messages of today into the file."""
    parts = []
    for name, (program, call, _) in parse(CASES.read_text()).items():
        parts.append(f"=== {name}\n{program}--- call {call}\n--- expected\n{message(name, program, call)}\n\n")
    CASES.write_text("".join(parts))


if __name__ == "__main__":
    rewrite()
    sys.exit(0)
