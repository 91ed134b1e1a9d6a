"""Native code with the graph interpreter beside it: of one compilation, two executions are compared.

What the frontend and the passes make of a program does not depend on what runs it, so this finds what two compilations
would, in half the time; and it says in which run of which graph the two part.
"""

from __future__ import annotations

import contextlib
import copy
import io
import re
import types
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.graph.interpret import Some, interpret
from jitgrad.script.graph.ir import Graph, walk

Program = Callable[..., list[Any]]
Commit = Callable[[int, Any], None]


class Difference(AssertionError):
    """The interpreter and native code do not do the same."""


def listed(value: Any) -> Any:
    """A list that lives in native code, and one of the interpreter's, as what they hold."""
    value = value.to_list() if hasattr(value, "to_list") else value
    value = value.value if isinstance(value, Some) else value
    return [*map(listed, value)] if isinstance(value, list) else value


def close(a: Any, b: Any) -> bool:
    """Equal to an observer: kinds, structure, floats up to rounding."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(v, b[k]) for k, v in a.items())
    if isinstance(a, float):
        return bool(np.isclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True))
    if isinstance(a, (types.FunctionType, type)):
        return a is b
    return bool(a == b)


def unsigned(text: str) -> str:
    """Printed text without the sign of rounded zeros and what fills its place: of sums that cancel it is rounding's."""
    return re.sub(r" *-?(0\.0+)(?!\d)", r"\1", text)


def nothing(target: int, value: Any) -> None:
    """A commit to nowhere."""


class _Run:
    """One execution and what it shows."""

    def __init__(self, program: Program, inputs: list[Any], on_commit: Commit):
        self.memory, self.committed = inputs, dict[int, Any]()  # of each input what was committed last
        self.error: Exception | None = None
        printed = io.StringIO()

        def commit(target: int, value: Any) -> None:
            self.committed[target] = value
            on_commit(target, value)

        try:
            with contextlib.redirect_stdout(printed):
                self.outputs = program(inputs, commit)
        except Exception as error:
            self.error, self.outputs = error, []
        self.printed = printed.getvalue()

    def shown(self, results: int) -> dict[str, Any]:
        """What the other must show, too, and the first `results` of its outputs.

        The others are for a backward, which reads of them only what a run has reached; what it has not is anything.
        """
        memory = [v for v in self.memory if isinstance(v, np.ndarray)]
        return {"exception": f"{type(self.error).__name__}: {self.error}", "printed": unsigned(self.printed),
                "commits": sorted(self.committed.items()), "memory": memory,
                **{f"output {i}": v for i, v in enumerate(self.outputs[:results])}}


def beside(graph: Graph, native: Program, results: int) -> Program:
    """Native code that the interpreter checks at each run, on copies of the inputs, up to its `results`.

    What calls back into Python runs once only, so graphs that do are not checked.
    """
    if any(node.op.startswith("callback") for node in walk(graph.block)):
        return native

    def run(inputs: list[Any], on_commit: Commit = nothing) -> list[Any]:
        expected = _Run(partial(interpret, graph), copy.deepcopy([*map(listed, inputs)]), nothing)
        got = _Run(native, inputs, on_commit)
        print(got.printed, end="")
        found = got.shown(results)
        for what, a in expected.shown(results).items():
            a, b = listed(a), listed(found[what])
            if not close(a, b):
                raise Difference(f"{what} of `{graph.name}`: {a!r} interpreted, {b!r} native") from got.error
        if got.error is not None:
            raise got.error
        return got.outputs

    return run


@contextlib.contextmanager
def interpreter() -> Iterator[None]:
    """What is compiled in this context is checked by the interpreter whenever it runs."""
    compiled = GraphFunction._programs

    def programs(self: GraphFunction, graphs: Mapping[str, Graph]) -> Mapping[str, Program]:
        results = {"forward": self.n_outputs}
        native = compiled(self, graphs)
        return {name: beside(graph, native[name], results.get(name, len(graph.outputs)))
                for name, graph in graphs.items()}

    with patch.object(GraphFunction, "_programs", programs):
        yield


__all__ = ["Difference", "beside", "interpreter"]
