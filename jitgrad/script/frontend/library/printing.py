"""Text that leaves the script: `print`, messages of exceptions."""

from __future__ import annotations

import sys
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import dict_methods, list_methods, open_dicts
from jitgrad.script.frontend.evaluate import calls
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import strings
from jitgrad.script.frontend.values.objects import STANDS_FOR
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.values import SymDict, SymList, SymTuple, Union


class Stream:
    """`sys.stdout` or `sys.stderr`: whichever object that is when the script prints."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


STREAMS = {name: Stream(name) for name in ("stdout", "stderr")}
STANDS_FOR.update({(sys, name): stream for name, stream in STREAMS.items()})
Template = tuple[Any, ...]


def print_(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`print(*args, sep=" ", end="\\n")`."""
    stream = kwargs.get("file")
    if stream is not None and not isinstance(stream, Stream):
        raise UnsupportedCall("`print` to a file", context.span(),
                              hint="scripts print to standard output and standard error")
    sep = static(context, kwargs.get("sep", " "), "`sep`")
    end = static(context, kwargs.get("end", "\n"), "`end`")
    parts: list[Any] = []
    for i, a in enumerate(args):
        if i:
            parts.append(" " if sep is None else sep)
        if isinstance(a, SymList) and run_lists.run_items(context, a) is not None:
            _print_list(context, parts, a, args[i + 1:], sep, end)
            return
        if open_dicts.is_open(context, a):
            _print_list(context, parts, a, args[i + 1:], sep, end)
            return
        if isinstance(a, Union):
            _print_union(context, args, kwargs, i)
            return
        parts.append(a)
    parts.append("\n" if end is None else end)
    template, values = strings.template_of(context, parts)
    if stream is STREAMS["stderr"]:
        effects.emit(context, "print", *values, template=template, stream="stderr")
    else:
        effects.emit(context, "print", *values, template=template)


def _print_list(context: Context, before: list[Any], value: SymList | SymDict, after: tuple[Any, ...], sep: Any,
                end: Any) -> None:
    """A list of run-time length: printed item by item."""
    if isinstance(value, SymTuple):
        raise run_lists.not_static(context)
    if before:
        template, values = strings.template_of(context, before)
        effects.emit(context, "print", *values, template=template)
    if isinstance(value, SymDict):
        calls.call(context, dict_methods.show, open_dicts.parts(context, value), {})
    else:
        calls.call(context, list_methods.show, (value,), {})
    if after:
        print_(context, ("", *after), {"sep": sep, "end": end})
    else:
        print_(context, (), {"end": end})


def _print_union(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> None:
    """A value that may be None or one of several objects: a branch over what it is."""
    unions.switch(context, args[index],
                 lambda v: print_(context, (*args[:index], v, *args[index + 1:]), kwargs))
