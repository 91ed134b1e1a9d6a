"""One block as steps: its nodes classified, fused and ordered; which of their values must be stored."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jitgrad.codegen.lower import commits, deferred_stores, effects
from jitgrad.codegen.lower.column_sums import Across
from jitgrad.codegen.lower.device.epilogues import Epilogues
from jitgrad.codegen.lower.device.narrowed import narrowed
from jitgrad.codegen.lower.device.padded import unpadded
from jitgrad.codegen.lower.fuse import Fusion, Group, Item, Operand
from jitgrad.codegen.lower.kernels import GroupBuilder
from jitgrad.codegen.lower.rules import conv, lists, ops, products, sequences, windows
from jitgrad.codegen.lower.rules.joins import tensor
from jitgrad.codegen.lower.rules.updates import PARTS
from jitgrad.codegen.program import access
from jitgrad.codegen.program.access import Entry, IndexMap, through
from jitgrad.codegen.program.program import NumberStep, ScalarStep
from jitgrad.dims import Size, Symbol
from jitgrad.dtypes import float32
from jitgrad.ops.opdef import CREATE, RANDOM, fold_of, has_trait, is_kind, is_scalar
from jitgrad.ops.types import ListType, OptionalType, SeqType, TensorType
from jitgrad.script.graph.ir import Block, Node, Value, attr_symbols, type_symbols
from jitgrad.script.graph.irops import Effect, effect, is_exact

if TYPE_CHECKING:
    from jitgrad.codegen.lower.driver import Lowering

#: the largest expression of constants that is repeated instead of stored
INLINE_LIMIT = 8


class BlockLowering:
    """One block: classify its nodes, fuse, order, emit."""

    def __init__(self, state: Lowering, block: Block):
        self.state, self.block = state, block
        self.nodes = products.rewritten(state, block)
        if state.device:
            self.nodes = narrowed(state, block, unpadded(state, block, self.nodes))
            self.nodes = Epilogues(state, block, self.nodes).run()
        self.items: list[Item] = []
        self.producers: dict[Value, Any] = {}   # base value -> item or node that makes it, in this block
        self.item_of: dict[Value, Item] = {}
        self.depends: dict[object, set[object]] = {}
        self.positions: dict[object, int] = {}
        self.consumers: dict[Value, list[Item]] = {}
        self.stored: set[Value] = set()         # bases that something other than a kernel reads
        self.group_of: dict[Item, Group] = {}
        self.last: dict[str, object] = {}  # "check", "effect", "list" -> the last unit that is, has or touches one
        self.parts: dict[Value, set[object]] = {}  # tensor to be written in place -> units that read a part before
        self.writers: dict[Value, object] = {}   # such a tensor -> the unit that writes
        self.reads: dict[object, set[Value]] = {}  # unit -> bases that it reads

    def run(self) -> list[Any]:
        """The block's steps; its results are then where `ref` and `register` say."""
        state, outer = self.state, self.state.steps
        state.steps = []
        state.see(self.block.binds)
        self.classify()
        fusion = Fusion(self.items, self.item_of, self.depends)
        groups = Across(self, fusion).run() if state.device else fusion.run()
        for group in groups:
            for item in group.items:
                self.group_of[item] = group
        state.reasons += [r for r in fusion.reasons if self.apart(*r[:2])]
        around = state.origin
        units = self.order(groups)
        commits.aim_commits(self, units)
        for unit in units:
            if isinstance(unit, Group):
                state.origin = tuple([item.node for item in unit.items])
                state.emit(GroupBuilder(_View(self), unit).build())
            else:
                state.origin = (unit,)
                self.other(unit)
        state.origin = around
        steps, state.steps = state.steps, outer
        return steps

    def apart(self, producer: Node, consumer: Node) -> bool:
        """Whether two nodes that could not merge did not come together by another way either."""
        first, second = (self.item_of[n.outputs[0]] for n in (producer, consumer))
        groups = self.group_of
        return first in groups and second in groups and groups[first] is not groups[second]  # or made where it is read

    def split(self, item: Item, part: Item) -> None:
        """A sum and a part of it, which reads what the sum read (see `across.py`)."""
        self.items.append(part)
        self.item_of[part.out] = self.producers[part.out] = part
        self.positions[part] = self.positions[item]
        self.reads[part], self.reads[item] = self.reads[item], {part.out}
        for operand in part.operands:
            users = self.consumers[operand.base]
            users[users.index(item)] = part
        self.consumers[part.out] = [item]
        self.stored.add(part.out)

    # --- classification ---

    def classify(self) -> None:
        state = self.state
        self.wanted_inline = self.materialised()
        binders: dict[Symbol, object] = {}
        for index, node in enumerate(self.nodes):
            overwritten = node.op in PARTS and node.inputs[0] in state.owned
            if has_trait(node.op, "affine") and not overwritten and self.is_view(node):
                state.views[node.outputs[0]] = node
                continue
            if self.try_inline(node):
                continue
            unit: object = self.item(node, index)
            if unit is None:
                unit = node
            self.positions[unit] = index
            self.depends[unit] = self.needs(unit, node)
            self.parts_before(unit, node, overwritten)
            if binders:
                self.depends[unit] |= {binders[s] for s in _symbols(node) if s in binders}
            for s in node.binds:
                binders[s] = unit
            if node.op == "dim.bind":
                binders[node.attrs["symbol"]] = unit
            self.keep_order(unit, node)
            for value in node.outputs:
                self.producers[value] = unit
        for result in self.block.results:
            if isinstance(result.type, TensorType):
                self.stored.add(state.base(result))
        commits.order_commits(self)

    def keep_order(self, unit: object, node: Node) -> None:
        """What a node comes after although it reads nothing of it: checks; effects if it is one; who read a list before
        it is changed in place.
        """
        state, last, needed = self.state, self.last, self.depends[unit]
        if "check" in last:
            needed.add(last["check"])
        if state.may_check(node):
            last["check"] = unit
        if state.has_effect(node):
            if "effect" in last:
                needed.add(last["effect"])
            last["effect"] = unit
        if self.touches_list(node):
            if "list" in last:
                needed.add(last["list"])
            last["list"] = unit

    def parts_before(self, unit: object, node: Node, is_part: bool) -> None:
        """A part of a tensor that is written in place is copied out before, wherever the copy stands."""
        state = self.state
        if is_part:
            x = node.inputs[0]
            self.parts.setdefault(x, set()).add(unit)
            if x in self.writers:
                self.depends[self.writers[x]].add(unit)
            return
        values: Iterable[Value] = (*node.inputs, *state.captures(node)) if node.blocks else node.inputs
        for v in values:
            if v in state.owned:
                self.writers[v] = unit
                self.depends[unit] |= self.parts.get(v, set())

    def touches_list(self, node: Node) -> bool:
        """Whether a node, or a block in it, reads or makes a list."""
        values: Iterable[Value] = (*node.inputs, *node.outputs)
        if node.blocks:
            values = (*values, *self.state.captures(node))
        return any(isinstance(v.type, ListType) for v in values)

    def is_view(self, node: Node) -> bool:
        if node.op != "reshape":
            return True
        rank = len(tensor(node.outputs[0]).dims)
        return through(node, tuple((a, 1, 0) for a in range(rank))) is not None

    def materialised(self) -> set[Value]:
        """Values that a node other than a kernel reads directly: those are not repeated in kernels."""
        found: set[Value] = set()
        for node in self.nodes:
            if node.op == "reshape" and self.is_view(node):
                continue
            if node.op in ("index", "gather"):
                found.add(node.inputs[0])
            elif ops.is_storing(node.op):
                found.update(node.inputs)
        return found

    def try_inline(self, node: Node) -> bool:
        state = self.state
        if len(node.outputs) != 1 or (node.outputs[0] in self.wanted_inline and not state.holds(node.outputs[0])):
            return False
        if is_kind(node.op, CREATE):
            state.inlined[node.outputs[0]] = (node, 1)
            return True
        if not is_scalar(node.op) or not has_trait(node.op, "cheap"):
            return False
        if self.is_widening(node):
            state.inlined[node.outputs[0]] = (node, INLINE_LIMIT)
            return True
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

    def is_widening(self, node: Node) -> bool:
        """Whether a node makes float32 of a vector of a half type that is an input: a device's kernels read that."""
        x, out = node.inputs[0], node.outputs[0]
        if not self.state.device or node.op != "cast" or self.state.base(x) not in self.state.graph.inputs:
            return False
        return tensor(x).dtype.is_half and tensor(out).dtype is float32 and sum(d != 1 for d in tensor(x).dims) == 1

    def leaves(self, base: Value) -> set[Value]:
        """What is in memory of what an expression that is repeated reads."""
        found = self.state.inlined.get(base)
        if found is None:
            return {base}
        return set().union(*(self.leaves(self.state.base(v)) for v in found[0].inputs))

    def item(self, node: Node, index: int) -> Item | None:
        """The node as a member of kernels, or None."""
        op, state = node.op, self.state
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return None
        out = node.outputs[0]
        created = is_kind(op, CREATE)
        if is_scalar(op) or created or is_kind(op, RANDOM):
            if state.holds(out) and not created:
                return None
            if not is_scalar(op):
                state.created[out] = node
            item = self.pointwise(node, index)
        elif fold_of(op) or op == "sum_to":
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
        if is_scalar(node.op):
            operands = [self.operand(v, access.broadcast(own, tensor(v).dims, shape)) for v in node.inputs]
        return Item(node, out, space, frozenset(), operands, tuple(e[0] for e in own), index)

    def reduction(self, node: Node, index: int) -> Item | None:
        x, out = node.inputs[0], node.outputs[0]
        shape = tensor(x).dims
        space, own = _axes(shape)
        if node.op == "sum_to":
            axes = ops.summed_axes(shape, node.attrs["shape"])
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
        data, indices = ops.gather_entries(node, own)
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
                reads |= self.leaves(base)
                makers: set[object] = set()
                self.add_producers(base, makers)
                found |= makers
                if operand.stored:
                    self.stored.add(base)
                    operand.makers = frozenset(makers)
            for value in node.inputs:
                if not isinstance(value.type, TensorType):  # the numbers of a draw
                    self.add_producers(value, found)
            return found
        values: Iterable[Value] = node.inputs
        if node.blocks:
            values = [*node.inputs, *state.captures(node)]
        for value in values:
            base = state.base(value)
            reads |= self.leaves(base)
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
        if is_scalar(node.op) and state.holds(node.outputs[0]):
            state.emit(ScalarStep(node, tuple(state.register(v) for v in node.inputs)))
            state.set_register(node.outputs[0])
            return
        rule = rules().get(node.op)
        if rule is not None:
            rule(state, node)
        elif node.op.startswith("num."):
            calls = effect(node.op, node.attrs) is not Effect.NONE or is_exact(node.op, node.attrs)
            plain = deferred_stores.own(node)
            state.emit(NumberStep(plain, state.site("arithmetic", plain) if calls else -1,
                                  deferred_stores.leaving(state, node)))
        else:
            ops.library(state, node)
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


def rules() -> dict[str, Any]:
    """How nodes become steps of their own, by op."""
    from jitgrad.codegen.lower import control  # which lowers the blocks of structural nodes with this module

    if not _RULES:
        for part in (ops, products, conv, windows, effects, sequences, lists,
                     control):
            _RULES.update(part.RULES)
    return _RULES


_RULES: dict[str, Any] = {}
