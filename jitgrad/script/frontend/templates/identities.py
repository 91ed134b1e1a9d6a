"""Which object is which where two states meet: what names, items and attributes refer to goes on being that.

What was there before stays what it is. An object that one side made goes on as one that may be missing; two that the
sides made in the same place go on as one. Its content is merged, each reference to it says which it is: a merged name
is one of several objects by a tag, a `Union`. So a write reaches the one that the run chose, and whoever else refers to
it sees the write.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from jitgrad.dims import Size, Symbol, dim, substitute, symbols
from jitgrad.ops.types import INT, OptionalType, TensorType, Type
from jitgrad.script.frontend.state import layout, versions
from jitgrad.script.frontend.state.context import TYPES_APART, Context, State
from jitgrad.script.frontend.state.paths import mapped, paths_equal, view_type
from jitgrad.script.frontend.templates import item_origins, run_lists
from jitgrad.script.frontend.templates.alternatives import Either, Same, Static
from jitgrad.script.frontend.templates.of_values import content_template, record, template_of
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.sizes import Widener
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers, writing
from jitgrad.script.frontend.values.values import (UNBOUND, Boxed, Instance, Number, RunPairs, RunText, Storage,
                                                   SymDict, SymList, SymTensor, Text, Union, is_held, refers)
from jitgrad.script.graph.ir import Block, Value

Steps = tuple[Any, ...]
Cell = Any  # a Storage, or a container: what a reference refers to


def cell_of(value: Any) -> Cell:
    """What a value refers to; None for what is no reference."""
    if isinstance(value, SymTensor):
        return value.storage
    return value if is_held(value) else None


def references(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """The references in a value, those in what a union may be included, and the way to each."""
    if refers(value):
        yield steps, value
    elif isinstance(value, RunPairs):  # its lists are its own
        return
    elif isinstance(value, (tuple, dict)):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from references(item, (*steps, name))
    elif isinstance(value, Union):
        yield from references(value.statics, (*steps, "one of"))
        if value.inner is not None:
            yield from _referenced(value.inner, (*steps, "inner"))


def shared(state: State) -> set[Cell]:
    """What more than one place refers to, and what that holds."""
    counts = Counter(cell_of(v) for held in state.values.values() for _, v in references(held))
    pending = [c for c, n in counts.items() if n > 1]
    found = set(pending)
    while pending:
        inside = {cell_of(v) for _, v in references(state.values.get(pending.pop()))} - found
        found |= inside
        pending += inside
    return found


def written(value: Any, before: State, after: State) -> bool:
    """Whether what a value holds, or the containers in that, holds something else in the second state."""
    cells = [ref for _, ref in references(value) if is_held(ref)]
    for cell in cells:  # which grow
        if before.values.get(cell) is not after.values.get(cell):
            return True
        cells += [ref for _, ref in references(after.values.get(cell)) if is_held(ref) and ref not in cells]
    return False


def _referenced(t: Template, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(t, (Static, Same)):
        yield from references(t.value, steps)
    elif isinstance(t, Either):
        yield from references(t.statics, steps)
    for k, part in enumerate(t.parts):
        yield from _referenced(part, (*steps, k))


def replaced(value: Any, change: Callable[[Any, Steps], Any], steps: Steps = ()) -> Any:
    """A value with `change` applied to the references in it; it is given the way to each, too."""
    if refers(value):
        return change(value, steps)
    if isinstance(value, tuple):
        items = [replaced(v, change, (*steps, k)) for k, v in enumerate(value)]
        if all(x is y for x, y in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict) and not isinstance(value, RunPairs):
        held = {k: replaced(v, change, (*steps, k)) for k, v in value.items()}
        return value if all(held[k] is v for k, v in value.items()) else held
    if isinstance(value, Union):
        statics = replaced(value.statics, change, (*steps, "one of"))
        inner = value.inner and _replaced(value.inner, change, (*steps, "inner"))
        if statics is value.statics and inner is value.inner:
            return value
        return Union(statics, inner, value.tag, value.leaves, value.copied)
    return value


def _replaced(t: Template, change: Callable[[Any, Steps], Any], steps: Steps) -> Template:
    if isinstance(t, (Static, Same)):
        found = replaced(t.value, change, steps)
        return t if found is t.value else replace(t, value=found)
    if isinstance(t, Either):
        statics = replaced(t.statics, change, steps)
        inner = t.inner and _replaced(t.inner, change, (*steps, 0))
        return t if statics is t.statics and inner is t.inner else replace(t, statics=statics, inner=inner)
    parts = iter([_replaced(p, change, (*steps, k)) for k, p in enumerate(t.parts)])
    return t.map(lambda _: next(parts))


def given(cell: Cell) -> bool:
    """Whether the script was given a cell."""
    return cell.input >= 0 if isinstance(cell, Storage) else cell.source is not None


def referring(context: Context, value: Any, general: bool = False) -> Template:
    """The template of a value in which references stay references."""
    if refers(value):
        return Static(value)
    if isinstance(value, tuple):
        return Items(type(value), tuple([referring(context, v, general) for v in value]))
    if isinstance(value, Union):
        return Either(value.statics, value.inner, value.copied)
    return template_of(context, value, general)


def content_of(context: Context, cell: Cell, held: Any, general: bool = False) -> Template:
    """The template of what a cell holds."""
    if isinstance(held, Value):
        type_ = held.type.elem if isinstance(held.type, OptionalType) else held.type
        assert isinstance(type_, TensorType)
        history = context.has_history(held) and not cell.requires_grad  # a leaf's content has none
        t = Tensor(type_.dtype, tuple([context.sizes.canonical(d) for d in type_.dims]), history)
        return Either((UNBOUND,), t) if isinstance(held.type, OptionalType) else t
    if type(held) is tuple:
        return Items(SymList, tuple([referring(context, v, general) for v in held]))
    if isinstance(held, dict) and not isinstance(held, RunPairs):
        kind = SymDict if isinstance(cell, SymDict) else cell.cls
        return Record(kind, tuple(held), tuple([referring(context, v, general) for v in held.values()]))
    return by_value(context, cell, held, general)


def by_value(context: Context, cell: Cell, held: Any, general: bool = False) -> Template:
    """The template of what a container holds, of which the items are copied: they become items of a list of run-time
    length, or keys and values of such a dict."""
    if isinstance(cell, SymList):
        return content_template(context, held, general, type(cell))
    return record(context, cell, held, general)


def item_by_item(a: Any, b: Any) -> bool:
    """Whether what a cell holds on two sides has the same structure."""
    if isinstance(a, Value):
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return not isinstance(a, RunPairs) and not isinstance(b, RunPairs) and tuple(a) == tuple(b)
    return type(a) is type(b) is tuple and len(a) == len(b)


class Identities:
    """The objects of two states, and what each is where they meet.

    Args:
        context: the evaluation.
        states: of the two sides.
        widen: the sizes of the merge.
    """

    def __init__(self, context: Context, states: tuple[State, State], widen: Widener):
        self.context, self.states, self.widen = context, states, widen
        self._after: tuple[dict[Cell, Cell], dict[Cell, Cell]] = ({}, {})
        self._renamed: tuple[dict[Symbol, Size], dict[Symbol, Size]] = ({}, {})
        self._fresh: list[tuple[Cell, tuple[Any, Any]]] = []  # cells of this merge, and what they hold on either side
        self._exported: list[tuple[int, Symbol, Symbol]] = []

    def is_older(self, cell: Cell) -> bool:
        """Whether both sides know a cell."""
        return given(cell) or all(cell in state.values for state in self.states)

    # --- which is which --------------------------------------------------------------------------------------------

    def pair(self, a: Any, b: Any) -> None:
        """Take objects that the two sides made for one, if they are in the same place."""
        if isinstance(a, dict) and isinstance(b, dict):
            for name in a.keys() & b.keys() if not isinstance(a, RunPairs) and not isinstance(b, RunPairs) else ():
                self.pair(a[name], b[name])
            return
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                self.pair(x, y)
            return
        one, other = cell_of(a), cell_of(b)
        if one is None or other is None or self.is_older(one) or self.is_older(other) or (
                one in self._after[0] or other in self._after[1]):
            return
        made = self._joined(a, b, one, other)
        if made is None:
            return
        held = self._content(0, one), self._content(1, other)
        self._after[0][one] = self._after[1][other] = made
        self._fresh.append((made, held))
        self.pair(*held)

    def _joined(self, a: Any, b: Any, one: Cell, other: Cell) -> Cell | None:
        if isinstance(one, Storage):
            s, t = one.type, other.type if isinstance(other, Storage) else None
            if t is None or s.dtype is not t.dtype or len(s.dims) != len(t.dims) or not self._seen_alike(a, b) or (
                    one.device is not None and other.device is not None and one.device != other.device):
                return None
            dims = tuple([self.widen.join(x, y) for x, y in zip(s.dims, t.dims, strict=True)])
            return self._storage(TensorType(s.dtype, dims), one, other)
        if type(one) is not type(other) or (isinstance(one, Instance) and one.cls is not other.cls):
            return None
        return like(self.context, one, other)

    def _seen_alike(self, a: SymTensor, b: SymTensor) -> bool:
        """Whether two references show their tensors in the same way, by sizes that are known outside."""
        return paths_equal(a.path, b.path) and self.widen.sees(a.path)

    def _storage(self, type_: TensorType, *sides: Storage) -> Storage:
        made = Storage(type_, alias=next((s.alias for s in sides if s.alias), ""))
        made.block = self.context.path[-1]
        made.ordered = layout.joined_order(*[s.ordered for s in sides])
        made.was_leaf = any(s.was_leaf or s.requires_grad for s in sides)
        made.unknown = any(s.unknown for s in sides)
        made.parameter = None if any(s.parameter is not False for s in sides) else False
        made.made = versions.made_alike([SymTensor(s, (), s.type) for s in sides])
        made.inference = all(s.inference for s in sides)
        for s in sides:
            versions.of(self.context).join(s, made)
        made.device = next((s.device for s in sides if s.device is not None), None)
        return made

    def refer(self, side: int, value: Any) -> Any:
        """A value of one side in terms of the cells that are there afterwards."""
        return replaced(value, lambda v, _: self._refer(side, v))

    def _refer(self, side: int, value: Any) -> Any:
        if not isinstance(value, SymTensor):
            return self._cell(side, value)
        cell = self._cell(side, value.storage)
        path = mapped(value.path, lambda d: self._size(side, d))
        if cell is value.storage and path == value.path:
            return value
        if value.copied:
            layout.doubt(self.context, cell)
        return SymTensor(cell, path, view_type(cell.type, path), value.copied, value.unrecorded)

    def _cell(self, side: int, cell: Cell) -> Cell:
        """What a cell of one side is afterwards: one that only this side made may be missing."""
        if self.is_older(cell):
            return cell
        found = self._after[side].get(cell)
        if found is None:
            if isinstance(cell, Storage):
                dims = tuple([self.widen.alone(self.context.sizes.canonical(d)) for d in cell.type.dims])
                found = self._storage(TensorType(cell.type.dtype, dims), cell)
                fresh = {s for d in dims for s in symbols(d)}.intersection(self.widen.fresh)
                heap.of(self.context).optional_sizes.update(fresh)
            else:
                found = like(self.context, cell)
            self._after[side][cell] = found
            held = [None, None]
            held[side] = self._content(side, cell)
            self._fresh.append((found, (held[0], held[1])))
        return found

    def _content(self, side: int, cell: Cell) -> Any:
        return self.states[side].values[cell]

    def _size(self, side: int, size: Size) -> Size:
        """A size that only one side knows as one that is known afterwards."""
        size = self.context.sizes.canonical(size)
        if isinstance(size, int) or self.widen.visible(size):
            return size
        known = self._renamed[side]
        for s in sorted(symbols(size), key=lambda s: s.number):
            if s not in known and not self.widen.visible(dim(s)):
                known[s] = new = self.widen.new(s.not_one)
                self._exported.append((side, s, next(iter(symbols(new)))))
        return substitute(size, known)

    # --- what is merged --------------------------------------------------------------------------------------------

    def template(self, value: tuple[Any, Any]) -> Template:
        """The template of a name's two values, as `refer` has them."""
        one, other = (self._in(side, referring, v) for side, v in enumerate(value))
        return one.join(other, self.widen)

    def apart(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two values, of which what no one value can hold is in boxes."""
        try:
            self.template((self.refer(0, a), self.refer(1, b)))
        except Clash:
            if item_by_item(a, b) and not isinstance(a, Value) and type(a) is type(b):
                names = a if isinstance(a, dict) else range(len(a))
                pairs = {n: self.apart(a[n], b[n]) for n in names}
                one, other = ({n: p[side] for n, p in pairs.items()} for side in range(2))
                if isinstance(a, dict):
                    return one, other
                make = type(a)._make if hasattr(a, "_fields") else type(a)
                return make(one.values()), make(other.values())
            return self._boxed(0, a), self._boxed(1, b)
        return a, b

    def _boxed(self, side: int, value: Any) -> Any:
        if not isinstance(value, (tuple, Text, RunText, Number, int, float) if TYPES_APART in self.context.decisions
                          else (tuple, Text, RunText)):
            return value
        box = Boxed(str(self._in(side, referring, value)))
        self.states[side].values[box] = {"value": value}
        return box

    def _in(self, side: int, make: Callable[..., Template], *args: Any) -> Template:
        """A template of what one side's state holds."""
        self.context.state, before = self.states[side], self.context.state
        try:
            return make(self.context, *args)
        finally:
            self.context.state = before

    def contents(self, cell: Cell, pair: tuple[Any, Any]) -> tuple[Template, tuple[Any, Any]]:
        """The template of what a cell holds, and what it holds on either side: None where it is missing."""
        if all(h is not None for h in pair) and not item_by_item(*pair):
            one, other = (self._in(side, by_value, cell, h) for side, h in enumerate(pair))
            t = one.join(other, self.widen)
            for side, h in enumerate(pair):  # which knows what the lists in it hold
                t = self._in(side, t.enlist, h) if isinstance(t, (ListOf, Record)) else t
            return t, pair
        held = (self.refer(0, pair[0]), self.refer(1, pair[1]))
        found = [self._in(side, content_of, cell, h) for side, h in enumerate(held) if h is not None]
        t = found[0] if len(found) == 1 else found[0].join(found[1], self.widen)
        if isinstance(cell, Storage):
            tensor = t.inner if isinstance(t, Either) else t
            assert isinstance(tensor, Tensor)
            tensor = replace(tensor, dims=tuple([self.context.sizes.canonical(d) for d in cell.type.dims]))
            t = tensor if len(found) == 2 and isinstance(t, Tensor) else Either((UNBOUND,), tensor)
        return t, held

    def fresh(self) -> Iterator[tuple[Cell, tuple[Any, Any]]]:
        """The cells that there are only afterwards, and what they hold: also those that the others bring."""
        k = 0
        while k < len(self._fresh):
            yield self._fresh[k]
            k += 1

    def faces(self, blocks: Sequence[Block]) -> Iterator[tuple[Cell, tuple[Any, Any]]]:
        """What of the memory that there is only afterwards is held apart, and what it holds on either side."""
        context, found = self.context, dict[Cell, list[Any]]()
        for side, after in enumerate(self._after):
            state = self.states[side]
            for face in [f for c in after if isinstance(c, Storage) for f in c.faces if f in state.values]:
                shown = self._refer(side, SymTensor(face.memory, face.path, face.type))
                cell = next((c for c, made in self._after[1 - side].items() if made is shown.storage), None)
                here = [(side, face)]
                if cell is not None and self.widen.sees(face.path):  # what the other side does not hold apart
                    other = heap.face(context, SymTensor(cell, face.path, face.type))
                    writing.begin_faces(context, self.states[1 - side], [other], blocks[1 - side], self.widen.sees)
                    here.append((1 - side, other))
                made = heap.face(context, shown)
                for k, one in here:
                    self._after[k][one] = made
                    found.setdefault(made, [None, None])[k] = self.states[k].values[one]
        for made, pair in found.items():
            yield made, (pair[0], pair[1])

    # --- what else is known of them ----------------------------------------------------------------------------------

    def lowered(self, side: int) -> list[Value]:
        """Sizes that only views need, and which of the caller's tensors items of lists are, emitted at a side's end."""
        found = [self.context.one("dim.value", dim=dim(old)) if side == where else self.context.constant(0)
                 for where, old, _ in self._exported]
        for made, n in self._origins():
            one = next((c for c, after in self._after[side].items() if after is made), None)
            found += item_origins.none(self.context, n) if one is None else item_origins.values(
                self.context, SymTensor(one, (), one.type), n)
        return found + [numbers.value_of(self.context, pair[side]) for _, _, pair in self._counted() if _differs(pair)]

    def _counted(self) -> Iterator[tuple[Storage, int, tuple[Any, Any]]]:
        """How often memory was written, and which saves read it (`versions.py`), on either side."""
        sides: dict[Cell, list[dict[int, Any] | None]] = {}
        for side, after in enumerate(self._after):
            for cell, made in after.items():
                if isinstance(cell, Storage):
                    found = dict(versions.numbers(self.context, self.states[side], cell))
                    sides.setdefault(made, [None, None])[side] = found
        for made, pair in sides.items():
            known = [one for one in pair if one is not None]
            for site in sorted({s for one in known for s in one}):
                first, second = (known[min(k, len(known) - 1)].get(site, 0) for k in range(2))
                if len(known) == 1 and isinstance(first, Number):
                    first, second = (0 if one is None else first for one in pair)
                yield made, site, (first, second)

    def _origins(self) -> Iterator[tuple[Storage, int]]:
        """Tensors that may be items of lists or leaves, and how many ints say so."""
        counts: dict[Cell, int] = {}
        for after, state in zip(self._after, self.states, strict=True):
            for cell, made in after.items():
                if isinstance(cell, Storage):
                    found = item_origins.count(self.context, SymTensor(cell, (), cell.type), state)
                    made.unknown |= found == item_origins.UNKNOWN
                    counts[made] = max(counts.get(made, 0), found)
        yield from [(made, n) for made, _ in self._fresh
                    if isinstance(made, Storage) and not made.unknown and (n := counts.get(made))]

    @property
    def types(self) -> list[Type]:
        """Of what `lowered` emits."""
        counted = sum(_differs(pair) for _, _, pair in self._counted())
        return [INT] * (len(self._exported) + sum(n for _, n in self._origins()) + counted)

    def bound_elsewhere(self, bound: Sequence[Symbol]) -> None:
        """Sizes of what is merged need nothing more."""
        self._exported = [e for e in self._exported if e[2] not in bound]

    def bind(self, outputs: Iterator[Value]) -> None:
        """After the merge: what those sizes and items are."""
        for _, _, new in self._exported:
            self.context.builder.emit("dim.bind", (next(outputs),), types=(INT,), binds=(new,), symbol=new)
        for made, n in self._origins():
            made.origin = tuple([next(outputs) for _ in range(n)])
        for made, site, pair in [*self._counted()]:
            versions.put(self.context, made, site,
                         numbers.wrap(self.context, next(outputs)) if _differs(pair) else pair[0])


def _differs(pair: tuple[Any, Any]) -> bool:
    """Whether a number is not known to be the same on both sides."""
    return pair[0] is not pair[1] and (any(isinstance(n, Number) for n in pair) or pair[0] != pair[1])


def like(context: Context, *cells: Cell) -> Cell:
    """A container of the same class, which is not changed if one of these is an item of a list of run-time length."""
    made = copy(cells[0])
    if any(run_lists.is_listed(context, c) for c in cells):
        run_lists.freeze(context, made)
    return made
