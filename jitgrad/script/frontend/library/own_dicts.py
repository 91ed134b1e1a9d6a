"""Dicts of other classes that were given: `OrderedDict`, `class Config(dict)`; the `__dict__` of a made object.

What a class says in Python is inlined; what another one than `dict` says in C is refused, but for what is the same.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents, generators
from jitgrad.script.frontend.containers.mappings import DictKind
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.handlers import Args, handles
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import pools, unions
from jitgrad.script.frontend.values.objects import (MISSING, ObjectKind, bind, class_attribute, get_property, is_method,
                                                    is_property)
from jitgrad.script.frontend.values.protocol import call, get_attribute, iterate, register, text, truth
from jitgrad.script.frontend.values.values import Attributes, Instance, Iterable, Method, OwnDict

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
        missing, found = self.method(obj, "__missing__"), partial(super()._item, context, obj, index)
        if missing is None:
            return found()
        held = truth(context, super()._contains(context, obj, index))
        return dispatch.branch(context, held, found, lambda: call(context, missing, obj, index))

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


# --- the attributes of an object -----------------------------------------------------------------------------------


def _through(context: Context, held: Attributes, verb: Callable[..., Any], *args: Any) -> Any:
    """What a verb of dicts gives for an object's attributes, which it may change."""
    def one(obj: Instance) -> Any:
        before = contents.dict_of(context, Attributes(obj))
        made = contents.new_dict(context, before)
        result = verb(context, made, *args)
        after = contents.dict_of(context, made)
        if after is not before:
            contents.writable(context, obj)
            pools.write(context, obj, after)
        return result

    return unions.switch(context, held.of, one)


@register(Attributes)
class AttributesKind(ObjectKind):
    """The `__dict__` of an object that the script made: a dict that is read and written where the attributes are."""

    dynamic = True
    rank = 1

    def class_of(self, obj: Attributes) -> type:
        return dict

    def get_attribute(self, context: Context, obj: Attributes, name: str) -> Any:
        if name not in _DICT.methods:
            raise self.no_attribute(context, obj, name)
        return Method(name, lambda cx, args, kwargs: _through(
            cx, obj, lambda _, made: call(cx, _DICT.get_attribute(cx, made, name), *args, **kwargs)))

    def get_item(self, context: Context, obj: Attributes, index: Any) -> Any:
        return _through(context, obj, _DICT.get_item, index)

    def set_item(self, context: Context, obj: Attributes, index: Any, value: Any) -> None:
        _through(context, obj, _DICT.set_item, index, value)

    def delete_item(self, context: Context, obj: Attributes, index: Any) -> None:
        _through(context, obj, _DICT.delete_item, index)

    def length(self, context: Context, obj: Attributes) -> Any:
        return _through(context, obj, _DICT.length)

    def truth(self, context: Context, obj: Attributes) -> Any:
        return bool(self.length(context, obj))

    def iterate(self, context: Context, obj: Attributes) -> Iterable:
        found: Iterable = _through(context, obj, _DICT.iterate)
        return found

    def contains(self, context: Context, obj: Attributes, item: Any) -> Any:
        return _through(context, obj, _DICT.contains, item)

    def text(self, context: Context, obj: Attributes, conversion: str, spec: str) -> list[Any]:
        found: list[Any] = _through(context, obj, _DICT.text, conversion, spec)
        return found

    def in_place(self, context: Context, op: str, obj: Attributes, value: Any) -> Any:
        if op != "or":
            return super().in_place(context, op, obj, value)
        call(context, self.get_attribute(context, obj, "update"), value)
        return obj

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return _DICT.binary(context, op, *_dicts(context, a, b))

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return _DICT.compare(context, op, *_dicts(context, a, b))

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        return type(a) is type(b) and contents.identical(context, a.of, b.of)

    def result(self, results: Leaving, obj: Attributes) -> Any:
        raise UnsupportedCall("a script cannot return the `__dict__` of an object that it made",
                              results.context.span(), hint="return a copy: `dict(vars(obj))`")


_DICT = DictKind()


def _dicts(context: Context, *values: Any) -> list[Any]:
    return [contents.new_dict(context, contents.dict_of(context, v)) if isinstance(v, Attributes) else v
            for v in values]


@handles(vars)
def _vars(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if not args:
        raise UnsupportedCall("`vars()` inside a script", context.span(), hint="name the object: `vars(obj)`")
    return get_attribute(context, args[0], "__dict__")
