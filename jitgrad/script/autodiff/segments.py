"""Long loops in segments, so that a gradient needs memory for the square root of the number of iterations.

    %h = scan(%n, %x) {f}     ->    %h = scan(ceil(n / s), %x):
                                      body(%K, %P):
                                        region.begin()
                                        %q = scan(min(s, n - s K), %P) {f}      with s = ceil(sqrt(n))
                                        region.end()
                                        yield %q

The outer loop saves its carries, n / s of them; the backward runs one segment again at a time (see `regions`). Of a
`while` nobody knows how long it will run: its segments grow, 1, 2, 3, ... iterations, so that k segments are
k (k + 1) / 2 iterations, and both the carries saved and the longest segment stay below sqrt(2 n) + 1.

Only outermost loops are split. Not split: loops that read or make sequences, and reverse ones.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import BOOL, INT, Type
from jitgrad.script.autodiff.amend import Sizes
from jitgrad.script.graph.ir import Block, Builder, Graph, Loop, Node, Value


def split_loops(graph: Graph, remat: bool | str | int) -> Graph:
    """`graph` with its outermost loops in segments: `remat` of them, where it is a number and that of iterations is
    known before the loop.
    """
    splitter = _Splitter(remat if isinstance(remat, int) and remat is not True else None)
    return Graph(splitter.block(graph.block), graph.name)


class _Splitter:
    def __init__(self, segments: int | None):
        self.segments = segments
        self.numbers = itertools.count()
        self.builder = Builder()

    def block(self, block: Block) -> Block:
        new = Block(block.params, [], block.results, block.binds)
        with self.builder.into(new):
            for node in block.nodes:
                self.builder.span = node.span
                if node.op == "if":
                    blocks = tuple([self.block(b) for b in node.blocks])
                    new.nodes.append(Node("if", node.inputs, node.attrs, node.outputs, blocks, node.span, node.binds))
                elif node.blocks and self.is_splittable(node):
                    (self.counted if node.op == "scan" else self.uncounted)(node)
                else:
                    new.nodes.append(node)
        return new

    def is_splittable(self, node: Node) -> bool:
        parts = Loop(node)
        return not (parts.seqs or parts.y_outputs or node.attrs.get("reverse") or not parts.carries)

    def number(self, value: int) -> Value:
        return self.builder.one("num.const", value=value)

    def segment(self, node: Node, inputs: Sequence[Value], body: Block, types: Sequence[Type],
                binds: Sequence[Symbol], **attrs: Any) -> tuple[Value, ...]:
        """The inner loop between its marks."""
        mark = next(self.numbers)
        self.builder.emit("region.begin", (), types=(), number=mark)
        outputs = self.builder.emit(node.op, inputs, blocks=(body,), types=types, binds=binds, **attrs)
        self.builder.emit("region.end", (), types=(), number=mark)
        return outputs

    def counted(self, node: Node) -> None:
        """A `scan`: segments of equal length, but for the last."""
        b, one, parts = self.builder, self.number(1), Loop(node)
        n = node.inputs[0]
        if self.segments is None:
            root = b.one("num.math", b.one("num.cast", n, to="float"), fn="sqrt")
            length = b.one("num.max", b.one("num.math", root, fn="ceil"), one)
        else:
            segments = self.number(self.segments)
            last = b.one("num.sub", b.one("num.add", n, segments), one)
            length = b.one("num.max", b.one("num.floordiv", last, segments), one)
        count = b.one("num.floordiv", b.one("num.sub", b.one("num.add", n, length), one), length)
        inner_counter, counter = Value(INT, "j"), Value(INT, "k")
        outer = _Fresh(node.blocks[0].binds)
        params = [Value(outer.type(p.type), p.name) for p in parts.carry_params]
        inside = _Fresh(node.binds)
        with b.into(Block((counter, *params), binds=outer.fresh)) as body:
            start = b.one("num.mul", counter, length)
            here = b.one("num.min", length, b.one("num.sub", n, start))
            old = node.blocks[0]
            assert parts.counter is not None
            place = Node("num.add", (start, inner_counter), {}, (parts.counter,), (), node.span)
            inner = Block((inner_counter, *parts.carry_params), [place, *old.nodes], old.results, old.binds)
            body.results = self.segment(node, [here, *params], inner, [inside.type(v.type) for v in node.outputs],
                                        inside.fresh, n_carries=len(params), reverse=False)
        b.block.nodes.append(Node("scan", (count, *parts.carries), dict(node.attrs), node.outputs, (body,), node.span,
                                  node.binds))

    def uncounted(self, node: Node) -> None:
        """A `while`: segment k has k + 1 iterations, or fewer where the loop ends in it."""
        b, parts = self.builder, Loop(node)
        outer = _Fresh(node.blocks[0].binds)
        params = [Value(outer.type(p.type), p.name) for p in parts.carry_params]
        limit, total = Value(INT, "limit"), Value(INT, "total")
        inside = _Fresh(node.binds)
        zero, first = self.number(0), self.number(1)
        with b.into(Block((*params, limit, total), binds=outer.fresh)) as body:
            true, none = b.one("num.const", value=True), self.number(0)
            done, goes_on = Value(INT, "j"), Value(BOOL, "c")
            old = node.blocks[0]
            with b.into(Block((*parts.carry_params, done, goes_on), list(old.nodes), binds=old.binds)) as inner:
                count = b.one("num.add", done, self.number(1))
                more = b.one("num.and", old.results[0], b.one("num.lt", count, limit))
                inner.results = (more, *old.results[1:], count, old.results[0])
            types = [INT, *(inside.type(v.type) for v in node.outputs[1:]), INT, BOOL]
            trips, *carried, _, on = self.segment(node, [true, *params, none, true], inner, types, inside.fresh)
            body.results = (on, *carried, b.one("num.add", limit, self.number(1)), b.one("num.add", total, trips))
        outputs = (Value(INT), *node.outputs[1:], Value(INT), node.outputs[0])
        b.block.nodes.append(Node("while", (node.inputs[0], *parts.carries, first, zero), dict(node.attrs), outputs,
                                  (body,), node.span, node.binds))


class _Fresh(Sizes):
    """Types with other symbols in place of some."""

    def __init__(self, symbols: Sequence[Symbol]):
        self.fresh = tuple([Symbol(s.name, not_one=s.not_one) for s in symbols])
        self.sizes = {old: dim(new) for old, new in zip(symbols, self.fresh, strict=True)}
