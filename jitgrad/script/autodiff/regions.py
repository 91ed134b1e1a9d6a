"""Regions whose inner values the backward computes again instead of having them saved.

    region.begin(){number=1}                     %y = region():
    %a = sin(%x)                                   body:
    %y = exp(%a)                     fold            %a = sin(%x)
    region.end(){number=1}           ---->           %y' = exp(%a)
    %z = mul(%y, %y)                                 yield %y'
                                                 %z = mul(%y, %y)

In a graph a region is the part of a block between two marks, so passes need not know of it. For the time of a
differentiation `fold` makes it a node with a block; `flatten` is the inverse. The adjoint of such a node is a copy of
its block, without effects, in the backward, followed by the adjoint of the copy: of the region itself only what it
reads from outside is saved.

Not folded, so saved like anything else: regions that bind a size which is used after them, or call back into Python.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jitgrad.dims import Size, Symbol, dim
from jitgrad.errors import NonDifferentiable
from jitgrad.script.autodiff.amend import Sizes
from jitgrad.script.autodiff.cotangents import Cotangent, any_reached, masked, restate, zero
from jitgrad.script.autodiff.frame import Frame
from jitgrad.script.autodiff.prepare import pure
from jitgrad.script.autodiff.reverse import Cotangents, Reverse, adjoint
from jitgrad.script.graph.custom import CustomDerivative
from jitgrad.script.graph.ir import (Block, Graph, Node, Value, attr_symbols, reads, rewritten, type_symbols, walk,
                                     within)
from jitgrad.script.graph.irops import Effect, effect

BEGIN, END, REGION = "region.begin", "region.end", "region"


# --- folding -------------------------------------------------------------------------------------------------------


def fold(graph: Graph) -> Graph:
    """`graph` with its regions as nodes; the same graph where there are none."""
    if not any(n.op == BEGIN for n in walk(graph.block)):
        return graph
    return Graph(_fold_block(graph.block), graph.name)


def unmark(graph: Graph) -> Graph:
    """`graph` without marks."""
    return rewritten(graph, lambda n: n.op in (BEGIN, END), lambda n: ())


def _fold_block(block: Block) -> Block:
    nodes = [replace(n, blocks=tuple(map(_fold_block, n.blocks))) if n.blocks else n for n in block.nodes]
    folded = _fold_nodes(nodes, set(block.results))
    return Block(block.params, folded, block.results, block.binds)


def _fold_nodes(nodes: Sequence[Node], read: set[Value]) -> list[Node]:
    """From the last to the first, so that what is read after a region is known (`read`, which grows)."""
    result: list[Node] = []
    sizes: set[Symbol] = set().union(*(type_symbols(v.type) for v in read)) if read else set()
    at = len(nodes) - 1
    while at >= 0:
        node = nodes[at]
        if node.op == END:
            start = next((i for i in range(at - 1, -1, -1)
                          if nodes[i].op == BEGIN and nodes[i].attrs == node.attrs), -1)
            if start >= 0:
                found = start + 1 < at and _region(nodes[start + 1:at], read, sizes)
                if found:
                    result.append(found)
                    _note(found, read, sizes)
                    at = start - 1
                    continue
        if node.op not in (BEGIN, END):
            result.append(node)
            _note(node, read, sizes)
        at -= 1
    return result[::-1]


def _note(node: Node, read: set[Value], sizes: set[Symbol]) -> None:
    """What a node and its blocks read."""
    read.update(reads([node]))
    for n in within([node]):
        for v in n.outputs:
            sizes |= type_symbols(v.type)
        for a in n.attrs.values():
            sizes |= attr_symbols(a)


def _region(nodes: Sequence[Node], read: set[Value], sizes: set[Symbol]) -> Node | None:
    made = [v for n in nodes for v in n.outputs if v in read]
    bound = {s for n in nodes for s in n.binds}
    if any(n.outputs and effect(n.op, n.attrs) & ~Effect.RAISES for n in within(nodes)):
        return None  # a call of Python is not repeated
    if not bound.isdisjoint(sizes) or any(not bound.isdisjoint(type_symbols(v.type)) for v in made):
        return None
    inner = {v: Value(v.type, v.name) for v in made}
    body = _fold_nodes([Rename(inner).node(n) for n in nodes], set(inner.values()))
    return Node(REGION, (), {}, tuple(made), (Block((), body, tuple(inner.values())),), nodes[0].span)


def flatten(graph: Graph) -> Graph:
    """The inverse of `fold`, but for the marks."""
    return rewritten(graph, lambda n: n.op == REGION, _unfolded)


def _unfolded(node: Node) -> list[Node]:
    (body,) = node.blocks
    rename = Rename(dict(zip(body.results, node.outputs, strict=True)))
    return [rename.node(n) for n in body.nodes]


# --- copies --------------------------------------------------------------------------------------------------------


class Rename:
    """Nodes with other values for some. `values` maps what is defined or read to what takes its place."""

    def __init__(self, values: dict[Value, Value]):
        self.values = values

    def value(self, v: Value) -> Value:
        return self.values.get(v, v)

    define = value

    def attrs(self, attrs: Any) -> Any:
        return attrs

    def binds(self, symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
        return tuple(symbols)

    def node(self, node: Node) -> Node:
        inputs = tuple([self.value(v) for v in node.inputs])
        binds = self.binds(node.binds)
        blocks = tuple([self.block(b) for b in node.blocks])
        outputs = tuple([self.define(v) for v in node.outputs])
        return Node(node.op, inputs, self.attrs(node.attrs), outputs, blocks, node.span, binds)

    def block(self, block: Block) -> Block:
        binds = self.binds(block.binds)
        params = tuple([self.define(p) for p in block.params])
        nodes = self.nodes(block)
        return Block(params, nodes, tuple([self.value(v) for v in block.results]), binds)

    def nodes(self, block: Block) -> list[Node]:
        return [self.node(n) for n in block.nodes]


class Copy(Sizes, Rename):
    """A copy of forward code for a backward frame: fresh values and symbols, no effects; what it reads from outside is
    what the frame has for it.
    """

    def __init__(self, frame: Frame):
        Rename.__init__(self, {})
        self.frame = frame
        self.sizes: dict[Symbol, Size] = dict(frame.sizes)

    def define(self, v: Value) -> Value:
        new = self.values[v] = Value(self.type(v.type), v.name)
        return new

    def value(self, v: Value) -> Value:
        found = self.values.get(v)
        if found is None:
            found = self.values[v] = self.frame.fetch(v)
        return found

    def binds(self, symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
        fresh = tuple([Symbol(s.name, not_one=s.not_one) for s in symbols])
        self.sizes.update((old, dim(new)) for old, new in zip(symbols, fresh, strict=True))
        return fresh

    def nodes(self, block: Block) -> list[Node]:
        return [self.node(n) for old in block.nodes for n in pure(old)]


@adjoint("custom")
def custom(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """The adjoint of a custom derivative: a copy of its code."""
    context, call = reverse.context, node.attrs["call"]
    if call.once and not call.block.results:
        raise NonDifferentiable("trying to differentiate twice a function that was marked with @once_differentiable",
                                node.span)
    given = [cotangents.pop(node.outputs[i], None) for i in call.differentiable]
    reached = any_reached(context, given)
    values = []
    for i, c in zip(call.differentiable, given, strict=True):
        type_ = frame.type(node.outputs[i].type)
        values.append(zero(context, type_, lambda: node.outputs[0]).value if c is None
                      else restate(context, masked(context, c), type_))
    if call.around is not None:
        reverse.ends[frame, call.pair] = node, values
    elif (frame, call.pair) in reverse.ends:
        end, more = reverse.ends.pop((frame, call.pair))
        node, values = _joined(node, end), values + more
        call = node.attrs["call"]
    results = [frame.fetch(v) for v in node.outputs]
    others = [frame.fetch(v) for v in node.inputs[call.results:]]
    copy = Copy(frame)
    copy.sizes = {s: frame.size(d) for s, d in zip(call.symbols, node.attrs["sizes"], strict=True)}
    copy.values.update(zip(call.block.params, [*values, *results, *others], strict=True))
    frame.out.nodes += [copy.node(n) for n in call.block.nodes]
    for k, r in zip(call.reaches, call.block.results, strict=True):
        x = node.inputs[call.results + k]
        if call.once:  # what it returns may be used, not differentiated
            last = CustomDerivative(call.name, Block(), (), 1, len(values), (0,), tuple(range(len(values))), True)
            copy.values[r] = context.builder.emit("custom", [copy.value(r), *values], types=[copy.value(r).type],
                                                  call=last, sizes=())[0]
        reverse.accumulate(frame, cotangents, x, Cotangent(copy.value(r), reached, reached is True))


def _joined(first: Node, last: Node) -> Node:
    """The two ends of one computation as one node, with the derivative that reads the gradients at both."""
    before, after = first.attrs["call"], last.attrs["call"]
    captured = last.inputs[after.results + after.arguments:]
    outputs = (*first.outputs, *last.outputs)
    attrs = {"call": after.around, "sizes": last.attrs["sizes"]}
    return Node("custom", (*outputs, *first.inputs[before.results:], *captured), attrs, outputs, (), first.span)


# --- the adjoint ---------------------------------------------------------------------------------------------------


@adjoint(REGION)
def region(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """The adjoint of a region: its copy, then the adjoint of the copy, in the frame's own block."""
    context, flow, builder = reverse.context, reverse.flow, reverse.builder
    (old,) = node.blocks
    captured = list(flow.captures[node])
    copy = Copy(frame)
    images = {w: copy.value(w) for w in captured}
    block = copy.block(old)
    around = Frame(context, frame.out, frame)
    around.sizes = {}
    for w, image in images.items():
        if image is not w:
            flow.home[image] = frame.out
    flow.wanted.update(new for v, new in copy.values.items() if v in flow.wanted)
    flow.extend(block, frame.out)
    context.amend.learn(block)
    inner = Frame(context, block, around)
    local: Cotangents = {images[w]: cotangents[w] for w in captured if w in cotangents}
    with builder.into(inner.out):
        for r, v in zip(block.results, node.outputs, strict=True):
            c = cotangents.pop(v, None)
            if c is not None:
                reverse.accumulate(inner, local, r, Cotangent(restate(context, c.value, r.type), c.reached, c.clean))
    reverse.sweep(inner, local)
    found = {w: local[images[w]] for w in captured if images[w] in local}
    inner.finish([v for c in found.values() for v in (c.value, c.reached) if isinstance(v, Value)])
    frame.out.nodes += [*context.amend.rebuild(block).nodes, *inner.out.nodes]
    cotangents.update(found)
