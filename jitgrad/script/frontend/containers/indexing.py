"""Indices into separate objects: a tuple, a list of known length, a ModuleList."""

from collections.abc import Sequence
from typing import Any

from jitgrad.errors import TypeMismatch
from jitgrad.ops.backend import backend
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.unrolling import UNROLL_LIMIT
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import is_dynamic, items_of, type_name
from jitgrad.script.frontend.values.values import Number, SymTensor


def pick(context: Context, obj: Any, index: Any) -> Any:
    """An item, or those of a slice, of separate objects; a run-time index switches over them."""
    if isinstance(index, SymTensor):
        index = guarded(context, lambda: backend().item(index))
    if not isinstance(index, Number):
        items = obj if isinstance(obj, (tuple, range)) else items_of(context, obj)
        if isinstance(index, slice) and not is_empty(items, index):
            index = slice(*(None if p is None else static(context, p, "a slice of a list or tuple")
                            for p in (index.start, index.stop, index.step)))
        elif isinstance(index, slice):
            index = slice(None)
        return guarded(context, lambda: items[index])
    _unroll_counter(context, index)
    return _switch(context, items_of(context, obj), index, type_name(obj))


def is_empty(items: Sequence[Any], index: Any) -> bool:
    """Whether an index is a slice in which there is nothing, for there are no items: wherever its ends are."""
    return isinstance(index, slice) and not len(items) and index.step is None and all(
        p is None or type(p) is int or (isinstance(p, Number) and p.number_type is int)
        for p in (index.start, index.stop))


def _unroll_counter(context: Context, index: Number) -> None:
    """A loop's counter as an index into separate objects: the loop is unrolled."""
    counter = next((c for c in context.counters if c[0] is index), None)
    if counter is not None:
        raise Restart(("unroll", counter[1]), f"unrolled the loop at {counter[1]}: its counter is an index into "
                                              "separate objects", of_call=True)


def assign_at(context: Context, items: Sequence[Any], index: Number, value: Any) -> tuple[Any, ...]:
    """The items of a list after an assignment at a place known at run time."""
    _unroll_counter(context, index)
    place = _place(context, len(items), index, "list assignment")

    def chosen(k: int, old: Any) -> Any:
        condition = numbers.wrap(context, context.one("num.eq", place.value, context.constant(k)))
        return dispatch.branch(context, condition, lambda: value, lambda: old)

    return tuple([chosen(k, old) for k, old in enumerate(items)])


def _switch(context: Context, items: Sequence[Any], index: Number, name: str) -> Any:
    n = len(items)
    place = _place(context, n, index, name)

    def run(k: int) -> Any:
        if k == n - 1:
            return items[k]
        condition = numbers.wrap(context, context.one("num.eq", place.value, context.constant(k)))
        return dispatch.branch(context, condition, lambda: items[k], lambda: run(k + 1))

    if not any(is_dynamic(i) for i in items) and not all(isinstance(i, (bool, int, float)) for i in items):
        return unions.one_of(tuple(items), place.value) if len({id(i) for i in items}) == n else run(0)
    return run(0)


def _place(context: Context, n: int, index: Number, name: str) -> Any:
    """An index into `n` objects as one from the front, checked."""
    if n > UNROLL_LIMIT:
        raise TypeMismatch(f"a run-time index into {n} separate objects", context.span(),
                           hint="stack them in a tensor")
    ok = numbers.both(context, numbers.compare(context, "ge", index, -n), numbers.compare(context, "lt", index, n))
    named = {"str": "string", "range": "range object"} | {w: w for w in ("tuple", "list", "list assignment")}
    text = f"{named[name]} index out of range" if name in named else "index out of range"
    if ok is False or not n:
        raise effects.raise_now(context, IndexError, (text,))
    if isinstance(ok, Number):
        effects.emit(context, "check", ok.value, error=IndexError, template=(text,))
    negative = numbers.compare(context, "lt", index, 0)
    if negative is False:
        return index
    return numbers.select(context, negative, numbers.wrap(
        context, context.one("num.add", index.value, context.constant(n))), index)
