"""Op of the graph -> ONNX nodes: one row per op, `(e, node, *names) -> name, or a list of names`.

A composite of jitgrad that has a row here is written as one ONNX node (Softmax, Relu); the others are decomposed
first. What has no row has no equivalent: random numbers, the gamma family, running products.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitgrad.dims import Size
from jitgrad.dtypes import HALF_CHARS, INEXACT_KINDS
from jitgrad.onnx.emitter import Emitter, floor_divide, numpy_type
from jitgrad.ops.types import INT, TensorType
from jitgrad.script.graph.ir import Node

Row = Callable[..., Any]
ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Enter a function into the table."""

    def enter(fn: Row) -> Row:
        for name in names:
            ROWS[name] = fn
        return fn

    return enter


def dims(node: Node, i: int = 0) -> tuple[Size, ...]:
    """The sizes of operand i."""
    type_ = node.inputs[i].type
    assert isinstance(type_, TensorType)
    return type_.dims


def dtype(node: Node, i: int = 0) -> np.dtype[Any]:
    """The dtype of operand i."""
    return numpy_type(node.inputs[i].type, node.span)


def literal(e: Emitter, value: Any, node: Node) -> str:
    """A 0-dim constant of the first operand's dtype."""
    return e.constant(value, dtype(node))


# --- pointwise -----------------------------------------------------------------------------------------------------

#: rows that are ONNX ops of the same name but for the capital
_CAPITALS = ("add sub mul div neg abs sign pow floor ceil round exp log sqrt sin cos tan asin acos atan sinh cosh tanh "
             "asinh acosh atanh erf sigmoid relu reciprocal")
_NAMES = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not", "isnan": "IsNaN",
          "isinf": "IsInf", "minimum": "Min", "maximum": "Max", "detach": "Identity", "contiguous": "Identity",
          "matmul": "MatMul"}
ROWS |= {op: partial(lambda name, e, node, *xs: e(name, *xs), name)
         for op, name in [*[(op, op.capitalize()) for op in _CAPITALS.split()], *_NAMES.items()]}
ROWS |= {f"bitwise_{op}": partial(lambda name, e, node, *xs: e(
    name if dtype(node) == np.bool_ else "Bitwise" + name, *xs), op.capitalize()) for op in ("and", "or", "xor", "not")}


@row("softplus")
def _softplus(e: Emitter, node: Node, x: str) -> str:
    beta, threshold = node.attrs["beta"], node.attrs["threshold"]
    scaled = e("Mul", x, literal(e, beta, node))
    y = e("Div", e("Softplus", scaled), literal(e, beta, node))
    return e("Where", e("Greater", scaled, literal(e, threshold, node)), x, y)


def select(e: Emitter, c: str, a: str, b: str, kind: np.dtype[Any]) -> str:
    """Where, for every dtype: runtimes have it for some alone."""
    wide: Any = {"?": np.int32, "b": np.int32, "h": np.int32}.get(kind.char)
    if kind.char in HALF_CHARS:
        wide = np.float32
    if wide is None:
        return e("Where", c, a, b)
    return e.cast(e("Where", c, e.cast(a, wide), e.cast(b, wide)), kind)


@row("eq", "ne", "lt", "le", "gt", "ge")
def _compare(e: Emitter, node: Node, a: str, b: str) -> str:
    if dtype(node) == np.bool_ and node.op not in ("eq", "ne"):
        a, b = e.cast(a, np.int32), e.cast(b, np.int32)
    name = {"eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
    y = e(name[node.op], a, b)
    return e("Not", y) if node.op == "ne" else y


ROWS |= {
    "where": lambda e, node, c, a, b: select(e, c, a, b, dtype(node, 1)),
    "cast": lambda e, node, x: e.cast(x, node.attrs["dtype"].np),
    "trunc": lambda e, node, x: e("Where", e("Less", x, literal(e, 0, node)), e("Ceil", x), e("Floor", x)),
    "fmod": lambda e, node, a, b: e("Mod", a, b, fmod=1),
    "floor_divide": lambda e, node, a, b: (
        e("Floor", e("Div", a, b)) if dtype(node).kind in INEXACT_KINDS else floor_divide(e, a, b)),
    "fma": lambda e, node, a, b, c: e("Add", e("Mul", a, b), c),
    "rsqrt": lambda e, node, x: e("Reciprocal", e("Sqrt", x)),
    "exp2": lambda e, node, x: e("Pow", literal(e, 2, node), x),
    "log2": lambda e, node, x: e("Div", e("Log", x), literal(e, math.log(2), node)),
    "log10": lambda e, node, x: e("Div", e("Log", x), literal(e, math.log(10), node)),
    "erfc": lambda e, node, x: e("Sub", literal(e, 1, node), e("Erf", x)),
}


@row("remainder")
def _remainder(e: Emitter, node: Node, a: str, b: str) -> str:
    if dtype(node).kind not in INEXACT_KINDS:
        return e("Mod", a, b)
    return e("Sub", a, e("Mul", e("Floor", e("Div", a, b)), b))


@row("expm1")
def _expm1(e: Emitter, node: Node, x: str) -> str:
    """exp(x) - 1 = 2 sinh(x / 2) exp(x / 2), which keeps its digits near 0."""
    half = e("Mul", x, literal(e, 0.5, node))
    small = e("Mul", e("Mul", e("Sinh", half), e("Exp", half)), literal(e, 2, node))
    return e("Where", e("Less", e("Abs", x), literal(e, 1, node)), small, e("Sub", e("Exp", x), literal(e, 1, node)))


@row("log1p")
def _log1p(e: Emitter, node: Node, x: str) -> str:
    """log(1 + x) = 2 atanh(x / (2 + x)), which keeps its digits near 0."""
    one = literal(e, 1, node)
    small = e("Mul", e("Atanh", e("Div", x, e("Add", x, literal(e, 2, node)))), literal(e, 2, node))
    return e("Where", e("Less", e("Abs", x), literal(e, 0.5, node)), small, e("Log", e("Add", x, one)))


@row("atan2")
def _atan2(e: Emitter, node: Node, y: str, x: str) -> str:
    """atan(y / x), half a turn further where x is negative, to y's side."""
    zero, pi = literal(e, 0, node), literal(e, math.pi, node)
    below = e("Less", y, zero)
    turned = e("Where", below, e("Neg", pi), pi)
    slope = e("Atan", e("Div", y, x))
    upright = e("Where", below, literal(e, -math.pi / 2, node), e("Where", e("Greater", y, zero),
                                                                   literal(e, math.pi / 2, node), zero))
    turning = e("Where", e("Less", x, zero), e("Add", slope, turned), slope)
    return e("Where", e("Equal", x, zero), upright, turning)


# --- reductions ----------------------------------------------------------------------------------------------------


@row("sum", "prod", "amax", "amin", "mean")
def _reduce(e: Emitter, node: Node, x: str) -> str:
    name = {"sum": "ReduceSum", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin", "mean": "ReduceMean"}
    axes = node.attrs["axes"]
    if not axes:
        return e("Identity", x)
    return e(name[node.op], x, e.ints(axes), keepdims=int(node.attrs["keepdim"]))


@row("any", "all")
def _truth(e: Emitter, node: Node, x: str) -> str:
    axes = node.attrs["axes"]
    bits = e.cast(e.cast(x, np.bool_), np.int32)
    if axes:
        name = "ReduceMax" if node.op == "any" else "ReduceMin"
        bits = e(name, bits, e.ints(axes), keepdims=int(node.attrs["keepdim"]))
    return e.cast(bits, np.bool_)


@row("argmax", "argmin")
def _argument(e: Emitter, node: Node, x: str) -> str:
    (axis,) = node.attrs["axes"]
    if dtype(node) == np.bool_:
        x = e.cast(x, np.int32)
    return e("ArgMax" if node.op == "argmax" else "ArgMin", x, axis=axis, keepdims=int(node.attrs["keepdim"]))


ROWS |= {
    "softmax": lambda e, node, x: e("Softmax", x, axis=node.attrs["axis"]),
    "log_softmax": lambda e, node, x: e("LogSoftmax", x, axis=node.attrs["axis"]),
    "cumsum": lambda e, node, x: e("CumSum", x, e.constant(node.attrs["axis"], np.int64)),
}


@row("attention", "masked_attention")
def _attention(e: Emitter, node: Node, q: str, k: str, v: str, mask: str = "") -> list[str]:
    wide, rank = np.float32 if dtype(node).char in HALF_CHARS else dtype(node), len(dims(node))
    order = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    q, k, v = (e("Transpose", e.cast(x, wide), perm=order) for x in (q, k, v))
    scale = node.attrs["scale"]
    if scale is None:
        q = e("Div", q, e("Sqrt", e.cast(e.size(dims(node)[-1]), wide)))
    else:
        q = e("Mul", q, e.constant(scale, np.dtype(wide)))
    scores = e("MatMul", q, e("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2]))
    infinity, causal = e.constant(-math.inf, np.dtype(wide)), node.attrs.get("causal")
    if causal:
        mask = e.cast(e("Trilu", e("Expand", e.constant(1, np.dtype(wide)), e("Shape", scores)), upper=0), np.bool_)
    if mask:
        flags = causal or dtype(node, 3) == np.bool_
        scores = e("Where", mask, scores, infinity) if flags else e("Add", scores, e.cast(mask, wide))
    weights = e("Softmax", scores, axis=-1)
    if mask and not causal:  # it may leave nothing
        nothing = e("Equal", e("ReduceMax", scores, e.ints([-1])), infinity)
        weights = e("Where", nothing, e.constant(0, np.dtype(wide)), weights)
    return [e.cast(e("Transpose", e("MatMul", weights, v), perm=order), dtype(node)),
            e("ReduceLogSumExp", scores, e.ints([-1]), keepdims=0)]


# --- views ---------------------------------------------------------------------------------------------------------


ROWS |= {
    "reshape": lambda e, node, x: e("Reshape", x, e.shape(node.attrs["shape"]), allowzero=1),
    "expand": lambda e, node, x: e("Expand", x, e.shape(node.attrs["shape"])),
    "unsqueeze": lambda e, node, x: e("Unsqueeze", x, e.ints([node.attrs["axis"]])),
    "squeeze": lambda e, node, x: e("Squeeze", x, e.ints([node.attrs["axis"]])),
    "select": lambda e, node, x: e("Gather", x, e.size(node.attrs["index"]), axis=node.attrs["axis"]),
    "permute": lambda e, node, x: e("Transpose", x, perm=list(node.attrs["axes"])) if dims(node) else e("Identity", x),
    "alias": lambda e, node, x: e("Identity", x),
}


@row("slice")
def _slice(e: Emitter, node: Node, x: str) -> str:
    axis, start, length, step = (node.attrs[k] for k in ("axis", "start", "length", "step"))
    return e("Slice", x, e.one_size(start), e.one_size(start + length * step), e.ints([axis]), e.one_size(step))


@row("flip")
def _flip(e: Emitter, node: Node, x: str) -> str:
    axes = list(node.attrs["axes"])
    if not axes:
        return e("Identity", x)
    back, ends = ([end] * len(axes) for end in (-1, -(1 << 62)))
    return e("Slice", x, e.ints(back), e.ints(ends), e.ints(axes), e.ints(back))


@row("diagonal")
def _diagonal(e: Emitter, node: Node, x: str) -> str:
    """The two axes last and flattened: element i of the diagonal is at i * (columns + 1) plus where it starts."""
    offset, axis1, axis2 = node.attrs["offset"], node.attrs["axis1"], node.attrs["axis2"]
    sizes, columns = dims(node), dims(node)[axis2]
    rest = [i for i in range(len(sizes)) if i not in (axis1, axis2)]
    flat = e("Reshape", e("Transpose", x, perm=[*rest, axis1, axis2]),
             e.shape([*(sizes[i] for i in rest), sizes[axis1] * columns]), allowzero=1)
    length = node.output.type.dims[-1]  # type: ignore[union-attr]
    start = offset if offset >= 0 else columns * -offset
    where = e("Add", e("Mul", _range(e, length), e.size(columns + 1)), e.size(start))
    return e("Gather", flat, where, axis=len(rest))


@row("windows")
def _windows(e: Emitter, node: Node, x: str) -> str:
    """Gathered at start + k * dilation, for windows and the k in them; the window goes last."""
    axis, size, step, dilation = (node.attrs[k] for k in ("axis", "size", "step", "dilation"))
    starts = e("Mul", _range(e, node.output.type.dims[axis]), e.size(step))  # type: ignore[union-attr]
    inside = e("Mul", _range(e, size), e.size(dilation))
    where = e("Add", e("Unsqueeze", starts, e.ints([1])), inside)
    found = e("Gather", x, where, axis=axis)
    return e("Transpose", found, perm=[*range(axis + 1), *range(axis + 2, len(dims(node)) + 1), axis + 1])


def _range(e: Emitter, length: Size) -> str:
    return e("Range", e.constant(0, np.int64), e.size(length), e.constant(1, np.int64))


# --- joining, gathering, scattering ----------------------------------------------------------------------------------


ROWS |= {
    "cat": lambda e, node, *xs: e("Concat", *xs, axis=node.attrs["axis"]),
    "gather": lambda e, node, x, i: e("GatherElements", x, i, axis=node.attrs["axis"]),
}


@row("pad")
def _pad(e: Emitter, node: Node, x: str) -> str:
    pads = node.attrs["pads"]
    if not pads:
        return e("Identity", x)
    widths = e.shape([*(before for before, _ in pads), *(after for _, after in pads)])
    return e("Pad", x, widths, literal(e, node.attrs["value"], node))


@row("index")
def _index(e: Emitter, node: Node, x: str, *indices: str) -> str:
    """Gather along one axis; several go to the front, are looked up together, and back to where the first was."""
    axes = node.attrs["axes"]
    rank = len(dims(node))
    if len(axes) == 1:
        return e("Gather", x, indices[0], axis=axes[0])
    rest = [i for i in range(rank) if i not in axes]
    moved = e("Transpose", x, perm=[*axes, *rest])
    found = e("GatherND", moved, _stacked(e, indices))
    width = max(len(dims(node, i + 1)) for i in range(len(axes)))
    adjacent = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    if not adjacent or axes[0] == 0:
        return found
    first = axes[0]
    order = [*range(width, width + first), *range(width), *range(width + first, width + len(rest))]
    return e("Transpose", found, perm=order)


def _stacked(e: Emitter, indices: Sequence[str]) -> str:
    """Index tensors, broadcast together, as the last axis of one."""
    total = indices[0]
    for i in indices[1:]:
        total = e("Add", total, i)
    zeros = e("Sub", total, total)
    last = e.ints([-1])
    return e("Concat", *(e("Unsqueeze", e("Add", i, zeros), last) for i in indices), axis=-1)


@row("index_put")
def _index_put(e: Emitter, node: Node, x: str, v: str, *indices: str) -> str:
    axes = node.attrs["axes"]
    rank = len(dims(node))
    rest = [i for i in range(rank) if i not in axes]
    adjacent = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    width = max(len(dims(node, i + 2)) for i in range(len(axes)))
    moved = e("Transpose", x, perm=[*axes, *rest])
    places = _stacked(e, indices)
    spread = e("Concat", e("Slice", e("Shape", places), e.ints([0]), e.ints([-1])),
               e.shape([dims(node)[i] for i in rest]), axis=0)
    first = axes[0] if adjacent else 0
    if first:  # v has the axes before the indexed ones first: they go behind the indices
        grown = len(dims(node, 1))
        v = e("Unsqueeze", v, e.ints(range(width + len(rest) - grown))) if grown < width + len(rest) else v
        v = e("Transpose", v, perm=[*range(first, first + width), *range(first), *range(first + width,
                                                                                         width + len(rest))])
    updates = e("Expand", v, spread)
    reduction = "add" if node.attrs["accumulate"] else "none"
    y = e("ScatterND", moved, places, updates, reduction=reduction)
    order = [*axes, *rest]
    return e("Transpose", y, perm=[order.index(i) for i in range(rank)])


@row("scatter", "scatter_add")
def _scatter(e: Emitter, node: Node, x: str, i: str, src: str) -> str:
    reduction = "add" if node.op == "scatter_add" else "none"
    return e("ScatterElements", x, i, src, axis=node.attrs["axis"], reduction=reduction)


@row("slice_scatter", "slice_add")
def _slice_scatter(e: Emitter, node: Node, x: str, src: str) -> str:
    return _written(e, node, x, src, **node.attrs)


@row("select_scatter", "select_add")
def _select_scatter(e: Emitter, node: Node, x: str, src: str) -> str:
    axis, index = node.attrs["axis"], node.attrs["index"]
    wide = e("Unsqueeze", src, e.ints([axis]))
    return _written(e, node, x, wide, axis, index, 1, 1)


def _written(e: Emitter, node: Node, x: str, src: str, axis: int, start: Size, length: Size, step: Size) -> str:
    """x with src written or added at a slice of an axis."""
    sizes = list(dims(node))
    sizes[axis] = length
    where = e("Add", e("Mul", _range(e, length), e.size(step)), e.size(start))
    column = e("Reshape", where, e.ints([-1 if i == axis else 1 for i in range(len(sizes))]))
    shape = e.shape(sizes)
    return e("ScatterElements", x, e("Expand", column, shape), e("Expand", src, shape), axis=axis,
             reduction="add" if node.op.endswith("_add") else "none")


@row("nonzero")
def _nonzero(e: Emitter, node: Node, x: str) -> str:
    if not dims(node):
        raise e.fail("`nonzero` of a 0-dim tensor")
    return e("Transpose", e("NonZero", x), perm=[1, 0])


@row("sort", "argsort", "topk")
def _sort(e: Emitter, node: Node, x: str) -> Any:
    axis = node.attrs["axis"]
    k = node.attrs["k"] if node.op == "topk" else dims(node)[axis]
    largest = node.attrs["largest"] if node.op == "topk" else node.attrs["descending"]
    values, indices = e.several("TopK", [x, e.one_size(k)], 2, axis=axis, largest=int(largest), sorted=1)
    return indices if node.op == "argsort" else [values, indices]


# --- products ------------------------------------------------------------------------------------------------------


@row("conv_transpose")
def _conv_transpose(e: Emitter, node: Node, g: str, w: str) -> str:
    """ONNX counts the result's size from the windows: what `shape` has beyond is padded, what it lacks is cut."""
    shape, how = node.attrs["shape"], _windowing(node)
    whole = e("ConvTranspose", g, w, strides=how["strides"], dilations=how["dilations"], group=how["group"])
    pads = node.attrs["padding"]
    n = len(pads)
    axes = e.ints(range(2, 2 + n))
    reach = e.shape([p + s for p, s in zip(pads, shape[2:], strict=True)])
    missing = e("Max", e("Sub", reach, e("Slice", e("Shape", whole), e.ints([2]), e.ints([2 + n]))), e.ints([0]))
    widths = e("Concat", e.ints([0] * (4 + n)), missing, axis=0)
    padded = e("Pad", whole, widths, literal(e, 0, node))
    return e("Slice", padded, e.ints(pads), reach, axes)


def _windowing(node: Node) -> dict[str, Any]:
    attrs = node.attrs
    values = [*attrs["stride"], *attrs["padding"], *attrs["dilation"], attrs["groups"]]
    if not all(isinstance(v, int) for v in values):
        raise ValueError(f"a convolution whose strides are not constants ({node.span})")
    return {"strides": list(attrs["stride"]), "pads": [*attrs["padding"], *attrs["padding"]],
            "dilations": list(attrs["dilation"]), "group": attrs["groups"]}


@row("max_pool")
def _max_pool(e: Emitter, node: Node, x: str) -> Any:
    """ONNX counts flat indices over the whole tensor, jitgrad in the plane; what `shape` lacks at the end is cut."""
    kernel, stride, padding, dilation = (list(node.attrs[k]) for k in ("kernel", "stride", "padding", "dilation"))
    n = len(kernel)
    values, indices = e.several("MaxPool", [x], 2, kernel_shape=kernel, strides=stride, pads=[*padding, *padding],
                                dilations=dilation, ceil_mode=1)
    axes, zeros = e.ints(range(2, 2 + n)), e.ints([0] * n)
    ends = e.shape(node.attrs["shape"])
    plane = e.size(1)
    for size in dims(node)[2:]:
        plane = e("Mul", plane, e.size(size))
    return [e("Slice", values, zeros, ends, axes), e("Mod", e("Slice", indices, zeros, ends, axes), plane)]


# --- creation ------------------------------------------------------------------------------------------------------


@row("full", "fill")
def _full(e: Emitter, node: Node, *value: str) -> str:
    shape, kind = node.attrs["shape"], node.attrs["dtype"].np
    made = e.cast(value[0], kind) if value else e.constant(node.attrs["value"], kind)
    return e("Expand", made, e.shape(shape)) if shape else made


ROWS |= {
    "conv": lambda e, node, x, w: e("Conv", x, w, **_windowing(node)),
    "arange": lambda e, node: e.cast(_range(e, node.attrs["length"]), node.attrs["dtype"].np),
    "dim.value": lambda e, node: e.size(node.attrs["dim"]),
}


@row("item")
def _item(e: Emitter, node: Node, x: str) -> str:
    flat = e("Reshape", x, e.ints([])) if dims(node) else x
    return e.cast(flat, numpy_type(node.output.type, node.span))


@row("dim.bind")
def _dim_bind(e: Emitter, node: Node, number: str) -> str:
    assert node.inputs[0].type == INT
    e.bind(node.attrs["symbol"], number)
    return e("Identity", number)
