"""What containers of a script hold: items of lists, dicts and other iterables, now."""

from collections.abc import Iterator, Sequence
from typing import Any, Never

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend.state import copies, dispatch, pooling
from jitgrad.script.frontend.state.context import SETS, Context, Restart
from jitgrad.script.frontend.state.handlers import Args, handles
from jitgrad.script.frontend.templates import locations, run_lists, unions
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.protocol import Methods, type_word
from jitgrad.script.frontend.values.values import (UNBOUND, Attributes, Container, Number, RunPairs, SymDict, SymList,
                                                   SymTensor, is_entry)

#: what a class calls its operators: `seen.__setitem__("loss", x)`, where a lambda has no assignment
OPERATORS: Methods = {
    "__getitem__": protocol.get_item, "__setitem__": protocol.set_item, "__delitem__": protocol.delete_item,
    "__len__": protocol.length, "__contains__": protocol.contains}


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
    copies.written(context, container)


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
    if isinstance(value, Attributes):
        held: Any = run_lists.content(context, value.of) if isinstance(value.of, Container) else None
        if held is None or any(unions.may_be(v, UNBOUND) for v in held.values()):
            raise NotStatic("which attributes this object has is known only at run time", context.span(),
                            hint="ask for them by name")
        found: dict[Any, Any] = held
        return found
    if isinstance(value, dict):
        return value
    raise UnsupportedCall(f"a dict is needed here, not {type_word(value)}", context.span())


def leaves(context: Context, tree: Any) -> Iterator[Any]:
    """What is in a tree of tuples, lists and dicts."""
    if isinstance(tree, tuple):
        items: Any = tree
    elif isinstance(tree, SymList):
        items = protocol.items_of(context, tree)
    elif isinstance(tree, SymDict):
        items = dict_of(context, tree).values()
    else:
        yield tree
        return
    for item in items:
        yield from leaves(context, item)


def own(context: Context, container: SymList) -> None:
    """Before a change of a list: one that the script did not make is stored to when the call ends."""
    writable(context, container)
    if container.source is not None:
        context.inputs.rewritten[container] = None


# --- equality, as containers ask for it: of an item and itself nothing is asked, and nothing after what decides ------


def same(a: Any, b: Any) -> bool:
    """`a is b or a == b`."""
    return a is b or bool(a == b)


@handles(same)
def _same(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return is_same(context, *args)


def is_same(context: Context, a: Any, b: Any) -> Any:
    """Whether two items are the same: a bool or a run-time one."""
    return unions.each(context, (a, b), lambda given: _is_same(context, *given))


def _is_same(context: Context, a: Any, b: Any) -> Any:
    if a is b:
        return True

    def equal() -> Any:
        return protocol.truth(context, protocol.compare(context, "eq", a, b))

    if not (isinstance(a, SymTensor) and isinstance(b, SymTensor)):
        return equal()
    try:
        one = protocol.identical(context, a, b)
    except NotStatic:  # of one element, equality says the same; of more it would raise unless they are one
        if any(d != 1 for d in a.type_.dims):
            raise
        return equal()
    return dispatch.branch(context, one, lambda: True, equal) if isinstance(one, Number) else one or equal()


def all_same(context: Context, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Whether all pairs are the same, up to the first that is not."""
    if not pairs:
        return True
    first, rest = is_same(context, *pairs[0]), pairs[1:]
    if not isinstance(first, Number):
        return all_same(context, rest) if first else False
    if all(_plain(v) for pair in rest for v in pair):
        return numbers.both(context, first, all_same(context, rest))
    return dispatch.branch(context, first, lambda: all_same(context, rest), lambda: False)


def any_same(context: Context, items: Sequence[Any], value: Any) -> Any:
    """Whether one of the items is the value, up to the first that is."""
    if not items:
        return False
    first, rest = is_same(context, items[0], value), items[1:]
    if not isinstance(first, Number):
        return True if first else any_same(context, rest, value)
    if all(_plain(v) for v in rest):
        return numbers.either(context, first, any_same(context, rest, value))
    return dispatch.branch(context, first, lambda: True, lambda: any_same(context, rest, value))


def _plain(value: Any) -> bool:
    """Whether nothing can go wrong when it is compared."""
    return isinstance(value, (Number, int, float, str, type(None)))
