"""`collections.deque`: a list of the script whose class says how many items there may be."""

import collections
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import list_methods, lists, sequences
from jitgrad.script.frontend.containers.contents import OPERATORS, same
from jitgrad.script.frontend.containers.sequences import ListKind
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args
from jitgrad.script.frontend.state.outside import Leaving, Outside
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.checks import emit_check
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import Methods, call, items_of, register, type_name
from jitgrad.script.frontend.values.strings import listed
from jitgrad.script.frontend.values.values import Number, SymList


class Deque(SymList):
    """A deque of the script."""

    __slots__ = ()
    maxlen: ClassVar[int | None] = None


@functools.cache
def _class(maxlen: int | None) -> type[Deque]:
    """Deques of at most so many items: where branches meet, they are of another type than others."""
    return type("deque" if maxlen is None else f"deque(maxlen={maxlen})", (Deque,), {"__slots__": (), "maxlen": maxlen})


def _made(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    """`deque(iterable, maxlen)`."""
    if cls is not collections.deque:
        raise UnsupportedCall(f"making a `{cls.__name__}` inside a script", context.span(),
                              hint="make the object outside and pass it, or keep it in a closure")
    values, maxlen = effects.guarded(context, lambda: (lambda iterable=(), maxlen=None: (iterable, maxlen))(
        *args, **kwargs))
    maxlen = static(context, maxlen, "`maxlen`")
    like = effects.guarded(context, lambda: collections.deque(maxlen=maxlen))
    made: Any = run_lists.new(context, (), _class(like.maxlen))
    _extend(context, made, values)
    return made


CONSTRUCTORS[collections.deque] = _made
HANDLERS[collections.deque.__copy__] = lambda context, args, kwargs: _copy(context, *args)
_LIST = ListKind.methods

# --- methods -------------------------------------------------------------------------------------------------------


def _append(context: Context, obj: Deque, value: Any, left: bool = False) -> None:
    """`append`, or `appendleft`: one too many falls out at the other end."""
    if left:
        _LIST["insert"](context, obj, 0, value)
    else:
        sequences.append(context, obj, value)
    if obj.maxlen is not None:
        full = numbers.compare(context, "gt", protocol.length(context, obj), obj.maxlen)
        if isinstance(full, Number):
            dispatch.branch(context, full, lambda: _drop(context, obj, left), lambda: None, frozenset())
        elif full:
            _drop(context, obj, left)


def _drop(context: Context, obj: Deque, last: bool) -> None:
    _LIST["pop"](context, obj, -1 if last else 0)


def _pop(context: Context, obj: Deque, left: bool = False) -> Any:
    _require(context, "gt", protocol.length(context, obj), 0, "pop from an empty deque")
    return _LIST["pop"](context, obj, 0 if left else -1)


def _require(context: Context, op: str, a: Any, b: Any, text: str) -> None:
    """Python's IndexError unless `a op b`."""
    fine = numbers.compare(context, op, a, b)
    if fine is False:
        raise effects.raise_now(context, IndexError, (text,))
    if fine is not True:
        emit_check(context, fine, IndexError, (text,))


def _insert(context: Context, obj: Deque, index: Any, value: Any) -> None:
    if obj.maxlen is not None:
        _require(context, "lt", protocol.length(context, obj), obj.maxlen, "deque already at its maximum size")
    _LIST["insert"](context, obj, index, value)


def _extend(context: Context, obj: Deque, values: Any) -> None:
    if obj.maxlen is None:
        sequences.extend(context, obj, values)
    else:
        call(context, _appended, obj, values)


def _remove(context: Context, obj: Deque, value: Any) -> None:
    _LIST["pop"](context, obj, call(context, _found, obj, value, "deque.remove(x): x not in deque"))


def _index(context: Context, obj: Deque, value: Any, start: Any = 0, stop: Any = None) -> Any:
    return call(context, _found, obj, value, None, start, stop)


def _rotate(context: Context, obj: Deque, n: Any = 1) -> None:
    lists.change(context, obj, run_lists.content(context, call(context, _rotated, obj, n)))


def _copy(context: Context, obj: Deque) -> Any:
    return run_lists.new(context, run_lists.content(context, obj), type(obj))


def _repeat(context: Context, obj: Deque, times: Any) -> Any:
    made: Any = run_lists.new(context, (), type(obj))
    _extend(context, made, call(context, list_methods.repeated, obj, times))
    return made


# what follows is Python that scripts inline


def _appended(items: Any, values: Any) -> None:
    for value in list(values):
        items.append(value)


def _appended_left(items: Any, values: Any) -> None:
    for value in list(values):
        items.appendleft(value)


def _rotated(items: Any, n: Any) -> Any:
    return [items[(k - n) % len(items)] for k in range(len(items))]


def _found(items: Any, value: Any, text: Any, start: Any = 0, stop: Any = None) -> int:
    first = start if start >= 0 else max(start + len(items), 0)
    last = len(items) if stop is None else stop if stop >= 0 else stop + len(items)
    for k in range(first, min(last, len(items))):
        if same(items[k], value):
            return k
    raise ValueError(f"{value!r} is not in deque" if text is None else text)


# --- what it is ----------------------------------------------------------------------------------------------------


@register(collections.deque)
class GivenKind(ObjectKind):
    """A deque of the caller."""

    def given(self, inputs: Outside, obj: Any, source: sig.Source, item: Callable[[Any, sig.Source, int], Any]) -> Any:
        if type(obj) is not collections.deque:
            return None
        inputs.guard(source, "type", collections.deque)
        inputs.guard(sig.Attr(source, "maxlen"), "equal", obj.maxlen)
        return inputs.sequence(obj, source, item, _class(obj.maxlen))


@register(Deque)
class DequeKind(ListKind):
    """A deque of the script, or one that it was given."""

    rank = 4
    methods: ClassVar[Methods] = {
        **OPERATORS, "append": _append, "appendleft": lambda cx, obj, value: _append(cx, obj, value, True),
        "pop": _pop, "popleft": lambda cx, obj: _pop(cx, obj, True),
        "extend": _extend, "extendleft": lambda cx, obj, values: call(cx, _appended_left, obj, values),
        "insert": _insert, "remove": _remove, "index": _index, "rotate": _rotate, "copy": _copy,
        **{name: _LIST[name] for name in ("clear", "count", "reverse")}}

    def class_of(self, obj: SymList) -> type:
        return collections.deque

    def type_name(self, obj: SymList) -> str:
        return "collections.deque"

    def type_word(self, obj: SymList) -> str:
        return "a deque"

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        return obj.maxlen if name == "maxlen" else super().get_attribute(context, obj, name)

    def whole(self, results: Leaving, cls: Any, items: sig.Result, identity: int) -> sig.Result:
        number = identity if identity < 0 else results.identity((cls, identity))  # the list of its items has that one
        return sig.Made(collections.deque, (items, sig.Static(cls.maxlen)), number)

    def maker(self, obj: Any) -> Callable[[], Any]:
        return functools.partial(collections.deque, (), obj.maxlen)

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        self.no_format(context, obj, spec)
        return listed(context, obj, "deque([", [("", v) for v in items_of(context, obj)], _closing(obj))

    def printer(self, context: Context, obj: Any) -> Callable[[Any], Any] | None:
        show = super().printer(context, obj)
        if show is None:
            return None

        def parts(stream: Any) -> None:
            call(context, print, "deque(", end="", file=stream)
            show(stream)
            call(context, print, _closing(obj)[1:], end="", file=stream)

        return parts

    def get_item(self, context: Context, obj: SymList, index: Any) -> Any:
        return super().get_item(context, obj, self._place(context, obj, index))

    def set_item(self, context: Context, obj: SymList, index: Any, value: Any) -> None:
        super().set_item(context, obj, self._place(context, obj, index), value)

    def delete_item(self, context: Context, obj: SymList, index: Any) -> None:
        super().delete_item(context, obj, self._place(context, obj, index))

    def _place(self, context: Context, obj: SymList, index: Any) -> Any:
        if not protocol.is_instance(context, index, (int,)):
            raise effects.raise_now(context, TypeError, (
                f"sequence index must be integer, not '{type_name(index)}'",))
        n = protocol.length(context, obj)
        _require(context, "lt", index, n, "deque index out of range")
        _require(context, "ge", index, numbers.unary(context, "neg", n), "deque index out of range")
        return index

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if op == "mul":
            return _repeat(context, *((a, b) if isinstance(a, Deque) else (b, a)))
        if op != "add" or not isinstance(a, (SymList, tuple)):
            return NotImplemented
        if not isinstance(a, Deque) or not isinstance(b, Deque):
            own = protocol.class_of(a).__name__
            raise effects.raise_now(context, TypeError, (
                f'can only concatenate {own} (not "{type_name(b)}") to {own}',))
        return self.in_place(context, op, _copy(context, a), b)

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        if op != "add":
            return protocol.binary(context, op, obj, value)
        _extend(context, obj, value)
        return obj

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, Deque) and isinstance(b, Deque):
            return super().compare(context, op, a, b)
        if op in ("eq", "ne"):
            return op == "ne"
        raise effects.raise_now(context, TypeError, (
            f"'{protocol.SYMBOLS[op]}' not supported between instances of '{type_name(a)}' and '{type_name(b)}'",))


def _closing(obj: Deque) -> str:
    return "])" if obj.maxlen is None else f"], maxlen={obj.maxlen})"
