"""The nodes of a block classified: views, what is repeated where it is read, items of kernels, steps of their own."""

from collections.abc import Sequence

from jitgrad.codegen.lower.fuse import Item, Operand
from jitgrad.codegen.lower.rules import ops
from jitgrad.codegen.lower.rules.updates import PARTS
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.codegen.program import access
from jitgrad.codegen.program.access import IndexMap, through
from jitgrad.dims import Symbol
from jitgrad.dtypes import float32
from jitgrad.ops.opdef import CREATE, RANDOM, fold_of, has_trait, is_elementwise, is_kind, is_scalar
from jitgrad.ops.types import ListType, OptionalType, SeqType, TensorType
from jitgrad.script.graph.ir import Block, Node, Value, attr_symbols, type_symbols

#: the largest expression of constants that is repeated instead of stored
INLINE_LIMIT = 8


def classify(state: Lowering, block: Block, nodes: Sequence[Node]) -> Units:
    """The units of a block whose nodes are `nodes`; views and what is repeated are noted in `state`."""
    return _Classification(state, block, nodes).run()


class _Classification:
    def __init__(self, state: Lowering, block: Block, nodes: Sequence[Node]):
        self.state, self.nodes, self.units = state, nodes, Units(state, block)
        self.last: dict[str, object] = {}  # "check", "effect", "list" -> the last unit that is, has or touches one
        self.parts: dict[Value, set[object]] = {}  # tensor to be written in place -> units that read a part before
        self.writers: dict[Value, object] = {}   # such a tensor -> the unit that writes
        self.wanted_inline = self.materialised()

    def run(self) -> Units:
        state, units = self.state, self.units
        binders: dict[Symbol, object] = {}
        for index, node in enumerate(self.nodes):
            overwritten = node.op in PARTS and node.inputs[0] in state.owned
            if has_trait(node.op, "affine") and not overwritten and self.is_view(node):
                state.views[node.outputs[0]] = node
                continue
            if self.try_inline(node):
                continue
            unit = self.item(node, index) or node
            units.positions[unit] = index
            units.depends[unit] = self.needs(unit, node)
            self.parts_before(unit, node, overwritten)
            if binders:
                units.depends[unit] |= {binders[s] for s in _symbols(node) if s in binders}
            for s in node.binds:
                binders[s] = unit
            if node.op == "dim.bind":
                binders[node.attrs["symbol"]] = unit
            self.keep_order(unit, node)
            for value in node.outputs:
                units.producers[value] = unit
        for result in units.block.results:
            if isinstance(result.type, TensorType):
                units.stored.add(state.base(result))
        return units

    def keep_order(self, unit: object, node: Node) -> None:
        """What a node comes after although it reads nothing of it: checks; effects if it is one; who read a list before
        it is changed in place.
        """
        state, last, needed = self.state, self.last, self.units.depends[unit]
        if "check" in last:
            needed.add(last["check"])
        if state.may_check[node]:
            last["check"] = unit
        if state.has_effect[node]:
            if "effect" in last:
                needed.add(last["effect"])
            last["effect"] = unit
            if unit is node:
                self.units.effects.append(node)
        if any(isinstance(v.type, ListType) for v in (*state.reads(node), *node.outputs)):
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
                self.units.depends[self.writers[x]].add(unit)
            return
        for v in state.reads(node):
            if v in state.owned:
                self.writers[v] = unit
                self.units.depends[unit] |= self.parts.get(v, set())

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

    def item(self, node: Node, index: int) -> Item | None:
        """The node as a member of kernels, or None."""
        op, state = node.op, self.state
        if len(node.outputs) != 1 or not isinstance(node.outputs[0].type, TensorType):
            return None
        out = node.outputs[0]
        created = is_kind(op, CREATE)
        if is_elementwise(op) or created or is_kind(op, RANDOM):
            if state.holds(out) and not created:
                return None
            if not is_elementwise(op):
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
        units = self.units
        units.items.append(item)
        units.item_of[out] = item
        for operand in item.operands:
            units.consumers.setdefault(operand.base, []).append(item)
            if operand.stored:
                units.stored.add(operand.base)
        return item

    def operand(self, value: Value, entries: IndexMap, stored: bool = False) -> Operand:
        base, behind = self.state.resolve(value, entries) if not stored else (value, entries)
        return Operand(base, behind, stored)

    def pointwise(self, node: Node, index: int) -> Item:
        out = node.outputs[0]
        shape = tensor(out).dims
        space, own = access.axes_of(shape)
        operands = []
        if is_elementwise(node.op):
            operands = [self.operand(v, access.broadcast(own, tensor(v).dims, shape)) for v in node.inputs]
        return Item(node, out, space, frozenset(), operands, tuple(e[0] for e in own), index)

    def reduction(self, node: Node, index: int) -> Item | None:
        x, out = node.inputs[0], node.outputs[0]
        shape = tensor(x).dims
        space, own = access.axes_of(shape)
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
        space, own = access.axes_of(shape)
        data, indices = ops.gather_entries(node, own)
        operands = [self.operand(x, data, stored=True)]
        operands += [self.operand(v, e) for v, e in zip(node.inputs[1:], indices, strict=True)]
        return Item(node, out, space, frozenset(), operands, tuple(e[0] for e in own), index)

    def needs(self, unit: object, node: Node) -> set[object]:
        """The units of this block that `unit` reads; notes what must be stored for it."""
        state, units = self.state, self.units
        found: set[object] = set()
        reads = units.reads[unit] = set()
        if isinstance(unit, Item):
            for operand in unit.operands:
                base = state.base(operand.base)
                reads |= units.leaves(base)
                makers: set[object] = set()
                self.add_producers(base, makers)
                found |= makers
                if operand.stored:
                    units.stored.add(base)
                    operand.makers = frozenset(makers)
            for value in node.inputs:
                if not isinstance(value.type, TensorType):  # the numbers of a draw
                    self.add_producers(value, found)
            return found
        for value in state.reads(node):
            base = state.base(value)
            reads |= units.leaves(base)
            self.add_producers(base, found)
            if isinstance(base.type, TensorType):
                units.stored.add(base)
        return found

    def add_producers(self, base: Value, found: set[object]) -> None:
        """The unit that makes `base`; for an inline value, those of what it reads."""
        unit = self.units.producers.get(base)
        if unit is not None:
            found.add(unit)
        elif base in self.state.inlined:
            for value in self.state.inlined[base][0].inputs:
                self.add_producers(self.state.base(value), found)


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
