"""Branches and loops as steps.

A carried tensor has two buffers: the body writes the one while it reads the other, and nothing is copied unless the
result is not made in the body. One to which the body only adds a matrix product has one buffer. A result that a `scan`
also collects is made in the sequence's own memory, and so is one that it collects an iteration later, as what a
gradient needs; one that it reads from a sequence stays there.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.codegen.lower.rules.joins import Transfer, aim, constant, make_variable, number, put_at
from jitgrad.codegen.lower.rules.ops import part_of
from jitgrad.codegen.lower.rules.products import Sums, transposed
from jitgrad.codegen.lower.rules.sequences import columns_of, element_place, read_element, type_unknown, write_element
from jitgrad.codegen.lower.rules.updates import chain
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.sequence_steps import SeqGrow, SeqLength, SeqStart
from jitgrad.codegen.program.step import Buffer, Column, Ref
from jitgrad.codegen.program.steps import Allocate, Assign, IfStep, LoopStep, Point
from jitgrad.dims import Size, dim, product, symbols
from jitgrad.ops.types import BOOL, INT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Loop, Node, Value, payload, walk


def if_node(state: Lowering, node: Node) -> None:
    """Both branches set the results' variables."""
    for out in node.outputs:
        make_variable(state, out)
    branches = []
    for block in node.blocks:
        with state.scope(), state.collecting() as steps:
            state.nested(state, block)
            transfer = Transfer(state, node.binds)
            for out, result in zip(node.outputs, block.results, strict=True):
                transfer.add(out, result)
            transfer.emit()
        branches.append(steps)
    state.emit(IfStep(node.inputs[0], branches[0], branches[1]))


# --- loops ---------------------------------------------------------------------------------------------------------


class LoopSteps(Loop):
    """A `while` or `scan` under construction."""

    def __init__(self, state: Lowering, node: Node):
        super().__init__(node)
        self.state, self.scan = state, node.op == "scan"
        self.inner = set(self.body.binds) | {s for k in walk(self.body) for s in k.binds}
        self.inner |= {s for k in walk(self.body) for b in k.blocks for s in b.binds}
        self.inner |= {k.attrs["symbol"] for k in walk(self.body) if k.op == "dim.bind"}
        self.next: dict[int, Ref] = {}   # carry -> where the body writes it
        self.other: dict[int, Buffer] = {}
        self.own: dict[int, Ref] = {}    # carry -> its only buffer, to which the body adds products
        self.filled: dict[int, Node] = {}  # carry -> what writes a row of it
        self.late: dict[int, int] = {}   # carry -> the sequence that collects it as each iteration finds it
        self.k = Value(INT)              # iterations done
        self.position = self.k           # of the element read and written

    def lower(self) -> None:
        state = self.state
        condition = Value(BOOL)
        zero = constant(state, 0)
        trips = self.node.inputs[0]
        start = Transfer(state, self.body.binds)
        start.values.append((self.k, zero))
        sums = Sums(state, self.body)
        self.begin_sequences(trips)
        for j, (param, init) in enumerate(zip(self.carry_params, self.carries, strict=True)):
            way = self.updates(j, sums)
            if way or self.is_sum(j, sums):
                self.begin_sum(j, way, self.is_filled(j, trips, sums))
            elif j in self.late:
                make_variable(state, param)
                first = self.place_in(self.late[j], zero)
                state.copy_into(init, first)
                start.point(param, first)
            else:
                make_variable(state, param)
                start.add(param, init)
        if not state.device:
            for value in transposed(state, self.body):
                state.set_ref(value, state.contiguous(value))
        self.begin_buffers()
        start.values.append((condition, number(state, "num.lt", zero, trips) if self.scan else trips))
        start.emit()
        with state.scope(), state.collecting() as steps:
            self.begin_iteration(trips)
            state.nested(state, self.body)
            self.end_iteration(trips, condition)
        state.emit(LoopStep(condition, steps, self.frees()))
        self.finish()

    def frees(self) -> bool:
        """Whether nothing that an iteration takes from the arena is read after it."""
        if any(isinstance(payload(v.type), SeqType) for v in (*self.carry_params, *self.y_results)):
            return False
        grows = bool(self.y_results) and not self.scan
        return not grows and all(c.dims is not None for cs in self.columns for c in cs if c.kind == "tensor") and any(
            k.op in ("while", "scan") for k in walk(self.body))

    def fixed(self, type_: Type) -> bool:
        """Whether a tensor's sizes do not depend on the iteration."""
        return isinstance(type_, TensorType) and not any(s in self.inner for d in type_.dims for s in symbols(d))

    # --- carries to which the body adds matrix products ---

    def is_sum(self, j: int, sums: Sums) -> bool:
        """Whether carry `j` can stay where it is: all that the body does with it is to add a product to it."""
        param, result = self.carry_params[j], self.carry_results[j]
        return (result.type == param.type == self.carry_outputs[j].type and self.fixed(param.type)
                and self.body.results.count(result) == 1 and sums.over(param, result) is not None)

    def updates(self, j: int, sums: Sums) -> list[Value]:
        """The values on the way from a carry's parameter to its result, if the body only writes into parts of it."""
        param, result = self.carry_params[j], self.carry_results[j]
        if result is param or param.type != self.carry_outputs[j].type or not self.fixed(param.type) or (
                self.body.results.count(result) != 1):
            return []
        return chain(self.state, self.body, param, result, sums.uses) or []

    def is_filled(self, j: int, trips: Value, sums: Sums) -> bool:
        """Whether each iteration writes a row of a carry and they all rows, so that nobody sees what it was before."""
        state, param, result = self.state, self.carry_params[j], self.carry_results[j]
        maker = next((n for n in self.body.nodes if n.outputs and n.outputs[0] is result), None)
        if state.device or not self.scan or maker is None or maker.op != "select_scatter" or maker.attrs["axis"] != 0:
            return False
        bound = [n.attrs["symbol"] for n in self.body.nodes if n.op == "dim.bind" and n.inputs[0] is self.counter]
        filled = (maker.inputs[0] is param and sums.uses[param] == 1 and maker.attrs["index"] in map(dim, bound)
                  and state.sizes.get(tensor(param).dims[0]) is trips)
        if filled:
            self.filled[j] = maker
        return filled

    def begin_sum(self, j: int, way: list[Value], filled: bool) -> None:
        """Its memory (that of the final value, if it has a place), holding the initial value unless it is `filled`."""
        state, param, init = self.state, self.carry_params[j], self.carries[j]
        for v in (param, *way):
            state.note(state.owned, v)
        if init in state.owned and init in state.refs:  # a loop around this one keeps it in place
            self.own[j] = state.set_ref(param, state.refs[init])
            return
        place = state.dest.get(self.carry_outputs[j])
        if place is None or place.strides != contiguous_strides(place.dims):
            place = state.allocate(tensor(param).dtype, tensor(param).dims)
        if not filled:
            state.copy_into(self.carries[j], place)
        self.own[j] = state.set_ref(param, place)

    # --- sequences of results ---

    def begin_sequences(self, trips: Value) -> None:
        state = self.state
        self.columns: list[tuple[Column, ...]] = []
        for i, seq in enumerate(self.y_outputs):
            assert isinstance(seq.type, SeqType)
            columns = tuple(columns_of(seq.type.elem, lambda t: not type_unknown(state, t, self.inner)))
            self.columns.append(columns)
            capacity = trips if self.scan else None
            if self.is_late(i):
                self.late[self.carry_params.index(self.y_results[i])] = i
                capacity = number(state, "num.add", number(state, "num.max", trips, constant(state, 0)),
                                  constant(state, 1))
            state.emit(SeqStart(seq, columns, capacity))

    def is_late(self, i: int) -> bool:
        """Whether a sequence collects a carry as each iteration finds it: each result is the element after that, and
        the first element is what the carry begins with.
        """
        y, (column, *_) = self.y_results[i], self.columns[i]
        if self.state.device or not self.scan or self.node.attrs.get("reverse") or y not in self.carry_params:
            return False
        result = self.carry_results[self.carry_params.index(y)]
        return (isinstance(y.type, TensorType) and column.dims is not None and not self.state.holds(y)
                and result.type == y.type and result is not y and result not in self.y_results
                and self.y_results.count(y) == 1)

    def place_in(self, i: int, k: Value) -> Ref:
        """The storage of element k of a sequence of equal tensors."""
        return element_place(self.state, self.y_outputs[i], self.columns[i], 0, k)

    def begin_buffers(self) -> None:
        """Two buffers per carried tensor of fixed size, unless the body returns the carry as it is."""
        state = self.state
        for j, (param, result) in enumerate(zip(self.carry_params, self.carry_results, strict=True)):
            if j in self.own or state.holds(param) or result is param or not self.fixed(result.type):
                continue
            if j in self.late or self.is_read(j):
                continue
            kept = self.y_results.index(result) if self.scan and result in self.y_results else -1
            if kept >= 0 and self.columns[kept][0].dims is not None:
                continue  # the sequence keeps it
            d, shape = tensor(result).dtype, tensor(result).dims
            a, b = state.allocate(d, shape), state.allocate(d, shape)
            following, other = (Buffer(d, product(shape), "pointer") for _ in range(2))
            for pointer in (following, other):
                pointer.aliases |= {a.buffer, b.buffer}
            state.emit(Point(((following, a.buffer, 0), (other, b.buffer, 0))))
            self.next[j] = Ref(following, 0, shape, contiguous_strides(shape))
            self.other[j] = other

    def begin_iteration(self, trips: Value) -> None:
        """Elements of the sequences that are read; places of the results."""
        state = self.state
        if self.scan:
            if self.node.attrs.get("reverse"):
                last = number(state, "num.sub", trips, constant(state, 1))
                self.position = number(state, "num.sub", last, self.k)
            state.emit(Assign(((self.body.params[0], self.position),)))
            binds = set(self.body.binds)
            for seq, param in zip(self.seqs, self.seq_params, strict=True):
                read_element(state, seq, self.position, param, binds)
        if self.late:
            following = number(state, "num.add", self.k, constant(state, 1))
            self.next |= {j: self.place_in(i, following) for j, i in self.late.items()}
        for j, ref in (*self.next.items(), *self.own.items()):
            aim(state, self.carry_results[j], ref)
        known = self.body.nodes[0].binds if self.body.nodes else ()
        for j, maker in self.filled.items():  # the row, where its place is known before all else
            if symbols(maker.attrs["index"]).issubset(known):
                aim(state, maker.inputs[1], part_of(maker, self.own[j]))
        self.places: list[Ref | None] = []
        for i, (seq, columns, y) in enumerate(zip(self.y_outputs, self.columns, self.y_results, strict=True)):
            if not self.scan:
                state.emit(SeqGrow(seq, columns, self.k))
            place = None
            if i not in self.late.values() and isinstance(y.type, TensorType) and columns[0].dims is not None:
                place = self.place_in(i, self.position)
                if y not in state.dest and (self.scan or y not in self.carry_results):
                    aim(state, y, place)
            self.places.append(place)

    def end_iteration(self, trips: Value, condition: Value) -> None:
        """Store the ys, then let the results become the carries."""
        state = self.state
        for i, (seq, columns, y, place) in enumerate(zip(self.y_outputs, self.columns, self.y_results, self.places,
                                                         strict=True)):
            if place is not None:
                put_at(state, y, place)
            elif i not in self.late.values():
                write_element(state, seq, columns, 0, self.position, y)
        staged = [self.stage(j) for j in range(len(self.carry_params))]
        ready = [self.settle(j, value) for j, value in enumerate(staged)]
        transfer = Transfer(state, self.body.binds)
        moves: list[tuple[Buffer, Buffer, Size]] = []
        for j, (param, result) in enumerate(zip(self.carry_params, self.carry_results, strict=True)):
            if result is param or j in self.own:
                if isinstance(param.type, TensorType):
                    transfer.bind(param, param.type.dims)
                continue
            if j in self.next:
                transfer.point(param, self.next[j])
                if j in self.other:
                    following, other = self.next[j].buffer, self.other[j]
                    moves += [(following, other, 0), (other, following, 0)]
            else:
                transfer.add(param, ready[j])
        transfer.points += moves
        transfer.values.append((self.k, number(state, "num.add", self.k, constant(state, 1))))
        if self.scan:
            transfer.values.append((condition, number(state, "num.lt", transfer.values[-1][1], trips)))
        else:
            transfer.values.append((condition, self.body.results[0]))
        transfer.emit()

    def stage(self, j: int) -> Value:
        """Bring a result out of the way of what the carries are set to."""
        state, param, result = self.state, self.carry_params[j], self.carry_results[j]
        if result is param or j in self.own or self.is_read(j):
            return result
        if j in self.next:
            put_at(state, result, self.next[j])
            return result
        place = self.in_sequence(j)
        if place is not None:
            kept = Value(result.type)  # the sequence's memory stays; only the pointer moves on
            state.set_ref(kept, place)
            return kept
        return self.copied(result, temporary=True)

    def is_read(self, j: int) -> bool:
        """Whether a result is an element of a sequence that the loop reads: its memory outlives the iteration."""
        result = self.carry_results[j]
        return self.scan and result in self.seq_params and isinstance(result.type, TensorType) and (
            not self.state.holds(result))

    def in_sequence(self, j: int) -> Ref | None:
        """Where a sequence keeps a result that is behind a pointer."""
        result = self.carry_results[j]
        if not self.scan or result not in self.y_results or self.state.holds(self.carry_params[j]):
            return None
        return self.places[self.y_results.index(result)]

    def settle(self, j: int, value: Value) -> Value:
        """Where a staged result waits for the next iteration."""
        stays = j in self.next or j in self.own or self.is_read(j) or self.carry_results[j] is self.carry_params[j]
        return value if stays or self.in_sequence(j) is not None else self.copied(value, temporary=False)

    def copied(self, value: Value, temporary: bool) -> Value:
        """A copy of a tensor, or of an Optional's payload where it is there; other values stay as they are."""
        state = self.state
        if isinstance(value.type, OptionalType):
            return self.copied_optional(value, temporary)
        if not isinstance(value.type, TensorType) or state.holds(value):
            return value
        ref = state.ref(value)
        if temporary and ref.buffer.kind in ("slot", "growable") and ref is state.contiguous(value):
            return value
        copy, d = Value(value.type), ref.dtype
        buffer = Buffer(d, product(ref.dims), "growable", keeps=not temporary)
        state.emit(Allocate(buffer))
        state.set_ref(copy, Ref(buffer, 0, ref.dims, contiguous_strides(ref.dims)))
        state.copy_into(value, state.refs[copy])
        return copy

    def copied_optional(self, value: Value, temporary: bool) -> Value:
        state = self.state
        flag, payload = state.optionals[value]
        if payload is None or state.holds(payload) or not isinstance(payload.type, (TensorType, OptionalType)):
            return value
        with state.collecting() as steps:
            moved = self.copied(payload, temporary)
            if moved is payload:
                return value
            inner = Value(payload.type)
            make_variable(state, inner)
            transfer = Transfer(state, ())
            transfer.add(inner, moved)
            transfer.emit()
        state.emit(IfStep(flag, steps, []))
        if isinstance(payload.type, TensorType):
            dims = state.ref(payload).dims
            state.refs[inner] = Ref(state.refs[inner].buffer, 0, dims, contiguous_strides(dims))
        kept = Value(value.type)
        state.optionals[kept] = (flag, inner)
        return kept

    def finish(self) -> None:
        """The outputs: the carries as they are, and the sequences."""
        state = self.state
        transfer = Transfer(state, self.node.binds)
        if not self.scan:
            transfer.values.append((self.node.outputs[0], self.k))
        for seq in self.y_outputs:
            state.emit(SeqLength(seq, k=self.k))
        for j, (final, param) in enumerate(zip(self.carry_outputs, self.carry_params, strict=True)):
            if j in self.own:
                state.set_ref(final, self.own[j])
            else:
                make_variable(state, final)
                transfer.add(final, param)
        transfer.emit()


def loop_node(state: Lowering, node: Node) -> None:
    LoopSteps(state, node).lower()


RULES: dict[str, Callable[[Any, Node], None]] = {"if": if_node, "while": loop_node, "scan": loop_node}
