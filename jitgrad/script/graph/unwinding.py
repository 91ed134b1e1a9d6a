"""An exception leaves a program: what was changed before it, and is otherwise stored when the call ends, is stored.

The program says what by a `pending` node; whoever runs it puts the values of the last one, as a `Pending`, on the
exception, and the `Specialisation` takes it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pending:
    """What a `pending` node had to say when it ran.

    Attributes:
        recipe: its number among the recipes of the ScriptGraph.
        carried: which values have history in eager.
        hosted: which values are on the CPU, though the program runs on a GPU.
        values: arrays, numbers, lists of them, None: the node's inputs.
        more: what it adds to.
    """

    recipe: int
    carried: Sequence[int]
    hosted: Sequence[int]
    values: Sequence[Any]
    more: Pending | None

    def chain(self) -> list[Pending]:
        """This and what it adds to, the oldest first."""
        found: list[Pending] = []
        part: Pending | None = self
        while part is not None:
            found.append(part)
            part = part.more
        return found[::-1]


def take(error: BaseException) -> Pending | None:
    """What is pending at an exception; it is asked once."""
    found: Pending | None = error.__dict__.pop("_pending", None)
    return found
