"""Lists and tuples that a script is given with a length known at run time.

Each number or tensor of an item is one graph input, a list (`signature.Column`). A size that all tensors of a list have
is a symbol, read from the first of them; other sizes are open, as in any list of run-time length. The items are the
caller's memory: they are not written; where they are returned, they are the very objects.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, dim
from jitgrad.ops.types import BOOL, FLOAT, INT, ListType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.list_kinds import Kind, Tensors, column, paths
from jitgrad.script.frontend.boundary import placement
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import item_origins
from jitgrad.script.frontend.templates.alternatives import Num
from jitgrad.script.frontend.templates.sequences import Items
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import ARGUMENT, Tensor
from jitgrad.script.frontend.values.values import RunItems
from jitgrad.script.graph.ir import Block, Value

_NUMBERS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}


def items(context: Context, value: Sequence[Any], source: sig.Source, kind: Kind) -> RunItems:
    """What a list of any length holds, as graph inputs."""
    inputs = context.inputs
    leaves: list[Value] = []
    parts: list[Template] = []
    n = inputs.number_of_items(value, source)
    for path, part in paths(kind):
        place, found = sig.Column(source, path), column(value, path)
        if isinstance(part, Tensors):
            type_, template = _tensors(context, found, place, part)
            inputs.memory.list(found)
        else:
            type_, template = _NUMBERS[part], Num(part)
        leaf = inputs.add(ListType(type_), place, "items")
        if isinstance(part, Tensors) and part.requires_grad:
            context.builder.history.add(leaf.id)
            inputs.given.append(leaf)
        leaves.append(leaf)
        if isinstance(part, Tensors):
            leaves += _origins(context, leaf, n)
        parts.append(template)
    context.remember_outermost(("length", leaves[0]), n)
    return RunItems(_element(kind, iter(parts)), tuple(leaves))


def _origins(context: Context, leaf: Value, n: Value) -> tuple[Value, ...]:
    """What says of every item which object of the caller it is (`item_origins.py`), made at the head of the graph."""
    head, type_ = Block(), ListType(INT)
    k, *carried = Value(INT, "k"), Value(type_), Value(type_)
    body = Block((k, *carried))
    with context.block(head):
        starts = [context.one("list.new", type=type_) for _ in carried]
        with context.block(body):
            number = context.constant(item_origins.column(context, leaf))
            body.results = tuple([context.one("list.put", c, k, v) for c, v in zip(carried, (number, k), strict=True)])
        found = context.builder.emit("scan", (n, *starts), blocks=(body,), types=(type_, type_), n_carries=2,
                                     reverse=False)
    context.path[0].nodes[:0] = head.nodes
    return found


def _tensors(context: Context, found: list[Any], place: sig.Column, kind: Tensors) -> tuple[Type, Template]:
    placement.see(context, kind.device)
    dims: list[Size] = []
    for axis, (one, same) in enumerate(zip(kind.ones, kind.same, strict=True)):
        size: Size = 1
        if one is not True and same:
            size = context.sizes.argument(found[0].shape[axis])
            assert isinstance(size, Dim)
            assert size.symbol is not None
            context.inputs.extents[size.symbol] = sig.Extent(place, axis)
        elif one is not True:
            symbol = Symbol(not_one=one is False)
            context.open.add(symbol)
            size = dim(symbol)
        dims.append(size)
    made = Tensor(kind.dtype, tuple(dims), kind.requires_grad, ARGUMENT, kind.ordered, kind.requires_grad,
                     origin=2, device=kind.device)
    return TensorType(kind.dtype, tuple(dims)), made


def _element(kind: Kind, parts: Iterator[Template]) -> Template:
    if isinstance(kind, tuple):
        return Items(tuple, tuple([_element(k, parts) for k in kind]))
    return next(parts)


def bind_sizes(context: Context) -> None:
    """Bind what is left of the symbols for sizes of lists: those that no tensor among the inputs has."""
    inputs, sizes = context.inputs, context.sizes
    known = {d.symbol for v in inputs.values if isinstance(v.type, TensorType)
             for d in map(sizes.canonical, v.type.dims) if isinstance(d, Dim)}
    for symbol, place in inputs.extents.items():
        size = sizes.canonical(dim(symbol))
        if isinstance(size, Dim) and size.symbol is not None and size.symbol not in known:
            known.add(size.symbol)
            number = inputs.add(INT, place, "size")
            context.builder.emit("dim.bind", (number,), types=(INT,), binds=(size.symbol,), symbol=size.symbol)
            nodes = context.builder.block.nodes
            nodes.insert(0, nodes.pop())
