"""What one evaluation knows of the gradients that were taken in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jitgrad.errors import Span
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.graph.ir import Block, Value


@dataclass(slots=True)
class Gradients:
    """The gradients of one evaluation.

    Attributes:
        asked: parameters with respect to which a gradient was taken, and where.
        asked_apart: of those the first, and a second on which the loss depends: it must not be made from the first.
        variables: parameter of a loop's body -> what the loop carries of gradients, and the variable that it is.
        freed: values whose history a gradient freed -> the block where it was taken.
        levels: stand-ins of the transforms around.
    """

    asked: dict[Value, Span | None] = field(default_factory=dict)
    asked_apart: dict[tuple[Value, Value], Span | None] = field(default_factory=dict)
    variables: dict[Value, tuple[Any, str]] = field(default_factory=dict)
    freed: dict[int, Block] = field(default_factory=dict)
    levels: list[Value] = field(default_factory=list)


def of(context: Context) -> Gradients:
    """The record of an evaluation."""
    return context.part(Gradients)
