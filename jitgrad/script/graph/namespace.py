"""`GraphNamespace`: the namespace under which op rules (vjp, compose) emit nodes instead of computing.

A handle wraps an `ir.Value`; operators and `F.<op>(...)` append nodes through the builder. So the one derivative table
of `jitgrad.ops` serves the graph: the rule of tanh, `g * (1 - y * y)`, writes mul, sub and mul into a block.
"""

from __future__ import annotations

from typing import Any

from jitgrad import ops
from jitgrad.dims import Size, product
from jitgrad.dtypes import dtype
from jitgrad.ops.namespaces import Handle, Namespace, Number
from jitgrad.ops.opdef import OpDef
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Builder, Value


class GraphHandle(Handle):
    """A tensor value of the graph as rules see it: operators, `shape`, `ndim`, `dtype`."""

    __slots__ = ("F", "dtype", "shape", "value")

    def __init__(self, F: GraphNamespace, value: Value):
        assert isinstance(value.type, TensorType), f"{value} is not a tensor"
        self.F, self.value = F, value
        self.dtype: dtype = value.type.dtype
        self.shape: tuple[Size, ...] = value.type.dims

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<{self.value}>"


class GraphNamespace(Namespace):
    """`F` for rules that build a graph. Composite rows become nodes too; those without a spec are expanded.

    A Python literal is a 0-dim `full` of the other operand's dtype, made once per block. (The block in which a literal
    was first used need not enclose the next use, so blocks do not share them; cse merges what can be merged.)
    """

    def __init__(self, builder: Builder):
        assert ops.OPS  # importing the package is what fills the table
        self.builder = builder
        self._block: Block | None = None
        self._literals: dict[tuple[str, dtype], GraphHandle] = {}

    def wrap(self, value: Value) -> GraphHandle:
        """The handle of a tensor value."""
        return GraphHandle(self, value)

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Append the row's node; its result, or the tuple of its results."""
        if op.spec is None and op.compose is not None:
            return self.expand_composite(op, xs, attrs)
        outputs = self.builder.emit(op.name, [x.value if isinstance(x, GraphHandle) else x for x in xs], **attrs)
        if len(outputs) == 1:
            return GraphHandle(self, outputs[0])
        return tuple(GraphHandle(self, v) for v in outputs)

    def lift(self, value: Number, d: dtype) -> GraphHandle:
        """The 0-dim constant `value` of dtype `d`."""
        if self.builder.block is not self._block:
            self._block, self._literals = self.builder.block, {}
        key = (repr(value), d)  # repr tells 1 from True and 0.0 from -0.0
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self.constant(value, (), d)
        return found

    def constant(self, value: Number, shape: tuple[Size, ...], d: dtype) -> GraphHandle:
        (v,) = self.builder.emit("full", (), types=(TensorType(d, shape),), value=value, shape=shape, dtype=d)
        return GraphHandle(self, v)

    def zeros_like(self, x: Any) -> GraphHandle:
        """Zeros of x's shape and dtype; x may be a spec."""
        return self.constant(0, x.shape, x.dtype)

    def unreduce(self, g: GraphHandle, x: GraphHandle, axes: tuple[int, ...], keepdim: bool) -> GraphHandle:
        """The result g of a reduction of x over `axes`, repeated to x's shape. Unsqueezing proves no sizes equal."""
        if not keepdim:
            for axis in sorted(axes):
                g = self.unsqueeze(g, axis=axis)
        return self.expand_like(g, x)  # type: ignore[no-any-return]

    def count(self, x: Any, axes: Any) -> GraphHandle:
        """How many elements of x are reduced over `axes`, as a 0-dim tensor of x's dtype."""
        n = product(x.shape[a] for a in axes)
        if isinstance(n, int):
            return self.lift(n, x.dtype)
        number = self.builder.one("dim.value", dim=n)
        return GraphHandle(self, self.builder.one("fill", number, shape=(), dtype=x.dtype))
