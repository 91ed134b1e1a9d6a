"""Run-time loops: what the body changes is carried; the head's types are found by a bounded fixpoint.

The body is evaluated with the head's variables as parameters until its end fits its head (numbers that the body
assigns start as run-time numbers; sizes that change become symbols of the block). An evaluation that did not fit is
thrown away: it has touched only the graph block and the state's copy. A loop remembers the head it ended with, so that
a nest of n loops evaluates its innermost body n + 1 times, not 2^n.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.dims import Symbol, call, dim, substitute
from jitgrad.errors import TypeMismatch
from jitgrad.ops.types import BOOL, INT, map_dims
from jitgrad.script.frontend.evaluate import merge
from jitgrad.script.frontend.evaluate.carried.heads import Head, Peel
from jitgrad.script.frontend.evaluate.carried.reference_heads import ReferenceHead
from jitgrad.script.frontend.state import copies, dispatch, effects, versions
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.values import numbers, writing
from jitgrad.script.frontend.values.values import Number, SymList
from jitgrad.script.graph.ir import Block, Value

PASSES = 8
#: after how many of them all that still changes is widened at once
WIDEN = 3


class NoTrip(Exception):
    """The loop does not run at the first call, and that decides the types after it: guarded, the loop is left out."""


def require_trip(context: Context, trips: Any) -> bool:
    """Guard that a loop runs at least once, if its length is known at entry; whether it is. Raises NoTrip where it does
    not run."""
    if not isinstance(trips, Number):
        return False
    found = context.inputs.entry_size(trips)
    if found is None:
        return False
    size, hint = found
    if hint < 1:
        context.sizes.trips.append((call("max", size, 0), 0))
        raise NoTrip
    context.sizes.trips.append((call("max", size, 1), size))
    return True


def run(context: Context, *, key: Any, names: frozenset[str], assigned: frozenset[str],
        rebound: frozenset[str], body: Callable[[Number | None], Any], trips: Any, first: Any) -> None:
    """Emit a loop.

    Args:
        key: identifies the loop across evaluations.
        names: names read at its head or after it.
        assigned: names that its body binds.
        rebound: those of them that it binds by other means than an augmented assignment.
        body: evaluates one iteration given the counter (for a `scan`) or None; for a `while` returns whether to go on.
        trips: number of iterations (a Number or int) of a `scan`; None for a `while`.
        first: for a `while`, whether to enter.
    """
    losses = dispatch.begin_loop(context, key, assigned)
    names, assigned, rebound = names | losses.names, assigned | losses.names, rebound | losses.names
    body = losses.body(context, body)
    entry = context.state
    head = (ReferenceHead if context.by_reference else Head)(context, entry, key)
    head.start(names, assigned, rebound)
    frame, node, modes = context.frame, context.node, context.modes
    saves = versions.of(context).count
    for count in range(PASSES):
        versions.of(context).count = saves  # the body's have the same numbers in each
        block = Block()
        state = entry.copy()
        for name in assigned - names:
            state.values.pop((frame.id, name), None)
        for k in [k for k in state.values if isinstance(k, tuple) and k[0] == "clean"]:
            del state.values[k]
        context.state = state
        listed = len(context.listed)
        with context.block(block, loop=True):
            params = head.enter(state)
            block.params = params  # gradients are taken with respect to them
            context.bodies_open[block] = head.first
            losses.enter(context, head.variables)
            begin = State(state.values.copy())
            counter = None
            lead: tuple[Value, ...] = ()
            if trips is not None:
                lead = (Value(INT, "k"),)
                counter = Number(context, lead[0])
                numbers.bounded(counter, 0, trips)
            context.bodies += 1
            dead = False
            go_on: Any = False
            try:
                go_on = body(counter)
            except effects.Raised:
                dead = True
                context.frame, context.node, context.modes = frame, node, modes
            end = begin if dead else context.state
            head.passes = count + 1
            writing.begin_faces(context, entry, end.values, context.path[-2], head.widen.sees)
            writing.begin_faces(context, end, entry.values, block, head.widen.sees)
            try:
                changed = head.carry_nothing() if dead else head.grow(begin, end, names) or _newly_listed(
                    context, entry, listed)
            except Peel:
                context.state = entry
                raise
            if changed:
                if count >= PASSES - 2:
                    raise head.unsettled_error()
                if count == WIDEN - 1:
                    head.widen_views(begin)
                continue
            results = head.lower(end)
            if trips is None:
                results = [numbers.value_of(context, go_on if isinstance(go_on, Number) else bool(go_on)), *results]
            block.params = lead + params
            block.results = tuple(results)
            block.binds = merge.bound_by([p.type for p in params], head.widen.fresh)
            break
    head.remember()
    context.state, context.node = entry, node
    if head.weak and first is not True and not (trips > 0 if isinstance(trips, int) else require_trip(context, trips)):
        raise Peel
    carries = head.lower(entry)
    dispatch.settle_loop(context, block, results[len(results) - len(params):], carries)
    _emit(context, head, block, carries, trips, first)
    if dead:  # what comes after it has seen no iteration
        context.state = entry
    else:
        ran = first is True or (isinstance(trips, int) and trips > 0)
        for *sides, after in head.successors(end):
            copies.stand(context, [after], sides[ran:], after in copies.of(context).chosen)
            copies.of(context).origins[after] = {s for s in sides if s is not None and s is not after}
    losses.forget(context)


def run_while(context: Context, first: Any, body: Callable[[Number | None], Any], *, key: Any, names: frozenset[str],
              assigned: frozenset[str], rebound: frozenset[str], peeled: int = 0) -> None:
    """Emit a `while` (see `run`). Where a variable is a number before it and a tensor after an iteration, the first
    iteration stands before it, under the condition to enter.
    """
    try:
        run(context, key=key, names=names, assigned=assigned, rebound=rebound, body=body, trips=None, first=first)
        return
    except Peel:
        if peeled == PASSES:
            raise TypeMismatch("a variable of this loop is a number and a tensor by turns", context.span(),
                               hint="give it its final type before the loop") from None
    context.log.append(f"peeled the first iteration of the loop at {context.span()}")

    def once() -> None:
        go_on = body(None)
        if go_on is not False:
            run_while(context, go_on, body, key=(key, "rest"), names=names, assigned=assigned, rebound=rebound,
                      peeled=peeled + 1)

    merge.branch(context, first, once, lambda: None, names)


def _newly_listed(context: Context, entry: State, before: int) -> bool:
    """Whether the body put a tensor or list that was there before the loop into a list: writes to it are refused from
    then on, also those that the body does earlier."""
    return any(s in entry.values or (s.source is not None if isinstance(s, SymList) else s.input >= 0)
               for s in list(context.listed)[before:])


def _emit(context: Context, head: Head, block: Block, carries: list[Value], trips: Any, first: Any) -> None:
    fresh = {s: Symbol(not_one=s.not_one) for s in block.binds}
    mapping = {old: dim(new) for old, new in fresh.items()}
    carried = block.params if trips is None else block.params[1:]
    types = [map_dims(p.type, lambda d: substitute(d, mapping)) for p in carried]
    binds = tuple(fresh.values())
    if trips is None:
        condition = numbers.value_of(context, first)
        assert condition.type == BOOL
        outputs = context.builder.emit("while", (condition, *carries), blocks=(block,), types=(INT, *types),
                                       binds=binds)[1:]
    else:
        outputs = context.builder.emit("scan", (numbers.value_of(context, trips), *carries), blocks=(block,),
                                       types=types, binds=binds, n_carries=len(carries), reverse=False)
    context.mark_history(outputs, [context.has_history(p) for p in carried])
    context.state = head.leave(list(outputs), fresh)
