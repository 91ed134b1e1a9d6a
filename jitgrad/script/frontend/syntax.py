"""What no script may contain: refused when the function is decorated."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedSyntax
from jitgrad.script.frontend.source import Source, source_of

_TRY = "move the `try` out of the scripted function, or into one marked `@jitgrad.ignore`"
_MOVE = "move it out of the scripted function"

#: node type -> (what to call it, hint)
REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFunctionDef: ("`async` function", "a script runs to its end at once; use a plain `def`"),
    ast.AsyncFor: ("`async for`", "use a plain `for`"),
    ast.AsyncWith: ("`async with`", "use a plain `with`"),
    ast.Await: ("`await`", "a script runs to its end at once; await before the call"),
    ast.Yield: ("`yield`", "return a tuple, or stack the results in a tensor"),
    ast.YieldFrom: ("`yield from`", "return a tuple, or stack the results in a tensor"),
    ast.ClassDef: ("class definition", "define the class outside the scripted function"),
    ast.Try: ("`try` statement", _TRY),
    ast.TryStar: ("`try` statement", _TRY),
    ast.Match: ("`match` statement", "write it with `if` and `elif`"),
    ast.Global: ("`global` statement", "pass the value as an argument and return the new one"),
    ast.Nonlocal: ("`nonlocal` statement", "return the new value from the inner function"),
    ast.Delete: ("`del` statement", "assign another value; a dead tensor's memory is reused without it"),
    ast.Import: ("`import` statement", "import at the top of the file"),
    ast.ImportFrom: ("`import` statement", "import at the top of the file"),
    ast.GeneratorExp: ("generator expression", "write a list comprehension: `[... for ...]`"),
    ast.SetComp: ("set comprehension", "use a list or a tuple"),
    ast.Set: ("set display", "use a list or a tuple"),
}


def check_syntax(function: Callable[..., Any]) -> None:
    """Raise UnsupportedSyntax for the first thing in `function`'s source that no script may contain."""
    source = source_of(function)
    check_source(source)


def check_source(source: Source) -> None:
    """The same for a parsed function; decorators, annotations and defaults are not part of the script."""
    node = source.node
    if isinstance(node, ast.AsyncFunctionDef):
        _refuse(source, node)
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    allowed = _consumed_generators(body)
    for statement in body:
        for inner in ast.walk(statement):
            if type(inner) in REFUSED and id(inner) not in allowed:
                _refuse(source, inner)


def _consumed_generators(body: list[Any]) -> set[int]:
    """Generator expressions that are the only argument of a call: they are evaluated like list comprehensions."""
    found = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
                found.add(id(node.args[0]))
    return found


def _refuse(source: Source, node: ast.AST) -> None:
    what, hint = REFUSED[type(node)]
    span = source.span(node)
    if span.end_line != span.line or hasattr(node, "body"):  # a compound statement: point at its first word
        text = what.split("`")[1].split() if "`" in what else ["class"]
        width = len(text[0])
        span = type(span)(span.file, span.line, span.column, span.line, span.column + width, span.function)
    raise UnsupportedSyntax(what, span, hint=hint or _MOVE)
