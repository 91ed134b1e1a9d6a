"""The steps of a program: kernels, products, numbers and memory, branches and loops, calls of Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal

from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.step import Buffer, Leaving, Ref, Step, Touched, Use, node_uses, words_of
from jitgrad.dims import Size, Symbol, product
from jitgrad.dtypes import dtype
from jitgrad.kernels.tiled.attention import ADDED, FLAGS, NAMES, NO_MASK, words
from jitgrad.script.graph.ir import Node, Value


def of_kernel(kernel: Kernel, starts: Sequence[tuple[Buffer, Size]]) -> Touched:
    """What a kernel reads, and what it writes."""
    both = list(zip(kernel.operands, [b for b, _ in starts], strict=True))
    return [b for o, b in both if o.role != "out"], [b for o, b in both if o.role != "in"]


class KernelStep(Step):
    """Run a kernel. `sizes`: outer then inner; `starts`: (buffer, offset) per operand; `strides`: those that are
    arguments, in the order of the kernel's parameters; `scalars`: 0-dim values and numbers."""

    kernel: Kernel
    sizes: tuple[Size, ...]
    starts: tuple[tuple[Buffer, Size], ...]
    strides: tuple[Size, ...]
    scalars: tuple[Value, ...]

    @property
    def memory(self) -> Touched:
        return of_kernel(self.kernel, self.starts)


#: what the words of an epilogue's name compute; a bias is added first
_EPILOGUES = {"bias": "bias", "relu": "relu", "gelu": "gelu", "drelu": "relu'", "dgelu": "gelu'", "bgrad": "bias'",
              "bgrada": "bias'", "bgradb": "bias'"}


class GemmStep(Step):
    """c[m, n] = a[m, k] @ b[k, n] (+ c if `accumulate`), once per index of `batch`: (size, strides of a, b, c).

    `epilogue`: what else is computed, with `bias` (or its gradient) and `aux`: see `lower/device/epilogues.py`.
    """

    dtype: dtype
    m: Size
    n: Size
    k: Size
    a: tuple[Buffer, Size]
    b: tuple[Buffer, Size]
    c: tuple[Buffer, Size]
    trans_a: bool
    trans_b: bool
    lda: Size
    ldb: Size
    ldc: Size
    batch: tuple[tuple[Size, Size, Size, Size], ...] = ()
    accumulate: bool = False
    epilogue: str = ""
    bias: tuple[Buffer, Size] | None = None
    aux: tuple[Buffer, Size] | None = None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The loops around one multiplication."""
        return (self.m, self.n, self.k, *[axis[0] for axis in self.batch])

    @property
    def traffic(self) -> tuple[list[Size], list[Size]]:
        """The bytes that one product for each index of the batch reads, and those that it writes; no epilogue's."""
        width = self.dtype.itemsize
        c = product((width, self.m, self.n, *[size for size, *_ in self.batch]))
        a = product((width, self.m, self.k, *[size for size, stride, _, _ in self.batch if stride != 0]))
        b = product((width, self.k, self.n, *[size for size, _, stride, _ in self.batch if stride != 0]))
        return [a, b, *([c] if self.accumulate else [])], [c]

    @property
    def memory(self) -> Touched:
        """It writes c, a bias's gradient, what is kept for the gradient."""
        more = ((self.bias, "grad" in self.epilogue), (self.aux, "aux" in self.epilogue))
        return ([self.a[0], self.b[0], *[place[0] for place, _ in more if place is not None]],
                [self.c[0], *[place[0] for place, written in more if place is not None and written]])

    @property
    def name(self) -> str:
        """For people: the product, and what else it computes."""
        words = self.epilogue.split("_")
        words.sort(key="bias".__ne__)
        return "+".join(["matmul", *[_EPILOGUES[w] for w in words if w in _EPILOGUES]])


class ConvolutionStep(Step):
    """Make what `role` says, "x", "w" or "y", of a convolution from the other two (`kernels/tiled/convolution.py`); "y"
    or "w" of half types on a device, w as the sums of parts, (parts, *dims) (`cuda/kernels/tiled/convolution.py`).

    `words`: the numbers of its layout; `sizes`: the loops around one multiplication.
    """

    role: str
    words: tuple[Size, ...]
    sizes: tuple[Size, ...]
    x: Ref
    w: Ref
    y: Ref
    scratch: tuple[Ref, ...] = ()

    @property
    def places(self) -> tuple[Ref, ...]:
        """Where all of it is."""
        return self.x, self.w, self.y, *self.scratch

    @property
    def made(self) -> Ref:
        found: Ref = getattr(self, self.role)
        return found

    @property
    def memory(self) -> Touched:
        return [r.buffer for r in self.places], [self.made.buffer, *[r.buffer for r in self.scratch]]

    @property
    def traffic(self) -> tuple[list[Size], list[Size]]:
        """The bytes of what is given and made, each once."""
        sizes = {r: product((r.dtype.itemsize, *r.dims)) for r in (self.x, self.w, self.y)}
        made = sizes.pop(self.made)
        return list(sizes.values()), [made]

    @property
    def payload(self) -> int:
        return len(self.words)

    @property
    def name(self) -> str:
        """For people."""
        return "jg_convolution"


#: attention, and its gradient; a device's: the gradient of queries, those of keys and values
Attention = Literal["forward", "backward", "dq", "dkv"]


class AttentionStep(Step):
    """Attention of heads, or a part of its gradient: `kernels/tiled/attention.py`, and for a device
    `cuda/kernels/tiled/attention.py`, say what its kinds read and make.

    `sizes`: batches, heads, queries, keys; `reads`, `makes`: (batches, rows, heads, width), the last axis contiguous;
    `given`, `counted`: a number for each query, (batches, heads, queries), which it reads, or makes; `mask`: what is
    added to the scores, or whether they count, (batches, heads, queries, keys), each of these or 1.
    """

    kind: Attention
    width: int
    causal: bool
    scale: float | None
    sizes: tuple[Size, ...]
    reads: tuple[Ref, ...]
    makes: tuple[Ref, ...]
    given: tuple[Ref, ...]
    counted: tuple[Ref, ...]
    mask: tuple[Ref, ...] = ()

    @property
    def memory(self) -> Touched:
        read, made = ([r.buffer for r in refs] for refs in self._refs)
        return read, made

    @property
    def traffic(self) -> tuple[list[Size], list[Size]]:
        """The bytes of what is read and made, each once: rows that several blocks read are in a cache."""
        read, made = ([product((r.dtype.itemsize, *r.dims)) for r in refs] for refs in self._refs)
        return read, made

    @property
    def _refs(self) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        return (*self.reads, *self.given, *self.mask), (*self.makes, *self.counted)

    @property
    def loops(self) -> tuple[Size, ...]:
        """The loops around one multiplication, without a causal mask; the first is over products."""
        return 2 if self.kind == "forward" else 5, *self.sizes, self.reads[0].dims[-1]

    @property
    def words(self) -> tuple[Size, ...]:
        """What the functions of `kernels/tiled/attention.py` are given, but for addresses."""
        wide = ("q", "k", "v", "y") if self.kind == "forward" else ("q", "k", "v", "y", "g", "dq", "dk", "dv")
        moves = {name: r.strides[:3] for name, r in zip(wide, (*self.reads, *self.makes), strict=True)}
        how = NO_MASK
        for ref in self.mask:
            how, moves["mask"] = FLAGS if ref.dtype.itemsize == 1 else ADDED, ref.strides
        return words((*self.sizes, self.reads[0].dims[-1]), self.causal, how, self.scale, moves)

    @property
    def payload(self) -> int:
        return len(NAMES)

    @property
    def name(self) -> str:
        """For people."""
        return "jg_attention" if self.kind == "forward" else f"jg_attention_{self.kind}"


class ScalarStep(Step):
    """A pointwise node on 0-dim values, in registers."""

    READS = ()

    node: Node
    args: tuple[Value, ...]

    @property
    def uses(self) -> list[Use]:
        return node_uses(self.node)

    @property
    def sets(self) -> Sequence[Use]:
        return self.node.outputs


class LoadScalar(Step):
    """Bring a one-element tensor into a register."""

    READS = ("buffer",)
    SETS = ("value",)

    value: Value
    buffer: Buffer
    offset: Size


class StoreScalar(Step):
    """Write a register to memory."""

    WRITES = ("buffer",)

    value: Value
    buffer: Buffer
    offset: Size


class NumberStep(Step):
    """A `num.*`, `dim.*`, `item`, `opt.*` node on numbers; `site` where it may raise."""

    READS = ()

    node: Node
    site: int = -1
    leaving: Leaving | None = None

    @property
    def uses(self) -> list[Use]:
        return node_uses(self.node)

    @property
    def sets(self) -> Sequence[Use]:
        bound = [self.node.attrs["symbol"]] if self.node.op == "dim.bind" else []
        return [*self.node.outputs, *bound]

    @property
    def payload(self) -> int:
        return 4 * len(self.node.inputs)


class Allocate(Step):
    """Make a growable buffer large enough for its size, which is known from here on."""

    WRITES = ("buffer",)

    buffer: Buffer


class Point(Step):
    """Set pointer buffers, all at once."""

    MOVES = ("targets",)
    READS = ()

    targets: tuple[tuple[Buffer, Buffer, Size], ...]


class Assign(Step):
    """Set variables of numbers, one-element tensors and sequences, and size symbols, all at once."""

    MOVES = ("values", "sizes")
    READS = ()

    values: tuple[tuple[Value, Value], ...] = ()
    sizes: tuple[tuple[Symbol, Size], ...] = ()


class IfStep(Step):
    BLOCKS = ("then", "otherwise")
    READS = ()

    condition: Value
    then: list[Any]
    otherwise: list[Any]

    def with_blocks(self, made: Callable[[list[Any]], list[Any]]) -> IfStep:
        return IfStep(self.condition, made(self.then), made(self.otherwise))


class LoopStep(Step):
    """While the variable `condition` holds: `body`. Looks at pending signals before each back edge.

    `frees`: what an iteration takes from the arena is free again at its end.
    """

    BLOCKS = ("body",)
    READS = ()

    condition: Value
    body: list[Any]
    frees: bool = False

    def with_blocks(self, made: Callable[[list[Any]], list[Any]]) -> LoopStep:
        return LoopStep(self.condition, made(self.body), self.frees)


class CallStep(Step):
    """A `check` (raise unless the condition), a `print` or a library call: values are numbers or windows.

    `before`: steps that bring a failing check's values to memory; `results`: numbers that Python leaves in their place.
    """

    SETS = ("results",)

    site: int
    kind: Literal["check", "print", "library", "callback", "text"]
    condition: Value | None
    values: tuple[Value | Ref | Size, ...]
    before: list[Any] = field(default_factory=list)
    leaving: Leaving | None = None
    results: tuple[Value, ...] = ()

    @property
    def memory(self) -> Touched | None:
        return ([], []) if self.kind == "check" else None

    def traffic(self, node: Node) -> tuple[list[Size], list[Size]]:
        """The bytes that the library reads and writes, for `node`."""
        made = 2 if node.op == "nonzero" else len(node.outputs)  # which also says how many it found
        sizes = [product(v.dims) * v.dtype.itemsize for v in self.values if isinstance(v, Ref)]
        return sizes[:-made], sizes[-made:]

    @property
    def payload(self) -> int:
        return sum(map(words_of, self.values))


class CommitSlot(Step):
    """Note what the slot behind graph input `target` becomes: `parts` are flags, numbers, or one window."""

    READS = ()

    target: int
    parts: tuple[Value | Ref, ...]
