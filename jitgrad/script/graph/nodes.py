"""SSA values, nodes and blocks: what graphs consist of, and the reading of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from jitgrad.classes import dataclass, field, replace
from jitgrad.dims import Dim, Size, Symbol, symbols
from jitgrad.errors import Span
from jitgrad.ops.types import OptionalType, TensorType, Type, map_dims

_ids = itertools.count()
T = TypeVar("T")
#: a recursion over nested blocks that yields its calls, and gets what they return: `results = yield self.block(inner)`
Nested = Generator[Any, Any, T]


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
        (value,) = self.outputs
        return value


class Loop:
    """The parts of a `while` or `scan` node by role.

    Attributes:
        first: how many parameters stand before the carries: the counter of a `scan`.
        lead: how many results and outputs do: condition and number of iterations of a `while`.
        n: the number of carries.
    """

    def __init__(self, node: Node):
        self.node, self.body = node, node.blocks[0]
        is_while = node.op == "while"
        self.first, self.lead = (0, 1) if is_while else (1, 0)
        self.n: int = len(node.inputs) - 1 if is_while else node.attrs["n_carries"]
        params, results = self.body.params, self.body.results
        inside, after = self.first + self.n, self.lead + self.n
        self.counter = None if is_while else params[0]
        self.carries, self.seqs = node.inputs[1:1 + self.n], node.inputs[1 + self.n:]
        self.carry_params, self.seq_params = params[self.first:inside], params[inside:]
        self.carry_results, self.y_results = results[self.lead:after], results[after:]
        self.carry_outputs, self.y_outputs = node.outputs[self.lead:after], node.outputs[after:]

    @property
    def trips(self) -> Value:
        """The number of iterations: an int of the block that holds the loop."""
        return self.node.outputs[0] if self.node.op == "while" else self.node.inputs[0]

    def attrs(self, n: int) -> Mapping[str, Any]:
        """The node's attributes with another number of carries."""
        return {**self.node.attrs, "n_carries": n} if self.node.op == "scan" else self.node.attrs


def flows(node: Node) -> Iterator[tuple[Value, Value]]:
    """What becomes what where a node's blocks begin and end: (source, target)."""
    if node.op in ("if", "region"):
        for block in node.blocks:
            yield from zip(block.results, node.outputs, strict=True)
        return
    loop = Loop(node)
    for init, param, result, out in zip(loop.carries, loop.carry_params, loop.carry_results, loop.carry_outputs,
                                        strict=True):
        yield from ((init, param), (result, param), (param, out), (result, out))  # the last but one: after no iteration
    yield from zip(loop.seqs, loop.seq_params, strict=True)
    yield from zip(loop.y_results, loop.y_outputs, strict=True)


# --- reading -------------------------------------------------------------------------------------------------------


def type_symbols(type_: Type) -> frozenset[Symbol]:
    sizes = type_.dims if isinstance(type_, TensorType) else sizes_of(type_)
    found = [symbols(d) for d in sizes if not isinstance(d, int)]
    return found[0] if len(found) == 1 else _NO_SYMBOLS.union(*found)


_NO_SYMBOLS: frozenset[Symbol] = frozenset()


def sizes_of(type_: Type) -> list[Size]:
    """Every size in a type, in order."""
    found: list[Size] = []

    def visit(d: Size) -> Size:
        found.append(d)
        return d

    map_dims(type_, visit)
    return found


def payload(type_: Type) -> Type:
    """What an Optional may hold; another type as it is."""
    while isinstance(type_, OptionalType):
        type_ = type_.elem
    return type_


def symbol_axes(type_: Type) -> list[tuple[int, Symbol]]:
    """The axes of a tensor whose size is a symbol alone, with that."""
    sizes = type_.dims if isinstance(type_, TensorType) else ()
    return [(axis, d.symbol) for axis, d in enumerate(sizes) if isinstance(d, Dim) and d.symbol is not None]


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


def rebuilt(block: Block, replaced: Callable[[Node], Iterable[Node]]) -> Block:
    """`block`, and the blocks in it, with other nodes in place of each; inner blocks first. Values stay the same."""
    nodes: list[Node] = []
    for node in block.nodes:
        if node.blocks:
            node = replace(node, blocks=tuple([rebuilt(b, replaced) for b in node.blocks]))
        nodes.extend(replaced(node))
    return Block(block.params, nodes, block.results, block.binds)


def walk(block: Block) -> Iterator[Node]:
    """Every node of a block and of the blocks nested in it, outer before inner, in program order."""
    return within(block.nodes)


def within(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes and every node of their blocks, outer before inner, in program order."""
    stack = [iter(nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.blocks:
                stack.append(itertools.chain.from_iterable([b.nodes for b in node.blocks]))
                break
        else:
            stack.pop()


def reads(nodes: Iterable[Node]) -> Iterator[Value]:
    """What nodes and every node of their blocks read, and the results of these blocks."""
    for node in within(nodes):
        yield from node.inputs
        for b in node.blocks:
            yield from b.results


class Captures(dict[Node, frozenset[Value]]):
    """What the blocks of a node read from outside."""

    def __missing__(self, node: Node) -> frozenset[Value]:
        inside: set[Value] = set()
        outside: set[Value] = set()
        for block in node.blocks:
            inside.update(block.params)
            for n in block.nodes:
                outside.update(n.inputs)
                if n.blocks:
                    outside |= self[n]
                inside.update(n.outputs)
            outside.update(block.results)
        found = self[node] = frozenset(outside - inside)
        return found


def committed(block: Block) -> list[int]:
    """The numbers of the graph's inputs that a block, or one in it, writes; ascending."""
    return sorted({node.attrs["target"] for node in walk(block) if node.op == "commit"})


def ancestors(block: Block, values: Iterable[Value]) -> set[Value]:
    """Values of a block, and those in it or outside from which they are computed."""
    found, captures = set(values), Captures()
    for node in reversed(block.nodes):
        if not found.isdisjoint(node.outputs):
            found.update(node.inputs, captures[node])
    return found


def unnested(call: Nested[T]) -> T:
    """What a recursion returns: it is as deep as blocks are nested, and not bounded by Python's stack."""
    stack: list[Nested[Any]] = [call]
    result: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as done:
            stack.pop()
            result = done.value
    found: T = result
    return found
