"""Writing to tensors: the storage behind one is rebuilt, and so are those of others in the same memory.

A tensor that was detached and then written with a history is held apart, though it is the memory of what it was
detached from: a *face* of that memory. What is written to one face is there for the others, which keep the history that
they have. A face is there in the state like any other storage; where a branch or a loop may begin one, it is there
without a history otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from jitgrad.eager.inplace import INFERENCE, NO_GRAD_VIEW
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.types import OptionalType, TensorType
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import copies, dispatch, layout, versions
from jitgrad.script.frontend.state.context import LAYOUT, VERSIONS, Context, Restart, State
from jitgrad.script.frontend.state.effects import emit, raise_now
from jitgrad.script.frontend.state.paths import Path, apply_view, is_tensor, put
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.heap import (UNRECORDED, Face, Storage, SymTensor, current_value, face, new_tensor,
                                                 of, places, read, read_if_there, stored)
from jitgrad.script.graph.ir import Block, Value, payload

#: why a storage may be the same memory as another one that is known
LEAF = "a leaf was made of it by `detach` and `requires_grad_`"
_CLONE = "write `.clone()` where the tensor is made, so that it has memory of its own"


def begin_face(context: Context, tensor: SymTensor) -> Face:
    """Let a detached tensor be held apart: it shows its memory as before."""
    value = read_if_there(context, tensor)
    type_ = payload(value.type)
    assert isinstance(type_, TensorType)
    made = face(context, SymTensor(tensor.storage, tensor.path, type_))
    context.state.values[made] = value
    return made


def begin_faces(context: Context, state: State, other: Container[Face], block: Block, sees: Callable[[Path], bool]
                ) -> None:
    """Let all that is held apart in another state be so in this one, at the end of a block, if its memory is there and
    the sizes in its path are known outside."""
    missing = [f for f in of(context).faces if f not in state.values and f in other and sees(f.path) and (
        f.memory in state.values or f.memory.input >= 0)]
    if missing:
        context.state, before = state, context.state
        with context.again(block):
            for f in sorted(missing, key=lambda f: len(f.path)):
                begin_face(context, SymTensor(f.memory, f.path, f.type))
        context.state = before


def write(context: Context, tensor: SymTensor, value: Value, lacks: Any = None) -> SymTensor:
    """Replace what `tensor` shows by `value` (same shape and dtype); every view of the storage sees it. `lacks`:
    whether the value has no history in this run, where that is known.

    Where the tensor is detached and the value has a history, it has that from here on, and its memory's other names do
    not.
    """
    storage = tensor.storage
    writable(context, tensor)
    if storage.inference and not context.inference:
        raise raise_now(context, RuntimeError, (INFERENCE,))
    held, path = tensor.source
    lacks = int(not context.has_history(value)) if lacks is None else lacks
    if context.grad and tensor.unrecorded:
        cut = any(op == "detach" and attrs is not UNRECORDED for op, attrs in path)
        _require_no_history(context, (value, lacks), (
            current_value(context, held), 1 if cut else versions.lacks(context, context.state, held)))
    recorded = require_no_leaf(context, tensor)
    if context.grad and not recorded and context.has_history(value):
        steps = 1 + max(k for k, (op, _) in enumerate(tensor.path) if op == "detach")
        root = SymTensor(storage, tensor.path[:steps], tensor.type_)
        copies.identify(context, root)
        held, path, recorded = begin_face(context, root), tensor.path[steps:], True
    before = versions.lacks(context, context.state, held)
    versions.written(context, tensor)
    base = current_value(context, held)
    content = put(context, base, path, value)
    if not recorded or held.requires_grad:
        content = _content(context, held, content, base)
    elif context.has_history(base) and not _computed_from(context, content, base):
        content = context.one("overwrite", base, content)  # eager gives what was overwritten a gradient of zeros
    if recorded:
        held.made = held.made and ""
        versions.tell(context, held, versions.all_lack(context, (before, lacks)))
    _hold(context, held, content)
    if isinstance(held, Face):
        base = current_value(context, storage)
        _hold(context, storage, _content(context, storage, put(context, base, held.path, content), base))
    _show_others(context, tensor, storage, held)
    return tensor


def _require_no_history(context: Context, *found: tuple[Value, Any]) -> None:
    """Raise for a write to a view that was made while nothing was recorded, where one of some values, of which is known
    whether they lack a history, has one."""
    having = {v: n for v, n in found if context.has_history(v) and (type(n) is not int or n == 0)}
    if not having:
        return
    if not context.counts_writes:
        why = "only the run knows whether a view made under no_grad is written with a history"
        if VERSIONS not in context.decisions:
            raise Restart(VERSIONS, why)
        if not any(versions.certain(context, [v]) for v in having):
            raise UnsupportedCall(why, context.span(), hint=_CLONE)
    lack = versions.all_lack(context, having.values())
    if type(lack) is int:
        raise raise_now(context, RuntimeError, (NO_GRAD_VIEW,))
    emit(context, "check", dispatch.compare_numbers(context, "eq", lack, 1).value, error=RuntimeError,
         template=(NO_GRAD_VIEW,))


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
    for other in storage.faces:
        if other is not since and other in context.state.values:
            _show(context, other)
    for leaf, path, inside in of(context).leaves_in.get(storage, ()):
        if leaf is since:
            continue
        base, content = current_value(context, leaf), current_value(context, storage)
        if inside:
            for op, attrs in path:
                content = apply_view(context, content, op, attrs)
        else:
            content = put(context, base, path, content)
        versions.written(context, SymTensor(leaf, (*path, *written.path), leaf.type))
        _hold(context, leaf, _content(context, leaf, content, base))
        _show_others(context, written, leaf, storage)


def _show(context: Context, face: Face) -> None:
    """Let a face hold what its memory shows, where it is there in this run."""
    base = stored(context, face)
    if isinstance(base.type, OptionalType):
        there = numbers.wrap(context, context.one("opt.has", base))

        def show() -> None:
            context.state.values[face] = context.one("opt.get", base, known=True)
            _show(context, face)

        dispatch.branch(context, there, show, lambda: None)
        return
    content = current_value(context, face.memory)
    for op, attrs in face.path:
        content = apply_view(context, content, op, attrs)
    _hold(context, face, _content(context, face, content, base))


def _set_apart(context: Context, tensor: SymTensor, made: SymTensor) -> None:
    """Let a detached tensor, and its views, be the leaf `made` from here on. Where both are seen, what is written to
    one is there for the other; not so for what a branch or loop makes of them, which is not written."""
    storage, known = tensor.storage, of(context)
    copies.identify(context, tensor)
    if renamed(context, tensor, made, views=True) or storage.input >= 0:
        storage.alias = made.storage.alias = storage.alias or LEAF
        known.leaves_in.setdefault(storage, []).append((made.storage, tensor.path, True))
        known.leaves_in.setdefault(made.storage, []).append((storage, tensor.path, False))
        versions.inherit(context, storage, made.storage)
        known.borrowed[made.storage] = storage


def writable(context: Context, tensor: SymTensor) -> None:
    """Refuse a write to memory of which not all names are known."""
    storage = tensor.storage
    copies.written(context, storage)
    made = layout.of(context).conjugates.get(storage, ())
    if storage.conjugations or (made and places(context, lambda t: t.storage in made)):
        raise UnsupportedCall("this in-place write would show in a conjugate of the tensor, or in what it is the "
                              "conjugate of", context.span(), hint="write `.conj_physical()`, which is no view")
    if storage.alias and not (storage.alias == LEAF and _all_there(context, storage)):
        raise UnsupportedCall(f"this in-place write may or may not change another tensor: {storage.alias}",
                              context.span(), hint=_CLONE)
    _require_no_doubt(context, storage)


def _require_no_doubt(context: Context, storage: Storage) -> None:
    """Begin again where there is a reshape of a storage that may be a copy; refuse the write where that is no use."""
    if storage in layout.of(context).doubtful:
        if LAYOUT not in context.decisions:
            raise Restart(LAYOUT, "memory is written of which there is a reshape: is that a view or a copy?")
        raise UnsupportedCall("this in-place write goes to a reshaped tensor that may be a copy, or to what it may "
                              "show", context.span(), hint=_CLONE)


def _all_there(context: Context, storage: Storage, since: Storage | None = None) -> bool:
    """Whether all that share a storage's memory are known, hold something here, and have no copies."""
    others = of(context).leaves_in.get(storage, ())
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
        _set_apart(context, tensor, leaf)
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


def renamed(context: Context, tensor: SymTensor, other: SymTensor, views: bool = False, one: bool = False) -> bool:
    """Put `other` in place of `tensor` wherever that is; whether its memory is shown in another way somewhere.

    `views`: its views become those of `other`. `one`: refused where another view shows the same, which is not renamed.
    """
    elsewhere, length = False, len(tensor.path)

    def changed(value: Any, steps: Any) -> Any:
        nonlocal elsewhere
        if not isinstance(value, SymTensor) or value.storage is not tensor.storage:
            return value
        if is_tensor(value.path[:length], tensor.path):
            if len(value.path) == length and value.copied is tensor.copied:
                if one and value is not tensor and length and value.path[-1][1] is not tensor.path[-1][1]:
                    raise UnsupportedCall("a view that changes its shape, where another shows the same",
                                          context.span(), hint="assign the new view to a name of its own")
                return other
            if views:
                path = (*other.path, *value.path[length:])
                return SymTensor(other.storage, path, value.type_, value.copied, value.unrecorded)
        elsewhere = True
        return value

    state = context.state.values
    for key, value in list(state.items()):
        state[key] = dispatch.replace_references(value, changed)
    return elsewhere


def require_no_leaf(context: Context, tensor: SymTensor) -> bool:
    """Whether a write to a tensor is recorded. Raises torch's refusal where that would be a leaf that asks for a
    gradient."""
    held, path = tensor.source
    recorded = context.grad and all(op != "detach" for op, _ in path)
    if recorded and (held.requires_grad or held.of_leaf):
        _require_no_doubt(context, tensor.storage)
        what = "a view of a leaf" if path else "a leaf"
        text = f"{what} Variable that requires grad is being used in an in-place operation."
        raise raise_now(context, RuntimeError, (text,))
    return recorded
