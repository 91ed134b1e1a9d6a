"""Reading and writing attributes as Python does: properties, methods, instance and class attributes, by path."""

from __future__ import annotations

import operator
import sys
import types
from typing import Any

from jitgrad.errors import NonDifferentiable, UnresolvedAttribute, UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.boundary.inputs import trusted
from jitgrad.script.frontend.containers import containers, contents
from jitgrad.script.frontend.evaluate import calls
from jitgrad.script.frontend.gradients import backward, hooks, requires_grad
from jitgrad.script.frontend.gradients.customs import SymFunctionCtx
from jitgrad.script.frontend.library.printing import STREAMS
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import objects, strings, subscripts
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Borrowed,
    Function,
    Instance,
    Method,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    SymTuple,
    TensorMap,
    Text,
    Union,
    class_of,
    type_word,
)

#: what of the tape a script does not have: the refusal, and what to do instead
_NO_TAPE = {"grad_fn": ("`.grad_fn`, for a script has no tape", "look at the `grad_fn` of what the script returns"),
             "register_post_accumulate_grad_hook": ("a hook on a leaf, registered inside a script",
                                                    "register it before the call")}
MISSING = object()
#: how long a list `tolist` makes
TO_LIST = 64


def getattribute(context: Context, obj: Any, name: str) -> Any:
    """`obj.name`."""
    if isinstance(obj, SymTensor):
        return _of_tensor(context, obj, name)
    if isinstance(obj, Number):
        return _of_number(context, obj, name)
    if isinstance(obj, Union):
        if obj.inner is not None and all(s is None for s in obj.statics):
            return getattribute(context, unions.force(
                context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError), name)
        return unions.switch(context, obj, lambda v: getattribute(context, v, name))
    if isinstance(obj, (SymList, SymDict, TensorMap, Range)):
        return containers.method(context, obj, name)
    if isinstance(obj, (Function, Method)):
        raise UnresolvedAttribute(f"function has no `{name}`", context.span())
    if isinstance(obj, tuple):
        return _of_tuple(context, obj, name)
    if isinstance(obj, calls.Super):
        return _of_super(context, obj, name)
    if isinstance(obj, (Instance, Borrowed)):
        return _of_borrowed(context, obj, name) if isinstance(obj, Borrowed) else objects.getattribute(
            context, obj, name)
    if isinstance(obj, calls.ExceptionValue):
        return _of_exception(context, obj, name)
    if isinstance(obj, Text) or (isinstance(obj, str) and name in ("join", "format")):
        return strings.method(context, obj, name)
    if isinstance(obj, calls.PLAIN):
        context.look(obj)
        if not hasattr(obj, name):
            raise UnresolvedAttribute(f"`{type(obj).__name__}` has no `{name}`", context.span())
        return getattr(obj, name)
    if obj is sys and name in STREAMS:
        return STREAMS[name]
    if isinstance(obj, (type, types.ModuleType)):
        return context.inputs.attribute(obj, name)
    return obj.get(context, name) if isinstance(obj, SymFunctionCtx) else _of_object(context, obj, name)


def _of_tensor(context: Context, obj: SymTensor, name: str) -> Any:
    if name == "grad":
        return backward.read_grad(context, obj)
    if name == "backward":
        return Method(name, lambda cx, args, kwargs: backward.backward(cx, obj, *args, **kwargs))
    if name == "register_hook":
        return Method(name, lambda cx, args, kwargs: hooks.register(cx, obj, *args, **kwargs))
    if name == "retain_grad":
        return Method(name, lambda cx, args, kwargs: backward.retain(cx, obj))
    if name == "retains_grad":
        return obj.storage.retains_grad
    if name == "grad_fn" and (obj.is_leaf or not obj.requires_grad):
        return None
    if name in _NO_TAPE:
        what, instead = _NO_TAPE[name]
        raise NonDifferentiable(what, context.span(), hint=instead)
    if name == "data":
        return obj.detach()
    if name in ("requires_grad", "is_leaf"):
        context.gradient_state = True
    if name in ("is_cuda", "get_device"):
        context.device_state = True
    if name == "requires_grad":
        return requires_grad.requires_grad(context, obj)
    if name == "tolist":
        return Method(name, lambda cx, args, kwargs: _to_list(cx, obj))
    if not hasattr(type(obj), name):
        raise UnresolvedAttribute(f"`Tensor` has no `{name}`", context.span(), hint=_close(name, dir(type(obj))))
    return effects.guarded(context, lambda: getattr(obj, name))


def _to_list(context: Context, tensor: SymTensor) -> Any:
    """`x.tolist()`: numbers in lists; the sizes are guarded."""
    from jitgrad.ops.backend import backend

    if not tensor.ndim:
        return effects.guarded(context, lambda: backend().item(tensor))
    n = operator.index(tensor.shape[0])
    if n > TO_LIST:
        raise UnsupportedCall(f"`tolist` of more than {TO_LIST} rows", context.span(),
                              hint="loop over the tensor, or do it outside the script")
    return contents.new_list(context, [_to_list(context, subscripts.getitem(context, tensor, k)) for k in range(n)])


def _close(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1)
    return f"did you mean `{close[0]}`?" if close else ""


def _of_number(context: Context, obj: Number, name: str) -> Any:
    if name == "is_integer" and obj.number_type is float:
        from jitgrad.script.frontend.values import numbers

        def is_integer(cx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            whole = numbers.binary(cx, "mod", obj, 1.0)
            return numbers.compare(cx, "eq", whole, 0.0)

        return Method(name, is_integer)
    raise UnsupportedCall(f"attribute `{name}` of {type_word(obj)}", context.span())


def _of_tuple(context: Context, obj: tuple[Any, ...], name: str) -> Any:
    fields = getattr(type(obj), "_fields", ())
    if name in fields:
        return obj[fields.index(name)]
    if name == "_fields":
        return fields
    if name == "_replace" and fields:
        replace: Any = obj._replace  # type: ignore[attr-defined]
        return Method(name, lambda cx, args, kwargs: effects.guarded(cx, lambda: replace(**kwargs)))
    if name == "_asdict" and fields:
        return Method(name, lambda cx, args, kwargs: contents.new_dict(cx, dict(zip(fields, obj, strict=True))))
    method = class_attribute(type(obj), name)
    if isinstance(method, property) and method.fget is not None and hasattr(method.fget, "__code__"):
        return calls.call(context, method.fget, (obj,), {})
    if fields and isinstance(method, (types.FunctionType, classmethod, staticmethod)):
        return bind(obj, method)
    if name == "numel":
        from jitgrad.ops.library.core import product

        return Method(name, lambda cx, args, kwargs: product(obj))
    if name in ("index", "count"):
        return Method(name, lambda cx, args, kwargs: getattr(obj, name)(*args))
    raise UnresolvedAttribute(f"`tuple` has no `{name}`", context.span())


def _of_super(context: Context, obj: Any, name: str) -> Any:
    instance = obj.instance
    mro = (instance if isinstance(instance, type) else class_of(instance)).__mro__
    for klass in mro[mro.index(obj.owner) + 1:]:
        if name in vars(klass):
            attribute = vars(klass)[name]
            if isinstance(attribute, property) and attribute.fget is not None:
                return calls.call(context, attribute.fget, (instance,), {})
            if isinstance(attribute, (types.FunctionType, classmethod, staticmethod)) or hasattr(attribute, "eager"):
                return bind(instance, attribute)
            if isinstance(instance, Instance):
                return Method(name, lambda cx, args, kwargs: None)  # `object.__init__` and kin
            return getattr(super(obj.owner, instance), name)
    raise UnresolvedAttribute(f"no base class has `{name}`", context.span())


def _of_borrowed(context: Context, obj: Borrowed, name: str) -> Any:
    """As of any object, but that methods are bound to what stands for it."""
    real = obj.real
    attribute = class_attribute(type(real), name)
    if isinstance(attribute, property) and attribute.fget is not None:
        return calls.call(context, attribute.fget, (obj,), {})
    if name == "__dict__":
        raise UnsupportedCall("the `__dict__` of an object that differs between calls", context.span(),
                              hint="read its attributes by name")
    slot = ("attr", id(real), name)
    if slot not in context.state.values and name not in vars(real) and (
            isinstance(attribute, (types.FunctionType, classmethod, staticmethod)) or hasattr(attribute, "eager")):
        _inherits(context, real, name)
        return bind(obj, attribute)
    return _of_object(context, real, name)


def _of_object(context: Context, obj: Any, name: str) -> Any:
    slot = ("attr", id(obj), name)
    values = context.state.values
    if slot in values:
        return values[slot]
    attribute = class_attribute(type(obj), name)
    if isinstance(attribute, property):
        if attribute.fget is None:
            raise UnresolvedAttribute(f"`{name}` is write-only", context.span())
        return calls.call(context, attribute.fget, (obj,), {})
    if name == "__class__":
        return type(obj)
    if name == "__dict__":
        return context.inputs.attribute(obj, name)
    instance = getattr(obj, "__dict__", {})
    if name not in instance and attribute is not MISSING:
        if isinstance(attribute, (types.FunctionType, classmethod, staticmethod)) or (
                hasattr(attribute, "eager") and hasattr(attribute, "cache_info")):
            _inherits(context, obj, name)
            return bind(obj, attribute)
        if type(attribute).__name__ in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method"):
            return getattr(obj, name)
    for holder in ("_parameters", "_buffers", "_modules"):
        if name in instance.get(holder, ()):
            return context.inputs.attribute(obj, name)
    if name not in instance and attribute is MISSING and not hasattr(obj, name):
        hint = _close(name, [*dir(obj), *instance.get("_modules", ()), *instance.get("_parameters", ())])
        raise UnresolvedAttribute(f"`{type(obj).__name__}` has no `{name}`", context.span(), hint=hint)
    return context.inputs.attribute(obj, name)


def _inherits(context: Context, obj: Any, name: str) -> None:
    """Guard that a method stays the class's: an optimizer's `step` is replaced by one that calls hooks, say."""
    source = context.inputs.source(obj)
    if source is not None and hasattr(obj, "__dict__") and not isinstance(obj, type) and (
            name in ("forward", "step") or not trusted(type(obj).__module__)):
        context.inputs.guard(source, "inherited", name)


def _of_exception(context: Context, obj: Any, name: str) -> Any:
    if name == "args":
        calls.check_readable(context, obj)
        return obj.args
    if name == "__class__":
        return obj.cls
    raise UnsupportedCall(f"`{name}` of an exception", context.span(), hint="use `str(error)` or `error.args`")


def bind(obj: Any, attribute: Any) -> Any:
    """What a class defines, found through an instance (or, for `super()` in a class method, the class)."""
    if isinstance(attribute, staticmethod):
        return attribute.__func__
    if isinstance(attribute, classmethod):
        return types.MethodType(attribute.__func__, obj if isinstance(obj, type) else class_of(obj))
    if hasattr(attribute, "eager") and hasattr(attribute, "cache_info"):  # a scripted method: its plain function
        attribute = attribute.eager
    return attribute if isinstance(obj, type) else types.MethodType(attribute, obj)


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base defines under `name`, unbound; `MISSING` if nothing."""
    for klass in cls.__mro__:
        if name in klass.__dict__:
            return klass.__dict__[name]
    return MISSING


def has_attribute(context: Context, obj: Any, name: str) -> bool:
    """`hasattr(obj, name)`."""
    if isinstance(obj, SymTensor):
        return hasattr(type(obj), name) or name in _NO_TAPE or name in ("grad", "backward", "retain_grad")
    if isinstance(obj, Instance):
        items = objects.items_of(context, obj)
        if isinstance(items.get(name), Union) and UNBOUND in items[name].statics:
            raise UnsupportedCall(f"whether the object has `{name}` is known only at run time", context.span())
        return (name in items and items[name] is not UNBOUND) or hasattr(obj.cls, name)
    if isinstance(obj, Borrowed):
        found = has_attribute(context, obj.real, name)
        if found and class_attribute(type(obj.real), name) is MISSING:
            _of_object(context, obj.real, name)  # guards that it is there
        return found
    if isinstance(obj, (SymList, SymDict)):
        return hasattr(tuple if isinstance(obj, SymTuple) else list if isinstance(obj, SymList) else dict, name)
    if isinstance(obj, Number):
        return hasattr(obj.number_type, name)
    if ("attr", id(obj), name) in context.state.values:
        return True
    found = hasattr(obj, name)
    source = context.inputs.source(obj)
    if not found and source is not None:
        context.inputs.guard(sig.Attr(source, name), "absent", None)
    return found


def setattribute(context: Context, obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    if isinstance(obj, Union):
        unions.switch(context, obj, lambda v: setattribute(context, v, name, value))
        return
    if isinstance(obj, Instance):
        objects.setattribute(context, obj, name, value)
        return
    if isinstance(obj, SymFunctionCtx):
        obj.set(context, name, value)
        return
    if isinstance(obj, Borrowed):
        _set_borrowed(context, obj, name, value)
        return
    if isinstance(obj, SymTensor):
        if name == "grad":
            backward.write_grad(context, obj, value)
            return
        if name == "requires_grad":
            effects.guarded(context, lambda: obj.requires_grad_(bool(calls.static(context, value, "`requires_grad`"))))
            return
        if name == "data":
            backward.set_data(context, obj, value)
            return
        raise UnsupportedCall(f"assignment to `{name}` of a tensor", context.span(),
                              hint="do it outside the script, or write in place with `copy_`")
    attribute = class_attribute(type(obj), name)
    if isinstance(attribute, property):
        if attribute.fset is None:
            raise UnresolvedAttribute(f"`{name}` cannot be assigned", context.span())
        calls.call(context, attribute.fset, (obj, value), {})
        return
    instance = getattr(obj, "__dict__", {})
    if name in instance.get("_parameters", ()) or name in instance.get("_modules", ()):
        raise UnsupportedCall(f"assignment to the parameter or module `{name}`", context.span(),
                              hint="write the parameter in place with `copy_`, or do it outside the script")
    context.inputs.write_attribute(obj, name, value)


def _set_borrowed(context: Context, obj: Borrowed, name: str, value: Any) -> None:
    cls = type(obj.real)
    attribute = class_attribute(cls, name)
    if isinstance(attribute, property) and attribute.fset is not None:
        calls.call(context, attribute.fset, (obj, value), {})
    elif isinstance(attribute, property) or hasattr(cls.__setattr__, "__code__"):
        raise UnsupportedCall(f"assignment to `{name}` of an object that differs between calls", context.span())
    else:
        context.inputs.write_attribute(obj.real, name, value)


def delete_attribute(context: Context, obj: Any, name: str) -> None:
    """`del obj.name`."""
    if not isinstance(obj, Instance):
        raise UnsupportedCall(f"`del` of an attribute of {type_word(obj)}", context.span(),
                              hint="assign None to it")
    objects.delattribute(context, obj, name)


__all__ = ["MISSING", "bind", "class_attribute", "delete_attribute", "getattribute", "has_attribute", "setattribute"]
