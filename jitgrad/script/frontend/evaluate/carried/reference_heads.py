"""The head of a loop where names refer to objects: its fixpoint, and its way through the graph."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from jitgrad.dims import Symbol, dim, substitute, symbols
from jitgrad.ops.types import INT, OptionalType, TensorType
from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.evaluate.carried.heads import of, plain
from jitgrad.script.frontend.evaluate.carried.objects import (MOVES, NUMBERS, ObjectHead, inherit, place_of,
                                                              referring_tensor, type_of)
from jitgrad.script.frontend.state import copies, dispatch, versions
from jitgrad.script.frontend.state.context import State
from jitgrad.script.frontend.state.paths import mapped, view_type
from jitgrad.script.frontend.templates import item_origins, unions
from jitgrad.script.frontend.templates.alternatives import Either, Num, Same, Static, payload
from jitgrad.script.frontend.templates.identities import (Cell, by_value, cell_of, content_of, item_by_item, like,
                                                          references, referring, replaced)
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.references import item_along, names_of, unions_in, with_instead
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import HELD, UNBOUND, RunPairs, Storage, SymTensor, Union, is_held, refers
from jitgrad.script.graph.ir import Value

#: parts of a loop's objects that may each refer to one of several: one made of those may refer to several again
PARTS = 64


class ReferenceHead(ObjectHead):
    """What a loop carries: locations, and the contents of its objects."""

    def start(self, names: frozenset[str], assigned: frozenset[str], rebound: frozenset[str]) -> None:
        frame = self.context.frame.id
        remembered = of(self.context).heads.get(self.key, {})
        for name in sorted(assigned & names):
            key = (frame, name)
            value = self.entry.values.get(key, UNBOUND)
            t = remembered.get(name)
            if isinstance(t, Tensor) and isinstance(value, (SymTensor, *NUMBERS)) and self._begin((key, ()), t, value):
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

    # --- the fixpoint ------------------------------------------------------------------------------------------------

    def grow(self, head: State, end: State, names: frozenset[str]) -> bool:
        changed = self._carry(head, end, names)
        if self._adopt(end):
            return True
        self._settle(end)
        changed |= self._assign_all(end)
        changed |= self._note_origins() | self._note_counted(end)
        self._share(head, end)
        for key, t in list(self.templates.items()):
            joined = self.wider(t, self._fitted(key, t, end))
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

    def _carry(self, head: State, end: State, names: frozenset[str]) -> bool:
        """Carry what the body changes; whether there is more of that."""
        changed = False
        for key, before, _ in self._changes(head, end, names):
            self.templates[key] = self._first(key, before)
            changed = True
        return changed

    def _optional(self, fresh: Iterable[Symbol], type_: TensorType) -> None:
        """Note the sizes of a tensor that may be missing."""
        heap.of(self.context).optional_sizes.update(s for d in type_.dims for s in symbols(d) if s in fresh)

    def _assign_all(self, end: State) -> bool:
        """Say what stands for each object of this iteration in the next; whether there are new ones."""
        self._after, self._copies, self.ended, self._whole = {}, {}, {}, set()
        counts, changed, self._wider = self._live(end), False, False
        work = [key for key in self.templates if not isinstance(key, Storage)]
        for key in work:
            value, before = self._end(key, end), self._entry(key)
            for steps, ref in references(value) if value is not None else ():
                cell = cell_of(ref)
                if not self._moves(ref) and (self._is_older(cell) or cell in self._after):
                    continue
                stood_in = len(self.begun)
                made = self._assign(place_of(key, steps), ref, item_along(before, steps), counts[cell])
                if len(self.begun) > stood_in:
                    self.templates[key] = self._first(key, before)
                if made not in self.templates:
                    self.templates[made] = self._first(made, self._entry(made))
                    changed = True
                if made not in work and is_held(made):
                    work.append(made)
        return changed or self._wider

    def _note_origins(self) -> bool:
        """Note which tensors of the loop may be the caller's, or have numbers; whether there are new ones."""
        before = self.origins.copy()
        for cell, ref in [*self.begun.items(), *self.ended.items()]:
            n = item_origins.count(self.context, ref) if isinstance(ref, SymTensor) else 0
            if n == item_origins.UNKNOWN:
                cell.unknown = True
            elif n:
                self.origins[cell] = max(n, self.origins.get(cell, 0))
        return self.origins != before

    def _note_counted(self, end: State) -> bool:
        """Note which numbers go with the memory of the loop's tensors; whether there are new ones."""
        before = sum(map(len, self.counted.values()))
        context = self.context
        for held, context.state in (self.begun, self.entry), (self.ended, end):
            for cell, ref in held.items():
                if isinstance(ref, SymTensor):
                    versions.of(context).join(ref.storage, cell)
                    self.counted.setdefault(cell, set()).update(site for site, _ in versions.numbers_of(context, ref))
        made = {cell: versions.made_alike([ref for held in (self.begun, self.ended)
                                           if isinstance(ref := held.get(cell), SymTensor)]) for cell in self.counted}
        named = {cell: cell.made for cell in made}
        for cell, name in made.items():
            cell.made = name
        return before != sum(map(len, self.counted.values())) or made != named

    def _each_count(self) -> Iterator[tuple[Storage, int]]:
        for cell, sites in self.counted.items():
            for site in sorted(sites):
                yield cell, site

    def _share(self, head: State, end: State) -> None:
        """What has a copy has one in the next iteration, too; none of them is written."""
        shared = copies.of(self.context).shared
        for cell, made in self._after.items():
            if cell in shared:
                copies.share(self.context, shared[cell], made)
        for cell in shared:
            if cell in head.values and head.values[cell] is not end.values.get(cell):
                raise copies.changed(self.context, cell)

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
            t = referring_tensor(self.context, held)
            missing = isinstance(heap.stored(self.context, held.source[0]).type, OptionalType)
            return Either((UNBOUND,), t) if missing else t
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
                return plain(context, t, True).join(referring(context, self.at_end(key, value)), self.widen)
            if before is None or item_by_item(before, value):
                new = content_of(context, key, self.at_end(key, value))
                if isinstance(t, Static):
                    return new
                return self._staying(plain(context, t, True).join(new, self.widen), before, value)
            new = by_value(context, key, value)
            held = (by_value(context, key, before, True) if isinstance(t, (Items, Record)) else t).join(new, self.widen)
            return held.enlist(context, before, value)
        except Clash as clash:
            raise self._clash(key, before, value, end, str(clash)) from None

    def _staying(self, t: Template, before: Any, after: Any) -> Template:
        """The template of a container's content: numbers that the body leaves in place stay what they are."""
        if not isinstance(t, (Items, Record)):
            return t
        return t.of(tuple([
            Same(old) if isinstance(old := item_along(before, (n,)), NUMBERS) and old is item_along(after, (n,)) else i
            for n, i in zip(names_of(t), t.items, strict=True)]))

    def _live(self, end: State, besides: Union | None = None) -> Counter[Cell]:
        """How many places refer to each object of this iteration, `besides` not counted."""
        counts: Counter[Cell] = Counter()
        held = [end.values.get(k) if not isinstance(k, (Storage, *HELD)) or self._is_older(k) else None
                for k in self.templates]
        while held:
            one = held.pop()
            if besides is not None:
                one = with_instead(one, besides, None)
            for _, ref in references(one):
                cell = cell_of(ref)
                if not self._is_older(cell):
                    counts[cell] += 1
                    if counts[cell] == 1 and is_held(cell):
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
            if made and all(type_of(s) == type_of(before) for s in made):
                place = key, ()
                if isinstance(before, SymTensor):
                    cell: Any = self._made(referring_tensor(self.context, before), before)
                    self.templates[key] = Static(self._view(cell, ()))
                else:
                    cell = like(self.context, before)
                    self.templates[key] = Static(cell)
                self.cells[(place, type_of(before))] = cell
                self._stand_in(place, cell, before)
                self.templates[cell] = self._first(cell, self._entry(cell))
                found = True
        return found

    def _settle(self, end: State) -> None:
        """Where a place refers to one of several objects of this iteration, make one object of those of each type: one
        of the loop's stands for it in the next iteration."""
        keys = [k for k in self.templates if not isinstance(k, Storage) and (k not in self.cells.values())]
        for key in keys:
            for union in list(unions_in(end.values.get(key))):
                made = [s for s in union.statics if self._is_made(s)]
                one: Any = union
                for kind in dict.fromkeys(map(type_of, made)) if len(made) > 1 else ():
                    if isinstance(one, Union):
                        one = self._make_one(end, one, [s for s in one.statics if self._is_made(s)
                                                        and type_of(s) == kind])
            for _, ref in references(end.values.get(key)):
                if is_held(ref) and not self._is_older(ref) and ref not in keys:
                    keys.append(ref)
            if len(keys) > len(self.templates) + PARTS:
                self.unsettled = keys[0]
                raise self.unsettled_error()

    def _is_made(self, value: Any) -> bool:
        """Whether an alternative of a union is an object of this iteration, or a view that is another one in each."""
        cell = cell_of(value)
        return cell is not None and (not self._is_older(cell) or self._moves(value))

    def _make_one(self, end: State, value: Union, made: list[Any]) -> Any:
        context = self.context
        others = self._live(end, value)
        if any(others[cell_of(s)] for s in made):  # another name refers to one of them: copies, which nobody writes
            copies.share(context, copies.SEVERAL, *(cell_of(s) for s in made))
        copies.share(context, MOVES, *(cell_of(s) for s in made if self._moves(s)))
        choices: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
            (partial(unions.is_static, context, value, s), partial(_itself, s))
            for s in value.statics if not any(s is m for m in made)]
        if value.inner is not None:
            choices.append((partial(unions.is_inner, context, value), partial(payload, context, value, known=True)))
        choices += [(partial(unions.is_static, context, value, s), partial(self._copied, s)) for s in made]

        def run(k: int) -> Any:
            is_this, this = choices[k]
            return this() if k == len(choices) - 1 else dispatch.branch(context, is_this(), this, lambda: run(k + 1))

        context.state = end
        one = run(0)
        values = context.state.values
        for key, held in list(values.items()):
            values[key] = with_instead(held, value, one)
        end.values, end.where = values, context.state.where
        context.state = end
        return one

    def _copied(self, value: Any) -> Any:
        if isinstance(value, SymTensor):
            made: Any = heap.copy(self.context, value, heap.read_if_there(self.context, value))
            inherit(made.storage, value)
            if not value.path:
                made.storage.origin, made.storage.birth = value.storage.origin, value.storage.birth
            for site, number in versions.numbers_of(self.context, value):
                versions.put(self.context, made.storage, site, number)
        else:
            made = like(self.context, value)
            self.context.state.values[made] = self.context.state.values[value]
        if cell_of(value) in copies.of(self.context).shared:
            copies.share(self.context, copies.SEVERAL, cell_of(made))
        return made

    # --- through the graph -------------------------------------------------------------------------------------------

    def enter(self, state: State) -> tuple[Value, ...]:
        context = self.context
        params: list[Value] = []
        for view in self._views:
            view._type, view._known = view_type(view.storage.type, view.path), -1
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
        for cell, n in self.origins.items():
            cell.origin = tuple([Value(INT) for _ in range(n)])
            params += cell.origin
        for cell, site in self._each_count():
            params.append(Value(INT))
            versions.put(context, cell, site, numbers.wrap(context, params[-1]))
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
                        value = (heap.read_if_there if isinstance(t, Either) else heap.shown)(context, value)
                    else:
                        value = context.one("fill", numbers.value_of(context, value), shape=(), dtype=key.type.dtype)
            elif isinstance(key, HELD) and (isinstance(t, ListOf) or (isinstance(t, Record) and t.type is RunPairs)):
                pass  # what the items hold now, not objects of the loop, which are those of the next iteration
            elif value is not None or not isinstance(key, HELD):
                value = self.at_entry(key, value) if entry else self.at_end(key, value)
            result += merge.lower_location(context, key, t, value)
        for cell, n in self.origins.items():
            result += item_origins.values(context, (self.begun if entry else self.ended).get(cell), n)
        for cell, site in self._each_count():
            ref = (self.begun if entry else self.ended).get(cell)
            found = dict(versions.numbers_of(context, ref)) if isinstance(ref, SymTensor) else {}
            result.append(numbers.value_of(context, found.get(site, 0)))
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
                made[cell].made = cell.made
                versions.of(context).join(cell, made[cell])
                inherit(made[cell], SymTensor(cell, (), cell.type))
                if isinstance(self.templates[cell], Either):
                    self._optional(fresh.values(), made[cell].type)
            else:
                made[cell] = like(context, cell)
            if cell in copies.of(context).shared:
                copies.share(context, copies.of(context).shared[cell], made[cell])

        def after(v: Any, steps: tuple[Any, ...]) -> Any:
            cell = made.get(cell_of(v)) if refers(v) else None
            if cell is None or not isinstance(v, SymTensor):
                return v if cell is None else cell
            path = mapped(v.path, lambda d: substitute(d, mapping))
            return SymTensor(cell, path, view_type(cell.type, path), v.copied, v.unrecorded)

        leaves = iter(outputs)
        for key, t in self.templates.items():
            value = merge.rebuild_location(context, key, t.after(fresh), leaves, None)
            state.values[made.get(key, key)] = replaced(value, after)
        for cell, n in self.origins.items():
            made[cell].origin = tuple([next(leaves) for _ in range(n)])
        for cell, site in self._each_count():
            versions.put(context, made[cell], site, numbers.wrap(context, next(leaves)))
        self._left = made
        self._forget_clean(state)
        return state

    def successors(self, end: State) -> Iterator[tuple[Any, Any, Any]]:
        for stand, after in self._left.items():
            yield cell_of(self.begun.get(stand)), None, after
        for ended, stand in self._after.items():
            yield None, ended, self._left.get(stand)


def _itself(value: Any) -> Any:
    return value
