"""Dicts that the script did not make: an optimizer's state, a param group, a cache.

A dict with plain keys is read as a whole (`SymDict` with a source). One that is keyed by tensors, or that makes its
items on demand, is a `TensorMap`: read item by item, each item under the path on which the next call finds it again.
What the script writes into either is stored when the call ends.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import AnyTensor
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import HOLDERS
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.state.unrolling import UNROLL_LIMIT
from jitgrad.script.frontend.templates import locations, pools
from jitgrad.script.frontend.templates.unions import bound, without
from jitgrad.script.frontend.values import numbers, symnumbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import call, identical, type_word
from jitgrad.script.frontend.values.values import UNBOUND, Number, SymDict, SymTensor, TensorMap

#: the decision to read a dict so which has no tensors for keys yet
BY_ITEM = "by item"


def is_tensor_map(context: Context, value: dict[Any, Any]) -> bool:
    """Whether a dict is to be read item by item."""
    return isinstance(value, defaultdict) or (BY_ITEM, id(value)) in context.decisions or any(
        isinstance(k, AnyTensor) for k in value)


class Slot:
    """The location of one item of a `TensorMap`; slots of the same item are equal."""

    __slots__ = ("key", "map", "source")

    def __init__(self, map_: TensorMap, key: Any, source: sig.Source):
        self.map, self.key, self.source = map_, key, source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and other.map is self.map and (
            other.key is self.key if isinstance(self.key, AnyTensor) else bool(other.key == self.key))

    def __hash__(self) -> int:
        return hash((id(self.map), id(self.key) if isinstance(self.key, AnyTensor) else self.key))

    def initial(self, context: Context) -> Any:
        """What the item is at entry; UNBOUND where there is none."""
        real = self.map.real
        if self.key not in real:
            context.inputs.guard(self.source, "absent", None)
            return UNBOUND
        context.inputs.guard(self.source, "type", type(real[self.key]))
        return context.inputs.read(real[self.key], self.source, self)


def slot(context: Context, target: TensorMap, key: Any) -> Slot:
    """The location of `target[key]`."""
    if isinstance(key, SymTensor):
        if key.path or key.storage.input < 0:
            raise UnsupportedCall("a dict that the script did not make, asked for a tensor that the script made",
                                  context.span(), hint="use the parameter itself as the key")
        index = key.storage.input
        return Slot(target, context.inputs.tensors[index], sig.At(target.source, context.inputs.sources[index]))
    known = static(context, key, "a dict key")
    return Slot(target, known, sig.Item(target.source, known))


def key_of(context: Context, target: SymDict | dict[Any, Any], key: Any) -> Any:
    """A key of a dict, known while compiling; a dict that is found and asked for a tensor is read item by item."""
    if isinstance(key, SymTensor) and type(target) is SymDict and target.source is not None:
        decision = (BY_ITEM, id(context.inputs.original(target)))
        if decision not in context.decisions:  # an argument's items are part of the key of the call
            raise Restart(decision, "a dict has tensors for keys: it is read item by item", of_call=True)
    return static(context, key, "a dict key")


def find(context: Context, target: TensorMap, key: Any) -> Any:
    """`target[key]`, or UNBOUND."""
    return locations.fetch(context, context.state, slot(context, target, key))


def lacks(context: Context, target: TensorMap, key: Any) -> Any:
    """Whether `target[key]` is missing: a bool, or a run-time bool that says in each branch what is there."""
    place = slot(context, target, key)
    found = locations.fetch(context, context.state, place)
    missing = identical(context, found, UNBOUND)

    def learnt(cx: Context, absent: bool) -> None:
        if cx.state.values.get(place) is found:
            cx.state.values[place] = UNBOUND if absent else without(cx, found, UNBOUND)

    if isinstance(missing, Number):
        symnumbers.teaches(context, missing, learnt)
    return missing


def getitem(context: Context, target: TensorMap, key: Any) -> Any:
    """`target[key]`; a missing item is made if the dict makes its items."""
    factory = target.real.default_factory if isinstance(target.real, defaultdict) else None
    if factory is None:
        return bound(context, find(context, target, key), KeyError, type_word(key))

    def made() -> Any:
        item = call(context, factory)
        setitem(context, target, key, item)
        return item

    return dispatch.branch(context, lacks(context, target, key), made, lambda: find(context, target, key))


def setitem(context: Context, target: TensorMap, key: Any, value: Any) -> None:
    """`target[key] = value`."""
    place = slot(context, target, key)
    context.inputs.stores[place] = place.source
    context.state.values[place] = value


def length(context: Context, target: TensorMap) -> int:
    """`len(target)`."""
    context.inputs.guard(target.source, "len", len(target.real))
    made = [k for k, v in context.state.values.items()
            if isinstance(k, Slot) and k.map is target and k.key not in target.real and v is not UNBOUND]
    return len(target.real) + len(made)


def change(context: Context, target: SymDict, items: dict[Any, Any]) -> None:
    """Give a dict with plain keys new items; one that the script did not make is stored to when the call ends."""
    contents.writable(context, target)
    if target.source is not None:
        if isinstance(target.source, sig.Attr) and target.source.name in HOLDERS:
            raise UnsupportedCall(f"a change of the `{target.source.name}` of an object", context.span(),
                                  hint="assign its attributes by name, or by `setattr`")
        before = context.inputs.initial(target)
        if any(k not in items for k in before):
            context.inputs.rewritten[target] = None
        for key, value in items.items():
            # an int that is written is a run-time value, or every call would compile again
            if isinstance(value, (Number, int)) and type(before.get(key)) in (int, bool):
                decision = ("item", id(context.inputs.original(target)), key)
                if decision not in context.decisions and value is not before[key]:
                    raise Restart(decision, f"the item `{key}` is written, so it is read at run time", of_call=True)
        context.inputs.changed[target] = None
    pools.write(context, target, items)


def look_up(context: Context, items: dict[Any, Any], key: Number, otherwise: Callable[[], Any] | None = None) -> Any:
    """`items[key]` for a number known at run time: a branch for each key.

    `otherwise` gives what stands for a missing item; without it that is a KeyError.
    """
    keys = [k for k in items if isinstance(k, (bool, int, float))]
    if len(keys) > UNROLL_LIMIT:
        raise UnsupportedCall(f"a run-time key into a dict of {len(keys)} items", context.span(),
                              hint="use a tensor, which a run-time int can index")
    tests = [numbers.compare(context, "eq", key, k) for k in keys]
    if otherwise is None:
        found: Any = False
        for test in tests:
            found = numbers.either(context, found, test)
        if found is False:
            raise effects.raise_now(context, KeyError, (None, 0), [key.value])
        if found is not True:
            effects.emit(context, "check", found.value, key.value, error=KeyError, template=(None, 0))

    def chosen(k: int) -> Any:
        if k == len(keys) - 1 and otherwise is None:
            return items[keys[k]]
        if k == len(keys):
            return otherwise() if otherwise is not None else None
        if not isinstance(tests[k], Number):
            return items[keys[k]] if tests[k] else chosen(k + 1)
        return dispatch.branch(context, tests[k], lambda: items[keys[k]], lambda: chosen(k + 1))

    return chosen(0)


def stores(context: Context) -> list[tuple[sig.Source, Any]]:
    """What the script wrote into dicts with plain keys: where it goes, and the value."""
    found: list[tuple[sig.Source, Any]] = []
    for target in context.inputs.changed:
        if target in context.inputs.rewritten:
            continue  # stored as a whole
        before = context.inputs.initial(target)
        for key, value in locations.fetch(context, context.state, target).items():
            if key not in before or before[key] is not value:
                found.append((sig.Item(target.source, key), value))
    return found
