"""Blocks of the graph as ONNX subgraphs: If, and Loop for both kinds of loop.

A value of the graph is one ONNX value, but for Optional values, which are two: a bool, and a payload that is empty
where the bool is false. A sequence is a tensor with one more axis in front, its elements stacked by the loop.

Checks are not written: where eager raises, the model's result means nothing or its runtime raises in its own words.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from jitgrad.onnx.emitter import Emitter, numpy_type, value_info
from jitgrad.onnx.numbers import number
from jitgrad.onnx.table import ROWS
from jitgrad.ops.types import BOOL, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Block, Loop, Node, Value, payload, symbol_axes

#: names of a value's parts: one, or for an Optional its bool and its payload's
Parts = tuple[str, ...]
_REFUSED = {
    "print": "`print`", "commit": "a write to state (a buffer, an attribute, an argument, the random generator)",
    "callback": "a call of an ignored Python function", "text": "a string", "random.uniform": "random numbers",
    "random.bits": "random numbers",
}
_HINTS = {
    "commit": "export in evaluation mode (`model.eval()`), and keep in-place writes to tensors that the function makes",
    "random.uniform": "pass the random numbers as an argument, or export in evaluation mode",
    "print": "return the value instead",
}


def part_types(type_: Type) -> list[tuple[Type, int]]:
    """The types of a value's parts, each with the number of axes that sequences put in front."""
    if isinstance(type_, OptionalType):
        return [(BOOL, 0), *part_types(type_.elem)]
    if isinstance(type_, SeqType):
        return [(t, n + 1) for t, n in part_types(type_.elem)]
    return [(type_, 0)]


class Writer:
    """Writes nodes of the graph through an emitter; `values` maps what has been written to its names."""

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self.values: dict[Value, Parts] = {}

    def one(self, value: Value) -> str:
        (name,) = self.values[value]
        return name

    def block(self, block: Block) -> None:
        """Write a block's nodes into the current ONNX block."""
        for node in block.nodes:
            self.e.node = node
            self.node(node)

    def node(self, node: Node) -> None:
        """Write one node."""
        e, op = self.e, node.op
        if op in ("check", "pending"):
            return
        special = _STRUCTURE.get(op)
        if special is not None:
            special(self, node)
        elif op in ROWS:
            found = ROWS[op](e, node, *[self.one(v) for v in node.inputs])
            for v, name in zip(node.outputs, [found] if isinstance(found, str) else found, strict=True):
                self.values[v] = (name,)
        elif op.startswith("num."):
            self.values[node.output] = (number(e, node, [self.one(v) for v in node.inputs]),)
        else:
            word = _REFUSED.get(op.split(".vjp")[0], f"the operation `{op}`")
            raise e.fail(f"{word} cannot be part of an ONNX model", _HINTS.get(op, ""))
        if op != "dim.bind":
            self.bind_sizes(node.binds, node.outputs)

    def bind_sizes(self, symbols: Sequence[Any], values: Sequence[Value]) -> None:
        """Symbols as sizes of values, in the types of which they stand alone."""
        for value in values:
            for axis, symbol in symbol_axes(payload(value.type)):
                if symbol in symbols:
                    self.e.bind(symbol, self.values[value][-1], axis)

    # --- subgraphs -------------------------------------------------------------------------------------------------

    def results(self, values: Sequence[Value]) -> list[Any]:
        """Declarations of a subgraph's results: each must be the output of a node in it."""
        span = self.e.node.span if self.e.node is not None else None
        return [value_info(self.e("Identity", name), numpy_type(type_, span), None) for value in values
                for name, (type_, _) in zip(self.values[value], part_types(value.type), strict=True)]

    def if_node(self, node: Node) -> None:
        e = self.e
        graphs = []
        for block, label in zip(node.blocks, ("then", "else"), strict=True):
            with e.block() as nodes:
                self.block(block)
                e.node = node
                declared = self.results(block.results)
                graphs.append(helper.make_graph(list(nodes), e.name(label), [], declared))
        names = self._outputs(node.outputs)
        flat = [n for parts in names for n in parts]
        if flat:
            e.nodes.append(helper.make_node("If", [self.one(node.inputs[0])], flat, name=e.name("If_"),
                                            then_branch=graphs[0], else_branch=graphs[1]))
        self._define(node.outputs, names)

    def loop_node(self, node: Node) -> None:
        """Loop. A `while` has the number of trips as one more carry; a `scan` looks elements of sequences up at k."""
        e, loop, body = self.e, Loop(node), node.blocks[0]
        for y in loop.y_outputs:
            if not isinstance(y.type, SeqType) or any(n > 1 for _, n in part_types(y.type)):
                raise e.fail("a sequence of sequences")
        head, reverse = self.one(node.inputs[0]), bool(node.attrs.get("reverse"))
        given = ["", head, e.constant(0, np.int64)] if loop.lead else [head, ""]
        with e.block() as nodes:
            k = e.name("k")
            inputs = [value_info(k, np.int64, []), value_info(e.name("go"), np.bool_, [])]
            if loop.lead:
                trips = e.name("trip")
                inputs.append(value_info(trips, np.int64, None))
            for param in loop.carry_params:
                parts = self.values[param] = tuple(e.name(param.name or "carry") for _ in part_types(param.type))
                inputs += [value_info(name, numpy_type(t, node.span), None)
                           for name, (t, _) in zip(parts, part_types(param.type), strict=True)]
            self.bind_sizes(body.binds, loop.carry_params)
            if loop.counter is not None:
                at = e("Sub", e("Sub", head, e.constant(1, np.int64)), k) if reverse else k
                self.values[loop.counter] = (at,)
                for sequence, param in zip(loop.seqs, loop.seq_params, strict=True):
                    self.values[param] = tuple(e("Gather", part, at, axis=0) for part in self.values[sequence])
                self.bind_sizes(body.binds, loop.seq_params)
            self.block(body)
            e.node = node
            go = self.one(body.results[0]) if loop.lead else e.constant(True, np.bool_)
            declared = [value_info(e("Identity", go), np.bool_, None)]
            if loop.lead:
                declared.append(value_info(e("Add", trips, e.constant(1, np.int64)), np.int64, None))
            declared += self.results((*loop.carry_results, *loop.y_results))
            graph = helper.make_graph(list(nodes), e.name("body"), inputs, declared)
        names = self._outputs((*node.outputs[:loop.lead], *loop.carry_outputs, *loop.y_outputs))
        given += [part for c in loop.carries for part in self.values[c]]
        e.nodes.append(helper.make_node("Loop", given, [p for parts in names for p in parts], name=e.name("Loop_"),
                                        body=graph))
        if reverse:  # stored at k, and k went down
            ends = [e.ints([-1]), e.ints([-(1 << 62)]), e.ints([0]), e.ints([-1])]
            names[loop.n:] = [tuple(e("Slice", p, *ends) for p in parts) for parts in names[loop.n:]]
        self._define(node.outputs, names)

    def _outputs(self, values: Sequence[Value]) -> list[Parts]:
        return [tuple(self.e.name(v.name or "result") for _ in part_types(v.type)) for v in values]

    def _define(self, values: Sequence[Value], names: Sequence[Parts]) -> None:
        self.values.update(zip(values, names, strict=True))

    # --- optionals and sequences -------------------------------------------------------------------------------------

    def none(self, node: Node) -> None:
        """Absent: a payload without elements."""
        parts = [self.e.constant(False, np.bool_)]
        payload = node.output.type
        assert isinstance(payload, OptionalType)
        for type_, _ in part_types(payload.elem):
            rank = len(type_.dims) if isinstance(type_, TensorType) else 0
            parts.append(self.e.constant(np.zeros((0,) * rank, numpy_type(type_, node.span))))
        self.values[node.output] = tuple(parts)


def _parts(found: Callable[[Writer, Parts, Node], Parts]) -> Callable[[Writer, Node], None]:
    """What makes the parts of a value of those of another."""
    def write(writer: Writer, node: Node) -> None:
        writer.values[node.output] = found(writer, writer.values[node.inputs[0]], node)

    return write


_STRUCTURE: dict[str, Callable[[Writer, Node], None]] = {
    "if": Writer.if_node, "while": Writer.loop_node, "scan": Writer.loop_node, "opt.none": Writer.none,
    "opt.some": _parts(lambda w, parts, node: (w.e.constant(True, np.bool_), *parts)),
    "opt.has": _parts(lambda w, parts, node: parts[:1]),
    "opt.get": _parts(lambda w, parts, node: parts[1:]),
    "seq.get": _parts(lambda w, parts, node: tuple(w.e("Gather", p, w.one(node.inputs[1]), axis=0) for p in parts)),
    "seq.len": _parts(lambda w, parts, node: (
        w.e("Gather", w.e("Shape", parts[0]), w.e.constant(0, np.int64), axis=0),)),
}
