"""Lists as steps. A list is a sequence that grows; `linear` has seen to it that who changes one may do so in place.

The memory of an element that is a tensor is written once: a list that replaces or drops it forgets only where it is, so
a tensor read from a list stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.codegen.lower.rules.joins import constant, number
from jitgrad.codegen.lower.rules.sequences import columns_of, read_element, write_element
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.sequence_steps import SeqCopy, SeqLength, SeqReach, SeqStart
from jitgrad.codegen.program.step import Column
from jitgrad.codegen.program.steps import Assign
from jitgrad.ops.types import INT, ListType, OptionalType
from jitgrad.script.graph.ir import Node, Value


def _columns(value: Value) -> tuple[Column, ...]:
    assert isinstance(value.type, ListType)
    return tuple(columns_of(value.type.elem, lambda t: False))


def _is_sparse(value: Value) -> bool:
    """Whether elements may be absent."""
    return isinstance(value.type, ListType) and isinstance(value.type.elem, OptionalType)


def _length(state: Lowering, value: Value) -> Value:
    out = Value(INT)
    state.emit(SeqLength(value, out=out))
    return out


def list_new(state: Lowering, node: Node) -> None:
    state.emit(SeqStart(node.output, _columns(node.output), None))


def list_copy(state: Lowering, node: Node) -> None:
    state.emit(SeqCopy(node.inputs[0], _columns(node.output), node.output))


def list_put(state: Lowering, node: Node) -> None:
    """Set element k, or append it."""
    elements, k, value = node.inputs
    columns = _columns(elements)
    state.emit(SeqReach(elements, columns, k, _is_sparse(elements)))
    write_element(state, elements, columns, 0, k, value)
    state.emit(Assign(((node.output, elements),)))


def list_take(state: Lowering, node: Node) -> None:
    """Forget what comes after the first k elements."""
    elements, k = node.inputs
    least = number(state, "num.max", k, constant(state, 0))
    state.emit(SeqLength(elements, k=number(state, "num.min", _length(state, elements), least)))
    state.emit(Assign(((node.output, elements),)))


def list_get(state: Lowering, node: Node) -> None:
    elements, k = node.inputs
    inside = number(state, "num.lt", k, _length(state, elements)) if _is_sparse(elements) else None
    read_element(state, elements, k, node.output, set(node.binds), inside)


def list_len(state: Lowering, node: Node) -> None:
    state.emit(SeqLength(node.inputs[0], out=node.output))


RULES: dict[str, Callable[[Any, Node], None]] = {
    "list.new": list_new, "list.copy": list_copy, "list.put": list_put, "list.take": list_take, "list.get": list_get,
    "list.len": list_len,
}
