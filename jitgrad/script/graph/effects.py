"""What leaves a running program: texts, exceptions, and what was changed before one and is otherwise stored at the end.

Texts and arguments of exceptions are templates over values. What is pending at an exception a `pending` node says;
whoever runs it puts the values of the last one, as a `Pending`, on the exception, and the `Specialisation` takes it
from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jitgrad.ops.backend import backend

_CONVERSIONS: dict[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}


def render(template: Sequence[Any], values: Sequence[Any]) -> str:
    """The text of a `check` or `print`: literal parts, and (index, conversion, format) of values.

    A conversion is "s", "r", "a" or "", or the texts of which an int chooses one. After its letter it may say what is
    shown of a tensor besides its elements (see `Tensor._text`).
    """
    parts = []
    for part in template:
        if isinstance(part, str):
            parts.append(part)
            continue
        index, conversion, spec = part
        value = values[index]
        if _is_array(value):
            value = _tensor(value)
        if isinstance(conversion, tuple):
            value = conversion[value]
        elif conversion:
            value = value._text(conversion[1:]) if conversion[1:] else _CONVERSIONS[conversion](value)
        parts.append(format(value, spec))
    return "".join(parts)


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
        return _tensor(value.copy()) if _is_array(value) else value
    kind, *parts = stated
    if kind == "text":
        return render(parts, values)
    found = [_argument(a, values) for a in parts]
    return found if kind == "list" else tuple(found)


def _is_array(value: Any) -> bool:
    """Whether a value is an array, of any library, and no tensor."""
    return hasattr(value, "dtype") and not hasattr(value, "requires_grad")


class _Shown(threading.local):
    where: Any = None


_shown = _Shown()


@contextmanager
def tensors_on(where: Any) -> Iterator[None]:
    """Inside, what is printed and raised has tensors of this device: of a program that is interpreted on the host."""
    before, _shown.where = _shown.where, where
    try:
        yield
    finally:
        _shown.where = before


def _tensor(array: Any) -> Any:
    """The eager tensor of an array, on its device, that formats as the user expects."""
    found = backend().from_data(array, None)
    return found if _shown.where is None else found.to(_shown.where)


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
