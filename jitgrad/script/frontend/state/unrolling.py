"""Loops that are unrolled where a script would be refused with them.

What a loop brings together must be of one type, and which item of a list of run-time length a change means is known
only at run time; in a loop that is unrolled each iteration is code of its own, and lists that it fills are of known
length. So before a script is refused, evaluation begins again with those loops unrolled whose number of iterations is
known when the script is entered, and guarded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.dims import call
from jitgrad.errors import NotStatic, ScriptError
from jitgrad.script.frontend.state import pooling
from jitgrad.script.frontend.state.context import SHORT_LOOPS, Context, Restart

#: the most iterations that are unrolled, those of loops inside one another multiplied
UNROLL_LIMIT = 64
#: an evaluation before had a loop to unroll
POSSIBLE = ("a loop to unroll",)


class Unrolling:
    """What an evaluation knows of its loops: whether one could be unrolled, and how often what is inside repeats."""

    def __init__(self) -> None:
        self.possible = False
        self.repeated = 1


def trips(context: Context, length: Any, wanted: bool = False) -> int | None:
    """How many iterations of a loop are unrolled; None where it stays a loop. `wanted`: it cannot stay one."""
    known, entry, number = context.part(Unrolling), None, length
    if not isinstance(length, int):
        entry = context.inputs.entry_size(length)
        if entry is None:
            return None
        number = max(entry[1], 0)
    if number * known.repeated > UNROLL_LIMIT:
        return None
    known.possible = True
    if not wanted and SHORT_LOOPS not in context.decisions:
        return None
    if entry is not None:
        context.sizes.trips.append((call("max", entry[0], 0), number))
    return int(number)


@contextmanager
def repeated(context: Context, trips: int) -> Iterator[None]:
    """What is evaluated inside is repeated so often."""
    known = context.part(Unrolling)
    before, known.repeated = known.repeated, known.repeated * max(trips, 1)
    try:
        yield
    finally:
        known.repeated = before


def goes_on(context: Context, iterable: Any, k: int) -> bool:
    """Whether item k of an `Iterable` is there by now, where iterations one by one may change it. Raises NotStatic."""
    if k >= iterable.now(context):
        return False
    if k >= iterable.length + UNROLL_LIMIT:
        raise NotStatic("this loop makes what it goes over longer, for more iterations than are unrolled",
                        context.span(), hint="loop over a copy: `for x in xs.copy()`")
    return True


def found_out(context: Context) -> set[Any]:
    """What a refused evaluation says to later ones: whether it had a loop to unroll."""
    return {POSSIBLE} if context.part(Unrolling).possible else set()


def instead(context: Context, refusal: ScriptError) -> Restart | None:
    """The evaluation that may do without a refusal, if there is a loop to unroll; where pools for all objects were the
    reason not to come to it, without these."""
    possible = context.part(Unrolling).possible
    if SHORT_LOOPS in context.decisions or not (possible or POSSIBLE in context.decisions):
        return None
    return Restart(SHORT_LOOPS, f"unrolled the loops of at most {UNROLL_LIMIT} iterations: {refusal.message}",
                   of_call=True, replaces=None if possible else pooling.OBJECTS)
