"""What a call of a scripted function costs, per source line, and why it was compiled as it was.

    measure.py     compile with timers, run, collect what every step cost
    ceilings.py    what this machine can do at most, to compare with
    lines.py       source lines and functions that steps and saved values belong to
    decisions.py   guards, decisions, sizes and recompilations in words
    report.py      `Explanation`: tables as text and as HTML
    moved.py       `Traffic`: launches and bytes of a GPU, counted
"""

from jitgrad.script.inspect.explain.report import Explanation, explain

__all__ = ["Explanation", "explain"]
