"""Dicts of other classes that were given: `OrderedDict`, `class Config(dict)`. What a class says in Python is inlined.

What another one than `dict` says in C is refused, but for what is the same.
"""

from collections import OrderedDict
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import generators
from jitgrad.script.frontend.containers.mappings import DictKind
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.values.objects import (MISSING, ObjectKind, bind, class_attribute, get_property, is_method,
                                                    is_property)
from jitgrad.script.frontend.values.protocol import call, iterate, register, text, truth
from jitgrad.script.frontend.values.values import Iterable, OwnDict

#: what `OrderedDict` says in C and means as `dict` does
_ALIKE = frozenset({"keys", "values", "items", "get", "update", "setdefault", "pop", "clear", "__iter__", "__len__",
                    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__or__", "__ror__", "__ior__"})

_OPERATORS = ObjectKind()


@register(OwnDict)
class OwnDictKind(DictKind):
    """A dict of a class of its own."""

    def class_of(self, obj: Any) -> type:
        cls: type = obj.cls
        return cls

    def method(self, obj: Any, name: str) -> Any:
        """What its class says in Python; a refusal of what that says in C."""
        found, same = getattr(obj.cls, name, None), getattr(dict, name, None)
        if is_method(found):
            return found
        if found is not same and not (name in _ALIKE and issubclass(obj.cls, OrderedDict)):
            raise UnsupportedCall(f"`{name}` of {self.type_word(obj)} that was given", current().span(),
                                  hint="make a dict of it, `dict(d)`")
        return None

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        attribute = class_attribute(obj.cls, name)
        if is_property(attribute):
            return get_property(context, obj, name, attribute)
        if attribute is not MISSING and self.method(obj, name) is None:
            return super().get_attribute(context, obj, name)
        if is_method(attribute):
            context.inputs.define(obj.cls, name)
            return bind(obj, attribute)
        own = vars(context.inputs.original(obj)) if hasattr(obj.cls, "__dict__") else {}
        if name in own:
            raise UnsupportedCall(f"`{name}`, an attribute beside the items of {self.type_word(obj)}", context.span(),
                                  hint="make it an item")
        if is_method(class_attribute(obj.cls, "__getattr__")):
            return call(context, self.get_attribute(context, obj, "__getattr__"), name)
        raise self.no_attribute(context, obj, name)

    def _item(self, context: Context, obj: Any, index: Any) -> Any:
        missing = self.method(obj, "__missing__")
        if missing is None or truth(context, super()._contains(context, obj, index)) is True:
            return super()._item(context, obj, index)
        return call(context, missing, obj, index)

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        names = ("__repr__",) if conversion == "r" else ("__format__", "__str__", "__repr__")
        own = next((m for m in (self.method(obj, name) for name in names) if m is not None), None)
        if own is None:
            return super().text(context, obj, conversion, spec)
        if own.__name__ == "__format__":
            raise UnsupportedCall(f"a `__format__` of {self.type_word(obj)}", context.span(), hint="define `__str__`")
        return text(context, call(context, own, obj), "", spec)

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        own = self.method(obj, "__getitem__")
        return super().get_item(context, obj, index) if own is None else call(context, own, obj, index)

    def set_item(self, context: Context, obj: Any, index: Any, value: Any) -> None:
        own = self.method(obj, "__setitem__")
        if own is None:
            super().set_item(context, obj, index, value)
        else:
            call(context, own, obj, index, value)

    def delete_item(self, context: Context, obj: Any, index: Any) -> None:
        own = self.method(obj, "__delitem__")
        if own is None:
            super().delete_item(context, obj, index)
        else:
            call(context, own, obj, index)

    def length(self, context: Context, obj: Any) -> Any:
        own = self.method(obj, "__len__")
        return super().length(context, obj) if own is None else call(context, own, obj)

    def iterate(self, context: Context, obj: Any) -> Iterable:
        if self.method(obj, "__iter__") is None:
            return super().iterate(context, obj)
        return iterate(context, generators.opened(context, obj))

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        own = self.method(obj, "__contains__")
        return super().contains(context, obj, item) if own is None else truth(context, call(context, own, obj, item))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = _OPERATORS.binary(context, op, a, b)
        return super().binary(context, op, a, b) if found is NotImplemented else found

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        if self.method(obj, f"__i{op}__") is None:
            return super().in_place(context, op, obj, value)
        return _OPERATORS.in_place(context, op, obj, value)

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = _OPERATORS.compare(context, op, a, b)
        return super().compare(context, op, a, b) if found is NotImplemented else found
