"""Control flow, numbers at joins, sequences, optionals and effects as steps; inputs and outputs of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitgrad.codegen.access import contiguous_strides
from jitgrad.codegen.program import Buffer, CallStep, NumberStep, Ref
from jitgrad.dims import Size
from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Node, Value, walk

if TYPE_CHECKING:
    from jitgrad.codegen.lower import BlockLowering, Lowering


class Records:
    """What is known of values that are not one tensor or number."""


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """An array: written in place (`ref` of kind "output") where its sizes are known at entry."""

    ref: Ref
    fresh: bool
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class NumberOutput:
    value: Value


def bind_inputs(state: Lowering) -> None:
    """Windows on the inputs' memory."""
    for i, value in enumerate(state.graph.inputs):
        if isinstance(value.type, TensorType):
            buffer = state.input_buffers[i] = Buffer(value.type.dtype, 0, "input", i)
            state.refs[value] = Ref(buffer, 0, value.type.dims, contiguous_strides(value.type.dims))


def plan_outputs(state: Lowering) -> list[Any]:
    """Let results be computed in the arrays that the launcher makes for them."""
    outputs: list[Any] = []
    for i, value in enumerate(state.graph.outputs):
        if isinstance(value.type, TensorType) and state.known_at_entry(value.type.dims):
            type_ = value.type
            buffer = Buffer(type_.dtype, 0, "output", i)
            ref = Ref(buffer, 0, type_.dims, contiguous_strides(type_.dims))
            state.dest.setdefault(value, ref)
            outputs.append(TensorOutput(ref, True, type_.dims))
        else:
            outputs.append(None)
    return outputs


def store_outputs(state: Lowering, outputs: list[Any]) -> None:
    """Copy results that were not computed in place."""
    for i, value in enumerate(state.graph.outputs):
        if isinstance(value.type, TensorType):
            planned = outputs[i]
            if planned is None:
                outputs[i] = TensorOutput(state.contiguous(value), False, value.type.dims)
                continue
            ref = state.refs.get(value)
            if ref is None or ref.buffer is not planned.ref.buffer:
                state.copy_into(value, planned.ref)
        else:
            outputs[i] = NumberOutput(value)


def order_commits(block: BlockLowering) -> None:
    """Keep writes to inputs behind the reads of what was there."""


def item(state: Lowering, node: Node) -> None:
    register = state.register(node.inputs[0])
    state.emit(NumberStep(Node("item", (register,), node.attrs, node.outputs)))


def number(state: Lowering, node: Node) -> None:
    state.emit(NumberStep(node))


def check(state: Lowering, node: Node) -> None:
    values = tuple(state.ref(v) if isinstance(v.type, TensorType) else v for v in node.inputs[1:])
    state.emit(CallStep(state.site("check", node), "check", node.inputs[0], values))


RULES: dict[str, Callable[[Any, Node], None]] = {"item": item, "dim.value": number, "dim.bind": number, "check": check}

__all__ = ["RULES", "Records", "bind_inputs", "order_commits", "plan_outputs", "store_outputs", "walk"]
