"""Why a specialisation does not take a call, in words: what a recompilation is explained with."""

import operator
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Assumed, Symbol, evaluate, symbols
from jitgrad.dtypes import get_default_dtype
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.ops import autocast
from jitgrad.script.call import signature as sig
from jitgrad.script.call.entering import distinct, separate
from jitgrad.script.call.sources import OTHER_NUMBER, Unreadable, broken, elem_of, first_broken, resolve, type_of_tensor
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.graph.ir import symbol_axes

#: reasons to compile again that no single guard has: how they begin
SIZES = "sizes that were equal at the"
SIZE = "the size of a parameter that was"
SHARED = "a tensor that is written shares memory with another, and did not at the first call"
TWICE = "a tensor is found on two paths, and gradients are taken; at the first call it was not"


def still_assumed(reason: str) -> Assumed:
    """What is better assumed of sizes from then on: not again what such a reason says is not so."""
    if reason.startswith(SIZES) or OTHER_NUMBER in reason:
        return Assumed.NOTHING
    return Assumed.EQUAL if reason.startswith(SIZE) else Assumed.PARAMETERS


def other_modes(before: Any, grad_mode: bool = True) -> str:
    """Which mode is another than the one that a specialisation, or a program, has; the grad mode if it matters."""
    if grad_mode and is_grad_enabled() is not before.grad_mode:
        return f"the grad mode was {before.grad_mode}, is {not before.grad_mode}"
    if autocast.mode.low is not before.autocast:
        was, now = ("off" if d is None else f"on with {d}" for d in (before.autocast, autocast.mode.low))
        return f"autocast was {was}, is {now}"
    if get_default_dtype() is not before.default_dtype:
        return f"the default dtype was {before.default_dtype}, is {get_default_dtype()}"
    return ""


def mismatch(specialisation: Specialisation, values: dict[str, Any]) -> str:
    """The first assumption that a call breaks, in words."""
    problem = other_modes(specialisation) or first_broken(specialisation.assumptions, values, broken)
    if problem:
        return problem
    for (owner, name), found in specialisation.script.definitions.items():
        if found is sig.ABSENT and name in owner.__globals__:
            return f"`{name}` was the builtin"
        if found is not sig.ABSENT and operator.attrgetter(name)(owner) is not found:
            return f"`{owner.__qualname__}.{name}` was assigned"
    script = specialisation.script
    try:
        objects = [resolve(s, values) for s in script.inputs]
    except Unreadable as missing:
        return f"{missing}"
    return (sharing(script, specialisation.function.writes, objects) or other_sizes(script, objects, "first")
            or "something read on the way changed")


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


def other_sizes(script: sig.ScriptGraph, objects: Sequence[Any], call: str) -> str:
    """How the sizes of a call's inputs break what the first, or saved, call let assume, in words."""
    sizes: dict[Symbol, int] = {}
    constant: set[Symbol] = set()
    for found, type_ in zip(objects, script.input_types, strict=True):
        type_, found = (elem_of(type_), found[0]) if type(found) is list and found else (type_, found)
        own = {symbol: found.shape[axis] for axis, symbol in symbol_axes(type_)}
        sizes.update(own)
        constant.update(own if getattr(found, "_is_param", False) else ())
    for a, b in script.size_guards:
        now, then = evaluate(a, sizes), evaluate(b, sizes)
        if now != then:
            held = isinstance(b, int) and symbols(a) <= constant
            return f"{SIZE} {then} at the {call} call is {now}" if held else f"{SIZES} {call} call are {now} and {then}"
    sizes |= {symbol: objects[i] for symbol, i in script.int_symbols.items()}
    if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.trip_guards):
        return f"whether a loop runs at all decides the type of a variable, and it differs from the {call} call"
    return ""


def sharing(script: sig.ScriptGraph, written: Sequence[int], objects: Sequence[Any]) -> str:
    """Which of the inputs that a program takes to be separate are one tensor, or one memory, in words."""
    tensors = [(i, o) for i, o in enumerate(objects) if isinstance(o, type_of_tensor())]
    listed = [x for o in objects if type(o) is list for x in o if isinstance(x, type_of_tensor())]
    others = [x._data for x in (*[o for i, o in tensors if i not in written], *listed)]
    if not separate([objects[i]._data for i in written], others):
        return SHARED
    return "" if not script.distinct or distinct([o for _, o in tensors], listed) else TWICE
