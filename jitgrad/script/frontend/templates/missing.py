"""Tensors that may be missing: made on one side of a branch, or by an iteration of a loop that may not run."""

from jitgrad.dims import Symbol, dim, symbols
from jitgrad.ops.types import OptionalType, TensorType, map_dims
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.heap import of, read, stored
from jitgrad.script.frontend.values.values import SymTensor
from jitgrad.script.graph.ir import Block, Value


def read_if_there(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value; an Optional where the tensor was made on one side of a branch, or in a loop."""
    held = stored(context, tensor.storage)
    if not isinstance(held.type, OptionalType):
        return read(context, tensor)
    if not tensor.path:
        return held
    there, missing = Block(), Block()
    with context.block(there):
        whole = read(context, tensor)
        value = context.one("opt.some", whole)
        there.results = (value,)
    with context.block(missing):
        elem = map_dims(whole.type, lambda d: d if isinstance(d, int) else 0)
        missing.results = (context.one("opt.none", type=elem),)
    (found,) = context.builder.emit("if", (context.one("opt.has", held),), blocks=(there, missing), types=(value.type,))
    context.mark_history((found,), (context.has_history(value),))
    return found


def read_or_nothing(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value, or zeros that nobody looks at: it is part of a container that may be missing."""
    held = stored(context, tensor.storage)
    if not isinstance(held.type, OptionalType):
        return read(context, tensor)
    there, missing = Block(), Block()
    with context.block(there):
        there.results = (read(context, tensor),)
    (value,) = there.results
    assert isinstance(value.type, TensorType)
    unknown = of(context).optional_sizes
    dims = tuple([Symbol() if unknown.intersection(symbols(d)) else d for d in value.type.dims])
    with context.block(missing):
        zero = tuple([0 if isinstance(d, Symbol) else d for d in dims])
        missing.results = (context.one("full", value=0, shape=zero, dtype=value.type.dtype),)
    fresh = tuple([d for d in dims if isinstance(d, Symbol)])
    type_ = TensorType(value.type.dtype, tuple([dim(d) if isinstance(d, Symbol) else d for d in dims]))
    (found,) = context.builder.emit("if", (context.one("opt.has", held),), blocks=(there, missing), types=(type_,),
                                    binds=fresh)
    context.mark_history((found,), (context.has_history(value),))
    return found
