"""Exceptions as values: what a script raises, and what a handler looks into."""

from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args
from jitgrad.script.frontend.values.protocol import Kind, register, text
from jitgrad.script.frontend.values.strings import listed


class ExceptionValue:
    """An exception that the script makes: class and arguments. `unknown`: one of several, decided at run time."""

    __slots__ = ("args", "cls", "unknown")

    def __init__(self, cls: type[BaseException], args: tuple[Any, ...], unknown: bool = False):
        self.cls, self.args, self.unknown = cls, args, unknown


def _made(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> ExceptionValue:
    """An exception that the script makes."""
    if kwargs:
        raise UnsupportedCall(f"keyword arguments of the exception `{cls.__name__}`", context.span(),
                              hint="give them by position")
    return ExceptionValue(cls, args)


CONSTRUCTORS[BaseException] = _made


def check_readable(context: Context, error: ExceptionValue) -> None:
    """Refuse to look into an exception whose arguments are decided by a class of the user's."""
    for name in ("__new__", "__init__", "__str__", "__repr__"):
        if hasattr(getattr(error.cls, name), "__code__"):
            raise UnsupportedCall(f"the arguments or text of a `{error.cls.__name__}`, whose class defines `{name}`",
                                  context.span(), hint="keep what the handler needs in a variable before the `raise`")


@register(ExceptionValue)
class ExceptionKind(Kind):
    """An exception of the script: its class, its arguments and its text."""

    def class_of(self, obj: ExceptionValue) -> type:
        return obj.cls

    def get_attribute(self, context: Context, obj: ExceptionValue, name: str) -> Any:
        if name == "args":
            check_readable(context, obj)
            return obj.args
        return obj.cls if name == "__class__" else super().get_attribute(context, obj, name)

    def text(self, context: Context, obj: ExceptionValue, conversion: str, spec: str) -> list[Any]:
        check_readable(context, obj)
        if conversion == "r":
            return listed(context, f"{obj.cls.__name__}(", [("", a) for a in obj.args], ")")
        if not obj.args:
            return []
        quoted = issubclass(obj.cls, KeyError) and len(obj.args) == 1
        return text(context, obj.args[0] if len(obj.args) == 1 else obj.args, "r" if quoted else "s", "")

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return UnsupportedCall(f"`{name}` of an exception", context.span(), hint="use `str(error)` or `error.args`")
