"""The graph: SSA values, nodes with nested blocks, and the builder through which everything makes nodes.

Every node is one of: an op of the table (`jitgrad.ops`), or one of the structural, number, dim, sequence, optional
and effect ops of `jitgrad.script.graph.irops`. docs/internals.md, "The graph", lists them all.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, symbols
from jitgrad.errors import Span
from jitgrad.ops.types import Type, map_dims

_ids = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One SSA value. `name` is for people; identity is what counts."""

    type: Type
    name: str = ""
    id: int = field(default_factory=_ids.__next__)

    def __repr__(self) -> str:
        return f"%{self.name or self.id}: {self.type}"


@dataclass(slots=True, eq=False)
class Block:
    """Parameters, nodes in order, results. Nodes may read values of enclosing blocks (captures).

    `binds` lists the symbols whose scope is this block: each stands alone as a size in some parameter's type.
    """

    params: tuple[Value, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    results: tuple[Value, ...] = ()
    binds: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation. `attrs` are static: Python constants, dtypes, sizes (ints or Dims), tuples of these.

    `binds` lists the symbols that this node brings into scope for the nodes after it in its block: each stands alone
    as a size in some output's type (`dim.bind`: it is the value of the input).
    """

    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[Value, ...]
    blocks: tuple[Block, ...] = ()
    span: Span | None = None
    binds: tuple[Symbol, ...] = ()

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value


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
        from jitgrad.script.graph.text import to_text

        return to_text(self)

    def show(self, path: str | os.PathLike[str] | None = None, *, browser: bool | None = None) -> str:
        """Write one HTML file with a picture of the graph beside its source; the file's path.

        Args:
            path: where; None: a new temporary file.
            browser: whether to open it; None: only if no path is given and Python is interactive.
        """
        from jitgrad.script.inspect.show.page import show

        return show(self, path, browser=browser)

    def _repr_svg_(self) -> str:
        """The picture in notebooks."""
        from jitgrad.script.inspect.show.page import svg

        return svg(self)


# --- reading -------------------------------------------------------------------------------------------------------


def type_symbols(type_: Type) -> frozenset[Symbol]:
    """The symbols in the sizes of a type."""
    return _NO_SYMBOLS.union(*[symbols(d) for d in sizes_of(type_)])


_NO_SYMBOLS: frozenset[Symbol] = frozenset()


def sizes_of(type_: Type) -> list[Size]:
    """Every size in a type, in order."""
    found: list[Size] = []

    def visit(d: Size) -> Size:
        found.append(d)
        return d

    map_dims(type_, visit)
    return found


def attr_symbols(value: Any) -> frozenset[Symbol]:
    """The symbols in an attribute (searching tuples)."""
    if isinstance(value, Dim):
        return symbols(value)
    if isinstance(value, Symbol):
        return frozenset({value})
    if isinstance(value, tuple):
        return _NO_SYMBOLS.union(*[attr_symbols(v) for v in value])
    return _NO_SYMBOLS


def map_attr(value: Any, fn: Any) -> Any:
    """An attribute with `fn` applied to every Dim in it (searching tuples)."""
    if isinstance(value, Dim):
        return fn(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map_attr(v, fn) for v in value)
    return value


def walk(block: Block) -> Iterator[Node]:
    """Every node of a block and of the blocks nested in it, outer before inner, in program order."""
    stack = [iter(block.nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        if node.blocks:
            stack.append(itertools.chain.from_iterable([b.nodes for b in node.blocks]))


def committed(block: Block) -> list[int]:
    """The numbers of the graph's inputs that a block, or one in it, writes; ascending."""
    return sorted({node.attrs["target"] for node in walk(block) if node.op == "commit"})


# --- building ------------------------------------------------------------------------------------------------------


class Builder:
    """Appends nodes to the current block; output types are inferred by `irops.infer`."""

    def __init__(self, block: Block | None = None):
        self.block = block if block is not None else Block()
        self.span: Span | None = None

    def emit(self, op: str, inputs: Sequence[Value] = (), *, blocks: Sequence[Block] = (), span: Span | None = None,
             types: Sequence[Type] | None = None, names: Sequence[str] = (), binds: Sequence[Symbol] = (),
             **attrs: Any) -> tuple[Value, ...]:
        """Append a node; its outputs. `types` overrides inference (structural ops and data-dependent sizes)."""
        from jitgrad.script.graph.irops import infer

        inputs = tuple(inputs)
        if types is None:
            types = infer(op, tuple(v.type for v in inputs), attrs)
        outputs = tuple(Value(t, names[i] if i < len(names) else "") for i, t in enumerate(types))
        self.block.nodes.append(Node(op, inputs, attrs, outputs, tuple(blocks), span or self.span, tuple(binds)))
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
