"""Text with run-time parts: f-strings, `print`, messages of exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend import calls, heap, merge
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.values import Number, SymDict, SymList, SymTensor, Union, is_dynamic, type_word
from jitgrad.script.ir import Value

Template = tuple[Any, ...]
_CONVERT: dict[str, Callable[[Any], Any]] = {"": lambda v: v, "s": str, "r": repr, "a": ascii}


def template_of(  # noqa: C901  (one case per kind of value)
        context: Context, parts: Sequence[Any]) -> tuple[Template, list[Value]]:
    """Parts (strings, values, Texts) as the template of a `check` or `print` and the values that it names."""
    template: list[Any] = []
    values: list[Value] = []

    def add(value: Any, conversion: str, spec: str) -> None:
        if isinstance(value, calls.Text):
            for p in value.parts:
                if isinstance(p, str):
                    template.append(p)
                else:
                    add(*p)
        elif isinstance(value, (Number, SymTensor)):
            template.append((len(values), conversion, spec))
            values.append(value.value if isinstance(value, Number) else heap.read(context, value))
        elif isinstance(value, (tuple, SymList)) and is_dynamic(value) and not spec:
            _container(value)
        elif is_dynamic(value):
            raise UnsupportedCall(f"text of {type_word(value)}", context.span(), hint="print its parts")
        else:
            template.append(calls.guarded(context, lambda: format(_CONVERT[conversion](value), spec)))

    def _container(value: Any) -> None:
        items = calls.items_of(context, value)
        opening, closing = ("[", "]") if isinstance(value, SymList) else ("(", ",)" if len(items) == 1 else ")")
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            raise UnsupportedCall("text of a namedtuple", context.span(), hint="print its fields")
        if isinstance(value, tuple) and type(value) is not tuple:
            opening, closing = f"{type(value).__name__}(", ")"
        template.append(opening)
        for i, item in enumerate(items):
            if i:
                template.append(", ")
            add(item, "r", "")
        template.append(closing)

    for part in parts:
        if isinstance(part, Union):
            part = merge.force(context, part, "cannot print None instead of '{}'")
        if isinstance(part, SymDict):
            raise UnsupportedCall("text of a dict", context.span(), hint="print its items")
        add(part, "", "")
    joined: list[Any] = []
    for p in template:
        if isinstance(p, str) and joined and isinstance(joined[-1], str):
            joined[-1] += p
        elif p != "":
            joined.append(p)
    return tuple(joined), values


def print_(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`print(*args, sep=" ", end="\\n")`."""
    unknown = set(kwargs) - {"sep", "end", "flush"}
    if unknown:
        raise UnsupportedCall(f"`print` with `{sorted(unknown)[0]}`", context.span(),
                              hint="scripts print to standard output")
    sep = calls.static(context, kwargs.get("sep", " "), "`sep`")
    end = calls.static(context, kwargs.get("end", "\n"), "`end`")
    parts: list[Any] = []
    for i, a in enumerate(args):
        if i:
            parts.append(" " if sep is None else sep)
        if isinstance(a, Union):
            _print_union(context, args, kwargs, i)
            return
        parts.append(a)
    parts.append("\n" if end is None else end)
    template, values = template_of(context, parts)
    context.effect("print", *values, template=template)


def _print_union(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> None:
    """A value that may be None or one of several objects: a branch over what it is."""
    merge.switch(context, args[index],
                 lambda v: print_(context, (*args[:index], v, *args[index + 1:]), kwargs))
