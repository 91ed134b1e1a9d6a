"""What eager's tape would say of a script's history: what was saved, freed by a gradient, or overwritten since."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jitgrad.dims import Dim, symbols
from jitgrad.eager.autograd.node import OVERWRITTEN, SECOND_BACKWARD
from jitgrad.errors import UnsupportedCall
from jitgrad.ops import OPS
from jitgrad.ops.opdef import NONDIFF, OpDef, backward_name
from jitgrad.ops.saved import saved
from jitgrad.script.autodiff import history, inner
from jitgrad.script.autodiff.flow import reachable
from jitgrad.script.autodiff.prepare import expand_nodes
from jitgrad.script.frontend.gradients import record
from jitgrad.script.frontend.state import effects, versions
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import Number, SymTensor, size_number
from jitgrad.script.graph.ir import Block, Node, Value, symbol_axes

# --- what is recorded ----------------------------------------------------------------------------------------------


def note(context: Context, op: OpDef, operands: Sequence[SymTensor], values: Sequence[Value],
         results: Sequence[SymTensor], attrs: dict[str, Any]) -> None:
    """Note what eager keeps for the derivative of an operation that it records."""
    known = versions.of(context)
    if known.paused or op.vjp is NONDIFF:
        return
    made = [heap.current_value(context, y.storage) for y in results]
    known.operation(made, values)
    nodes = [Node(op.name, tuple(values), attrs, tuple(made))]
    varied = {v for v in values if context.has_history(v)}
    for node in expand_nodes(nodes) if op.vjp is None else nodes:
        row = OPS[node.op]
        needs = tuple([v in varied for v in node.inputs])
        if row.vjp is NONDIFF or not any(needs):
            continue
        varied.update(node.outputs)
        reads = saved(row, needs) if row.arity is not None else saved(
            row, needs, types=[v.type for v in node.inputs], attrs=dict(node.attrs))
        for v in [v for v, read in zip(node.inputs, reads.xs, strict=True) if read and v in values]:
            x = operands[values.index(v)]
            if not x.copied:
                versions.save(context, made[0], x, _origin(context, x))
        for k, (v, read) in enumerate(zip(node.outputs, reads.ys if reads.y else (), strict=False)):
            if read and v in made:
                versions.save(context, made[0], results[made.index(v)],
                              f", which is output {k} of {backward_name(row)},", operand=False)


def keep(context: Context, target: SymTensor, content: Value) -> None:
    """What an operation in place saved of the memory that it is about to overwrite is copied first."""
    known = versions.of(context)
    if known.saves:
        known.keep(target, content, heap.current_value(context, target.storage))


@contextmanager
def one_operation(context: Context) -> Iterator[None]:
    """What is made of several operations here is one for eager, of which nothing is noted."""
    known = versions.of(context)
    before, known.paused = known.paused, True
    try:
        yield
    finally:
        known.paused = before


def _origin(context: Context, x: SymTensor) -> str:
    """By which operation eager's message says that a tensor was made."""
    if not x.requires_grad or x.is_leaf:
        return ""
    name = backward_name(OPS[x.path[-1][0]]) if x.path and x.path[-1][0] in OPS else x.storage.made
    return f", which is output 0 of {name}," if name else ""


# --- what was overwritten ------------------------------------------------------------------------------------------

#: pieces of a message: text, a size, a number of the run, or how often a graph input had been written when the call
#: began, and how often since
Piece = str | Dim | Value | tuple[int, int | Value]
#: whether a gradient needs what was overwritten, and the message
Spoiled = tuple[history.Answer, tuple[Piece, ...]]


class Chance(NamedTuple):
    """A save that some runs overwrite: those in which it is `written`. How often its memory was, when it was saved and
    by now. All are numbers of the run, or of Python."""

    save: versions.Save
    written: Any
    counted: Any
    now: Any


def overwritten(context: Context, path: Sequence[Block], outputs: Sequence[Value]) -> list[Spoiled]:
    """For each of `outputs`, values at the end of `path`, whether its gradient needs a value that was overwritten.

    """
    known = versions.of(context)
    found, replaced, entering = list(known.overwritten()), list(known.replaced()), list(known.entering())
    skipping = list(known.skipping()) if versions.UNCOUNTED not in context.decisions else []
    if not found and not replaced and not entering and not skipping:
        return [(False, ())] * len(outputs)
    flow = inner.flow_of([n for b in path for n in b.nodes], outputs)
    behind = flow.backward
    reached = [reachable([v], behind) for v in outputs]
    for s, w in replaced:
        if any(s.result in r for r in reached):
            raise UnsupportedCall("a write by way of `.data` to what a gradient needs: eager would not notice, and "
                                  "make the gradient of what was written", w.span or context.span(),
                                  hint="write `with torch.no_grad():` around it, and `.clone()` what is still needed")
    if any(s.result in r for s in entering for r in reached):
        raise UnsupportedCall("a loop may write to what a gradient needs, by a variable that it also binds anew",
                              context.span(), hint="`.clone()` what the gradient needs before the loop, or let the "
                              "loop make a new tensor: `h = h * 0.5` for `h *= 0.5`")
    found = [(s, n) for s, n in found if any(s.result in r for r in reached)]
    if versions.UNCOUNTED in context.decisions:  # what only some runs overwrite has its gradient all the same
        found = [(s, n) for s, n in found if n is not None]
    skipping = [x for x in skipping if any(x[0].result in r for r in reached)]
    if versions.VERSIONS not in context.decisions and (skipping or any(n is None for _, n in found)):
        raise Restart(versions.VERSIONS, "a branch or loop may write what a gradient needs: writes are counted")
    sure = {s.result for s, n in found if n is not None}
    answers = history.requires_grad(path, outputs, sure.__contains__, operations=True, flow=flow)
    spoiled: list[Spoiled] = [(a, () if a is False else next(
        _message(context, s, n) for s, n in found if n is not None and s.result in r))
        for a, r in zip(answers, reached, strict=True)]
    for s, n in found:
        if n is None and s.result not in sure:
            again = any(s.result in reachable([p], behind) for b in s.loops for p in _used_again(b))
            counted, now = _counted(context, path, s, again), versions.count(context, known.last(s.storage))
            chance = Chance(s, numbers.compare(context, "ne", now, counted), counted, now)
            spoiled = _perhaps(context, path, outputs, chance, spoiled)
    for s, after, places in skipping:
        counted, since = _counted(context, path, s, False), versions.count(context, known.last(after))
        needed = [since, *[context.state.values.get(("first", place), 0) for place in places]]
        written = functools.reduce(functools.partial(numbers.both, context), [
            numbers.compare(context, "ne", number, 0) for number in needed])
        chance = Chance(s, written, counted, numbers.binary(context, "add", since, counted, checked=False))
        spoiled = _perhaps(context, path, outputs, chance, spoiled)
    return spoiled


def _used_again(body: Block) -> set[Value]:
    """What an iteration has of those before it and hands on, differentiably."""
    return reachable(body.results, inner.dependencies(body.nodes, body.results)).intersection(body.params)


def _counted(context: Context, path: Sequence[Block], s: versions.Save, again: bool) -> Any:
    """How often memory had been written when it was saved; `again`: iterations go on with what it was for."""
    known = {v for b in path for v in (*b.params, *(v for n in b.nodes for v in n.outputs))}
    if not isinstance(s.counted, Number) or s.counted.value in known:
        return s.counted
    return numbers.binary(context, "sub", context.state.values.get(
        ("first" if again else "latest", s.place), 0), 1, checked=False)


def _perhaps(context: Context, path: Sequence[Block], outputs: Sequence[Value], chance: Chance,
             spoiled: list[Spoiled]) -> list[Spoiled]:
    """What is spoiled besides by a save that some runs overwrite."""
    s, written, counted, now = chance
    if written is False:
        return spoiled
    answers = history.requires_grad(path, outputs, lambda v: v is s.result, operations=True)
    result: list[Spoiled] = []
    for (before, pieces), reaches, v in zip(spoiled, answers, outputs, strict=True):
        if before is True or reaches is False or history.holds_list(v.type):
            result.append((before, pieces))
            continue
        value = numbers.value_of(context, written)
        if isinstance(reaches, Value):
            value = context.one("num.and", value, reaches)
        if isinstance(before, Value):
            value = context.one("num.or", before, value)
        result.append((value, pieces or _message(context, s, numbers.value_of(context, now), counted)))
    return result


def _message(context: Context, s: versions.Save, writes: int | Value, counted: Any = None) -> tuple[Piece, ...]:
    sizes = [p for d in s.type_.dims for p in (", ", str(d) if isinstance(d, int) else d)][1:]
    counted = s.version if counted is None else numbers.value_of(context, counted)
    then, now = [(s.storage.input, n) if s.storage.input >= 0 else n if isinstance(n, Value) else str(n)
                 for n in (counted, writes)]
    head, middle, tail = OVERWRITTEN
    return f"{head}[{s.type_.dtype.name} [", *sizes, f"]]{s.origin} is at version ", now, middle, then, tail


def told(context: Context, block: Block, pieces: Sequence[Piece], output: Callable[[Value], int]
         ) -> tuple[str | int | tuple[int, int], ...]:
    """The pieces of a message as the executor has them: what the run says are outputs of the program."""
    known = {s for v in (*block.params, *(v for n in block.nodes for v in n.outputs)) for _, s in symbol_axes(v.type)}

    def piece(p: Piece) -> str | int | tuple[int, int]:
        if isinstance(p, Dim):
            size = context.sizes.canonical(p)
            if isinstance(size, int):
                return str(size)
            return output(context.one("dim.value", dim=size)) if known.issuperset(symbols(size)) else "?"
        if isinstance(p, tuple):
            return p[0], ~output(p[1]) if isinstance(p[1], Value) else p[1]
        return output(p) if isinstance(p, Value) else p

    return tuple(map(piece, pieces))


def refuse_overwritten(context: Context, path: Sequence[Block], outputs: Sequence[Value]) -> None:
    """Raise eager's error for a gradient that is taken here of `outputs` and needs what was overwritten."""
    for answer, pieces in overwritten(context, path, outputs):
        if answer is False:
            continue
        values: list[Value] = []
        template: list[Any] = []
        for p in [p[1] if isinstance(p, tuple) else p for p in pieces]:
            if isinstance(p, (Dim, Value)):
                template.append((len(values), "", ""))
                values.append(p if isinstance(p, Value) else numbers.value_of(context, size_number(p)))
            else:
                template.append(str(p))
        if answer is True:
            raise effects.raise_now(context, RuntimeError, tuple(template), values)
        effects.emit(context, "check", context.one("num.not", answer), *values, error=RuntimeError,
                     template=tuple(template))


# --- what was freed ------------------------------------------------------------------------------------------------


def release(context: Context, path: list[Block], swept: list[list[Node]], retain: bool) -> None:
    """Note whose saved values are gone; a second pass over them raises as in eager."""
    body = max((i for i, b in enumerate(path) if b in context.bodies_open), default=0)
    for i, nodes in enumerate(swept):
        for node in nodes:
            if not _saves(node):
                continue
            for v in node.outputs:
                before = record.of(context).freed.get(v.id)
                if before is not None and before in path:
                    raise effects.raise_now(context, RuntimeError, (SECOND_BACKWARD,))
                if retain:
                    continue
                if i < body:
                    raise UnsupportedCall("`backward()` in a loop through a graph that was made before the loop: the "
                                          "second iteration would find it freed", context.span(),
                                          hint="write `retain_graph=True`, or make the graph in the loop")
                record.of(context).freed[v.id] = path[-1]


def _saves(node: Node) -> bool:
    if node.blocks:
        return True
    op = OPS.get(node.op)
    if op is None or not callable(op.vjp):
        return False
    found = saved(op)
    return found.y or any(found.xs) or any(found.ys)


def freed_outputs(context: Context, outputs: Sequence[Value]) -> set[Value]:
    """Those of the graph's outputs whose history was freed by a gradient taken inside, in any case."""
    outermost = context.builder.block
    gone = {v for n in outermost.nodes for v in n.outputs
            if record.of(context).freed.get(v.id) is outermost}
    if not gone:
        return set()
    asked = [v for v in outputs if context.has_history(v)]
    behind = inner.dependencies(outermost.nodes, outputs) if asked else {}
    return {v for v in asked if not gone.isdisjoint(reachable((v,), behind))}
