"""The table at the end: which checks failed, and what was measured beside what is possible.

A check measures by returning rows, `{"rows": [{"name": ..., "us": ..., "floor_us": ..., "peers": {"torch": us},
"error": ...}]}`; all but the name and `us` may lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("name", "us", "floor", "% of floor", "best peer", "ratio", "error")


def cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of one measured row. `ratio`: the best peer's time by ours."""
    us, floor = row["us"], row.get("floor_us")
    peers = {name: t for name, t in (row.get("peers") or {}).items() if t}
    best = min(peers, key=peers.__getitem__) if peers else ""
    error = row.get("error")
    return [row["name"], f"{us:.1f}", f"{floor:.1f}" if floor else "", f"{100 * floor / us:.0f}" if floor else "",
            f"{best} {peers[best]:.1f}" if best else "", f"{peers[best] / us:.2f}" if best else "",
            f"{error:.1e}" if isinstance(error, float) else str(error or "")]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, the first column to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [" | ".join([row[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]])
            .rstrip() for row in rows]


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """All results as text."""
    lines = []
    for result in results:
        if result["check"].startswith("environment."):
            facts = result.get("facts", {})
            lines += [f"{name}: {value}" for name, value in facts.items()]
    lines.append("")
    lines += aligned([("check", "status", "seconds"),
                      *[(r["check"], r["status"], f"{r['seconds']:.1f}") for r in results]])
    for result in results:
        if result["status"] != "ok":
            lines += ["", f"{result['check']}: {result.get('error', '')}"]
            lines += ["    " + line for line in (result.get("where") or result.get("output") or "").splitlines()[-30:]]
    measured = [row for result in results for row in result.get("facts", {}).get("rows", ())]
    if measured:
        lines += ["", *aligned([COLUMNS, *map(cells, measured)])]
    counts = {status: sum(r["status"] == status for r in results) for status in
              ("ok", "failed", "crashed", "timeout", "lost", "skipped")}
    lines += ["", ", ".join(f"{n} {status}" for status, n in counts.items() if n)]
    return "\n".join(lines)


__all__ = ["cells", "summary"]
