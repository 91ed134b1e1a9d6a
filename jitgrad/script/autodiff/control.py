"""The adjoints of `if`, `while` and `scan`.

    %y = if(%c) {f} {g}              ->  an `if` on the same predicate, with the adjoint of the branch taken
    %n, %h = while(%c, %h0) {f}      ->  a `scan` over %n iterations in reverse order, which carries the cotangent of
    %h = scan(%n, %h0, %xs) {f}          each carry and the sum so far for each value read from outside

Cotangents of what a nested block reads from outside start from the sum found so far, so that no zeros are made where
something is already known.
"""

from jitgrad.classes import dataclass
from jitgrad.dims import Symbol
from jitgrad.ops.types import BOOL, INT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.autodiff.amend import abstract, generic
from jitgrad.script.autodiff.cotangents import (Cotangent, Reached, as_reached, cotangent_type, either, holds_list,
                                                masked, reach_type, restate, tells, zero)
from jitgrad.script.autodiff.frame import Frame
from jitgrad.script.autodiff.mirrors import BranchFrame, LoopFrame
from jitgrad.script.autodiff.reverse import Cotangents, Reverse, adjoint
from jitgrad.script.graph.ir import Loop, Node, Value


@adjoint("if")
def branches(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """The adjoint of an `if`."""
    context, builder = reverse.context, reverse.builder
    seeds = [cotangents.pop(v, None) for v in node.outputs]
    if context.thorough:
        context.conditions.add(node.inputs[0])
    captured = [w for w in reverse.flow.captures[node] if w in reverse.flow.wanted]
    mirrors, found = [], []
    for block in node.blocks:
        mirror = BranchFrame(context, block, frame)
        local = {w: cotangents[w] for w in captured if w in cotangents}
        with builder.into(mirror.out):
            for r, c in zip(block.results, seeds, strict=True):
                if c is not None and r in reverse.flow.wanted:
                    value = restate(context, c.value, mirror.type(r.type))
                    reverse.accumulate(mirror, local, r, Cotangent(value, c.reached, c.clean))
        reverse.sweep(mirror, local)
        mirrors.append(mirror)
        found.append(local)
    touched = [w for w in captured if any(local.get(w) is not cotangents.get(w) for local in found)]
    if not touched:
        return
    results: list[list[Value]] = [[], []]
    summary: list[tuple[bool, bool]] = []  # reached in either branch, clean in both
    for w in touched:
        type_ = frame.type(w.type)
        ends = []
        for mirror, local in zip(mirrors, found, strict=True):
            with builder.into(mirror.out):
                ends.append(local.get(w) or zero(context, type_, lambda m=mirror, w=w: m.fetch(w)))  # type: ignore[misc]
        always = all(c.reached is True for c in ends)
        summary.append((always, all(c.clean or c.reached is True for c in ends)))
        for mirror, c, values in zip(mirrors, ends, results, strict=True):
            values.append(c.value)
            if not always:
                with builder.into(mirror.out):
                    values.append(as_reached(context, c.reached, type_, lambda m=mirror, w=w: m.fetch(w)))  # type: ignore[misc]
    for mirror, values in zip(mirrors, results, strict=True):
        mirror.finish(values)
    types: list[Type] = []
    fresh: list[Symbol] = []
    for one, other in zip(*results, strict=True):
        optional = isinstance(one.type, OptionalType) and isinstance(one.type.elem, TensorType)
        if optional and one.type != other.type:  # only what is there has sizes
            type_, symbols = generic(one.type)
            fresh += symbols
        else:
            type_ = frame.type(one.type) if isinstance(one.type, TensorType) else one.type
        types.append(type_)
    outputs = iter(builder.emit("if", [frame.fetch(node.inputs[0])], blocks=[m.out for m in mirrors], types=types,
                                binds=tuple(fresh)))
    for w, (always, clean) in zip(touched, summary, strict=True):
        value = next(outputs)
        cotangents[w] = Cotangent(value, True if always else next(outputs), clean)


@adjoint("while", "scan")
def loop(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """The adjoint of a `while` or a `scan`."""
    parts = Loop(node)
    finals = [cotangents.pop(v, None) for v in parts.carry_outputs]
    elements = [cotangents.pop(v, None) for v in parts.y_outputs]
    # A carry whose cotangent is there at the end is taken to be reached in every iteration. Where the body's adjoint
    # shows otherwise it is written again; what was learned about inner loops is kept, so nesting does not multiply.
    while not _Adjoint(reverse, frame, parts, finals, elements, cotangents).write():
        pass


@dataclass(slots=True)
class _Carry:
    """A carry of the backward scan."""

    init: Value
    param: Value
    result: Value
    out_type: Type


@dataclass(slots=True)
class _Tracked:
    """What is carried for the cotangent of `target`: its value, and whether it is reached where that is not known."""

    value: _Carry
    reached: _Carry | None
    target: Value
    always: Reached = True


class _Adjoint:
    """One attempt at the adjoint of a loop."""

    def __init__(self, reverse: Reverse, frame: Frame, parts: Loop, finals: list[Cotangent | None],
                 elements: list[Cotangent | None], cotangents: Cotangents):
        self.reverse, self.frame, self.parts, self.cotangents = reverse, frame, parts, cotangents
        self.context, self.builder, self.wanted = reverse.context, reverse.builder, reverse.flow.wanted
        self.finals, self.elements = finals, elements
        self.sometimes = reverse.sometimes.setdefault(parts.node, set())
        self.mirror = LoopFrame(self.context, parts, frame)
        self.counter = Value(INT, "k")
        if parts.counter is not None:
            self.mirror.images[parts.counter] = self.counter
            self.mirror.given.add(parts.counter)
        self.local: Cotangents = {}
        self.binds: list[Symbol] = []
        self.sequences: list[Value] = []  # xs of the scan: cotangents of the ys
        self.seq_params: list[Value] = []

    def write(self) -> bool:
        """Write the backward scan and note the cotangents of what the loop reads; False to try again."""
        parts, reverse = self.parts, self.reverse
        indices = [i for i, p in enumerate(parts.carry_params) if p in self.wanted]
        captured = [w for w in reverse.flow.captures[parts.node] if w in self.wanted]
        sums = {w: self.seed_sum(w) for w in captured}  # first: a result of the body may be a captured value
        with self.builder.into(self.mirror.out):
            starts = [self.seed_carry(i) for i in indices]
            for y, c in zip(parts.y_results, self.elements, strict=True):
                if c is not None:
                    self.seed_element(y, c)
        reverse.sweep(self.mirror, self.local)

        ends = [self.end_carry(i, *start) for i, start in zip(indices, starts, strict=True)]
        tracked = [t for t in ends if t is not None]
        if len(tracked) < len(ends):
            return False
        n = self.frame.fetch(parts.trips)
        if self.context.thorough:
            self.context.conditions.add(parts.trips)
        for w, (param, reached) in sums.items():
            if self.local[w].value is not param:
                tracked.append(self.end_sum(w, param, reached, n))
        elements = [(seq, self.local.pop(x)) for seq, x in zip(parts.seqs, parts.seq_params, strict=True)
                    if x in self.local]
        ys: list[Value] = []  # the cotangents of the elements, and whether they are reached
        for _, c in elements:
            with self.builder.into(self.mirror.out):
                ys += [masked(self.context, c), *([c.reached] if isinstance(c.reached, Value) else [])]
        outs = iter(self.emit(n, [c for t in tracked for c in (t.value, t.reached) if c is not None], ys))
        found = [Cotangent(next(outs), t.always if t.reached is None else next(outs)) for t in tracked]
        for t, c in [*zip(tracked, found, strict=True)][len(indices):]:
            self.cotangents[t.target] = c  # the sums first: they contain what was known before
        for t, c in zip(tracked[:len(indices)], found, strict=False):
            value = restate(self.context, c.value, self.frame.type(t.target.type))
            reverse.accumulate(self.frame, self.cotangents, t.target, Cotangent(value, c.reached))
        for seq, c in elements:
            made = Cotangent(next(outs), next(outs) if isinstance(c.reached, Value) else True)
            reverse.accumulate(self.frame, self.cotangents, seq, made)
        return True

    # --- before the sweep ---

    def seed_carry(self, i: int) -> tuple[Value, Value | None]:
        """The cotangent that the next iteration hands over is that of the carry's result here."""
        parts, mirror = self.parts, self.mirror
        result, final = parts.carry_results[i], self.finals[i]
        param = Value(self.carried_type(i), f"g{i}")
        reached: Value | None = None
        if not tells(param.type) and (
                final is None or final.reached is not True or i in self.sometimes):
            reached = Value(reach_type(param.type), f"r{i}")
        value = restate(self.context, param, mirror.type(result.type))
        self.reverse.accumulate(mirror, self.local, result, Cotangent(value, True if reached is None else reached))
        return param, reached

    def carried_type(self, i: int) -> Type:
        """The type of a carry's cotangent in the mirror; sizes that change from iteration to iteration are fresh."""
        parts, mirror = self.parts, self.mirror
        param, out = parts.carry_params[i].type, parts.carry_outputs[i].type
        if holds_list(param):
            return cotangent_type(param)
        if param == out:
            return self.frame.type(out)
        type_, fresh = abstract(mirror.type(param), mirror.local)
        self.binds.extend(fresh)
        return type_

    def seed_element(self, y: Value, c: Cotangent) -> None:
        """The cotangent of one element of a sequence that the loop made."""
        mirror = self.mirror
        type_, fresh = abstract(mirror.type(y.type), mirror.local)
        if holds_list(type_):
            type_, fresh = cotangent_type(type_), ()
        param = Value(type_)
        reached: Reached = True
        self.binds.extend(fresh)
        self.sequences.append(c.value)
        self.seq_params.append(param)
        if isinstance(c.reached, Value):
            flag = reached = Value(reach_type(type_))
            self.sequences.append(c.reached)
            self.seq_params.append(flag)
        value = restate(self.context, param, mirror.type(y.type))
        self.reverse.accumulate(mirror, self.local, y, Cotangent(value, reached, c.clean))

    def seed_sum(self, w: Value) -> tuple[Value, Value | None]:
        """The sum so far for a value read from outside."""
        type_ = cotangent_type(self.frame.type(w.type))
        param, reached = Value(type_, w.name), None
        if isinstance(type_, SeqType) and not tells(type_):
            reached = Value(reach_type(type_))
        r: Reached = reached if reached is not None else tells(type_)
        self.local[w] = Cotangent(param, r)
        return param, reached

    # --- after it ---

    def end_carry(self, i: int, param: Value, reached: Value | None) -> _Tracked | None:
        """What is handed to the previous iteration; None if it is not always reached, which had been assumed."""
        parts, mirror, context = self.parts, self.mirror, self.context
        carry, init = parts.carry_params[i], parts.carries[i]
        c = self.local.pop(carry, None)
        type_ = mirror.type(carry.type)
        if reached is None and not tells(type_) and (c is None or c.reached is not True):
            self.sometimes.add(i)
            return None
        with self.builder.into(mirror.out):
            if c is None:
                c = zero(context, type_, lambda: mirror.fetch(carry))
            value = masked(context, c)
            r = as_reached(context, c.reached, type_, lambda: mirror.fetch(carry)) if reached is not None else None
        out = parts.carry_outputs[i]
        final = self.finals[i] or zero(context, self.frame.type(out.type), lambda: self.frame.fetch(out))
        out_type = param.type if carry.type == out.type or holds_list(type_) else type_
        tracked = _Tracked(_Carry(masked(context, final), param, value, out_type), None, init)
        if reached is not None and r is not None:
            start = as_reached(context, final.reached, self.frame.type(out.type), lambda: self.frame.fetch(out))
            tracked.reached = _Carry(start, reached, r, reached.type)
        return tracked

    def end_sum(self, w: Value, param: Value, reached: Value | None, n: Value) -> _Tracked:
        """The sum after this iteration."""
        context, c, type_ = self.context, self.local[w], param.type
        with self.builder.into(self.mirror.out):
            value = masked(context, c)
        before = self.cotangents.get(w) or zero(context, type_, lambda: self.frame.fetch(w))
        tracked = _Tracked(_Carry(masked(context, before), param, value, type_), None, w)
        if tells(type_):
            return tracked
        if reached is not None:
            with self.builder.into(self.mirror.out):
                r = as_reached(context, c.reached, type_, lambda: self.mirror.fetch(w))
            start = as_reached(context, before.reached, type_, lambda: self.frame.fetch(w))
            tracked.reached = _Carry(start, reached, r, reached.type)
        elif c.reached is True:  # in every iteration, if there is one
            tracked.always = either(context, before.reached, self.some_trip(n))
        elif before.reached is not True:
            reached = Value(BOOL)
            with self.builder.into(self.mirror.out):
                now = either(context, reached, c.reached)
            assert isinstance(now, Value)
            start = as_reached(context, before.reached, type_, lambda: self.frame.fetch(w))
            tracked.reached = _Carry(start, reached, now, BOOL)
        return tracked

    def some_trip(self, n: Value) -> Reached:
        """Whether the loop runs at all."""
        made = self.reverse.flow.producer.get(self.parts.trips)
        if made is not None and made.op == "num.const" and made.attrs["value"] >= 1:
            return True
        return self.builder.one("num.gt", n, self.builder.one("num.const", value=0))

    def emit(self, n: Value, carries: list[_Carry], y_values: list[Value]) -> list[Value]:
        """The scan itself; what became of the carries, and the sequences."""
        mirror, body = self.mirror, self.mirror.out
        mirror.finish([*(c.result for c in carries), *y_values])
        carried = [*carries, *(_Carry(*shifted, shifted[0].type) for shifted in mirror.shifted)]
        body.params = (self.counter, *(c.param for c in carried), *self.seq_params, *mirror.seq_params)
        body.results = (*(c.result for c in carried), *y_values)
        body.binds = (*self.binds, *mirror.binds)
        local = {*mirror.local, *body.binds}
        types: list[Type] = []
        binds: list[Symbol] = []
        for c in carried:
            type_, fresh = abstract(c.out_type, local)
            types.append(type_)
            binds.extend(fresh)
        types.extend(SeqType(abstract(v.type, local)[0]) for v in y_values)
        inputs = [n, *(c.init for c in carried), *self.sequences, *mirror.sequences]
        outputs = self.builder.emit("scan", inputs, blocks=[body], types=types, binds=binds, n_carries=len(carried),
                                    reverse=not self.parts.node.attrs.get("reverse", False))
        assert self.frame.out is self.builder.block
        return [*outputs[:len(carries)], *outputs[len(carried):]]
