"""What the script returns, as a recipe over graph outputs."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jitgrad.dims import Symbol, dim
from jitgrad.errors import Span, UnsupportedCall
from jitgrad.ops.types import OptionalType
from jitgrad.script.call import signature as sig
from jitgrad.script.call.list_kinds import NOTHING
from jitgrad.script.frontend.gradients import backward
from jitgrad.script.frontend.state import copies, layout, pooling
from jitgrad.script.frontend.state.context import ORIGINS, Context
from jitgrad.script.frontend.state.paths import key
from jitgrad.script.frontend.templates import item_origins, locations
from jitgrad.script.frontend.templates.alternatives import Either, Num, Same, Static
from jitgrad.script.frontend.templates.pools import Ref
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor, numbers_of
from jitgrad.script.frontend.templates.texts import Str, Words
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.protocol import is_dynamic, kind_of, kind_of_class, type_word
from jitgrad.script.frontend.values.values import (Container, Part, Pool, RunItems, RunPairs, Storage, SymDict,
                                                   SymTensor, SymTuple, Union, is_held)
from jitgrad.script.graph.ir import Value, attr_symbols, map_attr


class Results:
    """Collects graph outputs while a result tree is made. `numbered`: which tensor is which of those that the script
    made goes with them where it is asked."""

    numbered = True

    def __init__(self, context: Context):
        self.context = context
        self.outputs: list[Value] = []
        self.shown: set[Value] = set()  # those that are more than a word on which object a result is
        self.on_host: set[int] = set()  # those that are brought to the CPU
        self._index: dict[Value, int] = {}
        self._tensors: dict[Any, Value] = {}
        self._identities: dict[Any, int] = {}
        self._parted: set[Storage] = set()
        self._repeated: set[SymTensor] = set()  # views
        self._making: list[Any] = []  # the containers whose recipes are being made, from the outermost inwards
        self._pools: dict[Pool, int] = {}
        self.leaves: dict[Storage, Span | None] = {}  # leaves that the script made, and where they leave it
        self.perhaps: dict[Value, Span | None] = {}  # outputs that may be such a leaf, and where

    def expect(self, value: Any) -> None:
        """Note which tensors that the script made leave it, by its result or what it stores, in several parts, which
        then share memory, and which views leave it more than once."""
        paths: dict[Storage, set[Any]] = {}
        views: Counter[SymTensor] = Counter()
        pending, seen = [value], set()
        while pending:
            v = pending.pop()
            if isinstance(v, SymTensor):
                held, path = v.source
                paths.setdefault(held, set()).add(key(path))
                views[v] += bool(v.path)
            elif isinstance(v, (tuple, dict, Union)):
                pending += v.values() if isinstance(v, dict) else v.statics if isinstance(v, Union) else v
            elif is_held(v) and v.source is None and v not in seen:
                seen.add(v)
                held = locations.fetch(self.context, self.context.state, v)
                pending += held.values() if isinstance(held, dict) else held if isinstance(held, tuple) else ()
        copies.tell_apart(self.context, paths.keys())
        # on a GPU nobody waits for the run to say it
        if self.context.device.type == "cpu" and copies.one_of_several(self.context, paths) is not None:
            item_origins.ask(self.context)
        self._repeated = {v for v, n in views.items() if n > 1}
        self._parted = {s for s, found in paths.items() if len(found) > 1 and s.input < 0 and not s.requires_grad}

    def tensor(self, value: Value, storage: Storage) -> int:
        """The number of the graph output that is the content of a storage."""
        index = self.output(value)
        where = storage.device
        if where is not None and where.type == "cpu" and self.context.device.type != "cpu":
            self.on_host.add(index)
        return index

    def output(self, value: Value) -> int:
        """The number of the graph output that is `value`."""
        self.shown.add(value)
        return self._output(value)

    def _output(self, value: Value) -> int:
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.outputs)
            self.outputs.append(value)
        return index

    def tree(self, value: Any) -> sig.Result:
        """The recipe for one value."""
        if isinstance(value, Container) and value.entry is not None:
            return self._entry(value.entry.pool, self.output(value.entry.place))
        if is_held(value) and value.source is None:  # which objects are one is seen outside
            if not self.context.by_reference and value in copies.of(self.context).shared:
                raise copies.changed(self.context, value)
            if value in self.context.listed:
                pooling.begin(self.context)
            return self._whole(value)
        return kind_of(value).result(self, value)

    def _whole(self, container: Any) -> sig.Result:
        """The recipe for a container that the script made. Those of a pool are made before they are filled, so one that
        holds itself must be there."""
        if container in self._making:
            pooling.begin(self.context)
            pooling.ask(self.context, container)
            raise UnsupportedCall("a script cannot return an object that holds itself", self.context.span(),
                                  hint="return its parts")
        self._making.append(container)
        try:
            return kind_of(container).result(self, container)
        finally:
            self._making.pop()

    def _entry(self, pool: Pool, index: int) -> sig.Result:
        """The recipe for a container in a pool: the pools are made once for all that leaves together."""
        known = self._pools.setdefault(pool, len(self._pools))
        return sig.Entry(known, index)

    def with_pools(self, tree: sig.Result) -> sig.Result:
        """A recipe with those of the pools that it refers to; after all others that leave together are made."""
        if not self._pools:
            return tree
        found: list[sig.Pool] = []
        while len(found) < len(self._pools):  # which may refer to others
            pool = list(self._pools)[len(found)]
            held: RunItems = locations.fetch(self.context, self.context.state, pool)
            item = self._item(held.elem.parts[1], iter(range(1, len(held.leaves))), own=True)
            make = kind_of(pool.prototype).maker(pool.prototype)
            self._note_leaves(*held.leaves)
            found.append(sig.Pool(make, tuple(self.output(v) for v in held.leaves), item))
        return sig.Pools(tuple(found), tree)

    def _unknown(self) -> UnsupportedCall:
        """The refusal of a tensor of which not even the run knows which object it is."""
        item_origins.ask(self.context)
        return UnsupportedCall("a script cannot return this tensor: it may be memory of an argument, or a leaf with a "
                               "`.grad`, and which one is not known", self.context.span(), hint="write `.clone()`")

    def _parameter(self) -> UnsupportedCall:
        return UnsupportedCall("a script cannot return a parameter that it made", self.context.span(),
                               hint="return `p.detach()`, or make the parameter outside the script")

    def leave(self, t: Tensor) -> None:
        """An item of a list or a union's tensor leaves the script: which object it is must be known."""
        if t.parameter:
            raise self._parameter()
        if t.origin == item_origins.UNKNOWN:
            raise self._unknown()
        if t.leaf and not t.origin:
            item_origins.ask(self.context)

    def _note_leaves(self, *values: Value) -> None:
        """Graph outputs may be leaves that the script made, if it brings any together with other tensors."""
        if item_origins.of(self.context).leaves:
            self.perhaps.update({v: self.context.span() for v in values if v not in self.perhaps})

    def _item(self, t: Template, number: Iterator[int], own: bool = False) -> sig.Result:
        """The recipe for an element from its leaves; `own`: a list is no object, but what one object holds."""
        if isinstance(t, Items):
            return kind_of_class(t.type).recipe(self, t.type, tuple([self._item(i, number) for i in t.items]))
        if isinstance(t, ListOf):
            if not own and t.type is not SymTuple:  # which of them are one, pools know
                pooling.begin(self.context)
                if pooling.wanted(self.context):
                    raise UnsupportedCall("a script cannot return lists of which only the run knows which are one",
                                          self.context.span(), hint="put copies into it: `list(xs)`")
            columns = tuple([next(number) for _ in t.types()])
            identity = self.identity(object())
            made = sig.Repeated(columns, self._item(t.elem, iter(range(len(columns)))), identity)
            return kind_of_class(t.type).whole(self, t.type, made, identity)
        if isinstance(t, Ref):
            return self._entry(t.pool, next(number))
        if isinstance(t, Record):
            return self._record(t, tuple([self._item(i, number, t.type is RunPairs) for i in t.items]))
        held = t.inner if isinstance(t, Either) and t.statics == (None,) and not t.tagged else t
        if isinstance(held, Ref):
            return self._entry(held.pool, next(number))
        if isinstance(held, (Tensor, Num, Str)):
            leaf = next(number)
            if isinstance(held, Tensor):
                self.leave(held)
                if self.numbered and self.context.device.type == "cpu":  # another one may be it
                    item_origins.ask(self.context)
            if not isinstance(held, Tensor) or held.origin < 1:
                return numbers_of(held, sig.Output(leaf))
            return numbers_of(held, self._referred(leaf, [next(number) for _ in range(held.origin)]))
        if isinstance(t, Either) and t.tagged and all(not is_dynamic(s) for s in t.statics):
            tag = next(number)
            inner = () if t.inner is None else (self._item(t.inner, number),)
            return sig.OneOf(tag, (*(self.tree(s) for s in t.statics), *inner))
        raise UnsupportedCall(f"a script cannot return a list of items that are {t}, decided at run time",
                              self.context.span(), hint="return tensors, numbers, and tuples of them")

    def content(self, container: Any, content: Any, identity: int = -1) -> sig.Result:
        """The recipe for what a list or dict holds."""
        if isinstance(content, RunPairs):
            return sig.Pairs(self.tree(content[Part.KEYS]), self.tree(content[Part.VALUES]), self.identity(container))
        if isinstance(content, dict):
            return sig.Container(dict, tuple(content), tuple(self.tree(v) for v in content.values()), identity)
        if not isinstance(content, RunItems):
            return sig.Container(list, None, tuple(self.tree(v) for v in content), identity)
        item = self._item(content.elem, iter(range(len(content.leaves))))
        self._note_leaves(*content.leaves)
        return sig.Repeated(tuple(self.output(v) for v in content.leaves), item, self.identity(container))

    def identity(self, value: Any) -> int:
        """A number for an object: the same one wherever it is found."""
        return self._identities.setdefault(value, len(self._identities))

    def refusal(self, value: Any) -> UnsupportedCall:
        """The refusal of a value that cannot leave a script."""
        return UnsupportedCall(f"a script cannot return {type_word(value)}", self.context.span(),
                               hint="return tensors, numbers, and tuples, lists and dicts of them")

    def of_tensor(self, value: SymTensor) -> sig.Result:
        context = self.context
        storage = value.storage
        layout.leave(context, storage)
        if isinstance(value.source[0], heap.Face):
            return self._view(value) if value.source[0] in self._parted else sig.Output(
                self.tensor(self._fresh(value), storage))
        if not storage.origin or ORIGINS in context.decisions:  # one that the script made is to be itself, too
            copies.identify(context, value)
        origin = item_origins.of_whole(context, storage) if self.numbered else storage.origin
        if origin and not item_origins.own_leaf(value):
            return self._of_origin(value, origin)
        if storage.unknown:
            raise self._unknown()
        if storage.input >= 0:
            if not value.path:
                return sig.Same(storage.input)
            return self._view(value)
        if storage.parameter is not False and not value.path:
            raise self._parameter()
        if storage.requires_grad and not value.path:
            return self._leaf(storage)
        if self._varies(value):
            item_origins.ask(context)
        if value.path and storage in self._parted:
            return self._view(value)
        return sig.Output(self.tensor(self._fresh(value), storage))

    def _varies(self, value: SymTensor) -> bool:
        """Whether the run says which object a tensor is, and is asked. On a GPU that would mean to wait for the run: it
        is asked where it may be a leaf of the script's own, else what is brought is a tensor of its own."""
        context, storage = self.context, value.storage
        asked = context.device.type == "cpu" or any(leaf.input < 0 for leaf in heap.of(context).leaves)
        return asked and (storage in copies.of(context).stands or (storage.was_leaf and not value.path))

    def _of_origin(self, value: SymTensor, origin: Sequence[Value]) -> sig.Result:
        """What the run says which object it is (`item_origins.py`), or a view of it."""
        storage = value.storage
        held = self._fresh(SymTensor(storage, (), storage.type))
        whole = self.output(held)
        if storage.origin and not value.path:
            self._note_leaves(held)
        path, sizes = self._path(value)
        return self._referred(whole, [self._output(v) for v in origin], path, sizes)

    def _referred(self, made: int, origin: Sequence[int], path: tuple[tuple[str, Any], ...] = (),
                  sizes: Mapping[Any, int] = NOTHING) -> sig.Referred:
        return sig.Referred(made, tuple(origin), item_origins.of(self.context).references, path, sizes)

    def _leaf(self, storage: Storage) -> sig.Result:
        """A leaf that the script made: without history in the graph, a leaf again outside."""
        context = self.context
        self.leaves.setdefault(storage, context.span())
        value = self._tensors.get(storage)
        if value is None:
            value = self._tensors[storage] = context.one("detach", heap.current_value(context, storage))
        grad = locations.fetch(context, context.state, backward.slot_of(storage))
        owner = heap.of(context).borrowed.get(storage)
        borrowed = owner is not None and owner.input >= 0
        if borrowed and grad is not None:
            raise UnsupportedCall("a script cannot return a leaf with a `.grad` that shares memory with a tensor it "
                                  "did not make", context.span(), hint="write `.detach().clone().requires_grad_()`")
        if borrowed or (grad is None and self.numbered and ORIGINS in context.decisions):
            whose = item_origins.values(context, SymTensor(storage, (), storage.type), 1)
            return self._referred(self.tensor(value, storage), [self._output(v) for v in whose])
        return sig.Leaf(self.tensor(value, storage), self.tree(grad))

    def beside_owner(self, leaf: Storage) -> bool:
        """Whether a leaf that the script made leaves it together with a tensor that it made too, whose memory it
        shows."""
        owner = heap.of(self.context).borrowed.get(leaf)
        return owner is not None and owner.input < 0 and any(
            owner is (k[0] if isinstance(k, tuple) else k) for k in self._tensors)

    def _fresh(self, value: SymTensor) -> Value:
        held, path = value.source
        place = (held, key(path))
        found = self._tensors.get(place)
        if found is None:
            found = heap.read_if_there(self.context, value)
            if not isinstance(found.type, OptionalType) and (
                    found in self._index or found in self.context.inputs.entered):
                found = self.context.one("reshape", found, shape=found.type.dims)  # type: ignore[union-attr]
            self._tensors[place] = found
        return found

    def _path(self, value: SymTensor) -> tuple[tuple[tuple[str, Any], ...], dict[Any, int]]:
        """The path of a view, and where the sizes in it are found."""
        context = self.context
        used: set[Symbol] = set()
        path = []
        for op, attrs in value.source[1]:
            known = {k: map_attr(a, context.sizes.canonical) for k, a in attrs.items()}
            path.append((op, known))
            for a in known.values():
                used |= attr_symbols(a)
        return tuple(path), {s: self.output(context.one("dim.value", dim=dim(s)))
                             for s in sorted(used, key=lambda s: s.number)}

    def _view(self, value: SymTensor) -> sig.Result:
        path, sizes = self._path(value)
        identity = self.identity(value) if value in self._repeated else -1
        held, _ = value.source
        if held in self._parted:
            whole = SymTensor(value.storage, held.path if isinstance(held, heap.Face) else (), held.type)
            return sig.ViewOf(self.tensor(self._fresh(whole), value.storage), path, sizes, True, identity)
        return sig.ViewOf(value.storage.input, path, sizes, identity=identity)

    def one_of(self, tag: Value, statics: Sequence[Any], inner: Template | None, values: Sequence[Value]) -> sig.Result:
        """One of several objects, or what graph values are that have a template."""
        leaves = iter([sig.Output(self.output(v)) for v in values])
        payload = () if inner is None else (self._payload(inner, leaves),)
        return sig.OneOf(self.output(tag), (*(self.tree(s) for s in statics), *payload))

    def _record(self, t: Record, made: tuple[sig.Result, ...]) -> sig.Result:
        """The recipe for a dict or an object, from those of what it holds."""
        if t.type is RunPairs:
            return sig.Pairs(made[0], made[1], self.identity(object()))
        if t.type is SymDict:
            return sig.Container(dict, t.names, made)
        return sig.object_of(t.type, dict(zip(t.names, made, strict=True)))

    def _payload(self, t: Template, leaves: Iterator[sig.Result]) -> sig.Result:
        """The recipe for the run-time value of a union, from the outputs that are its leaves."""
        if isinstance(t, Tensor):
            self.leave(t)
        if isinstance(t, Tensor) and t.origin > 0:
            whole, *origin = [leaf.index for leaf in itertools.islice(leaves, 1 + t.origin)
                              if isinstance(leaf, sig.Output)]
            self._note_leaves(self.outputs[whole])
            return numbers_of(t, self._referred(whole, origin))
        if isinstance(t, (Tensor, Num, Str)):
            return numbers_of(t, next(leaves))
        if isinstance(t, (Same, Static)):
            return self.tree(t.value)
        if isinstance(t, Words):
            shown = iter([self._payload(i, leaves) for i in t.items])
            return sig.Text(tuple(p if isinstance(p, str) else (next(shown), *p) for p in t.frame))
        if isinstance(t, Items):
            return kind_of_class(t.type).recipe(self, t.type, tuple([self._payload(i, leaves) for i in t.items]))
        if isinstance(t, Ref):
            index = next(leaves)
            assert isinstance(index, sig.Output)
            return self._entry(t.pool, index.index)
        if isinstance(t, Record):
            return self._record(t, tuple([self._payload(i, leaves) for i in t.items]))
        if isinstance(t, Either) and t.tagged:
            tag = next(leaves)
            assert isinstance(tag, sig.Output)
            inner = () if t.inner is None else (self._payload(t.inner, leaves),)
            return sig.OneOf(tag.index, (*(self.tree(s) for s in t.statics), *inner))
        raise UnsupportedCall(f"a script cannot return {t}, decided at run time", self.context.span(),
                              hint="return tensors, numbers, and tuples, lists and dicts of them")
