"""What no script may contain: refused when the function is decorated."""

import ast
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedSyntax
from jitgrad.script.frontend.source.source import Source, own_nodes, source_of

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
    ast.TryStar: ("`except*`", "use a plain `except`"),
}


def check_syntax(function: Callable[..., Any]) -> None:
    """Raise UnsupportedSyntax for the first thing in `function`'s source that no script may contain."""
    source = source_of(function)
    check_source(source)


def check_source(source: Source, inlined: bool = False) -> None:
    """The same for a parsed function; decorators, annotations and defaults are not part of the script.

    `inlined`: the function is called by a script, and may be a generator then.
    """
    node = source.node
    if isinstance(node, ast.AsyncFunctionDef):
        _refuse(source, node)
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    allowed = _yield_statements(body, inlined)
    for statement in body:
        for inner in ast.walk(statement):
            if type(inner) in REFUSED and id(inner) not in allowed:
                _refuse(source, inner)


def _yield_statements(body: list[Any], inlined: bool) -> set[int]:
    """The `yield`s that stand alone as statements of a generator function: a loop over its call inlines them."""
    found = set()
    for statement in body:
        own = {id(n) for n in own_nodes(statement)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Expr) and isinstance(node.value, (ast.Yield, ast.YieldFrom)) and (
                    inlined or id(node.value) not in own):
                found.add(id(node.value))
    return found


def _refuse(source: Source, node: ast.AST) -> None:
    what, hint = REFUSED[type(node)]
    span = source.span(node)
    if span.end_line != span.line or hasattr(node, "body"):  # a compound statement: point at its first word
        text = what.split("`")[1].split() if "`" in what else ["class"]
        width = len(text[0])
        span = type(span)(span.file, span.line, span.column, span.line, span.column + width, span.function)
    raise UnsupportedSyntax(what, span, hint=hint or _MOVE)
