"""What containers of a script hold: items of lists, dicts and other iterables, now."""

from __future__ import annotations

import types
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import (
    Part,
    Range,
    RunPairs,
    SymDict,
    SymList,
    SymTensor,
    Tail,
    TensorMap,
    Union,
    class_of,
    is_dynamic,
    type_word,
)


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


def new_set(context: Context, items: list[Any], cls: type = set) -> Any:
    """A set of static items: a plain Python set that nothing changes."""
    if is_dynamic(items):
        raise UnsupportedCall("a set of run-time values", context.span(), hint="use a list, or `torch.unique`")
    return guarded(context, lambda: cls(items))


def writable(context: Context, container: Any) -> None:
    """Refuse a change of a container that may or may not be another one, or that is in a list of run-time length."""
    if container in context.listed:
        raise UnsupportedCall("a change of a list that is an item of a list of run-time length", context.span(),
                              hint="put a new list in its place: `rows[i] = rows[i] + [x]`, or a copy into the list: "
                                   "`rows.append(row.copy())`")
    if container in context.frozen:
        raise UnsupportedCall(f"this {calls.type_name(container)} may or may not be another one: a branch chose it, "
                              "and it is changed", context.span(), hint="copy it before the change")


def context_items(context: Context, value: SymList) -> tuple[Any, ...]:
    """The items of a list now."""
    items = merge.fetch(context, context.state, value)
    if isinstance(items, Tail):
        items = context.state.values[value] = (*context.inputs.items(value), *items)
    if not isinstance(items, tuple):
        from jitgrad.script.frontend.containers import lists

        raise lists.not_static(context)
    return items


def dict_of(context: Context, value: Any) -> dict[Any, Any]:
    """The items of a dict now."""
    if isinstance(value, SymDict):
        items: dict[Any, Any] = merge.fetch(context, context.state, value)
        if isinstance(items, RunPairs):
            raise NotStatic("the keys of this dict are known only at run time", context.span(),
                            hint="loop over it with `for`, or keep two lists")
        return items
    if isinstance(value, dict):
        return value
    raise UnsupportedCall(f"a dict is needed here, not {type_word(value)}", context.span())


def items_of(context: Context, value: Any) -> list[Any]:
    """The items of an iterable whose length is known. Raises NotStatic."""
    items = static_items(context, value)
    if items is None:
        raise NotStatic(f"the length of {type_word(value)} is known only at run time", context.span(),
                        hint="unpack a tuple, or loop with `for`")
    return items


def static_items(context: Context, value: Any) -> list[Any] | None:
    """The items of an iterable; None where its length is known only at run time."""
    from jitgrad.script.frontend.containers.iteration import Iterable

    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, SymList):
        held = merge.fetch(context, context.state, value)
        return list(held) if isinstance(held, tuple) else None
    if isinstance(value, SymDict):
        held = merge.fetch(context, context.state, value)
        return static_items(context, held[Part.KEYS]) if isinstance(held, RunPairs) else list(held)
    if isinstance(value, (str, bytes, range, dict, set, frozenset)):
        return list(value)
    if isinstance(value, Iterable) and not isinstance(value.length, int):
        return None  # and none of its items is taken
    iterable = Iterable.of(context, value)
    if iterable is None:
        return None
    n = iterable.length
    return [iterable.item(context, k) for k in range(n)] if isinstance(n, int) else None


def length(context: Context, value: Any) -> Any:
    """`len(value)`."""
    if isinstance(value, SymTensor):
        if not value.ndim:
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    if isinstance(value, SymList):
        from jitgrad.script.frontend.containers import lists

        held = lists.run_items(context, value)
        return lists.length(context, held) if held is not None else len(context_items(context, value))
    if isinstance(value, SymDict):
        from jitgrad.script.frontend.containers import open_dicts

        return open_dicts.length(context, value) if open_dicts.is_open(context, value) else len(dict_of(context, value))
    if isinstance(value, TensorMap):
        from jitgrad.script.frontend.containers import foreign_dicts

        return foreign_dicts.length(context, value)
    if isinstance(value, Range):
        from jitgrad.script.frontend.containers.iteration import range_length

        return range_length(context, value)
    if isinstance(value, Union):
        return merge.switch(context, value, lambda v: length(context, v))
    method = getattr(class_of(value), "__len__", None)
    if isinstance(method, types.FunctionType):
        return calls.call(context, method, (value,), {})
    return guarded(context, lambda: len(value))


def own(context: Context, container: SymList) -> None:
    """Before a change of a list: one that the script did not make is stored to when the call ends."""
    writable(context, container)
    if container.source is not None:
        context.inputs.rewritten[container] = None
