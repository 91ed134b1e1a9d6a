"""What eager's tape would say of a script's history: what was saved, freed by a gradient, or overwritten since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from jitgrad.dims import Dim, symbols
from jitgrad.eager.autograd.node import OVERWRITTEN, SECOND_BACKWARD
from jitgrad.errors import UnsupportedCall
from jitgrad.ops import OPS
from jitgrad.ops.opdef import NONDIFF, OpDef, backward_name
from jitgrad.ops.saved import Saved, saved
from jitgrad.script.autodiff import history, inner
from jitgrad.script.autodiff.flow import Flow, reachable
from jitgrad.script.autodiff.prepare import expand_nodes
from jitgrad.script.frontend.gradients import record
from jitgrad.script.frontend.state import effects, versions
from jitgrad.script.frontend.state.context import VERSIONS, Context, Restart
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import SymTensor, size_number
from jitgrad.script.graph.ir import Block, Loop, Node, Value, symbol_axes

# --- what is recorded ----------------------------------------------------------------------------------------------


def note(context: Context, op: OpDef, operands: Sequence[SymTensor], values: Sequence[Value],
         results: Sequence[SymTensor], attrs: dict[str, Any]) -> None:
    """Note what eager keeps for the derivative of an operation that it records."""
    known = versions.of(context)
    if known.paused or op.vjp is NONDIFF:
        return
    made = [heap.current_value(context, y.storage) for y in results]
    nodes = [Node(op.name, tuple(values), attrs, tuple(made))]
    lacks: dict[Value, Any] = {v: 0 for v in values if context.has_history(v)}
    if context.counts_writes:
        lacks.update((v, versions.lacking(context, x)) for x, v in zip(operands, values, strict=False) if v in lacks)
    varied = tuple(lacks)
    for node in expand_nodes(nodes) if op.vjp is None else nodes:
        row = OPS[node.op]
        if row.vjp is NONDIFF or not any(v in lacks for v in node.inputs):
            continue
        xs, ys = _read_again(context, row, node, lacks)
        again: dict[SymTensor, list[Any]] = {}
        for x, v in zip(operands, values, strict=False):
            if v in xs and not x.copied:
                again.setdefault(x, []).append(xs[v])
        for x, found in again.items():
            v = next(v for o, v in zip(operands, values, strict=False) if o is x)
            versions.save(context, made[0], x, _origin(context, x), varied, partial(_alone, row, node, varied, v),
                          versions.all_lack(context, found))
        for k, n in ys.items():
            if node.outputs[k] in made:
                versions.save(context, made[0], results[made.index(node.outputs[k])],
                              f", which is output {k} of {backward_name(row)},", varied,
                              partial(_alone, row, node, varied, node.outputs[k]), n, operand=False)
        lack = versions.all_lack(context, [lacks[v] for v in node.inputs if v in lacks])
        lacks.update(dict.fromkeys(node.outputs, lack))
    for y, v in zip(results, made, strict=True):
        versions.tell(context, y.storage, lacks.get(v, 0))


def _alone(row: OpDef, node: Node, varied: Sequence[Value], read: Value) -> list[Value]:
    """The operands for each of whose gradients alone the derivative of an operation reads a value."""
    found = []
    for v in varied:
        needs = tuple([x is v for x in node.inputs])
        if any(needs):
            reads = _saved(row, node, needs)
            again = [*zip(node.inputs, reads.xs, strict=True), *zip(node.outputs, reads.ys, strict=False)]
            found += [v] * any(x is read and y for x, y in again)
    return found


def _saved(row: OpDef, node: Node, needs: tuple[bool, ...]) -> Saved:
    if row.arity is not None:
        return saved(row, needs)
    return saved(row, needs, types=[v.type for v in node.inputs], attrs=dict(node.attrs))


def _read_again(context: Context, row: OpDef, node: Node, lacks: dict[Value, Any]
                ) -> tuple[dict[Value, Any], dict[int, Any]]:
    """The operands that the derivative of an operation reads, and the numbers of the results that it does: for each
    whether all operands lack a history for whose gradients it is read. `lacks` says so of those that may have one."""
    needs = [v in lacks for v in node.inputs]
    known = all(type(lacks[v]) is int and lacks[v] == 0 for v in node.inputs if v in lacks)
    xs: dict[Value, list[Any]] = {}
    ys: dict[int, list[Any]] = {}
    for group in [needs] if known else [[k == i for k in range(len(needs))] for i, n in enumerate(needs) if n]:
        reads = _saved(row, node, tuple(group))
        lack = versions.all_lack(context, [lacks[v] for v, need in zip(node.inputs, group, strict=True) if need])
        for v, read in zip(node.inputs, reads.xs, strict=True):
            if read:
                xs.setdefault(v, []).append(lack)
        for k, read in enumerate(reads.ys if reads.y else ()):
            if read:
                ys.setdefault(k, []).append(lack)
    return {v: versions.all_lack(context, found) for v, found in xs.items()}, {
        k: versions.all_lack(context, found) for k, found in ys.items()}


@contextmanager
def one_operation(context: Context) -> Iterator[None]:
    """What is made of several operations here is one for eager, of which nothing is noted."""
    known = versions.of(context)
    before, known.paused = known.paused, True
    try:
        yield
    finally:
        known.paused = before


def view_word(context: Context, view: SymTensor) -> str:
    """What eager's `grad_fn` says of a view, "" if that is not certain."""
    last = view.path[-1][0]  # one that expands to the sizes that are there is another for eager
    return backward_name(OPS[last]) if context.grad and last in OPS and last != "expand" else ""


def _origin(context: Context, x: SymTensor) -> str:
    """By which operation eager's message says that a tensor was made."""
    if not x.requires_grad or x.is_leaf:
        return ""
    held, path = x.source
    name = backward_name(OPS[path[-1][0]]) if path and path[-1][0] in OPS else held.made
    return f", which is output 0 of {name}," if name else ""


# --- what was overwritten ------------------------------------------------------------------------------------------

#: pieces of a message: text, a size, a number of the run, or how often a graph input had been written when the call
#: began, and how often since
Piece = str | Dim | Value | tuple[int, int | Value]
#: whether a gradient needs what was overwritten, and the message; the first that is so is eager's
Spoiled = list[tuple[history.Answer, tuple[Piece, ...]]]


class Chance(NamedTuple):
    """A save of memory that was `written` after it. How often it had been when it was saved, and by now. All are
    numbers of the run, or of Python."""

    save: versions.Save
    written: Any
    saved: Any
    now: Any


def overwritten(context: Context, path: Sequence[Block], outputs: Sequence[Value]) -> list[Spoiled]:
    """For each of `outputs`, values at the end of `path`, whether its gradient needs a value that was overwritten."""
    known, state = versions.of(context), context.state.values
    counted = context.counts_writes
    spoiling = [(s, None) for s in known.all_saves() if ("spoiled", s.site) in state] if counted else [
        *known.overwritten(settled=VERSIONS in context.decisions)]
    freed = record.of(context).freed  # right where it was made: another gradient of it is another error
    spoiling = [(s, counts) for s, counts in spoiling if freed.get(s.result.id) is not s.path[-1]]
    replaced = [(s, w) for s, w in known.replaced() if freed.get(s.result.id) is not s.path[-1]]
    if not spoiling and not replaced:
        return [[] for _ in outputs]

    def facts() -> Flow:
        return inner.flow_of([n for b in path for n in b.nodes], outputs)

    flow = facts()
    reached = {v for output in outputs for v in reachable([output], flow.backward)}
    for s, w in replaced:
        if s.result in reached:
            known.refused = True
            raise UnsupportedCall("a write by way of `.data` to what a gradient needs, or to what it has read so: "
                                  "eager would not notice, and make the gradient of what was written", w.span,
                                  hint="write `.detach()` in place of `.data`, and `.clone()` what is still needed")
    spoiled: list[Spoiled] = [[] for _ in outputs]
    for s, counts in spoiling:
        if s.result not in reached:
            continue
        if counted:
            chance = _chance(context, s, flow)
        elif counts is not None and (versions.certain(context, s.varied) or any(
                versions.certain(context, [v]) for v in s.alone())):
            chance = Chance(s, True, *counts)
        elif VERSIONS not in context.decisions:
            raise Restart(VERSIONS, "a branch or loop may write what a gradient needs: writes are counted")
        else:
            continue
        if _spoil(context, path, outputs, chance, flow, spoiled):
            flow = facts()
    return spoiled


def _chance(context: Context, s: versions.Save, flow: Flow) -> Chance:
    """What the run says of a save: of one in a loop, of its last execution, or of all that a gradient needs."""
    state = context.state.values
    spoiled, written = state.get(("spoiled", s.site), 0), state.get(("written", s.site), 0)
    again = any(s.result in reachable([p], flow.backward) for b in s.loops for p in _used_again(b))
    execution = 1 if again else state.get(("execution", s.site), 1)
    first = numbers.binary(context, "mul", execution, versions.EXECUTION, checked=False)
    saved = numbers.binary(context, "mod", spoiled, versions.EXECUTION, checked=False)
    return Chance(s, numbers.compare(context, "gt", spoiled, first),
                  numbers.binary(context, "sub", saved, 1, checked=False), written)


def _used_again(body: Block) -> set[Value]:
    """What an iteration has of those before it and hands on, differentiably and on each side of its branches."""
    behind = inner.dependencies(body.nodes, body.results)
    used: dict[Value, set[Value]] = {p: {p} for p in body.params}

    def visit(nodes: Sequence[Node]) -> None:
        for node in nodes:
            carried: dict[Value, tuple[Value, ...]] = {}
            if node.op in ("while", "scan"):
                loop = Loop(node)
                used.update((p, used.get(x, set())) for p, x in zip(loop.carry_params, loop.carries, strict=True))
                carried = dict(zip(loop.carry_outputs, zip(loop.carries, loop.carry_results, strict=True), strict=True))
            elif node.op == "if":
                carried = dict(zip(node.outputs, zip(*(b.results for b in node.blocks), strict=True), strict=True))
            for b in node.blocks:
                visit(b.nodes)
            for v in node.outputs:
                found = [used.get(x, set()) for x in carried.get(v, behind.get(v, ()))]
                if any(found):
                    used[v] = set.intersection(*found) if v in carried else set().union(*found)

    visit(body.nodes)
    return set().union(*(used.get(v, set()) for v in body.results))


def _spoil(context: Context, path: Sequence[Block], outputs: Sequence[Value], chance: Chance, flow: Flow,
           spoiled: Sequence[Spoiled]) -> bool:
    """Add to what is spoiled of each output what a save is of which the memory was overwritten, or may have been.

    Whether the run says of an output if it depends on the save: the graph has nodes then that `flow` does not know.
    """
    s, written, *counts = chance
    if written is False:
        return False
    answers = history.requires_grad(path, outputs, lambda v: v is s.result, operations=True, flow=flow)
    for found, reaches in zip(spoiled, answers, strict=True):
        if reaches is False or any(before is True for before, _ in found):
            continue
        answer = reaches
        if written is not True:
            answer = numbers.value_of(context, written)
            answer = _both(context, answer, reaches) if isinstance(reaches, Value) else answer
        found.append((answer, _message(s, *(n if isinstance(n, int) else numbers.value_of(context, n)
                                            for n in counts))))
    return any(isinstance(answer, Value) for answer in answers)


def _both(context: Context, written: Value, reaches: Value) -> Value:
    """Whether memory was written and an output needs it; of a list, whether each item does, or nothing."""
    if not history.holds_list(reaches.type):
        return context.one("num.and", written, reaches)
    whole, nothing = Block((), [], (reaches,)), Block()
    with context.block(nothing):
        nothing.results = (context.one("list.new", type=reaches.type),)
    return context.builder.emit("if", (written,), blocks=(whole, nothing), types=(reaches.type,))[0]


def _message(s: versions.Save, counted: int | Value, writes: int | Value) -> tuple[Piece, ...]:
    sizes = [p for d in s.type_.dims for p in (", ", str(d) if isinstance(d, int) else d)][1:]
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
    for answer, pieces in [one for found in overwritten(context, path, outputs) for one in found]:
        values: list[Value] = []
        template: list[Any] = []
        for p in [p[1] if isinstance(p, tuple) else p for p in pieces]:
            if isinstance(p, (Dim, Value)):
                template.append((len(values), "", ""))
                values.append(p if isinstance(p, Value) else numbers.value_of(context, size_number(p)))
            else:
                template.append(str(p))
        if not isinstance(answer, Value):
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
