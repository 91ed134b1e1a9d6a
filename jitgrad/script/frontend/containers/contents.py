"""What containers of a script hold: items of lists, dicts and other iterables, now."""

from typing import Any, Never

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.state import copies, pooling
from jitgrad.script.frontend.state.context import SETS, Context, Restart
from jitgrad.script.frontend.templates import locations, run_lists
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import type_word
from jitgrad.script.frontend.values.values import RunPairs, SymDict, SymList, is_entry


def new_list(context: Context, items: list[Any]) -> SymList:
    """A list made by the script."""
    result = SymList()
    context.state.values[result] = tuple(items)
    return result


def new_dict(context: Context, items: dict[Any, Any]) -> SymDict:
    """A dict made by the script."""
    result = SymDict()
    context.state.values[result] = items
    return result


def set_changes(context: Context) -> Never:
    """A Python set is about to change: one that the script made is made anew, as one that may."""
    if SETS not in context.decisions:
        raise Restart(SETS, "a set changes")
    raise UnsupportedCall("a change of a set that the script did not make", context.span(),
                          hint="change a copy: `set(s)`")


def writable(context: Context, container: Any) -> None:
    """Refuse a change of a container that may or may not be another one, or that is in a list of run-time length."""
    if container.entry is not None:
        return
    if container in context.listed:
        pooling.begin(context)
        raise UnsupportedCall("a change of a list that is an item of a list of run-time length", context.span(),
                              hint="put a new list in its place: `rows[i] = rows[i] + [x]`, or a copy into the list: "
                                   "`rows.append(row.copy())`")
    if container in copies.of(context).shared:
        raise copies.changed(context, container)


def identical(context: Context, a: Any, b: Any) -> Any:
    """Whether two containers are one: a bool, or one of the run."""
    one, other = (c.entry if is_entry(c) else None for c in (a, b))
    if one is not None and other is not None:
        return one.pool is other.pool and numbers.compare(
            context, "eq", numbers.wrap(context, one.place), numbers.wrap(context, other.place))
    if a is not b:
        if a in context.listed and b in context.listed:
            pooling.begin(context)
        for container in (a, b):
            if container in copies.of(context).shared:
                raise copies.changed(context, container)
    return a is b


def context_items(context: Context, value: SymList) -> tuple[Any, ...]:
    """The items of a list now."""
    items = run_lists.content(context, value)
    if not isinstance(items, tuple):

        raise run_lists.not_static(context)
    return items


def unread(context: Context, target: SymList) -> Any:
    """What a list holds: only what was appended (`Tail`) where its items at entry were not read."""
    if target.entry is not None:
        return run_lists.content(context, target)
    return locations.fetch(context, context.state, target)


def dict_of(context: Context, value: Any) -> dict[Any, Any]:
    """The items of a dict now."""
    if isinstance(value, SymDict):
        items: dict[Any, Any] = run_lists.content(context, value)
        if isinstance(items, RunPairs):
            raise NotStatic("the keys of this dict are known only at run time", context.span(),
                            hint="loop over it with `for`, or keep two lists")
        return items
    if isinstance(value, dict):
        return value
    raise UnsupportedCall(f"a dict is needed here, not {type_word(value)}", context.span())


def own(context: Context, container: SymList) -> None:
    """Before a change of a list: one that the script did not make is stored to when the call ends."""
    writable(context, container)
    if container.source is not None:
        context.inputs.rewritten[container] = None
