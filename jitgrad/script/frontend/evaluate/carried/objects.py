"""The objects of a loop: which object is which from one iteration to the next.

What was there before the loop stays what it is. An object that an iteration makes, and that the next one still refers
to, is an object of the loop there: one for each place that refers to it, made anew by every iteration. So is what is
there before the first iteration, where nothing else refers to it; else the place refers to one of two objects.
"""

from collections import Counter
from functools import partial
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.batches.items import batches
from jitgrad.script.frontend.evaluate.carried.heads import Head, Peel
from jitgrad.script.frontend.state import copies, layout
from jitgrad.script.frontend.state.context import Context, State, current
from jitgrad.script.frontend.state.paths import marks, view_type
from jitgrad.script.frontend.templates import locations
from jitgrad.script.frontend.templates.alternatives import Static
from jitgrad.script.frontend.templates.identities import Cell, cell_of, given, like, references, replaced
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import HELD, Number, Storage, SymTensor, is_held, refers

NUMBERS = (Number, int, float)  # a bool is an int
MOVES = "a variable of a loop is another view of it in every iteration"
FACES = "a loop goes on with several views of it, which have histories of their own"
Place = tuple[Any, tuple[Any, ...]]  # a location, and the way to an item of the tuples in it


class ObjectHead(Head):
    """A loop's head with the objects of the loop.

    Attributes:
        cells: the loop's objects, by the place that refers to them.
        begun: what is there before the loop of an object of it: a tensor, a container or a number.
        ended: the same at the end of an iteration.
        origins: of a tensor of the loop that may be one of the caller's, how many ints say so (`item_origins.py`).
        counted: which numbers go with the memory of a tensor of the loop (`versions.py`).
    """

    def __init__(self, context: Context, entry: State, key: Any):
        super().__init__(context, entry, key)
        self.cells: dict[tuple[Place, Any], Cell] = {}
        self.begun: dict[Cell, Any] = {}
        self.ended: dict[Cell, Any] = {}
        self.origins: dict[Storage, int] = {}
        self.counted: dict[Storage, set[int]] = {}
        self._before: dict[Cell, Cell] = {}  # what stands for an object before the loop, in the loop
        self._after: dict[Cell, Cell] = {}  # what stands for an object of one iteration in the next
        self._whole: set[Cell] = set()  # of these more than one view goes on
        self._copies: dict[Place, Cell] = {}  # places that hold a copy of what an iteration's view shows
        self._numbers: set[Place] = set()  # places where a number before the loop becomes a tensor
        self._views: list[SymTensor] = []
        self._known: list[SymTensor] | None = None  # the views that there were when the passes did not settle
        self._wider = False  # whether what a tensor of the loop may be has grown
        self._counts = Counter(cell_of(v) for held in entry.values.values() for _, v in references(held))

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
        made = self.cells[(place, type_of(Storage(TensorType(t.dtype, t.dims))))] = self._made(recalled, value)
        self._stand_in(place, made, value)
        self.templates[place[0]] = Static(self._view(made, ()))
        self.templates[made] = recalled
        return True

    def carry_nothing(self) -> bool:
        for known in (self.cells, self.begun, self._before, self._numbers):
            known.clear()
        return super().carry_nothing()

    def _made(self, t: Template, value: Any) -> Storage:
        assert isinstance(t, Tensor)
        storage = Storage(TensorType(t.dtype, t.dims))
        storage.block = self.context.path[-1]
        if isinstance(value, SymTensor):
            inherit(storage, value)
        return storage

    def _stand_in(self, place: Place, cell: Cell, value: Any) -> None:
        """Let an object of the loop stand for what is there before it."""
        self.begun[cell] = value
        if isinstance(value, NUMBERS):
            self._numbers.add(place)
            self.weak = True
        else:
            self._before[cell_of(value)] = cell

    def _is_shared(self, cell: Cell) -> bool:
        """Whether more than one place refers to an object before the loop."""
        return given(cell) or self._counts[cell] != 1 or cell in self._before

    def _assign(self, place: Place, ref: Any, before: Any, count: int) -> Cell:
        """The object of the loop that stands for one of this iteration in the next."""
        cell, state = cell_of(ref), self.context.state.values
        apart = isinstance(ref, SymTensor) and count > 1 and any(f in state for f in cell.faces)
        if apart:  # each of them is a copy of what it shows
            if heap.places(self.context, partial(heap.same_tensor, ref)) > 1:
                raise UnsupportedCall(f"two variables are one tensor: {FACES}", self.context.span(),
                                      hint="write `.clone()` where the tensor is made, so that it has its own memory")
            count = 1
        key = (place, type_of(cell if isinstance(ref, SymTensor) and count > 1 else ref))
        made = self.cells.get(key)
        if made is None:
            if isinstance(ref, SymTensor):
                made = Storage(cell.type if count > 1 else ref.type_)
                made.block = self.context.path[-1]
                inherit(made, ref)
                if isinstance(before, NUMBERS) and not place[1]:
                    if made.type.dims:
                        raise Peel
                    self._stand_in(place, made, before)
                elif self._may_stand_in(key[1], before) and (count == 1 or not before.path):
                    self._stand_in(place, made, before)
                    inherit(made, before)
            else:
                made = like(self.context, cell)
                if self._may_stand_in(key[1], before):
                    self._stand_in(place, made, before)
            self.cells[key] = made
        elif isinstance(ref, SymTensor):
            self._wider |= inherit(made, ref)
        if apart or self._moves(ref):
            self._copies[place] = made
            copies.share(self.context, FACES if apart else MOVES, cell, made)
        else:
            self._after[cell] = made
            if isinstance(ref, SymTensor) and count > 1:
                self._whole.add(cell)
                ref = SymTensor(cell, marks(ref.path), cell.type)
        self.ended[made] = ref
        return made

    def _may_stand_in(self, kind: Any, before: Any) -> bool:
        """Whether an object of the loop may stand for what is there before it: nothing else refers to that."""
        return cell_of(before) is not None and type_of(before) == kind and not self._is_shared(cell_of(before))

    def widen_views(self, head: State) -> None:
        self._known = [v for key in self.templates for _, v in references(head.values.get(key))
                       if isinstance(v, SymTensor)]

    def _moves(self, ref: Any) -> bool:
        """Whether a reference is a view that is another one in every iteration, or for all that the passes found."""
        if not isinstance(ref, SymTensor):
            return False
        if self._known is not None and ref.path and self._is_older(ref.storage):
            return not any(heap.same_tensor(ref, v) for v in self._known)
        return not self.widen.sees(ref.path)

    def _view(self, storage: Storage, path: Any) -> SymTensor:
        """A reference to a tensor of the loop: one object for equal ones, so that templates are equal."""
        for known in self._views:
            if known.storage is storage and heap.same_tensor(known, SymTensor(storage, path, known._type)):
                return known
        made = SymTensor(storage, path, view_type(storage.type, path))
        self._views.append(made)
        return made

    # --- values in terms of them -------------------------------------------------------------------------------------

    def at_entry(self, key: Any, value: Any) -> Any:
        """What a location holds before the loop, in terms of its objects."""
        if (key, ()) in self._numbers and isinstance(value, NUMBERS):
            return self._number_as(key)

        def one(v: Any, steps: tuple[Any, ...]) -> Any:
            made = self._before.get(cell_of(v)) if refers(v) else None
            return v if made is None else self._view(made, marks(v.path)) if isinstance(v, SymTensor) else made

        return replaced(value, one)

    def at_end(self, key: Any, value: Any) -> Any:
        """What a location holds after an iteration, in terms of the loop's objects."""
        t = self.templates.get(key)
        if isinstance(value, NUMBERS) and isinstance(t, Static) and isinstance(t.value, SymTensor) and (
                t.value.storage in self.begun and not t.value.type_.dims):
            self.ended[t.value.storage] = value
            return t.value

        def one(v: Any, steps: tuple[Any, ...]) -> Any:
            if not refers(v):
                return v
            copy = self._copies.get(place_of(key, steps))
            made = copy or self._after.get(cell_of(v))
            if made is None or not isinstance(v, SymTensor):
                return v if made is None else made
            return self._view(made, v.path if copy is None and v.storage in self._whole else marks(v.path))

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
        return state.values[found] if is_held(found) else found


def referring_tensor(context: Context, value: SymTensor) -> Tensor:
    """The template of what a tensor holds."""
    return Tensor(value.type_.dtype, tuple([context.sizes.canonical(d) for d in value.type_.dims]), value.requires_grad,
                  batches=batches(value))


def inherit(storage: Storage, tensor: SymTensor) -> bool:
    """What a tensor of the loop may be: also what this one is. Whether that is new."""
    one, before = tensor.storage, _marks(storage)
    storage.ordered = layout.joined_order(storage.ordered, layout.keeps_order(current(), tensor))
    storage.alias = storage.alias or (one.alias if one.input < 0 else "")
    storage.was_leaf |= one.was_leaf or (one.requires_grad and not tensor.path)
    storage.unknown |= one.unknown
    storage.device = storage.device or one.device
    if one.parameter is not False and not tensor.path:
        storage.parameter = None
    return before != _marks(storage)


def _marks(storage: Storage) -> tuple[Any, ...]:
    return storage.ordered, storage.alias, storage.was_leaf, storage.unknown, storage.device, storage.parameter


def type_of(value: Any) -> Any:
    """What a tensor or container must have in common with one that stands in for it."""
    if isinstance(value, SymTensor):
        of = batches(value)
        return (value.type_.dtype, len(value.type_.dims), *([of] if of else []))
    if isinstance(value, Storage):
        return value.type.dtype, len(value.type.dims)
    return type(value), getattr(value, "cls", None)


def place_of(key: Any, steps: tuple[Any, ...]) -> Place:
    """A place; of what a union refers to there is one at most."""
    return key, tuple([s for k, s in enumerate(steps) if k == 0 or steps[k - 1] != "one of"])
