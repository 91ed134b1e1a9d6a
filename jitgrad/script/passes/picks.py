"""One element of each row: read or written without the rows being stored.

    index(x, arange, i){axes=(0, 1)}   becomes   gather(x, i)                and likewise index_put that adds
    y = x - m;  gather(y, i)           becomes   gather(x, i) - m            where i has size 1 along the axis
    scatter_add(zeros, i, v)           becomes   where(arange == i, v, 0)    likewise; its sum along the axis is v
    scatter_add(expand(u), i, v)       becomes   where(arange == i, u + v, u)    likewise for what is pointwise

So the log-probabilities of a cross-entropy are never stored for its target's sake, and their cotangent, which is zero
(with label smoothing: some number of the row, or of the class) but for one element of each row, is part of the kernel
that reads it. Values are the same, bit for bit. A scatter to memory that is there writes one element of each row only;
it is left alone.
"""

from collections.abc import Sequence

from jitgrad.dtypes import int64
from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, Node, Value
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant, tensor

_POINTWISE = frozenset(op.name for op in OPS.values() if op.kind is Kind.POINTWISE and op.compose is None)


def picks(graph: Graph) -> Graph:
    """`graph` with reads and writes of one element per row made part of what surrounds them."""
    return _Picks(graph).run()


class _Picks(Rewriter):
    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.hot: dict[Value, tuple[int, Value]] = {}  # zeros but for one element of each row: along which axis, what

    def visit(self, node: Node) -> Sequence[Value] | None:
        found = None
        if node.op in ("index", "index_put"):
            found = self.along(node)
        elif node.op == "gather":
            found = self.read(node)
        elif node.op == "scatter_add":
            found = self.write(node)
        elif node.op == "cast" and node.inputs[0] in self.hot:
            axis, source = self.hot[node.inputs[0]]
            self.hot[node.output] = axis, self.emit("cast", source, **node.attrs)
        elif node.op == "sum" and node.inputs[0] in self.hot:
            found = self.total(node)
        return None if found is None else (found,)

    def along(self, node: Node) -> Value | None:
        """One element of each row by the numbers of all rows and places in them, as a gather or scatter."""
        whole = tensor(node.inputs[0]).dims
        if node.attrs["axes"] != (0, 1) or len(whole) != 2:
            return None
        x, *given, rows, places = node.inputs
        count = self.source(rows, "arange")
        if count is None or count.attrs["length"] != whole[0] or any(
                tensor(v).dims != whole[:1] for v in (*given, places)):
            return None
        i = self.emit("unsqueeze", places, axis=1)
        if node.op == "index":
            return self.emit("squeeze", self.emit("gather", x, i, axis=1), axis=1)
        if not node.attrs["accumulate"]:
            return None
        return self.emit("scatter_add", x, i, self.emit("unsqueeze", given[0], axis=1), axis=1)

    def total(self, node: Node) -> Value | None:
        """The sum of zeros and one element is that."""
        axis, source = self.hot[node.inputs[0]]
        if node.attrs["axes"] != (axis,) or tensor(source).dtype is not tensor(node.output).dtype:
            return None
        return source if node.attrs["keepdim"] else self.emit("squeeze", source, axis=axis)

    def read(self, node: Node) -> Value | None:
        """A gather of what is computed element by element is computed of the elements."""
        x, i = node.inputs
        axis, made = node.attrs["axis"], self.nodes.get(x)
        if made is None or made.op not in _POINTWISE or not one_each(tensor(x), tensor(i), axis):
            return None
        operands = [self.operand(v, tensor(x), i, axis) for v in made.inputs]
        if any(v is None for v in operands) or all(v is w for v, w in zip(operands, made.inputs, strict=True)):
            return None
        result = self.emit(made.op, *[v for v in operands if v is not None], **made.attrs)
        return result if result.type == node.output.type else None

    def operand(self, v: Value, whole: TensorType, i: Value, axis: int) -> Value | None:
        """The elements of an operand; None where it broadcasts in another way than along the axis."""
        shape = tensor(v).dims
        if not shape or shape == tensor(i).dims:
            return v
        return self.emit("gather", v, i, axis=axis) if shape == whole.dims else None

    def write(self, node: Node) -> Value | None:
        """What kernels compute of the elements of a row, and of one of them otherwise."""
        target, i, source = node.inputs
        axis, whole = node.attrs["axis"], tensor(target)
        if not one_each(whole, tensor(i), axis) or tensor(source).dims != tensor(i).dims:
            return None
        start, made = constant(self, target), self.nodes.get(target)
        if start is not None:
            others = self.emit("full", value=start, shape=(), dtype=whole.dtype)
        elif made is not None and made.op == "expand" and tensor(made.inputs[0]).dims == tensor(i).dims:
            others = made.inputs[0]
        elif made is not None and made.op in _POINTWISE:
            others = target
        else:
            return None
        number = self.emit("arange", length=whole.dims[axis], dtype=int64)
        shape = tuple([n if a == axis else 1 for a, n in enumerate(whole.dims)])
        here = self.emit("eq", self.emit("reshape", number, shape=shape), i)
        if start != 0 or whole.dtype.is_floating_point:  # adding 0 makes 0 of -0
            source = self.emit("add", source, others)
        result = self.emit("where", here, source, others)
        if start == 0:
            self.hot[result] = axis, source
        return result


def one_each(whole: TensorType, i: TensorType, axis: int) -> bool:
    """Whether indices name one element of each row."""
    return (len(whole.dims) == len(i.dims) and i.dims[axis] == 1 and whole.dims[axis] != 1
            and all(a == axis or n == m for a, (n, m) in enumerate(zip(whole.dims, i.dims, strict=True))))
