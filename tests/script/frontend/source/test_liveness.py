"""Which names are read later, which a loop binds, and how control may leave a block."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

from jitgrad.script.frontend.source.liveness import always_leaves, exits, scope_of


def parsed(text: str) -> Any:
    """The function in `text`, its scope, and its statements by line."""
    node = ast.parse(textwrap.dedent(text).strip()).body[0]
    scope = scope_of(SimpleNamespace(node=node, scope=None))  # type: ignore[arg-type]
    return node, scope, {s.lineno: s for s in ast.walk(node) if isinstance(s, ast.stmt)}


def test_names_live_after_a_statement() -> None:
    _, scope, line = parsed("""
        def f(x, n):
            a = x + 1
            b = a * 2
            if n:
                c = b
            else:
                c = x
            b = c
            return b
    """)
    assert scope.after[id(line[2])] == {"a", "x", "n"}
    assert scope.after[id(line[4])] == {"c"}
    assert scope.after[id(line[8])] == {"b"}


def test_a_loop_reads_at_its_head_what_the_next_iteration_reads() -> None:
    _, scope, line = parsed("""
        def f(x, n):
            y = x
            t = 0
            for i in range(n):
                t = y * i
                y = y + t
                z += 1
            return y
    """)
    loop = line[4]
    assert {"y"} <= scope.head[id(loop)]
    assert "t" not in scope.head[id(loop)]  # bound before it is read
    assert scope.after[id(loop)] == {"y"}
    assert scope.assigned[id(loop)] >= {"t", "y", "z", "i"}
    assert "z" not in scope.rebound[id(loop)]  # a tensor stays the same one


def test_names_of_inner_functions_live_everywhere() -> None:
    _, scope, line = parsed("""
        def f(x):
            k = 1
            g = lambda: k + x
            m = [j for j in x if j < q]
            q = 2
            return g()
    """)
    assert scope.captured == {"k", "x"}  # what a comprehension reads it reads at once
    assert {"k", "x"} <= scope.after[id(line[6])]
    assert "j" not in scope.local


def test_declared_names_are_not_local() -> None:
    _, scope, _ = parsed("""
        def f(x):
            nonlocal a
            global b
            a = b = c = x
            yield c
    """)
    assert (scope.free, scope.global_, scope.local) == ({"a"}, {"b"}, {"x", "c"})
    assert scope.yields


@pytest.mark.parametrize(("body", "found", "always"), [
    ("return 1", {"return"}, True),
    ("if c: break", {"break"}, False),
    ("if c: break\nelse: continue", {"break", "continue"}, True),
    ("for i in x: break", set(), False),
    ("for i in x:\n    if i: return\n    break\nelse: break", {"return", "break"}, False),
    ("while c: raise A", {"raise"}, False),
    ("with s: return", {"return"}, True),
    ("try:\n    return\nexcept A:\n    y = 1", {"return"}, False),
    ("try:\n    return\nexcept A:\n    raise", {"return", "raise"}, True),
    ("match c:\n    case 1: return\n    case _: continue", {"return", "continue"}, False),
    ("assert c", {"raise"}, False),
    ("def g(): return 1", set(), False),
])
def test_how_a_block_may_be_left(body: str, found: set[str], always: bool) -> None:
    statements = ast.parse(body).body
    assert exits(statements) == found
    assert always_leaves(statements) is always
