"""What is a copy of what, where branches and iterations merge tensors and containers by what they hold.

A copy serves who reads it. A write to either end, and the question which object it is, begin the evaluation again with
`REFERENCES`: names then refer to the objects themselves.
"""

from collections.abc import Collection, Iterable
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import REFERENCES, Context, Restart

#: why a loop's copies are not written
SEVERAL = "a variable of a loop is one of several, and another variable too"


@dataclass(slots=True)
class Copies:
    """What one evaluation knows of its copies. A cell is a storage or a container.

    Attributes:
        shared: cells of which there is a copy that should be the same object, or which are one: why.
        chosen: merged storages that a branch or a loop makes stand for a tensor that the script was given.
        stands: which of these a merged storage may stand for, what a loop's variable is before the loop included.
        origins: what a cell after a loop is made of: it stands for these.
        copied: of what cells that were made before it a cell after a branch or a loop may be the copy.
        heads: cells that stand for what is there before an iteration.
        changed: cells of which a loop changes the copy that it has at its head, or what stands for that after a loop.
    """

    shared: dict[Any, str] = field(default_factory=dict)
    chosen: set[Any] = field(default_factory=set)
    stands: dict[Any, set[Any]] = field(default_factory=dict)
    origins: dict[Any, set[Any]] = field(default_factory=dict)
    copied: dict[Any, set[Any]] = field(default_factory=dict)
    heads: set[Any] = field(default_factory=set)
    changed: set[Any] = field(default_factory=set)


def of(context: Context) -> Copies:
    """The record of an evaluation."""
    return context.part(Copies)


def share(context: Context, why: str, *cells: Any) -> None:
    """Note that these are copies of others, or that there are copies of them: none may be written any more."""
    of(context).shared.update(dict.fromkeys(cells, why))


def written(context: Context, cell: Any) -> None:
    """A cell is about to be written: refused where it, or what it stands for after a loop, has a copy."""
    known = of(context)
    if cell in known.shared:
        raise changed(context, cell)
    if cell in known.heads:  # on a way out of the loop, too, after which nothing tells
        known.changed.add(cell)
    pending = [*known.origins.get(cell, ())] if not context.by_reference else []
    while pending:
        one = pending.pop()
        if one in known.shared:
            raise changed(context, one)
        known.changed.add(one)
        pending += known.origins.get(one, ())


def gone_over(context: Context, cell: Any) -> None:
    """A loop has gone over a container: where it changed a copy of that, the evaluation begins again."""
    known = of(context)
    if not context.by_reference and any(cell in known.copied.get(one, ()) for one in known.changed):
        raise Restart(REFERENCES, "a loop changes what it goes over by another name: names refer to the objects "
                                  "themselves")


def stand(context: Context, cells: Iterable[Any], originals: Iterable[Any], chosen: bool) -> None:
    """Note that copies stand for what of `originals` the script was given, or may stand for it before a loop."""
    known, originals = of(context), set(originals)
    for cell in cells:
        known.copied.setdefault(cell, set()).update(originals - {cell, None})
    given = {s for c in originals for s in known.stands.get(c, (c,) if getattr(c, "input", -1) >= 0 else ())}
    for cell in cells if given else ():
        known.stands[cell] = given
        if chosen:
            known.chosen.add(cell)


def identify(context: Context, value: Any) -> None:
    """Ask which object a tensor or a union is: where it may be a copy of one that the script was given, the evaluation
    begins again."""
    copied = value.storage in of(context).chosen if hasattr(value, "storage") else value.copied
    if copied and not context.by_reference:
        raise Restart(REFERENCES, "what a branch or loop chose is the very object: names refer to the objects "
                                  "themselves")


def tell_apart(context: Context, cells: Collection[Any]) -> None:
    """Which of these are one is seen: where two may be copies of one object, the evaluation begins again."""
    if context.by_reference:
        return
    known, whose = of(context).copied, dict[Any, Any]()
    for cell in cells:
        pending, seen = [cell], set[Any]()
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            if whose.setdefault(one, cell) is not cell:
                raise Restart(REFERENCES, "two may be one object: names refer to the objects themselves")
            pending += known.get(one, ())


def are_one(context: Context, a: Any, b: Any) -> None:
    """Whether two cells are one is asked: refused where one may be the copy of the other that a loop made."""
    tell_apart(context, (a, b))
    copy = one_of_several(context, {a, b})
    if copy is not None:
        raise _refused(context, "these may or may not be one object", copy)


def one_of_several(context: Context, cells: Iterable[Any]) -> Any:
    """Of cells, one that may be a loop's copy of another; None where none is."""
    shared, made = of(context).shared, [cell for cell in cells if getattr(cell, "input", -1) < 0]
    return next((cell for cell in made if len(made) > 1 and shared.get(cell) == SEVERAL), None)


def changed(context: Context, cell: Any) -> Exception:
    """A write to what has a copy: the evaluation begins again; there it is refused."""
    if not context.by_reference:
        return Restart(REFERENCES, "what a branch or loop chose is changed: names refer to the objects themselves")
    return _refused(context, "this change may or may not be one of another object", cell)


def _refused(context: Context, what: str, cell: Any) -> Exception:
    return UnsupportedCall(f"{what}: {of(context).shared[cell]}", context.span(),
                           hint="copy it where it is made: `x.clone()`, `list(x)`")


def endless(context: Context) -> Exception:
    """A copy of what holds itself: the evaluation begins again; where names refer to objects, it is refused."""
    if not context.by_reference:
        return Restart(REFERENCES, "an object holds itself: names refer to the objects themselves")
    return UnsupportedCall("a branch or a loop cannot copy an object that holds itself", context.span(),
                           hint="keep what refers back in a variable of its own")
