"""What a `for` goes over: a length (known or not) and the item at a position."""

from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.values import UNBOUND, Iterable, Number, guarded_int


class Iterator(Iterable):
    """What `iter`, `zip`, `map` and kin give: an item that was taken is gone."""

    __slots__ = ("_depth", "_loops", "_taken", "_used")

    def __init__(self, context: Context, inner: Iterable):
        super().__init__(inner.length, inner.item, inner.unrolled, inner.now)
        self._depth, self._loops, self._taken, self._used = context.depth, len(context.bodies_open), 0, False

    def rest(self, context: Context) -> Iterable:
        """The items that are left, which are taken with that. Where those of a loop that was left are, nobody knows."""
        if self._used or len(context.bodies_open) > self._loops or (self._taken and context.depth > self._depth):
            raise UnsupportedCall("an iterator that may have been used already", context.span(),
                                  hint="make a list of it, `list(...)`, or make the iterator where it is used")
        self._used, taken, item = True, self._taken, self.item
        if not taken:
            return Iterable(self.length, item, self.unrolled, self.now)

        def left(cx: Context) -> Any:
            return numbers.minimum(cx, 0, numbers.binary(cx, "sub", self.now(cx), taken), largest=True)

        return Iterable(left(context), lambda cx, k: item(cx, numbers.binary(cx, "add", k, taken)), self.unrolled, left)

    def next(self, context: Context, default: Any = UNBOUND) -> Any:
        """The next item; `default` or StopIteration where there is none."""
        if self._used or context.depth > self._depth:
            raise UnsupportedCall("`next` of an iterator that may have been used already", context.span(),
                                  hint="call it where the iterator is made, or use an index")
        there = numbers.compare(context, "lt", self._taken, self.now(context))
        if there is False:
            if default is not UNBOUND:
                return default
            raise effects.raise_now(context, StopIteration, ())
        if isinstance(there, Number):
            if default is not UNBOUND:
                raise UnsupportedCall("`next` with a default, of a length known at run time", context.span(),
                                      hint="write an `if` with the length")
            effects.emit(context, "check", there.value, error=StopIteration, template=None)
        self._taken += 1
        return self.item(context, self._taken - 1)


def enumerated(context: Context, inner: Iterable, start: Any) -> Iterable:
    """`enumerate`."""
    def item(cx: Context, k: Any) -> Any:
        count = k if start == 0 else numbers.binary(cx, "add", k, start)
        return (count, inner.item(cx, k))

    return Iterable(inner.length, item, inner.unrolled, inner.now)


def _chosen(inner: Iterable) -> Iterable:
    """Separate objects of which a number of the run chooses one."""
    def item(cx: Context, k: Any) -> Any:
        return pick(cx, tuple([inner.item(cx, i) for i in range(inner.length)]), k)

    return Iterable(inner.length, item, False)


def zipped(context: Context, parts: list[Iterable], strict: bool) -> Iterable:
    """`zip`: as long as the shortest."""
    length: Any = parts[0].length if parts else 0
    for p in parts[1:]:
        if strict:
            equal = numbers.compare(context, "eq", length, p.length)
            if equal is False:
                raise ValueError("zip() argument 2 is longer or shorter than argument 1")
            if isinstance(equal, Number):
                effects.emit(context, "check", equal.value, error=ValueError,
                               template=("zip() argument 2 is longer or shorter than argument 1",))
        else:
            length = numbers.minimum(context, length, p.length)
    if isinstance(length, Number) and any(p.unrolled for p in parts):
        try:
            length = guarded_int(length)  # the first call's, guarded
        except NotStatic:
            parts = [_chosen(p) if p.unrolled else p for p in parts]

    def now(cx: Context) -> Any:
        counts = [p.now(cx) for p in parts]
        known = [n for n in counts if isinstance(n, int)]
        if not isinstance(length, int) or not known or min(known) <= length:
            return min(known) if known and isinstance(length, int) else length
        return min([*known, *[guarded_int(n) for n in counts if isinstance(n, Number)]])

    return Iterable(length, lambda cx, k: tuple(p.item(cx, k) for p in parts), any(p.unrolled for p in parts), now)


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


@register(Iterable)
class IterableKind(Kind):
    """What `zip`, `enumerate`, the view of a dict and kin give: a `for` goes over it."""

    def iterate(self, context: Context, obj: Iterable) -> Iterable:
        return obj

    def items(self, context: Context, obj: Iterable) -> list[Any] | None:
        return super().items(context, obj) if isinstance(obj.length, int) else None

    def is_open(self, context: Context, obj: Iterable) -> bool:
        return not isinstance(obj.length, int)


@register(Iterator)
class IteratorKind(IterableKind):
    """What gives each of its items once."""

    def iterate(self, context: Context, obj: Any) -> Iterable:
        found: Iterable = obj.rest(context)
        return found
