"""Which tensor of the caller an item of a list is, where that is known at run time: ints that go with the item.

The first says which `signature.Reference` it is, -1: none, a tensor that the script made. The others are what that
depends on: sizes and positions of a view, the position in a list that was given. So a list of run-time length gives
back the very objects that were put into it. The same ints go with what branches and loops bring together, where it
leaves the script (`ORIGINS`); they also say which is a leaf that the script made. Below -1 they say which of its
tensors one is, as the state counts them (`heap.BIRTHS`): it may be in several places of a list, in several variables.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.dims import Dim, Size, Symbol, dim, substitute
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import copies, dispatch
from jitgrad.script.frontend.state.context import ORIGINS, Context, Restart, State
from jitgrad.script.frontend.templates import alternatives
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import Path, Storage, SymTensor, Union
from jitgrad.script.graph.ir import Value, attr_symbols, map_attr

#: an item that may be memory of the caller, or a leaf with a `.grad`, nobody knows which
UNKNOWN = -1
#: at most so many ints go with an item: a view of a view of an item, and so on in a loop, ends as UNKNOWN
MOST = 12


@dataclass(slots=True)
class References:
    """What items of lists may be, what sizes in their views are called, and which leaves the script made and brought
    together with other tensors."""

    references: list[sig.Reference] = field(default_factory=list)
    placeholders: list[Symbol] = field(default_factory=list)
    leaves: set[Storage] = field(default_factory=set)


def of(context: Context) -> References:
    """The record of an evaluation."""
    return context.part(References)


def ask(context: Context) -> None:
    """Which object a tensor is that leaves the script must be known: the evaluation begins again where it was not."""
    if ORIGINS not in context.decisions:
        raise Restart(ORIGINS, "with what a branch or loop brings goes which object it is")


def own_leaf(tensor: SymTensor) -> bool:
    """Whether a tensor is a leaf that the script made."""
    return tensor.storage.requires_grad and tensor.storage.input < 0 and not tensor.path


def count(context: Context, tensor: SymTensor, state: State | None = None) -> int:
    """How many ints say what a tensor of a state is; 0 for one that the script made, or UNKNOWN."""
    storage = tensor.storage
    known = len(storage.origin) or int(storage.birth is not None and not tensor.path)
    if own_leaf(tensor):
        return 1 + known if (state or context.state).values.get(("grad", storage)) is None else UNKNOWN
    copied = storage in copies.of(context).stands or (storage.was_leaf and not tensor.path)
    if copied and not known and not context.by_reference:
        return UNKNOWN
    if storage.input >= 0:
        return 1 + len(_symbols(context, tensor.path))
    if known:
        known += 1 + len(_symbols(context, tensor.path)) if tensor.path else 0
        return known if known <= MOST else UNKNOWN
    if storage.unknown:
        return UNKNOWN
    return 0


def of_whole(context: Context, storage: Storage) -> tuple[Value, ...]:
    """The ints that say what a tensor is that is no view; none where nobody asks that of one that the script made."""
    if storage.birth is None or storage.origin:
        return storage.origin
    return (numbers.value_of(context, dispatch.binary_number(context, "sub", -2, storage.birth, checked=False)),)


def values(context: Context, value: Any, n: int) -> list[Value]:
    """The `n` ints that say what a tensor is, or a number that becomes one, or one of several."""
    found = none(context, n)
    if n > 0 and isinstance(value, SymTensor):
        found = _values(context, value)
    elif n > 0 and isinstance(value, Union):
        for k, one in enumerate(value.statics):
            chosen = context.one("num.eq", alternatives.tag_of(context, value), context.constant(k))
            found = [context.one("num.select", chosen, a, b)
                     for a, b in zip(values(context, one, n), found, strict=True)]
    return [*found, *(context.constant(0) for _ in range(n - len(found)))]


def none(context: Context, n: int) -> list[Value]:
    """The `n` ints of a tensor that the script made."""
    return [context.constant(k) for k in (-1, *(0,) * (n - 1))][:n]


def _values(context: Context, tensor: SymTensor) -> list[Value]:
    storage = tensor.storage
    origin = of_whole(context, storage)
    if own_leaf(tensor):
        of(context).leaves.add(storage)
        path: Path = ()
        owner = heap.of(context).borrowed.get(storage)
        root = -1 if owner is None else owner.input
        if root >= 0:
            path = next(path for other, path, _ in heap.of(context).leaves_in[storage] if other is owner)
            origin = ()
        return [context.constant(_number(context, root, len(origin), path, (), leaf=True)), *origin]
    if storage.input >= 0:
        symbols = _symbols(context, tensor.path)
        number = _number(context, storage.input, 0, tensor.path, symbols)
        return [context.constant(number), *_sizes(context, symbols)]
    if storage.origin and tensor.path:
        symbols = _symbols(context, tensor.path)
        number = _number(context, -1, len(origin), tensor.path, symbols)
        is_made = context.one("num.lt", origin[0], context.constant(0))
        first = context.one("num.select", is_made, context.constant(-1), context.constant(number))
        return [first, *origin, *_sizes(context, symbols)]
    if origin and not tensor.path:
        return list(origin)
    return none(context, 1)


def _symbols(context: Context, path: Path) -> list[Symbol]:
    """What a view depends on."""
    used: set[Symbol] = set()
    for _, attrs in path:
        for a in attrs.values():
            used |= attr_symbols(_canonical(context, a))
    return sorted(used, key=lambda s: s.number)


def _canonical(context: Context, attr: Any) -> Any:
    return map_attr(attr, context.sizes.canonical)


def _sizes(context: Context, symbols: Sequence[Symbol]) -> list[Value]:
    return [context.one("dim.value", dim=dim(s)) for s in symbols]


def column(context: Context, leaf: Value) -> int:
    """The number of the reference that is an item of a list that was given, as graph input `leaf`."""
    return _add(context, sig.Reference(context.inputs.values.index(leaf), 1, (), ()))


def _number(context: Context, root: int, base: int, path: Path, symbols: Sequence[Symbol], leaf: bool = False) -> int:
    """The number of the reference that is a view, or a leaf made of one."""
    places = of(context).placeholders
    while len(places) < len(symbols):
        places.append(Symbol())
    names: dict[Any, Size] = {s: dim(p) for s, p in zip(symbols, places, strict=False)}

    def renamed(size: Dim) -> Size:
        return substitute(size, names)

    steps = tuple([(op, {k: map_attr(_canonical(context, a), renamed) for k, a in attrs.items()})
                   for op, attrs in path])
    return _add(context, sig.Reference(root, base, steps, tuple(places[:len(symbols)]), leaf))


def _add(context: Context, reference: sig.Reference) -> int:
    known = of(context).references
    if reference not in known:
        known.append(reference)
    return known.index(reference)
