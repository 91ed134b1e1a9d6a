"""Objects that the script makes: instances of classes written in Python, dataclasses, named tuples, enum members.

An `Instance` is a class and, in the state, a dict of attributes: branches and loops merge it like a dict with static
keys. Its methods, and those of objects found outside, are inlined; so are their operators, and what `super()` in a
method says.
"""

import dataclasses
import enum
import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args, handler_of
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import pools, run_lists
from jitgrad.script.frontend.templates.unions import bound, is_static, may_be, undecided, without
from jitgrad.script.frontend.values.objects import (MISSING, NamespaceKind, ObjectKind, bind, class_attribute,
                                                    delete_property, generated, get_property, has_rule, is_method,
                                                    is_property, set_property, settable, unfrozen)
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import Kind, call, class_of, is_dynamic, register, set_attribute
from jitgrad.script.frontend.values.strings import listed
from jitgrad.script.frontend.values.values import (UNBOUND, Attributes, Borrowed, Instance, Iterable, Method, Super,
                                                   SymDict)


@register(type)
class ClassKind(NamespaceKind):
    """A class, which makes an object when it is called."""

    def call(self, context: Context, obj: type, args: Args, kwargs: dict[str, Any]) -> Any:
        for cls in obj.__mro__:
            make = CONSTRUCTORS.get(cls)
            if make is not None:
                return make(context, obj, args, kwargs)
        return construct(context, obj, args, kwargs)


def stood_for(cls: type) -> type:
    """The class that Python sees: of one written in Python for scripts, the one that it stands for."""
    found: type = getattr(cls, "stands_for", cls)
    return found


#: our own modules whose classes are as a program's: objects of them are made in scripts
OPEN = ("jitgrad.distributions.", "jitgrad.nn.", list_kinds.OPEN)


def construct(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    """`cls(*args, **kwargs)` of a class without a constructor here."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return guarded(context, lambda: cls(*args, **kwargs))
    if isinstance(cls, enum.EnumMeta):
        return guarded(context, lambda: cls(static(context, args[0], "the value of an enum member")))
    if _written_in_python(cls):
        return instance(context, cls, args, kwargs)
    if any(is_dynamic(a) or isinstance(a, Iterable) for a in (*args, *kwargs.values())) or (
            not cls.__module__.startswith(("jitgrad", "builtins"))):
        raise UnsupportedCall(f"making a `{cls.__name__}` inside a script", context.span(),
                              hint="make the object outside and pass it, or keep it in a closure")
    return guarded(context, lambda: cls(*args, **kwargs))


def _written_in_python(cls: type) -> bool:
    """Whether instances of a class are what its Python source says: no base in C, no metaclass, no `__new__`, and no
    `__getattribute__`."""
    new: Any = cls.__new__
    module = cls.__module__
    if module == "builtins" or new is not object.__new__ or (
            module.startswith("jitgrad.") and not module.startswith(OPEN)):
        return False
    init = cls.__init__  # type: ignore[misc]
    known = init is object.__init__ or isinstance(init, types.FunctionType)
    return known and not has_rule(cls, "__getattribute__")


def instance(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Instance:
    """An object of a class written in Python."""
    made = Instance(cls)
    context.state.values[made] = {}
    if generated(cls, "__init__"):
        _dataclass(context, made, args, kwargs)
    elif isinstance(cls.__init__, types.FunctionType):  # type: ignore[misc]
        call(context, cls.__init__, made, *args, **kwargs)  # type: ignore[misc]
    elif args or kwargs:
        raise effects.raise_now(context, TypeError, (f"{cls.__name__}() takes no arguments",))
    return made


def _dataclass(context: Context, made: Instance, args: Args, kwargs: dict[str, Any]) -> None:
    """What the generated `__init__` of a dataclass does."""
    cls: Any = made.cls
    signature = inspect.signature(cls)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:  # as its `__init__` says it
        guarded(context, lambda: cls.__init__(*[None] * (1 + len(args)), **dict.fromkeys(kwargs)))
        raise
    items: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.init and field.name in bound:
            items[field.name] = bound[field.name]
        elif field.default is not dataclasses.MISSING:
            items[field.name] = context.inputs.constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            items[field.name] = call(context, field.default_factory)
    if has_rule(cls, "__setattr__"):
        for name, value in items.items():
            set_attribute(context, made, name, value)
    else:
        context.state.values[made] = items
    post = getattr(cls, "__post_init__", None)
    if post is not None:
        call(context, post, made)


# --- attributes ----------------------------------------------------------------------------------------------------


def items_of(context: Context, obj: Instance) -> dict[str, Any]:
    """The attributes of a made object now."""
    items: dict[str, Any] = run_lists.content(context, obj)
    return items


@register(Instance)
class InstanceKind(ObjectKind):
    """An object that the script made."""

    dynamic = True
    rank = 1

    def class_of(self, obj: Instance) -> type:
        return obj.cls

    def type_name(self, obj: Instance) -> str:
        return stood_for(obj.cls).__name__

    def get_attribute(self, context: Context, obj: Instance, name: str) -> Any:
        attribute = class_attribute(obj.cls, name)
        if is_property(attribute):
            return get_property(context, obj, name, attribute)
        own = items_of(context, obj).get(name, UNBOUND)
        text = f"'{obj.cls.__name__}' object has no attribute '{name}'"
        if own is UNBOUND:
            return self._inherited(context, obj, name, attribute, text)
        if not may_be(own, UNBOUND):
            return own
        asked = is_method(class_attribute(obj.cls, "__getattr__"))
        if not asked and (attribute is MISSING or isinstance(attribute, types.MemberDescriptorType)):
            return bound(context, own, AttributeError, text)
        return dispatch.branch(context, is_static(context, own, UNBOUND),
                               lambda: self._inherited(context, obj, name, attribute, text),
                               lambda: without(context, own, UNBOUND, known=True))

    def _inherited(self, context: Context, obj: Instance, name: str, attribute: Any, text: str) -> Any:
        """An attribute that the object has none of its own of."""
        if name == "__class__":
            return stood_for(obj.cls)
        if name == "__dict__":
            return Attributes(obj)
        if attribute is MISSING and is_method(class_attribute(obj.cls, "__getattr__")):
            return call(context, self.get_attribute(context, obj, "__getattr__"), name)
        if attribute is MISSING and name in items_of(context, obj):
            raise effects.raise_now(context, AttributeError, (text,))
        if attribute is MISSING:
            self._left_out(context, obj, name)
            raise effects.no_attribute(context, obj.cls.__name__, name)
        if is_method(attribute):
            context.inputs.define(obj.cls, name)
            return bind(obj, attribute)
        if isinstance(attribute, types.MemberDescriptorType):
            raise effects.raise_now(context, AttributeError, (text,))
        return context.inputs.attribute(obj.cls, name)

    def has_attribute(self, context: Context, obj: Instance, name: str) -> Any:
        items = items_of(context, obj)
        if undecided(items.get(name)) and may_be(items[name], UNBOUND):
            raise UnsupportedCall(f"whether the object has `{name}` is known only at run time", context.span())
        if name in items and items[name] is not UNBOUND:
            return True
        attribute = class_attribute(obj.cls, name)
        if attribute is not MISSING and not isinstance(attribute, types.MemberDescriptorType):
            return True
        return is_method(class_attribute(obj.cls, "__getattr__")) and call(context, _answers, obj, name)

    def set_attribute(self, context: Context, obj: Instance, name: str, value: Any) -> None:
        if has_rule(obj.cls, "__setattr__"):
            call(context, self.get_attribute(context, obj, "__setattr__"), name, value)
        else:
            unfrozen(context, obj.cls, f"cannot assign to field '{name}'")
            self.set_plainly(context, obj, name, value)

    def set_plainly(self, context: Context, obj: Instance, name: str, value: Any) -> None:
        """What `object.__setattr__` does."""
        attribute = class_attribute(obj.cls, name)
        if is_property(attribute):
            set_property(context, obj, name, attribute, value)
            return
        contents.writable(context, obj)
        settable(context, obj.cls, name)
        pools.write(context, obj, {**items_of(context, obj), name: value})

    def delete_attribute(self, context: Context, obj: Instance, name: str) -> None:
        if has_rule(obj.cls, "__delattr__"):
            call(context, self.get_attribute(context, obj, "__delattr__"), name)
        else:
            unfrozen(context, obj.cls, f"cannot delete field '{name}'")
            self.delete_plainly(context, obj, name)

    def delete_plainly(self, context: Context, obj: Instance, name: str) -> None:
        """What `object.__delattr__` does."""
        attribute = class_attribute(obj.cls, name)
        if is_property(attribute):
            delete_property(context, obj, name, attribute)
            return
        contents.writable(context, obj)
        items = items_of(context, obj)
        text = f"'{obj.cls.__name__}' object has no attribute '{name}'"
        if name not in items:
            raise effects.no_attribute(context, obj.cls.__name__, name, says=text)
        bound(context, items[name], AttributeError, text)
        pools.write(context, obj, {k: v for k, v in items.items() if k != name})

    def result(self, results: Leaving, obj: Instance) -> sig.Result:
        if getattr(obj.cls, "parts", ()) is None:  # what it stands for is not made of parts
            raise results.refusal(obj)
        found = {k: v for k, v in items_of(results.context, obj).items() if v is not UNBOUND}
        return sig.object_of(obj.cls, {k: results.tree(v) for k, v in found.items()}, results.identity(obj))

    def maker(self, obj: Instance) -> Callable[[], Any]:
        return getattr(obj.cls, "stands_for", None) or partial(obj.cls.__new__, obj.cls)

    def method(self, obj: Instance, name: str) -> Any:
        found = getattr(obj.cls, name, None)
        return found if hasattr(found, "__code__") else None

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = super().binary(context, op, a, b)
        for one in (a, b):
            if found is NotImplemented and isinstance(one, Instance) and not hasattr(one.cls, f"__{op}__"):
                self._left_out(context, one, f"__{op}__")
        return found

    def _left_out(self, context: Context, obj: Instance, name: str) -> None:
        """Refuse what the class has for which the object's stands."""
        cls: Any = getattr(obj.cls, "stands_for", None)
        if hasattr(cls, name):
            raise UnsupportedCall(f"`{name}` of a `{cls.__name__}` that the script made", context.span(),
                                  hint=getattr(obj.cls, "instead", "use its items: `dict(d)`"))

    def is_instance(self, context: Context, obj: Instance, classes: tuple[type, ...]) -> Any:
        return issubclass(stood_for(obj.cls), classes)

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        return contents.identical(context, a, b)

    def text(self, context: Context, obj: Instance, conversion: str, spec: str) -> list[Any]:
        names = ("__repr__",) if conversion == "r" else ("__format__",) * (not conversion) + ("__str__", "__repr__")
        if any(self.method(obj, name) is not None and not generated(obj.cls, name) for name in names):
            return super().text(context, obj, conversion, spec)
        if not dataclasses.is_dataclass(obj.cls):
            raise UnsupportedCall(f"the text of {self.type_word(obj)}", context.span(), hint="define `__repr__`")
        self.no_format(context, obj, spec)
        items = items_of(context, obj)
        shown = [f.name for f in dataclasses.fields(obj.cls) if f.repr]
        return listed(context, obj, f"{obj.cls.__qualname__}(", [(f"{n}=", items[n]) for n in shown], ")")

    def says(self, cls: type, method: Any) -> bool:
        return True


def _answers(obj: Any, name: str) -> bool:
    """Whether `__getattr__` gives an attribute: Python that scripts inline."""
    try:
        obj.__getattr__(name)
    except AttributeError:
        return False
    return True


# --- what `object` does, beside the rules of a class ---------------------------------------------------------------


def _plain(name: str, does: Callable[..., Any]) -> None:
    """Let a method of `object` be `does`, for objects that a script makes."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], Instance):
            raise UnsupportedCall(f"`object.{name}` of what the script did not make", context.span(),
                                  hint="use the attribute itself")
        return does(context, *args, **kwargs)

    HANDLERS[getattr(object, name)] = handler


def _got(context: Context, obj: Instance, name: str) -> Any:
    if is_method(class_attribute(obj.cls, "__getattr__")):
        raise UnsupportedCall("`object.__getattribute__` of an object whose class has a `__getattr__`", context.span(),
                              hint="use the attribute itself")
    return _KIND.get_attribute(context, obj, name)


_KIND = InstanceKind()
_plain("__setattr__", _KIND.set_plainly)
_plain("__delattr__", _KIND.delete_plainly)
_plain("__getattribute__", _got)


# --- `super()` ------------------------------------------------------------------------------------------------------


@register(Super)
class SuperKind(Kind):
    """`super()` in a method: what the classes after its own define."""

    def get_attribute(self, context: Context, obj: Super, name: str) -> Any:
        instance = obj.instance
        mro = (instance if isinstance(instance, type) else class_of(instance)).__mro__
        for klass in mro[mro.index(obj.owner) + 1:]:
            if name in vars(klass):
                attribute = vars(klass)[name]
                if is_property(attribute):
                    return get_property(context, instance, name, attribute)
                if is_method(attribute):
                    return bind(instance, attribute)
                if name == "__init__" and issubclass(klass, BaseException):
                    return Method(name, lambda cx, args, kwargs: set_attribute(cx, instance, "args", args))
                if isinstance(instance, Instance):
                    return _of_object(context, instance, name, attribute)
                if isinstance(instance, SymDict):
                    raise UnsupportedCall(f"`super().{name}` of a dict that was given", context.span())
                found = getattr(super(obj.owner, instance), name)
                known = context.inputs.class_of(instance.real if isinstance(instance, Borrowed) else instance)
                source = context.inputs.source(known)
                if source is None or found is not attribute:
                    return found
                base = sig.Item(sig.Attr(source, "__mro__"), mro.index(klass))
                return context.inputs.read(found, sig.Attr(base, name))
        raise effects.no_attribute(context, "super", name, what=f"no base class has `{name}`")


def _of_object(context: Context, instance: Instance, name: str, attribute: Any) -> Method:
    """What `object` defines, bound to an object that the script makes."""
    does = handler_of(attribute)
    if does is not None:
        return Method(name, lambda cx, args, kwargs: does(cx, (instance, *args), kwargs))
    if name not in ("__init__", "__init_subclass__"):
        raise UnsupportedCall(f"`super().{name}`, which Python says in C", context.span(), hint="write what it does")
    return Method(name, lambda cx, args, kwargs: None)
