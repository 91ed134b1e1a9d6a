"""Pools: containers that are referred to by number.

A list, dict or object that is put into a list of run-time length, or that the run chooses, and that is changed or
compared by identity, is an entry of a pool: a list of run-time length of what the containers hold that some
expressions make. A pool is part of the heap, which branches merge and loops carry. What refers to such a container is
an int, its number in the pool: two references are one object if their numbers are equal, and a change by one of them
is seen by all.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.dims import Symbol
from jitgrad.errors import ScriptError, TypeMismatch, UnsupportedCall
from jitgrad.ops.types import INT, Type
from jitgrad.script.frontend.state import copies, pooling
from jitgrad.script.frontend.state.context import PACKAGE, SHORT_LOOPS, Context, Restart, State
from jitgrad.script.frontend.templates import locations, run_lists
from jitgrad.script.frontend.templates.alternatives import Num
from jitgrad.script.frontend.templates.of_values import content_template, record, register_entry
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.values.protocol import type_word
from jitgrad.script.frontend.values.values import (Boxed, Container, Entry, Instance, Pool, RunItems, RunPairs, SymList,
                                                   Union, is_entry, is_held)
from jitgrad.script.graph.ir import Value


@dataclass(slots=True)
class Pools:
    """The pools of one evaluation, by site, the containers that are being put into one, and whether there are objects
    of classes of the user's."""

    unions: pooling.Unions = field(default_factory=pooling.Unions)
    by_site: dict[Any, Pool] = field(default_factory=dict)
    adopting: set[Container] = field(default_factory=set)
    objects: bool = False


def of(context: Context) -> Pools:
    """The record of an evaluation."""
    return context.part(Pools)


@dataclass(frozen=True, slots=True)
class Ref(Template):
    """A container in a pool."""

    pool: Pool

    def __str__(self) -> str:
        return type_word(self.pool.prototype)

    def joined(self, other: Template, widen: Sizer) -> Template:
        if not isinstance(other, Ref) or class_of(other.pool.prototype) is not class_of(self.pool.prototype):
            raise Clash(f"{self} and {other}")
        if other.pool is not self.pool:
            raise pooling.unite(widen.context, self.pool.site, other.pool.site)
        return self

    def as_element(self, elements: Elements) -> Template:
        return self

    def alike(self, other: Template) -> bool:
        return self == other

    def types(self) -> list[Type]:
        return [INT]

    def histories(self) -> list[bool]:
        return [False]

    def lower(self, context: Context, value: Any) -> list[Value]:
        return [value.entry.place]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        made = copy(self.pool.prototype)
        assert made is not None
        made.entry = Entry(self.pool, next(leaves))
        return made


@dataclass(frozen=True, slots=True)
class Nothing(Template):
    """What the containers of a pool hold while there is none."""

    def __str__(self) -> str:
        return "nothing"

    @property
    def alternative(self) -> bool:
        return True

    @property
    def uninhabited(self) -> bool:
        return True

    def join(self, other: Template, widen: Sizer) -> Template:
        return other

    def beside(self, first: Template, widen: Sizer) -> Template:
        return first


register_entry(lambda value: Ref(value.entry.pool))


def class_of(container: Any) -> type:
    """The class of a container: of an object, Python's."""
    return container.cls if isinstance(container, Instance) else type(container)


def _pool(context: Context, container: Container) -> Pool:
    known = of(context)
    root = known.unions.root(context, container.site)
    if pooling.OBJECTS in context.decisions and _is_object(container):
        root = "every", class_of(container)
    pool = known.by_site.get(root)
    if pool is None:
        pool = known.by_site[root] = Pool()
        pool.site = root
        made = copy(container)
        made.entry = None
        pool.prototype = made
        with context.builder.into(context.path[0]):
            marks = context.one("list.new", type=run_lists.types_of(Num(bool))[0])
        pool.initial = RunItems(Items(tuple, (Num(bool), Nothing())), (marks,))
    return pool


# --- into a pool -----------------------------------------------------------------------------------------------------


def enter(context: Context, value: Any) -> None:
    """What is about to be an item of a list of run-time length: its containers live in pools from now on."""
    if isinstance(value, tuple):
        for v in value:
            enter(context, v)
    elif isinstance(value, Union):
        for v in value.statics:
            if is_held(v) and v.source is None and not isinstance(v, Boxed):
                pooling.begin(context)
                if pooling.wanted(context):
                    pooling.ask(context, v)
    elif is_held(value) and value.source is None:
        if not pooling.wanted(context):
            if not isinstance(value, (SymList, Boxed)):
                pooling.begin(context)
        elif value.number >= context.begun[-1]:
            adopt(context, value)
        else:
            pooling.ask(context, value)


def made(context: Context, container: Container) -> None:
    """A container was made, perhaps, by the expression that is being evaluated. Of those that Python of this package
    makes, its site is where the user calls that."""
    if container.source is not None or container.entry is not None:
        return
    if container.site is not None and (not container.site[0].file.startswith(PACKAGE)
                                       or context.frame.source.file.startswith(PACKAGE)):
        return
    site = container.site = context.span(), class_of(container).__name__
    everywhere = _is_object(container)
    of(context).objects |= everywhere
    if (pooling.is_pooled(context, site) or (everywhere and pooling.OBJECTS in context.decisions and (
            pooling.wanted(context)))) and container.number >= context.begun[-1] and is_held(container):
        adopt(context, container)


def _is_object(container: Container) -> bool:
    """Whether a container is an object of a class of the user's."""
    return isinstance(container, Instance) and not isinstance(container, Boxed) and not hasattr(
        container.cls, "stands_for")


def instead(context: Context, refusal: ScriptError) -> Restart | None:
    """The evaluation that may do without a refusal, if all objects are in pools: a list or tree of them is built."""
    if of(context).objects and not {pooling.OBJECTS, SHORT_LOOPS} & context.decisions:
        return Restart(pooling.OBJECTS, f"objects live in pools: {refusal.message}")
    return None


def adopt(context: Context, container: Container) -> None:
    """Let a container that was made in this block live in a pool."""
    known = of(context)
    if container in copies.of(context).shared:
        raise copies.changed(context, container)
    if container in known.adopting:
        raise UnsupportedCall("a container that holds itself, in a list of run-time length", context.span(),
                              hint="put it into the list before it is put into itself")
    if container.site is None:
        container.site = context.users_span(), class_of(container).__name__
    known.adopting.add(container)
    content = run_lists.content(context, container)
    _enter_items(context, content)
    known.adopting.discard(container)
    pool = _pool(context, container)
    held = locations.fetch(context, context.state, pool)
    index = run_lists.length_of(context, held)
    _put(context, pool, index, content)
    context.state.values.pop(container, None)
    container.entry = Entry(pool, index)


def _enter_items(context: Context, content: Any) -> None:
    if isinstance(content, RunItems):
        return
    for v in content.values() if isinstance(content, dict) else content:
        if isinstance(v, SymList) and isinstance(content, RunPairs):
            continue  # the keys and the values of a dict are its own
        enter(context, v)
        run_lists.mark(context, v)


def write(context: Context, container: Container, content: Any) -> None:
    """Let a container hold something else: an entry, or one of which the content is in the state."""
    if container.entry is None:
        context.state.values[container] = content
        return
    _enter_items(context, content)
    _put(context, container.entry.pool, container.entry.place, content)


def _put(context: Context, pool: Pool, index: Value, content: Any) -> None:
    held: RunItems = locations.fetch(context, context.state, pool)
    elements = Elements(context, Symbol().number)
    holder: Any = pool.prototype
    try:
        t: Template = content_template(context, content, True, type(holder)) if isinstance(
            holder, SymList) else record(context, holder, content, True)
        t = t.map(lambda i: i.as_element(elements)) if isinstance(t, Record) else t.as_element(elements)
        elem = held.elem.join(Items(tuple, (Num(bool), t)), elements)
    except Clash as clash:
        raise TypeMismatch(f"{type_word(holder)} of a list of run-time length cannot hold this: {clash}",
                           context.span(), hint="let all of them hold tensors of one dtype and rank, or numbers, or "
                                                "tuples of these") from None
    leaves = run_lists.lower(context, elem, held)
    leaves = run_lists.put(context, elem, leaves, index, (True, content))
    context.state.values[pool] = RunItems(elem, tuple(leaves))


# --- where an entry meets a container that is none -------------------------------------------------------------------


def meet(context: Context, key: Any, one: tuple[Any, State], other: tuple[Any, State]) -> None:
    """Two values that no location can hold: if one is in a pool and the other is not, or if they are lists of objects,
    begin again."""
    for value, state in (one, other):
        for held in _lists(key, value, state):
            for v in _items(held):
                for made in v.statics if isinstance(v, Union) else (v,):
                    if is_held(made) and made.source is None and not isinstance(made, Boxed):
                        pooling.begin(context)
                        if pooling.wanted(context):
                            pooling.ask(context, made)
    if not pooling.wanted(context):
        return
    for (a, mine), (b, theirs) in ((one, other), (other, one)):
        if any(is_entry(v) or isinstance(v, Pool) for v in _containers(a, mine)):
            for v in _containers(b, theirs):
                if is_held(v) and v.source is None:
                    pooling.ask(context, v)


def _lists(key: Any, value: Any, state: State) -> Iterator[Any]:
    """What the lists hold that two values are, or that a location holds."""
    if isinstance(key, SymList):
        yield value
    for v in _containers(value, state):
        if isinstance(v, SymList) and is_held(v):
            yield state.values.get(v)


def _items(value: Any) -> Iterator[Any]:
    """The items of a list, and those of tuples in it."""
    for v in value if isinstance(value, tuple) else ():
        yield v
        yield from _items(v)


def _containers(value: Any, state: State) -> Iterator[Any]:
    """The containers in a value, and the pools that it refers to."""
    pending, seen = [value], set()
    while pending:
        v = pending.pop()
        if isinstance(v, Container):
            if v in seen:
                continue
            seen.add(v)
            yield v
            if is_held(v):
                pending.append(state.values.get(v))
        elif isinstance(v, (tuple, dict)):
            pending += v.values() if isinstance(v, dict) else v
        elif isinstance(v, Union):
            pending += v.statics
            if v.inner is not None:
                yield from _references(v.inner)
        elif isinstance(v, RunItems):
            yield from _references(v.elem)


def _references(t: Template) -> Iterator[Any]:
    if isinstance(t, Ref):
        yield t.pool
    for part in t.parts:
        yield from _references(part)
