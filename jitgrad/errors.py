"""Source spans and the exceptions that name them: what, where (file, line, column, caret), why, what to do."""

from __future__ import annotations

import importlib
import linecache
from typing import Any

from jitgrad.classes import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the user's source, and the call through which it was reached.

    `line` and `end_line` count from 1; `column` and `end_column` count characters from 1, the end exclusive.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str = ""
    caller: Span | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self, context: int = 1) -> str:
        """The source line with its predecessor and a caret row under the span."""
        lines = []
        for number in range(max(1, self.line - context), self.line + 1):
            text = linecache.getline(self.file, number).rstrip("\n")
            lines.append(f"{number:>5} | {text}")
        last = linecache.getline(self.file, self.line).rstrip("\n")
        end = self.end_column if self.end_line == self.line else len(last) + 1
        lines.append("      | " + " " * (self.column - 1) + "^" * max(1, end - self.column))
        return "\n".join(lines)

    def chain(self) -> str:
        """One `called from` line per inlined frame, innermost caller first."""
        lines, span = [], self.caller
        while span is not None:
            lines.append(f"called from {span}" + (f" in `{span.function}`" if span.function else ""))
            span = span.caller
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ErrorName:
    """An exception class by module and qualified name, as stored programs have it."""

    module: str
    name: str

    def find(self) -> Any:
        """The class. Raises ImportError or AttributeError."""
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


class JitgradError(Exception):
    """Base of every exception that jitgrad defines."""


class ScriptError(JitgradError):
    """A function cannot be compiled; the message shows the place in the user's source.

    Args:
        message: what is wrong: lower case, no full stop, code in backticks.
        span: where; None only where there is no source.
        hint: what to do instead.
        notes: further lines (for example the other branch's line of a type clash), printed before the hint.
    """

    kind = "cannot compile"
    blocks = 0  # how many run-time branches and loops it left on its way to who looks at it

    def __init_subclass__(cls, kind: str = ""):
        super().__init_subclass__()
        cls.kind = kind or cls.kind

    def __init__(self, message: str, span: Span | None = None, *, hint: str = "", notes: tuple[str, ...] = ()):
        self.message, self.span, self.hint, self.notes = message, span, hint, notes
        super().__init__(self.render())

    def render(self) -> str:
        """The full text: place, kind, message, excerpt, chain, notes, hint."""
        head = f"{self.kind}: {self.message}"
        parts = [head] if self.span is None else [f"{self.span}: {head}", self.span.excerpt()]
        if self.span is not None and self.span.caller is not None:
            parts.append(self.span.chain())
        parts.extend(self.notes)
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class UnsupportedSyntax(ScriptError, NotImplementedError, kind="unsupported syntax"):
    """A statement or expression that no script may contain."""


class UnsupportedCall(ScriptError, NotImplementedError, kind="unsupported"):
    """A call, attribute or value that a script cannot use."""


class UnresolvedName(ScriptError, NameError, kind="undefined name"):
    """A name, attribute or import that does not exist where the script reads it."""


class UnresolvedAttribute(ScriptError, AttributeError, kind="no such attribute"):
    """An attribute that the object does not have."""


class TypeMismatch(ScriptError, TypeError, kind="type mismatch"):
    """Branches, iterations or operands whose types clash, or a call with wrong arguments."""


class ShapeMismatch(ScriptError, RuntimeError, kind="shape mismatch"):
    """Ranks or sizes that are known, while compiling, to clash."""


class InvalidOperation(ScriptError, RuntimeError, kind="invalid operation"):
    """An operation that eager refuses for these operands, whatever their sizes."""


class NotStatic(ScriptError, TypeError, kind="needs a constant"):
    """A run-time value in a place where the compiler needs a constant."""


class NonDifferentiable(ScriptError, RuntimeError, kind="no gradient"):
    """A gradient is asked for through something that has none."""


class CheckFailed(ScriptError, AssertionError, kind="check failed"):
    """A compiled function and the same function as plain Python gave different results: a bug of jitgrad's.

    `span` is the first source line that differs, where one was found.
    """


class SourceUnavailable(ScriptError, OSError, kind="no source"):
    """The function's source cannot be read (typed into a bare REPL, built by exec, frozen)."""


class UnsupportedOnnx(ScriptError, NotImplementedError, kind="no ONNX equivalent"):
    """An operation that has no equivalent in an exported ONNX model."""
