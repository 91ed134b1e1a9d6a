"""What a loop carries, and as what: the head's variables, whose types are fitted to what the body does to them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from jitgrad.classes import dataclass, field, replace
from jitgrad.dims import Dim, Symbol, dim
from jitgrad.errors import ScriptError, TypeMismatch
from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.evaluate.carried.copying import CopyingHead
from jitgrad.script.frontend.state import copies
from jitgrad.script.frontend.state.context import ORIGINS, SETS, Context, Restart, State
from jitgrad.script.frontend.state.layout import joined_order
from jitgrad.script.frontend.templates import item_origins, locations, pools, run_lists
from jitgrad.script.frontend.templates.alternatives import Either, Num, Same, Static, of_the_run
from jitgrad.script.frontend.templates.identities import cell_of, written
from jitgrad.script.frontend.templates.of_values import template_of
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.references import CHOSEN, Outside, as_copies, copied, names_of
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.sizes import Widener
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.protocol import type_word
from jitgrad.script.frontend.values.values import HELD, UNBOUND, Number, Storage, SymDict, SymList, SymTensor, is_held
from jitgrad.script.graph.ir import Value

#: in so many evaluations of the body a variable may be yet another known string, or a view of another view: after them
#: it is a string of the run, or memory of nobody knows whom
EXACT_PASSES = 5
_FLAGS = ("return", "break", "continue", ("result",))


class Peel(Exception):
    """A number or None meets a tensor at the loop's head: the first iteration must be apart."""


@dataclass(slots=True)
class Loops:
    """What one evaluation remembers of its loops.

    Attributes:
        heads: loop -> the templates that it ended with.
        head_frames: the frames in which those were.
        kept_references: loop -> variables that it writes but never rebinds.
    """

    heads: dict[Any, dict[Any, Template]] = field(default_factory=dict)
    head_frames: dict[Any, int] = field(default_factory=dict)
    kept_references: dict[Any, set[Any]] = field(default_factory=dict)


def of(context: Context) -> Loops:
    """The record of an evaluation."""
    return context.part(Loops)


class Head(CopyingHead):
    """What a loop carries: location -> template, in order."""

    def __init__(self, context: Context, entry: State, key: Any):
        super().__init__(context, entry)
        self.key = key
        self.widen, self.number = Widener(context, Symbol().number), context.new_id()  # what is made later has more
        self.kept = of(context).kept_references.setdefault(key, set())  # names that stay the tensor that they were
        self.weak = False  # a number at the entry becomes a 0-dim tensor: right if there is an iteration
        self.unsettled: Any = None  # the location whose template changed last
        self.passes = 0  # how often the body was evaluated
        self.listed: set[Any] = set()  # locations of lists that the body puts into a list of run-time length
        self.exits: set[Any] = set()  # exit flags and results: known to be unset at the head
        self.variables: dict[Value, str] = {}  # parameter -> the name of the variable that it is
        self.first: dict[Value, set[Value]] = {}  # parameter -> what it is in the first iteration, if that is known
        if ORIGINS in context.decisions:  # nearly every body makes tensors
            self.templates[heap.BIRTHS] = self._begun(heap.BIRTHS, locations.fetch(context, entry, heap.BIRTHS))

    def start(self, names: frozenset[str], assigned: frozenset[str], rebound: frozenset[str]) -> None:
        """Carry the assigned names that are read later; begin with what this loop ended with before."""
        context, frame = self.context, self.context.frame.id
        for name in sorted(assigned):
            if name in names:
                value = self.entry.values.get((frame, name), UNBOUND)
                if isinstance(value, SymTensor) and (name not in rebound or (frame, name) in self.kept):
                    continue
                if isinstance(value, SymList) and name not in rebound:
                    continue  # `xs += ...` changes the list, which stays what the name refers to
                self.templates[(frame, name)] = self._begun((frame, name), value)
        for key, remembered in of(context).heads.get(self.key, {}).items():
            place = (frame, key) if isinstance(key, str) else key
            if isinstance(place, (Storage, *HELD)) and place not in self.entry.values and (
                    place.input < 0 if isinstance(place, Storage) else place.source is None):
                continue  # made in an earlier evaluation of a loop around this one
            if isinstance(place, HELD) and place.source is None and of(self.context).head_frames.get(
                    self.key, frame) != frame:
                continue  # what an earlier call of this function made may be what this one only reads
            value = locations.fetch(context, self.entry, place)
            mine = self.templates.get(place) or self._begun(place, value)
            self.templates[place] = _staying(self._recall(mine, remembered), remembered, value)
            if isinstance(place, tuple) and place[1] in ("return", "break", ("result",)):
                self.exits.add(place)

    def _recall(self, mine: Template, remembered: Template) -> Template:
        """The entry's template, generalised as before."""
        if isinstance(mine, Tensor) and isinstance(remembered, Tensor) and len(mine.dims) == len(remembered.dims):
            dims = tuple(self.widen.new(r.symbol.not_one) if isinstance(r, Dim) and r.symbol is not None
                         and r.symbol.name.startswith("~") else m
                         for m, r in zip(mine.dims, remembered.dims, strict=True))
            ordered = joined_order(mine.ordered, remembered.ordered)
            return Tensor(mine.dtype, dims, mine.history or remembered.history, remembered.alias, ordered,
                          mine.leaf or remembered.leaf, remembered.origin, device=mine.device,
                          parameter=mine.parameter or remembered.parameter)
        if isinstance(mine, Num) and isinstance(remembered, Num):
            return Num(remembered.kind if remembered.kind is object else mine.kind, remembered.low)
        if isinstance(remembered, Num) and not isinstance(mine, ListOf):
            return remembered
        if isinstance(remembered, Either) and not isinstance(mine, ListOf) and all(
                c is None or self._is_older(c) for c in map(cell_of, remembered.statics)):  # not of an earlier pass
            with suppress(Clash):
                return mine.join(remembered, self.widen)
        return mine

    def _outside(self, beside: Any) -> Outside:
        """What a name at the head may refer to: what was there before the loop."""
        return Outside(lambda v: cell_of(v) is not None and self._is_older(cell_of(v)), self.widen, beside)

    def _begun(self, key: Any, value: Any) -> Template:
        """The template of what a location holds before the loop; names, attributes and items hold references."""
        context = self.context
        state, context.state = context.state, self.entry  # what is in a container is what was in it then
        try:
            return merge.template(context, key, value, True)
        finally:
            context.state = state

    def remember(self) -> None:
        """Keep the templates for the next evaluation of this loop."""
        frame = self.context.frame.id
        kept = {}
        for key, t in self.templates.items():
            name = key[1] if isinstance(key, tuple) and key[0] == frame and isinstance(key[1], str) and key[1] not in (
                "return", "break") else key
            if isinstance(name, tuple) and not isinstance(key, Storage):
                continue
            kept[name] = self._marked(t)
        of(self.context).heads[self.key] = kept
        of(self.context).head_frames[self.key] = frame

    def _marked(self, t: Template) -> Template:
        """A template whose sizes that change are marked as such."""
        fresh = self.widen.fresh
        if isinstance(t, Tensor):
            return replace(t, dims=tuple([dim(Symbol("~", not_one=d.symbol.not_one)) if isinstance(d, Dim) and (
                d.symbol is not None and d.symbol in fresh) else d for d in t.dims]))
        if isinstance(t, Either) and t.inner is not None and not isinstance(t.inner, Num):
            return t if not fresh else Static(None)
        return t

    def enter(self, state: State) -> tuple[Value, ...]:
        """Parameters for the carried locations, and their content in `state`."""
        context = self.context
        params: list[Value] = []
        for key, t in self.templates.items():
            name = key[-1] if isinstance(key, tuple) and isinstance(key[-1], str) else ""
            values = [Value(x, name if i == 0 else "") for i, x in enumerate(t.types())]
            context.mark_history(values, t.histories())
            params += values
            if isinstance(t, Tensor) and name and key[0] == context.frame.id:
                self.variables[values[0]] = name
            # what a list holds at the entry is in a list of run-time length from now on
            t.enlist(context, locations.fetch(context, self.entry, key))
            if key in self.exits:
                state.values.pop(key, None)
            else:
                like = locations.fetch(context, self.entry, key)
                self.first.update({p: first for p, first in zip(values, self._parts(t, like), strict=True) if first})
                state.values[key] = merge.rebuild_location(context, key, self._noted(key, t), iter(values), like)
                cells, before = list(copied(state, t, state.values[key])), list(copied(self.entry, t, like))
                copies.of(context).heads.update(cells)
                if key in self.copies:
                    copies.share(context, CHOSEN, *cells)
                copies.stand(context, cells, before, key in self.chosen)
                if key in self.listed or run_lists.is_listed(context, like):
                    run_lists.freeze(context, state.values[key])
        return tuple(params)

    def _noted(self, key: Any, t: Template) -> Template:
        """The template of what a location holds, which says so if that is a copy."""
        return as_copies(t) if key in self.copies else t

    def _parts(self, t: Template, value: Any) -> list[set[Value]]:
        """For each leaf of a template the values of the tensor that is there before the loop, if there is one."""
        if isinstance(t, Tensor) and isinstance(value, SymTensor):
            storage = value.storage
            roots = {storage.root, self.context.inputs.values[storage.input] if storage.input >= 0 else None}
            own = {v for v in (self.entry.values.get(storage), *roots) if v is not None}
            return [own, *(set() for _ in range(t.origin))]
        held = self.entry.values.get(value) if is_held(value) else value
        if isinstance(t, Items) and isinstance(held, tuple) and len(held) == len(t.items):
            return [x for i, v in zip(t.items, held, strict=True) for x in self._parts(i, v)]
        if isinstance(t, Record) and isinstance(held, dict):
            return [x for n, i in zip(t.names, t.items, strict=True) for x in self._parts(i, held.get(n))]
        return [{value} if isinstance(value, Value) else set()] * len(t.types())

    def grow(self, head: State, end: State, names: frozenset[str]) -> bool:
        """Fit the templates to what the body did; whether they changed."""
        context = self.context
        changed = False
        for key, before, value in self._changes(head, end, names):
            self.templates[key] = self._join(key, self._begun(key, before), before, value, end)
            changed = True
        if self._written_heads(head, end):
            return True
        for key, t in list(self.templates.items()):
            value = locations.fetch(context, end, key)
            if key not in self.listed and run_lists.is_listed(context, value):
                self.listed.add(key)
                changed = True
            if value is head.values.get(key) and key not in self.exits and not written(value, head, end):
                continue
            begun = head.values.get(key)
            if isinstance(begun, SymTensor) and isinstance(value, SymTensor) and heap.same_tensor(begun, value):
                continue
            joined = self._join(key, t, locations.fetch(context, self.entry, key), value, end)
            if joined != t:
                self.templates[key] = joined
                self.unsettled = key
                changed = True
        if not changed:
            self._note_copies(head, end)
        return changed

    def carry_nothing(self) -> bool:
        """The body never comes to its end: names are what they were before the loop. Whether the loop carried any."""
        changed = bool(self.templates)
        self.templates.clear()
        return changed

    def _changes(self, head: State, end: State, names: frozenset[str]) -> Iterator[tuple[Any, Any, Any]]:
        """What the body changed and the loop does not carry yet: location, content before the loop and at the end."""
        frame = self.context.frame.id
        for key, value in list(end.values.items()):  # looking at a tensor may note an input's value
            if head.values.get(key, UNBOUND) is value or key in self.templates:
                continue
            if isinstance(key, tuple) and (key[0] == "clean" or (key[0] == "taken" and key[1] > self.number)):
                continue  # what an iterator that the body makes has given
            variable = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], int)
            if variable and key[1] not in _FLAGS and (
                    key[1] not in names if key[0] == frame else key not in self.entry.values
                    and not self._awaited(key)):
                continue  # nobody reads it again
            if key not in self.entry.values and not self._known_outside(key):
                continue
            before = locations.fetch(self.context, self.entry, key)
            if _unchanged(before, value):
                continue
            if variable and key[1] in ("return", "break", ("result",)):
                self.exits.add(key)
            yield key, before, value

    def widen_views(self, head: State) -> None:
        """The passes so far did not settle: names that refer to another view in every one of them hold copies."""

    def unsettled_error(self) -> ScriptError:
        """The refusal of a loop whose variables get other types with every evaluation."""
        key = self.unsettled
        if self.context.counts_writes:
            raise Restart(self.context.uncounted, "writes are not counted: with the counts a loop does not settle")
        if SETS not in self.context.decisions and any(map(_holds_a_set, self.templates.values())):
            raise Restart(SETS, "a loop makes sets: they are objects")
        found = self.templates.get(key)
        what = "the types of this loop's variables do not settle"
        if isinstance(key, tuple) and isinstance(key[-1], str) and found is not None:
            made = "another object" if isinstance(found, (Static, Either)) else str(found)
            what = f"the type of `{key[-1]}` does not settle in this loop: it is {made} after every iteration"
        return ScriptError(what, self.context.span(),
                           hint="give it its final type before the loop; of a function, carry the numbers and tensors "
                                "that it uses, and make it after the loop")

    def _written_heads(self, head: State, end: State) -> bool:
        """Names that the body writes in place and never rebinds: they stay what they were before the loop."""
        found = False
        for key in list(self.templates):
            begun, value = head.values.get(key), end.values.get(key)
            if isinstance(begun, SymTensor) and isinstance(value, SymTensor) and not begun.path and (
                    isinstance(self.entry.values.get(key), SymTensor)) and heap.same_tensor(begun, value) and (
                    head.values.get(begun.storage) is not end.values.get(begun.storage)):
                self.kept.add(key)
                del self.templates[key]
                found = True
        return found

    def _awaited(self, key: Any) -> bool:
        """Whether the consumer of a generator that is being evaluated, or a function around this one or that called it,
        may read a variable later; of those that functions in them write too."""
        around, frame = list(self.context.calls), self.context.frame.outer
        while frame is not None:
            around.append(frame)
            frame = frame.outer
        return any(key[0] == frame and key[1] in names for frame, names in self.context.waiting) or any(
            key[0] == f.id and key[1] in f.scope.captured for f in around)

    def _known_outside(self, key: Any) -> bool:
        if isinstance(key, Storage):
            return key.input >= 0
        if isinstance(key, tuple):  # the `.grad` of what the body makes ends with the iteration
            return key[0] not in ("grad", "version") or key[1].input >= 0 or key[1] in self.entry.values
        return getattr(key, "source", None) is not None

    def _join(self, key: Any, t: Template, before: Any, value: Any, end: State) -> Template:
        context = self.context
        t = plain(context, t)
        try:
            new = merge.template(context, key, value, outside=self._outside(before))
            if isinstance(t, Num) and isinstance(new, Tensor):
                if not new.dims:
                    self.weak = True
                    return new  # a weak 0-dim tensor from the start
                raise Peel
            if isinstance(t, Tensor) and isinstance(new, (Num, Static)) and (
                    isinstance(new, Num) or type(new.value) in (int, float, bool)) and not t.dims:
                return t
            joined = self.wider(t, t.join(new, self.widen)).enlist(context, before, value)
        except Clash as clash:
            raise self._clash(key, before, value, end, str(clash)) from None
        if isinstance(joined, (Items, Record)):
            return self._held(joined, before, value, end)
        return joined

    def wider(self, t: Template, joined: Template) -> Template:
        """The template that `t` becomes."""
        if self.passes < EXACT_PASSES or joined == t:
            return joined
        if isinstance(t, Tensor) and isinstance(joined, Tensor) and t.origin != joined.origin:
            return replace(joined, origin=item_origins.UNKNOWN)  # a view of a view in every iteration
        return of_the_run(joined)

    def _held(self, t: Template, before: Any, after: Any, end: State) -> Template:
        """A container's template: what the body leaves in place stays what it is."""
        if (before is after and isinstance(before, (Number, int, float, bool))) or (
                isinstance(before, SymTensor) and isinstance(after, SymTensor) and heap.same_tensor(before, after)):
            return Same(before)
        if not isinstance(t, (Items, Record)):
            return t
        old, new = (state.values.get(v) if is_held(v) else v for state, v in (
            (self.entry, before), (end, after)))
        if isinstance(t, Record) and isinstance(old, dict) and isinstance(new, dict):
            old, new = (tuple([held.get(n) for n in t.names]) for held in (old, new))
        if not isinstance(old, tuple) or not isinstance(new, tuple) or not len(old) == len(new) == len(t.items):
            return t
        return t.of(tuple([self._held(i, x, y, end) for i, x, y in zip(t.items, old, new, strict=True)]))

    def _clash(self, key: Any, before: Any, value: Any, end: State, why: str) -> TypeMismatch:
        pools.meet(self.context, key, (before, self.entry), (value, end))
        if isinstance(key, SymList):
            return TypeMismatch(f"a list that changes in this loop cannot hold its items: {why}", self.context.span(),
                                hint="let it hold tensors of one dtype and rank, or numbers, or tuples of these")
        if isinstance(key, SymDict):
            return TypeMismatch(f"a dict changes its keys in this loop: {why}", self.context.span(),
                                hint="put every key in before the loop, or use a tensor")
        name = f"`{key[-1]}`" if isinstance(key, tuple) and isinstance(key[-1], str) else "a value"
        notes = []
        for v, place in ((before, self.entry.where.get(key)), (value, end.where.get(key))):
            if place is not None:
                notes.append(f"note: {type_word(v)} at {place}")
        return TypeMismatch(f"{name} changes its type in this loop: {why}", self.context.span(), notes=tuple(notes),
                            hint="give it the same type before the loop and at the end of its body")

    def lower(self, state: State) -> list[Value]:
        """The carried locations' content as graph values."""
        context = self.context
        context.state = state
        result: list[Value] = []
        for key, t in self.templates.items():
            result += merge.lower_location(context, key, t, locations.fetch(context, state, key))
        return result

    def leave(self, outputs: list[Value], fresh: dict[Symbol, Symbol]) -> State:
        """The state after the loop."""
        context = self.context
        state = self.entry.copy()
        context.state = state
        leaves = iter(outputs)
        for key, t in self.templates.items():
            renamed = self._noted(key, t.after(fresh))
            value = merge.rebuild_location(context, key, renamed, leaves, locations.fetch(context, self.entry, key))
            state.values[key] = value
            if key in self.copies:
                copies.share(context, CHOSEN, *copied(state, renamed, value))
            if key in self.chosen:
                copies.of(context).chosen.update(copied(state, renamed, value))
            if key in self.listed or run_lists.is_listed(context, locations.fetch(context, self.entry, key)):
                run_lists.freeze(context, value)
        self._forget_clean(state)
        return state

    def successors(self, end: State) -> Iterator[tuple[Any, Any, Any]]:
        """What is something else after the loop: before it, at the end of an iteration, and what that is then."""
        for key, t in self.templates.items():
            found = [list(copied(s, t, locations.fetch(self.context, s, key)))
                     for s in (self.entry, end, self.context.state)]
            yield from zip(*found, strict=False)

    def _forget_clean(self, state: State) -> None:
        """What the loop writes is not known to be as memory has it."""
        for key in list(state.values):
            if isinstance(key, tuple) and key[0] == "clean" and key[1] in self.templates:
                del state.values[key]


def _staying(t: Template, remembered: Template, value: Any) -> Template:
    """The template of a container's content, with what stayed in place before taken to stay again."""
    held = tuple(value.values()) if isinstance(value, dict) else value
    if not isinstance(t, (Items, Record)) or not isinstance(remembered, type(t)) or not isinstance(held, tuple) or not (
            names_of(t) == names_of(remembered) == names_of(value)):
        return t
    return t.of(tuple([Same(v) if isinstance(r, Same) else i
                       for i, r, v in zip(t.items, remembered.parts, held, strict=True)]))


def _holds_a_set(t: Template) -> bool:
    statics = t.statics if isinstance(t, Either) else (t.value,) if isinstance(t, Static) else ()
    return any(isinstance(s, (set, frozenset)) for s in statics) or any(map(_holds_a_set, t.parts))


def _unchanged(before: Any, value: Any) -> bool:
    """Whether a location certainly holds what it held: the same object, tensor, or tuple of these."""
    if before is value:
        return True
    if isinstance(before, SymTensor) and isinstance(value, SymTensor):
        return heap.same_tensor(before, value)
    return type(before) is tuple and type(value) is tuple and len(before) == len(value) and all(
        _unchanged(a, b) for a, b in zip(before, value, strict=True))


def plain(context: Context, t: Template, general: bool = False) -> Template:
    """A template without the tensors and numbers that an earlier pass took to stay in place."""
    if isinstance(t, Same):
        return template_of(context, t.value, general)
    return t.map(lambda i: plain(context, i, general)) if isinstance(t, (Items, Record)) else t
