"""Whether a saved program takes a call, and the program for a call that it takes.

A program that was saved where gradients are recorded also runs where fewer are asked for (`no_grad`, a frozen
parameter), unless it looks at the grad mode or at `requires_grad`. It never runs where more are asked for.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.script.autodiff.flow import Flow, reachable
from jitgrad.script.call import signature as sig
from jitgrad.script.call.mismatch import other_modes, other_sizes, sharing
from jitgrad.script.call.sources import Unreadable, broken, first_broken, resolve, tensor_key, type_of_tensor
from jitgrad.script.graph.ir import Graph, Node, Value, committed, rewritten
from jitgrad.script.stored.records import Program


def distance(program: Program, values: dict[str, Any]) -> int:
    """How much more a program records than a call asks for: the closest comes first."""
    if program.grad_mode is not is_grad_enabled():
        return 1 << 30
    if not program.grad_mode:
        return 0
    return sum(g.value.requires_grad for g in (*program.arguments, *program.script.guards) if g.kind == "tensor"
               and not _needs_grad(g.source, values))


def _needs_grad(source: sig.Source, values: dict[str, Any]) -> bool:
    try:
        return bool(getattr(resolve(source, values), "requires_grad", False))
    except Unreadable:
        return False


def refusal(program: Program, values: dict[str, Any]) -> str:
    """Why a program does not take a call, in words; "" where it does."""
    exact = program.script.gradient_state
    guards = (*program.arguments, *program.script.guards)
    return (program.refusal or other_modes(program, exact or not program.grad_mode)
            or first_broken(guards, values, lambda guard, found: _problem(guard, found, exact))
            or _inputs_refused(program.script, [resolve(s, values) for s in program.script.inputs]))


def _inputs_refused(script: sig.ScriptGraph, objects: Sequence[Any]) -> str:
    written = [i for i in committed(script.graph.block) if isinstance(objects[i], type_of_tensor())]
    return sharing(script, written, objects) or other_sizes(script, objects, "saved")


def _problem(guard: sig.Guard, found: Any, exact: bool) -> str:
    value = guard.value
    if guard.kind == "type" and hasattr(value, "_fields"):  # a named tuple is known by its fields
        same = getattr(found, "_fields", None) == value._fields
        return "" if same else f"was a named tuple {value.__name__}{value._fields}"
    if guard.kind == "tensor" and not exact and isinstance(found, type_of_tensor()):
        recorded = is_grad_enabled()
        if not recorded or (value.requires_grad and not found.requires_grad):
            value = replace(value, requires_grad=tensor_key(found).requires_grad)
    return broken(replace(guard, value=value), found)


def adapted(program: Program, values: dict[str, Any]) -> sig.ScriptGraph:
    """The program for a call that it takes: its guards ask for the needs-gradient flags of this call."""
    script = program.script
    guards, changed = [], program.grad_mode is not is_grad_enabled()
    for guard in script.guards:
        if guard.kind == "tensor":
            key = replace(guard.value, requires_grad=_needs_grad(guard.source, values))
            changed |= key != guard.value
            guard = replace(guard, value=key)
        guards.append(guard)
    changed |= any(g.value.requires_grad and not _needs_grad(g.source, values) for g in program.arguments
                   if g.kind == "tensor")
    differentiable = script.differentiable
    if changed and differentiable is not None:
        wanted = [i for i, s in enumerate(script.inputs) if _needs_grad(s, values)]
        flow = Flow(script.graph, (), ())
        reached = reachable([script.graph.inputs[i] for i in wanted], flow.forward)
        differentiable = tuple(i for i in differentiable if script.graph.outputs[i] in reached)
        graph = _with_history(script.graph, reached)
        return replace(script, guards=guards, differentiable=differentiable, graph=graph)
    return replace(script, guards=guards)


def _with_history(graph: Graph, reached: set[Value]) -> Graph:
    """`graph` where what an exception stores has history only if it is among `reached`."""
    def known(n: Node) -> list[Node]:
        carried = tuple(k for k in n.attrs["carried"] if n.inputs[k] in reached)
        return [replace(n, attrs={**n.attrs, "carried": carried})]

    return rewritten(graph, lambda n: n.op == "pending", known)
