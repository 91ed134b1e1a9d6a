"""The loop fixpoint is linear in the depth of a nest, and sizes settle."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from jitgrad.eager.construct import wrap
from jitgrad.script.frontend import build as building
from jitgrad.script.frontend.state import context as contexts


def nest(depth: int, step: str) -> Any:
    """f(x, n): `depth` loops around `step`."""
    lines = ["def f(x, n):", "    total = 0"]
    for d in range(depth):
        lines.append("    " * (d + 1) + f"for i{d} in range(n):")
    lines += ["    " * (depth + 1) + step, "    return x, total"]
    program, file = "\n".join(lines) + "\n", f"nest_{depth}_{abs(hash(step))}.py"
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(program, file, "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("step", ["total = total + 0.5", "x = x * 2.0", "total = (total + x.shape[0]) * 1.5"])
def test_bodies_are_evaluated_linearly(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    evaluated: dict[contexts.Context, int] = {}  # in each evaluation: what is returned may ask for a second one

    def note(self: contexts.Context, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "bodies" and value:
            evaluated[self] = evaluated.get(self, 0) + 1

    monkeypatch.setattr(contexts.Context, "__setattr__", note, raising=False)
    counts = []
    for depth in range(1, 9):
        evaluated.clear()
        building.build(nest(depth, step), (wrap(np.ones(3, np.float32)), 2), {})
        counts.append(max(evaluated.values()))
    for depth, count in enumerate(counts, 1):
        assert count <= (depth + 1) * (depth + 2) // 2, counts  # the innermost: depth + 1
