"""Templates of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.classes import dataclass, replace
from jitgrad.device import device as Device
from jitgrad.dims import Size, Symbol, dim, symbols
from jitgrad.dtypes import dtype
from jitgrad.ops.batching.backend import BatchBackend, spread
from jitgrad.ops.types import INT, OptionalType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.batches.complex import COMPLEX
from jitgrad.script.frontend.batches.items import marked
from jitgrad.script.frontend.state import versions
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.layout import joined_order
from jitgrad.script.frontend.templates import item_origins
from jitgrad.script.frontend.templates.run_lists import ELEMENT
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.heap import of, shown, stored
from jitgrad.script.frontend.values.protocol import argument
from jitgrad.script.frontend.values.values import SymTensor, Union
from jitgrad.script.graph.ir import Block, Value

#: why nobody writes to a tensor of the caller's
ARGUMENT = "it is the memory of an argument"


@dataclass(frozen=True, slots=True)
class Tensor(Template):
    """A tensor with memory of its own.

    `alias` says whose memory it may share, or is empty; `ordered`: see Storage. `leaf`: it may be a leaf, whose
    `.grad` is known by other names only. `origin`: how many ints go with it, or are unknown (`item_origins.py`);
    `place`: how many would, as an item of a list. `device`: see Storage. `batches`: the vmaps of which it is an item.
    `parameter`: it may be an `nn.Parameter` that the script made.
    """

    dtype: dtype
    dims: tuple[Size, ...]
    history: bool
    alias: str = ""
    ordered: bool | None = True
    leaf: bool = False
    origin: int = 0
    place: int = 0
    device: Device | None = None
    batches: tuple[BatchBackend, ...] = ()
    parameter: bool = False

    def __str__(self) -> str:
        return f"a tensor {current().sizes.word(TensorType(self.dtype, self.dims))}"

    def renamed(self, size: Callable[[Size], Size]) -> Tensor:
        return replace(self, dims=tuple([size(d) for d in self.dims]))

    def opened(self, elements: Elements) -> Tensor:
        return self.renamed(lambda d: elements.join(d, d))

    def alike(self, other: Template) -> bool:
        return isinstance(other, Tensor) and self.dtype is other.dtype and (
            max(self.origin, 0) == max(other.origin, 0) and self.batches == other.batches)

    def joined(self, other: Template, widen: Sizer) -> Template:
        if not isinstance(other, Tensor):
            raise Clash(f"{self} and {other}")
        if self.dtype is not other.dtype:
            raise Clash(f"a tensor of dtype {self.dtype.name} and one of dtype {other.dtype.name}")
        if self.batches != other.batches:
            every = max(self.batches, other.batches, key=len)
            return self.of_batches(every).joined(other.of_batches(every), widen)
        if len(self.dims) != len(other.dims):
            raise Clash(f"a tensor of rank {len(self.dims)} and one of rank {len(other.dims)}")
        if self.device is not None and other.device is not None and self.device != other.device:
            raise Clash(f"a tensor on {self.device} and one on {other.device}")
        return Tensor(self.dtype, tuple([widen.join(x, y) for x, y in zip(self.dims, other.dims, strict=True)]),
                      self.history or other.history, _memory(self.alias, other.alias),
                      joined_order(self.ordered, other.ordered), self.leaf or other.leaf,
                      _wider(_active(self, other), _active(other, self)), device=self.device or other.device,
                      batches=self.batches, parameter=self.parameter or other.parameter)

    def of_batches(self, batches: tuple[BatchBackend, ...]) -> Tensor:
        """The template of an item of these vmaps, which are more: the same tensor for each."""
        if batches == self.batches:
            return self
        if COMPLEX in batches[len(self.batches):]:
            raise Clash("a complex tensor and a real one")
        if batches[:len(self.batches)] != self.batches or self.origin or self.place:
            raise Clash(f"an item of one vmap and one of another, {self}")
        n = len(self.batches)
        sizes: Any = [b.size if isinstance(b.size, int) else numbers.size_of(b.size) for b in batches[n:]]
        return replace(self, dims=(*self.dims[:n], *sizes, *self.dims[n:]), batches=batches, alias="", leaf=False)

    def as_optional(self) -> Tensor:
        return replace(self, origin=item_origins.UNKNOWN) if self.place and not self.origin else self

    def as_element(self, elements: Elements) -> Tensor:
        if self.batches:
            raise Clash("a list of run-time length that holds items of a vmap, or complex tensors")
        alias = self.alias if self.alias.startswith(ARGUMENT) else ELEMENT
        return replace(self.opened(elements), alias=alias, origin=_wider(self.origin, self.place), place=0)

    def enlist(self, context: Context, *values: Any) -> Tensor:
        aliases = [v.storage.alias for v in values if isinstance(v, SymTensor) and v.storage.alias]  # noted since
        return replace(self, alias=aliases[0]) if aliases and not self.alias else self

    def types(self) -> list[Type]:
        return [TensorType(self.dtype, self.dims), *[INT] * self.origin]

    def histories(self) -> list[bool]:
        return [self.history, *[False] * self.origin]

    def lower(self, context: Context, value: Any) -> list[Value]:
        origin = item_origins.values(context, value, self.origin)
        if isinstance(value, Union):
            value = argument(context, value)
            assert not isinstance(value, Union)  # of one type, or the template would be of several
        if isinstance(value, SymTensor):
            versions.of(context).join(value.storage, (self.dtype, len(self.dims)))
            if self.batches:
                value = spread(value, list(self.batches))
            return [read_or_nothing(context, value), *origin]
        filled = context.one("fill", numbers.value_of(context, value), shape=(), dtype=self.dtype)
        if self.batches:
            filled = heap.read(context, spread(heap.new_tensor(context, filled), list(self.batches)))
        return [filled, *origin]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> SymTensor:
        tensor = marked(heap.holding(context, next(leaves), self.alias), self.batches)
        storage = tensor.storage
        versions.of(context).join(storage, (self.dtype, len(self.dims)))
        storage.ordered, storage.was_leaf, storage.device = self.ordered, self.leaf, self.device
        storage.origin = tuple([next(leaves) for _ in range(self.origin)])
        storage.unknown, storage.parameter = self.origin == item_origins.UNKNOWN, None if self.parameter else False
        return tensor


def numbers_of(t: Template | None, made: sig.Result) -> sig.Result:
    """The recipe for what a graph output of a template is: a complex tensor where that says so."""
    return sig.Complex(made) if isinstance(t, Tensor) and COMPLEX in t.batches else made


def _wider(a: int, b: int) -> int:
    """How many ints say what either of two tensors is."""
    return item_origins.UNKNOWN if item_origins.UNKNOWN in (a, b) else max(a, b)


def _active(t: Tensor, other: Tensor) -> int:
    """The ints that go with a tensor beside another one: those of a tensor outside of lists only if that has some."""
    return _wider(t.origin, t.place) if other.origin else t.origin


def _memory(a: str, b: str) -> str:
    """Whose memory one of two tensors may be."""
    return next((x for x in (a, b) if x.startswith(ARGUMENT)), a or b)


# --- tensors that may be missing: made on one side of a branch, or in a loop that may not run -------------------------


def read_or_nothing(context: Context, tensor: SymTensor) -> Value:
    """The tensor's current value, or zeros that nobody looks at: it is part of a container that may be missing."""
    held = stored(context, tensor.source[0])
    if not isinstance(held.type, OptionalType):
        return shown(context, tensor)
    there, missing = Block(), Block()
    with context.block(there):
        there.results = (shown(context, tensor),)
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
