"""Which source line a node belongs to, and the functions around those lines."""

import ast
import linecache
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jitgrad.errors import Span
from jitgrad.script.graph.ir import Node

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """A line of a file; the name of the function that it is in is for people."""

    file: str
    number: int

    @property
    def text(self) -> str:
        """Its source."""
        return linecache.getline(self.file, self.number).rstrip("\n")

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


@dataclass(frozen=True, slots=True)
class Function:
    """The lines `first` to `last` of a function of the user's."""

    name: str
    file: str
    first: int
    last: int

    def __contains__(self, line: object) -> bool:
        return isinstance(line, Line) and line.file == self.file and self.first <= line.number <= self.last


def outside(span: Span | None) -> Span | None:
    """The innermost place outside this package, if there is one."""
    while span is not None and span.file.startswith(_PACKAGE):
        span = span.caller
    return span


def line_of(span: Span | None) -> Line | None:
    """The user's line that a place belongs to; one of this package where the whole program is its (`nn.Sequential`)."""
    found = outside(span) or span
    return Line(found.file, found.line) if found is not None else None


def lines_of(nodes: Iterable[Node]) -> list[Line]:
    """The lines of nodes, the one with most nodes first; of equals the later line."""
    counts = Counter(line for node in nodes if (line := line_of(node.span)) is not None)
    return sorted(counts, key=lambda line: (-counts[line], line.file, -line.number))


def places(lines: Iterable[Line]) -> str:
    """Lines in words: those of a step, or none of a copy to a result."""
    numbers = sorted({line.number for line in lines})
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}" if numbers else "results"


def function_around(line: Line) -> Function | None:
    """The innermost `def` around a line; None at module level or where the file cannot be parsed."""
    try:
        tree = ast.parse("".join(linecache.getlines(line.file)))
    except SyntaxError:
        return None
    around = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
              and n.lineno <= line.number <= (n.end_lineno or 0)]
    if not around:
        return None
    inner = max(around, key=lambda n: n.lineno)
    return Function(inner.name, line.file, inner.lineno, inner.end_lineno or inner.lineno)


def functions_of(lines: Sequence[Line]) -> list[Function]:
    """The functions around lines, in order of first appearance; a line outside any is one of its own."""
    found: list[Function] = []
    for line in lines:
        if not any(line in function for function in found):
            found.append(function_around(line) or Function("", line.file, line.number, line.number))
    # a nested function's lines belong to it alone, or are shown with the function around it
    return [f for f in found if not any(f is not g and f.file == g.file and g.first <= f.first <= f.last <= g.last
                                        for g in found)]
