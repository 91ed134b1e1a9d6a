"""The source of a Python function: its AST with exact positions, parsed once per code object."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from types import CodeType
from typing import Any

from jitgrad.errors import SourceUnavailable, Span
from jitgrad.script.frontend.source import unfiled

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
#: what is evaluated later than where it stands
DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
#: what has a scope of its own
NESTED = (*DEFERRED, ast.ListComp, ast.SetComp, ast.DictComp)


class Source:
    """A function's AST and what of it is needed often.

    Attributes:
        node: the `def` or `lambda`; its columns are those of the file, its lines count from `first`.
        file: the file's name.
        first: added to a node's line number (from 1) to get the file's.
        name: the function's name.
        scope: names, and liveness, computed by `liveness.scope_of` on first use.
    """

    __slots__ = ("_ascii", "_made", "file", "first", "name", "node", "scope")

    def __init__(self, node: FunctionNode, file: str, first: int, name: str, ascii_only: bool):
        self.node, self.file, self.first, self.name = node, file, first, name
        self.scope: Any = None
        self._ascii = ascii_only
        self._made: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made of a part of the source, a node for example, once for all compilations."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def span(self, node: ast.AST, caller: Span | None = None) -> Span:
        """The place of `node`, which must have a position."""
        line, column = node.lineno + self.first, node.col_offset  # type: ignore[attr-defined]
        end_line, end_column = node.end_lineno + self.first, node.end_col_offset  # type: ignore[attr-defined]
        if not self._ascii:
            column = _characters(self.file, line, column)
            end_column = _characters(self.file, end_line, end_column)
        return Span(self.file, line, column + 1, end_line, end_column + 1, self.name, caller)

    def nested(self, node: FunctionNode) -> Source:
        """The source of a function defined inside this one."""
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        return Source(node, self.file, self.first, name, self._ascii)


def _characters(file: str, line: int, column: int) -> int:
    """A column in bytes of UTF-8 as one in characters."""
    return len(linecache.getline(file, line).encode()[:column].decode(errors="replace"))


#: by file: code objects of different files may compare equal. A source goes with its code
_cache: weakref.WeakKeyDictionary[CodeType, dict[str, Source]] = weakref.WeakKeyDictionary()


def source_of(function: Callable[..., Any]) -> Source:
    """The source of a Python function. Raises SourceUnavailable."""
    code: CodeType = function.__code__
    files = _cache.get(code)
    if files is None:
        files = _cache[code] = {}
    found = files.get(code.co_filename)
    if found is None:
        found = files[code.co_filename] = _parse(code)
    return found


def _lines(code: CodeType) -> tuple[str, list[str]]:
    """The file that a function was compiled from, or what stands for it, and its lines. Raises SourceUnavailable."""
    file = code.co_filename
    for text in unfiled.texts(file):
        if _has(text, code):
            file = unfiled.keep(file, text)
            return file, linecache.getlines(file)
    for attempt in range(2):
        if attempt:
            linecache.checkcache(file)  # the file may have changed since somebody last looked
        lines = linecache.getlines(file)
        if len(lines) >= code.co_firstlineno and (not _edited(file) or _has("".join(lines), code)):
            return file, lines
    if len(lines) >= code.co_firstlineno or (os.path.exists(file) and linecache.getlines(file)):
        raise SourceUnavailable(
            f"the file of `{code.co_name}` was edited after the function was loaded (`{file}`)",
            hint="import it again (`importlib.reload`) or start Python anew, so that code and source are the same")
    raise SourceUnavailable(f"the source of `{code.co_name}` cannot be read (`{file}`)", hint=_NO_SOURCE)


_NO_SOURCE = ("define the function in a file (a module, a script or a notebook cell); before an `exec(text)`, keep the "
              "text: `linecache.cache[name] = len(text), None, text.splitlines(True), name`, and run "
              "`exec(compile(text, name, 'exec'))` with a name of your own")
_LOADED = time.time()
_ANNOTATIONS = annotations.compiler_flag  # typed into an interpreter, it holds for all that follows


def _edited(file: str) -> bool:
    """Whether a file was written after this module was loaded: functions loaded before may be older than the file.

    What `exec` runs has the name under which Python 3.13 keeps the text of `python -c`.
    """
    if file == "<string>":
        return True
    try:
        return os.stat(file).st_mtime > _LOADED
    except OSError:
        return False


def _has(text: str, code: CodeType) -> bool:
    """Whether compiling `text` gives the very code object."""
    try:
        pending = [compile(text, code.co_filename, "exec", code.co_flags & _ANNOTATIONS, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    while pending:
        found = pending.pop()
        if found == code:
            return True
        pending += [c for c in found.co_consts if isinstance(c, CodeType)]
    return False


def _parse(code: CodeType) -> Source:
    file, lines = _lines(code)
    if code.co_name == "<lambda>":
        node: Any = _find_lambda(code, lines)
        first = 0
        text_ascii = all(line.isascii() for line in lines)
    else:
        node, text = _definition(lines[code.co_firstlineno - 1:])
        first = code.co_firstlineno - (2 if text[:1] in " \t" else 1)
        text_ascii = text.isascii()
    return Source(node, file, first, code.co_name, text_ascii)


def _definition(lines: list[str]) -> tuple[Any, str]:
    """The function whose definition begins on the first line, its columns those of the file, and its text.

    Its text ends before a line that is not indented more than the first: mostly before the first such line where what
    precedes can be parsed, and is not the beginning of a string or bracket. `inspect` splits the text into tokens, at
    ten times the cost.
    """
    start = _indentation(lines[0])
    ends = (n for n, line in enumerate(lines[1:], 1)
            if line.lstrip()[:1] not in ("", "#") and _indentation(line) <= start)
    for end in islice(chain(ends, [len(lines)]), 8):
        with suppress(SyntaxError):
            return _parsed("".join(lines[:end]))
    return _parsed("".join(inspect.getblock(lines)))


def _parsed(text: str) -> tuple[Any, str]:
    indented = text[:1] in " \t"
    tree = ast.parse("if 1:\n" + text if indented else text)  # columns stay those of the file
    return (tree.body[0].body if indented else tree.body)[0], text  # type: ignore[attr-defined]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _find_lambda(code: CodeType, lines: list[str]) -> ast.Lambda:
    """The lambda whose body is where the code object says."""
    positions = [p for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3]]
    line, end_line, column, end_column = positions[-1]
    candidates = [n for n in ast.walk(ast.parse("".join(lines))) if isinstance(n, ast.Lambda)]
    for node in candidates:
        body = node.body
        if (body.lineno, body.col_offset) <= (line, column) and (body.end_lineno, body.end_col_offset) >= (
                end_line, end_column) and [a.arg for a in node.args.args] == list(code.co_varnames[:code.co_argcount]):
            inner = [n for n in ast.walk(body) if isinstance(n, ast.Lambda)]
            if not any((i.body.lineno, i.body.col_offset) <= (line, column)
                       and (i.body.end_lineno, i.body.end_col_offset) >= (end_line, end_column) for i in inner):
                return node
    raise SourceUnavailable(f"the lambda on line {code.co_firstlineno} of {code.co_filename} cannot be found",
                            hint="the file changed after it was imported; import it again")


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node` that belong to the same scope: nested functions and comprehensions are not entered."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, NESTED):
            stack.extend(_outer_parts(current))
        else:
            stack.extend(ast.iter_child_nodes(current))


def _outer_parts(node: ast.AST) -> list[ast.AST]:
    """The parts of a nested function or comprehension that are evaluated in the scope around it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    return [node.generators[0].iter]  # type: ignore[attr-defined]
