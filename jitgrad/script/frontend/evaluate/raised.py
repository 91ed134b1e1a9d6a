"""Exceptions as values: what a script raises, and what a handler looks into.

An exception is its class and what it was made of. A class of the user's that has an `__init__` says what else is in it:
that is evaluated for the handler that looks, so it may change nothing but the exception.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args
from jitgrad.script.frontend.values.protocol import Kind, call, get_attribute, is_dynamic, register, set_attribute, text
from jitgrad.script.frontend.values.strings import listed
from jitgrad.script.frontend.values.values import ExceptionValue, Instance
from jitgrad.script.graph.nodes import within


def _made(context: Context, cls: Any, args: Args, kwargs: dict[str, Any]) -> ExceptionValue:
    """An exception that the script makes."""
    if kwargs:
        raise UnsupportedCall(f"keyword arguments of the exception `{cls.__name__}`", context.span(),
                              hint="give them by position")
    error = ExceptionValue(cls, args)
    if _written(cls, "__init__"):
        _object(context, error)
    return error


CONSTRUCTORS[BaseException] = _made


def _written(cls: type, name: str) -> bool:
    """Whether a class has a method that is written in Python."""
    return hasattr(getattr(cls, name), "__code__")


def _object(context: Context, error: ExceptionValue) -> Instance:
    """The exception with all that its class gives it."""
    if error.unknown or _written(error.cls, "__new__"):
        raise UnsupportedCall(f"the arguments or text of a `{error.cls.__name__}`" + (
            f", {error.unknown}" if error.unknown else ", whose class defines `__new__`"), context.span(),
            hint="keep what the handler needs in a variable before the `raise`")
    made = error.made
    if made is None or made not in context.state.values:
        made = error.made = Instance(error.cls)
        context.state.values[made] = {"args": error.args}
        if _written(error.cls, "__init__"):
            init: Any = error.cls.__init__
            _purely(context, made, lambda: call(context, init, made, *error.args))
    return made


def _purely(context: Context, made: Instance, run: Callable[[], Any]) -> None:
    """Evaluate what may change nothing but `made`: it is done when somebody looks, if at all."""
    before, start = dict(context.state.values), len(context.builder.block.nodes)
    run()
    after = context.state.values
    if any(v is not after.get(k) for k, v in before.items() if k is not made) or any(
            n.op in ("print", "commit", "callback") for n in within(context.builder.block.nodes[start:])):
        raise UnsupportedCall(f"an `__init__` of the exception `{made.cls.__name__}` that does more than set its "
                              "attributes", context.span(), hint="do that where the exception is raised")


@register(ExceptionValue)
class ExceptionKind(Kind):
    """An exception of the script: its class, its arguments, its text and its attributes."""

    def class_of(self, obj: ExceptionValue) -> type:
        return obj.cls

    def is_dynamic(self, obj: ExceptionValue) -> bool:
        return is_dynamic(obj.args)

    def get_attribute(self, context: Context, obj: ExceptionValue, name: str) -> Any:
        if name == "__class__":
            return obj.cls
        if name == "value" and issubclass(obj.cls, StopIteration) and not _written(obj.cls, "__init__"):
            return obj.args[0] if obj.args else None
        if name != "args" and hasattr(BaseException, name):
            raise self.no_attribute(context, obj, name)
        return get_attribute(context, _object(context, obj), name)

    def set_attribute(self, context: Context, obj: ExceptionValue, name: str, value: Any) -> None:
        obj.changed = True
        set_attribute(context, _object(context, obj), name, value)

    def text(self, context: Context, obj: ExceptionValue, conversion: str, spec: str) -> list[Any]:
        made = _object(context, obj)
        own = "__repr__" if conversion == "r" else "__str__"
        if _written(obj.cls, own):
            return text(context, call(context, getattr(obj.cls, own), made), "", spec)
        args = get_attribute(context, made, "args")
        if conversion == "r":
            return listed(context, obj, f"{obj.cls.__name__}(", [("", a) for a in args], ")")
        if not args:
            return []
        quoted = issubclass(obj.cls, KeyError) and len(args) == 1
        return text(context, args[0] if len(args) == 1 else args, "r" if quoted else "s", "")

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return UnsupportedCall(f"`{name}` of an exception", context.span(), hint="use `str(error)` or `error.args`")
