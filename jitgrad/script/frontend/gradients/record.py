"""What one evaluation knows of the gradients that were taken in it."""

from collections.abc import Sequence
from typing import Protocol

from jitgrad.classes import dataclass, field
from jitgrad.errors import Span
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.graph.ir import Block, Value

#: a gradient and whether it was reached (True, or a bool of the graph); None if it is not
Answer = tuple[Value, Value | bool] | None


class CarriedGradients(Protocol):
    """The gradients that a loop carries of its variables (`carried_losses.Losses`)."""

    def gradient_of(self, context: Context, name: str, loss: Value, seed: Value, wrt: Sequence[Value], retain: bool,
                    all_leaves: bool) -> list[Answer] | None:
        """The gradient of what a variable was at the loop's head; None if this is another gradient."""


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
    variables: dict[Value, tuple[CarriedGradients, str]] = field(default_factory=dict)
    freed: dict[int, Block] = field(default_factory=dict)
    levels: list[Value] = field(default_factory=list)


def of(context: Context) -> Gradients:
    """The record of an evaluation."""
    return context.part(Gradients)
