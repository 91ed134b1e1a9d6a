"""What leaves a running program: texts, exceptions, and what was changed before one and is otherwise stored at the end.

Texts and arguments of exceptions are templates over values. What is pending at an exception a `pending` node says;
whoever runs it puts the values of the last one, as a `Pending`, on the exception, and the `Specialisation` takes it
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.ops.texts import is_array, render, tensor_of


def exception(error: type[BaseException], template: Sequence[Any] | None, values: Sequence[Any]) -> BaseException:
    """The exception of a `check`: without arguments, of one text, or (a template that starts with None) of several."""
    if template is None:
        return error()
    if len(template) and template[0] is None:
        return error(*[_argument(a, values) for a in template[1:]])
    return error(render(template, values))


def _argument(stated: Any, values: Sequence[Any]) -> Any:
    """One argument: a value by its number, None, or ("text" | "tuple" | "list", *parts)."""
    if stated is None:
        return None
    if isinstance(stated, int):
        value = values[stated]
        return tensor_of(value.copy()) if is_array(value) else value
    kind, *parts = stated
    if kind == "text":
        return render(parts, values)
    found = [_argument(a, values) for a in parts]
    return found if kind == "list" else tuple(found)


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
