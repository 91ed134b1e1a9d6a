"""Events summed up by name, shapes and lines, and the table of them, with torch's columns."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from typing import Any

from jitgrad.eager.profiling import Event

#: what a table can be sorted by; those of devices are zero
SORTED_BY = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "cuda_time", "cuda_time_total",
             "self_cuda_time_total", "device_time", "device_time_total", "self_device_time_total", "cpu_memory_usage",
             "self_cpu_memory_usage")


def in_words(microseconds: float) -> str:
    """`1.250ms`."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


class FunctionEventAvg:
    """Events of one name (and of the same shapes, or lines): how many, and their times in microseconds."""

    device_time = device_time_total = self_device_time_total = 0.0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    cpu_memory_usage = self_cpu_memory_usage = 0

    def __init__(self, key: str, input_shapes: list[Any], stack: list[str]) -> None:
        self.key, self.input_shapes, self.stack = key, input_shapes, stack
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0
        self.is_user_annotation = False

    def add(self, event: Event) -> None:
        """Count an event; the time of one inside another of its name is in that one's."""
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        self.is_user_annotation = event.is_user_annotation
        outer = event.cpu_parent
        while outer is not None and outer.name != event.name:
            outer = outer.cpu_parent
        if outer is None:
            self.cpu_time_total += event.cpu_time_total

    @property
    def cpu_time(self) -> float:
        """Of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return in_words(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return in_words(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return in_words(self.self_cpu_time_total)

    def __repr__(self) -> str:
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
                f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes or ''}>")


class Averages(list[FunctionEventAvg]):
    """What `key_averages` gives."""

    def __init__(self, found: Iterable[FunctionEventAvg], shapes: bool, lines: int) -> None:
        super().__init__(found)
        self._shapes, self._lines = shapes, lines

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return sum(e.self_cpu_time_total for e in self)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        total = FunctionEventAvg("Total", [], [])
        total.count = sum(e.count for e in self)
        total.self_cpu_time_total = total.cpu_time_total = self.self_cpu_time_total
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False) -> str:
        """The table, sorted by one of the times, the largest first.

        Args:
            row_limit: rows at most; -1: all.

        Raises:
            AttributeError: `sort_by` is none of the columns.
        """
        rows = list(self)
        if sort_by is not None:
            if sort_by not in SORTED_BY:
                raise AttributeError(f"'FunctionEventAvg' object has no attribute '{sort_by}'; a table is sorted by "
                                     f"{', '.join(SORTED_BY)}")
            rows.sort(key=lambda e: -getattr(e, sort_by))
        rows = rows if row_limit < 0 else rows[:row_limit]
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        titles += ["Input Shapes"] * self._shapes + ["Source Location"] * bool(self._lines)
        whole = self.self_cpu_time_total
        cells = []
        for e in rows:
            line = [_short(e.key, max_name_column_width), _percent(e.self_cpu_time_total, whole),
                    e.self_cpu_time_total_str, _percent(e.cpu_time_total, whole), e.cpu_time_total_str, e.cpu_time_str,
                    str(e.count)]
            line += [_short(str(e.input_shapes), max_shapes_column_width)] * self._shapes
            cells.append(line + [_short(e.stack[0] if e.stack else "", max_src_column_width, end=True)]
                         * bool(self._lines))
            if self._lines:
                cells += [[""] * len(line) + [_short(more, max_src_column_width, end=True)]
                          for more in e.stack[1:self._lines]]
        widths = [max([12, len(title), *(len(row[i]) for row in cells)]) for i, title in enumerate(titles)]
        rule = "  ".join("-" * w for w in widths)
        text = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (titles, *cells)]
        head = [] if header is None else ["=" * len(rule), header]
        return "\n".join([*head, rule, text[0], rule, *text[1:], rule,
                          f"Self CPU time total: {in_words(whole)}"]) + "\n"

    def __str__(self) -> str:
        return self.table()


def _short(text: str, width: int, end: bool = False) -> str:
    if len(text) <= width:
        return text
    return "..." + text[3 - width:] if end else text[:width - 3] + "..."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def averages(events: Iterable[Event], by_shape: bool, lines: int) -> Averages:
    """Events summed up by name, and by shapes or so many lines of the program."""
    found: dict[Any, FunctionEventAvg] = {}
    for event in events:
        shapes, stack = event.input_shapes if by_shape else [], event.stack[:lines]
        key = event.name, str(shapes), tuple(stack)
        found.setdefault(key, FunctionEventAvg(event.name, shapes, stack)).add(event)
    return Averages(found.values(), by_shape, lines)


def chrome_trace(events: Iterable[Event], path: str | os.PathLike[str], metadata: dict[str, str]) -> None:
    """Write events as chrome://tracing and Perfetto read them; compressed where the name ends in .gz."""
    found = [{"ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name,
              "pid": os.getpid(), "tid": e.thread, "ts": e.start / 1000, "dur": e.cpu_time_total,
              "args": {**({"Input Dims": e.input_shapes} if e.input_shapes else {}),
                       **({"Call stack": ";".join(e.stack)} if e.stack else {})}} for e in events]
    text = json.dumps({"schemaVersion": 1, **metadata, "displayTimeUnit": "ms", "traceEvents": found})
    data = text.encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(data) if os.fspath(path).endswith(".gz") else data)


def stacks(events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Write the lines of the program with their microseconds, as flame graphs are made of."""
    found: dict[str, float] = {}
    for e in events:
        if e.stack:
            line = ";".join([*reversed(e.stack), e.name]).translate(str.maketrans(" \t\n", "___"))
            found[line] = found.get(line, 0.0) + e.self_cpu_time_total
    with open(path, "w") as file:
        file.writelines(f"{line} {int(time)}\n" for line, time in found.items())
