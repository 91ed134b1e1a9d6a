"""Generators: a loop over the call of a generator function inlines the loop's body at every `yield`.

So the consumer's statements run between those of the generator, in Python's order, whatever branches and loops stand
around the `yield`. `zip`, `map` and kin of a generator are generators; everywhere else (`sum`) the items are collected
before.
"""

import types
from collections.abc import Callable
from typing import Any

from jitgrad.classes import replace
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import list_methods
from jitgrad.script.frontend.containers.iteration import item_at
from jitgrad.script.frontend.source.resumption import Walk
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.state.handlers import Args, handles
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import (Kind, call, class_of, get_attribute, iterate, register, truth,
                                                     type_word)
from jitgrad.script.frontend.values.values import Iterable, Number, Union
from jitgrad.script.graph.nodes import within

#: takes an item; whether the consumer is done (False, True or a run-time bool)
Consumer = Callable[[Any], Any]


class Generator:
    """The call of a generator function, or a generator expression: evaluated when it is consumed, once."""

    __slots__ = ("_consumed", "_loops", "_produce", "asked")

    def __init__(self, context: Context, produce: Callable[[Context, Consumer], None], asked: Callable[[], Exception]):
        """`asked`: what to raise where its items are taken one by one, or in several places."""
        self._produce, self._consumed, self._loops = produce, False, len(context.bodies_open)
        self.asked = asked

    def run(self, context: Context, consumer: Consumer) -> None:
        """Produce the items."""
        if self._consumed or len(context.bodies_open) > self._loops:
            raise self.asked()
        self._consumed = True
        self._produce(context, consumer)


class Steps:
    """A generator that is asked item by item (resumption.py): `step` goes on to the next `yield` and says whether there
    is one, `last` gives what came there."""

    stands_for, parts, instead = types.GeneratorType, None, "loop over it with `for`, or call `next`"

    def __init__(self, functions: Any):
        self.step, self.last = functions

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        there = self.step()  # which may do more, so that it is no part of the statement that raises
        if not there:
            raise StopIteration
        return self.last()


class Asked:
    """An iterator of an own class as such a generator."""

    def __init__(self, iterator: Any):
        self.iterator, self.item = iterator, None

    def step(self) -> Any:
        try:
            self.item = self.iterator.__next__()
        except StopIteration:
            return False
        return True

    def last(self) -> Any:
        return self.item


@register(Generator)
class GeneratorKind(Kind):
    """A generator: a loop over its items that is no `for` collects them."""

    def class_of(self, obj: Generator) -> type:
        return types.GeneratorType

    def iterate(self, context: Context, obj: Generator) -> Iterable:
        return iterate(context, _collected(context, obj))


def _collected(context: Context, generator: Generator) -> Any:
    """All items in a list; for who takes them one by one, so that nothing else may happen between them."""
    block = context.builder.block
    begin = len(block.nodes)
    items = call(context, list_methods.collected, generator)
    if any(n.op in ("print", "commit") for n in within(block.nodes[begin:])):
        raise UnsupportedCall("a generator with effects is consumed elsewhere than by a `for` loop", context.span(),
                              hint="loop over it with `for`")
    return items


def opened(context: Context, value: Any) -> Any:
    """What a loop takes the items of an object from that says by `__iter__` what gives them; other values as they are.

    What gives them by `__next__` is a generator here.
    """
    found = iterator_of(context, value)
    if not gives_items(found):
        return found
    return call(context, stepped if class_of(found) is Steps else taken, found)


def iterator_of(context: Context, value: Any) -> Any:
    """`iter(value)` of an object with `__iter__` in Python; other values as they are, one of several kinds too."""
    if isinstance(value, Union):
        return value
    cls: Any = class_of(value)
    ours = (cls.__module__.startswith("jitgrad") or hasattr(cls, "_modules")) and not gives_items(value)
    says = hasattr(getattr(cls, "__iter__", None), "__code__") and not ours
    return call(context, cls.__iter__, value) if says else value


def gives_items(value: Any) -> bool:
    """Whether an object is an iterator by a `__next__` written in Python."""
    return not isinstance(value, Union) and hasattr(getattr(class_of(value), "__next__", None), "__code__")


def steps_of(context: Context, iterator: Any) -> Any:
    """Of such an object what has `step` and `last`."""
    return iterator if class_of(iterator) is Steps else call(context, Asked, iterator)


def taken(iterator: Any) -> Any:
    """The items of an object with `__next__`."""
    while True:
        try:
            item = iterator.__next__()
        except StopIteration:
            return
        yield item


def stepped(steps: Any) -> Any:
    """Those of a generator that is asked item by item."""
    while True:
        there = steps.step()
        if not there:
            return
        yield steps.last()


def following(steps: Any, default: Any) -> Any:
    """`next` of an iterator, with a default."""
    return steps.last() if steps.step() else default


# --- loops of generators that are asked item by item -----------------------------------------------------------------


def _begin(items: Any) -> Any:
    """What such a loop goes over: what has items at places, or has `step` and `last`."""


def _more(items: Any, k: Any) -> Any:
    """Whether that has an item k."""
    return items.step() if hasattr(items, "last") else k < len(items)


def _item(items: Any, k: Any) -> Any:
    """Its item k, which is the next one."""
    return items.last() if hasattr(items, "last") else items[k]


@handles(_begin)
def _begun(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    (items,) = args
    if isinstance(items, Generator):
        raise items.asked()
    items = iterator_of(context, items)
    cls, place = class_of(items), context.span()
    if cls is Steps and get_attribute(context, items, "step").frame.id > context.frame.id:
        raise UnsupportedCall("a generator that one makes which is asked item by item",
                              place and replace(place, caller=None), hint="make it outside and pass it")
    if gives_items(items):
        return steps_of(context, items)
    if isinstance(items, Iterable) or not _has_places(cls):
        raise UnsupportedCall(f"a loop over {type_word(items)} in a generator that is asked item by item",
                              place and replace(place, caller=None), hint="make a list of it, `list(...)`")
    return items


def _at_places(items: Any) -> Any:
    """What a loop goes over, or a list of its items where these have no places: of a dict the keys."""


@handles(_at_places)
def _placed(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    (items,) = args
    return items if isinstance(items, Union) or _has_places(class_of(items)) else call(context, list, items)


def _has_places(cls: type) -> bool:
    """Whether objects of a class give their items by numbers, as dicts, sets and iterators do not."""
    return hasattr(cls, "__getitem__") and not hasattr(cls, "keys")


WALK = Walk(_at_places, _begin, _more, _item)


def added(items: Any, total: Any) -> Any:
    """`sum(items, total)`."""
    for v in items:
        total = total + v
    return total


def numbered(items: Any, k: Any) -> Any:
    """`enumerate(items, k)`."""
    for v in items:
        yield k, v
        k += 1


def mapped(function: Any, rows: Any) -> Any:
    """`map(function, ...)` of what is zipped."""
    for row in rows:
        yield function(*row)


def kept(function: Any, items: Any) -> Any:
    """`filter(function, items)`."""
    for v in items:
        if function(v):
            yield v


def by_turns(iterators: Any) -> Any:
    """`zip` of iterators that are used again, or are one: each gives an item when its turn comes."""
    while True:
        row = turn(iterators)
        if row is None:
            return
        yield row


def turn(iterators: Any) -> Any:
    """An item of each iterator; None where one has none left, whatever those before it have given."""


@handles(turn)
def _turn(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    (iterators,) = args

    def after(cx: Context, row: tuple[Any, ...]) -> Any:
        if len(row) == len(iterators):
            return row
        one = iterators[len(row)]
        if gives_items(one):
            steps = steps_of(cx, one)
            there = truth(cx, call(cx, get_attribute(cx, steps, "step")))
            return dispatch.branch(cx, there, lambda: after(
                cx, (*row, call(cx, get_attribute(cx, steps, "last")))), lambda: None)
        return dispatch.branch(cx, one.more(cx), lambda: after(cx, (*row, one.take(cx))), lambda: None)

    return after(context, ())


def beside(before: Any, items: Any, after: Any) -> Any:
    """`zip(*before, items, *after)`: goes on with the generator `items` only where all before it have an item."""
    k = 0
    if _have(before, k):
        for v in items:
            if not _have(after, k):
                return
            yield (*_items(before, k), v, *_items(after, k))
            k += 1
            if not _have(before, k):
                return


def _have(parts: Any, k: Any) -> Any:
    """Whether each of several iterables has an item k."""


def _items(parts: Any, k: Any) -> Any:
    """Item k of each of several iterables."""


@handles(_have)
def _all_have(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    parts, k = args
    found: Any = True
    for part in parts:
        found = numbers.both(context, found, numbers.compare(context, "lt", k, part.now(context)))
    return found


@handles(_items)
def _item_of_each(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    parts, k = args
    found = []
    for part in parts:
        if isinstance(k, Number):  # `_have` has found that it is there
            k = numbers.bounded(numbers.wrap(context, k.value), 0, part.length)
        found.append(item_at(context, part, k))
    return tuple(found)


def yield_(context: Context, value: Any) -> None:
    """A `yield` statement: run the consumer; where it is done, the generator returns."""
    frame, node = context.frame, context.node
    consumer = frame.consumer
    assert consumer is not None
    done = consumer(value)
    context.frame, context.node = frame, node
    _leave(context, frame, done)


def _leave(context: Context, frame: Frame, done: Any) -> None:
    """Where the consumer is done, the generator returns, out of all its loops."""
    if done is False:
        return
    for loop in frame.loops:
        if not loop.ends:
            raise Restart(("leaves", loop.place), f"who takes the items may end the loop at {loop.place}")
    context.state.values[(frame.id, "return")] = done
    context.state.values[(frame.id, ("result",))] = None


def each(items: Any) -> Any:
    """The generator of the items."""
    for v in items:  # noqa: UP028  (what `yield from` stands for)
        yield v


def yield_from(context: Context, value: Any) -> None:
    """`yield from`: the items of another iterable, one after the other."""
    frame = context.frame

    def forward(item: Any) -> Any:
        inner = context.frame, context.node
        context.frame = frame
        assert frame.consumer is not None
        done = frame.consumer(item)
        context.frame, context.node = inner
        _leave(context, frame, done)
        return done

    (value if isinstance(value, Generator) else call(context, each, value)).run(context, forward)
