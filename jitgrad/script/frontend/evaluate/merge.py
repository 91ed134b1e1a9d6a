"""Run-time branches: both sides are evaluated, what differs and is live afterwards is merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jitgrad.dims import Symbol, symbols
from jitgrad.errors import Span, TypeMismatch
from jitgrad.ops.types import OptionalType, TensorType
from jitgrad.script.frontend.state import copies, effects, paths
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.templates import locations, pools, run_lists
from jitgrad.script.frontend.templates.alternatives import Either, Same, placeholders
from jitgrad.script.frontend.templates.identities import Identities, cell_of, given
from jitgrad.script.frontend.templates.of_values import content_template, record, template_of
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.references import CHOSEN, Outside, as_copies, copied
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.sizes import Widener
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers, symnumbers, writing
from jitgrad.script.frontend.values.protocol import type_word
from jitgrad.script.frontend.values.values import (HELD, UNBOUND, Instance, Number, RunItems, Storage, SymDict, SymList,
                                                   SymTensor, is_held)
from jitgrad.script.graph.ir import Block, Node, Value, sizes_of
from jitgrad.script.graph.irops import GUARDED, Effect, effect

RESULT = "result of the expression"


class _Side:
    """One evaluated side of a branch."""

    __slots__ = ("block", "dead", "result", "state")

    def __init__(self, context: Context, entry: State, run: Callable[[], Any], condition: Value, outcome: bool):
        self.block, self.state = Block(), entry.copy()
        self.dead = False
        self.result: Any = None
        context.state = self.state
        with context.block(self.block):
            symnumbers.learn(context, condition, outcome)
            try:
                self.result = run()
            except effects.Raised:
                self.dead = True
        self.state = context.state


def branch(context: Context, condition: Number | bool, then: Callable[[], Any], other: Callable[[], Any],
           live: frozenset[str] | None = None) -> Any:
    """Evaluate both sides under a run-time condition and merge; the merged result of the two callables. Of a condition
    that is known, one side.

    `live`: names of the current frame that are read later; None: all of them.
    """
    if isinstance(condition, bool):
        return then() if condition else other()
    if condition.denies is not None:
        condition, then, other = numbers.wrap(context, condition.denies), other, then
    steps = [s for s in context.steps if s.block is context.builder.block]
    for step in steps:
        known = step.opens(condition)
        if known is not None:
            return then() if known else other()
    try:
        return _branch(context, condition, then, other, live)
    finally:
        for step in steps:
            step.open = None


def _branch(context: Context, condition: Number, then: Callable[[], Any], other: Callable[[], Any],
            live: frozenset[str] | None) -> Any:
    entry, mark = context.state, Symbol().number
    frame, node, modes = context.frame, context.node, context.modes
    sides = []
    for run, outcome in ((then, True), (other, False)):
        sides.append(_Side(context, entry, run, condition.value, outcome))
        context.frame, context.node, context.modes = frame, node, modes
    if sides[0].dead or sides[1].dead:
        return _dead(context, condition, sides)
    step = next((s for s in reversed(context.steps) if s.ends_apart(context)), None)
    try:
        return _merge(context, condition.value, sides, live, Widener(context, mark, apart=step is not None))
    except TypeMismatch as refusal:
        if step is None:
            raise
        context.paths += 1
        raise step.split(and_rest=True) from refusal


def _dead(context: Context, condition: Number, sides: list[_Side]) -> Any:
    """One side raises: it stays in the branch, the other goes on in the block around it."""
    if sides[0].dead and sides[1].dead:
        context.builder.emit("if", (condition.value,), blocks=(sides[0].block, sides[1].block), types=())
        raise effects.Raised
    dead, alive = (sides[0], sides[1]) if sides[0].dead else (sides[1], sides[0])
    parent = context.builder.block
    if not _as_check(context, condition, dead, when=sides[0].dead):
        blocks = (dead.block, Block()) if dead is sides[0] else (Block(), dead.block)
        context.builder.emit("if", (condition.value,), blocks=blocks, types=())
    parent.nodes.extend(alive.block.nodes)
    context.state = alive.state
    return alive.result


def _as_check(context: Context, condition: Number, dead: _Side, when: bool) -> bool:
    """A side that only raises is a check of the condition."""
    *before, last = dead.block.nodes
    if last.op != "check" or not isinstance(last.inputs[0], Value):
        return False
    if any((effect(n.op, n.attrs) is not Effect.NONE and n.op != "pending") or n.blocks or n.op in GUARDED
           for n in before):
        return False
    context.builder.block.nodes.extend(before)
    wanted = numbers.negate(context, condition) if when else condition
    context.builder.block.nodes.append(Node("check", (wanted.value, *last.inputs[1:]), last.attrs, (), (), last.span))
    return True


def _merge(context: Context, condition: Value, sides: list[_Side], live: frozenset[str] | None, widen: Widener) -> Any:
    for side, beside in (sides, reversed(sides)):
        writing.begin_faces(context, side.state, beside.state.values, side.block, widen.sees)
    if context.by_reference:
        return _merge_references(context, condition, sides, live, widen)
    first, second = sides[0].state, sides[1].state
    merged = State(first.values.copy(), {**first.where, **second.where})
    plan, references = _plan(context, condition, sides, live, merged, widen)
    result: Any = sides[0].result
    if result is not sides[1].result:
        pair = (sides[0].result, sides[1].result)
        plan.append((RESULT, _joined(context, RESULT, *pair, widen, first, second), pair))
    again = _note_copies(context, plan, first, second)
    outputs = _emit(context, condition, sides, plan, widen)
    context.state = merged
    leaves = iter(outputs)
    for key, template, (a, b) in plan:
        value = rebuild_location(context, key, template, leaves, a)
        _stays_listed(context, value, a, b)
        both = isinstance(value, SymTensor) and isinstance(a, SymTensor) and isinstance(b, SymTensor)
        if key in again:
            cells = list(copied(merged, template, value))
            copies.share(context, CHOSEN, *cells)
            copies.stand(context, cells, *again[key])
        if key is RESULT:
            result = value
            continue
        merged.values[key] = value
        held = is_held(a) and is_held(b)
        for other in references.get(_pair(a, b), ())[1:] if both or held else ():
            merged.values[other] = value
    return result


def _note_copies(context: Context, plan: Plan, first: State, second: State) -> dict[Any, tuple[set[Any], bool]]:
    """Which locations hold copies after the branch, of what was there before or of what two places refer to: of what,
    and whether that is something the script was given."""
    found = [[set(copied(state, t, v)) for state, v in zip((first, second), pair, strict=True)] for _, t, pair in plan]
    counts = [Counter(c for sides in found for c in sides[k]) for k in range(2)]
    known = copies.of(context)
    noted: dict[Any, tuple[set[Any], bool]] = {}
    for i, (key, t, pair) in enumerate(plan):
        again = {c for k, cells in enumerate(found[i]) for c in cells
                 if counts[k][c] > 1 or c in known.shared or _is_older(c, first, second)}
        if again:
            noted[key] = again, any(given(c) or c in known.chosen for c in again)
            copies.share(context, CHOSEN, *(c for c in again if _is_older(c, first, second)))
            plan[i] = key, as_copies(t), pair
    return noted


def _stays_listed(context: Context, value: Any, *sides: Any) -> None:
    """A merged list that on one side is an item of a list of run-time length may be that item."""
    if any(run_lists.is_listed(context, v) for v in sides):
        run_lists.freeze(context, value)


def _pair(a: Any, b: Any) -> tuple[Any, ...]:
    """What two names share if they are the same tensor or container on both sides."""
    if not isinstance(a, SymTensor):
        return a, b
    return tuple([(t.storage, *paths.key(t.path)) for t in (a, b)])


Plan = list[tuple[Any, Template, tuple[Any, Any]]]


def _differing(context: Context, condition: Value, sides: list[_Side], live: frozenset[str] | None,
               merged: State) -> Iterator[tuple[Any, Any, Any]]:
    """What must pass through the branch's results: location and its two contents; the rest is put into `merged`."""
    first, second = sides[0].state, sides[1].state
    other = second.values.get  # nearly all that stands somewhere is the same on both sides
    for key in [*[k for k, a in first.values.items() if other(k, UNBOUND) is not a],
                *[k for k in second.values if k not in first.values]]:
        a, b = first.values.get(key, UNBOUND), second.values.get(key, UNBOUND)
        if a is b:
            continue
        if _ends(context, key, a, b, live, (first, second)):
            merged.values.pop(key, None)
            continue
        a, b = locations.fetch(context, first, key), locations.fetch(context, second, key)
        if a is b or (isinstance(a, SymTensor) and isinstance(b, SymTensor) and heap.same_tensor(a, b)):
            merged.values[key] = a
        elif (a is True and b is False) or (a is False and b is True):
            number = numbers.wrap(context, condition)
            merged.values[key] = number if a else numbers.negate(context, number)
        else:
            yield key, a, b


def _plan(context: Context, condition: Value, sides: list[_Side], live: frozenset[str] | None, merged: State,
          widen: Widener) -> tuple[Plan, dict[tuple[Any, ...], list[Any]]]:
    """What is merged by what it holds. Also who shares a reference."""
    first, second = sides[0].state, sides[1].state
    plan: Plan = []
    references: dict[tuple[Any, ...], list[Any]] = {}
    for key, a, b in _differing(context, condition, sides, live, merged):
        held = is_held(a) and is_held(b)
        if held or (isinstance(a, SymTensor) and isinstance(b, SymTensor)):
            sharing = references.setdefault(_pair(a, b), [])
            sharing.append(key)
            if len(sharing) > 1:
                continue
        if held and not isinstance(a, SymList) and _older(a, first, second) and _older(b, first, second):
            plan.append((key, Either((a, b), None), (a, b)))
            continue
        plan.append((key, _joined(context, key, a, b, widen, first, second), (a, b)))
    return plan, references


def _merge_references(context: Context, condition: Value, sides: list[_Side], live: frozenset[str] | None,
                      widen: Widener) -> Any:
    """The state after a branch in which names, items and attributes refer to what either side refers to."""
    first, second = sides[0].state, sides[1].state
    merged = State(first.values.copy(), {**first.where, **second.where})
    identities = Identities(context, (first, second), widen)
    places = list(_differing(context, condition, sides, live, merged))
    result = sides[0].result
    if result is not sides[1].result:
        places.append((RESULT, result, sides[1].result))
    for _, a, b in places:
        identities.pair(a, b)
    plan: Plan = []
    for key, a, b in places:
        plan.append((key, *_referring(context, identities, key, a, b)))
    for cell, held in identities.fresh():
        plan.append((cell, *_referring(context, identities, cell, *held)))
    for face, held in identities.faces([s.block for s in sides]):
        plan.append((face, *identities.contents(face, held)))
    identities.bound_elsewhere(bound_by([x for _, t, _ in plan for x in t.types()], widen.fresh))
    leaves = iter(_emit(context, condition, sides, plan, widen, identities))
    context.state = merged
    for key in first.values.keys() ^ second.values.keys():  # what one side made is known by its cell of this merge
        if isinstance(key, (Storage, *HELD)) and not identities.is_older(key):
            merged.values.pop(key, None)
    for key, t, (a, _) in plan:
        value = rebuild_location(context, key, t, leaves, a)
        if key is RESULT:
            result = value
        else:
            merged.values[key] = value
    identities.bind(leaves)
    return result


def _referring(context: Context, identities: Identities, key: Any, a: Any, b: Any) -> tuple[Template, tuple[Any, Any]]:
    """The template of what a location holds after a branch, and its two contents, in terms of what is there then."""
    def joined(a: Any, b: Any) -> tuple[Template, tuple[Any, Any]]:
        if isinstance(key, (Storage, *HELD)):
            return identities.contents(key, (a, b))
        pair = identities.refer(0, a), identities.refer(1, b)
        return identities.template(pair), pair

    try:
        return joined(a, b)
    except Clash:
        pools.meet(context, key, (a, identities.states[0]), (b, identities.states[1]))
        try:  # a value may be one of several; what a container holds is none
            return joined(*((a, b) if isinstance(key, HELD) else identities.apart(a, b)))
        except Clash as clash:
            first, second = (state.where.get(key) for state in identities.states)
            raise clash_error(context, key, a, b, first, second, str(clash)) from None


def _ends(context: Context, key: Any, a: Any, b: Any, live: frozenset[str] | None, states: tuple[State, State]) -> bool:
    """Whether nothing reads a location after the branch."""
    if _is_variable(key):
        return not _needed(context, key, live)
    if isinstance(key, tuple) and key[0] == "clean":
        return True
    if isinstance(key, tuple) and key[0] in ("grad", "version"):  # ends with what is made in the branch
        return key[1].input < 0 and not all(key[1] in side.values for side in states)
    return _made_inside(key) and (a is UNBOUND or b is UNBOUND)  # merged values are made anew


def _emit(context: Context, condition: Value, sides: list[_Side], plan: Plan,
          widen: Widener, besides: Identities | None = None) -> tuple[Value, ...]:
    """Emit the branch: what the plan's locations hold, and what `besides` adds."""
    lowered: list[list[Value]] = []
    before = context.state
    for index, side in enumerate(sides):
        context.state = side.state
        with context.block(side.block):
            values = [v for key, t, pair in plan for v in lower_location(context, key, t, pair[index])]
            lowered.append(values + (besides.lowered(index) if besides else []))
        side.block.results = tuple(lowered[-1])
    context.state = before
    more = besides.types if besides else []
    types = [x for _, t, _ in plan for x in t.types()] + more
    history = [x for _, t, _ in plan for x in t.histories()] + [False] * len(more)
    if not types and all(_idle(n) for side in sides for n in side.block.nodes):
        return ()
    binds = bound_by(types, widen.fresh)
    outputs = context.builder.emit("if", (condition,), blocks=(sides[0].block, sides[1].block), types=types,
                                   binds=binds)
    context.mark_history(outputs, [h or any(v.id in context.builder.history for v in vs)
                                    for h, vs in zip(history, zip(*lowered, strict=True), strict=True)])
    return outputs


def _idle(node: Node) -> bool:
    """Whether a node does nothing but compute its outputs."""
    return not node.blocks and effect(node.op, node.attrs) is Effect.NONE


def bound_by(types: Sequence[Any], fresh: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """Those of `fresh` that stand in the types, in order."""
    used = set().union(*(symbols(d) for t in types for d in sizes_of(t))) if types else set()
    return tuple(s for s in fresh if s in used)


# --- locations that are not plain variables ------------------------------------------------------------------------


def _is_variable(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], int) and key[1] not in (
        "return", "break", "continue", ("result",))


def _made_inside(key: Any) -> bool:
    """Whether a heap location was made by the script (and not found in its inputs)."""
    return key.input < 0 if isinstance(key, Storage) else isinstance(key, HELD) and key.source is None


def _needed(context: Context, key: Any, live: frozenset[str] | None) -> bool:
    frame, name = key
    if frame != context.frame.id:
        return True
    return live is None or name in live


def _joined(context: Context, key: Any, a: Any, b: Any, widen: Widener, first: State, second: State) -> Template:
    before = context.state
    try:
        outside = Outside(lambda v: _older(v, first, second), widen)
        context.state = first
        one = template(context, key, a, outside=replace(outside, beside=b))
        context.state = second
        other = template(context, key, b, outside=replace(outside, beside=a))
        context.state = before
        joined = one.join(other, widen)
        if isinstance(joined, (ListOf, Record)):
            for context.state, side in ((first, a), (second, b)):  # which knows what the lists in it hold
                joined = joined.enlist(context, side)
            context.state = before
        return _refine(context, joined, a, b, first, second)
    except Clash as clash:
        pools.meet(context, key, (a, first), (b, second))
        raise clash_error(context, key, a, b, first.where.get(key), second.where.get(key), str(clash)) from None


def _refine(context: Context, t: Template, a: Any, b: Any, first: State, second: State) -> Template:
    """A joined template in which items that are one object on both sides stay it."""
    if isinstance(a, SymTensor) and isinstance(b, SymTensor) and heap.same_tensor(a, b):
        return Same(a)
    if isinstance(t, Items):
        one = first.values.get(a) if isinstance(a, SymList) else a
        other = second.values.get(b) if isinstance(b, SymList) else b
        if isinstance(one, tuple) and isinstance(other, tuple):
            return Items(t.type, tuple(_refine(context, i, x, y, first, second)
                                       for i, x, y in zip(t.items, one, other, strict=True)))
    return t


def _older(value: Any, first: State, second: State) -> bool:
    """Whether a tensor's memory, or a container, was there before the branch (then both sides know it)."""
    cell = cell_of(value)
    return cell is not None and _is_older(cell, first, second)


def _is_older(cell: Any, first: State, second: State) -> bool:
    return given(cell) or (cell in first.values and cell in second.values)


def clash_error(context: Context, key: Any, a: Any, b: Any, place_a: Span | None, place_b: Span | None,
                why: str) -> TypeMismatch:
    """The refusal of a variable whose two values no variable can hold."""
    if isinstance(key, SymList):
        same = isinstance(a, RunItems) or isinstance(b, RunItems)
        return TypeMismatch(f"a list cannot hold its items after this branch: {why}" if same else
                            f"a list has {len(a)} items on one side of this branch and {len(b)} on the other",
                            context.span(), hint="append on both sides, or keep a tensor and a count")
    what = f"`{key[1]}`" if _is_variable(key) else "the result" if key is RESULT else (
        "the returned value" if isinstance(key, tuple) and key[1:] == (("result",),) else "a value")
    notes = []
    for value, place in ((a, place_a), (b, place_b)):
        if place is not None:
            notes.append(f"note: {type_word(value)} at {place}")
    return TypeMismatch(f"{what} is {why} after this branch", context.span(), notes=tuple(notes),
                        hint="give both the same type, or assign different names")


def template(context: Context, key: Any, value: Any, general: bool = False,
             outside: Outside | None = None) -> Template:
    """The template of what a location holds."""
    if isinstance(value, Value):
        assert isinstance(value.type, TensorType)
        history = context.has_history(value) and not key.requires_grad  # a leaf's content has none
        return Tensor(value.type.dtype, tuple(context.sizes.canonical(d) for d in value.type.dims), history)
    if isinstance(key, SymList):
        return content_template(context, value, general, type(key))
    if isinstance(key, (SymDict, Instance)):
        return record(context, key, value, general)
    return template_of(context, value, general, outside)


def lower_location(context: Context, key: Any, t: Template, value: Any) -> list[Value]:
    """What a location holds as graph values; nothing that is read where it is missing (None)."""
    if value is None and isinstance(key, (Storage, *HELD)):
        return placeholders(context, t.types())
    if isinstance(key, Storage):
        optional = isinstance(t, Either) and not isinstance(value.type, OptionalType)
        return [context.one("opt.some", value) if optional else value]
    return t.lower(context, value)


def rebuild_location(context: Context, key: Any, t: Template, leaves: Any, like: Any) -> Any:
    """The content of a location from graph values; `like` is one side's content."""
    if isinstance(key, Storage):
        return writing.as_leaf(context, key, next(leaves))
    value = t.rebuild(context, leaves) if not isinstance(t, Record) or not isinstance(
        key, (SymDict, Instance)) else t.rebuild_content(context, leaves)
    return context.state.values.pop(value) if isinstance(key, SymList) and isinstance(value, SymList) else value
