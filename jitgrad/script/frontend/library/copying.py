"""`copy.copy` and `copy.deepcopy` of what a script has: containers, objects of the user's classes, tensors."""

import copy
import types
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import raise_now
from jitgrad.script.frontend.state.handlers import Args, handles
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.objects import class_attribute, is_method
from jitgrad.script.frontend.values.protocol import call, class_of, get_attribute, set_attribute, type_word
from jitgrad.script.frontend.values.values import Borrowed, Container, Instance, RunItems, RunPairs, SymList, SymTensor

LEAF = ("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. Use "
        "detach() first.")
#: by which a class says itself how its objects are copied
_RULES = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
#: what has a dict of attributes and is copied as it is
_AS_THEY_ARE = (type, types.FunctionType, types.ModuleType, types.MethodType)


@handles(copy.copy)
def _shallow(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def one(x: Any) -> Any:
        return unions.each(context, (x,), lambda given: _copied(context, given[0]), lambda v: False)

    return one(*args, **kwargs)


@handles(copy.deepcopy)
def _deep(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def one(x: Any, memo: Any = None) -> Any:
        if memo is not None:
            raise UnsupportedCall("`deepcopy` with a memo", context.span(), hint="leave the memo out")
        return _Deep(context).of(x)

    return one(*args, **kwargs)


def _copied(context: Context, obj: Any) -> Any:
    """A copy that holds what `obj` holds."""
    if isinstance(obj, SymTensor):
        if obj.requires_grad:
            raise UnsupportedCall("`copy.copy` of a tensor that requires a gradient", context.span(),
                                  hint="write `x.detach()`, or `x.clone()`")
        return obj.detach()
    own = class_attribute(class_of(obj), "__copy__")
    if is_method(own):
        return call(context, get_attribute(context, obj, "__copy__"))
    if type(obj) is set:
        return call(context, set, obj)
    if type(obj) is tuple or isinstance(obj, frozenset):
        return obj
    if isinstance(obj, tuple):
        return call(context, class_of(obj), *obj)
    if isinstance(obj, Container) and not _is_object(obj):
        return call(context, get_attribute(context, obj, "copy"))
    attributes = _attributes(context, obj)
    return obj if attributes is None else _object(context, obj, attributes)


def _is_object(obj: Any) -> bool:
    return isinstance(obj, Instance) and not hasattr(obj.cls, "stands_for")


def _attributes(context: Context, obj: Any) -> dict[str, Any] | None:
    """The attributes of an object; None where a copy of it is the object itself."""
    cls = class_of(obj)
    if not _is_object(obj) and (isinstance(obj, _AS_THEY_ARE) or not hasattr(
            obj.real if isinstance(obj, Borrowed) else obj, "__dict__") or cls.__module__.startswith("jitgrad.script")):
        return None
    if any(c.__name__ == "Module" and c.__module__.startswith("jitgrad") for c in cls.__mro__):
        raise UnsupportedCall(f"a copy of a module (`{cls.__name__}`) inside a script", context.span(),
                              hint="copy it outside the script")
    for name in _RULES:
        if (is_method(class_attribute(cls, name)) and name not in ("__reduce__", "__reduce_ex__")) or isinstance(
                class_attribute(cls, name), types.FunctionType):
            raise UnsupportedCall(f"a copy of a `{cls.__name__}`, whose class says by `{name}` how it is copied",
                                  context.span(), hint="define `__copy__`, or make the object anew")
    named = contents.dict_of(context, get_attribute(context, obj, "__dict__"))
    return dict(named) if _is_object(obj) else {name: get_attribute(context, obj, name) for name in named}


def _object(context: Context, obj: Any, attributes: dict[str, Any]) -> Instance:
    made = Instance(class_of(obj))
    context.state.values[made] = attributes
    return made


def _each(items: Any, deep: Any) -> Any:
    """Copies of the items of a list of run-time length: Python that scripts inline."""
    return [deep(v) for v in items]


def _each_value(pairs: Any, deep: Any) -> Any:
    """The same of a dict's values."""
    return {k: deep(v) for k, v in pairs.items()}


class _Deep:
    """One `deepcopy`: what occurs twice is copied once."""

    def __init__(self, context: Context):
        self.context = context
        self.made: dict[Any, Any] = {}
        self.kept: list[Any] = []  # so that no other object gets the number of one

    def of(self, obj: Any) -> Any:
        """The copy of a value."""
        return unions.each(self.context, (obj,), lambda given: self._known(given[0]), lambda v: False)

    def _known(self, obj: Any) -> Any:
        key: Any = (obj.storage, tuple(map(str, obj.path))) if isinstance(obj, SymTensor) else id(obj)
        if key not in self.made:
            self.kept.append(obj)
            self.made[key] = self._new(obj, key)
        return self.made[key]

    def _new(self, obj: Any, key: Any) -> Any:
        context = self.context
        if isinstance(obj, SymTensor):
            return self._tensor(obj)
        if is_method(class_attribute(class_of(obj), "__deepcopy__")):
            return call(context, get_attribute(context, obj, "__deepcopy__"), contents.new_dict(context, {}))
        if isinstance(obj, tuple):
            items = [self.of(v) for v in obj]
            if all(a is b for a, b in zip(items, obj, strict=True)):
                return obj
            return call(context, type(obj), *items) if hasattr(obj, "_fields") else tuple(items)
        made = _copied(context, obj)
        if not isinstance(made, Container) or made is obj or hasattr(getattr(made, "cls", None), "stands_for"):
            return made
        self.made[key] = made  # before what it holds, which may hold it
        held = context.state.values[made] if made.entry is None else None
        if isinstance(held, tuple):
            context.state.values[made] = tuple([self.of(v) for v in held])
        elif isinstance(held, dict):
            context.state.values[made] = {k: self.of(v) for k, v in held.items()}
        elif type(made) is SymList and isinstance(held, RunItems):
            return call(context, _each, obj, copy.deepcopy)
        elif isinstance(held, RunPairs) and class_of(made) is dict:
            return call(context, _each_value, obj, copy.deepcopy)
        else:
            raise UnsupportedCall(f"`deepcopy` of {type_word(obj)} of run-time length", context.span(),
                                  hint="copy its items one by one")
        return made

    def _tensor(self, tensor: SymTensor) -> SymTensor:
        context = self.context
        if tensor.requires_grad and get_attribute(context, tensor, "is_leaf") is not True:
            raise raise_now(context, RuntimeError, (LEAF,))
        made = heap.copy(context, tensor.detach())
        if tensor.requires_grad:
            grad = get_attribute(context, tensor, "grad")
            made = made.requires_grad_()
            if grad is not None:
                set_attribute(context, made, "grad", self.of(grad))
        return made


