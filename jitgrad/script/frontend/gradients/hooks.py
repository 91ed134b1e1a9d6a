"""Hooks on tensors: of leaves, when a gradient taken in the script reaches them; of tensors that the script computes.

A leaf's hooks are found where it is read, and guarded: one that is registered later is noticed. A hook on a computed
tensor is an `autograd.Function` that passes the tensor on and calls the hook in its backward.
"""

from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.eager.autograd.function import Function
from jitgrad.errors import UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.gradients import customs
from jitgrad.script.frontend.state import copies, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.protocol import Kind, call, register as register_kind, type_word
from jitgrad.script.frontend.values.tensors import method
from jitgrad.script.frontend.values.values import Storage, SymTensor
from jitgrad.script.graph.ir import Block, Value, walk

_EFFECTS = frozenset({"print", "callback", "check"})


@dataclass(slots=True)
class Hooked:
    """The hooks of one evaluation: tensors on which the script has put some, and leaves whose hooks print or call
    Python."""

    hooked: set[Storage] = field(default_factory=set)
    observed: set[Storage] = field(default_factory=set)


def of(context: Context) -> Hooked:
    """The record of an evaluation."""
    return context.part(Hooked)


class HookHandle:
    """What `register_hook` returns in a script."""


@register_kind(HookHandle)
class HookHandleKind(Kind):
    """A hook is in the program from where it is registered."""

    def get_attribute(self, context: Context, obj: HookHandle, name: str) -> Any:
        raise UnsupportedCall(f"`{name}` of a hook that the script has registered", context.span(),
                              hint="register the hook outside the script, or write an `if` in it")


class TensorHook(Function):
    """The tensor itself; its gradient goes through the hook."""

    what = "a hook of a computed tensor"

    @staticmethod
    def forward(ctx: Any, x: Any, hook: Any) -> Any:
        """x."""
        ctx.hook = hook
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """What the hook makes of the gradient."""
        changed = ctx.hook(gradient)
        return (gradient if changed is None else changed), None


@method("register_hook")
def register(context: Context, tensor: SymTensor, hook: Any) -> Any:
    """`tensor.register_hook(hook)` for a tensor that the script computes."""
    if not tensor.requires_grad:
        raise effects.raise_now(context, RuntimeError, ("cannot register a hook on a tensor that doesn't require "
                                                      "gradient",))
    storage = tensor.storage
    if storage.input >= 0 or storage.requires_grad:
        raise UnsupportedCall("a hook on a leaf or an argument, registered inside a script", context.span(),
                              hint="register it before the call")
    copies.identify(context, tensor)
    if tensor.path or storage.retains_grad or storage.alias or not context.grad:
        raise UnsupportedCall("a hook on a view, or on a tensor whose gradient is retained", context.span(),
                              hint="register it on the tensor itself, first of all")
    value = heap.current_value(context, storage)
    if any(value in n.inputs for b in context.path for n in walk(b) if n.op not in _EFFECTS):
        raise UnsupportedCall("a hook on a tensor that has been used already", context.span(),
                              hint="register it right after the tensor is computed")
    hooked = customs.apply(context, (TensorHook, tensor, hook), {})
    context.state.values[storage] = heap.current_value(context, hooked.storage)
    of(context).hooked.add(storage)
    return HookHandle()


def check_unhooked(context: Context, tensor: SymTensor, what: str) -> None:
    """Refuse to ask for the gradient of a tensor itself where a hook in the script changes it."""
    if tensor.storage in of(context).hooked:
        raise UnsupportedCall(f"{what} of a tensor with a hook", context.span(),
                              hint="do in the program what the hook does, or leave the hook out")


def of_leaf(context: Context, storage: Storage, kind: str) -> list[Any]:
    """The hooks that a leaf among the inputs has now: "_hooks" or "_after_hooks"."""
    if storage.input < 0:
        return []
    inputs = context.inputs
    source, tensor = inputs.sources[storage.input], inputs.tensors[storage.input]
    if tensor._grad_dtype:
        raise UnsupportedCall("the gradient, in a script, of a leaf with a `grad_dtype` of its own", context.span(),
                              hint="call `backward()` outside the script")
    if not tensor._hooks and not tensor._after_hooks:
        inputs.guard(source, "unhooked", None)
        return []
    found, path = getattr(tensor, kind), sig.Attr(source, kind)
    if found is None:
        inputs.guard(path, "is", None)
        return []
    inputs.guard(path, "keys", tuple(found))
    return [inputs.read(hook, sig.Item(path, number)) for number, hook in found.items()]


def changed(context: Context, storage: Storage, gradient: SymTensor) -> SymTensor:
    """What a leaf's hooks make of a gradient."""
    for hook in of_leaf(context, storage, "_hooks"):
        result = _call(context, storage, hook, gradient)
        if result is None:
            continue
        if not isinstance(result, SymTensor):
            raise UnsupportedCall(f"a hook that returns {type_word(result)}", context.span(),
                                  hint="return a tensor or None, always the same of the two")
        if result.type_.dims != gradient.type_.dims or result.dtype is not gradient.dtype:
            raise UnsupportedCall("a hook that changes the gradient's shape or dtype", context.span(),
                                  hint="return a gradient of the same shape and dtype")
        gradient = result
    return gradient


def after(context: Context, storage: Storage) -> None:
    """A leaf's hooks that are called when its `.grad` is complete."""
    for hook in of_leaf(context, storage, "_after_hooks"):
        _call(context, storage, hook, SymTensor(storage, (), storage.type))


def _call(context: Context, storage: Storage, hook: Any, argument: SymTensor) -> Any:
    """Call a hook; of several leaves only one may have hooks that can be observed, for their order is the engine's."""
    block = context.path[-1]
    count = len(block.nodes)
    before, context.grad = context.grad, False
    result = call(context, hook, argument)
    context.grad = before
    if any(n.op in ("print", "callback") for n in walk(Block(nodes=block.nodes[count:]))):
        of(context).observed.add(storage)
        if len(of(context).observed) > 1:
            raise UnsupportedCall("hooks of several tensors that print or call Python", context.span(),
                                  hint="take the gradient outside the script")
    return result


def value_of(context: Context, storage: Storage, value: Value) -> Value:
    """A leaf's gradient after its hooks, as a graph value."""
    if not of_leaf(context, storage, "_hooks"):
        return value
    return heap.read(context, changed(context, storage, heap.new_tensor(context, context.one("detach", value))))
