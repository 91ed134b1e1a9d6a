"""An exception leaves a program: what was changed before it, and is otherwise stored when the call ends, is stored.

The program says what by a `pending` node; whoever runs it puts the values of the last one, as a `Pending`, on the
exception, and the `Specialisation` takes it from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitgrad.eager.node import Node
from jitgrad.eager.tensor import wrap
from jitgrad.script import signature as sig

ENDED = ("this tensor was left behind by a compiled function that raised: its history ended with the exception. Take "
         "the gradient inside the function, or run it by `.eager`")


@dataclass(frozen=True, slots=True)
class Pending:
    """What a `pending` node had to say when it ran.

    Attributes:
        recipe: its number among the recipes of the ScriptGraph.
        carried: which values have history in eager.
        values: arrays, numbers, lists of them, None: the node's inputs.
        more: what it adds to.
    """

    recipe: int
    carried: Sequence[int]
    values: Sequence[Any]
    more: Pending | None

    def chain(self) -> Iterator[Pending]:
        """This and what it adds to, the oldest first."""
        if self.more is not None:
            yield from self.more.chain()
        yield self


def take(error: BaseException) -> Pending | None:
    """What is pending at an exception; it is asked once."""
    found: Pending | None = error.__dict__.pop("_pending", None)
    return found


def gather(pending: Pending, recipes: Sequence[Sequence[tuple[sig.Place, sig.Result]]], name: str
           ) -> tuple[tuple[int, ...], list[tuple[sig.Place, sig.Result]], list[Any]]:
    """Which recipes are followed, what is stored, and the objects that this is made of: its outputs."""
    stores: dict[sig.Place, sig.Result] = {}
    outputs: list[Any] = []
    identity = 0
    followed = []
    for part in pending.chain():
        followed.append(part.recipe)
        for place, result in recipes[part.recipe]:
            stores[place] = moved(result, len(outputs), identity)
        identity += 1 << 20
        outputs += [_object(v, k in part.carried, name) for k, v in enumerate(part.values)]
    return tuple(followed), list(stores.items()), outputs


def _object(value: Any, carried: bool, name: str) -> Any:
    """A value as the script's caller sees it."""
    if isinstance(value, list):
        return [_object(v, carried, name) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    tensor = wrap(np.array(value, order="C"))
    return Node(f"{name}Backward", (), _ended).attach(tensor) if carried else tensor


def _ended(cotangents: list[Any]) -> list[Any]:
    raise RuntimeError(ENDED)


def moved(result: sig.Result, by: int, identity: int) -> sig.Result:
    """`result` with its outputs counted from `by`, and its shared objects from `identity`."""

    def items(results: Sequence[sig.Result]) -> tuple[sig.Result, ...]:
        return tuple([moved(r, by, identity) for r in results])

    def shared(number: int) -> int:
        return number if number < 0 else number + identity

    match result:
        case sig.Output(index):
            return sig.Output(index + by)
        case sig.Leaf(index, grad):
            return sig.Leaf(index + by, moved(grad, by, identity))
        case sig.ViewOf(index, path, sizes, made):
            return sig.ViewOf(index + by * made, path, {s: i + by for s, i in sizes.items()}, made)
        case sig.Container() | sig.Object():
            return replace(result, items=items(result.items), identity=shared(result.identity))
        case sig.Select(condition, if_true, if_false):
            return sig.Select(condition + by, moved(if_true, by, identity), moved(if_false, by, identity))
        case sig.Repeated(leaves, item, number):
            return sig.Repeated(tuple(k + by for k in leaves), item, shared(number))
        case sig.OneOf(tag, results):
            return sig.OneOf(tag + by, items(results))
        case sig.Text(parts):
            return sig.Text(tuple(p if isinstance(p, str) else (moved(p[0], by, identity), *p[1:]) for p in parts))
    return result


