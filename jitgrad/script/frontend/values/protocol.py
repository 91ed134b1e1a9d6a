"""What a script does with a value of any kind: get an attribute or an item, iterate, compare, call ...

Each of these verbs is a function here and a method of `Kind`. A kind says what the verbs mean for its values; a new
one is one file and one `register`. Static Python objects have kinds as run-time values have: the kind of a value is
that of the first class in the MRO of its type that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.values import Method, type_word

Methods = Mapping[str, Callable[..., Any]]


class Kind:
    """What the verbs mean for values of one kind; what a kind leaves out is refused, or raises what Python raises."""

    #: name -> `method(context, obj, *args, **kwargs)`
    methods: ClassVar[Methods] = {}

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        """`obj.name`."""
        method = self.methods.get(name)
        if method is None:
            raise self.no_attribute(context, obj, name)
        return Method(name, lambda cx, args, kwargs: method(cx, obj, *args, **kwargs))

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        """The refusal of an attribute that is not there, or not known."""
        return UnsupportedCall(f"`{name}` of {type_word(obj)}", context.span())

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        """`hasattr(obj, name)`."""
        return name in self.methods or hasattr(obj, name)

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        """`obj.name = value`."""
        raise UnsupportedCall(f"assignment to `{name}` of {type_word(obj)}", context.span())

    def delete_attribute(self, context: Context, obj: Any, name: str) -> None:
        """`del obj.name`."""
        raise UnsupportedCall(f"`del` of an attribute of {type_word(obj)}", context.span(), hint="assign None to it")


_KINDS: dict[type, Kind] = {}


def register(*classes: type) -> Callable[[type[Kind]], type[Kind]]:
    """Make the kind that follows that of objects of `classes`."""
    def add(kind: type[Kind]) -> type[Kind]:
        made = kind()
        _KINDS.update((cls, made) for cls in classes)
        return kind
    return add


def kind_of(obj: Any) -> Kind:
    """The kind of a value."""
    for cls in type(obj).__mro__:
        kind = _KINDS.get(cls)
        if kind is not None:
            return kind
    raise AssertionError(f"no kind of {type(obj)}")


def get_attribute(context: Context, obj: Any, name: str) -> Any:
    """`obj.name`."""
    return kind_of(obj).get_attribute(context, obj, name)


def has_attribute(context: Context, obj: Any, name: str) -> Any:
    """`hasattr(obj, name)`: a bool or a run-time one."""
    return kind_of(obj).has_attribute(context, obj, name)


def set_attribute(context: Context, obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    kind_of(obj).set_attribute(context, obj, name, value)


def delete_attribute(context: Context, obj: Any, name: str) -> None:
    """`del obj.name`."""
    kind_of(obj).delete_attribute(context, obj, name)
