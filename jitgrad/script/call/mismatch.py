"""Why a specialisation does not take a call, in words: what a recompilation is explained with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jitgrad.device import device
from jitgrad.dims import Symbol, evaluate
from jitgrad.dtypes import get_default_dtype
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.ops import autocast
from jitgrad.ops.types import TensorType
from jitgrad.script.call import list_kinds
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import separate
from jitgrad.script.call.sources import Unreadable, describe, elem_of, resolve, tensor_key, type_of_tensor

if TYPE_CHECKING:
    from jitgrad.script.call.specialisation import Specialisation

#: reasons to compile again that no single guard has
SIZES = "sizes that were equal at the first call differ"
SHARED = "a tensor that is written shares memory with another, and did not at the first call"


def autocast_mismatch(before: autocast.Low | None) -> str:
    """That autocast was another when a program was compiled, in words."""
    was, now = ("off" if d is None else f"on with {d}" for d in (before, autocast.mode.low))
    return f"autocast was {was}, is {now}"


def first_broken(guards: Iterable[sig.Guard], values: dict[str, Any],
                 broken: Callable[[sig.Guard, Any], str]) -> str:
    """The first of `guards` that a call breaks, in words; "" where it keeps them all."""
    for guard in guards:
        try:
            found = resolve(guard.source, values)
            other = resolve(guard.value, values) if guard.kind in ("same", "other") else None
        except Unreadable as missing:
            if guard.kind == "absent":
                continue
            return f"{missing}"
        if guard.kind == "same":
            problem = "" if found is other else f"is another object than `{describe(guard.value)}`"
        elif guard.kind == "other":
            problem = "" if found is not other else f"is the same object as `{describe(guard.value)}`"
        else:
            problem = broken(guard, found)
        if problem:
            named = describe(guard.source)
            return f"{named if isinstance(guard.source, sig.Machine) else f'`{named}`'} {problem}"
    return ""


def mismatch(specialisation: Specialisation, values: dict[str, Any]) -> str:
    """The first assumption that a call breaks, in words."""
    if is_grad_enabled() is not specialisation.grad_mode:
        return f"the grad mode was {specialisation.grad_mode}, is {not specialisation.grad_mode}"
    if autocast.mode.low is not specialisation.autocast:
        return autocast_mismatch(specialisation.autocast)
    if get_default_dtype() is not specialisation.default_dtype:
        return f"the default dtype was {specialisation.default_dtype}, is {get_default_dtype()}"
    problem = first_broken(specialisation.assumptions, values, broken)
    if problem:
        return problem
    if specialisation.may_share and not _separate(specialisation, values):
        return SHARED
    return _size_mismatch(specialisation, values)


def other_grads(specialisation: Specialisation, values: dict[str, Any]) -> bool:
    """Whether the call finds gradients on some parameters and not on others, and on other ones than here.

    Every step may find them on different ones: a program that asks at run time serves them all.
    """
    found: set[bool] = set()
    differs = False
    for guard in specialisation.assumptions:
        if isinstance(guard.source, sig.Attr) and guard.source.name == "grad" and guard.kind != "optional":
            try:
                there = resolve(guard.source, values) is not None
            except Unreadable:
                return False
            found.add(there)
            differs |= there is not (guard.kind == "tensor")
    return differs and len(found) == 2


def actual_sizes(script: sig.ScriptGraph, objects: Sequence[Any]) -> dict[Symbol, int]:
    """The symbols that inputs bind, as they are in a call."""
    sizes: dict[Symbol, int] = {}
    for found, type_ in zip(objects, script.input_types, strict=True):
        type_, found = (elem_of(type_), found[0]) if type(found) is list and found else (type_, found)
        for d, n in zip(type_.dims, found.shape, strict=True) if isinstance(type_, TensorType) else ():
            if not isinstance(d, int) and d.symbol is not None:
                sizes[d.symbol] = n
    return sizes


def _size_mismatch(specialisation: Specialisation, values: dict[str, Any]) -> str:
    script = specialisation.script
    try:
        objects = [resolve(s, values) for s in script.inputs]
    except Unreadable as missing:
        return f"{missing}"
    sizes = actual_sizes(script, objects)
    if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.size_guards):
        return SIZES
    sizes |= {symbol: objects[i] for symbol, i in script.int_symbols.items()}
    if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.trip_guards):
        return "whether a loop runs at all decides the type of a variable, and it differs from the first call"
    return "something read on the way changed"


def _separate(specialisation: Specialisation, values: dict[str, Any]) -> bool:
    objects = [resolve(s, values) for s in specialisation.script.inputs]
    written = specialisation.function.writes
    others = [x._data for i, o in enumerate(objects) if i not in written for x in (o if type(o) is list else (o,))
              if isinstance(x, type_of_tensor())]
    return separate([objects[i]._data for i in written], others)


def broken(guard: sig.Guard, found: Any) -> str:
    """How `found` breaks `guard`, in words; "" where it does not."""
    value: Any = guard.value
    match guard.kind:
        case "is":
            return "" if found is value else "is another object"
        case "equal":
            if type(found) is type(value) and found == value:
                return ""
            was, now = (str(v) if isinstance(v, device) else repr(v) for v in (value, found))
            return f"was {was}, is {'a tensor' if isinstance(found, type_of_tensor()) else now}"
        case "type":
            return "" if type(found) is value else f"was {value.__name__}, is {type(found).__name__}"
        case "len":
            return "" if len(found) == value else f"had length {value}, has {len(found)}"
        case "keys":
            return "" if tuple(found) == value else "has other keys"
        case "absent":
            return "was absent, is there"
        case "inherited":
            return "" if value not in found.__dict__ else f"has a `{value}` of its own"
        case "unhooked":
            return "" if not found._hooks and not found._after_hooks else "has hooks"
        case "contiguous":
            return "" if found._data.flags.c_contiguous is value else "has another order of memory"
        case "tensor":
            return _other_tensor(value, found)
        case "items":
            return "" if list_kinds.fit(found, value) else "has items of another kind"
        case "optional":
            return "" if found is None or (found.dtype is value and not found.requires_grad) else "is another tensor"
    raise AssertionError(guard.kind)


def _other_tensor(key: sig.TensorKey, found: Any) -> str:
    if not isinstance(found, type_of_tensor()):
        return f"was a tensor, is {type(found).__name__}"
    now = tensor_key(found)
    if now.dtype != key.dtype:
        return f"had dtype {key.dtype}, has {now.dtype}"
    if now.device != key.device:
        return f"was on {key.device}, is on {now.device}"
    if now.ndim != key.ndim:
        return f"had rank {key.ndim}, has {now.ndim}"
    if now.requires_grad is not key.requires_grad:
        return "did not require grad, does now" if now.requires_grad else "required grad, does not now"
    for axis, (was, one) in enumerate(zip(key.ones, now.ones, strict=True)):
        if was is not one:
            return f"had {'' if was else 'not '}size 1 along axis {axis}, has {found.shape[axis]}"
    return ""
