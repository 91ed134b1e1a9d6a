"""Which kernel makes which value, for pictures of graphs."""

from __future__ import annotations

from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.script.graph.ir import Graph, Value
from jitgrad.script.passes import pipeline


def compiled_form(graph: Graph) -> tuple[Graph, dict[Value, str]]:
    """The graph in primitives, and for each value that a kernel makes its name: "kernel 1", ..."""
    shown = pipeline.run(graph)
    found: dict[Value, str] = {}
    number = 0
    for step, nodes in lower("shown", shown).origins.items():
        if isinstance(step, KernelStep) and not any(n.blocks for n in nodes):
            made = [v for n in nodes for v in n.outputs if v not in found]
            if made:
                number += 1
                found.update((v, f"kernel {number}") for v in made)
    return shown, found
