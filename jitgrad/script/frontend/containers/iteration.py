"""What a `for` goes over: a length (known or not) and the item at a position."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.errors import TypeMismatch, UnsupportedCall
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.containers.generators import Generator, collect
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.values import numbers, subscripts
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    Union,
    class_of,
    type_word,
)

UNROLL_LIMIT = 64


class Iterable:
    """An iterable of a script.

    Attributes:
        length: int, or a Number where only the run knows.
        item: `(context, k) -> value`, k an int or a Number in [0, length).
        unrolled: the items are separate objects (a tuple, a list, modules), so that each gets a body of its own.
    """

    __slots__ = ("item", "length", "unrolled")

    def __init__(self, length: Any, item: Callable[[Context, Any], Any], unrolled: bool):
        self.length, self.item, self.unrolled = length, item, unrolled

    @staticmethod
    def of(context: Context, value: Any) -> Iterable | None:
        """The iterable that `value` is; TypeMismatch for something that is none."""
        if isinstance(value, Iterator):
            return value.rest(context)
        if isinstance(value, Iterable):
            return value
        if isinstance(value, (range, Range)):
            return _range(context, value)
        if isinstance(value, SymTensor):
            if not value.ndim:
                raise TypeMismatch("iteration over a 0-d tensor", context.span(),
                                   hint="a 0-d tensor has no elements to loop over; for a count write "
                                        "`range(int(n))`")
            return Iterable(value.shape[0], lambda cx, k: subscripts.getitem(cx, value, k), False)
        if isinstance(value, SymList):
            from jitgrad.script.frontend.containers import lists

            held = lists.run_items(context, value)
            if held is not None:
                return lists.iterable(context, value, held)
        if isinstance(value, SymDict):
            from jitgrad.script.frontend.containers import open_dicts

            if open_dicts.is_open(context, value):
                return open_dicts.iterable(context, value)
        if isinstance(value, Union):
            value = merge.force(context, value, "'{}' object is not iterable")
            if isinstance(value, (tuple, SymTensor)):
                return Iterable.of(context, value)
        if isinstance(value, Generator):
            return sequence(collect(context, value))
        if isinstance(value, (tuple, SymList, SymDict, str, bytes, dict, set, frozenset)):
            return sequence(contents.items_of(context, value))
        if isinstance(value, (Number, Union)) or value is None:
            number = isinstance(value, Number)
            raise TypeMismatch(f"iteration over {type_word(value)}", context.span(),
                               hint="write `range(n)`" if number else "")
        return _of_object(context, value)


class Iterator(Iterable):
    """What `iter`, `zip`, `map` and kin give: an item that was taken is gone."""

    __slots__ = ("_depth", "_loops", "_taken", "_used")

    def __init__(self, context: Context, inner: Iterable):
        super().__init__(inner.length, inner.item, inner.unrolled)
        self._depth, self._loops, self._taken, self._used = context.depth, len(context.bodies_open), 0, False

    def rest(self, context: Context) -> Iterable:
        """The items that are left, which are taken with that. Where those of a loop that was left are, nobody knows."""
        if self._used or len(context.bodies_open) > self._loops or (self._taken and context.depth > self._depth):
            raise UnsupportedCall("an iterator that may have been used already", context.span(),
                                  hint="make a list of it, `list(...)`, or make the iterator where it is used")
        self._used, taken, item = True, self._taken, self.item
        if not taken:
            return Iterable(self.length, item, self.unrolled)
        length = numbers.minimum(context, 0, numbers.binary(context, "sub", self.length, taken), largest=True)
        return Iterable(length, lambda cx, k: item(cx, numbers.binary(cx, "add", k, taken)), self.unrolled)

    def next(self, context: Context, default: Any = UNBOUND) -> Any:
        """The next item; `default` or StopIteration where there is none."""
        if self._used or context.depth > self._depth:
            raise UnsupportedCall("`next` of an iterator that may have been used already", context.span(),
                                  hint="call it where the iterator is made, or use an index")
        there = numbers.compare(context, "lt", self._taken, self.length)
        if there is False:
            if default is not UNBOUND:
                return default
            raise merge.raise_now(context, StopIteration, ())
        if isinstance(there, Number):
            if default is not UNBOUND:
                raise UnsupportedCall("`next` with a default, of a length that only the run knows", context.span(),
                                      hint="write an `if` with the length")
            context.effect("check", there.value, error=StopIteration, template=None)
        self._taken += 1
        return self.item(context, self._taken - 1)


@register(Range, Iterable)
class IterableKind(Kind):
    """What a `for` goes over, and nothing else."""


def sequence(items: Sequence[Any]) -> Iterable:
    """An iterable of separate objects."""
    return Iterable(len(items), lambda cx, k: items[k], True)


def _of_object(context: Context, value: Any) -> Iterable:
    """A user's or our object: modules in a ModuleList, anything with `__len__` and `__getitem__`, plain iterators."""
    if type(value).__name__ in ("dict_values", "dict_keys", "dict_items"):
        return sequence(list(value))
    cls = class_of(value)
    if isinstance(value, enum.EnumMeta):
        return sequence(list(value))
    own = hasattr(getattr(cls, "__iter__", None), "__code__") and not hasattr(cls, "_modules") and (
        not cls.__module__.startswith("jitgrad"))
    if hasattr(cls, "__len__") and hasattr(cls, "__getitem__") and not hasattr(cls, "keys") and not own:
        n = calls.static(context, contents.length(context, value), "a length")
        return sequence([subscripts.getitem(context, value, k) for k in range(n)])
    if hasattr(cls, "__iter__"):
        inner = getattr(cls.__iter__, "__code__", None)
        if inner is not None:
            return Iterable.of(context, calls.call(context, cls.__iter__, (value,), {}))  # type: ignore[return-value]
    raise TypeMismatch(f"`{cls.__name__}` cannot be iterated in a script", context.span(),
                       hint="loop over a range, a tuple, a list, a ModuleList or a tensor")


def range_length(context: Context, r: Range) -> Any:
    """`len(range(start, stop, step))`."""
    start, stop, step = r.start, r.stop, r.step
    if isinstance(step, Number):
        raise TypeMismatch("a `range` whose step is known only at run time", context.span(),
                           hint="use a literal step, or a `while` loop")
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    span = numbers.binary(context, "sub", stop, start) if isinstance(start, Number) or start else stop
    if step < 0:
        span = numbers.unary(context, "neg", span)
    if abs(step) != 1:
        span = numbers.binary(context, "add", span, abs(step) - 1)
        span = numbers.binary(context, "floordiv", span, abs(step))
    if isinstance(span, Number) and not (span.low is not None and span.low >= 0):
        length = numbers.minimum(context, 0, span, largest=True)
        length.span = span
        return length
    return max(span, 0) if isinstance(span, int) else span


def _range(context: Context, r: range | Range) -> Iterable:
    length = len(r) if isinstance(r, range) else range_length(context, r)
    start, step = r.start, r.step

    def item(cx: Context, k: Any) -> Any:
        if not isinstance(k, Number) and not isinstance(start, Number):
            return start + k * step
        if step == 1 and not isinstance(start, Number) and start == 0:
            return k
        value = numbers.value_of(cx, k)
        if step != 1:
            value = cx.one("num.mul", value, cx.constant(step))
        result = numbers.wrap(cx, cx.one("num.add", numbers.value_of(cx, start), value))
        low, high = numbers.low_of(start), numbers.size_of(r.stop)
        if step > 0:
            result.low, result.high = low, high
        elif isinstance(start, int) and isinstance(r.stop, int):
            result.low = r.stop + 1
        return result

    return Iterable(length, item, False)


def enumerated(context: Context, inner: Iterable, start: Any) -> Iterable:
    """`enumerate`."""
    def item(cx: Context, k: Any) -> Any:
        count = k if start == 0 else numbers.binary(cx, "add", k, start)
        return (count, inner.item(cx, k))

    return Iterable(inner.length, item, inner.unrolled)


def zipped(context: Context, parts: list[Iterable], strict: bool) -> Iterable:
    """`zip`: as long as the shortest."""
    length: Any = parts[0].length if parts else 0
    for p in parts[1:]:
        if strict:
            equal = numbers.compare(context, "eq", length, p.length)
            if equal is False:
                raise ValueError("zip() argument 2 is longer or shorter than argument 1")
            if isinstance(equal, Number):
                context.effect("check", equal.value, error=ValueError,
                               template=("zip() argument 2 is longer or shorter than argument 1",))
        else:
            length = numbers.minimum(context, length, p.length)
    if isinstance(length, Number) and any(p.unrolled for p in parts):
        known = [p.length for p in parts if isinstance(p.length, int)]
        length = _as_hint(length, min(known))
    return Iterable(length, lambda cx, k: tuple(p.item(cx, k) for p in parts), any(p.unrolled for p in parts))


def _as_hint(length: Number, limit: int) -> int:
    """A run-time length that must be known because it meets separate objects: the first call's, guarded."""
    from jitgrad.script.frontend.values.values import guarded_int

    return min(guarded_int(length), limit)


def reversed_(context: Context, inner: Iterable) -> Iterable:
    """`reversed`."""
    def item(cx: Context, k: Any) -> Any:
        if isinstance(k, int) and isinstance(inner.length, int):
            return inner.item(cx, inner.length - 1 - k)
        last = numbers.binary(cx, "sub", inner.length, 1)
        value = numbers.wrap(cx, cx.one("num.sub", numbers.value_of(cx, last), numbers.value_of(cx, k)))
        value.low, value.high = 0, numbers.size_of(inner.length)
        return inner.item(cx, value)

    return Iterable(inner.length, item, inner.unrolled)


# --- indexing what is no tensor ------------------------------------------------------------------------------------


def pick(context: Context, obj: Any, index: Any) -> Any:
    """An item of a tuple, list, range or module list; a run-time index switches over the items."""
    if isinstance(obj, SymList):
        from jitgrad.script.frontend.containers import lists

        held = lists.run_items(context, obj)
        if held is not None:
            return lists.get(context, held, index, type(obj))
    if isinstance(obj, Range):
        iterable = Iterable.of(context, obj)
        assert iterable is not None
        if isinstance(index, int) and index >= 0:
            return iterable.item(context, index)
        raise TypeMismatch("an index from the end into a run-time `range`", context.span())
    if isinstance(index, SymTensor):
        from jitgrad.ops.backend import backend

        index = guarded(context, lambda: backend().item(index))
    if not isinstance(index, Number):
        if isinstance(index, slice):
            index = slice(*(None if p is None else calls.static(context, p, "a slice of a list or tuple")
                            for p in (index.start, index.stop, index.step)))
        items = obj if isinstance(obj, (tuple, range)) else contents.items_of(context, obj)
        found = guarded(context, lambda: items[index])
        return contents.new_list(context, found) if isinstance(obj, SymList) and isinstance(index, slice) else found
    _unroll_counter(context, index)
    parts = contents.items_of(context, obj) if not hasattr(type(obj), "_modules") else []
    iterable = Iterable.of(context, obj)
    assert iterable is not None
    items = parts or [iterable.item(context, k) for k in range(iterable.length)]
    return _switch(context, items, index, calls.type_name(obj))


def _unroll_counter(context: Context, index: Number) -> None:
    """A loop's counter as an index into separate objects: the loop is unrolled."""
    counter = next((c for c in context.counters if c[0] is index), None)
    if counter is not None:
        raise Restart(("unroll", counter[1]), f"unrolled the loop at {counter[1]}: its counter is an index into "
                                              "separate objects")


def assign_at(context: Context, items: Sequence[Any], index: Number, value: Any) -> tuple[Any, ...]:
    """The items of a list after an assignment at a place that only the run knows."""
    _unroll_counter(context, index)
    place = _place(context, len(items), index, "list assignment")

    def chosen(k: int, old: Any) -> Any:
        condition = numbers.wrap(context, context.one("num.eq", place.value, context.constant(k)))
        return merge.branch(context, condition, lambda: value, lambda: old)

    return tuple([chosen(k, old) for k, old in enumerate(items)])


def _switch(context: Context, items: Sequence[Any], index: Number, name: str) -> Any:
    n = len(items)
    place = _place(context, n, index, name)

    def run(k: int) -> Any:
        if k == n - 1:
            return items[k]
        condition = numbers.wrap(context, context.one("num.eq", place.value, context.constant(k)))
        return merge.branch(context, condition, lambda: items[k], lambda: run(k + 1))

    from jitgrad.script.frontend.values.values import is_dynamic

    if not any(is_dynamic(i) for i in items) and not all(isinstance(i, (bool, int, float)) for i in items):
        return Union(tuple(items), None, place.value, ()) if len({id(i) for i in items}) == n else run(0)
    return run(0)


def _place(context: Context, n: int, index: Number, name: str) -> Any:
    """An index into `n` objects as one from the front, checked."""
    if n > UNROLL_LIMIT:
        raise TypeMismatch(f"a run-time index into {n} separate objects", context.span(),
                           hint="stack them in a tensor")
    ok = numbers.both(context, numbers.compare(context, "ge", index, -n), numbers.compare(context, "lt", index, n))
    named = name in ("tuple", "list", "range", "list assignment")
    text = f"{name} index out of range" if named else "index out of range"
    if ok is False or not n:
        raise merge.raise_now(context, IndexError, (text,))
    if isinstance(ok, Number):
        context.effect("check", ok.value, error=IndexError, template=(text,))
    negative = numbers.compare(context, "lt", index, 0)
    if negative is False:
        return index
    return numbers.select(context, negative, numbers.wrap(
        context, context.one("num.add", index.value, context.constant(n))), index)
