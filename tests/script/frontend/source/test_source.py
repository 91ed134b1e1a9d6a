"""Where the source of a function is found, and that it is the function's."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import linecache
import os
import subprocess
import sys
import textwrap
import time

import pytest

import jitgrad
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import launch
from jitgrad.errors import SourceUnavailable
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.frontend.source.source import Source, _cache, source_of
from jitgrad.script.graph.ir import Graph, Node
from jitgrad.script.inspect.face import ScriptFunction

FIRST = "def f(x):\n    return x * 2\n\n\ndef g(x):\n    return x + 1\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module on disk, loaded, and its path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "edited_module.py"
    path.write_text(FIRST)
    loaded = importlib.import_module("edited_module")
    yield loaded, path
    del sys.modules["edited_module"]


def write(path, text):
    path.write_text(text)
    later = time.time() + 5
    os.utime(path, (later, later))


def test_an_edited_file_is_noticed(module):
    loaded, path = module
    write(path, FIRST.replace("x * 2", "x * 3"))
    with pytest.raises(SourceUnavailable, match="`f` was edited after the function was loaded") as caught:
        jitgrad.script(loaded.f)
    assert "importlib.reload" in caught.value.hint
    assert jitgrad.script(loaded.g)(jitgrad.ones(1)).item() == 2.0  # the same text at the same place
    again = importlib.reload(loaded)
    assert jitgrad.script(again.f)(jitgrad.ones(1)).item() == 3.0


def test_what_was_read_before_the_edit_serves(module):
    loaded, path = module
    linecache.getlines(str(path))
    write(path, "\n" + FIRST)
    assert jitgrad.script(loaded.f)(jitgrad.ones(1)).item() == 2.0
    again = importlib.reload(loaded)
    assert jitgrad.script(again.g)(jitgrad.ones(1)).item() == 2.0
    assert source_of(again.g).span(source_of(again.g).node).line == 6


def test_a_shorter_or_broken_file(module):
    loaded, path = module
    write(path, "def f(\n")
    for function in (loaded.f, loaded.g):
        with pytest.raises(SourceUnavailable, match="was edited after"):
            jitgrad.script(function)


def test_code_made_by_exec_with_lines(tmp_path):
    text = "def h(x):\n    return x - 1\n"
    linecache.cache["<made>"] = (len(text), None, text.splitlines(keepends=True), "<made>")
    scope: dict = {}
    exec(compile(text, "<made>", "exec"), scope)
    assert jitgrad.script(scope["h"])(jitgrad.ones(1)).item() == 0.0
    del linecache.cache["<made>"]


def test_what_is_known_of_a_function_goes_with_it(tmp_path):
    def compiled(k):
        path = tmp_path / f"made{k}.py"
        path.write_text(f"def f(x, y):\n    z = x * {k} + y\n    return (z if z.sum() > 0 else -z).sum()\n")
        scope: dict = {}
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), scope)
        x = jitgrad.ones(2, requires_grad=True)
        jitgrad.script(scope["f"])(x, jitgrad.ones(2)).backward()
        assert x.grad is not None

    def left():
        gc.collect()
        kept = (ScriptFunction, Specialisation, Graph, Node, Source, ast.AST, engine.Loaded, launch.Workspace)
        return len(_cache), len(launch.live), sum(isinstance(o, kept) for o in gc.get_objects())

    compiled(0)
    before = left()
    for k in range(1, 6):
        compiled(k)
    assert left() == before


#: what comes before the first line that is indented no more than `def` is not always the whole function
DEFINITIONS = {
    "a comment at the margin": "def f(x):\n    y = x\n# not the end\n    return y + 2\n",
    "text at the margin": 'def f(x):\n    y = """\ndef g():\n"""\n    return x + len(y)\n',
    "lines of text": 'def f(x):\n    y = """\n' + "a\n" * 40 + '"""\n    return x + len(y)\n',
    "brackets at the margin": "def f(\nx,\n*, y=(\n1,\n)\n):\n    return x + y[\n0\n]\n",
    "decorators": "@functools.cache\n@functools.cache\ndef f(x):\n    return x + 1\n",
    "one line": "def f(x): return x + 1\n",
    "a method": "class A:\n    @staticmethod\n    def f(x):\n\n        return x + 1\n\n    y = 3\n\n\nf = A.f\n",
}


@pytest.mark.parametrize("text", DEFINITIONS.values(), ids=DEFINITIONS)
@pytest.mark.parametrize("rest", ["", "y = 3\n", "\n# the end\n@functools.cache\ndef g(x):\n    return x\n"])
def test_a_definition_is_found_whole(module, text, rest):
    loaded, path = module
    write(path, "import functools\n\n\n" + text + rest)
    f = inspect.unwrap(importlib.reload(loaded).f)
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(f))).body
    assert ast.dump(source_of(f).node) == ast.dump(node)
    assert source_of(f).node.lineno + source_of(f).first == f.__code__.co_firstlineno + len(node.decorator_list)


def test_no_source_of_what_comes_through_a_pipe():
    program = textwrap.dedent("""
        import jitgrad
        try:
            @jitgrad.script
            def f(x):
                return x
        except OSError as error:
            print(error)
    """)
    out = python("-", input=program)
    assert out.startswith("no source: the source of `f` cannot be read (`<st")
    assert "hint: define the function in a file" in out


PROGRAM = "import jitgrad\n\n@jitgrad.script\ndef f(x):\n    return x * 2\n\nprint(f(jitgrad.ones(2)).tolist())\n"


def python(*arguments, **options):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, **options)
    return done.stdout + done.stderr


def test_source_of_a_command_and_of_a_redirected_input(tmp_path):
    assert python("-c", PROGRAM) == python("-Bc", PROGRAM) == "[2.0, 2.0]\n"
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with open(path) as file:
        assert python("-", stdin=file) == "[2.0, 2.0]\n"


def test_what_exec_runs_is_not_taken_for_the_command():
    inner = PROGRAM.replace("* 2", "* 3")
    assert "no source" in python("-c", f"{PROGRAM}exec({inner!r})\n")
    kept = "import linecache\n" + (
        f"text, name = {inner!r}, 'mine'\n"
        "linecache.cache[name] = len(text), None, text.splitlines(True), name\n"
        "exec(compile(text, name, 'exec'))\n")
    assert python("-c", kept) == "[3.0, 3.0]\n"


def test_source_typed_into_an_interpreter():
    readline = pytest.importorskip("readline")
    history = ["import jitgrad", "def g(x):", "    return x + 1", "x = 1", "@jitgrad.script", "def f(x):",
               "    return g(x) * 2"]
    for line in history:
        readline.add_history(line)
    scope = {}
    try:
        for text in (history[0], "\n".join(history[1:3]), "\n".join(history[4:])):
            exec(compile(text + "\n", "<stdin>", "single"), scope)
        assert scope["f"](jitgrad.ones(1)).item() == 4.0
    finally:
        readline.clear_history()
