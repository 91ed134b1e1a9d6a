"""The three kinds of mirror, by how saved values arrive: as inputs of a graph, from an `if`, from a loop."""

from collections.abc import Mapping, Sequence

from jitgrad.dims import Dim, Symbol, symbols
from jitgrad.ops.opdef import RANDOM, is_kind
from jitgrad.ops.types import OptionalType, SeqType, TensorType
from jitgrad.script.autodiff.amend import NUMBERS, abstract
from jitgrad.script.autodiff.cotangents import holds_list
from jitgrad.script.autodiff.frame import Context, Frame, Mirror
from jitgrad.script.autodiff.regions import flatten
from jitgrad.script.autodiff.rematerialise import Saved
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value
from jitgrad.script.passes.dce import dce


class Thrifty(Mirror):
    """A mirror that asks of a forward that is compiled for no more than its results need.

    What that saves is for gradients of all outputs. One of some of them may compute whether it is there at all; what
    control flow makes beside that must not ask for more.
    """

    def live(self) -> tuple[list[Node], set[Value]]:
        if self.context.amend.is_frozen(self.block):
            self.out.nodes = dce(flatten(Graph(Block((), self.out.nodes, self.out.results), ""))).block.nodes
        return super().live()


class FunctionFrame(Thrifty):
    """The top frame of a backward graph of its own: saved values are the graph's inputs, and so are cotangents.

    Args:
        context: as for every frame.
        block: the forward graph's block.
        residuals: what the compiled forward saves; None to have that decided.
        instead: None, or: what moves fewer bytes when it is computed again is; and how some values may be.
    """

    def __init__(self, context: Context, block: Block, residuals: Sequence[Value] | None,
                 instead: Mapping[Value, Value] | None = None):
        super().__init__(context, block, None)
        self.choice = Saved(self, instead) if instead is not None else None
        self.residuals = residuals
        self.cotangents: list[Value] = []
        for v in residuals or ():
            self.saved[v] = self.image(v)
            if v in context.flow.producer:
                context.amend.note_size(block, context.flow.producer[v])

    def adopt(self, symbol: Symbol) -> None:
        self.local[symbol] = symbol  # another graph, so the symbols can be the same

    def substitute(self) -> None:
        if self.choice is not None:
            self.choice.substitute()

    def is_cheaper(self, node: Node) -> bool:
        return self.choice is not None and self.choice.is_cheaper(node)

    def is_cheap(self, node: Node) -> bool:
        return super().is_cheap(node) or (self.choice is not None and is_kind(node.op, RANDOM))

    def may_save(self, v: Value) -> None:
        assert self.residuals is None, f"the compiled forward does not save {v}"

    def bind_symbols(self, kept: Sequence[Node]) -> list[tuple[Symbol, Value]]:
        for image in self.cotangents:
            if image in self.needed:
                self.extra_symbols.update(dict.fromkeys(self.context.type_symbols(image.type)))
        return super().bind_symbols(kept)

    def bring_in(self) -> None:
        params: list[Value] = []
        binds: list[Symbol] = []
        arrivals = [(image, *self.arrival(v, image)) for v, image in self.saved.items()]
        for image in self.cotangents:
            # Sizes come from what is saved, so that every set of cotangents finds them.
            unbound = [s for s in dict.fromkeys(self.context.type_symbols(image.type))
                       if s not in self.bound and not holds_list(image.type)]
            type_, fresh = abstract(image.type, unbound)
            arrivals.append((image, Value(type_, image.name) if fresh else image, fresh))
        for image, raw, bound in arrivals:
            params.append(raw)
            binds.extend(bound)
            if raw is not image and image in self.needed:
                self.late.append((raw, image))
        self.residuals = list(self.saved)
        self.out.params, self.out.binds = tuple(params), tuple(binds)


class BranchFrame(Thrifty):
    """The mirror of a branch: saved values arrive from the forward `if`'s outputs, most of them Optional."""

    def image(self, v: Value) -> Value:
        passed: list[tuple[BranchFrame, Value]] = []
        frame: Frame = self
        at = v
        while isinstance(frame, BranchFrame) and at not in frame.images and frame.is_output(at):
            passed.append((frame, at))
            at, frame = frame.output(at), frame.around
        if not passed:
            return super().image(v)
        found = frame.image(at)
        for branch, x in passed:
            branch.images[x] = found
            branch.given.add(x)
        return found

    def saved_already(self, v: Value) -> bool:
        if not super().saved_already(v):
            return False  # where the forward is compiled, an output of the `if` is there if that is saved
        around = self.around
        return not self.context.amend.is_frozen(self.block) or not isinstance(around, Mirror) or around.ready(
            self.output(v))

    def is_output(self, v: Value) -> bool:
        """Whether the output of the `if` that holds `v` is the value itself: Optionals, and known sequences."""
        return isinstance(v.type, OptionalType) or (
            isinstance(v.type, SeqType) and self.saved_already(v) and not self.is_wrapped(v))

    @property
    def around(self) -> Frame:
        """The frame of the block that holds the `if`."""
        assert self.parent is not None
        return self.parent

    def output(self, v: Value) -> Value:
        """The output of the forward `if` that holds `v`."""
        out, binds = self.context.save(self.block, v)
        for symbol in binds:
            self.around.adopt(symbol)
        return out

    def is_wrapped(self, v: Value) -> bool:
        """Whether `v` arrives in an Optional."""
        out = self.context.amend.outside(self.block, v)
        return v.type not in NUMBERS if out is None else isinstance(out.type, OptionalType)

    def binds_of(self, v: Value, image: Value) -> list[Symbol] | None:
        if self.is_wrapped(v):
            return super().binds_of(v, image)
        return []  # a result of the branch: its sizes are those of the output, and are restated

    def bring_in(self) -> None:
        nodes = self.context.builder.block.nodes
        for v, image in self.saved.items():
            wrapped, given = self.is_wrapped(v), self.around.image(self.output(v))
            if wrapped:
                raw, bound = self.arrival(v, image)
                raw = self.payload(given, raw, bound)
                nodes.append(Node("opt.get", (given,), {"known": True}, (raw,), (), self.context.builder.span, bound))
                if raw is not image:
                    self.late.append((raw, image))
            elif isinstance(image.type, TensorType):
                self.late.append((given, image))
            else:
                assert image.type in NUMBERS, f"{image} cannot be renamed"
                nodes.append(Node("num.cast", (given,), {"to": str(image.type)}, (image,)))

    def payload(self, optional: Value, raw: Value, bound: Sequence[Symbol]) -> Value:
        """`raw`, which binds symbols, or a value in its place whose sizes from outside are as the Optional has them."""
        assert isinstance(optional.type, OptionalType)
        elem = optional.type.elem
        if not isinstance(elem, TensorType) or not isinstance(raw.type, TensorType):
            return raw
        own = {*self.local, *self.bound, *bound}
        dims = tuple([r if isinstance(r, Dim) and not symbols(r).isdisjoint(own) else o
                      for o, r in zip(elem.dims, raw.type.dims, strict=True)])
        return raw if dims == raw.type.dims else Value(TensorType(raw.type.dtype, dims), raw.name)


class LoopFrame(Thrifty):
    """The mirror of a loop's body: saved values arrive as the elements of sequences, or are carried.

    The result of a carry is the next iteration's parameter; in reverse order that has just been seen. So where both
    are needed only the parameter is saved, and the result is carried along, from the loop's final value on.

    After `finish`: `sequences` and `seq_params` are xs of the backward scan; `shifted` (initial, param, result) are
    carries of it.
    """

    def __init__(self, context: Context, loop: Loop, parent: Frame):
        super().__init__(context, loop.body, parent)
        self.sequences: list[Value] = []
        self.seq_params: list[Value] = []
        self.shifted: list[tuple[Value, Value, Value]] = []
        self.binds: list[Symbol] = []
        #: the parameter and the output of the carry with a result
        self.carry_of = {r: (p, out) for p, r, out in zip(
            loop.carry_params, loop.carry_results, loop.carry_outputs, strict=True)
            if r.type == p.type == out.type and not isinstance(p.type, OptionalType)}

    def carried_along(self, v: Value) -> tuple[Value, Value] | None:
        """The parameter and the output of the carry whose result is `v`, if that can be had from the next iteration."""
        found = self.carry_of.get(v)
        if found is None or not (found[0] is v or found[0] in self.saved or super().saved_already(found[0])):
            return None
        return found  # `v` itself where no iteration changes it

    def saved_already(self, v: Value) -> bool:
        if super().saved_already(v):
            return True
        carry = self.carried_along(v) if self.context.amend.is_frozen(self.block) else None
        return carry is not None and self.parent is not None and self.parent.ready(carry[1])

    def bring_in(self) -> None:
        assert self.parent is not None
        amend = self.context.amend
        shifted: dict[Value, tuple[Value, Value]] = {}
        for v in list(self.saved):
            carry = self.carried_along(v) if amend.outside(self.block, v) is None else None
            if carry is not None:
                shifted[v] = carry
                if carry[0] not in self.saved:
                    self.saved[carry[0]] = self.image(carry[0])
        for v, image in self.saved.items():
            if v in shifted:
                param, out = shifted[v]
                self.shifted.append((self.parent.fetch(out), image, self.saved[param]))
                continue
            seq, _ = self.context.save(self.block, v)
            raw, bound = self.arrival(v, image)
            self.sequences.append(self.parent.fetch(seq))
            self.seq_params.append(raw)
            self.binds.extend(bound)
            if raw is not image:
                self.late.append((raw, image))
