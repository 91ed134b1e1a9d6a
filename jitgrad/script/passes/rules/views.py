"""Rewrite rows for views, their write-backs, reductions and creation."""

from jitgrad.ops import OPS, Kind
from jitgrad.ops.namespaces import sum_to_plan
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import BOOL, FLOAT, INT, Type
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import as_result, constant, row, rule, rule_of, tensor

_VIEWS = tuple(op.name for op in OPS.values() if op.kind is Kind.VIEW)
_PYTHON: dict[Type, type] = {BOOL: bool, INT: int, FLOAT: float}


@rule(*_VIEWS)
def view_of_constant(r: Rewriter, node: Node) -> Value | None:
    """A view of a constant is a constant, but for one of its bytes as numbers of another dtype."""
    full, type_ = r.source(node.inputs[0], "full"), tensor(node.outputs[0])
    if full is None or full.attrs["dtype"] is not type_.dtype:
        return None
    return r.emit("full", value=full.attrs["value"], shape=type_.dims, dtype=type_.dtype)


row("to_same_shape", ("reshape", "x"), "x")
row("to_same_shape", ("expand", "x"), "x")
row("to_same_shape", ("sum_to", "x"), "x")
row("merge_same", ("reshape", ("reshape", "x")), ("reshape", "x"))
row("merge_same", ("expand", ("expand", "x")), ("expand", "x"))
row("reshape_of_axis", ("reshape", ("unsqueeze", "x")), ("reshape", "x"))
row("reshape_of_axis", ("reshape", ("squeeze", "x")), ("reshape", "x"))


@rule("permute")
def permute_identity(r: Rewriter, node: Node) -> Value | None:
    """A permutation that changes nothing is its operand."""
    axes = node.attrs["axes"]
    return node.inputs[0] if axes == tuple(range(len(axes))) else None


@rule_of("permute", "permute")
def permute_of_permute(r: Rewriter, node: Node, inner: Node) -> Value:
    """Two permutations are one."""
    return r.emit("permute", inner.inputs[0], axes=tuple(inner.attrs["axes"][a] for a in node.attrs["axes"]))


@rule("squeeze", "unsqueeze")
def squeeze_of_unsqueeze(r: Rewriter, node: Node) -> Value | None:
    """squeeze(unsqueeze(x)) is x on one axis, and the other way round."""
    inner = r.source(node.inputs[0], "unsqueeze" if node.op == "squeeze" else "squeeze")
    if inner is None or inner.attrs["axis"] != node.attrs["axis"]:
        return None
    return as_result(r, inner.inputs[0], node)


@rule("slice", "slice_scatter")
def whole_slice(r: Rewriter, node: Node) -> Value | None:
    """A slice of the whole axis is its operand; a write to that leaves only what was written, and zeros for a gradient.
    """
    a, size = node.attrs, tensor(node.inputs[0]).dims[node.attrs["axis"]]
    if a["start"] != 0 or a["step"] != 1 or a["length"] != size:
        return None
    kept = as_result(r, node.inputs[-1], node)
    return kept if kept is None or node.op == "slice" else r.emit("overwrite", node.inputs[0], kept)


@rule("select", "slice")
def read_after_write(r: Rewriter, node: Node) -> Value | None:
    """Reading what was just written there is what was written."""
    inner = r.source(node.inputs[0], node.op + "_scatter")
    if inner is None or inner.attrs != node.attrs:
        return None
    return as_result(r, inner.inputs[1], node)


# --- accumulation of gradients -------------------------------------------------------------------------------------


@rule("add")
def accumulate_in_place(r: Rewriter, node: Node) -> Value | None:
    """acc + select_add(zeros, g) is select_add(acc, g), and likewise for the other accumulating writes."""
    for acc, part in (node.inputs, node.inputs[::-1]):
        write = r.nodes.get(part)
        if write is None or not has_trait(write.op, "accumulates") or acc.type != part.type:
            continue
        if write.op == "index_put" and not write.attrs["accumulate"]:
            continue
        start = constant(r, write.inputs[0])
        if start is not None and start == 0:
            return r.emit(write.op, acc, *write.inputs[1:], **write.attrs)
    return None


# --- reductions ----------------------------------------------------------------------------------------------------


@rule("sum", "prod", "amax", "amin")
def reduce_nothing(r: Rewriter, node: Node) -> Value | None:
    """A reduction of no axes, or of axes of one element, is its operand with another shape."""
    x, axes = node.inputs[0], node.attrs["axes"]
    type_ = tensor(node.outputs[0])
    if type_.dtype is not tensor(x).dtype or any(tensor(x).dims[a] != 1 for a in axes):
        return None
    return r.emit("reshape", x, shape=type_.dims)


@rule("sum_to")
def sum_to_sum(r: Rewriter, node: Node) -> Value | None:
    """sum_to is a sum where it is known which axes were repeated."""
    x, type_ = node.inputs[0], tensor(node.outputs[0])
    axes, open_axes = sum_to_plan(tensor(x).dims, type_.dims)
    if open_axes or not axes:
        return None
    return r.emit("reshape", r.emit("sum", x, axes=axes, keepdim=False), shape=type_.dims)


# --- numbers and tensors -------------------------------------------------------------------------------------------


@rule("fill")
def fill_constant(r: Rewriter, node: Node) -> Value | None:
    """fill(3) is full(3)."""
    number = constant(r, node.inputs[0])
    return r.emit("full", value=number, **node.attrs) if number is not None else None


@rule_of("item", "full")
def item_of_constant(r: Rewriter, node: Node, full: Node) -> Value:
    """item(full(3)) is 3."""
    kind = _PYTHON[node.outputs[0].type]
    return r.emit("num.const", value=kind(tensor(node.inputs[0]).dtype.np.type(full.attrs["value"]).item()))


@rule_of("item", "fill")
def item_of_fill(r: Rewriter, node: Node, fill: Node) -> Value | None:
    """item(fill(n)) is n where n's dtype keeps all of it."""
    d = tensor(node.inputs[0]).dtype
    return as_result(r, fill.inputs[0], node) if d.itemsize == 8 or d.category == 0 else None


@rule_of("item", *(op.name for op in OPS.values() if "in_order" in op.traits))
def item_of_shape(r: Rewriter, node: Node, inner: Node) -> Value | None:
    """item(reshape(x)) is item(x), where x has one element."""
    return r.emit("item", inner.inputs[0]) if all(d == 1 for d in tensor(inner.inputs[0]).dims) else None
