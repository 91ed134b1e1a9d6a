"""Rematerialisation: what is computed again because storing it would move more bytes.

Reading and writing memory is most of what a pointwise kernel costs, so what counts is bytes per element. A value
that is stored is written and read; one that is in memory anyway (an input that nobody writes, a product, a result that
the caller gets) is only read; one with fewer axes (a row's mean) costs next to nothing, as does a draw, of which seed
and offset are enough. `(x - mean) * scale` in float32, of a bfloat16 input: 8 bytes stored, 2 computed again.
A `log_softmax` is `x - m - l` with two numbers for each row.

`CostModel` compares the two ways. It is asked twice: of what a forward saves for its backward (`Saved`), and, where
both are one program, of what flows from one kernel to others (`codegen/lower/rematerialise.py`).
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from jitgrad.classes import dataclass, field
from jitgrad.dims import Size
from jitgrad.ops import OPS
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff.frame import DEPTH, Mirror
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value, committed, walk
from jitgrad.script.graph.namespace import GraphNamespace

X = TypeVar("X")  # a value as somebody reads it
M = TypeVar("M")  # what computes a value
K = TypeVar("K", bound=Hashable)  # what is read from memory


@dataclass(slots=True)
class Way(Generic[M, K]):
    """How to have a value: what is computed again, in order; what is read from memory, and the bytes of each."""

    makers: dict[M, None] = field(default_factory=dict)
    reads: dict[K, int] = field(default_factory=dict)

    @property
    def cost(self) -> int:
        """Bytes per element."""
        return sum(self.reads.values())


class CostModel(ABC, Generic[X, M, K]):
    """The bytes that values cost one reader, stored or computed again. A chain of makers is at most `DEPTH` long."""

    @abstractmethod
    def stored(self, x: X) -> dict[K, int] | None:
        """What is read of a value that is stored, and the bytes that this moves; None: it cannot be had so."""

    @abstractmethod
    def maker(self, x: X) -> M | None:
        """What computes a value again, if anything may."""

    @abstractmethod
    def operands(self, maker: M) -> Iterable[X]:
        """What that reads."""

    def again(self, maker: M, depth: int = DEPTH, most: float = math.inf) -> Way[M, K] | None:
        """The cheapest way to compute a value again; None where it costs more than `most`, or there is none."""
        found: Way[M, K] = Way()
        for x in self.operands(maker):
            way = self.cheapest(x, depth)
            if way is None:
                return None
            found.makers |= way.makers
            found.reads |= way.reads
            if found.cost > most:
                return None
        found.makers[maker] = None
        return found

    def cheapest(self, x: X, depth: int) -> Way[M, K] | None:
        """The cheaper of reading a value and computing it again."""
        reads = self.stored(x)
        if reads is None:
            return None
        read: Way[M, K] = Way({}, reads)
        maker = self.maker(x) if read.cost and depth > 0 else None
        made = self.again(maker, depth - 1, read.cost) if maker is not None else None
        return read if made is None else made


def with_rows(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """`graph` where each `log_softmax` is computed from the numbers of its rows besides: result -> the same so made."""
    instead: dict[Value, Value] = {}
    block = graph.block
    builder = Builder(Block())
    for node in block.nodes:
        builder.block.nodes.append(node)
        if node.op == "log_softmax":
            builder.span = node.span
            row, F = OPS[node.op], GraphNamespace(builder)
            instead[node.output] = F.expand_composite(row, (F.wrap(node.inputs[0]),), dict(node.attrs)).value
    if not instead:
        return graph, instead
    return Graph(Block(block.params, builder.block.nodes, block.results, block.binds), graph.name), instead


class Saved:
    """What the forward of one frame saves. `instead`: what may stand for a value."""

    def __init__(self, frame: Mirror, instead: Mapping[Value, Value]):
        self.frame, self.instead = frame, instead
        block = frame.block
        self.given = set(block.params) - {block.params[i] for i in committed(block)}
        self.given.update(block.results)
        self.fused = set(_arguments(block))
        self.cut: dict[tuple[Value, int], Size] = {}  # the lengths of all slices of a value along an axis

    def is_cheaper(self, node: Node) -> bool:
        """Whether computing a node's result again moves fewer bytes."""
        v = node.output
        return isinstance(v.type, TensorType) and (self.is_part(node) or self.is_less(node, v, self.saving(v)))

    def is_part(self, node: Node) -> bool:
        """Whether a node takes one of the slices into which something is cut that is in memory anyway: that is saved,
        not all of its slices.
        """
        if node.op != "slice":
            return False
        x, axis = node.inputs[0], node.attrs["axis"]
        made = self.frame.context.flow.producer.get(x)
        if made is None or not has_trait(made.op, "stored") or not isinstance(x.type, TensorType):
            return False
        key = x, axis
        if key not in self.cut:
            self.cut[key] = sum([n.attrs["length"] for n in self.frame.block.nodes if n.op == "slice"
                                 and n.inputs[0] is x and n.attrs["axis"] == axis and n.attrs["step"] == 1])
        return bool(self.cut[key] == x.type.dims[axis])

    def substitute(self) -> None:
        """Let values that are needed be made in the way that moves fewer bytes."""
        frame = self.frame
        for v, other in self.instead.items():
            image = frame.images.get(v)
            if image is None or image not in frame.needed or v in frame.saved or other in frame.images:
                continue
            node = frame.context.flow.producer[other]
            if self.is_less(node, other, self.saving(v)):
                frame.images[other] = frame.images.pop(v)

    def saving(self, v: Value) -> int:
        """Bytes per element of saving `v`."""
        assert isinstance(v.type, TensorType)
        node = self.frame.context.flow.producer.get(v)
        once = v in self.given or v in self.fused or (node is not None and has_trait(node.op, "stored"))
        return v.type.dtype.itemsize * (1 if once else 2)

    def is_less(self, node: Node, root: Value, bytes_: int) -> bool:
        """Whether computing `root` by a node again moves fewer bytes than so many for each element."""
        way = _Operands(self, root).again(node)
        return way is not None and way.cost < bytes_


class _Operands(CostModel[Value, Node, Value]):
    """What saving costs for each element of `root`."""

    def __init__(self, saved: Saved, root: Value):
        assert isinstance(root.type, TensorType)
        self.saved, self.frame, self.axes = saved, saved.frame, _axes(root.type.dims)

    def stored(self, x: Value) -> dict[Value, int] | None:
        if not isinstance(x.type, TensorType) or self.frame.ready(x):
            return {}
        own = _axes(x.type.dims)
        if any(own.count(d) > self.axes.count(d) for d in own):
            return None
        return {x: self.saved.saving(x)} if len(own) == len(self.axes) else {}

    def maker(self, x: Value) -> Node | None:
        node = self.frame.context.flow.producer.get(x)
        return node if node is not None and self.frame.is_cheap(node) else None

    def operands(self, node: Node) -> Iterable[Value]:
        return dict.fromkeys(node.inputs)


def _arguments(block: Block) -> list[Value]:
    """Products with a bias that only GELU reads: these are stored, not the products (`lower/device/epilogues.py`)."""
    readers = Counter([*block.results, *(v for n in walk(block) for v in n.inputs)])
    products = {n.outputs[0] for n in block.nodes if n.op == "matmul" and readers[n.outputs[0]] == 1}
    sums = {n.outputs[0] for n in block.nodes if n.op == "add" and not products.isdisjoint(n.inputs)}
    return [n.inputs[0] for n in block.nodes if n.op == "gelu_tanh" and n.inputs[0] in sums]


def _axes(shape: tuple[Size, ...]) -> list[Size]:
    return [d for d in shape if d != 1]
