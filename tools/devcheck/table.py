"""What was found, as text: which checks failed, and what was measured beside what is possible.

A check measures by returning rows, `{"rows": [{"name": ..., "us": ..., "floor_us": ..., "peers": {"torch": us},
"error": ..., "lost": {"JAX": why}}]}`; all but the name and `us` may lack. `summary` is for a terminal, `markdown` for
`benchmarks/results/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = ("name", "µs", "floor", "% of floor", "best peer", "ratio", "error")
STATUSES = ("ok", "failed", "crashed", "timeout", "lost", "skipped")
Results = Sequence[Mapping[str, Any]]


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


def facts_of(results: Results) -> dict[str, Any]:
    """Machine and versions."""
    return {name: value for r in results if r["check"].startswith("environment.")
            for name, value in r.get("facts", {}).items() if name != "lost"}


def losses(results: Results) -> list[str]:
    """What is missing, and what that costs: packages, checks, peers of a row."""
    lines = []
    for result in results:
        facts = result.get("facts", {})
        if result["status"] == "lost":
            lines.append(f"{result['check']}: {result.get('error', '')}")
        lines += [f"{package}: {cost}" for package, cost in facts.get("lost", {}).items()]
        lines += [f"{row['name']}, {peer}: {why}" for row in facts.get("rows", ())
                  for peer, why in (row.get("lost") or {}).items()]
    return [f"lost: {line}" for line in lines]


def measured(results: Results) -> list[Mapping[str, Any]]:
    """The rows of all checks."""
    return [row for result in results for row in result.get("facts", {}).get("rows", ())]


def counts(results: Results) -> str:
    """How many checks ended how: "12 ok, 1 failed"."""
    found = {status: sum(r["status"] == status for r in results) for status in STATUSES}
    return ", ".join(f"{n} {status}" for status, n in found.items() if n)


def summary(results: Results) -> str:
    """All results as text."""
    lines = [f"{name}: {value}" for name, value in facts_of(results).items()]
    lines += ["", *aligned([("check", "status", "seconds"),
                            *[(r["check"], r["status"], f"{r['seconds']:.1f}") for r in results]])]
    for result in results:
        if result["status"] not in ("ok", "lost"):
            lines += ["", f"{result['check']}: {result.get('error', '')}"]
            lines += ["    " + line for line in (result.get("where") or result.get("output") or "").splitlines()[-30:]]
    missing = losses(results)
    if missing:
        lines += ["", *missing]
    rows = measured(results)
    if rows:
        lines += ["", *aligned([COLUMNS, *map(cells, rows)])]
    return "\n".join([*lines, "", counts(results)])


def _row(parts: Sequence[str]) -> str:
    return "| " + " | ".join(str(part).replace("|", "\\|") for part in parts) + " |"


def markdown(results: Results, date: str) -> str:
    """All results as a page: date, machine and versions, what was measured, every peer, every check."""
    facts = facts_of(results)
    gpu = str(facts.get("gpu 0", "GPU")).partition(",")[0]
    lines = [f"# {gpu}, {date}", "",
             "`python -m tools.devcheck`: medians of five series, in microseconds. `ratio` is the best peer's time",
             "by ours, `error` the largest difference from the first peer beside the largest number. Peers run in the",
             "same process. Floors: `tools/devcheck/workloads.py`.", "",
             f"date {date}, " + ", ".join(f"{name} {value}" for name, value in facts.items()), ""]
    rows = measured(results)
    if rows:
        lines += [_row(COLUMNS), _row(["---", *["---:"] * 6]), *[_row(cells(row)) for row in rows], ""]
    names = list(dict.fromkeys(name for row in rows for name in row.get("peers") or {}))
    if names:
        lines += [_row(["µs", "jitgrad", *names]), _row(["---", *["---:"] * (1 + len(names))])]
        lines += [_row([row["name"], f"{row['us']:.1f}",
                        *[f"{row['peers'][name]:.1f}" if name in row["peers"] else "" for name in names]])
                  for row in rows if row.get("peers")]
        lines.append("")
    lines += [f"- {line}" for line in losses(results)]
    bad = [r for r in results if r["status"] not in ("ok", "lost")]
    lines += [f"- {r['status']}: {r['check']}: {str(r.get('error', '')).partition(chr(10))[0]}" for r in bad]
    lines += ["", f"Checks: {counts(results)}.", "", _row(["check", "status", "found"]), _row(["---", "---", "---"])]
    lines += [_row([r["check"], r["status"], ", ".join(
        f"{name} {value}" for name, value in r.get("facts", {}).items() if name not in ("rows", "lost"))])
        for r in results if not r["check"].startswith("environment.")]
    return "\n".join(lines)


__all__ = ["cells", "markdown", "summary"]
