"""Parts that are added to zeros side by side are joined.

    slice_add(slice_add(zeros, a){start=0}, b){start=n}     becomes     cat(a, b)      where that is all of it

So the cotangent of what is cut into pieces, as the projections of attention are, is written once. The sum with zero
makes 0 of a part's -0: so does adding 0 to the parts, which is done in the kernels that make them. It is not done to
the gradients of attention, which have none; nor on devices: a part's -0 stays -0 there.
"""

from collections.abc import Sequence

from jitgrad.dims import Size
from jitgrad.script.graph.ir import Graph, Node, Value, walk
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant, tensor


def joined(graph: Graph) -> Graph:
    """`graph` with sums of parts that do not overlap as joins of them."""
    return _joined(graph, bare=False)


def joined_bare(graph: Graph) -> Graph:
    """The same, with -0 as it is."""
    return _joined(graph, bare=True)


def _joined(graph: Graph, bare: bool) -> Graph:
    return _Joined(graph, bare).run() if any(n.op == "slice_add" for n in walk(graph.block)) else graph


class _Joined(Rewriter):
    def __init__(self, graph: Graph, bare: bool):
        super().__init__(graph)
        self.bare = bare

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.op != "slice_add":
            return None
        axis, parts = node.attrs["axis"], dict[Size, tuple[Size, Value]]()
        made: Node | None = node
        while made is not None:
            acc, part = made.inputs
            attrs = made.attrs
            if attrs["axis"] != axis or attrs["step"] != 1 or attrs["start"] in parts:
                return None
            parts[attrs["start"]] = attrs["length"], part
            made = self.source(acc, "slice_add")
        if constant(self, acc) != 0:
            return None
        at: Size = 0
        found: list[Value] = []
        while at in parts:
            length, part = parts.pop(at)
            found.append(part)
            at = at + length
        whole = tensor(node.output)
        if parts or at != whole.dims[axis] or any(tensor(v).dtype is not whole.dtype for v in found):
            return None
        if whole.dtype.is_floating_point and not self.bare:
            zero = self.emit("full", value=0.0, shape=(), dtype=whole.dtype)
            found = [v if self._is_sum(v) else self.emit("add", v, zero) for v in found]
        return (found[0] if len(found) == 1 else self.emit("cat", *found, axis=axis),)

    def _is_sum(self, value: Value) -> bool:
        """Whether elements are sums that began with 0, which never are -0."""
        while (node := self.source(value, "reshape")) is not None:
            value = node.inputs[0]
        return any(self.source(value, op) is not None for op in ("attention_backward", "masked_attention_backward"))
