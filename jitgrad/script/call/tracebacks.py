"""Tracebacks of exceptions raised by compiled code: one frame per inlined call, the last on the user's line."""

import ast
import linecache
import os
import types
from typing import Any

from jitgrad.errors import ScriptError, Span
from jitgrad.script.graph import marks

#: functions in here stand for Python's own, such as methods of lists, which have no frames
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep


def show_lines(error: BaseException) -> None:
    """Replace the traceback of an exception of compiled code by the frames that plain Python would show.

    What lies below an ignored function is kept. The note with the place goes where the frames show the line.
    """
    span: Span | None = error.__dict__.pop("_place", None)
    if span is None:
        return
    notes = getattr(error, "__notes__", None)
    if notes and linecache.getline(span.file, span.line):
        notes[:] = [n for n in notes if not n.startswith(f"{span}\n")]
        if not notes:
            del error.__notes__
    following = _below(error.__traceback__)
    at: Span | None = span
    while at is not None:
        if not at.file.startswith(_OURS):
            following = _frame(at, following)
        at = at.caller
    error.__traceback__ = following


def refused(error: ScriptError) -> ScriptError:
    """What cannot be compiled, with the frames that plain Python would show: our own hide the line."""
    error.__traceback__ = None
    error.__dict__["_place"] = error.span
    show_lines(error)
    return error


def _below(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The part that starts in an ignored function."""
    while traceback is not None:
        if traceback.tb_frame.f_code in marks.CALLERS:
            inner = traceback.tb_next
            return inner if inner is None or inner.tb_frame.f_code not in marks.CALLERS else _below(inner)
        traceback = traceback.tb_next
    return None


def _frame(span: Span, following: types.TracebackType | None) -> types.TracebackType:
    """A traceback entry whose frame stands at `span`."""
    dummy = RuntimeError()
    scope: dict[str, Any] = {"error": dummy, "__name__": span.function}
    try:
        exec(_code(span), scope)  # the text is ours: `raise error`, moved to the span
    except RuntimeError:
        entry = dummy.__traceback__.tb_next  # type: ignore[union-attr]
    dummy.__traceback__ = None
    scope.clear()
    assert entry is not None
    return types.TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)


def _code(span: Span) -> types.CodeType:
    tree = ast.parse("raise error")
    lines = span.line, span.end_line
    columns = (_bytes(span.file, span.line, span.column), _bytes(span.file, span.end_line, span.end_column))
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            (node.lineno, node.end_lineno), (node.col_offset, node.end_col_offset) = lines, columns
    code = compile(tree, span.file, "exec")
    name = span.function or "<module>"
    return code.replace(co_name=name, co_qualname=name)


def _bytes(file: str, line: int, column: int) -> int:
    """A column in characters, from 1, as one in bytes of UTF-8, from 0."""
    return len(linecache.getline(file, line)[:column - 1].encode())
