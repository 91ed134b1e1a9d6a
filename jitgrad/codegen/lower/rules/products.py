"""Matrix products: transposes are flags, batch axes are loops around the product, sums of products are made in place.

`add(acc, matmul(a, b))` is one step, c = c + a @ b, where nothing else reads the product, and `acc` is memory that may
be overwritten: another product that nothing else reads, or a loop's carry (the gradient of a weight that every
iteration uses). Such a carry has one buffer instead of two, and a graph's output can be that buffer.

On a device what follows a product may be part of it: `EPILOGUE`, made by `device/epilogues.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad import dims
from jitgrad.codegen.lower.kernels import KernelBuilder
from jitgrad.codegen.lower.rules.joins import aim, same_place
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import is_contiguous
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import GemmStep
from jitgrad.dims import Size
from jitgrad.dtypes import float32, float64
from jitgrad.script.graph.ir import Block, Node, Value

#: the op of `add(acc, matmul(a, b))` in place; inputs a, b, acc
ACCUMULATE = "matmul.add"
#: the op of a product with an epilogue {epilogue}, named as cuBLASLt does. Inputs a, b, then the bias if the name has
#: one, then what "aux" kept if it is a gradient; outputs c, then what "aux" keeps, or a bias's gradient
EPILOGUE = "matmul.epilogue"


def matmul(state: Lowering, node: Node) -> None:
    """One product per batch index; batch axes of size 1 have stride 0."""
    _product(state, node, state.place(node.outputs[0]), accumulate=False)


def accumulate(state: Lowering, node: Node) -> None:
    """The product on top of `acc`, in its memory."""
    out, acc = node.outputs[0], node.inputs[2]
    place = state.ref(acc)
    aimed = state.dest.get(out)
    if aimed is not None and not same_place(aimed, place):  # both had a place before
        state.copy_into(acc, aimed)
        place = aimed
    state.set_ref(out, place)
    _product(state, node, place, accumulate=True)


def epilogue(state: Lowering, node: Node) -> None:
    """A product with what follows it. Where that looks at all rows, batch axes are rows."""
    name = node.attrs["epilogue"]
    gradient = name.startswith(("d", "bgrad"))
    whole = gradient or "aux" in name
    refs = [_row_major(state, v) if whole else state.place(v) for v in node.outputs]
    given = [state.contiguous(v) for v in node.inputs[2:]]
    inputs, outputs = ([(r.buffer, r.offset) for r in some] for some in (given, refs[1:]))
    if gradient:
        bias, aux = (*outputs, None)[0], (*inputs, None)[0]
    else:
        bias, aux = (*inputs, None)[0], (*outputs, None)[0]
    _product(state, node, refs[0], accumulate=False, extra=(name, bias, aux))


def mask_bytes(n: Size) -> Size:
    """The bytes of a row of ReLU's mask, which has a bit for each element, in rows of a multiple of 128 bits."""
    return dims.floordiv(n + 127, 128) * 16


def _row_major(state: Lowering, value: Value) -> Ref:
    """Where `value` is stored, in row-major order."""
    aimed = state.dest.get(value)
    if aimed is not None and is_contiguous(aimed.dims, aimed.strides):
        return state.place(value)
    type_ = tensor(value)
    return state.set_ref(value, state.allocate(type_.dtype, type_.dims))


def _product(state: Lowering, node: Node, c: Ref, accumulate: bool, extra: tuple[Any, ...] = ()) -> None:
    if state.device and not c.dtype.is_floating_point:
        _by_kernel(state, node, c)
        return
    a, trans_a, lda = _matrix(state, node.inputs[0])
    b, trans_b, ldb = _matrix(state, node.inputs[1])
    if state.device and not trans_a and len(b.dims) == 2:
        a, c = _rows_joined(a, c)
    shape = c.dims[:-2]
    batch = []
    for axis, size in enumerate(shape):
        if size != 1:
            batch.append((size, _batch_stride(a, axis - len(shape), size), _batch_stride(b, axis - len(shape), size),
                          c.strides[axis]))
    state.emit(GemmStep(c.dtype, c.dims[-2], c.dims[-1], a.dims[-1], (a.buffer, a.offset), (b.buffer, b.offset),
                        (c.buffer, c.offset), trans_a, trans_b, lda, ldb, c.strides[-2], tuple(_joined(batch)),
                        accumulate, *extra))


def _rows_joined(a: Ref, c: Ref) -> tuple[Ref, Ref]:
    """One matrix instead of one for each index of the batch axes, where the rows of all follow each other."""
    axes = range(len(c.dims) - 2)
    if not axes or len(a.dims) != len(c.dims) or any(
            r.dims[i] != c.dims[i] or r.strides[i] != r.strides[i + 1] * r.dims[i + 1] for r in (a, c) for i in axes):
        return a, c
    made = [Ref(r.buffer, r.offset, (dims.product(r.dims[:-1]), r.dims[-1]), r.strides[-2:]) for r in (a, c)]
    return made[0], made[1]


def _by_kernel(state: Lowering, node: Node, c: Ref) -> None:
    """A product of integers or flags on a device, whose library has none: a sum for each element."""
    n = len(c.dims)
    operands = [state.ref(v) for v in node.inputs[:2]]
    inner = operands[0].dims[-1]
    builder = KernelBuilder((*c.dims, inner), frozenset((n,)), "matmul")
    strides: list[list[Size]] = []
    for ref, own, place in zip(operands, ((-2, n - 2), (-1, n - 1)), ((-1, n), (-2, n)), strict=True):
        mine: list[Size] = [0] * (n + 1)
        for axis in range(n - 2):
            mine[axis] = _batch_stride(ref, axis - (n - 2), c.dims[axis])
        for of_operand, of_space in (own, place):
            mine[of_space] = ref.strides[of_operand]
        strides.append(mine)
    a, b = (builder.load(ref.buffer, ref.offset, s) for ref, s in zip(operands, strides, strict=True))
    total = builder.add(Stmt("reduce", (builder.add(Stmt("mul", (a, b), c.dtype)),), c.dtype, fn="sum"))
    builder.store(total, c.buffer, c.offset, [*c.strides, 0])
    state.emit(builder.finish())


def _matrix(state: Lowering, value: Value) -> tuple[Ref, bool, Size]:
    """An operand with rows or columns contiguous: the window, whether it is transposed, the leading dimension."""
    ref = state.ref(value)
    if len(ref.dims) > 1:
        row, column = ref.strides[-2:]
        if (column == 1 or ref.dims[-1] == 1) and not _repeats(row, *ref.dims[-2:]):
            return ref, False, row
        if (row == 1 or ref.dims[-2] == 1) and not _repeats(column, *ref.dims[:-3:-1]):
            return ref, True, column
    target = state.allocate(ref.dtype, ref.dims)
    state.copy_into(value, target)
    return target, False, target.strides[-2]


def _repeats(stride: Size, size: Size, length: Size) -> bool:
    """Whether a leading dimension is unusable: zero, or it may be negative, while there is more than one row.

    Of a multiple of the rows' length only the factor is asked: rows without elements are not read.
    """
    factor = dims.exact_quotient(stride, length)
    stride = stride if factor is None else factor
    if isinstance(stride, int):
        return size != 1 and stride <= 0
    negative = any(c < 0 or any(isinstance(a, dims.Call) for a in monomial) for monomial, c in stride.terms)
    return size != 1 and negative


def _batch_stride(ref: Ref, axis: int, size: Size) -> Size:
    """The stride of a batch axis (counted from the matrix's axes), 0 where the operand has size 1 there."""
    axis -= 2
    if -axis > len(ref.dims) or ref.dims[axis] == 1:
        return 0
    if ref.dims[axis] == size or dims.is_not_one(ref.dims[axis]):
        return ref.strides[axis]
    return ref.strides[axis] * dims.call("not_one", ref.dims[axis])


def _joined(batch: Sequence[tuple[Size, Size, Size, Size]]) -> list[tuple[Size, Size, Size, Size]]:
    """Adjacent batch axes that all operands step through evenly, as one."""
    result: list[tuple[Size, Size, Size, Size]] = []
    for size, *strides in batch:
        if result and all(o == s * size for o, s in zip(result[-1][1:], strides, strict=True)):
            result[-1] = (result[-1][0] * size, strides[0], strides[1], strides[2])
        else:
            result.append((size, strides[0], strides[1], strides[2]))
    return result


def transposed(state: Lowering, body: Block) -> list[Value]:
    """The right-hand matrices that a loop's products find transposed, the same each time: row by row they are faster.

    They are worth a copy: a product of few rows is little more than reading this one.
    """
    inside = {*body.params, *[v for node in body.nodes for v in node.outputs]}
    given = dict.fromkeys(node.inputs[1] for node in body.nodes if node.op == "matmul" and node.inputs[1] not in inside)
    return [v for v in given if v in state.views and state.ref(v).strides[-1] != 1 == state.ref(v).strides[-2]]


# --- sums of products ---


class Sums:
    """The additions of one block that could be made by a product on top of the other operand."""

    def __init__(self, state: Lowering, block: Block):
        self.uses = state.uses(block, block.nodes)
        self.products: dict[Value, Node] = {}
        self.sums: dict[Value, list[tuple[Value, Node]]] = {}  # sum -> [(acc, product)]
        for node in block.nodes:
            if node.op == "matmul":
                d = tensor(node.outputs[0]).dtype
                if d in (float32, float64) or (state.device and d.is_half):
                    self.products[node.outputs[0]] = node
        for node in block.nodes if self.products else ():
            if node.op == "add" and node.inputs[0] is not node.inputs[1]:
                out = node.outputs[0]
                found = [(acc, self.products[p]) for acc, p in (node.inputs, node.inputs[::-1])
                         if p in self.products and self.uses[p] == 1 and acc.type == p.type == out.type
                         and not state.holds(out)]
                if found:
                    self.sums[out] = found

    def over(self, acc: Value, out: Value) -> Node | None:
        """The product that makes `out` of `acc`, of which this is the only use."""
        if self.uses[acc] != 1:
            return None
        return next((product for given, product in self.sums.get(out, ()) if given is acc), None)

    def choose(self, owned: set[Value]) -> dict[Value, tuple[Value, Node]]:
        """sum -> (acc, product) where acc is in `owned` or itself made here by a product."""
        chosen: dict[Value, tuple[Value, Node]] = {}
        for out, candidates in self.sums.items():
            for acc, product in candidates:
                mine = acc in owned or ((acc in self.products or acc in chosen) and self.uses[acc] == 1)
                if mine:
                    chosen[out] = (acc, product)
                    break
        return chosen


def rewritten(state: Lowering, block: Block) -> Sequence[Node]:
    """The block's nodes, sums of products as one node each; says where what they are made of is to be computed."""
    chosen = Sums(state, block).choose(state.owned)
    if not chosen:
        return block.nodes
    for out, (acc, _) in reversed(chosen.items()):
        if out in state.dest and acc not in state.owned:
            aim(state, acc, state.dest[out])
    gone = {product for _, product in chosen.values()}
    made = {out: Node(ACCUMULATE, (*product.inputs, acc), {}, (out,), (), product.span)
            for out, (acc, product) in chosen.items()}
    return [made.get(node.outputs[0], node) if node.op == "add" else node for node in block.nodes if node not in gone]


RULES: Mapping[str, Callable[[Lowering, Node], None]] = {"matmul": matmul, ACCUMULATE: accumulate,
                                                         EPILOGUE: epilogue}
