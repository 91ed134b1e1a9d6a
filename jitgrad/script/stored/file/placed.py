"""Saved programs on other devices: a program moves as a whole, with every tensor that it is given, makes and returns.

The graph knows no devices; what does is beside it: where it runs, which results go back to the CPU, on which devices
its inputs were. A program that has looked at a device (`x.is_cuda`) stays where it was.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from jitgrad.device import CPU, device
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import Unreadable, resolve, type_of_tensor
from jitgrad.script.stored.records import Program


def labels(program: Program) -> set[device]:
    """The devices of a program: where it runs, and where the tensors are that it is given."""
    found = {g.value.device for g in (*program.arguments, *program.script.guards) if g.kind == "tensor"}
    return found | {program.script.device}


def moved(program: Program, there: Mapping[device, device]) -> Program:
    """The program where its tensors go from each of its devices; with a `refusal` where it cannot be there.

    What a program on a GPU brings to the CPU by itself, though nothing that it is given is there, goes there still.
    """
    script, own = program.script, labels(program)
    there = {where: there.get(where, where) for where in own}
    if all(where == target for where, target in there.items()):
        return program
    used = set(there.values())
    gpus = sorted(str(where) for where in used - {CPU})
    if len(gpus) > 1:
        return replace(program, refusal=f"it would have tensors on two GPUs, {gpus[0]} and {gpus[1]}")
    if script.device_state:
        return replace(program, refusal=f"it was compiled for {script.device} and looks at where its tensors are, so "
                                        "that it cannot run elsewhere")
    runs = device(gpus[0]) if gpus else CPU
    back = script.on_host if gpus and there.get(CPU, CPU) == CPU else ()
    guards = [_moved(g, there) for g in script.guards if not isinstance(g.source, sig.Machine) or g.source.fact not in (
        "current", "default", "named")]  # which asked where tensors go: that is settled now
    return replace(program, arguments=[_moved(g, there) for g in program.arguments], script=replace(
        script, guards=guards, device=runs, on_host=back, result=_relabelled(script.result, there),
        stores=_relabelled(script.stores, there), recipes=_relabelled(script.recipes, there)))


def _relabelled(value: Any, there: Mapping[device, device]) -> Any:
    """A result with the devices in it moved."""
    if isinstance(value, device):
        return there.get(value, value)
    if type(value) in (tuple, list):
        return type(value)([_relabelled(v, there) for v in value])
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _relabelled(getattr(value, f.name), there) for f in fields(value)})
    return value


def _moved(guard: sig.Guard, there: Mapping[device, device]) -> sig.Guard:
    value = guard.value
    if guard.kind == "tensor":
        return replace(guard, value=replace(value, device=there.get(value.device, value.device)))
    if guard.kind == "equal" and isinstance(value, device):
        return replace(guard, value=there.get(value, value))
    return guard


def following(program: Program, values: dict[str, object]) -> Program:
    """The program on the devices that a call's tensors are on; as it is where they do not say one for each of its own.
    """
    there: dict[device, device] = {}
    for guard in (*program.arguments, *program.script.guards):
        if guard.kind != "tensor":
            continue
        try:
            found = resolve(guard.source, values)
        except Unreadable:
            return program
        if not isinstance(found, type_of_tensor()):
            return program
        if there.setdefault(guard.value.device, found.device) != found.device:
            return program
    return moved(program, there)
