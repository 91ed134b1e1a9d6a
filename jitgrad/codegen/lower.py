"""A graph's blocks as steps: what is stored, what stays in registers, what is fused, in which order.

Every tensor value is one of: *stored* (it has a `Ref`), a *register* (pointwise on values of one element), *inline*
(constants, aranges and cheap expressions of them, repeated in every kernel that reads them), a *view* (an index map of
another value; never copied unless a library needs it), or inside one kernel only (never stored at all).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad import dims, dtypes
from jitgrad.codegen import access, lower_control, lower_ops
from jitgrad.codegen.access import AFFINE, Entry, IndexMap, contiguous_strides, through
from jitgrad.codegen.fuse import Fusion, Group, Item, Operand
from jitgrad.codegen.kernel import Stmt
from jitgrad.codegen.llvm_emit import EMIT
from jitgrad.codegen.lower_kernel import REDUCTIONS, GroupBuilder, KernelBuilder, read
from jitgrad.codegen.program import (
    Allocate,
    Buffer,
    CallSite,
    LoadScalar,
    NumberStep,
    Program,
    Ref,
    ScalarStep,
    StoreScalar,
)
from jitgrad.dims import Size, Symbol
from jitgrad.ops.types import INT, OptionalType, SeqType, TensorType
from jitgrad.script.ir import Block, Graph, Node, Value, attr_symbols, type_symbols
from jitgrad.script.irops import Effect, effect

#: the largest expression of constants that is repeated instead of stored
INLINE_LIMIT = 8
CREATES = frozenset({"full", "fill", "arange"})


def lower(name: str, graph: Graph) -> Program:
    """The program of a graph whose composites are decomposed. Raises NotImplementedError for a row nobody can run."""
    return Lowering(name, graph).program()


def tensor(value: Value) -> TensorType:
    """The type of a tensor value."""
    assert isinstance(value.type, TensorType), f"{value} is not a tensor"
    return value.type


def is_single(value: Value) -> bool:
    """Whether a tensor is known to have exactly one element."""
    return isinstance(value.type, TensorType) and all(d == 1 for d in value.type.dims)


class Lowering:
    """State of one program. Facts about values are scoped: what a nested block learns ends with it."""

    def __init__(self, name: str, graph: Graph):
        self.name, self.graph = name, graph
        self.refs: dict[Value, Ref] = {}
        self.registers: set[Value] = set()
        self.views: dict[Value, Node] = {}
        self.inlined: dict[Value, tuple[Node, int]] = {}
        self.dest: dict[Value, Ref] = {}
        self.created: dict[Value, Node] = {}    # constants and aranges that are items of their own
        self.sizes: dict[Size, Value] = {}
        self.steps: list[Any] = []
        self.undo: list[tuple[Any, Any]] = []
        self.sites: list[CallSite] = []
        self.reasons: list[str] = []
        self.records = lower_control.Records()
        self.input_buffers: dict[int, Buffer] = {}
        self.symbols = self._entry_symbols()
        self.visible: set[Symbol] = set(self.symbols)
        self.originals: dict[int, Ref] = {}     # inputs that are read through a copy: their own memory
        self.checks: dict[Node, bool] = {}
        self.captured: dict[Node, frozenset[Value]] = {}
        self.effects: dict[Node, bool] = {}

    # --- the whole program ---

    def program(self) -> Program:
        parts = lower_control.bind_inputs(self)
        before = self.steps
        outputs = lower_control.plan_outputs(self)
        self.steps = [*before, *BlockLowering(self, self.graph.block).run()]
        lower_control.store_outputs(self, outputs)
        commits = tuple(sorted({n.attrs["target"] for n in lower_control.walk(self.graph.block) if n.op == "commit"}))
        return Program(self.name, tuple(v.type for v in self.graph.inputs), self.input_buffers, parts,
                       self.symbols, self.steps, outputs, self.sites, self.reasons, commits)

    def _entry_symbols(self) -> dict[Symbol, tuple[int, int]]:
        """Where each symbol of the inputs is read; in an Optional only if it is nowhere else."""
        found: dict[Symbol, tuple[int, int]] = {}
        for optional in (False, True):
            for i, value in enumerate(self.graph.inputs):
                type_ = value.type
                while optional and isinstance(type_, OptionalType):
                    type_ = type_.elem
                if isinstance(type_, TensorType):
                    for axis, size in enumerate(type_.dims):
                        if isinstance(size, dims.Dim) and size.symbol is not None:
                            found.setdefault(size.symbol, (i, axis))
        return found

    def known_at_entry(self, sizes: Iterable[Size]) -> bool:
        """Whether sizes can be computed before anything else."""
        return all(s in self.symbols for size in sizes for s in dims.symbols(size))

    def emit(self, step: Any) -> None:
        self.steps.append(step)

    # --- scopes ---

    def mark(self) -> int:
        return len(self.undo)

    def release(self, mark: int) -> None:
        """Forget what was learnt since `mark`."""
        while len(self.undo) > mark:
            where, key = self.undo.pop()
            if isinstance(where, set):
                where.discard(key)
            else:
                where.pop(key, None)

    def set_ref(self, value: Value, ref: Ref) -> Ref:
        self.refs[value] = ref
        self.undo.append((self.refs, value))
        return ref

    def set_register(self, value: Value) -> None:
        self.registers.add(value)
        self.undo.append((self.registers, value))

    # --- memory ---

    def allocate(self, d: dtypes.dtype, shape: Sequence[Size]) -> Ref:
        """A new contiguous tensor in the workspace."""
        size = dims.product(shape)
        if self.known_at_entry((size,)):
            buffer = Buffer(d, size, "slot")
        else:
            buffer = Buffer(d, size, "growable")
            self.emit(Allocate(buffer))
        return Ref(buffer, 0, tuple(shape), contiguous_strides(shape))

    def place(self, value: Value) -> Ref:
        """Where `value`, about to be computed, is stored."""
        found = self.dest.get(value)
        if found is None:
            type_ = tensor(value)
            found = self.allocate(type_.dtype, type_.dims)
        return self.set_ref(value, found)

    def in_register(self, value: Value) -> bool:
        return value in self.registers or not isinstance(value.type, TensorType)

    def is_inline(self, value: Value) -> bool:
        return value in self.inlined and value not in self.refs and value not in self.registers

    def resolve(self, value: Value, entries: IndexMap) -> tuple[Value, IndexMap]:
        """The value that is not a view behind `value`, and how it is read."""
        while value in self.views:
            node = self.views[value]
            behind = through(node, entries)
            assert behind is not None
            value, entries = node.inputs[0], behind
        return value, entries

    def base(self, value: Value) -> Value:
        """What is read when `value` is."""
        while value in self.views:
            value = self.views[value].inputs[0]
        return value

    def ref(self, value: Value) -> Ref:
        """`value` in memory, stored now if it was not."""
        found = self.refs.get(value)
        if found is not None:
            return found
        type_ = tensor(value)
        if value in self.views:
            rank = len(type_.dims)
            base, entries = self.resolve(value, tuple((a, 1, 0) for a in range(rank)))
            behind = self.ref(base)
            strides: list[Size] = [0] * rank
            offset = behind.offset
            for (axis, factor, shift), stride in zip(entries, behind.strides, strict=True):
                if axis >= 0:
                    strides[axis] = strides[axis] + factor * stride
                if shift != 0:
                    offset = offset + shift * stride
            return self.set_ref(value, Ref(behind.buffer, offset, type_.dims, tuple(strides)))
        if value in self.registers:
            ref = self.place(value)
            self.emit(StoreScalar(value, ref.buffer, ref.offset))
            return ref
        assert value in self.inlined, f"{value} is not stored"
        target = self.dest.get(value) or self.allocate(type_.dtype, type_.dims)
        self.copy_into(value, target)
        return self.set_ref(value, target)

    def copy_into(self, value: Value, target: Ref) -> None:
        """target[...] = value, wherever value is."""
        kept = [a for a, size in enumerate(target.dims) if size != 1]
        number = {a: i for i, a in enumerate(kept)}
        entries: IndexMap = tuple((number[a], 1, 0) if a in number else access.NOWHERE
                                  for a in range(len(target.dims)))
        base, entries = self.resolve(value, entries)
        builder = KernelBuilder([target.dims[a] for a in kept], name="copy")
        if isinstance(base.type, TensorType) and base in self.registers and not kept:
            self.emit(StoreScalar(base, target.buffer, target.offset))
            return
        result = read(self, builder, base, entries, range(len(kept)))
        builder.store(result, target.buffer, target.offset, [target.strides[a] for a in kept])
        self.emit(builder.finish())

    def contiguous(self, value: Value) -> Ref:
        """`value` in memory in row-major order."""
        ref = self.ref(value)
        if access.is_contiguous(ref.dims, ref.strides):
            return ref
        target = self.allocate(ref.dtype, ref.dims)
        self.copy_into(value, target)
        return target

    def register(self, value: Value) -> Value:
        """A value of one element as a register: the Value that names it."""
        base = self.base(value)
        if base in self.registers or not isinstance(base.type, TensorType):
            return base
        if base in self.inlined:
            node, _ = self.inlined[base]
            if node.op == "arange":
                self.emit(ScalarStep(Node("full", (), {"value": 0, "dtype": tensor(base).dtype}, node.outputs), ()))
            else:
                args = tuple(v if node.op == "fill" else self.register(v) for v in node.inputs)
                self.emit(ScalarStep(node, args))
            self.set_register(base)
            return base
        ref = self.ref(value)
        self.emit(LoadScalar(value, ref.buffer, ref.offset))
        self.set_register(value)
        return value

    def size_number(self, size: Size) -> Value:
        """A number that holds a size."""
        found = self.sizes.get(size)
        if found is None:
            found = Value(INT)
            self.emit(NumberStep(Node("dim.value", (), {"dim": size}, (found,))))
            self.sizes[size] = found
            self.undo.append((self.sizes, size))
        return found

    # --- inside kernels ---

    def inline(self, builder: KernelBuilder, value: Value, entries: IndexMap, axes: Sequence[int]) -> int:
        """A repeated expression as statements."""
        node = self.created.get(value) or self.inlined[value][0]
        d = tensor(value).dtype
        if node.op == "full":
            return builder.const(node.attrs["value"], d)
        if node.op == "fill":
            return builder.scalar(node.inputs[0], d)
        if node.op == "arange":
            i = builder.affine(entries[0], axes, self.size_number)
            return i if d is dtypes.int64 else builder.add(Stmt("cast", (i,), d))
        args = []
        target = tensor(value).dims
        for operand in node.inputs:
            base, behind = self.resolve(operand, access.broadcast(entries, tensor(operand).dims, target))
            args.append(read(self, builder, base, behind, axes))
        return builder.add(Stmt(node.op, tuple(args), d))

    def see(self, binders: Iterable[Symbol]) -> None:
        """Symbols that are bound from here on."""
        for s in binders:
            if s not in self.visible:
                self.visible.add(s)
                self.undo.append((self.visible, s))

    def site(self, kind: Any, node: Node | None) -> int:
        """A new place where native code may leave for Python."""
        self.sites.append(CallSite(kind, node, node.span if node is not None else None))
        return len(self.sites) - 1

    # --- nested blocks ---

    def captures(self, node: Node) -> frozenset[Value]:
        """What the blocks of a node read from outside."""
        found = self.captured.get(node)
        if found is None:
            inside: set[Value] = set()
            outside: set[Value] = set()
            for block in node.blocks:
                inside.update(block.params)
                for n in block.nodes:
                    outside.update(n.inputs)
                    if n.blocks:
                        outside |= self.captures(n)
                    inside.update(n.outputs)
                outside.update(block.results)
            found = self.captured[node] = frozenset(outside - inside)
        return found

    def has_effect(self, node: Node) -> bool:
        """Whether a node or something inside it must keep its place among effects."""
        found = self.effects.get(node)
        if found is None:
            found = effect(node.op, node.attrs) is not Effect.NONE or any(
                self.has_effect(n) for block in node.blocks for n in block.nodes)
            self.effects[node] = found
        return found

    def may_check(self, node: Node) -> bool:
        """Whether a node is a check or has one inside: what follows may rely on it."""
        found = self.checks.get(node)
        if found is None:
            found = node.op == "check" or any(self.may_check(n) for block in node.blocks for n in block.nodes)
            self.checks[node] = found
        return found


class BlockLowering:
    """One block: classify its nodes, fuse, order, emit."""

    def __init__(self, state: Lowering, block: Block):
        self.state, self.block = state, block
        self.items: list[Item] = []
        self.producers: dict[Value, Any] = {}   # base value -> item or node that makes it, in this block
        self.item_of: dict[Value, Item] = {}
        self.depends: dict[object, set[object]] = {}
        self.positions: dict[object, int] = {}
        self.consumers: dict[Value, list[Item]] = {}
        self.stored: set[Value] = set()         # bases that something other than a kernel reads
        self.group_of: dict[Item, Group] = {}
        self.reads: dict[object, set[Value]] = {}  # unit -> bases that it reads

    def run(self) -> list[Any]:
        """The block's steps; its results are then where `ref` and `register` say."""
        state, outer = self.state, self.state.steps
        state.steps = []
        state.see(self.block.binds)
        self.classify()
        fusion = Fusion(self.items, self.item_of, self.depends, self.positions)
        groups = fusion.run()
        for group in groups:
            for item in group.items:
                self.group_of[item] = group
        state.reasons += [_reason(*r) for r in fusion.reasons]
        for unit in self.order(groups):
            if isinstance(unit, Group):
                state.emit(GroupBuilder(_View(self), unit).build())
            else:
                self.other(unit)
        steps, state.steps = state.steps, outer
        return steps

    # --- classification ---

    def classify(self) -> None:
        state = self.state
        self.wanted_inline = self.materialised()
        binders: dict[Symbol, object] = {}
        last_effect: object | None = None
        last_check: object | None = None
        for index, node in enumerate(self.block.nodes):
            if node.op in AFFINE and self.is_view(node):
                state.views[node.outputs[0]] = node
                continue
            if self.try_inline(node):
                continue
            unit: object = self.item(node, index)
            if unit is None:
                unit = node
            self.positions[unit] = index
            self.depends[unit] = self.needs(unit, node)
            if binders:
                self.depends[unit] |= {binders[s] for s in _symbols(node) if s in binders}
            for s in node.binds:
                binders[s] = unit
            if node.op == "dim.bind":
                binders[node.attrs["symbol"]] = unit
            if last_check is not None:
                self.depends[unit].add(last_check)
            if state.may_check(node):
                last_check = unit
            if state.has_effect(node):
                if last_effect is not None:
                    self.depends[unit].add(last_effect)
                last_effect = unit
            for value in node.outputs:
                self.producers[value] = unit
        for result in self.block.results:
            if isinstance(result.type, TensorType):
                self.stored.add(state.base(result))
        lower_control.order_commits(self)

    def is_view(self, node: Node) -> bool:
        if node.op != "reshape":
            return True
        rank = len(tensor(node.outputs[0]).dims)
        return through(node, tuple((a, 1, 0) for a in range(rank))) is not None

    def materialised(self) -> set[Value]:
        """Values that a node other than a kernel reads directly: those are not repeated in kernels."""
        found: set[Value] = set()
        for node in self.block.nodes:
            if node.op == "reshape" and self.is_view(node):
                continue
            if node.op in ("index", "gather"):
                found.add(node.inputs[0])
            elif node.op in lower_ops.STORING:
                found.update(node.inputs)
        return found

    def try_inline(self, node: Node) -> bool:
        state = self.state
        if len(node.outputs) != 1 or (node.outputs[0] in self.wanted_inline and not is_single(node.outputs[0])):
            return False
        if node.op in CREATES:
            state.inlined[node.outputs[0]] = (node, 1)
            return True
        if node.op not in CHEAP or not node.inputs:
            return False
        total = 1
        for value in node.inputs:
            found = state.inlined.get(state.base(value))
            if found is None:
                return False
            total += found[1]
        if total > INLINE_LIMIT:
            return False
        state.inlined[node.outputs[0]] = (node, total)
        return True

    def item(self, node: Node, index: int) -> Item | None:
        """The node as a member of kernels, or None."""
        op, state = node.op, self.state
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return None
        out = node.outputs[0]
        if op in EMIT or op in CREATES:
            if is_single(out) and op in EMIT:
                return None
            if op in CREATES:
                state.created[out] = node
            item = self.pointwise(node, index)
        elif op in REDUCTIONS or op == "sum_to":
            made = self.reduction(node, index)
            if made is None:
                return None
            item = made
        elif op in ("index", "gather"):
            item = self.gather(node, index)
        else:
            return None
        self.items.append(item)
        self.item_of[out] = item
        for operand in item.operands:
            self.consumers.setdefault(operand.base, []).append(item)
            if operand.stored:
                self.stored.add(operand.base)
        return item

    def operand(self, value: Value, entries: IndexMap, stored: bool = False) -> Operand:
        base, behind = self.state.resolve(value, entries) if not stored else (value, entries)
        return Operand(base, behind, stored)

    def pointwise(self, node: Node, index: int) -> Item:
        out = node.outputs[0]
        shape = tensor(out).dims
        space, own = _axes(shape)
        operands = []
        if node.op not in CREATES:
            operands = [self.operand(v, access.broadcast(own, tensor(v).dims, shape)) for v in node.inputs]
        return Item(node, out, space, frozenset(), operands, tuple(e[0] for e in own), index)

    def reduction(self, node: Node, index: int) -> Item | None:
        x, out = node.inputs[0], node.outputs[0]
        shape = tensor(x).dims
        space, own = _axes(shape)
        if node.op == "sum_to":
            axes = lower_ops.summed_axes(shape, node.attrs["shape"])
            if axes is None:
                return None
            node = Node("sum", node.inputs, {"axes": axes, "keepdim": True}, node.outputs, (), node.span)
            lead = len(shape) - len(tensor(out).dims)
            out_axes = tuple(-1 if i in axes else own[i][0] for i in range(lead, len(shape)))
        else:
            axes = node.attrs["axes"]
            kept = [i for i in range(len(shape)) if i not in axes]
            out_axes = tuple(-1 if i in axes else own[i][0] for i in (
                range(len(shape)) if node.attrs["keepdim"] else kept))
        inner = frozenset(own[a][0] for a in axes if own[a][0] >= 0)
        return Item(node, out, space, inner, [self.operand(x, own)], out_axes, index)

    def gather(self, node: Node, index: int) -> Item:
        out, x = node.outputs[0], node.inputs[0]
        shape = tensor(out).dims
        space, own = _axes(shape)
        data, indices = lower_ops.gather_entries(node, own)
        operands = [self.operand(x, data, stored=True)]
        operands += [self.operand(v, e) for v, e in zip(node.inputs[1:], indices, strict=True)]
        return Item(node, out, space, frozenset(), operands, tuple(e[0] for e in own), index)

    def needs(self, unit: object, node: Node) -> set[object]:
        """The units of this block that `unit` reads; notes what must be stored for it."""
        state = self.state
        found: set[object] = set()
        reads = self.reads[unit] = set()
        if isinstance(unit, Item):
            for operand in unit.operands:
                base = state.base(operand.base)
                reads.add(base)
                self.add_producers(base, found)
                if operand.stored:
                    self.stored.add(base)
            return found
        values: Iterable[Value] = node.inputs
        if node.blocks:
            values = [*node.inputs, *state.captures(node)]
        for value in values:
            base = state.base(value)
            reads.add(base)
            self.add_producers(base, found)
            if isinstance(base.type, TensorType):
                self.stored.add(base)
        return found

    def add_producers(self, base: Value, found: set[object]) -> None:
        """The unit that makes `base`; for an inline value, those of what it reads."""
        unit = self.producers.get(base)
        if unit is not None:
            found.add(unit)
        elif base in self.state.inlined:
            for value in self.state.inlined[base][0].inputs:
                self.add_producers(self.state.base(value), found)

    def is_needed(self, value: Value, group: Group) -> bool:
        """Whether somebody outside the group reads an item's result."""
        if value in self.stored or value in self.state.dest:
            return True
        return any(self.group_of[item] is not group for item in self.consumers.get(value, ()))

    # --- order ---

    def order(self, groups: list[Group]) -> list[Any]:
        """Groups and other nodes so that everything comes after what it needs, else in program order."""
        cluster: dict[object, Any] = {item: g for g in groups for item in g.items}
        clusters: dict[Any, int] = {}
        for unit, position in self.positions.items():
            c = cluster.get(unit, unit)
            clusters[c] = max(clusters.get(c, -1), position)
        waits: dict[Any, set[Any]] = {c: set() for c in clusters}
        for unit, needs in self.depends.items():
            c = cluster.get(unit, unit)
            waits[c].update(cluster.get(n, n) for n in needs)
        users: dict[Any, list[Any]] = {c: [] for c in clusters}
        counts: dict[Any, int] = {}
        for c, needs in waits.items():
            needs.discard(c)
            counts[c] = len(needs)
            for n in needs:
                users[n].append(c)
        ready = [(position, c) for c, position in clusters.items() if not counts[c]]
        heap = [(position, number, c) for number, (position, c) in enumerate(ready)]
        heapq.heapify(heap)
        result: list[Any] = []
        tie = len(heap)
        while heap:
            _, _, c = heapq.heappop(heap)
            result.append(c)
            for user in users[c]:
                counts[user] -= 1
                if not counts[user]:
                    tie += 1
                    heapq.heappush(heap, (clusters[user], tie, user))
        assert len(result) == len(clusters), "the fusion groups of a block need each other"
        return result

    # --- nodes that are not in kernels ---

    def other(self, node: Node) -> None:
        state = self.state
        if node.op in EMIT and is_single(node.outputs[0]):
            state.emit(ScalarStep(node, tuple(state.register(v) for v in node.inputs)))
            state.set_register(node.outputs[0])
            return
        rule = lower_ops.RULES.get(node.op) or lower_control.RULES.get(node.op)
        if rule is not None:
            rule(state, node)
        elif node.op.startswith("num."):
            checked = effect(node.op, node.attrs) is not Effect.NONE
            state.emit(NumberStep(node, state.site("arithmetic", node) if checked else -1))
        else:
            lower_ops.library(state, node)
        state.see(node.binds)
        if node.op == "dim.bind":
            state.see((node.attrs["symbol"],))


class _View:
    """What a `GroupBuilder` asks of a block and its program."""

    def __init__(self, block: BlockLowering):
        self.is_needed = block.is_needed
        state = block.state
        self.place, self.ref, self.inline = state.place, state.ref, state.inline
        self.is_inline, self.in_register = state.is_inline, state.in_register

    def gather_strides(self, item: Item, axis: int) -> Size:
        return self.ref(item.operands[0].base).strides[axis]


CHEAP = frozenset({"add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
                   "logical_not", "where", "cast", "minimum", "maximum", "bitwise_and", "bitwise_or"})


def _axes(shape: Sequence[Size]) -> tuple[tuple[Size, ...], IndexMap]:
    """The axes of a shape that are not of size 1, and each axis's place among them."""
    space: list[Size] = []
    own: list[Entry] = []
    for size in shape:
        if size == 1:
            own.append(access.NOWHERE)
        else:
            own.append((len(space), 1, 0))
            space.append(size)
    return tuple(space), tuple(own)


def _symbols(node: Node) -> set[Symbol]:
    found: set[Symbol] = set()
    for value in (*node.inputs, *node.outputs):
        if isinstance(value.type, (TensorType, SeqType, OptionalType)):
            found |= type_symbols(value.type)
    for attr in node.attrs.values():
        found |= attr_symbols(attr)
    for block in node.blocks:
        for n in block.nodes:
            found |= _symbols(n)
    return found


def _reason(producer: Node, consumer: Node, why: str) -> str:
    place = f" ({consumer.span})" if consumer.span is not None else ""
    return f"{producer.op} and {consumer.op}{place} are not one kernel: {why}"
