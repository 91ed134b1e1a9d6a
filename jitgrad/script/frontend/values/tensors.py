"""Tensors of a script as values: attributes. What the library computes on them is in `library/backend.py`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.errors import NonDifferentiable, UnresolvedAttribute, UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.evaluate import calls
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import subscripts
from jitgrad.script.frontend.values.objects import similar
from jitgrad.script.frontend.values.protocol import Kind, register
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import SymTensor

F = TypeVar("F", bound=Callable[..., Any])

#: what of the tape a script does not have: the refusal, and what to do instead
_NO_TAPE = {"grad_fn": ("`.grad_fn`, for a script has no tape", "look at the `grad_fn` of what the script returns"),
             "register_post_accumulate_grad_hook": ("a hook on a leaf, registered inside a script",
                                                    "register it before the call")}
#: how long a list `tolist` makes
TO_LIST = 64
#: attributes, and assignments to them, that what lies above knows about: it enters them with `getter` and `setter`
_GETTERS: dict[str, Callable[..., Any]] = {}
_SETTERS: dict[str, Callable[..., Any]] = {}
_METHODS: dict[str, Callable[..., Any]] = {}


def _enters(table: dict[str, Callable[..., Any]], name: str) -> Callable[[F], F]:
    def enter(function: F) -> F:
        table[name] = function
        return function
    return enter


def getter(name: str) -> Callable[[F], F]:
    """Make the function that follows give the attribute `name` of tensors."""
    return _enters(_GETTERS, name)


def setter(name: str) -> Callable[[F], F]:
    """Make the function that follows assign the attribute `name` of tensors."""
    return _enters(_SETTERS, name)


def method(name: str) -> Callable[[F], F]:
    """Make the function that follows a method of tensors."""
    return _enters(_METHODS, name)


@register(SymTensor)
class TensorKind(Kind):
    """A tensor."""

    methods = _METHODS

    def get_attribute(self, context: Context, obj: SymTensor, name: str) -> Any:
        if name in self.methods:
            return super().get_attribute(context, obj, name)
        if name in ("requires_grad", "is_leaf"):
            context.gradient_state = True
        if name in ("is_cuda", "get_device"):
            context.device_state = True
        if name in _GETTERS:
            return _GETTERS[name](context, obj)
        if name == "grad_fn" and (obj.is_leaf or not obj.requires_grad):
            return None
        if name in _NO_TAPE:
            what, instead = _NO_TAPE[name]
            raise NonDifferentiable(what, context.span(), hint=instead)
        if not hasattr(type(obj), name):
            raise UnresolvedAttribute(f"`Tensor` has no `{name}`", context.span(), hint=similar(name, dir(type(obj))))
        return guarded(context, lambda: getattr(obj, name))

    def has_attribute(self, context: Context, obj: SymTensor, name: str) -> Any:
        return hasattr(type(obj), name) or name in _NO_TAPE or name in _GETTERS or name in _METHODS

    def set_attribute(self, context: Context, obj: SymTensor, name: str, value: Any) -> None:
        if name not in _SETTERS:
            raise UnsupportedCall(f"assignment to `{name}` of a tensor", context.span(),
                                  hint="do it outside the script, or write in place with `copy_`")
        _SETTERS[name](context, obj, value)


@getter("retains_grad")
def _retains_grad(context: Context, tensor: SymTensor) -> bool:
    return tensor.storage.retains_grad


@getter("data")
def _data(context: Context, tensor: SymTensor) -> SymTensor:
    return tensor.detach()


@setter("requires_grad")
def _set_requires_grad(context: Context, tensor: SymTensor, value: Any) -> None:
    wanted = bool(calls.static(context, value, "`requires_grad`"))
    guarded(context, lambda: tensor.requires_grad_(wanted))


@method("tolist")
def _to_list(context: Context, tensor: SymTensor) -> Any:
    """`x.tolist()`: numbers in lists; the sizes are guarded."""
    if not tensor.ndim:
        return guarded(context, lambda: backend().item(tensor))
    n = operator.index(tensor.shape[0])
    if n > TO_LIST:
        raise UnsupportedCall(f"`tolist` of more than {TO_LIST} rows", context.span(),
                              hint="loop over the tensor, or do it outside the script")
    return contents.new_list(context, [_to_list(context, subscripts.getitem(context, tensor, k)) for k in range(n)])
