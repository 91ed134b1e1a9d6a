"""Text that leaves the script: `print`, messages of exceptions."""

import sys
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers, strings
from jitgrad.script.frontend.values.objects import STANDS_FOR
from jitgrad.script.frontend.values.protocol import class_of, kind_of, type_name


class Stream:
    """`sys.stdout` or `sys.stderr`: whichever object that is when the script prints."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


STREAMS = {name: Stream(name) for name in ("stdout", "stderr")}
STANDS_FOR.update({(sys, name): stream for name, stream in STREAMS.items()})


def print_(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`print(*args, sep=" ", end="\\n", file=None)`."""
    stream = kwargs.get("file")
    if stream is not None and not isinstance(stream, Stream):
        raise UnsupportedCall("`print` to a file", context.span(),
                              hint="scripts print to standard output and standard error")
    sep, end = kwargs.get("sep", " "), kwargs.get("end", "\n")

    def run(values: tuple[Any, ...]) -> None:
        parts: list[Any] = []
        for i, value in enumerate(values):
            parts += [" " if sep is None else sep] * (i > 0)
            in_parts = kind_of(value).printer(context, value)
            if in_parts is None:
                parts.append(value)
                continue
            _emit(context, parts, stream)
            in_parts(stream)
            parts = []
        _emit(context, [*parts, "\n" if end is None else end], stream)

    unions.each(context, args, run)


def _in_base(spec: str) -> Handler:
    """The text of an int in another base."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        (number,) = args
        if class_of(number) not in (int, bool):
            raise effects.raise_now(context, TypeError, (
                f"'{type_name(number)}' object cannot be interpreted as an integer",))
        return strings.joined(context, [(numbers.binary(context, "add", number, 0), "", spec)])
    return handler


HANDLERS.update({bin: _in_base("#b"), oct: _in_base("#o"), hex: _in_base("#x")})


def _emit(context: Context, parts: list[Any], stream: Stream | None) -> None:
    if parts:
        template, values = strings.template_of(context, parts)
        named = {"stream": "stderr"} if stream is STREAMS["stderr"] else {}
        effects.emit(context, "print", *values, template=template, **named)
