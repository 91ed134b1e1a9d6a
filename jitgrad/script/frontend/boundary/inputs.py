"""The world around the script: real objects become graph inputs (tensors, floats) or guarded constants.

Every object is known by its source, the path on which the next call finds it again. Tensors and floats are inputs;
ints, bools, strings and the rest are static under a guard; containers are read item by item. Objects of this library
and of the standard library are taken to be constant.
"""

import difflib
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import AnyTensor
from jitgrad.ops.types import OptionalType
from jitgrad.script.call import signature as sig
from jitgrad.script.call.list_kinds import BY_CLASS, NOTHING, Kind
from jitgrad.script.call.sources import HOLDERS, holder_of, is_inherited, is_itself, is_numpy_number
from jitgrad.script.frontend.boundary import list_arguments
from jitgrad.script.frontend.boundary.entries import KINDS, Entries, name_of, trusted
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import FLAGS, Context, Restart
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values.protocol import kind_of
from jitgrad.script.frontend.values.values import (UNBOUND, Borrowed, Number, OwnDict, Storage, SymDict, SymList,
                                                   SymTuple, Tail, TensorMap)
from jitgrad.script.graph.ir import Value

_PLAIN = (bool, int, str, bytes, type(None), complex, range, slice, type(Ellipsis), device)


class Inputs(Entries):
    """The objects around the script as it reads them, and the slots of memory that the script writes.

    Attributes:
        written: storages and slots that the script writes, in order of their first write.
        dirty: those of them that may have been written since their memory was last made current.
        rewritten: lists and dicts that the script did not make, and whose content is stored as a whole.
        stores: slot -> source, for attributes that are rebound to something that is no number.
        changed: dicts that the script did not make and into which it writes.
        recipes: what the `pending` nodes stand for (see `ScriptGraph`).
    """

    def __init__(self, context: Context, any_grads: bool = False, lists: Mapping[sig.Source, Kind] = NOTHING):
        super().__init__(context)
        self._any_grads, self._lists = any_grads, lists
        self.written: dict[Any, None] = {}
        self.dirty: dict[Any, None] = {}
        self.stores: dict[Any, sig.Source] = {}
        self.changed: dict[SymDict, None] = {}
        self.objects: dict[int, tuple[Any, sig.Source | None]] = {}  # id -> object (kept alive) and where it is
        self._containers: dict[int, Any] = {}
        self._slots: dict[Any, int] = {}
        self._static_reads: set[Any] = set()
        self._before: dict[Any, tuple[Any, sig.Source]] = {}  # slots that are written -> content at entry, source
        self._initial: dict[Any, Any] = {}
        self._unread: dict[SymList, Callable[[], tuple[Any, ...]]] = {}
        self.rewritten: dict[Any, None] = {}
        self.recipes: list[tuple[tuple[sig.Place, sig.Result], ...]] = []
        self._constants = 0
        self.constants: list[tuple[int, Any, Any]] = []
        self._taken: dict[sig.Source, Kind] = {}

    # --- reading ---------------------------------------------------------------------------------------------------

    def argument(self, value: Any, source: sig.Source, name: str) -> Any:
        """An argument: its types and structure are the caller's key, so that numbers are inputs and need no guard."""
        kind = type(value)
        if isinstance(value, AnyTensor):
            return self.tensor(value, source, name, guarded=True)
        if kind is bool and FLAGS in self.context.decisions:
            self.guard(source, "equal", value)
            return value
        if kind in KINDS:
            return self.number(value, source, name)
        if is_numpy_number(value):
            return self.number(value.item(), source, name)
        if isinstance(value, np.bool_):
            return bool(value)
        if kind is list or isinstance(value, tuple):
            return self.sequence(value, source, lambda v, s, i: self.argument(v, s, f"{name}_{i}"))
        if isinstance(value, dict) and not is_itself(value):
            return self._dict(value, source, lambda v, s, k: self.argument(v, s, f"{name}_{k}"))
        if value is None or isinstance(value, (*_PLAIN, dtypes.dtype)):
            return value
        if source in self._lists:
            return self._borrowed(value, source)
        made = kind_of(value).given(self, value, source, lambda v, s, i: self.argument(v, s, f"{name}_{i}"))
        return self._itself(value, source) if made is None else made

    def _itself(self, value: Any, source: sig.Source) -> Any:
        """An object that is known by its identity; a bound method by what it is made of."""
        if isinstance(value, types.MethodType):
            self.read(value.__self__, sig.Attr(source, "__self__"))
            self.read(value.__func__, sig.Attr(source, "__func__"))
        if BY_CLASS in self._lists.values():
            found = self._once(value, source)
            if found is not None:
                return found
        self.objects.setdefault(id(value), (value, source))
        return value

    def _borrowed(self, value: Any, source: sig.Source) -> Any:
        """An object that is known by its class; two of them stay two, or one."""
        made = self._once(value, source)
        self._taken[source] = BY_CLASS
        if made is None:
            made = self._containers[id(value)] = Borrowed(value, source)
            self.objects[id(value)] = (value, source)
        return made

    def _once(self, value: Any, source: sig.Source) -> Any:
        """What stands for an object that was met before, guarded to be it; None for another one, guarded to be none of
        those of its class that are known by their class, or none of all where it is itself."""
        cls = type(value)
        borrowed = source in self._lists
        for other, place in [found for found in self.objects.values() if type(found[0]) is cls]:
            known = self._containers.get(id(other))
            if place is None or place == source or not (borrowed or isinstance(known, Borrowed)):
                continue
            if other is value:
                self.guard(source, "same", place)
                return other if known is None else known
            self.guard(source, "other", place)
        return None

    def read(self, value: Any, source: sig.Source, key: Any = None) -> Any:
        """The object found at `source` while compiling, as the script sees it."""
        if source in self.found:
            return self.found[source]
        result = self.found[source] = self._read(value, source, key)
        return result

    def read_global(self, value: Any, source: sig.Global) -> Any:
        """A global variable; those of trusted modules are constants."""
        if trusted(source.function.__module__):
            return self.constant(value)
        return self.read(value, source, ("global", id(source.function.__globals__), source.name))

    def constant(self, value: Any) -> Any:
        """An object that never changes; a tensor becomes an input all the same."""
        if isinstance(value, AnyTensor):
            found = self._containers.get(id(value))
            if found is None:
                self._constants += 1
                found = self._containers[id(value)] = self.tensor(value, sig.Constant(value, self._constants), "",
                                                                  guarded=True)
            return found
        return value

    def unnamed(self, obj: Any) -> Any:
        """An object that no path leads to, and whose attributes may change."""
        if id(obj) not in self.objects:
            self._constants += 1
            self.objects[id(obj)] = (obj, sig.Constant(obj, self._constants))
        return obj

    def _read(self, value: Any, source: sig.Source, key: Any) -> Any:
        kind = type(value)
        if source in self._lists and self._lists[source] == BY_CLASS:
            self.guard(source, "type", kind)
            return self._borrowed(value, source)
        made = kind_of(value).given(self, value, source, lambda v, s, i: self.read(v, s))
        if made is not None:
            return made
        if isinstance(value, AnyTensor):
            return self.tensor(value, source, name_of(source), guarded=False)
        if kind is float or (kind in KINDS and key in self.context.decisions):
            self.guard(source, "type", kind)
            return self.number(value, source, name_of(source))
        if is_numpy_number(value):
            self.guard(source, "type", kind)
            return self.number(value.item(), source, name_of(source))
        if isinstance(value, (*_PLAIN, np.bool_)):
            self._static_reads.add(key)
            self.guard(source, "equal", value)
            return bool(value) if isinstance(value, np.bool_) else value
        if isinstance(value, dtypes.dtype) or (isinstance(value, type) and not trusted(value.__module__)):
            self.guard(source, "is", value)
        elif kind is list or isinstance(value, tuple):
            self.guard(source, "type", kind)
            if kind is not list and source not in self._lists:
                self.guard(source, "len", len(value))
            return self.sequence(value, source, lambda v, s, i: self.read(v, s))
        elif isinstance(value, dict):
            from jitgrad.script.frontend.containers.foreign_dicts import is_tensor_map

            if is_tensor_map(self.context, value):
                self.guard(source, "type", kind)
                return self._containers.setdefault(id(value), TensorMap(value, source))
            if kind is not dict:
                self.guard(source, "type", kind)
            self.guard(source, "keys", tuple(value))
            return self._dict(value, source, lambda v, s, k: self.read(v, s, ("item", id(value), k)))
        elif isinstance(value, types.MethodType):
            self.guard(source, "type", kind)
        elif not (isinstance(value, types.ModuleType) and trusted(value.__name__)):
            self.guard(source, "is", value)
        else:
            self.modules[source] = value
        return self._itself(value, source)

    def sequence(self, value: Any, source: sig.Source, item: Callable[[Any, sig.Source, int], Any],
                 cls: type[SymList] = SymList) -> Any:
        """A list or tuple of the caller; a list is a `cls`."""
        if source in self._lists:
            return self._of_any_length(value, source, self._lists[source])
        if isinstance(value, tuple):
            items = [item(v, sig.Item(source, i), i) for i, v in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        found = self._containers.get(id(value))
        if found is None:
            found = self._containers[id(value)] = cls(source)
            self.objects[id(value)] = (value, source)
            self._unread[found] = lambda: tuple(item(v, sig.Item(source, i), i) for i, v in enumerate(value))
        elif found.source != source:
            self.guard(source, "same", found.source)
        return found

    def _of_any_length(self, value: Any, source: sig.Source, kind: Kind) -> SymList:
        """A list or tuple whose length is a run-time value."""
        found = self._containers.get(id(value))
        if found is not None:
            if found.source != source:
                self.guard(source, "same", found.source)
            return found  # type: ignore[no-any-return]
        made = self._containers[id(value)] = SymTuple(source) if isinstance(value, tuple) else SymList(source)
        self.objects[id(value)] = (value, source)
        self.guard(source, "items", kind)
        self._initial[made] = list_arguments.items(self.context, value, source, kind)
        return made

    def lists_taken(self) -> dict[sig.Source, Kind]:
        """The lists and tuples that are taken with any length."""
        return {**self._taken, **{g.source: g.value for g in self.guards.values() if g.kind == "items"}}

    def items(self, container: SymList) -> tuple[Any, ...]:
        """The items of a list that the script did not make, at entry. A list that is only appended to is not read."""
        read = self._unread.pop(container, None)
        if read is not None:
            self.guard(container.source, "len", len(self.original(container)))
            self._initial[container] = read()
        found: tuple[Any, ...] = self._initial[container]
        return found

    def unread(self) -> list[sig.Source]:
        """Lists among the inputs whose content does not matter."""
        return [container.source for container in self._unread]

    def _dict(self, value: Any, source: sig.Source, item: Callable[[Any, sig.Source, Any], Any]) -> Any:
        found = self._containers.get(id(value))
        if found is None:
            kind = type(value)
            found = self._containers[id(value)] = SymDict(source) if kind is dict else OwnDict(source, kind)
            self.objects[id(value)] = (value, source)
            self._initial[found] = {k: item(v, sig.Item(source, k), k) for k, v in value.items()}
        elif found.source != source:
            self.guard(source, "same", found.source)
        return found

    def initial(self, key: Any) -> Any:
        """What a storage or container that the script did not make holds at entry."""
        if isinstance(key, Storage):
            return self.values[key.input]
        return Tail() if key in self._unread else self._initial[key]

    def initial_attribute(self, key: Any) -> Any:
        """What an attribute or a variable outside holds itself at entry, as the script sees it; UNBOUND if nothing."""
        if key[0] != "attr":
            before, path = self._before[key]
            return self.read(before, path, key)
        obj, _ = self.objects[key[1]]
        source = self.source(obj)
        assert source is not None
        if not hasattr(obj, key[2]):
            self.guard(sig.Attr(source, key[2]), "absent", None)
            return UNBOUND
        if is_inherited(obj, key[2]):
            self.guard(source, "inherited", key[2])
            return UNBOUND
        return self.read(getattr(obj, key[2]), sig.Attr(source, key[2]), key)

    def initial_grad(self, storage: Storage) -> Any:
        """What a tensor's `.grad` is at entry."""
        if storage.input < 0:
            return None
        source = sig.Attr(self.sources[storage.input], "grad")
        if not self._any_grads or source in self.found:
            return self.read(self.tensors[storage.input].grad, source)
        self.guard(source, "optional", storage.type.dtype)
        value = self.add(OptionalType(storage.type), source, f"{name_of(self.sources[storage.input])}_grad")
        grad = self.found[source] = unions.maybe(storage.type, value)
        return grad

    def keep_apart(self) -> None:
        """Guards that a list or dict that the script changes is found on no other path."""
        changed = {*self.rewritten, *self.changed}
        for container in [*self.rewritten, *(c for c in self.changed if c not in self.rewritten)]:
            for other in self._containers.values():
                if type(other) is not type(container) or other is container or isinstance(other.source, sig.At):
                    continue
                if other not in changed or repr(other.source) < repr(container.source):  # a pair of changed ones once
                    self.guard(container.source, "other", other.source)

    def original(self, container: Any) -> Any:
        """The real list or dict that a container stands for."""
        return next(obj for obj, _ in self.objects.values() if self._containers.get(id(obj)) is container)

    # --- attributes ------------------------------------------------------------------------------------------------

    def attribute(self, obj: Any, name: str) -> Any:
        """`obj.name` for a real object, by path, properties and methods aside. Raises UnresolvedAttribute."""
        slot = ("attr", id(obj), name)
        values = self.context.state.values
        if slot in values and not unions.may_be(values[slot], UNBOUND):
            return values[slot]
        try:
            value = getattr(obj, name)
        except AttributeError as error:
            raise effects.no_attribute(self.context, "", name, what=f"{_called(obj)} has no `{name}`", says=str(error),
                                       hint=_similar(obj, name)) from error
        source = self.source(obj)
        if source is None:
            return self.constant(value)
        for other in [o for o in self._before if o[:2] == slot[:2]] if name in HOLDERS else ():
            if holder_of(obj, other[2]) == name and self.is_new(other, sig.Attr(source, other[2])):
                raise UnsupportedCall(f"`{name}` of an object after its `{other[2]}` is assigned", self.context.span(),
                                      hint="read its attributes by name")
        return self.read(value, sig.Attr(source, name), slot)

    def guard_inherited(self, obj: Any, name: str) -> None:
        """Guard that a method stays the class's: an optimizer's `step` is replaced by one that calls hooks, say."""
        source = self.source(obj)
        if source is not None and hasattr(obj, "__dict__") and not isinstance(obj, type) and (
                name in ("forward", "step") or not trusted(type(obj).__module__)):
            self.guard(source, "inherited", name)
        self.define(type(obj), name)

    def class_of(self, obj: Any) -> type:
        """The class of a real object, found by its path: what is read of it is guarded."""
        cls, source = type(obj), self.source(obj)
        if source is not None and not trusted(cls.__module__):
            self.read(cls, sig.Attr(source, "__class__"))
        return cls

    def source(self, obj: Any) -> sig.Source | None:
        """Where a real object was found; None for a constant."""
        if isinstance(obj, types.ModuleType) and trusted(obj.__name__):
            return None
        if isinstance(obj, type) and trusted(obj.__module__):
            return None
        found = self.objects.get(id(obj))
        return found[1] if found is not None else None

    # --- writing ---------------------------------------------------------------------------------------------------

    def note_written(self, storage: Storage) -> None:
        """A tensor input is written: no other input may be the same memory."""
        self.dirty[storage] = None
        self.memory.write(storage.input)
        self.written[storage] = None

    def write_attribute(self, obj: Any, name: str, value: Any) -> None:
        """`obj.name = value`."""
        context = self.context
        source = self.source(obj)
        if source is None:
            raise UnsupportedCall(f"assignment to `{name}` of a `{type(obj).__name__}` that the script cannot reach "
                                  "again", context.span(),
                                  hint="assign attributes only of arguments, globals and closures")
        holder = holder_of(obj, name)
        if sig.Attr(source, holder) in self.found:
            raise UnsupportedCall(f"assignment to `{name}` of an object whose `{holder}` is read", context.span(),
                                  hint="read its attributes by name")
        slot, path = ("attr", id(obj), name), sig.Attr(source, name)
        self.write_slot(slot, path, value, UNBOUND if is_inherited(obj, name) else getattr(obj, name, None))

    def is_new(self, slot: Any, path: sig.Source) -> bool:
        """Whether a slot that the script may have written holds something else than at entry."""
        values = self.context.state.values
        return slot in values and (path not in self.found or self.found[path] is not values[slot])

    def write_slot(self, slot: Any, path: sig.Source, value: Any, before: Any) -> None:
        """Assign to an attribute, or to a variable outside the script; `before` is what it holds now."""
        context = self.context
        self._before[slot] = (before, path)
        kind = value.number_type if isinstance(value, Number) else type(value)
        if kind in KINDS and type(before) in KINDS and ("any type", slot) not in context.decisions:
            if type(before) is not kind:
                raise Restart(("any type", slot), f"`{name_of(path)}` becomes a number of another type", of_call=True)
            if slot in self._static_reads:
                raise Restart(slot, f"`{name_of(path)}` is written, so it is read at run time", of_call=True)
            if slot not in self._slots:
                context.decisions.add(slot)
                self.guard(path, "type", kind)
                self.number(before, path, name_of(path))
                self._slots[slot] = self.sources.index(path)
            self.written[slot] = self.dirty[slot] = None
        else:
            self.stores[slot] = path
        context.state.values[slot] = value

    def write_random_state(self, part: str, value: Number) -> None:
        """The generator advanced, or got a seed."""
        slot = ("rng",) if part == "offset" else ("rng", part)
        if slot not in self._slots:
            self.random_state(part)
            self._slots[slot] = self.sources.index(sig.RngState(part))
        self.written[slot] = self.dirty[slot] = None
        self.context.state.values[slot] = value

    def commit_value(self, key: Any, value: Any) -> Value | None:
        """What a commit of a storage or slot writes; None where its memory holds that already."""
        from jitgrad.script.frontend.values.numbers import value_of

        index = self.target(key)
        if isinstance(value, Value):
            return None if value is self.values[index] and ("clean", key) not in self.context.state.values else value
        return value_of(self.context, value)

    def target(self, key: Any) -> int:
        """The graph input that is the memory of a storage or slot."""
        return key.input if isinstance(key, Storage) else self._slots[key]

    def commits(self) -> dict[int, sig.Source]:
        """Slots of numbers: graph input -> where to store it."""
        return {self._slots[k]: self.sources[self._slots[k]] for k in self.written if not isinstance(k, Storage)}


def _called(obj: Any) -> str:
    """An object in a message: modules and classes by name, others by their class."""
    if isinstance(obj, types.ModuleType):
        return f"module `{obj.__name__}`"
    return f"class `{obj.__name__}`" if isinstance(obj, type) else f"`{type(obj).__name__}`"


def _similar(obj: Any, name: str) -> str:
    close = difflib.get_close_matches(name, [n for n in dir(obj) if not n.startswith("_")], 1)
    return f"did you mean `{close[0]}`?" if close else ""
