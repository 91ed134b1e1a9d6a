"""What a `for` goes over: a length (known or not) and the item at a position."""

from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.templates import locations
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.values import UNBOUND, Iterable, Number, guarded_int


class Iterator(Iterable):
    """What `iter`, `zip`, `map` and kin give: an item that was taken is gone.

    How many are is part of the state, as a variable is. A loop counts those that it takes only if the iterator is used
    again (`Restart`).
    """

    __slots__ = ("_around", "_block", "_counted", "_key", "_loop", "_place", "_spent")

    def __init__(self, context: Context, inner: Iterable, everywhere: bool = False):
        """`everywhere`: what it goes over is known in the whole script, not from here on."""
        super().__init__(inner.length, inner.item, inner.unrolled, inner.now)
        self._place, self._key = context.span(), ("taken", context.new_id())
        self._counted, self._spent = ("counted", self._place) in context.decisions, False
        self._around = len(context.bodies_open)  # run-time loops
        self._block = context.path[0 if everywhere else -1]  # where what it goes over is known
        self._loop: Any = None  # the body of that which goes over it

    @property
    def counted(self) -> bool:
        """Whether it is used again, so that what was taken is counted."""
        return self._counted

    def begun(self, context: Context) -> Any:
        """How many items are gone."""
        if self._block not in context.path:
            raise UnsupportedCall("an iterator that was made in a branch or loop, used after it", context.span(),
                                  hint="make it before, or choose between lists and make the iterator after")
        if self._spent or (len(context.bodies_open) > self._around and not self._counted):
            raise Restart(("counted", self._place), f"the iterator made at {self._place} is used again")
        if self._loop in context.bodies_open:
            raise self._shared(context)
        return locations.fetch(context, context.state, self._key)

    def is_shared(self, context: Context) -> bool:
        """Whether a loop that goes over it and what is in that loop take its items by turns."""
        return ("shared", self._place) in context.decisions

    def _shared(self, context: Context) -> Exception:
        if not self.is_shared(context):
            return Restart(("shared", self._place), f"the iterator made at {self._place} is taken from in its loop")
        return UnsupportedCall("an iterator that a loop goes over gives items elsewhere in that loop", context.span(),
                               hint="make a list of it, `list(...)`, and use indices")

    def rest(self, context: Context) -> Iterable:
        """The items that are left, which are taken with that."""
        begin = self.begun(context)
        self._spent = not self._counted
        if begin == 0 and self._spent:
            return Iterable(self.length, self.item, self.unrolled, self.now)
        if not self._counted:
            def left(cx: Context) -> Any:
                return _left(cx, self.now(cx), begin)

            return Iterable(left(context), lambda cx, k: item_at(cx, self, numbers.binary(cx, "add", begin, k)),
                            self.unrolled, left)
        return self._counting(context, begin)

    def _counting(self, context: Context, begin: Any) -> Iterable:
        """The items that are left; each counts where it is taken."""
        given, following = 0, begin  # by iterations one by one, between which the iterator may give items elsewhere

        def take(cx: Context, k: Any) -> Any:
            nonlocal given, following
            at = k if begin == 0 else numbers.binary(cx, "add", begin, k)
            if isinstance(k, int):
                at, given = locations.fetch(cx, cx.state, self._key), k + 1
                there = isinstance(at, int) and isinstance(self.length, int) and at < self.length
                if at is not following and not there:
                    raise self._shared(cx)
            else:
                self._loop = next(reversed(cx.bodies_open))
            cx.state.values[self._key] = following = numbers.binary(cx, "add", at, 1)
            return item_at(cx, self, at)

        def now(cx: Context) -> Any:
            taken = locations.fetch(cx, cx.state, self._key)
            if isinstance(given, int) and not isinstance(taken, int) and isinstance(self.length, int):
                raise self._shared(cx)  # by iterations one by one, the run says how many
            return numbers.binary(cx, "add", given, _left(cx, self.now(cx), taken))

        return Iterable(_left(context, self.now(context), begin), take, self.unrolled, now)

    def next(self, context: Context, default: Any = UNBOUND) -> Any:
        """The next item; `default` or StopIteration where there is none."""
        there = self.more(context)
        if default is not UNBOUND:
            return dispatch.branch(context, there, lambda: self.take(context), lambda: default)
        if there is False:
            raise effects.raise_now(context, StopIteration, ())
        if isinstance(there, Number):
            effects.emit(context, "check", there.value, error=StopIteration, template=None)
        return self.take(context)

    def more(self, context: Context) -> Any:
        """Whether there is another item."""
        return numbers.compare(context, "lt", self.begun(context), self.now(context))

    def take(self, context: Context) -> Any:
        """The next item, which is there."""
        taken = self.begun(context)
        context.state.values[self._key] = numbers.binary(context, "add", taken, 1)
        return item_at(context, self, taken)


def _left(context: Context, length: Any, taken: Any) -> Any:
    """Of so many items, those that are left."""
    if taken == 0:
        return length
    return numbers.minimum(context, 0, numbers.binary(context, "sub", length, taken), largest=True)


def enumerated(context: Context, inner: Iterable, start: Any) -> Iterable:
    """`enumerate`."""
    def item(cx: Context, k: Any) -> Any:
        count = k if start == 0 else numbers.binary(cx, "add", k, start)
        return (count, inner.item(cx, k))

    return Iterable(inner.length, item, inner.unrolled, inner.now)


def item_at(context: Context, inner: Iterable, k: Any) -> Any:
    """Item k, of which a number of the run may choose."""
    return (_chosen(inner) if isinstance(k, Number) and inner.unrolled else inner).item(context, k)


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
        return inner.item(cx, numbers.bounded(value, 0, inner.length))

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

    def type_word(self, obj: Any) -> str:
        return "an iterator"

    def is_open(self, context: Context, obj: Any) -> bool:
        return super().is_open(context, obj) or isinstance(obj.begun(context), Number)

    def iterate(self, context: Context, obj: Any) -> Iterable:
        found: Iterable = obj.rest(context)
        return found
