"""Templates: what a merged variable looks like.

Where branches meet, or a loop's end meets its head, `join` of the sides' templates gives the template of the merged
value. How its parts pass through a block's results: `lowering.py`.

    Same       one object on all sides: no leaves
    Static     a plain Python object
    Tensor     dtype and sizes; a size that differs between sides becomes a fresh symbol
    Num        a number of one kind, or of a kind known at run time
    Items      a tuple (or namedtuple), or a list, of templates
    ListOf     a list whose length only the run knows: the template of its elements
    Words      a string whose run-time parts differ
    Record     a dict with static keys, or the attributes of an object, by name
    Either     static alternatives and perhaps one run-time template: None-or-value, unbound-or-value, objects
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from jitgrad.device import device as Device
from jitgrad.dims import Dim, Size, Symbol, dim, is_not_one, symbols
from jitgrad.dtypes import dtype
from jitgrad.errors import NotStatic
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.state import heap, item_origins
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import is_dynamic, type_word
from jitgrad.script.frontend.values.tensors import tensor_word
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Instance,
    Number,
    Part,
    RunItems,
    RunPairs,
    SymDict,
    SymList,
    SymTensor,
    SymTuple,
    Tail,
    Text,
    Union,
)


class Clash(Exception):
    """Two sides that no variable can hold; the text says why."""


@dataclass(frozen=True, slots=True)
class Same:
    """An object that is the same on all sides."""

    value: Any

    def __str__(self) -> str:
        return type_word(self.value)


@dataclass(frozen=True, slots=True)
class Static:
    """A plain Python object."""

    value: Any

    def __str__(self) -> str:
        return type_word(self.value)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor with memory of its own.

    `alias` says whose memory it may share, or is empty; `ordered`: see Storage. `leaf`: it may be a leaf, whose
    `.grad` is known by other names only. `origin`: how many ints go with it, or are unknown (`origins.py`); `place`:
    how many would, as an item of a list. `device`: see Storage.
    """

    dtype: dtype
    dims: tuple[Size, ...]
    history: bool
    alias: str = ""
    ordered: bool = True
    leaf: bool = False
    origin: int = 0
    place: int = 0
    device: Device | None = None

    def __str__(self) -> str:
        return f"a tensor {tensor_word(TensorType(self.dtype, self.dims))}"


@dataclass(frozen=True, slots=True)
class Num:
    """A number; `kind` is bool, int, float or object."""

    kind: type
    low: int | None = None

    def __str__(self) -> str:
        return {bool: "a bool", int: "an int", float: "a float"}.get(self.kind, "a number")


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple or namedtuple."""

    type: type
    items: tuple[Template, ...]

    def __str__(self) -> str:
        return f"a {'list' if self.type is SymList else 'tuple'} of {len(self.items)}"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list whose length only the run knows. Sizes of elements are open (they may differ), or known before it."""

    elem: Template

    def __str__(self) -> str:
        return f"a list whose items are {self.elem}"


@dataclass(frozen=True, slots=True)
class Record:
    """A dict with static keys (`type` is SymDict) or an object of class `type`: names and their templates."""

    type: type
    names: tuple[Any, ...]
    items: tuple[Template, ...]

    def __str__(self) -> str:
        if self.type is SymDict:
            return f"a dict with the keys {', '.join(map(repr, self.names))}" if self.names else "an empty dict"
        if self.type is RunPairs:
            return "a dict whose keys only the run knows"
        return f"a `{self.type.__name__}`"


@dataclass(frozen=True, slots=True)
class Words:
    """A string: strings and (conversion, format), and the templates of what the latter show."""

    frame: tuple[Any, ...]
    items: tuple[Template, ...]

    def __str__(self) -> str:
        return "a string with run-time parts"


@dataclass(frozen=True, slots=True)
class Either:
    """Static alternatives, in order, and perhaps a run-time one."""

    statics: tuple[Any, ...]
    inner: Template | None

    def __str__(self) -> str:
        parts = [type_word(s) for s in self.statics] + ([str(self.inner)] if self.inner is not None else [])
        return " or ".join(parts)


Template = Same | Static | Tensor | Num | Items | ListOf | Record | Words | Either
#: why nobody writes to a tensor that was read from a list, or put into one
ELEMENT = "it is an element of a list"
ARGUMENT = "it is the memory of an argument"
_PYTHON_KINDS = (bool, int, float)


def template_of(context: Context, value: Any, general: bool = False) -> Template:
    """The template of one side's value; with `general`, a number is a run-time number (a loop assigns it)."""
    if isinstance(value, SymTensor):
        type_ = value.type_
        alias = value.storage.alias
        if value.storage not in context.listed and not alias.startswith(ARGUMENT):
            alias = ""
        leaf = not value.path and (value.storage.requires_grad or value.storage.was_leaf)
        place = item_origins.count(context, value)
        origin = place if value.storage.origin or value.storage.unknown else 0
        return Tensor(type_.dtype, type_.dims, value.requires_grad, alias, heap.keeps_order(value), leaf, origin, place,
                      value.storage.device)
    if isinstance(value, Number):
        return Num(value.number_type, value.low)
    if type(value) in _PYTHON_KINDS and general:
        return Num(type(value), value if type(value) is int and value >= 0 else None)
    if isinstance(value, tuple):
        return Items(type(value), tuple(template_of(context, v, general) for v in value))
    if isinstance(value, slice) and is_dynamic(value):
        raise NotStatic("a slice with run-time ends, which a branch or a loop changes", context.span(),
                        hint="keep its ends in variables, and slice where it is used")
    if isinstance(value, SymTuple) and value.source is None:
        raise NotStatic("a tuple of a length that only the run knows, which a branch or a loop changes",
                        context.span(), hint="make a list of it, `list(...)`")
    if isinstance(value, SymList) and value.source is None:
        return content_template(context, context.state.values[value], general)
    if isinstance(value, (SymDict, Instance)) and value.source is None:
        return record(context, value, context.state.values[value], general)
    if isinstance(value, Text):
        return Words(tuple(p if isinstance(p, str) else p[1:] for p in value.parts),
                     tuple(template_of(context, p[0], general) for p in value.parts if not isinstance(p, str)))
    if isinstance(value, Union):
        return Either(value.statics, value.inner)
    return Static(value)


def record(context: Context, holder: SymDict | Instance, content: dict[Any, Any], general: bool = False) -> Record:
    """The template of what a dict or an object holds."""
    kind = type(content) if isinstance(content, RunPairs) else SymDict if isinstance(holder, SymDict) else holder.cls
    return Record(kind, tuple(content), tuple(template_of(context, v, general) for v in content.values()))


def content_template(context: Context, content: Any, general: bool = False) -> Items | ListOf:
    """The template of what a list holds."""
    if isinstance(content, RunItems):
        return ListOf(content.elem)
    kind = Tail if isinstance(content, Tail) else SymList  # a tail is never what a whole list is
    return Items(kind, tuple(template_of(context, v, general) for v in content))


class Sizer(Protocol):
    """What says which size holds two."""

    def join(self, a: Size, b: Size) -> Size:
        """One size for both."""


class Widener:
    """Sizes of merged values: optimistic equality first, else a fresh symbol."""

    def __init__(self, context: Context, mark: int):
        self.context = context
        self.fresh: list[Symbol] = []
        self.mark = mark  # symbols with this number or a later one were made inside

    def join(self, a: Size, b: Size) -> Size:
        """One size for both."""
        sizes = self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if a == b and self.visible(a):
            return a
        for mine, other in ((a, b), (b, a)):
            if isinstance(mine, Dim) and mine.symbol in self.fresh:
                if not is_not_one(other) and mine.symbol.not_one:
                    return self.new(False)
                return mine
        if self.visible(a) and self.visible(b) and sizes.assume_equal(a, b):
            return sizes.canonical(a)
        return self.new(is_not_one(a) and is_not_one(b))

    def new(self, not_one: bool) -> Size:
        symbol = Symbol(not_one=not_one)
        self.fresh.append(symbol)
        return dim(symbol)

    def visible(self, size: Size) -> bool:
        """Whether a size is known outside, or is one of the fresh ones."""
        hints = self.context.sizes.hints
        return all(s.number < self.mark or s in hints or s in self.fresh for s in symbols(size))


class Elements:
    """Sizes of a list's elements: those known where the list lives stay, others are open.

    Args:
        context: the evaluation.
        mark: symbols with this number or a later one are not known where the list lives.
    """

    def __init__(self, context: Context, mark: int):
        self.context, self.mark = context, mark

    def join(self, a: Size, b: Size) -> Size:
        """One size for both."""
        sizes = self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if self.known(a) and self.known(b) and (a == b or sizes.assume_equal(a, b)):
            return sizes.canonical(a)
        for mine, other in ((a, b), (b, a)):
            if isinstance(mine, Dim) and mine.symbol in self.context.open and (
                    is_not_one(other) or not is_not_one(mine)):
                return mine
        return self.new(is_not_one(a) and is_not_one(b))

    def known(self, size: Size) -> bool:
        """Whether a size is the same wherever the list is seen."""
        context = self.context
        return all((s.number < self.mark or s in context.sizes.hints) and s not in context.open for s in symbols(size))

    def new(self, not_one: bool) -> Size:
        symbol = Symbol(not_one=not_one)
        self.context.open.add(symbol)
        return dim(symbol)


def list_of(context: Context, t: Template, mark: int) -> ListOf:
    """A list's template as one of run-time length. Raises Clash."""
    if isinstance(t, ListOf):
        return t
    assert isinstance(t, Items)
    first, *rest = t.items
    elements = Elements(context, mark)
    elem = element(first, elements)
    for item in rest:
        elem = join(context, elem, element(item, elements), elements)
    return ListOf(elem)


def element(t: Template, elements: Elements) -> Template:
    """The template of one item as that of an element. Raises Clash."""
    if isinstance(t, Same):
        raise Clash("a list of run-time length that holds an object")
    if isinstance(t, Static):
        if type(t.value) in _PYTHON_KINDS:
            return Num(type(t.value))
        return Either((t.value,), None)
    if isinstance(t, Tensor):
        dims = tuple([elements.join(d, d) for d in t.dims])
        alias = t.alias if t.alias.startswith(ARGUMENT) else ELEMENT
        return replace(t, dims=dims, alias=alias, origin=_wider(t.origin, t.place), place=0)
    if isinstance(t, Num):
        return Num(t.kind)
    if isinstance(t, Items) and t.type is SymList:
        return list_of(elements.context, t, elements.mark) if t.items else t  # an empty list joins every other
    if isinstance(t, ListOf):
        return _opened(t, elements)
    if isinstance(t, (Record, Words)):
        raise Clash(f"a list of run-time length that holds {t}")
    if isinstance(t, Items):
        return Items(t.type, tuple([element(i, elements) for i in t.items]))
    if isinstance(t.inner, Tensor) and t.inner.place and not t.inner.origin:
        unknown = replace(t.inner, origin=item_origins.UNKNOWN)  # a branch put None beside it
        return Either(t.statics, element(unknown, elements))
    return Either(t.statics, None if t.inner is None else element(t.inner, elements))


def caller_memory(t: Template) -> bool:
    """Whether what a template describes may be memory of an argument, and nothing says of which."""
    if isinstance(t, Tensor):
        return t.origin == item_origins.UNKNOWN
    if isinstance(t, (Items, Record)):
        return any(map(caller_memory, t.items))
    if isinstance(t, Either):
        return t.inner is not None and caller_memory(t.inner)
    return isinstance(t, ListOf) and caller_memory(t.elem)


def _wider(a: int, b: int) -> int:
    """How many ints say what either of two tensors is."""
    return item_origins.UNKNOWN if item_origins.UNKNOWN in (a, b) else max(a, b)


def _active(t: Tensor, other: Tensor) -> int:
    """The ints that go with a tensor beside another one: those of a tensor outside of lists only if that has some."""
    return _wider(t.origin, t.place) if other.origin else t.origin


def _memory(a: str, b: str) -> str:
    """Whose memory one of two tensors may be."""
    return next((x for x in (a, b) if x.startswith(ARGUMENT)), a or b)


def join(context: Context, a: Template, b: Template, widen: Sizer) -> Template:
    """The template that holds both. Raises Clash."""
    if isinstance(a, Static) and isinstance(b, Static):
        return _join_statics(a.value, b.value)
    if isinstance(a, Either) or isinstance(b, Either) or _alternative(a) != _alternative(b):
        return _join_either(context, a, b, widen)
    if _is_list(a) and _is_list(b):
        return _join_lists(context, a, b, widen)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.dtype is not b.dtype:
            raise Clash(f"a tensor of dtype {a.dtype.name} and one of dtype {b.dtype.name}")
        if len(a.dims) != len(b.dims):
            raise Clash(f"a tensor of rank {len(a.dims)} and one of rank {len(b.dims)}")
        if a.device is not None and b.device is not None and a.device != b.device:
            raise Clash(f"a tensor on {a.device} and one on {b.device}")
        return Tensor(a.dtype, tuple(widen.join(x, y) for x, y in zip(a.dims, b.dims, strict=True)),
                      a.history or b.history, _memory(a.alias, b.alias), a.ordered and b.ordered, a.leaf or b.leaf,
                      _wider(_active(a, b), _active(b, a)), device=a.device or b.device)
    kinds = _number_kind(a), _number_kind(b)
    if kinds[0] is not None and kinds[1] is not None:
        low_a, low_b = _low(a), _low(b)
        low = min(low_a, low_b) if low_a is not None and low_b is not None else None
        return Num(kinds[0] if kinds[0] is kinds[1] else object, low)
    if isinstance(a, Items) and isinstance(b, Items):
        if a.type is not b.type or len(a.items) != len(b.items):
            raise Clash(f"{a} and {b}")
        return Items(a.type, tuple(join(context, x, y, widen) for x, y in zip(a.items, b.items, strict=True)))
    if isinstance(a, Words) and isinstance(b, Words) and a.frame == b.frame:
        return Words(a.frame, tuple(join(context, x, y, widen) for x, y in zip(a.items, b.items, strict=True)))
    if isinstance(a, Record) and isinstance(b, Record):
        if a.type is b.type and not (a.type is SymDict and a.names != b.names):
            return _join_records(context, a, b, widen)
        first, second = _as_pairs(a), _as_pairs(b)
        if first.type is second.type is RunPairs:
            return _join_records(context, first, second, widen)
    raise Clash(f"{a} and {b}")


def _is_list(t: Template) -> bool:
    return isinstance(t, ListOf) or (isinstance(t, Items) and t.type is SymList)


def _join_lists(context: Context, a: Template, b: Template, widen: Sizer) -> Template:
    """Of equal known length: item by item; else a list of run-time length."""
    if isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items) and (
            not a.items or not isinstance(widen, Elements)):
        return Items(SymList, tuple(join(context, x, y, widen) for x, y in zip(a.items, b.items, strict=True)))
    assert isinstance(widen, (Widener, Elements))
    if isinstance(a, Items) and not a.items:
        a, b = b, a
    one = list_of(context, a, widen.mark)
    if isinstance(b, Items) and not b.items:
        return ListOf(_opened(one.elem, Elements(context, widen.mark)))
    other = list_of(context, b, widen.mark)
    return ListOf(join(context, one.elem, other.elem, Elements(context, widen.mark)))


def _opened(t: Template, elements: Elements) -> Template:
    """An element's template where only `elements` are known."""
    if isinstance(t, Tensor):
        return replace(t, dims=tuple([elements.join(d, d) for d in t.dims]))
    if isinstance(t, Items):
        return Items(t.type, tuple([_opened(i, elements) for i in t.items]))
    if isinstance(t, ListOf):
        return ListOf(_opened(t.elem, elements))
    if isinstance(t, Either) and t.inner is not None:
        return Either(t.statics, _opened(t.inner, elements))
    return t


def holds_nothing(t: Template) -> bool:
    """Whether the template of an element is that of an empty list, or has one in it: its items are not known."""
    if isinstance(t, Items):
        return (t.type is SymList and not t.items) or any(map(holds_nothing, t.items))
    if isinstance(t, Either):
        return t.inner is not None and holds_nothing(t.inner)
    return isinstance(t, ListOf) and holds_nothing(t.elem)


def renamed(t: Template, size: Callable[[Size], Size]) -> Template:
    """A template with `size` applied to the sizes of its tensors, lists' elements apart."""
    if isinstance(t, Tensor):
        return replace(t, dims=tuple([size(d) for d in t.dims]))
    if isinstance(t, Items):
        return Items(t.type, tuple([renamed(i, size) for i in t.items]))
    if isinstance(t, Words):
        return Words(t.frame, tuple([renamed(i, size) for i in t.items]))
    if isinstance(t, Record):
        return Record(t.type, t.names, tuple([renamed(i, size) for i in t.items]))
    if isinstance(t, Either) and t.inner is not None:
        return Either(t.statics, renamed(t.inner, size))
    return t


def _as_pairs(t: Record) -> Record:
    """A dict with static keys as one whose keys only the run knows, if the keys are of one kind."""
    if t.type is not SymDict or len({type(n) for n in t.names}) > 1 or not all(
            isinstance(n, (int, float, str, tuple)) for n in t.names):
        return t
    keys = tuple([Static(n) if not isinstance(n, tuple) else Items(type(n), tuple(map(Static, n))) for n in t.names])
    return Record(RunPairs, tuple(Part), (Items(SymList, keys), Items(SymList, t.items)))


def _join_records(context: Context, a: Record, b: Record, widen: Sizer) -> Record:
    names = (*a.names, *(n for n in b.names if n not in a.names))
    mine, theirs = dict(zip(a.names, a.items, strict=True)), dict(zip(b.names, b.items, strict=True))
    absent = Static(UNBOUND)
    return Record(a.type, names, tuple(join(context, mine.get(n, absent), theirs.get(n, absent), widen)
                                       for n in names))


def _low(t: Template) -> int | None:
    if isinstance(t, Num):
        return t.low
    return t.value if isinstance(t, Static) and type(t.value) is int else None


def _number_kind(t: Template) -> type | None:
    if isinstance(t, Num):
        return t.kind
    if isinstance(t, Static) and type(t.value) in _PYTHON_KINDS:
        return type(t.value)
    return None


def _alternative(t: Template) -> bool:
    """Whether a template is a static object that is no number: one alternative of a union."""
    return isinstance(t, Static) and type(t.value) not in _PYTHON_KINDS


def _join_statics(a: Any, b: Any) -> Template:
    if same_static(a, b):
        return Static(a)
    if type(a) in _PYTHON_KINDS and type(b) in _PYTHON_KINDS:
        lows = [v for v in (a, b) if type(v) is int]
        return Num(type(a) if type(a) is type(b) else object, min(lows) if len(lows) == 2 else None)
    if type(a) in _PYTHON_KINDS:
        return Either((b,), Num(type(a)))
    if type(b) in _PYTHON_KINDS:
        return Either((a,), Num(type(b)))
    return Either((a, b), None)


def _join_either(context: Context, a: Template, b: Template, widen: Sizer) -> Template:
    statics: list[Any] = []
    inners: list[Template] = []
    for t in (a, b):
        parts: tuple[Any, ...] = ()
        inner: Template | None = None
        if isinstance(t, Either):
            parts, inner = t.statics, t.inner
        elif _alternative(t):
            assert isinstance(t, Static)
            parts = (t.value,)
        else:
            inner = t
        for p in parts:
            if not any(same_static(p, s) for s in statics):
                statics.append(p)
        if inner is not None:
            inners.append(inner)
    inner = inners[0] if inners else None
    if len(inners) == 2:
        inner = join(context, inners[0], inners[1], widen)
    elif inner is not None and isinstance(widen, Widener):
        inner = renamed(inner, lambda d: d if widen.visible(d) else widen.new(is_not_one(d)))
    if isinstance(inner, Static):
        inner = Num(type(inner.value))
    if len(statics) > 64:
        raise Clash("more than 64 different objects")
    return Either(tuple(statics), inner)


def same_static(a: Any, b: Any) -> bool:
    """Whether two static objects are interchangeable."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (int, str, bytes)):
        return bool(a == b)
    if isinstance(a, float):
        return repr(a) == repr(b)
    return isinstance(a, (slice, range)) and repr(a) == repr(b)
