"""Values that were joined of the two parts of complex numbers: what they were made of, so that nothing reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgrad.script.frontend.state.context import Context
from jitgrad.script.graph.ir import Value


def join(context: Context, value: Value, parts: tuple[Value, Value]) -> None:
    """Note of which two tensors a value has the elements along its last axis."""
    context.remember(("parts", value), parts)


def parts(context: Context, value: Value) -> tuple[Value, Value] | None:
    """The two tensors that a value was joined of, where that is known here."""
    found: tuple[Value, Value] | None = context.recall(("parts", value))
    return found


def selected(context: Context, value: Value, op: str, attrs: Mapping[str, Any]) -> Value | None:
    """The part that a view op takes of a joined value; None for another op. As eager's, the other part gets zeros for a
    gradient.
    """
    made = parts(context, value) if op == "select" else None
    if made is None or attrs["axis"] != len(value.type.dims) - 1:  # type: ignore[union-attr]
        return None
    part, other = made[attrs["index"]], made[1 - attrs["index"]]
    return context.one("overwrite", other, part) if context.grad and context.has_history(other) else part
