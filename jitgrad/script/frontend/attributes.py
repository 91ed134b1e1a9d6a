"""Reading and writing attributes as Python does: properties, methods, instance and class attributes, by path."""

from __future__ import annotations

import types
from typing import Any

from jitgrad.errors import NonDifferentiable, UnresolvedAttribute, UnsupportedCall
from jitgrad.script import signature as sig
from jitgrad.script.frontend import calls, gradients, merge
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.values import (
    Function,
    Method,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    TensorMap,
    Union,
    type_word,
)

_GRADIENT = {"grad_fn": "`.grad_fn` inside a script", "register_hook": "a hook on a tensor of a script"}
_MISSING = object()


def getattribute(context: Context, obj: Any, name: str) -> Any:
    """`obj.name`."""
    if isinstance(obj, SymTensor):
        return _of_tensor(context, obj, name)
    if isinstance(obj, Number):
        return _of_number(context, obj, name)
    if isinstance(obj, Union):
        if obj.inner is not None and all(s is None for s in obj.statics):
            return getattribute(context, merge.force(
                context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError), name)
        return merge.switch(context, obj, lambda v: getattribute(context, v, name))
    if isinstance(obj, (SymList, SymDict, TensorMap, Range)):
        return calls.container_method(context, obj, name)
    if isinstance(obj, (Function, Method)):
        raise UnresolvedAttribute(f"function has no `{name}`", context.span())
    if isinstance(obj, tuple):
        return _of_tuple(context, obj, name)
    if isinstance(obj, calls.Super):
        return _of_super(context, obj, name)
    if isinstance(obj, calls.PLAIN):
        if not hasattr(obj, name):
            raise UnresolvedAttribute(f"`{type(obj).__name__}` has no `{name}`", context.span())
        return getattr(obj, name)
    if isinstance(obj, (type, types.ModuleType)):
        return context.inputs.attribute(obj, name)
    return _of_object(context, obj, name)


def _of_tensor(context: Context, obj: SymTensor, name: str) -> Any:
    if name == "grad":
        return gradients.read_grad(context, obj)
    if name == "backward":
        return Method(name, lambda cx, args, kwargs: gradients.backward(cx, obj, *args, **kwargs))
    if name == "retain_grad":
        return Method(name, lambda cx, args, kwargs: gradients.retain(cx, obj))
    if name == "retains_grad":
        return obj.storage.retains_grad
    if name == "grad_fn" and (obj.is_leaf or not obj.requires_grad):
        return None
    if name in _GRADIENT:
        raise NonDifferentiable(_GRADIENT[name] + " is not supported yet", context.span(),
                                hint="call it outside the script")
    if name == "data":
        return obj.detach()
    if name in ("requires_grad", "is_leaf"):
        context.gradient_state = True
    if name == "is_cuda":
        return False
    if not hasattr(type(obj), name):
        raise UnresolvedAttribute(f"`Tensor` has no `{name}`", context.span(), hint=_close(name, dir(type(obj))))
    return calls.guarded(context, lambda: getattr(obj, name))


def _close(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1)
    return f"did you mean `{close[0]}`?" if close else ""


def _of_number(context: Context, obj: Number, name: str) -> Any:
    if name == "is_integer" and obj.number_type is float:
        from jitgrad.script.frontend import numbers

        def is_integer(cx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            whole = numbers.binary(cx, "mod", obj, 1.0)
            return numbers.compare(cx, "eq", whole, 0.0)

        return Method(name, is_integer)
    raise UnsupportedCall(f"attribute `{name}` of {type_word(obj)}", context.span())


def _of_tuple(context: Context, obj: tuple[Any, ...], name: str) -> Any:
    fields = getattr(type(obj), "_fields", ())
    if name in fields:
        return obj[fields.index(name)]
    if name == "numel":
        from jitgrad.ops.library.core import product

        return Method(name, lambda cx, args, kwargs: product(obj))
    if name in ("index", "count"):
        return Method(name, lambda cx, args, kwargs: getattr(obj, name)(*args))
    raise UnresolvedAttribute(f"`tuple` has no `{name}`", context.span())


def _of_super(context: Context, obj: Any, name: str) -> Any:
    mro = type(obj.instance).__mro__
    for klass in mro[mro.index(obj.owner) + 1:]:
        if name in vars(klass):
            attribute = vars(klass)[name]
            if isinstance(attribute, types.FunctionType):
                return types.MethodType(attribute, obj.instance)
            return getattr(super(obj.owner, obj.instance), name)
    raise UnresolvedAttribute(f"no base class has `{name}`", context.span())


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
    if name not in instance and attribute is not _MISSING:
        if isinstance(attribute, (types.FunctionType, classmethod, staticmethod)):
            return _bind(obj, attribute)
        if hasattr(attribute, "eager") and hasattr(attribute, "cache_info"):  # a scripted method: its plain function
            return types.MethodType(attribute.eager, obj)
        if type(attribute).__name__ in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method"):
            return getattr(obj, name)
    for holder in ("_parameters", "_buffers", "_modules"):
        if name in instance.get(holder, ()):
            return context.inputs.attribute(obj, name)
    if name not in instance and attribute is _MISSING and not hasattr(obj, name):
        hint = _close(name, [*dir(obj), *instance.get("_modules", ()), *instance.get("_parameters", ())])
        raise UnresolvedAttribute(f"`{type(obj).__name__}` has no `{name}`", context.span(), hint=hint)
    return context.inputs.attribute(obj, name)


def _bind(obj: Any, attribute: Any) -> Any:
    if isinstance(attribute, staticmethod):
        return attribute.__func__
    if isinstance(attribute, classmethod):
        return types.MethodType(attribute.__func__, type(obj))
    return types.MethodType(attribute, obj)


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base defines under `name`, unbound; `_MISSING` if nothing."""
    for klass in cls.__mro__:
        if name in klass.__dict__:
            return klass.__dict__[name]
    return _MISSING


def has_attribute(context: Context, obj: Any, name: str) -> bool:
    """`hasattr(obj, name)`."""
    if isinstance(obj, SymTensor):
        return hasattr(type(obj), name) or name in _GRADIENT or name in ("grad", "backward", "retain_grad")
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
        merge.switch(context, obj, lambda v: setattribute(context, v, name, value))
        return
    if isinstance(obj, SymTensor):
        if name == "grad":
            gradients.write_grad(context, obj, value)
            return
        if name == "requires_grad":
            calls.guarded(context, lambda: obj.requires_grad_(bool(calls.static(context, value, "`requires_grad`"))))
            return
        if name == "data":
            gradients.set_data(context, obj, value)
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


__all__ = ["class_attribute", "getattribute", "has_attribute", "setattribute"]
