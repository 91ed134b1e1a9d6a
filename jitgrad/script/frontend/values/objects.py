"""Objects found outside the script: attributes as Python finds them, by the path on which the next call does.

A `Borrowed` stands for an object whose class alone is assumed.
"""

import dataclasses
import difflib
import enum
import types
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.numbers import NUMBERS, operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import REGISTRIES, is_inherited
from jitgrad.script.frontend.containers import generators
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import Args
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates.unions import bound, is_static, may_be, undecided, without
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.plain import python_binary, static
from jitgrad.script.frontend.values.protocol import Kind, call, class_of, is_dynamic, kind_of, register, truth
from jitgrad.script.frontend.values.values import UNBOUND, Borrowed, Iterable, Number, sequence

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


def _complaint(obj: Any, name: str) -> str:
    """What Python says where an object has no such attribute."""
    try:
        getattr(obj, name)
    except AttributeError as error:
        return str(error)
    raise AssertionError(name)


@register(object)
class ObjectKind(Kind):
    """An object of any class."""

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        slot = ("attr", id(obj), name)
        values = context.state.values
        own = values.get(slot, UNBOUND)
        if own is UNBOUND:
            return self._at_entry(context, obj, name)
        if not may_be(own, UNBOUND):
            return own
        if not is_inherited(obj, name):
            return bound(context, own, AttributeError, f"'{type(obj).__name__}' object has no attribute '{name}'")
        return dispatch.branch(context, is_static(context, own, UNBOUND), lambda: self._at_entry(context, obj, name),
                               lambda: without(context, own, UNBOUND, known=True))

    def _at_entry(self, context: Context, obj: Any, name: str) -> Any:
        """An attribute that the script has not assigned."""
        attribute = class_attribute(type(obj), name)
        if is_property(attribute):
            return get_property(context, obj, name, attribute)
        if name == "__class__":
            return context.inputs.class_of(obj)
        if name == "__dict__":
            return context.inputs.attribute(obj, name)
        instance = getattr(obj, "__dict__", {})
        if name not in instance and attribute is not MISSING:
            if is_method(attribute):
                context.inputs.guard_inherited(obj, name)
                if isinstance(attribute, classmethod):
                    context.inputs.class_of(obj)
                return bind(obj, attribute)
            if type(attribute).__name__ in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method"):
                return getattr(obj, name)
        for holder in REGISTRIES:
            if name in instance.get(holder, ()):
                return context.inputs.attribute(obj, name)
        if name not in instance and attribute is MISSING and not hasattr(obj, name):
            hint = similar(name, [*dir(obj), *instance.get("_modules", ()), *instance.get("_parameters", ())])
            raise effects.no_attribute(context, type(obj).__name__, name, says=_complaint(obj, name), hint=hint)
        return context.inputs.attribute(obj, name)

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        slot = ("attr", id(obj), name)
        if slot in context.state.values:
            written = context.state.values[slot]
            if undecided(written) and may_be(written, UNBOUND):
                raise UnsupportedCall(f"whether the object has `{name}` is known only at run time", context.span())
            return written is not UNBOUND
        found = hasattr(obj, name)
        source = context.inputs.source(obj)
        if source is not None and not found:
            context.inputs.guard(sig.Attr(source, name), "absent", None)
        elif source is not None and class_attribute(type(obj), name) is MISSING:
            context.inputs.guard(sig.Attr(source, name), "type", type(getattr(obj, name)))
        return found

    def set_attribute(self, context: Context, obj: Any, name: str, value: Any) -> None:
        attribute = class_attribute(type(obj), name)
        if is_property(attribute):
            set_property(context, obj, name, attribute, value)
            return
        plain_rules(context, type(obj), name)
        instance = getattr(obj, "__dict__", {})
        if name in instance.get("_parameters", ()) or name in instance.get("_modules", ()):
            raise UnsupportedCall(f"assignment to the parameter or module `{name}`", context.span(),
                                  hint="write the parameter in place with `copy_`, or do it outside the script")
        context.inputs.write_attribute(obj, name, value)

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        if type(obj).__module__ == "typing":
            return guarded(context, lambda: obj[index])  # an annotation
        holds_modules = "_modules" in getattr(obj, "__dict__", ())
        if holds_modules and isinstance(index, slice):
            for k in range(self.length(context, obj)):
                self.get_item(context, obj, k)  # so that the path to each module is known
            return guarded(context, lambda: obj[index])
        if self.method(obj, "__getitem__") is not None and holds_modules and isinstance(index, Number):
            return pick(context, obj, index)
        if self.method(obj, "__getitem__") is not None or not (
                isinstance(obj, type) or hasattr(self.class_of(obj), "__getitem__")):
            return super().get_item(context, obj, index)
        if is_dynamic(index):
            raise UnsupportedCall(f"a run-time index into {self.type_word(obj)}", context.span())
        return guarded(context, lambda: obj[index])

    def length(self, context: Context, obj: Any) -> Any:
        return super().length(context, obj) if self.method(obj, "__len__") else guarded(context, lambda: len(obj))

    def iterate(self, context: Context, obj: Any) -> Iterable:
        """What `__iter__` gives, as of a ModuleList; anything with `__len__` and `__getitem__`; plain iterators."""
        if type(obj).__name__ in ("dict_values", "dict_keys", "dict_items"):
            return sequence(list(obj))
        cls = self.class_of(obj)
        opened = generators.opened(context, obj)
        if opened is not obj:
            return protocol.iterate(context, opened)
        if "_modules" in getattr(obj, "__dict__", ()) and context.inputs.source(obj) is None:
            return sequence(guarded(context, lambda: list(obj)))  # a slice, whose modules are known
        if hasattr(getattr(cls, "__iter__", None), "__code__"):
            return protocol.iterate(context, call(context, cls.__iter__, obj))  # type: ignore[attr-defined]
        if hasattr(cls, "__len__") and hasattr(cls, "__getitem__") and not hasattr(cls, "keys"):
            n = static(context, self.length(context, obj), "a length")
            return sequence([self.get_item(context, obj, k) for k in range(n)])
        raise self.not_iterable(context, obj)

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        if self.method(obj, "__contains__") is None and not is_dynamic(item) and not is_dynamic(obj):
            return guarded(context, lambda: item in obj)
        return super().contains(context, obj, item)

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        if is_scripted(obj):
            return call(context, obj.eager, *args, **kwargs)
        return super().call(context, obj, args, kwargs)

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        """What a class written in Python gives its objects."""
        cls = self.class_of(obj)
        formats = not conversion and hasattr(cls.__format__, "__code__")
        for name in ("__format__",) * formats + (("__repr__",) if conversion == "r" else ("__str__", "__repr__")):
            method = self.method(obj, name)
            if method is not None and self.says(cls, method):
                result = call(context, method, obj, *(spec,) * (name == "__format__"))
                return protocol.text(context, result, "", "" if name == "__format__" else spec)
        return super().text(context, obj, conversion, spec)

    def says(self, cls: type, method: Any) -> bool:
        """Whether a method's source is the user's (and not generated, or of the standard library's)."""
        return cls.__module__.split(".")[0] not in ("jitgrad", "builtins", "enum") and not (
            method.__code__.co_filename.startswith("<")) and getattr(method, "__wrapped__", None) is None

    def unary(self, context: Context, op: str, obj: Any) -> Any:
        if self.method(obj, f"__{op}__") is None and not self.dynamic:
            return guarded(context, lambda: operator_of(op)(obj))
        return super().unary(context, op, obj)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        first, second = (a, b, f"__{op}__"), (b, a, f"__r{op}__")
        if class_of(a) is class_of(b):
            asked = [first]
        else:
            asked = [second, first] if _specialises(b, a, f"__r{op}__") else [first, second]
        for value, other, name in asked:
            method = kind_of(value).method(value, name)
            if method is not None:
                result = call(context, method, value, other)
                if result is not NotImplemented:
                    return result
        return python_binary(context, op, a, b)

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        method = self.method(obj, f"__i{op}__")
        result = NotImplemented if method is None else call(context, method, obj, value)
        return super().in_place(context, op, obj, value) if result is NotImplemented else result

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        first, second = (a, b, op), (b, a, NUMBERS[f"num.{op}"].swapped)
        for value, other, name in [second, first] if _specialises(b, a) else [first, second]:
            cls, other_cls = class_of(value), class_of(other)
            if not isinstance(value, type) and generated(cls, f"__{'eq' if name == 'ne' else name}__"):
                if cls is other_cls:
                    return _compare_fields(context, op, a, b)
                continue
            method = kind_of(value).method(value, f"__{name}__")
            if method is None and name == "ne":
                method = kind_of(value).method(value, "__eq__")
                if method is not None:
                    return numbers.negate(context, truth(context, call(context, method, value, other)))
            if method is not None and not generated(cls, f"__{name}__"):
                result = call(context, method, value, other)
                if result is not NotImplemented:
                    return result
        return (a is b) == (op == "eq") if self.dynamic and op in ("eq", "ne") else NotImplemented


def _specialises(b: Any, a: Any, name: str = "") -> bool:
    """Whether Python asks `b` first, as the class of `a` is a base of its own; `name`: of what it must override."""
    cls, base = class_of(b), class_of(a)
    return cls is not base and issubclass(cls, base) and (
        not name or getattr(cls, name, None) is not getattr(base, name, None))


def generated(cls: type, name: str) -> bool:
    """Whether a method was generated by `dataclass`, so that it has no source."""
    method = getattr(cls, name, None)
    method = getattr(method, "__wrapped__", method)  # a `__repr__`, until Python 3.12
    return dataclasses.is_dataclass(cls) and getattr(getattr(method, "__code__", None), "co_filename", "") == "<string>"


def has_rule(cls: type, name: str) -> bool:
    """Whether a class in Python has a `__setattr__` or its kin of its own, which a frozen dataclass's is not."""
    return hasattr(getattr(cls, name), "__code__") and not generated(cls, name)


def unfrozen(context: Context, cls: type, text: str) -> None:
    """A frozen dataclass raises where a field is to be assigned or deleted; `text`: what it says."""
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        raise effects.raise_now(context, dataclasses.FrozenInstanceError, (text,))


def settable(context: Context, cls: type, name: str) -> None:
    """A class with `__slots__` alone raises where an attribute is assigned that is none of them."""
    if name in getattr(cls, "__slots__", ()) or any("__dict__" in vars(c) or "_fields" in vars(c) for c in cls.__mro__):
        return
    attribute = class_attribute(cls, name)
    if not isinstance(attribute, types.MemberDescriptorType):
        said = f"has no attribute '{name}'" if attribute is MISSING else f"attribute '{name}' is read-only"
        raise effects.raise_now(context, AttributeError, (f"'{cls.__name__}' object {said}",))


def plain_rules(context: Context, cls: type, name: str) -> None:
    """That an object of the class, which the script did not make, holds under a name what was assigned to it."""
    unfrozen(context, cls, f"cannot assign to field '{name}'")
    settable(context, cls, name)
    for rule in ("__setattr__", "__getattribute__"):
        if has_rule(cls, rule) and not getattr(cls, rule).__module__.startswith("jitgrad."):
            text = f"assignment to `{name}` of a `{cls.__name__}`, whose class has a `{rule}` of its own"
            raise UnsupportedCall(text, context.span(), hint="use a property, or a method with another name")


def _compare_fields(context: Context, op: str, a: Any, b: Any) -> Any:
    """The comparison that `dataclass` generates: that of the tuples of fields."""
    names = [f.name for f in dataclasses.fields(class_of(a)) if f.compare]
    first, second = (tuple([protocol.get_attribute(context, x, n) for n in names]) for x in (a, b))
    return protocol.compare(context, op, first, second)


def is_property(attribute: Any) -> bool:
    """Whether what a class defines is asked for an attribute and told of it: a property, or a descriptor in Python."""
    return isinstance(attribute, property) or all(
        isinstance(getattr(type(attribute), name, None), types.FunctionType) for name in ("__get__", "__set__"))


def get_property(context: Context, obj: Any, name: str, attribute: Any) -> Any:
    """What a property gives."""
    if not isinstance(attribute, (property, types.DynamicClassAttribute)):
        return call(context, type(attribute).__get__, context.inputs.unnamed(attribute), obj, class_of(obj))
    if attribute.fget is None:
        raise effects.no_attribute(context, "", name, what=f"`{name}` is write-only",
                                   says=f"property '{name}' of '{class_of(obj).__name__}' object has no getter")
    return call(context, attribute.fget, obj)


def set_property(context: Context, obj: Any, name: str, attribute: Any, value: Any) -> None:
    """Assign to a property."""
    if not isinstance(attribute, property):
        call(context, type(attribute).__set__, context.inputs.unnamed(attribute), obj, value)
        return
    if attribute.fset is None:
        raise effects.no_attribute(context, "", name, what=f"`{name}` cannot be assigned",
                                   says=f"property '{name}' of '{class_of(obj).__name__}' object has no setter")
    call(context, attribute.fset, obj, value)


def delete_property(context: Context, obj: Any, name: str, attribute: Any) -> None:
    """`del` of a property."""
    if not isinstance(attribute, property):
        delete = getattr(type(attribute), "__delete__", None)
        if delete is None:
            raise effects.no_attribute(context, "", name, what=f"`{name}` cannot be deleted", says="__delete__")
        call(context, delete, context.inputs.unnamed(attribute), obj)
        return
    if attribute.fdel is None:
        raise effects.no_attribute(context, "", name, what=f"`{name}` cannot be deleted",
                                   says=f"property '{name}' of '{class_of(obj).__name__}' object has no deleter")
    call(context, attribute.fdel, obj)


OBJECT = ObjectKind()


@register(type, types.ModuleType)
class NamespaceKind(ObjectKind):
    """Classes and modules."""

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        try:
            return STANDS_FOR[obj, name]
        except (KeyError, TypeError):
            return context.inputs.attribute(obj, name)

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        return guarded(context, lambda: obj[index])  # an annotation, a member of an enumeration

    def iterate(self, context: Context, obj: Any) -> Iterable:
        return sequence(list(obj)) if isinstance(obj, enum.EnumMeta) else super().iterate(context, obj)

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        if is_dynamic(item):
            return super().contains(context, obj, item)
        return guarded(context, lambda: item in obj)


@register(Borrowed)
class BorrowedKind(ObjectKind):
    """As any object, but that methods are bound to what stands for it."""

    dynamic = True
    rank = 1

    def class_of(self, obj: Borrowed) -> type:
        return type(obj.real)

    def get_attribute(self, context: Context, obj: Borrowed, name: str) -> Any:
        real = obj.real
        attribute = class_attribute(type(real), name)
        if is_property(attribute):
            return get_property(context, obj, name, attribute)
        if name == "__dict__":
            raise UnsupportedCall("the `__dict__` of an object that differs between calls", context.span(),
                                  hint="read its attributes by name")
        slot = ("attr", id(real), name)
        if slot not in context.state.values and name not in vars(real) and is_method(attribute):
            context.inputs.guard_inherited(real, name)
            if isinstance(attribute, classmethod):
                context.inputs.class_of(real)
            return bind(obj, attribute)
        return OBJECT.get_attribute(context, real, name)

    def result(self, results: Leaving, obj: Borrowed) -> sig.Result:
        return sig.Given(obj.source)

    def has_attribute(self, context: Context, obj: Borrowed, name: str) -> Any:
        return OBJECT.has_attribute(context, obj.real, name)

    def set_attribute(self, context: Context, obj: Borrowed, name: str, value: Any) -> None:
        cls = type(obj.real)
        attribute = class_attribute(cls, name)
        if is_property(attribute) and getattr(attribute, "fset", attribute) is not None:
            set_property(context, obj, name, attribute, value)
        elif is_property(attribute) or has_rule(cls, "__setattr__"):
            raise UnsupportedCall(f"assignment to `{name}` of an object that differs between calls", context.span())
        else:
            plain_rules(context, cls, name)
            context.inputs.write_attribute(obj.real, name, value)
