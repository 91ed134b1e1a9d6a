"""A traceback of compiled code ends on the user's line, with a frame for each inlined call."""

from __future__ import annotations

import pathlib
import traceback

import pytest

import jitgrad
from jitgrad import config


def inner(x, i: int):
    größe = x * 1
    return größe[i] + x[0] // 1


def middle(x, i: int):
    return inner(x, i) * 2


def outer(x, n: int):
    for i in range(n):
        y = middle(x, i)
    if n > 7:
        raise ValueError(f"n is {n}")
    return y


@jitgrad.ignore
def fail(n: int) -> None:
    text = f"number {n}"
    raise KeyError(text)


@jitgrad.script
def nested(n: int):
    fail(n)
    return n


@jitgrad.ignore
def through(n: int) -> None:
    nested(n + 1)


def calls(n: int):
    through(n)
    return n


def raised(function, *args):
    """The exception that a call raises."""
    with pytest.raises((LookupError, ValueError)) as caught:
        function(*args)
    return caught.value


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize(("function", "args"), [
    (outer, (jitgrad.ones(3), 5)), (outer, (jitgrad.ones(9), 8)), (calls, (1,)),
])
def test_the_frames_are_those_of_plain_python(function, args, interpret):
    expected = raised(function, *args)
    with config.override(interpret=interpret):
        found = raised(jitgrad.script(function), *args)
    assert (type(found), str(found)) == (type(expected), str(expected))
    package = str(pathlib.Path(jitgrad.__file__).parent)
    mine = [f for f in traceback.extract_tb(found.__traceback__) if not f.filename.startswith(package)]
    theirs = [f for f in traceback.extract_tb(expected.__traceback__) if not f.filename.startswith(package)]
    assert [(f.filename, f.name, f.line) for f in mine] == [(f.filename, f.name, f.line) for f in theirs]
    assert not getattr(found, "__notes__", None)
    text = "".join(traceback.format_exception(found))
    assert theirs[-1].line in text


def test_carets_under_the_expression():
    found = raised(jitgrad.script(outer), jitgrad.ones(3), 5)
    last = traceback.extract_tb(found.__traceback__)[-1]
    source = pathlib.Path(__file__).read_text().splitlines()[last.lineno - 1]
    assert source.encode()[last.colno:last.end_colno].decode() == "größe[i]"
    assert found.span.function == "inner"


def test_where_the_source_is_gone_the_note_stays():
    import linecache

    file = "gone.py"
    text = "def f(x, i: int):\n    return x[i]\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict = {"__name__": "gone"}
    exec(compile(text, file, "exec"), scope)
    scripted = jitgrad.script(scope["f"])
    scripted(jitgrad.ones(3), 1)
    del linecache.cache[file]
    scope["f"].__globals__["__loader__"] = None
    with pytest.raises(IndexError) as caught:
        scripted(jitgrad.ones(3), 5)
    assert "gone.py:2" in caught.value.__notes__[0]


def unknown(x):
    return x.nonsense


def refused(x):
    y = x * 2
    return unknown(y)


def test_a_refusal_ends_on_the_users_line():
    with pytest.raises(jitgrad.errors.ScriptError) as caught:
        jitgrad.script(refused)(jitgrad.ones(2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = [("refused", "return unknown(y)"), ("unknown", "return x.nonsense")]
    assert [(f.name, f.line) for f in frames[2:]] == lines
    assert frames[1].name == "__call__"
