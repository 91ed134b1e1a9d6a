"""Where in the source a saved graph's nodes come from, and the lines that messages show when the source is gone.

A span names its file in angle brackets, `<model.py>`: a name that no file has, so that the lines shown are those of the
saved program also where another version of `model.py` is at hand.
"""

import linecache
from typing import Any

from jitgrad.errors import Span
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.stored.values import Json


class SpanWriter:
    """Spans by number, each with its caller before it; and their lines."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self.lines: dict[str, dict[str, str]] = {}
        self._numbers: dict[Span, int] = {}

    def number(self, span: Span | None) -> int:
        """-1 for none."""
        if span is None:
            return -1
        found = self._numbers.get(span)
        if found is None:
            caller, name = self.number(span.caller), short_name(span.file)
            lines = self.lines.setdefault(name, {})
            for line in (span.line - 1, span.line):
                text = linecache.getline(span.file, line).rstrip("\n")
                if text:
                    lines[str(line)] = text
            found = self._numbers[span] = len(self.rows)
            self.rows.append([name, span.line, span.column, span.end_line, span.end_column, span.function, caller])
        return found


def short_name(file: str) -> str:
    """The last two parts of a path: a saved file says nothing of the machine that it was made on."""
    if file.startswith("<"):
        return file
    return f"<{'/'.join(file.replace(chr(92), '/').split('/')[-2:])}>"


def attach(graph: Graph, spans: list[Span | None]) -> None:
    """Give the nodes of a graph that was just parsed their spans, in `walk` order."""
    for node, span in zip(walk(graph.block), spans, strict=True):
        object.__setattr__(node, "span", span)  # the graph is ours alone still


def show_lines(lines: dict[str, dict[int, str]]) -> None:
    """Let tracebacks and excerpts show saved lines."""
    for name, known in lines.items():
        entry: Any = linecache.cache.get(name)
        shown = list(entry[2]) if entry is not None else []
        shown += ["\n"] * (max(known, default=0) - len(shown))
        for number, text in known.items():
            shown[number - 1] = text + "\n"
        linecache.cache[name] = (sum(map(len, shown)), None, shown, name)
