"""What follows a product at once becomes part of it on a device: bias, ReLU, GELU by tanh, their gradients, biases'.

    %p = matmul(%x, %w);  %z = add(%p, %b);  %h = maximum(%z, 0)       relu_bias(x, w, b) -> h
    ... and where(le(%h, 0), 0, matmul(%g, %v)), sum(that)             relu_aux_bias -> h, mask; drelu_bgrad -> both
    %w' = matmul(permute(%g), %x);  %b' = sum(%g){axes=(0,)}           bgradb -> w', b'

    %s = add(%x, matmul(%h, %w))      %x' = contiguous(%x);  %s = %x' + matmul(%h, %w) in place

An epilogue is worth it where a launch goes. A value that a kernel is going to read before the next product is left to
that kernel, which adds a bias at no cost (`Epilogues.soft`). A comparison of h for the gradient alone can wait.

The mask of ReLU is stored only if a product in the same block is multiplied by it: h is saved for the gradient of the
next weight anyway, and in a gradient program of its own that is all there is. GELU's gradient needs z, which is a value
as any other: gelu_aux_bias stores it beside h, dgelu reads it.

Names are cuBLASLt's. Sizes and addresses that it wants otherwise are the driver's business (`cuda/composed.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from jitgrad.codegen.lower.device.patterns import GELU, GELU_SLOPE, match
from jitgrad.codegen.lower.rules.joins import aim
from jitgrad.codegen.lower.rules.products import ACCUMULATE, EPILOGUE, mask_bytes
from jitgrad.codegen.lower.state import Lowering
from jitgrad.dims import Size
from jitgrad.dtypes import bfloat16, float16, float32, uint8
from jitgrad.ops.opdef import CREATE, RANDOM, fold_of, has_trait, is_elementwise, is_kind
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Node, Value

DTYPES = frozenset({float32, float16, bfloat16})
#: how many values are looked at to find out what a kernel reads
MANY = 100


class Epilogues:
    """The products of one block of a device program, and what becomes part of them."""

    def __init__(self, state: Lowering, block: Block, nodes: Sequence[Node]):
        self.state, self.nodes = state, nodes
        self.results = Counter(block.results)
        self.users: dict[Value, list[Node]] = {}
        self.maker: dict[Value, Node] = {}
        self.place: dict[Node, int] = {}
        self.level: dict[Value, int] = {}       # products and the like on the longest way to a value
        self.gone: set[Node] = set()
        self.new: dict[Node, list[Node]] = {}   # what stands where a node stood
        self.copies: dict[Node, list[Node]] = {}  # what stands behind a node
        for k, node in enumerate(nodes):
            reads = state.reads(node)
            level = max((self.level.get(v, 0) for v in reads), default=0) + (not _in_kernel(node))
            self.place[node] = k
            for v in dict.fromkeys(reads):
                self.users.setdefault(v, []).append(node)
            for v in node.outputs:
                self.maker[v], self.level[v] = node, level

    def run(self) -> Sequence[Node]:
        """The nodes, with epilogues."""
        products = [n for n in self.nodes if n.op == "matmul" and _dtype(n.outputs[0]) in DTYPES
                    and not self.state.holds(n.outputs[0])]
        for node in products:
            self.gelu_gradient(node)
        if self.gone:
            self.sweep()
        for node in products:
            if node not in self.gone:
                self.forward(node)
        for node in products:
            if node not in self.gone:
                self.bias_gradient(node)
        for node in products:
            if node not in self.gone:
                self.added(node)
        if not self.gone:
            return self.nodes
        self.sweep()
        return [new for node in self.nodes
                for new in (*(self.new.get(node, ()) if node in self.gone else (node,)), *self.copies.get(node, ()))]

    def added(self, node: Node) -> None:
        """A product on top of a copy of the other summand, which the kernel writes that makes this one.

        Where no kernel reads the sum, but others read the summand: a launch goes, and what it would read.
        """
        out = node.outputs[0]
        add = self.alone(out)
        if add is None or add.op != "add" or add in self.gone:
            return
        summand, total = next(v for v in add.inputs if v is not out), add.outputs[0]
        maker = self.maker.get(summand)
        if (maker is None or maker in self.gone or not is_elementwise(maker.op)
                or not out.type == summand.type == total.type or self.state.holds(total)
                or any(map(_in_kernel, self.read(total))) or (self.alone(summand) is add)):
            return
        copied = Value(summand.type)
        if total in self.state.dest:
            aim(self.state, copied, self.state.dest[total])
        self.gone |= {node, add}
        copy = Node("contiguous", (summand,), {}, (copied,), (), add.span)
        made = Node(ACCUMULATE, (*node.inputs, copied), {}, (total,), (), node.span)
        self.copies.setdefault(maker, []).append(copy)
        self.new[add] = [made]
        for new in (copy, made):
            for v in new.inputs:
                self.users.setdefault(v, []).append(new)

    def sweep(self) -> None:
        """Forget what nothing reads any more."""
        for node in reversed(self.nodes):
            if node not in self.gone and _in_kernel(node) and node.outputs[0] not in self.results and not self.read(
                    node.outputs[0]):
                self.gone.add(node)

    # --- who reads what ---

    def read(self, value: Value) -> list[Node]:
        return [n for n in self.users.get(value, ()) if n not in self.gone]

    def alone(self, value: Value) -> Node | None:
        """The one node that reads a value, once."""
        users = self.read(value)
        if len(users) != 1 or value in self.results or users[0].blocks or users[0].inputs.count(value) != 1:
            return None
        return users[0]

    def soft(self, value: Value, besides: Iterable[Node] = ()) -> bool:
        """Whether a kernel that runs before the next product reads a value."""
        known: dict[Node, bool] = {}
        return any(self.soft(n.outputs[0]) if has_trait(n.op, "affine") else not self.waits(n, self.level[value], known)
                   for n in self.read(value) if n not in besides and _in_kernel(n))

    def waits(self, node: Node, level: int, known: dict[Node, bool]) -> bool:
        """Whether a node of a kernel can be part of one that runs after a later product."""
        out = node.outputs[0]
        if self.level[out] > level:
            return True
        if node not in known:
            known[node] = False  # as long as it is not known, and for what more than so many follow each other
            users = self.read(out)
            if users and out not in self.results and len(known) < MANY:
                known[node] = all(_in_kernel(n) and self.waits(n, level, known) for n in users)
        return known[node]

    def is_zero(self, values: Iterable[Value]) -> bool:
        """Whether one of some values is zero, a constant."""
        makers = [self.maker.get(v) for v in values]
        return any(node is not None and node.op == "full" and node.attrs["value"] == 0 for node in makers)

    # --- forward ---

    def forward(self, product: Node) -> None:
        """Bias and activation of a product."""
        last, parts, bias = product.outputs[0], [product], None
        add = self.alone(last)
        if add is not None and add.op == "add" and add.outputs[0].type == last.type:
            other = add.inputs[add.inputs[0] is last]
            if self.is_bias(other, last):
                bias, last = other, add.outputs[0]
                parts.append(add)
        relu = self.following(last, "maximum")
        if relu and self.is_zero(relu[len(relu) // 2].inputs):
            self.relu([*parts, *relu], bias)
        elif self.gelu(parts, bias):
            return
        elif bias is not None and not self.soft(last):
            self.put(parts, "bias", (*product.inputs, bias), (last,), parts[-1])

    def is_bias(self, value: Value, product: Value) -> bool:
        """Whether a value is a vector along a product's last axis."""
        shape, n = _dims(value), _dims(product)[-1]
        return isinstance(value.type, TensorType) and len(shape) <= 2 and shape[-1:] == (n,) and (
            shape[:-1] in ((), (1,))) and not self.state.holds(value)

    def relu(self, parts: list[Node], bias: Value | None) -> None:
        """ReLU, and its gradient where it is that of a product in this block."""
        product, last = parts[0], parts[-1]
        h = last.outputs[0]
        backward = self.relu_gradients(h) if self.in_one_piece(product) else []
        if self.soft(h, [n for nodes in backward for n in nodes]):
            return
        inputs = (*product.inputs, *(() if bias is None else (bias,)))
        ending = "" if bias is None else "_bias"
        if not backward:
            self.put(parts, "relu" + ending, inputs, (h,), last)
            return
        *rows, n = _dims(h)
        mask = Value(TensorType(uint8, (*rows, mask_bytes(n))))
        self.put(parts, "relu_aux" + ending, inputs, (h, mask), last)
        for nodes in backward:
            self.gradient(nodes, "drelu", mask)

    def relu_gradients(self, h: Value) -> list[list[Node]]:
        """The nodes from h to where(le(h, 0), 0, a product), as often as they are there, the product and what follows
        last; none if the mask is read otherwise."""
        found: list[list[Node]] = []
        for first in self.read(h):
            wide = self.is_half(h) and _widens(first)
            for le in self.read(first.outputs[0]) if wide else [first]:
                if le.op != "le" or le.inputs[0] is not (first.outputs[0] if wide else h) or not self.is_zero(
                        le.inputs[1:]):
                    if wide:
                        return []
                    continue
                if le.outputs[0] in self.results:
                    return []
                for where in self.read(le.outputs[0]):
                    nodes = self.masked(where, le.outputs[0])
                    if not nodes:
                        return []
                    found.append([first, le, *nodes])
        return found

    def masked(self, where: Node, mask: Value) -> list[Node]:
        """A product of which nothing but `where(mask, 0, product)` is read, and that."""
        if where.op != "where" or where.inputs[0] is not mask or not self.is_zero(where.inputs[1:2]):
            return []
        source = self.maker.get(where.inputs[2])
        if source is not None and _widens(source):
            source = self.maker.get(source.inputs[0])
        if source is None or source.op != "matmul" or source in self.gone or not self.in_one_piece(source):
            return []
        chain = self.following(source.outputs[0], "where")
        if not chain or where not in chain:
            return []
        last = chain[-1].outputs[0]
        return [source, *chain] if not self.soft(last, self.sums(last)) else []

    def following(self, value: Value, op: str) -> list[Node]:
        """What alone reads a value: a node of an op, for half types between conversions to float32 and back."""
        nodes: list[Node] = []
        node = self.alone(value)
        if node is not None and self.is_half(value) and _widens(node):
            nodes.append(node)
            node = self.alone(node.outputs[0])
        if node is None or node.op != op or _dims(node.outputs[0]) != _dims(value):
            return []
        nodes.append(node)
        if len(nodes) == 2:
            back = self.alone(node.outputs[0])
            if back is None or back.op != "cast" or back.outputs[0].type != value.type:
                return []
            nodes.append(back)
        return nodes

    def is_half(self, value: Value) -> bool:
        return _dtype(value) in (float16, bfloat16)

    def gelu(self, parts: list[Node], bias: Value | None) -> bool:
        """GELU, and its argument if that is read besides."""
        product, last = parts[0], parts[-1]
        z = last.outputs[0]
        wide = [n for n in self.read(z) if _widens(n)] if self.is_half(z) else []
        x = wide[0].outputs[0] if wide else z
        last_of_some = [m for n in self.read(x) if n.op == "mul" for m in self.read(n.outputs[0]) if m.op == "mul"]
        found = ((m, match(self.maker, m.outputs[0], GELU)) for m in last_of_some)
        root, made = next(((m, f[1]) for m, f in found if f is not None and f[0] is x), (None, ()))
        if root is None:
            return False
        inside = [*wide, *made]
        if self.is_half(z):
            back = self.alone(root.outputs[0])
            if back is None or back.op != "cast" or back.outputs[0].type != z.type:
                return False
            inside.append(back)
            root = back
        h = root.outputs[0]
        others = [n for n in self.read(z) if n not in inside]
        kept = bool(others) or z in self.results
        if self.soft(h) or self.soft(z, inside) or (kept and not self.in_one_piece(product)) or any(
                v in self.results or any(u not in inside for u in self.read(v))
                for n in inside if n is not root for v in n.outputs):
            return False
        inputs = (*product.inputs, *(() if bias is None else (bias,)))
        name = "gelu" + "_aux" * kept + ("" if bias is None else "_bias")
        self.put([*parts, *inside], name, inputs, (h, z) if kept else (h,), root)
        return True

    def gelu_gradient(self, product: Node) -> None:
        """A product times the slope of GELU."""
        chain = self.following(product.outputs[0], "mul")
        if product in self.gone or not chain or not self.in_one_piece(product):
            return
        node = chain[len(chain) // 2]
        found = next((f for v in node.inputs if (f := match(self.maker, v, GELU_SLOPE)) is not None), None)
        last = chain[-1].outputs[0]
        if found is None or self.soft(last, self.sums(last)):
            return
        x = found[0]
        if self.is_half(last):
            widened = self.maker.get(x)
            if widened is None or not _widens(widened):
                return
            (x,) = widened.inputs
        if x.type == last.type:
            self.gradient([product, *chain], "dgelu", x)

    def in_one_piece(self, product: Node) -> bool:
        """Whether the rows of a product with batch axes follow each other, of which some epilogues need one matrix."""
        if len(_dims(product.outputs[0])) == 2:
            return True
        a, b = product.inputs
        maker = self.maker.get(a)
        return len(_dims(b)) == 2 and (maker is None or not has_trait(maker.op, "affine"))

    def gradient(self, nodes: Sequence[Node], name: str, aux: Value) -> None:
        """A product times an activation's slope, and the gradient of the bias before it."""
        product = next(n for n in nodes if n.op == "matmul")
        out = nodes[-1].outputs[0]
        sums = self.sums(out)
        if sums:
            self.put([*nodes, *sums], name + "_bgrad", (*product.inputs, aux), (out, sums[0].outputs[0]), nodes[-1])
        else:
            self.put(nodes, name, (*product.inputs, aux), (out,), nodes[-1])

    def sums(self, value: Value) -> list[Node]:
        """Sums over all axes but the last, of which an epilogue takes the first."""
        axes = tuple(range(len(_dims(value)) - 1))
        return [n for n in self.read(value) if (n.op == "sum" and n.attrs["axes"] == axes and not n.attrs["keepdim"])
                or (n.op == "sum_to" and n.attrs["shape"] == _dims(value)[-1:])][:1]

    # --- bias gradients ---

    def bias_gradient(self, product: Node) -> None:
        """sum(g) beside the product of transposed g and something: the gradients of a linear layer."""
        out = product.outputs[0]
        if len(_dims(out)) != 2:
            return
        for name, operand, axes in (("bgradb", product.inputs[0], (1, 0)), ("bgrada", product.inputs[1], None)):
            g = self.rows_of(operand, axes)
            if g is None:
                continue
            for total in self.sums(g):
                last = max(product, total, key=self.place.__getitem__)
                first = total if last is product else product
                early = min((self.place[n] for n in self.read(first.outputs[0])), default=len(self.nodes))
                if early > self.place[last] and self.by_itself(g, total):
                    self.put([product, total], name, product.inputs, (out, total.outputs[0]), last)
                    return

    def rows_of(self, value: Value, axes: tuple[int, ...] | None) -> Value | None:
        """The value of which an operand is the transpose, or (no `axes`) the operand itself, its rows one axis."""
        if axes is not None:
            node = self.maker.get(value)
            if node is None or node.op != "permute" or node.attrs["axes"] != axes:
                return None
            value = node.inputs[0]
        node = self.maker.get(value)
        if node is not None and node.op == "reshape" and _dims(node.inputs[0])[-1:] == _dims(value)[-1:]:
            return node.inputs[0]
        return value

    def by_itself(self, g: Value, total: Node) -> bool:
        """Whether a sum would be a kernel of its own: what makes g is none, or one that also reduces other axes."""
        maker = self.maker.get(g)
        if maker is None or not _in_kernel(maker):
            return True
        space, level = _dims(g), self.level[g]
        seen, pending = {g}, [g]
        while pending and len(seen) < MANY:
            value = pending.pop()
            near = [self.maker[value]] if value in self.maker else []
            for node in (*near, *self.read(value)):
                if not _in_kernel(node) or self.level[node.outputs[0]] > level:
                    continue
                if fold_of(node.op) and _dims(node.inputs[0]) == space and node.attrs["axes"] != (
                        total.attrs.get("axes")):
                    return True
                for v in (*node.inputs, *node.outputs):
                    if v not in seen and _dims(v) == space:
                        seen.add(v)
                        pending.append(v)
        return False

    # --- new nodes ---

    def put(self, parts: Sequence[Node], name: str, inputs: Sequence[Value], outputs: Sequence[Value],
            where: Node | None) -> None:
        """One product for `parts`, in the place of `where`."""
        assert where is not None
        self.gone.update(parts)
        node = Node(EPILOGUE, tuple(inputs), {"epilogue": name}, tuple(outputs), (), parts[-1].span)
        self.new[where] = [node]
        for v in outputs:
            self.maker[v] = node
        for v in inputs:
            self.users.setdefault(v, []).append(node)
        self.place[node] = self.place[where]


def _in_kernel(node: Node) -> bool:
    op = node.op
    return (is_elementwise(op) or bool(fold_of(op)) or has_trait(op, "affine") or is_kind(op, CREATE)
            or is_kind(op, RANDOM) or op in ("index", "gather") or op == "sum_to")


def _widens(node: Node) -> bool:
    """Whether a node makes float32 of a half type."""
    return node.op == "cast" and _dtype(node.outputs[0]) is float32 and _dtype(node.inputs[0]) in (float16, bfloat16)


def _dims(value: Value) -> tuple[Size, ...]:
    return value.type.dims if isinstance(value.type, TensorType) else ()


def _dtype(value: Value) -> object:
    return value.type.dtype if isinstance(value.type, TensorType) else None
