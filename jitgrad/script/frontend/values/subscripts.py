"""Subscripts: `obj[index]`, its assignment and its deletion."""

from __future__ import annotations

import operator
import types
from typing import Any, cast

from jitgrad.device import CPU
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import (
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    SymTuple,
    TensorMap,
    Union,
    class_of,
    is_dynamic,
    type_word,
)


def getitem(context: Context, obj: Any, index: Any) -> Any:
    """`obj[index]`."""
    from jitgrad.script.frontend.containers.iteration import pick

    if isinstance(obj, Union):
        obj = merge.force(context, obj, "'{}' object is not subscriptable")
        if isinstance(obj, Union):
            return merge.switch(context, obj, lambda v: getitem(context, v, index))
    if isinstance(obj, SymTensor):
        given = _key(context, index)
        return guarded(context, lambda: operator.getitem(cast("Any", obj), given))
    from jitgrad.script.frontend.containers import open_dicts

    if isinstance(obj, SymDict) and open_dicts.finds(context, obj, index):
        return open_dicts.getitem(context, obj, index)
    if isinstance(obj, SymDict):
        items = contents.dict_of(context, obj)
        if isinstance(index, Number):
            from jitgrad.script.frontend.containers import foreign_dicts

            return foreign_dicts.look_up(context, items, index)
        key = calls.static(context, index, "a dict key")
        if key not in items:
            raise merge.raise_now(context, KeyError, (str(key),))
        return items[key]
    if isinstance(obj, TensorMap):
        from jitgrad.script.frontend.containers import foreign_dicts

        return foreign_dicts.getitem(context, obj, index)
    if isinstance(obj, (tuple, SymList, range, Range)):
        return pick(context, obj, index)
    if isinstance(obj, type) or type(obj).__module__ == "typing":
        return guarded(context, lambda: obj[index])  # an annotation
    if isinstance(index, slice) and "_modules" in getattr(obj, "__dict__", ()):
        for k in range(contents.length(context, obj)):
            getitem(context, obj, k)  # so that the path to each module is known
        return guarded(context, lambda: obj[index])
    method = getattr(class_of(obj), "__getitem__", None)
    if isinstance(method, types.FunctionType):
        if isinstance(index, Number) and "_modules" in getattr(obj, "__dict__", ()):
            return pick(context, obj, index)
        return calls.call(context, method, (obj, index), {})
    if is_dynamic(index):
        raise UnsupportedCall(f"a run-time index into {type_word(obj)}", context.span())
    return guarded(context, lambda: obj[index])


def setitem(context: Context, obj: Any, index: Any, value: Any) -> None:
    """`obj[index] = value`."""
    from jitgrad.script.frontend.containers import foreign_dicts, open_dicts

    if isinstance(obj, Union):
        obj = merge.force(context, obj, "'{}' object does not support item assignment")
        if isinstance(obj, Union):
            merge.switch(context, obj, lambda v: setitem(context, v, index, value))
            return
    if isinstance(obj, SymTensor):
        given, source = _key(context, index), calls.argument(context, value)
        guarded(context, lambda: operator.setitem(cast("Any", obj), given, source))
        return
    if isinstance(obj, SymDict) and open_dicts.takes(context, obj, index):
        open_dicts.setitem(context, obj, index, value)
        return
    if isinstance(obj, SymDict):
        key = calls.static(context, index, "a dict key")
        foreign_dicts.change(context, obj, {**contents.dict_of(context, obj), key: value})
        return
    if isinstance(obj, TensorMap):
        foreign_dicts.setitem(context, obj, index, value)
        return
    if isinstance(obj, SymList) and not isinstance(obj, SymTuple):
        from jitgrad.script.frontend.containers import lists

        contents.own(context, obj)
        held = lists.run_items(context, obj)
        if held is None and isinstance(index, slice):
            held = lists.about_to_change(context, obj, index, value)
        if held is not None:
            lists.change(context, obj, lists.set_item(context, held, index, value))
            return
        _set_list_item(context, obj, index, value)
        return
    method = getattr(class_of(obj), "__setitem__", None)
    if isinstance(method, types.FunctionType):
        calls.call(context, method, (obj, index, value), {})
        return
    raise merge.raise_now(context, TypeError, (f"'{calls.type_name(obj)}' object does not support item assignment",))


def _key(context: Context, index: Any) -> Any:
    """What is in the brackets behind a tensor as the library takes it: a `range` as a tensor of its numbers."""
    if type(index) is tuple:
        return tuple([_key(context, item) for item in index])
    if not isinstance(index, Range):
        return calls.argument(context, index)
    from jitgrad.ops.library.creation import arange
    from jitgrad.script.frontend.containers.iteration import range_length

    def numbers() -> Any:
        found: Any = arange(range_length(context, index), device=CPU)
        found = found * index.step if index.step != 1 else found
        return found + index.start if isinstance(index.start, Number) or index.start else found

    return guarded(context, numbers)


def _set_list_item(context: Context, obj: SymList, index: Any, value: Any) -> None:
    items = list(contents.context_items(context, obj))
    if isinstance(index, Number):
        from jitgrad.script.frontend.containers.iteration import assign_at

        context.state.values[obj] = assign_at(context, items, index, value)
        return
    place = calls.static(context, index, "a list index")
    new = contents.items_of(context, value) if isinstance(place, slice) else value
    guarded(context, lambda: operator.setitem(items, place, new))
    context.state.values[obj] = tuple(items)


def delitem(context: Context, obj: Any, index: Any) -> None:
    """`del obj[index]`."""
    if not isinstance(obj, (SymDict, SymList)) or isinstance(obj, SymTuple):
        method = getattr(class_of(obj), "__delitem__", None)
        if isinstance(method, types.FunctionType):
            calls.call(context, method, (obj, index), {})
            return
        raise merge.raise_now(context, TypeError, (f"'{calls.type_name(obj)}' object doesn't support item deletion",))
    if isinstance(obj, SymList):
        from jitgrad.script.frontend.containers import lists

        contents.own(context, obj)
        held = lists.about_to_change(context, obj, index)
        if held is not None:
            lists.change(context, obj, lists.delete(context, held, index))
            return
    from jitgrad.script.frontend.containers import open_dicts

    if isinstance(obj, SymDict) and open_dicts.takes(context, obj, index):
        open_dicts.delitem(context, obj, index)
        return
    place = calls.static(context, index, "the place of a `del`")
    if isinstance(obj, SymDict):
        from jitgrad.script.frontend.containers import foreign_dicts

        items = dict(contents.dict_of(context, obj))
        if place not in items:
            raise merge.raise_now(context, KeyError, (str(place),))
        del items[place]
        foreign_dicts.change(context, obj, items)
        return
    listed = list(contents.context_items(context, obj))
    guarded(context, lambda: operator.delitem(listed, place))
    context.state.values[obj] = tuple(listed)
