"""Makes a failing program small, as long as it still fails.

Statements are deleted, or replaced by their bodies, expressions by their operands.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator

Fails = Callable[[str], bool]


def shrink(source: str, fails: Fails, seconds: float = 40.0) -> str:
    """The smallest failing program that was found in that time."""
    end = time.monotonic() + seconds
    first = source.partition("\n")[0]
    head = first + "\n" if first.startswith("#") else ""
    best = head + ast.unparse(ast.parse(source)) + "\n"
    if not fails(best):
        return source
    changed = True
    while changed:
        changed = False
        for number, statement in _places(best):
            for way in ("delete", "body", "else") if statement else ("simplify",):
                candidate = _edited(best, number, way)
                if candidate is None or len(candidate) + len(head) >= len(best):
                    continue
                if time.monotonic() > end:
                    return best
                if fails(head + candidate):
                    best, changed = head + candidate, True
                    break
    return best


def _places(source: str) -> Iterator[tuple[int, bool]]:
    """The numbers of statements, the longest first, then of expressions."""
    nodes = list(enumerate(ast.walk(ast.parse(source))))
    found = [(i, n) for i, n in nodes if isinstance(n, ast.stmt)]
    found.sort(key=lambda place: -sum(1 for _ in ast.walk(place[1])))
    yield from ((i, True) for i, _ in found)
    yield from ((i, False) for i, n in nodes if isinstance(n, ast.expr))


def _edited(source: str, number: int, way: str) -> str | None:
    """The program with one node changed; None where that is no way to change it."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    if number >= len(nodes):
        return None
    node = nodes[number]
    if isinstance(node, ast.stmt):
        replacement = _of_statement(node, way)
        if replacement is None:
            return None
        for parent in nodes:
            for field in ("body", "orelse", "finalbody"):
                block = getattr(parent, field, None)
                if isinstance(block, list) and node in block:
                    i = block.index(node)
                    block[i:i + 1] = replacement
                    if not block and field == "body":
                        block.append(ast.Pass())
                    return _text(tree)
        return None
    if way == "simplify" and isinstance(node, ast.expr):
        return _simplified(tree, nodes, node)
    return None


def _of_statement(node: ast.stmt, way: str) -> list[ast.stmt] | None:
    if way == "delete":
        return []
    if way in ("body", "else") and not isinstance(node, ast.FunctionDef):
        found = getattr(node, "body" if way == "body" else "orelse", None)
        return found if isinstance(found, list) and found else None
    return None


def _simplified(tree: ast.Module, nodes: list[ast.AST], node: ast.expr) -> str | None:
    """An expression replaced by one of its operands."""
    part: ast.expr | None = None
    if isinstance(node, ast.BinOp):
        part = node.left
    elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
          and not isinstance(node.func.value, ast.Name)):
        part = node.func.value
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.expr):
        part = node.args[0]
    elif isinstance(node, ast.IfExp):
        part = node.body
    elif isinstance(node, ast.BoolOp):
        part = node.values[0]
    if part is None:
        return None
    for parent in nodes:
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, part)
                return _text(tree)
            if isinstance(value, list) and node in value:
                value[value.index(node)] = part
                return _text(tree)
    return None


def _text(tree: ast.Module) -> str | None:
    try:
        source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(source, "<shrink>", "exec")
    except (SyntaxError, ValueError):
        return None
    return source


__all__ = ["shrink"]
