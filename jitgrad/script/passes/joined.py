"""Parts that are added to zeros side by side are joined, on devices.

    slice_add(slice_add(zeros, a){start=0}, b){start=n}     becomes     cat(a, b)      where that is all of it

So the cotangent of what is cut into pieces, as the projections of attention are, is written once. A part's -0 stays
-0, where the sum with zero makes it 0.
"""

from collections.abc import Sequence

from jitgrad.dims import Size
from jitgrad.script.graph.ir import Graph, Node, Value
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant, tensor


def joined(graph: Graph) -> Graph:
    """`graph` with sums of parts that do not overlap as joins of them."""
    return _Joined(graph).run()


class _Joined(Rewriter):
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
        return (found[0] if len(found) == 1 else self.emit("cat", *found, axis=axis),)
