"""Dicts whose keys are known at run time: two lists, the keys and the values, in the order of insertion.

A dict becomes one where a run-time key is set, or where branches or iterations bring different keys together. Its
content in the state is then a `RunPairs`: the two lists, which grow as any list does (`lists.py`). What Python does
with it is in `dict_methods.py`.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents, dict_methods, iteration, list_methods, lists
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import pools, run_lists, unions
from jitgrad.script.frontend.values import protocol
from jitgrad.script.frontend.values.protocol import call, is_dynamic, iterate, type_word
from jitgrad.script.frontend.values.strings import joined
from jitgrad.script.frontend.values.values import (Iterable, Method, Number, Part, RunPairs, RunText, SymDict, SymList,
                                                   Text)


def is_open(context: Context, value: Any) -> bool:
    """Whether a value is a dict whose keys are known at run time."""
    return isinstance(value, SymDict) and isinstance(run_lists.content(context, value), RunPairs)


def finds(context: Context, target: SymDict, key: Any) -> bool:
    """Whether a key is looked for at run time in a list of keys; a number in few known ones is a branch for each."""
    return is_open(context, target) or (isinstance(key, (tuple, Text, RunText)) and is_dynamic(key))


def takes(context: Context, target: SymDict, key: Any) -> bool:
    """Whether a change at a key is one of a dict whose keys are known at run time, or makes it one."""
    return is_open(context, target) or _of_the_run(key)


def _of_the_run(key: Any) -> bool:
    return isinstance(key, (Number, Text, RunText, tuple)) and is_dynamic(key)


def parts(context: Context, target: SymDict | dict[Any, Any]) -> tuple[SymList, SymList]:
    """The keys and the values of a dict, to be read."""
    held = run_lists.content(context, target) if isinstance(target, SymDict) else target
    if isinstance(held, RunPairs):
        return held[Part.KEYS], held[Part.VALUES]
    return contents.new_list(context, list(held)), contents.new_list(context, list(held.values()))


def _own(context: Context, target: SymDict) -> tuple[SymList, SymList]:
    """The keys and the values of a dict that is about to change."""
    contents.writable(context, target)
    keys, values = parts(context, target)
    if target.entry is None:
        context.state.values[target] = RunPairs({Part.KEYS: keys, Part.VALUES: values})
    if target.source is not None:
        context.inputs.rewritten[target] = context.inputs.changed[target] = None
    return keys, values


def _changed(context: Context, target: SymDict, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function of `dict_methods` gives, which changes the keys and the values of a dict."""
    keys, values = _own(context, target)
    found = call(context, function, keys, values, *args, **named)
    if target.entry is not None:
        pools.write(context, target, RunPairs({Part.KEYS: keys, Part.VALUES: values}))
    return found


def key_of(context: Context, key: Any) -> Any:
    """A key, checked: numbers, strings, and tuples of them."""
    if unions.is_choice(key, str):
        return joined(context, [(key, "", "")])
    if isinstance(key, (Number, str, Text, RunText, int, float, bytes, type(None))):
        return key
    if isinstance(key, tuple):
        return type(key)(*(key_of(context, k) for k in key)) if hasattr(key, "_fields") else tuple(
            [key_of(context, k) for k in key])
    raise UnsupportedCall(f"{type_word(key)} as a key of a dict that changes at run time", context.span(),
                          hint="use a number, or a tuple of numbers: `int(x)`")


def _keyed(function: Callable[..., Any], changes: bool) -> Callable[..., Any]:
    """What runs a function of `dict_methods` for a key."""
    def method(context: Context, target: SymDict, key: Any, *given: Any, **named: Any) -> Any:
        if changes:
            return _changed(context, target, function, key_of(context, key), *given, **named)
        return call(context, function, *parts(context, target), key_of(context, key), *given, **named)
    return method


getitem, setitem = _keyed(dict_methods.getitem, False), _keyed(dict_methods.setitem, True)
delitem = _keyed(dict_methods.pop, True)


def contains(context: Context, target: SymDict, key: Any) -> Any:
    """`key in target`."""
    return call(context, list_methods.contains, parts(context, target)[0], key_of(context, key))


def length(context: Context, target: SymDict) -> Any:
    """`len(target)`."""
    return protocol.length(context, parts(context, target)[0])


def equal(context: Context, a: Any, b: Any) -> Any:
    """`a == b`."""
    return call(context, dict_methods.equal, *parts(context, a), *parts(context, b))


def iterable(context: Context, target: SymDict) -> Iterable:
    """What a loop over the dict goes over."""
    return iterate(context, parts(context, target)[0])


def gone_over(context: Context, target: SymDict, which: tuple[int, ...] = (0,)) -> Any:
    """What a `for` goes over, of keys (0), values (1) or both, if its body changes the dict; else None."""
    if not lists.is_live(context):
        return None

    def item(cx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = tuple([protocol.get_item(cx, parts(cx, target)[w], *args) for w in which])
        return found if len(which) > 1 else found[0]

    size = Method("size", lambda cx, args, kwargs: length(cx, target))
    key = Method("key", lambda cx, args, kwargs: protocol.get_item(cx, parts(cx, target)[0], *args))
    before = run_lists.new(context, run_lists.content(context, parts(context, target)[0]))
    return call(context, dict_methods.live, size, key, Method("item", item), before)


# --- methods -------------------------------------------------------------------------------------------------------


def _popitem(context: Context, target: SymDict) -> Any:
    return _changed(context, target, dict_methods.popitem)


def _update(context: Context, target: SymDict, other: Any = None, **named: Any) -> None:
    for more in (other, named):
        if more:
            if not isinstance(more, (SymDict, dict)):
                raise UnsupportedCall(f"`update` of a dict whose keys are known at run time with {type_word(more)}",
                                      context.span(), hint="write a loop")
            _changed(context, target, dict_methods.update, *parts(context, more))


def _clear(context: Context, target: SymDict) -> None:
    _changed(context, target, dict_methods.clear)


def _copy(context: Context, target: SymDict) -> SymDict:
    made = SymDict()
    keys, values = (run_lists.new(context, run_lists.content(context, part)) for part in parts(context, target))
    context.state.values[made] = RunPairs({Part.KEYS: keys, Part.VALUES: values})
    return made


def _view(context: Context, target: SymDict, *which: int) -> Any:
    live = gone_over(context, target, which)
    if live is not None:
        return live
    chosen = [iterate(context, parts(context, target)[k]) for k in which]
    return chosen[0] if len(chosen) == 1 else iteration.zipped(context, chosen, strict=False)


METHODS: dict[str, Callable[..., Any]] = {
    "get": _keyed(dict_methods.get, False), "setdefault": _keyed(dict_methods.setdefault, True),
    "pop": delitem, "popitem": _popitem, "update": _update, "clear": _clear, "copy": _copy,
    "keys": lambda cx, d: _view(cx, d, 0), "values": lambda cx, d: _view(cx, d, 1),
    "items": lambda cx, d: _view(cx, d, 0, 1),
}
#: methods that make a dict one whose keys are known at run time if they are given a run-time key
_SETTERS = ("setdefault", "pop")


def method(context: Context, target: SymDict, name: str, otherwise: Method) -> Method:
    """A method of a dict, bound; `otherwise` is that of a dict with known keys. Which it is is known at the call."""
    def call(cx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and unions.is_choice(args[0], str) and not is_open(cx, target):
            return unions.switch(cx, args[0], lambda key: call(cx, (key, *args[1:]), kwargs))
        if is_open(cx, target) or (name in _SETTERS and args and _of_the_run(args[0])) or (
                name == "update" and args and is_open(cx, args[0])) or (
                name == "get" and args and finds(cx, target, args[0])):
            return METHODS[name](cx, target, *args, **kwargs)
        return otherwise.call(cx, args, kwargs)

    return Method(name, call)
