"""What a loop carries where names refer to objects: which object is which from one iteration to the next.

What was there before the loop stays what it is. An object that an iteration makes, and that the next one still refers
to, is an object of the loop there: one for each place that refers to it, made anew by every iteration. So is what is
there before the first iteration, where nothing else refers to it; else the place refers to one of two objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from jitgrad.dims import Symbol, dim, substitute, symbols
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.evaluate.heads import Head, Peel, _rename, of
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.templates import locations, unions
from jitgrad.script.frontend.templates.alternatives import Either, Num, Same, Static
from jitgrad.script.frontend.templates.identities import (
    Cell,
    by_value,
    cell_of,
    content_of,
    given,
    item_by_item,
    like,
    references,
    referring,
    replaced,
    seen,
)
from jitgrad.script.frontend.templates.of_values import template_of
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import HELD, UNBOUND, Number, Storage, SymTensor, Union
from jitgrad.script.graph.ir import Value, attr_symbols, map_attr

_NUMBERS = (Number, int, float)  # a bool is an int
_MOVES = "a variable of a loop is another view of it in every iteration"
_SEVERAL = "a variable of a loop is one of several, and another variable too"
Place = tuple[Any, tuple[Any, ...]]  # a location, and the way to an item of the tuples in it


class ReferenceHead(Head):
    """What a loop carries: locations, and the contents of its objects.

    Attributes:
        cells: the loop's objects, by the place that refers to them.
        begun: what is there before the loop of an object of it: a tensor, a container or a number.
        ended: the same at the end of an iteration.
    """

    def __init__(self, context: Context, entry: State, key: Any):
        super().__init__(context, entry, key)
        self.cells: dict[tuple[Place, Any], Cell] = {}
        self.begun: dict[Cell, Any] = {}
        self.ended: dict[Cell, Any] = {}
        self._before: dict[Cell, Cell] = {}  # what stands for an object before the loop, in the loop
        self._after: dict[Cell, Cell] = {}  # what stands for an object of one iteration in the next
        self._whole: set[Cell] = set()  # of these more than one view goes on
        self._copies: dict[Place, Cell] = {}  # places that hold a copy of what an iteration's view shows
        self._numbers: set[Place] = set()  # places where a number before the loop becomes a tensor
        self._views: list[SymTensor] = []
        self._counts = Counter(cell_of(v) for held in entry.values.values() for _, v in references(held))

    def start(self, names: frozenset[str], assigned: frozenset[str], rebound: frozenset[str]) -> None:
        frame = self.context.frame.id
        remembered = of(self.context).heads.get(self.key, {})
        for name in sorted(assigned & names):
            key = (frame, name)
            value = self.entry.values.get(key, UNBOUND)
            t = remembered.get(name)
            if isinstance(t, Tensor) and isinstance(value, (SymTensor, *_NUMBERS)) and self._begin((key, ()), t, value):
                continue
            self.templates[key] = referring(self.context, value, True)
            if isinstance(t, Num):
                self.templates[key] = self._recall(self.templates[key], t)

    def remember(self) -> None:
        frame = self.context.frame.id
        kept: dict[Any, Template] = {}
        for key, t in self.templates.items():
            if isinstance(key, tuple) and key[0] == frame and isinstance(key[1], str) and key not in self.exits:
                held = t
                if isinstance(t, Static) and isinstance(t.value, SymTensor) and not t.value.path:
                    held = self.templates.get(t.value.storage, t)
                if isinstance(held, (Num, Tensor)):
                    kept[key[1]] = self._marked(held)
        of(self.context).heads[self.key] = kept

    # --- objects of the loop -----------------------------------------------------------------------------------------

    def _is_older(self, cell: Cell) -> bool:
        return given(cell) or cell in self.entry.values

    def _begin(self, place: Place, t: Tensor, value: Any) -> bool:
        """Let a name refer to a tensor of the loop from the start, as it did in the last evaluation."""
        cell = cell_of(value)
        if isinstance(value, SymTensor):
            mine = referring_tensor(self.context, value)
            if self._is_shared(cell) or mine.dtype is not t.dtype or len(mine.dims) != len(t.dims):
                return False
            recalled = self._recall(mine, t)
        elif t.dims:
            return False
        else:
            recalled = t
        made = self.cells[(place, _kind(Storage(TensorType(t.dtype, t.dims))))] = self._made(recalled, value)
        self._stand_in(place, made, value)
        self.templates[place[0]] = Static(self._view(made, ()))
        self.templates[made] = recalled
        return True

    def _made(self, t: Template, value: Any) -> Storage:
        assert isinstance(t, Tensor)
        storage = Storage(TensorType(t.dtype, t.dims))
        storage.block = self.context.path[-1]
        if isinstance(value, SymTensor):
            _note(storage, value)
        return storage

    def _stand_in(self, place: Place, cell: Cell, value: Any) -> None:
        """Let an object of the loop stand for what is there before it."""
        self.begun[cell] = value
        if isinstance(value, _NUMBERS):
            self._numbers.add(place)
            self.weak = True
        else:
            self._before[cell_of(value)] = cell

    def _is_shared(self, cell: Cell) -> bool:
        """Whether more than one place refers to an object before the loop."""
        return given(cell) or self._counts[cell] != 1 or cell in self._before

    def _assign(self, place: Place, ref: Any, before: Any, count: int) -> Cell:
        """The object of the loop that stands for one of this iteration in the next."""
        cell = cell_of(ref)
        key = (place, _kind(cell if isinstance(ref, SymTensor) and count > 1 else ref))
        made = self.cells.get(key)
        if made is None:
            if isinstance(ref, SymTensor):
                made = Storage(cell.type if count > 1 else ref.type_)
                made.block = self.context.path[-1]
                _note(made, ref)
                if isinstance(before, _NUMBERS) and not place[1]:
                    if made.type.dims:
                        raise Peel
                    self._stand_in(place, made, before)
                elif self._may_stand_in(key[1], before) and (count == 1 or not before.path):
                    self._stand_in(place, made, before)
                    _note(made, before)
            else:
                made = like(cell)
                if self._may_stand_in(key[1], before):
                    self._stand_in(place, made, before)
            self.cells[key] = made
        if self._moves(ref):
            self._copies[place] = made
            heap.share(self.context, _MOVES, cell, made)
        else:
            self._after[cell] = made
            if isinstance(ref, SymTensor) and count > 1:
                self._whole.add(cell)
                ref = SymTensor(cell, (), cell.type)
        self.ended[made] = ref
        return made

    def _may_stand_in(self, kind: Any, before: Any) -> bool:
        """Whether an object of the loop may stand for what is there before it: nothing else refers to that."""
        return isinstance(before, (SymTensor, *HELD)) and _kind(before) == kind and not self._is_shared(cell_of(before))

    def _moves(self, ref: Any) -> bool:
        """Whether a reference is a view that is another one in every iteration."""
        return isinstance(ref, SymTensor) and not all(
            self.widen.visible(dim(s)) for _, attrs in ref.path for a in attrs.values()
            for s in attr_symbols(map_attr(a, self.context.sizes.canonical)))

    def _view(self, storage: Storage, path: Any) -> SymTensor:
        """A reference to a tensor of the loop: one object for equal ones, so that templates are equal."""
        for known in self._views:
            if known.storage is storage and heap.same_reference(known, SymTensor(storage, path, known._type)):
                return known
        made = SymTensor(storage, path, seen(storage.type, path))
        self._views.append(made)
        return made

    # --- values in terms of them -------------------------------------------------------------------------------------

    def at_entry(self, key: Any, value: Any) -> Any:
        """What a location holds before the loop, in terms of its objects."""
        if (key, ()) in self._numbers and isinstance(value, _NUMBERS):
            return self._number_as(key)

        def one(v: Any, steps: tuple[Any, ...]) -> Any:
            made = self._before.get(cell_of(v)) if isinstance(v, (SymTensor, *HELD)) else None
            return v if made is None else self._view(made, ()) if isinstance(v, SymTensor) else made

        return replaced(value, one)

    def at_end(self, key: Any, value: Any) -> Any:
        """What a location holds after an iteration, in terms of the loop's objects."""
        t = self.templates.get(key)
        if isinstance(value, _NUMBERS) and isinstance(t, Static) and isinstance(t.value, SymTensor) and (
                t.value.storage in self.begun and not t.value.type_.dims):
            self.ended[t.value.storage] = value
            return t.value

        def one(v: Any, steps: tuple[Any, ...]) -> Any:
            if not isinstance(v, (SymTensor, *HELD)):
                return v
            copy = self._copies.get(_place(key, steps))
            made = copy or self._after.get(cell_of(v))
            if made is None or not isinstance(v, SymTensor):
                return v if made is None else made
            return self._view(made, v.path if copy is None and v.storage in self._whole else ())

        return replaced(value, one)

    def _number_as(self, key: Any) -> SymTensor:
        made = next(c for (place, _), c in self.cells.items() if place == (key, ()) and c in self.begun)
        return self._view(made, ())

    def _entry(self, key: Any) -> Any:
        """What a location holds before the loop; None: an object of the loop that is not there yet."""
        return self._source(key, self.begun, self.entry)

    def _end(self, key: Any, end: State) -> Any:
        return self._source(key, self.ended, end)

    def _source(self, key: Any, held: dict[Cell, Any], state: State) -> Any:
        if key in self.entry.values or not isinstance(key, (Storage, *HELD)) or given(key):
            return locations.fetch(self.context, state, key)
        found = held.get(key)
        return state.values[found] if isinstance(found, HELD) else found

    # --- the fixpoint ------------------------------------------------------------------------------------------------

    def grow(self, head: State, end: State, names: frozenset[str]) -> bool:
        changed = False
        for key, before, _ in self._changes(head, end, names):
            self.templates[key] = self._first(key, before)
            changed = True
        if self._adopt(end):
            return True
        self._settle(end)
        changed |= self._assign_all(end)
        self._share(head, end)
        for key, t in list(self.templates.items()):
            joined = self._fitted(key, t, end)
            if joined is not t and joined != t:
                self.templates[key] = joined
                self.unsettled = key
                changed = True
            if isinstance(key, Storage) and not self._is_older(key):
                inner = joined.inner if isinstance(joined, Either) else joined
                if isinstance(inner, Tensor):
                    key.type = TensorType(inner.dtype, inner.dims)
                if isinstance(joined, Either):
                    self._optional(self.widen.fresh, key.type)
        return changed

    def _optional(self, fresh: Iterable[Symbol], type_: TensorType) -> None:
        """Note the sizes of a tensor that may be missing."""
        heap.of(self.context).optional_sizes.update(s for d in type_.dims for s in symbols(d) if s in fresh)

    def _assign_all(self, end: State) -> bool:
        """Say what stands for each object of this iteration in the next; whether there are new ones."""
        self._after, self._copies, self.ended, self._whole = {}, {}, {}, set()
        counts, changed = self._live(end), False
        work = [key for key in self.templates if not isinstance(key, Storage)]
        for key in work:
            value, before = self._end(key, end), self._entry(key)
            for steps, ref in references(value) if value is not None else ():
                cell = cell_of(ref)
                if not self._moves(ref) and (self._is_older(cell) or cell in self._after):
                    continue
                stood_in = len(self.begun)
                made = self._assign(_place(key, steps), ref, _at(before, steps), counts[cell])
                if len(self.begun) > stood_in:
                    self.templates[key] = self._first(key, before)
                if made not in self.templates:
                    self.templates[made] = self._first(made, self._entry(made))
                    changed = True
                if made not in work and isinstance(made, HELD):
                    work.append(made)
        return changed

    def _share(self, head: State, end: State) -> None:
        """What has a copy has one in the next iteration, too; none of them is written."""
        shared = heap.of(self.context).shared
        for cell, made in self._after.items():
            if cell in shared:
                heap.share(self.context, shared[cell], made)
        for cell in shared:
            if cell in head.values and head.values[cell] is not end.values.get(cell):
                raise heap.changed_shared(self.context, cell)

    def _first(self, key: Any, before: Any) -> Template:
        """The template of what a location holds before the loop."""
        if isinstance(key, Storage):
            return Static(UNBOUND) if before is None else self._content(key, before)
        if isinstance(key, HELD):
            held = None if before is None else self.at_entry(key, before)
            return Static(UNBOUND) if held is None else content_of(self.context, key, held, True)
        return referring(self.context, self.at_entry(key, before), True)

    def _content(self, cell: Storage, held: Any) -> Template:
        """The template of what a storage holds: its value, a tensor that is read, or a number."""
        if isinstance(held, Value):
            return content_of(self.context, cell, held)
        if isinstance(held, SymTensor):
            return referring_tensor(self.context, held)
        return Tensor(cell.type.dtype, (), False)

    def _fitted(self, key: Any, t: Template, end: State) -> Template:
        """The template that also holds what is there at the end of the body."""
        value, before = self._end(key, end), self._entry(key)
        cell = isinstance(key, (Storage, *HELD))
        if value is None and cell:
            return t.join(Static(UNBOUND), self.widen) if isinstance(key, Storage) and isinstance(t, Tensor) else t
        context = self.context
        try:
            if isinstance(key, Storage):
                return t.join(self._content(key, value), self.widen)
            if not cell:
                return _plain(context, t).join(referring(context, self.at_end(key, value)), self.widen)
            if before is None or item_by_item(before, value):
                new = content_of(context, key, self.at_end(key, value))
                if isinstance(t, Static):
                    return new
                return self._staying(_plain(context, t).join(new, self.widen), before, value)
            new = by_value(context, key, value)
            held = (by_value(context, key, before, True) if isinstance(t, (Items, Record)) else t).join(new, self.widen)
            return held.enlist(context, before, value)
        except Clash as clash:
            raise self._clash(key, before, value, end, str(clash)) from None

    def _staying(self, t: Template, before: Any, after: Any) -> Template:
        """The template of a container's content: numbers that the body leaves in place stay what they are."""
        if not isinstance(t, (Items, Record)):
            return t
        names = t.names if isinstance(t, Record) else range(len(t.items))
        return t.of(tuple([
            Same(old) if isinstance(old := _at(before, (n,)), _NUMBERS) and old is _at(after, (n,)) else i
            for n, i in zip(names, t.items, strict=True)]))

    def _live(self, end: State, besides: Union | None = None) -> Counter[Cell]:
        """How many places refer to each object of this iteration, `besides` not counted."""
        counts: Counter[Cell] = Counter()
        held = [end.values.get(k) if not isinstance(k, (Storage, *HELD)) or self._is_older(k) else None
                for k in self.templates]
        while held:
            one = held.pop()
            if besides is not None:
                one = _with(one, besides, None)
            for _, ref in references(one):
                cell = cell_of(ref)
                if not self._is_older(cell):
                    counts[cell] += 1
                    if counts[cell] == 1 and isinstance(cell, HELD):
                        held.append(end.values.get(cell))
        return counts

    def _adopt(self, end: State) -> bool:
        """Where a name refers to an object of this iteration or to what was there before, and nothing else refers to
        that: from the start it is an object of the loop."""
        found = False
        for key in list(self.templates):
            value, before = end.values.get(key), self.entry.values.get(key)
            if not isinstance(value, Union) or cell_of(before) is None or self._is_shared(cell_of(before)):
                continue
            made = [s for s in value.statics if cell_of(s) is not None and not self._is_older(cell_of(s))]
            if made and all(_kind(s) == _kind(before) for s in made):
                place = key, ()
                if isinstance(before, SymTensor):
                    cell: Any = self._made(referring_tensor(self.context, before), before)
                    self.templates[key] = Static(self._view(cell, ()))
                else:
                    cell = like(before)
                    self.templates[key] = Static(cell)
                self.cells[(place, _kind(before))] = cell
                self._stand_in(place, cell, before)
                self.templates[cell] = self._first(cell, self._entry(cell))
                found = True
        return found

    def _settle(self, end: State) -> None:
        """Where a place refers to one of several objects of this iteration, make that one object."""
        keys = [k for k in self.templates if not isinstance(k, Storage) and (k not in self.cells.values())]
        for key in keys:
            for union in list(_unions(end.values.get(key))):
                made = [s for s in union.statics if self._is_made(s)]
                if len(made) > 1:
                    self._make_one(end, union, made)
            for _, ref in references(end.values.get(key)):
                if isinstance(ref, HELD) and not self._is_older(ref) and ref not in keys:
                    keys.append(ref)

    def _is_made(self, value: Any) -> bool:
        """Whether an alternative of a union is an object of this iteration, or a view that is another one in each."""
        cell = cell_of(value)
        return cell is not None and (not self._is_older(cell) or self._moves(value))

    def _make_one(self, end: State, value: Union, made: list[Any]) -> None:
        context = self.context
        others = self._live(end, value)
        if any(others[cell_of(s)] for s in made):  # another name refers to one of them: copies, which nobody writes
            heap.share(context, _SEVERAL, *(cell_of(s) for s in made))
        heap.share(context, _MOVES, *(cell_of(s) for s in made if self._moves(s)))
        order = [*(s for s in value.statics if not any(s is m for m in made)), *made]

        def run(k: int) -> Any:
            one, kept = order[k], k < len(order) - len(made)
            if k == len(order) - 1:
                return self._copied(one)
            return dispatch.branch(context, unions.is_static(context, value, one),
                                   lambda: one if kept else self._copied(one), lambda: run(k + 1))

        context.state = end
        one = run(0)
        values = context.state.values
        for key, held in list(values.items()):
            values[key] = _with(held, value, one)
        end.values, end.where = values, context.state.where
        context.state = end

    def _copied(self, value: Any) -> Any:
        if isinstance(value, SymTensor):
            made: Any = heap.copy(self.context, value)
        else:
            made = like(value)
            self.context.state.values[made] = self.context.state.values[value]
        if cell_of(value) in heap.of(self.context).shared:
            heap.share(self.context, _SEVERAL, cell_of(made))
        return made

    # --- through the graph -------------------------------------------------------------------------------------------

    def enter(self, state: State) -> tuple[Value, ...]:
        context = self.context
        params: list[Value] = []
        for view in self._views:
            view._type = seen(view.storage.type, view.path)
        names = {t.value.storage: key[1] for key, t in self.templates.items() if isinstance(t, Static) and isinstance(
            t.value, SymTensor) and isinstance(key, tuple) and key[0] == context.frame.id and isinstance(key[1], str)}
        for key, t in self.templates.items():
            name = names.get(key, key[-1] if isinstance(key, tuple) and isinstance(key[-1], str) else "")
            values = [Value(x, name if i == 0 else "") for i, x in enumerate(t.types())]
            context.mark_history(values, t.histories())
            params += values
            if key in names and isinstance(t, Tensor):
                self.variables[values[0]] = name
            begun = self._entry(key)
            if isinstance(t, (ListOf, Record)) and begun is not None:
                t.enlist(context, begun)
            if key in self.exits:
                state.values.pop(key, None)
                continue
            if isinstance(key, Storage) and isinstance(begun, SymTensor):
                self.first.update({p: first for p, first in zip(values, self._parts(t, begun), strict=False) if first})
            elif isinstance(begun, Value):
                self.first[values[0]] = {begun}
            state.values[key] = merge.rebuild_location(context, key, t, iter(values), begun)
        return tuple(params)

    def lower(self, state: State) -> list[Value]:
        context = self.context
        context.state = state
        entry = state is self.entry
        result: list[Value] = []
        for key, t in self.templates.items():
            value = self._entry(key) if entry else self._end(key, state)
            if isinstance(key, Storage):
                if value is not None and not isinstance(value, Value):
                    if isinstance(value, SymTensor):
                        value = heap.read(context, value)
                    else:
                        value = context.one("fill", numbers.value_of(context, value), shape=(), dtype=key.type.dtype)
            elif value is not None or not isinstance(key, HELD):
                value = self.at_entry(key, value) if entry else self.at_end(key, value)
            result += merge.lower_location(context, key, t, value)
        return result

    def leave(self, outputs: list[Value], fresh: dict[Symbol, Symbol]) -> State:
        context = self.context
        state = self.entry.copy()
        context.state = state
        mapping = {old: dim(new) for old, new in fresh.items()}
        made: dict[Cell, Cell] = {}
        for cell in self.cells.values():
            if isinstance(cell, Storage):
                dims = tuple([substitute(d, mapping) for d in cell.type.dims])
                made[cell] = Storage(TensorType(cell.type.dtype, dims))
                made[cell].block = context.path[-1]
                _note(made[cell], SymTensor(cell, (), cell.type))
                if isinstance(self.templates[cell], Either):
                    self._optional(fresh.values(), made[cell].type)
            else:
                made[cell] = like(cell)
            if cell in heap.of(context).shared:
                heap.share(context, heap.of(context).shared[cell], made[cell])

        def after(v: Any, steps: tuple[Any, ...]) -> Any:
            cell = made.get(cell_of(v)) if isinstance(v, (SymTensor, *HELD)) else None
            if cell is None or not isinstance(v, SymTensor):
                return v if cell is None else cell
            path = tuple([(op, {k: map_attr(a, lambda d: substitute(d, mapping)) for k, a in attrs.items()})
                          for op, attrs in v.path])
            return SymTensor(cell, path, seen(cell.type, path))

        leaves = iter(outputs)
        for key, t in self.templates.items():
            value = merge.rebuild_location(context, key, _rename(t, fresh), leaves, None)
            state.values[made.get(key, key)] = replaced(value, after)
        for key in list(state.values):
            if isinstance(key, tuple) and key[0] == "clean" and key[1] in self.templates:
                del state.values[key]
        return state


def referring_tensor(context: Context, value: SymTensor) -> Tensor:
    """The template of what a tensor holds."""
    return Tensor(value.type_.dtype, tuple([context.sizes.canonical(d) for d in value.type_.dims]), value.requires_grad)


def _unions(value: Any) -> Iterator[Union]:
    """The unions in what a location holds."""
    if isinstance(value, Union):
        yield value
    elif isinstance(value, (tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _unions(item)


def _with(value: Any, union: Union, one: Any) -> Any:
    """What a location holds, with `one` for a union."""
    if isinstance(value, Union):
        return one if value.tag is union.tag and value.leaves == union.leaves else value
    if isinstance(value, (tuple, dict)) and any(_with(v, union, one) is not v for v in (
            value.values() if isinstance(value, dict) else value)):
        if isinstance(value, dict):
            return type(value)({k: _with(v, union, one) for k, v in value.items()})
        items = [_with(v, union, one) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _note(storage: Storage, tensor: SymTensor) -> None:
    """What a tensor of the loop may be: also what this one is."""
    one = tensor.storage
    storage.ordered &= heap.keeps_order(tensor)
    storage.alias = storage.alias or (one.alias if one.input < 0 else "")
    storage.was_leaf |= one.was_leaf or (one.requires_grad and not tensor.path)
    storage.unknown |= one.unknown or bool(one.origin)
    storage.device = storage.device or one.device


def _place(key: Any, steps: tuple[Any, ...]) -> Place:
    """A place; of what a union refers to there is one at most."""
    return key, tuple([s for k, s in enumerate(steps) if k == 0 or steps[k - 1] != "one of"])


def _kind(value: Any) -> Any:
    if isinstance(value, SymTensor):
        return value.type_.dtype, len(value.type_.dims)
    if isinstance(value, Storage):
        return value.type.dtype, len(value.type.dims)
    return type(value), getattr(value, "cls", None)


def _at(held: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        if isinstance(held, dict):
            held = held.get(step)
        elif isinstance(held, tuple) and isinstance(step, int) and step < len(held):
            held = held[step]
        else:
            return None
    return held


def _plain(context: Context, t: Template) -> Template:
    """A template without the numbers that an earlier pass took to stay in place."""
    if isinstance(t, Same):
        return template_of(context, t.value, True)
    return t.map(lambda i: _plain(context, i)) if isinstance(t, (Items, Record)) else t


__all__ = ["ReferenceHead"]
