"""What is a copy of what, where branches and iterations merge tensors and containers by what they hold.

A copy serves who reads it. A write to either end, and the question which object it is, begin the evaluation again with
`REFERENCES`: names then refer to the objects themselves.
"""

from collections.abc import Iterable, Set
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import REFERENCES, Context, Restart


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


def leave(context: Context, cells: Set[Any]) -> None:
    """These leave the script: where one may be the copy of another, the evaluation begins again."""
    known = of(context).copied
    for cell in cells if not context.by_reference else ():
        pending, seen = [*known.get(cell, ())], set[Any]()
        while pending:
            one = pending.pop()
            if one in cells:
                raise Restart(REFERENCES, "of results one may be another: names refer to the objects themselves")
            if one not in seen:
                seen.add(one)
                pending += known.get(one, ())


def changed(context: Context, cell: Any) -> Exception:
    """A write to what has a copy: the evaluation begins again; there it is refused."""
    if not context.by_reference:
        return Restart(REFERENCES, "what a branch or loop chose is changed: names refer to the objects themselves")
    return UnsupportedCall(f"this change may or may not be one of another object: {of(context).shared[cell]}",
                           context.span(), hint="copy it where it is made: `x.clone()`, `list(x)`")


def endless(context: Context) -> Exception:
    """A copy of what holds itself: the evaluation begins again; where names refer to objects, it is refused."""
    if not context.by_reference:
        return Restart(REFERENCES, "an object holds itself: names refer to the objects themselves")
    return UnsupportedCall("a branch or a loop cannot copy an object that holds itself", context.span(),
                           hint="keep what refers back in a variable of its own")
