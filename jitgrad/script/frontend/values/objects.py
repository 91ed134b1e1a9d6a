"""Objects found outside the script: attributes as Python finds them, by the path on which the next call does.

A `Borrowed` stands for an object whose class alone is assumed; `super()` in a method is one, too.
"""

from __future__ import annotations

import difflib
import types
from typing import Any

from jitgrad.errors import UnresolvedAttribute, UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.values import Borrowed, Instance, Method, Super, class_of

MISSING = object()
#: (a module, a name) -> what stands for that in a script
STANDS_FOR: dict[tuple[Any, str], Any] = {}


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base defines under `name`, unbound; `MISSING` if nothing."""
    for klass in cls.__mro__:
        if name in klass.__dict__:
            return klass.__dict__[name]
    return MISSING


def is_method(attribute: Any) -> bool:
    """Whether what a class defines is bound where an instance is asked for it."""
    return isinstance(attribute, (types.FunctionType, classmethod, staticmethod)) or is_scripted(attribute)


def is_scripted(attribute: Any) -> bool:
    """Whether it is a function or method that was scripted: its plain function is its `eager`."""
    return hasattr(attribute, "eager") and hasattr(attribute, "cache_info")


def bind(obj: Any, attribute: Any) -> Any:
    """What a class defines, found through an instance (or, for `super()` in a class method, the class)."""
    if isinstance(attribute, staticmethod):
        return attribute.__func__
    if isinstance(attribute, classmethod):
        return types.MethodType(attribute.__func__, obj if isinstance(obj, type) else class_of(obj))
    if is_scripted(attribute):
        attribute = attribute.eager
    return attribute if isinstance(obj, type) else types.MethodType(attribute, obj)


def similar(name: str, names: list[str]) -> str:
    """A hint at the public name that may have been meant."""
    close = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1)
    return f"did you mean `{close[0]}`?" if close else ""


@register(object)
class ObjectKind(Kind):
    """An object of any class."""

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        slot = ("attr", id(obj), name)
        values = context.state.values
        if slot in values:
            return values[slot]
        attribute = class_attribute(type(obj), name)
        if isinstance(attribute, property):
            return get_property(context, obj, name, attribute)
        if name == "__class__":
            return type(obj)
        if name == "__dict__":
            return context.inputs.attribute(obj, name)
        instance = getattr(obj, "__dict__", {})
        if name not in instance and attribute is not MISSING:
            if is_method(attribute):
                context.inputs.guard_inherited(obj, name)
                return bind(obj, attribute)
            if type(attribute).__name__ in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method"):
                return getattr(obj, name)
        for holder in ("_parameters", "_buffers", "_modules"):
            if name in instance.get(holder, ()):
                return context.inputs.attribute(obj, name)
        if name not in instance and attribute is MISSING and not hasattr(obj, name):
            hint = similar(name, [*dir(obj), *instance.get("_modules", ()), *instance.get("_parameters", ())])
            raise UnresolvedAttribute(f"`{type(obj).__name__}` has no `{name}`", context.span(), hint=hint)
        return context.inputs.attribute(obj, name)

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        if ("attr", id(obj), name) in context.state.values:
            return True
        found = hasattr(obj, name)
        source = context.inputs.source(obj)
        if not found and source is not None:
            context.inputs.guard(sig.Attr(source, name), "absent", None)
        return found

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        attribute = class_attribute(type(obj), name)
        if isinstance(attribute, property):
            set_property(context, obj, name, attribute, value)
            return
        instance = getattr(obj, "__dict__", {})
        if name in instance.get("_parameters", ()) or name in instance.get("_modules", ()):
            raise UnsupportedCall(f"assignment to the parameter or module `{name}`", context.span(),
                                  hint="write the parameter in place with `copy_`, or do it outside the script")
        context.inputs.write_attribute(obj, name, value)


def get_property(context: Context, obj: Any, name: str, attribute: property) -> Any:
    """What a property gives."""
    if attribute.fget is None:
        raise UnresolvedAttribute(f"`{name}` is write-only", context.span())
    return dispatch.call(context, attribute.fget, obj)


def set_property(context: Context, obj: Any, name: str, attribute: property, value: Any) -> None:
    """Assign to a property."""
    if attribute.fset is None:
        raise UnresolvedAttribute(f"`{name}` cannot be assigned", context.span())
    dispatch.call(context, attribute.fset, obj, value)


OBJECT = ObjectKind()


@register(type, types.ModuleType)
class NamespaceKind(ObjectKind):
    """Classes and modules."""

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        try:
            return STANDS_FOR[obj, name]
        except (KeyError, TypeError):
            return context.inputs.attribute(obj, name)


@register(Borrowed)
class BorrowedKind(Kind):
    """As any object, but that methods are bound to what stands for it."""

    def get_attribute(self, context: Context, obj: Borrowed, name: str) -> Any:
        real = obj.real
        attribute = class_attribute(type(real), name)
        if isinstance(attribute, property):
            return get_property(context, obj, name, attribute)
        if name == "__dict__":
            raise UnsupportedCall("the `__dict__` of an object that differs between calls", context.span(),
                                  hint="read its attributes by name")
        slot = ("attr", id(real), name)
        if slot not in context.state.values and name not in vars(real) and is_method(attribute):
            context.inputs.guard_inherited(real, name)
            return bind(obj, attribute)
        return OBJECT.get_attribute(context, real, name)

    def has_attribute(self, context: Context, obj: Borrowed, name: str) -> Any:
        found = OBJECT.has_attribute(context, obj.real, name)
        if found and class_attribute(type(obj.real), name) is MISSING:
            OBJECT.get_attribute(context, obj.real, name)  # guards that it is there
        return found

    def set_attribute(self, context: Context, obj: Borrowed, name: str, value: Any) -> None:
        cls = type(obj.real)
        attribute = class_attribute(cls, name)
        if isinstance(attribute, property) and attribute.fset is not None:
            set_property(context, obj, name, attribute, value)
        elif isinstance(attribute, property) or hasattr(cls.__setattr__, "__code__"):
            raise UnsupportedCall(f"assignment to `{name}` of an object that differs between calls", context.span())
        else:
            context.inputs.write_attribute(obj.real, name, value)


@register(Super)
class SuperKind(Kind):
    """`super()` in a method: what the classes after its own define."""

    def get_attribute(self, context: Context, obj: Super, name: str) -> Any:
        instance = obj.instance
        mro = (instance if isinstance(instance, type) else class_of(instance)).__mro__
        for klass in mro[mro.index(obj.owner) + 1:]:
            if name in vars(klass):
                attribute = vars(klass)[name]
                if isinstance(attribute, property):
                    return get_property(context, instance, name, attribute)
                if is_method(attribute):
                    return bind(instance, attribute)
                if isinstance(instance, Instance):
                    return Method(name, lambda cx, args, kwargs: None)  # `object.__init__` and kin
                return getattr(super(obj.owner, instance), name)
        raise UnresolvedAttribute(f"no base class has `{name}`", context.span())
