"""Writing to tensors: the storage behind one is rebuilt, and so are those of others in the same memory.

A tensor that was detached and then written with a history has a storage of its own, though it is the memory of what it
was detached from: a *face* of that memory. What is written to one face is there for the others, which keep the history
that they have. That holds as long as all faces are known, which after branches and loops they may not be: then none is
written any more.
"""

from __future__ import annotations

from typing import Any

from jitgrad.eager.inplace import INFERENCE, NO_GRAD_VIEW
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.types import OptionalType
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import copies, dispatch, layout, versions
from jitgrad.script.frontend.state.context import LAYOUT, Context, Restart
from jitgrad.script.frontend.state.effects import raise_now
from jitgrad.script.frontend.state.paths import apply_view, paths_equal, put, same_calls
from jitgrad.script.frontend.values.heap import (UNRECORDED, Storage, SymTensor, current_value, new_tensor, of, read,
                                                 shown, stored)
from jitgrad.script.graph.ir import Value

#: why a storage may be the same memory as another one that is known: a face of it
APART = "it is the memory of a detached tensor that has a history of its own"
LEAF = "a leaf was made of it by `detach` and `requires_grad_`"
_CLONE = "write `.clone()` where the tensor is made, so that it has memory of its own"


def write(context: Context, tensor: SymTensor, value: Value) -> SymTensor:
    """Replace what `tensor` shows by `value` (same shape and dtype); every view of the storage sees it.

    What `tensor` is then: itself, but where it is detached and the value has a history. Then it has that, and its
    memory's other names do not.
    """
    storage = tensor.storage
    writable(context, tensor)
    if storage.inference and not context.inference:
        raise raise_now(context, RuntimeError, (INFERENCE,))
    base = current_value(context, storage)
    recorded = context.grad and not tensor.is_detached
    if context.grad and tensor.unrecorded and (context.has_history(value) or (
            context.has_history(base) and all(op != "detach" or attrs is UNRECORDED for op, attrs in tensor.path))):
        raise raise_now(context, RuntimeError, (NO_GRAD_VIEW,))
    if recorded and (storage.requires_grad or storage.of_leaf):
        raise leaf_written(context, bool(tensor.path))
    apart = None
    if context.grad and not recorded and context.has_history(value):
        root = _detached(tensor)
        apart = put(context, shown(context, root), tensor.path[len(root.path):], value)
    versions.written(context, tensor)
    value = put(context, base, tensor.path, value)
    if not recorded or storage.requires_grad:
        value = _content(context, storage, value, base)
    elif context.has_history(base) and not _computed_from(context, value, base):
        value = context.one("overwrite", base, value)  # eager gives what was overwritten a gradient of zeros
    if recorded:
        storage.made = storage.made and ""
    _hold(context, storage, value)
    _show_others(context, tensor, storage)
    if apart is None:
        return tensor
    made = new_tensor(context, apart)
    _set_apart(context, root, made, APART)
    return SymTensor(made.storage, tensor.path[len(root.path):], tensor.type_)


def _content(context: Context, storage: Storage, value: Value, base: Value) -> Value:
    """New content of memory with the history that it had: `base` is what it held."""
    if storage.requires_grad:
        return as_leaf(context, storage, value)
    if context.has_history(base):
        return context.one("leaf", value, base)
    return context.one("detach", value) if context.has_history(value) else value


def _hold(context: Context, storage: Storage, value: Value) -> None:
    """Let a storage hold a value, after the call too if it is the caller's."""
    context.state.values[storage] = value
    if storage.input >= 0:
        context.inputs.note_written(storage)
    slot = of(context).optional_grads.get(storage)
    if slot is not None:
        context.inputs.stores[slot] = sig.Attr(context.inputs.sources[slot[1].input], "grad")


def _show_others(context: Context, written: SymTensor, storage: Storage, since: Storage | None = None) -> None:
    """What was written to memory is there for those with histories of their own in it, too, who keep these."""
    for other, path, inside in of(context).faces.get(storage, ()):
        if other is since:
            continue
        base, content = current_value(context, other), current_value(context, storage)
        if inside:
            for op, attrs in path:
                content = apply_view(context, content, op, attrs)
        else:
            content = put(context, base, path, content)
        versions.written(context, SymTensor(other, (*path, *written.path), other.type))
        _hold(context, other, _content(context, other, content, base))
        _show_others(context, written, other, storage)


def _detached(tensor: SymTensor) -> SymTensor:
    """The detached tensor of which a tensor is a view, or which it is."""
    steps = 1 + max(k for k, (op, _) in enumerate(tensor.path) if op == "detach")
    return SymTensor(tensor.storage, tensor.path[:steps], tensor.type_)


def _set_apart(context: Context, tensor: SymTensor, made: SymTensor, why: str) -> None:
    """Let a detached tensor, and its views, be `made` from here on. Where both are seen, what is written to one is
    there for the other; not so for what a branch or loop makes of them, which is not written."""
    storage, known = tensor.storage, of(context)
    copies.identify(context, tensor)
    if renamed(context, tensor, made, views=True) or storage.input >= 0:
        storage.alias = made.storage.alias = storage.alias or why
        known.faces.setdefault(storage, []).append((made.storage, tensor.path, True))
        known.faces.setdefault(made.storage, []).append((storage, tensor.path, False))
        versions.inherit(context, storage, made.storage)
        known.borrowed[made.storage] = storage


def writable(context: Context, tensor: SymTensor) -> None:
    """Refuse a write to memory of which not all names are known."""
    storage = tensor.storage
    copies.written(context, storage)
    if storage.alias and not (storage.alias in (APART, LEAF) and _all_there(context, storage)):
        raise UnsupportedCall(f"this in-place write may or may not change another tensor: {storage.alias}",
                              context.span(), hint=_CLONE)
    if storage in layout.of(context).doubtful:
        if LAYOUT not in context.decisions:
            raise Restart(LAYOUT, "memory is written of which there is a reshape: is that a view or a copy?")
        raise UnsupportedCall("this in-place write goes to a reshaped tensor that may be a copy, or to what it may "
                              "show", context.span(), hint=_CLONE)


def _all_there(context: Context, storage: Storage, since: Storage | None = None) -> bool:
    """Whether all that share a storage's memory are known, hold something here, and have no copies."""
    others = of(context).faces.get(storage, ())
    for other, *_ in others:
        if other is not since:
            copies.written(context, other)
            if not _is_there(context, other) or not _all_there(context, other, storage):
                return False
    return bool(others)


def _is_there(context: Context, storage: Storage) -> bool:
    """Whether a storage holds something here, whatever branches and loops have done."""
    return storage.input >= 0 or (storage in context.state.values
                                  and not isinstance(stored(context, storage).type, OptionalType))


def _computed_from(context: Context, value: Value, base: Value) -> bool:
    """Whether the node that makes `value` reads `base`: zeros would add nothing to its gradient."""
    for node in reversed(context.builder.block.nodes):
        if value in node.outputs:
            return base in node.inputs and context.has_history(value)
    return value is base


def as_leaf(context: Context, storage: Storage, value: Value) -> Value:
    """New content of a storage: that of a leaf passes gradients on to the leaf as it was first met."""
    if not storage.requires_grad:
        return value
    root = context.inputs.values[storage.input] if storage.input >= 0 else storage.root
    assert root is not None
    return context.one("leaf", value, root)


def require_grad(context: Context, tensor: SymTensor, requires_grad: bool) -> SymTensor:
    """Make a tensor without history a leaf that asks for a gradient, or no such leaf; what the tensor is then."""
    storage = tensor.storage
    if requires_grad and tensor.path and all(op == "detach" for op, _ in tensor.path):
        leaf = new_tensor(context, read(context, tensor))
        require_grad(context, leaf, True)
        _set_apart(context, tensor, leaf, LEAF)
        return leaf
    copies.identify(context, tensor)
    if tensor.path or storage.input >= 0:
        raise UnsupportedCall("`requires_grad_` of a tensor that the script did not make", context.span(),
                              hint="set it outside the script, or write `.detach().clone().requires_grad_()`")
    if context.depth and storage.block is not context.path[-1]:
        raise UnsupportedCall("`requires_grad_` in a branch or loop of a tensor made before it", context.span(),
                              hint="write `x = x.detach().clone().requires_grad_()`")
    value = current_value(context, storage)
    if requires_grad:
        storage.root = context.one("leaf", value)
        context.builder.history.add(storage.root.id)
        context.state.values[storage] = storage.root
        of(context).leaves[storage] = None
    elif storage.requires_grad:
        context.state.values[storage] = context.one("detach", value)
    storage.requires_grad = requires_grad
    return tensor


def renamed(context: Context, tensor: SymTensor, other: SymTensor, views: bool = False) -> bool:
    """Put `other` in place of `tensor` wherever that is; whether its memory is shown in another way somewhere.

    `views`: its views become those of `other`. Refused where what a call of `detach` makes in several iterations cannot
    be told apart.
    """
    elsewhere, length, places = False, len(tensor.path), 0

    def changed(value: Any, steps: Any) -> Any:
        nonlocal elsewhere
        if not isinstance(value, SymTensor) or value.storage is not tensor.storage:
            return value
        if paths_equal(value.path[:length], tensor.path) and same_calls(tensor.path, value.path):
            if len(value.path) == length and value.copied is tensor.copied:
                return other
            if views:
                path = (*other.path, *value.path[length:])
                return SymTensor(other.storage, path, value.type_, value.copied, value.unrecorded)
        elsewhere = True
        return value

    state = context.state.values
    for key, value in list(state.items()):
        state[key] = dispatch.replace_references(value, changed)
        places += state[key] is not value
    again = of(context).detaching.values()
    if views and places > 1 and any(attrs is a for _, attrs in tensor.path for a in again):
        raise UnsupportedCall("an in-place write of what has a history to one of the tensors that iterations of a loop "
                              "have detached from the same one", context.span(), hint=_CLONE)
    return elsewhere


def leaf_written(context: Context, view_of: bool) -> Exception:
    """torch's refusal of an in-place write to a leaf that asks for a gradient, for the caller to raise."""
    what = "a view of a leaf" if view_of else "a leaf"
    text = f"{what} Variable that requires grad is being used in an in-place operation."
    return raise_now(context, RuntimeError, (text,))
