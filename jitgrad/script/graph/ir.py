"""The graph, and the builder through which everything makes nodes.

Every node is one of: an op of the table (`jitgrad.ops`), or one of the structural, number, dim, sequence, optional
and effect ops of `jitgrad.script.graph.irops`. docs/internals/graph.md lists them all.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.dims import Symbol
from jitgrad.errors import Span
from jitgrad.ops.types import Type
from jitgrad.script.graph.irops import infer
from jitgrad.script.graph.nodes import (Block, Captures, Loop, Nested, Node, Value, ancestors, attr_symbols, committed,
                                        flows, map_attr, payload, reads, rebuilt, sizes_of, symbol_axes, type_symbols,
                                        unnested, walk, within)

#: pictures of graphs: `inspect/show` puts "page" and "svg" here
views: dict[str, Callable[..., str]] = {}


@dataclass(slots=True, eq=False)
class Graph:
    """A function: `block.params` are its inputs, `block.results` its outputs."""

    block: Block
    name: str = "f"

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.block.params

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.block.results

    def __repr__(self) -> str:
        from jitgrad.script.graph.text import to_text  # here: who runs a stored program reads no text

        return to_text(self)

    def show(self, path: str | os.PathLike[str] | None = None, *, browser: bool | None = None) -> str:
        """Write one HTML file with a picture of the graph beside its source; the file's path.

        Args:
            path: where; None: a new temporary file.
            browser: whether to open it; None: only if no path is given and Python is interactive.
        """
        return views["page"](self, path, browser=browser)

    def _repr_svg_(self) -> str:
        """The picture in notebooks."""
        return views["svg"](self)


def rewritten(graph: Graph, concerns: Callable[[Node], bool], instead: Callable[[Node], Iterable[Node]]) -> Graph:
    """`graph` with other nodes in place of those that it concerns; the same graph where there are none."""
    if not any(concerns(n) for n in walk(graph.block)):
        return graph
    return Graph(rebuilt(graph.block, lambda n: instead(n) if concerns(n) else (n,)), graph.name)


class Builder:
    """Appends nodes to the current block; output types are inferred by `irops.infer`."""

    def __init__(self, block: Block | None = None):
        self.block = block if block is not None else Block()
        self.span: Span | None = None

    def emit(self, op: str, inputs: Sequence[Value] = (), *, blocks: Sequence[Block] = (),
             types: Sequence[Type] | None = None, binds: Sequence[Symbol] = (), **attrs: Any) -> tuple[Value, ...]:
        """Append a node; its outputs. `types` overrides inference (structural ops and data-dependent sizes)."""
        inputs = tuple(inputs)
        if types is None:
            types = infer(op, tuple(v.type for v in inputs), attrs)
        outputs = tuple([Value(t) for t in types])
        self.block.nodes.append(Node(op, inputs, attrs, outputs, tuple(blocks), self.span, tuple(binds)))
        return outputs

    def one(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """Append a node with one output; that output."""
        (value,) = self.emit(op, inputs, **attrs)
        return value

    @contextmanager
    def into(self, block: Block) -> Iterator[Block]:
        """Append to `block` inside a `with`."""
        before, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = before


__all__ = ["Block", "Builder", "Captures", "Graph", "Loop", "Nested", "Node", "Value", "ancestors", "attr_symbols",
           "committed", "flows", "map_attr", "payload", "reads", "rebuilt", "rewritten", "sizes_of", "symbol_axes",
           "type_symbols", "unnested", "views", "walk", "within"]
