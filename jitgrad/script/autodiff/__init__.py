"""Gradients of graphs: reverse mode on the structured graph, closed under itself.

    d = differentiate(graph, wrt=(0,), outputs=(0,))     f(x) = tanh(x)
      forward:   x            -> tanh(x), y = tanh(x)         (y is the residual)
      backward:  y, g         -> g * (1 - y * y), True
    gradient_function(graph, (0,), (0,), (True,))
                 x, g         -> g * (1 - y * y), True        with y = tanh(x) computed again

`flow` says where gradients may flow, `reverse`, with `adjoints` and `control`, sweeps backwards, `frame` and `mirrors`
decide what is saved and what is recomputed, `amend` makes the forward save it, `regions` has parts of it computed
again instead, `cotangents` adds up. A gradient is a graph like any other, so order k needs nothing new.
"""

from collections.abc import Collection, Sequence

from jitgrad.ops.types import ListType, TensorType
from jitgrad.script.autodiff import adjoints, control  # noqa: F401  (they register adjoints)
from jitgrad.script.autodiff.amend import abstract
from jitgrad.script.autodiff.cotangents import as_bool, cotangent_type, masked, zero
from jitgrad.script.autodiff.flow import Flow, is_differentiable
from jitgrad.script.autodiff.frame import Context, Frame
from jitgrad.script.autodiff.mirrors import FunctionFrame
from jitgrad.script.autodiff.prepare import expand_composites, without_effects
from jitgrad.script.autodiff.regions import flatten, fold
from jitgrad.script.autodiff.rematerialise import with_rows
from jitgrad.script.autodiff.reverse import Reverse
from jitgrad.script.graph.ir import Block, Graph, Node, Value, committed, payload


class Derivative:
    """A graph's forward that saves what its backward reads, and that backward.

    Attributes:
        forward: the graph's inputs -> its outputs, then the residuals.
        residuals: the values that `forward` saves, in order.
    """

    def __init__(self, graph: Graph, wrt: Sequence[int], outputs: Sequence[int]):
        self.wrt, self.outputs = tuple(wrt), tuple(outputs)
        self._present = (True,) * len(self.outputs)
        graph, self._instead = with_rows(fold(expand_composites(graph)))
        context, frame, self._full = self._sweep(graph, self._present, None)
        assert frame.residuals is not None
        self.residuals = tuple(frame.residuals)
        block = context.amend.rebuild(graph.block)
        block = Block(block.params, block.nodes, (*block.results, *self.residuals), block.binds)
        self._folded = Graph(block, graph.name)
        self.forward = flatten(self._folded)

    def backward(self, present: Sequence[bool]) -> Graph:
        """Residuals, then a cotangent for each output that has one -> (value, reached) for each of `wrt`.

        Args:
            present: for each of the differentiated outputs whether a cotangent is given.
        """
        if tuple(present) == self._present:
            return self._full
        return self._sweep(self._folded, tuple(present), self.residuals)[2]

    def _sweep(self, graph: Graph, present: Sequence[bool],
               residuals: Sequence[Value] | None) -> tuple[Context, FunctionFrame, Graph]:
        outputs = [graph.outputs[i] for i, p in zip(self.outputs, present, strict=True) if p]
        wrt = [graph.inputs[i] for i in self.wrt]
        flow = Flow(graph, wrt, outputs)
        context = Context(flow, frozen=residuals is not None, thorough=residuals is None and len(outputs) > 1)
        frame = FunctionFrame(context, graph.block, residuals, self._instead)
        frame.cotangents = [Value(cotangent_type(v.type), f"g_{v.name}" if v.name else "g") for v in outputs]
        results = _differentiate(context, frame, wrt, outputs, frame.cotangents)
        frame.finish(results)
        return context, frame, flatten(Graph(frame.out, f"{graph.name}_backward"))


def differentiate(graph: Graph, wrt: Sequence[int], outputs: Sequence[int]) -> Derivative:
    """The derivative of `graph`'s outputs (indices) with respect to its inputs (indices).

    What moves fewer bytes when it is computed again than when it is saved, is (`rematerialise.py`).

    Raises NonDifferentiable, with the place in the user's source, where a gradient would have to flow through an op
    that has none.
    """
    return Derivative(graph, wrt, outputs)


def gradient_function(graph: Graph, wrt: Sequence[int], outputs: Sequence[int], present: Sequence[bool]) -> Graph:
    """The graph's inputs, then a cotangent for each present output -> (value, reached) for each of `wrt`; no effects.

    The forward is computed again inside, so this is a function that can be differentiated like any other.
    """
    graph = without_effects(fold(expand_composites(graph)))
    targets = [graph.outputs[i] for i, p in zip(outputs, present, strict=True) if p]
    wrt_values = [graph.inputs[i] for i in wrt]
    flow = Flow(graph, wrt_values, targets)
    context = Context(flow, frozen=False, thorough=False)
    frame = Frame(context, graph.block, None)
    params: list[Value] = []
    binds = list(graph.block.binds)
    cotangents: list[Value] = []
    for v in targets:  # sizes that the graph computes are not known where its inputs are
        image = Value(cotangent_type(v.type), f"g_{v.name}" if v.name else "g")
        inner = set(flow.bound[graph.block]) - set(graph.block.binds)
        type_, fresh = abstract(image.type, inner)
        params.append(Value(type_, image.name) if fresh else image)
        cotangents.append(image)
        binds.extend(fresh)
        if fresh:
            frame.out.nodes.append(Node("reshape", (params[-1],), {"shape": v.type.dims}, (image,)))  # type: ignore[union-attr]
    frame.finish(_differentiate(context, frame, wrt_values, targets, cotangents))
    forward = context.amend.rebuild(graph.block)
    block = Block((*forward.params, *params), [*forward.nodes, *frame.out.nodes], frame.out.results, tuple(binds))
    return flatten(Graph(block, f"{graph.name}_gradient"))


def _differentiate(context: Context, frame: Frame, wrt: Sequence[Value], outputs: Sequence[Value],
                   seeds: Sequence[Value]) -> list[Value]:
    """Sweep the whole graph; for each of `wrt` the values of the cotangent and of whether it was reached."""
    cotangents = Reverse(context).run(frame, outputs, seeds)
    results: list[Value] = []
    with context.builder.into(frame.out):
        for x in wrt:
            c = cotangents.get(x) or zero(context, frame.type(x.type), lambda x=x: frame.fetch(x))  # type: ignore[misc]
            results += [masked(context, c), as_bool(context, c.reached)]
    return results


def split_flags(backward: Graph) -> tuple[Graph, tuple[tuple[int, int], ...]]:
    """A graph of (value, reached) pairs as one of values, then the flags that are not always true; and which is whose.

    Returns pairs (output number of a value, output number of its flag).
    """
    always = {n.outputs[0] for n in backward.block.nodes if n.op == "num.const" and n.attrs["value"] is True}
    results = list(backward.outputs[::2])
    flags = []
    for i, flag in enumerate(backward.outputs[1::2]):
        if flag not in always:
            flags.append((i, len(results)))
            results.append(flag)
    block = backward.block
    return Graph(Block(block.params, block.nodes, tuple(results), block.binds), backward.name), tuple(flags)


def without_inputs(forward: Graph, count: int, lent: Collection[int]) -> tuple[Graph, tuple[int, ...]]:
    """A forward of `count` outputs without the residuals that are inputs or `lent` outputs: the caller has the arrays.

    Returns where each residual is: the number of an output, or ~number of an input. An input that the program itself
    overwrites is not one of them: its old value is an output like any other.
    """
    written = set(committed(forward.block))
    had = {forward.outputs[i]: i for i in lent} | {
        v: ~i for i, v in enumerate(forward.inputs)
        if i not in written and isinstance(payload(v.type), (TensorType, ListType))}
    results = list(forward.outputs[:count])
    places = []
    for value in forward.outputs[count:]:
        places.append(had.get(value, len(results)))
        if value not in had:
            results.append(value)
    block = forward.block
    return Graph(Block(block.params, block.nodes, tuple(results), block.binds), forward.name), tuple(places)


__all__ = ["Derivative", "differentiate", "gradient_function", "is_differentiable", "split_flags", "without_inputs"]
