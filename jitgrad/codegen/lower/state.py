"""The state of a graph's lowering: where each value is, and the steps emitted so far. What the rules work on.

Every tensor value is one of: *stored* (it has a `Ref`), a *register* (pointwise on values of one element), *inline*
(constants, aranges and cheap expressions of them, repeated in every kernel that reads them), a *view* (an index map of
another value; never copied unless a library needs it), or inside one kernel only (never stored at all).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from jitgrad import dims, dtypes
from jitgrad.codegen.lower.kernels import KernelBuilder, windows
from jitgrad.codegen.lower.rules.draws import draw
from jitgrad.codegen.program import access
from jitgrad.codegen.program.access import IndexMap, contiguous_strides, through
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.program import CallSite
from jitgrad.codegen.program.step import Buffer, Leaving, Ref
from jitgrad.codegen.program.steps import Allocate, LoadScalar, NumberStep, ScalarStep, StoreScalar
from jitgrad.dims import Size, Symbol
from jitgrad.ops.opdef import RANDOM, is_kind
from jitgrad.ops.types import BOOL, INT, OptionalType, TensorType, Type
from jitgrad.script.graph.ir import Block, Captures, Graph, Node, Value, committed, payload, symbol_axes
from jitgrad.script.graph.irops import NOTHING, Effect, effect


def tensor(value: Value) -> TensorType:
    """The type of a tensor value."""
    assert isinstance(value.type, TensorType), f"{value} is not a tensor"
    return value.type


def is_single(type_: Type) -> bool:
    """Whether a value of the type is a tensor of one element."""
    return isinstance(type_, TensorType) and all(d == 1 for d in type_.dims)


class Inside(dict[Node, bool]):
    """Whether a node, or one inside it, is such."""

    def __init__(self, test: Callable[[Node], bool]):
        self.test = test

    def __missing__(self, node: Node) -> bool:
        found = self[node] = self.test(node) or any(self[n] for block in node.blocks for n in block.nodes)
        return found


class Lowering:
    """The state of one program. Facts about values are scoped: what a nested block learns ends with it.

    Args:
        graph: what is lowered.
        nested: emits the steps of a block, for the rules of branches and loops.
        device: tensors are in memory that the host does not read.
        host_inputs: the inputs of a device's program that are in the host's memory.
        hosted: the values that the host computes of those.
        ordered: scatters on a device keep a fixed order.
        tiles: a device has the instructions of `cuda/kernels/tiled/`.
    """

    def __init__(self, graph: Graph, nested: Callable[[Lowering, Block], None], device: bool = False,
                 host_inputs: Collection[int] = (), hosted: Collection[Value] = (), ordered: bool = False,
                 tiles: bool = True):
        self.graph, self.nested, self.device, self.ordered, self.tiles = graph, nested, device, ordered, tiles
        self.host_inputs, self.hosted = frozenset(host_inputs), frozenset(hosted)
        self.refs: dict[Value, Ref] = {}
        self.registers: set[Value] = set()
        self.views: dict[Value, Node] = {}
        self.inlined: dict[Value, tuple[Node, int]] = {}
        self.dest: dict[Value, Ref] = {}
        self.owned: set[Value] = set()          # loop carries whose one buffer the body overwrites
        self.written: set[Node] = set()         # writes into those that a kernel has done
        self.created: dict[Value, Node] = {}    # constants and aranges that are items of their own
        self.sizes: dict[Size, Value] = {}
        self.steps: list[Any] = []
        self.undo: list[tuple[Any, Any]] = []
        self.sites: list[CallSite] = []
        self.reasons: list[tuple[Node, Node, str]] = []
        self.origin: tuple[Node, ...] = ()     # what is being lowered
        self.origins: dict[Any, tuple[Node, ...]] = {}
        #: Optionals as (flag, payload), the payload None where it is known to be absent
        self.optionals: dict[Value, tuple[Value, Value | None]] = {}
        self.input_buffers: dict[int, Buffer] = {}
        self.symbols = self._entry_symbols()
        self.visible: set[Symbol] = set(self.symbols)
        self.originals: dict[int, Ref] = {}     # inputs that are read through a copy: their own memory
        self.leaving: dict[Node, Leaving] = {}  # by `pending` node
        self.captures = Captures()
        #: the inputs that nothing writes
        self.given = set(graph.inputs) - {graph.inputs[i] for i in committed(graph.block)}
        #: what is a check, or has one inside: what follows may rely on it
        self.may_check = Inside(lambda n: n.op == "check")
        #: what must keep its place among effects
        self.has_effect = Inside(lambda n: effect(n.op, n.attrs) is not NOTHING)
        #: what may raise or call out, so that memory can be seen
        self.may_leave = Inside(lambda n: effect(n.op, n.attrs) not in (NOTHING, Effect.WRITES))

    def _entry_symbols(self) -> dict[Symbol, tuple[int, int]]:
        """Where each symbol of the inputs is read; in an Optional only if it is nowhere else."""
        found: dict[Symbol, tuple[int, int]] = {}
        for optional in (False, True):
            for i, value in enumerate(self.graph.inputs):
                for axis, symbol in symbol_axes(payload(value.type) if optional else value.type):
                    found.setdefault(symbol, (i, axis))
        return found

    def known_at_entry(self, sizes: Iterable[Size]) -> bool:
        """Whether sizes can be computed before anything else."""
        return all(s in self.symbols for size in sizes for s in dims.symbols(size))

    def emit(self, step: Any) -> None:
        self.steps.append(step)
        self.origins[step] = self.origin

    # --- scopes ---

    @contextmanager
    def collecting(self) -> Iterator[list[Any]]:
        """Gives a list that takes the steps emitted inside."""
        outer, self.steps = self.steps, []
        yield self.steps
        self.steps = outer

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is learnt inside is forgotten after."""
        mark = len(self.undo)
        yield
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

    def note(self, where: set[Any], key: object) -> None:
        """`key` is in a set from here on."""
        if key not in where:
            where.add(key)
            self.undo.append((where, key))

    def set_register(self, value: Value) -> None:
        self.note(self.registers, value)

    def open(self, value: Value) -> tuple[Value, Value]:
        """An Optional that is a flag and a payload of its own, from now on."""
        assert isinstance(value.type, OptionalType)
        found = self.optionals[value] = Value(BOOL), Value(value.type.elem)
        return found

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

    def holds(self, value: Value) -> bool:
        """Whether a value is a tensor that is kept in a register: one element, computed by the host."""
        return is_single(value.type) and (not self.device or value in self.hosted)

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
            strides, offset = windows(behind, entries, range(rank), rank)
            return self.set_ref(value, Ref(behind.buffer, offset, type_.dims, tuple(strides)))
        if value in self.registers:
            ref = self.place(value)
            self.store_register(value, ref)
            return ref
        assert value in self.inlined, f"{value} is not stored"
        target = self.dest.get(value) or self.allocate(type_.dtype, type_.dims)
        self.copy_into(value, target)
        return self.set_ref(value, target)

    def copy_into(self, value: Value, target: Ref, adding: str = "") -> None:
        """target[...] = value, wherever value is; += where it is `adding`, which names the kernel."""
        kept = [a for a, size in enumerate(target.dims) if size != 1]
        space, own = access.axes_of(target.dims)
        base, entries = self.resolve(value, own)
        builder, strides = KernelBuilder(space, name=adding or "copy"), [target.strides[a] for a in kept]
        if isinstance(base.type, TensorType) and base in self.registers and not kept and not adding:
            self.store_register(base, target)
            return
        old = builder.load(target.buffer, target.offset, strides) if adding else -1
        result = self.read(builder, base, entries, range(len(kept)))
        if adding:
            result = builder.add(Stmt("add", (old, result), target.dtype))
        builder.store(result, target.buffer, target.offset, strides)
        self.emit(builder.finish())

    def store_register(self, value: Value, target: Ref) -> None:
        """Write a register to memory; to a device's memory only kernels write."""
        if not self.device:
            self.emit(StoreScalar(value, target.buffer, target.offset))
            return
        builder = KernelBuilder((), name="store")
        builder.store(builder.scalar(value, target.dtype), target.buffer, target.offset, ())
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
        if base in self.inlined and is_single(base.type):
            node, _ = self.inlined[base]
            if node.op == "arange":
                self.emit(ScalarStep(Node("full", (), {"value": 0, "dtype": tensor(base).dtype}, node.outputs), ()))
            else:
                args = tuple(v if node.op == "fill" else self.register(v) for v in node.inputs)
                self.emit(ScalarStep(node, args))
            self.set_register(base)
            return base
        if self.is_inline(base):  # one element of several: only that one is computed
            self.copy_into(value, self.place(value))
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

    def read(self, builder: KernelBuilder, base: Value, entries: IndexMap, axes: Sequence[int]) -> int:
        """The statement that reads a value from outside the kernel; `base` is not a view."""
        if self.is_inline(base):
            return self.inline(builder, base, entries, axes)
        if self.in_register(base):
            return builder.scalar(base, tensor(base).dtype)
        ref = self.ref(base)
        strides, offset = windows(ref, entries, axes, len(builder.space))
        return builder.load(ref.buffer, offset, strides)

    def inline(self, builder: KernelBuilder, value: Value, entries: IndexMap, axes: Sequence[int]) -> int:
        """A repeated expression as statements."""
        node = self.created.get(value) or self.inlined[value][0]
        d = tensor(value).dtype
        if node.op == "full":
            return builder.const(node.attrs["value"], d)
        if node.op == "fill":
            return builder.scalar(node.inputs[0], d)
        if is_kind(node.op, RANDOM):
            return draw(builder, node, tensor(value).dims, entries, axes, self.size_number)
        if node.op == "arange":
            i = builder.affine(entries[0], axes, self.size_number)
            return i if d is dtypes.int64 else builder.add(Stmt("cast", (i,), d))
        args = []
        target = tensor(value).dims
        for operand in node.inputs:
            base, behind = self.resolve(operand, access.broadcast(entries, tensor(operand).dims, target))
            args.append(self.read(builder, base, behind, axes))
        return builder.compute(Stmt(node.op, tuple(args), d))

    def see(self, binders: Iterable[Symbol]) -> None:
        """Symbols that are bound from here on."""
        for s in binders:
            self.note(self.visible, s)

    def site(self, kind: Any, node: Node) -> int:
        """A new place where native code may leave for Python."""
        self.sites.append(CallSite(kind, node))
        return len(self.sites) - 1

    # --- nested blocks ---

    def reads(self, node: Node) -> tuple[Value, ...]:
        """What a node reads, and its blocks from outside."""
        return (*node.inputs, *self.captures[node]) if node.blocks else node.inputs

    def uses(self, block: Block, nodes: Sequence[Node]) -> Counter[Value]:
        """How often each value is read by the nodes of a block, or is its result."""
        return Counter(chain(block.results, *map(self.reads, nodes)))
