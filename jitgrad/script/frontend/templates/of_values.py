"""The template of a value: what makes it, by the value's class."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jitgrad.dims import Symbol
from jitgrad.errors import NotStatic
from jitgrad.script.frontend.batches.items import batches
from jitgrad.script.frontend.state import copies, layout
from jitgrad.script.frontend.state.context import ORIGINS, Context
from jitgrad.script.frontend.templates import item_origins
from jitgrad.script.frontend.templates.alternatives import PYTHON_KINDS, Either, Num, Static
from jitgrad.script.frontend.templates.records import Failure, Record
from jitgrad.script.frontend.templates.references import Outside
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.sizes import Widener
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.templates.texts import Str, Words
from jitgrad.script.frontend.values.protocol import is_dynamic
from jitgrad.script.frontend.values.values import (ExceptionValue, Instance, Number, RunItems, RunPairs, RunText,
                                                   SymDict, SymList, SymTensor, SymTuple, Tail, Text, Union, is_entry)

T = TypeVar("T")


@dataclass(slots=True)
class _Open:
    """The containers whose content is being described, from the outermost inwards."""

    containers: list[Any] = field(default_factory=list)


def template_of(context: Context, value: Any, general: bool = False, outside: Outside | None = None) -> Template:
    """The template of one side's value; with `general`, a number is a run-time number (a loop assigns it)."""
    if outside is not None:
        if outside.refers(value):
            return Static(value)
        if isinstance(value, tuple):
            return Items(type(value), tuple([template_of(context, v, general, outside.item(k))
                                             for k, v in enumerate(value)]))
        if isinstance(value, Union):
            return _kept(context, value, outside)
    if is_entry(value):
        return _ENTRIES[0](value)
    for cls in type(value).__mro__:
        make = _MAKERS.get(cls)
        if make is not None:
            return make(context, value, general)
    return Static(value)


def _inside(context: Context, container: Any, make: Callable[[], T]) -> T:
    """What `make` says of what a container holds. Raises where the container is in what it holds, which ends nowhere:
    names then refer to the objects."""
    open_ = context.part(_Open).containers
    if container in open_:
        raise copies.endless(context)
    open_.append(container)
    try:
        return make()
    finally:
        open_.pop()


_ENTRIES: list[Callable[[Any], Template]] = []


def register_entry(make: Callable[[Any], Template]) -> None:
    """Say what the template of a container in a pool is."""
    _ENTRIES.append(make)


def _of_all(context: Context, values: Any, general: bool) -> tuple[Template, ...]:
    return tuple([template_of(context, v, general) for v in values])


def _tensor(context: Context, value: SymTensor, general: bool) -> Tensor:
    type_, storage = value.type_, value.storage
    leaf = not value.path and (storage.requires_grad or storage.was_leaf)
    place = item_origins.count(context, value)
    origin = place if storage.origin or storage.unknown or ORIGINS in context.decisions else 0
    return Tensor(type_.dtype, type_.dims, value.requires_grad, storage.alias, layout.keeps_order(context, value), leaf,
                  origin, place, storage.device, batches(value), storage.parameter is not False and not value.path)


def _number(context: Context, value: Number, general: bool) -> Template:
    return Num(value.number_type, value.low)


def _python_number(context: Context, value: int | float, general: bool) -> Template:
    if not general or type(value) not in PYTHON_KINDS:
        return Static(value)
    return Num(type(value), value if type(value) is int and value >= 0 else None)


def _tuple(context: Context, value: tuple[Any, ...], general: bool) -> Template:
    return Items(type(value), _of_all(context, value, general))


def _slice(context: Context, value: slice, general: bool) -> Template:
    if is_dynamic(value):
        raise NotStatic("a slice with run-time ends, which a branch or a loop changes", context.span(),
                        hint="keep its ends in variables, and slice where it is used")
    return Static(value)


def _exception(context: Context, value: ExceptionValue, general: bool) -> Template:
    if not is_dynamic(value):
        return Static(value)
    if value.changed:
        raise NotStatic("an exception with attributes of its own, which a branch or a loop chooses", context.span(),
                        hint="keep in variables what is in them")
    return Failure(value.cls, _of_all(context, value.args, general))


def _list(context: Context, value: SymList, general: bool) -> Template:
    if value.source is not None:
        return Static(value)
    if isinstance(value, SymTuple):
        raise NotStatic("a tuple of a length known only at run time, which a branch or a loop changes",
                        context.span(), hint="make a list of it, `list(...)`")
    return _inside(context, value, lambda: content_template(
        context, context.state.values[value], general, type(value)))


def content_template(context: Context, content: Any, general: bool = False, cls: type[SymList] = SymList
                     ) -> Items | ListOf:
    """The template of what a list holds, as that of a `cls`."""
    if isinstance(content, RunItems):
        return ListOf(content.elem, cls)
    kind = Tail if isinstance(content, Tail) else cls  # a tail is never what a whole list is
    return Items(kind, _of_all(context, content, general))


def _held(context: Context, value: SymDict | Instance, general: bool) -> Template:
    return Static(value) if value.source is not None else _inside(context, value, lambda: record(
        context, value, context.state.values[value], general))


def record(context: Context, holder: SymDict | Instance, content: dict[Any, Any], general: bool = False) -> Record:
    """The template of what a dict or an object holds."""
    kind = type(content) if isinstance(content, RunPairs) else SymDict if isinstance(holder, SymDict) else holder.cls
    return Record(kind, tuple(content), _of_all(context, content.values(), general))


def _text(context: Context, value: Text, general: bool) -> Template:
    return Words(tuple([p if isinstance(p, str) else p[1:] for p in value.parts]),
                 _of_all(context, [p[0] for p in value.parts if not isinstance(p, str)], general))


def _union(context: Context, value: Union, general: bool) -> Template:
    """A union's template: of tensors that it refers to, what they hold."""
    inner = value.inner
    tensors = [_tensor(context, s, general) for s in value.statics if isinstance(s, SymTensor)]
    for t in tensors:
        inner = t if inner is None else inner.join(t, Widener(context, Symbol().number))
    if isinstance(inner, Tensor):
        inner = replace(inner, place=max([t.place for t in tensors], default=0))
    statics = tuple([s for s in value.statics if not isinstance(s, SymTensor)])
    return Either(statics, inner, value.copied) if statics or inner is value.inner or inner is None else inner


def _kept(context: Context, value: Union, outside: Outside) -> Either:
    """A union's template at the end of a branch or loop: of alternatives that end there, what they hold goes on."""
    statics = tuple(s for s in value.statics if not outside.ends(s))
    parts = [value.inner] if value.inner is not None else []
    parts += [template_of(context, s) for s in value.statics if outside.ends(s)]
    inner = parts[0] if parts else None
    for other in parts[1:]:
        assert inner is not None
        inner = inner.join(other, outside.widen)
    return Either(statics, inner, value.copied)


_MAKERS: dict[type, Callable[[Context, Any, bool], Template]] = {
    SymTensor: _tensor, Number: _number, int: _python_number, float: _python_number, tuple: _tuple, slice: _slice,
    SymList: _list, SymDict: _held, Instance: _held, Text: _text, Union: _union,
    ExceptionValue: _exception,
    RunText: lambda context, value, general: Str(),
}
