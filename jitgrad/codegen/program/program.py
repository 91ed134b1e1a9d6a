"""The second level: buffers and steps. What lowering makes of a graph, and what a backend prints.

A `Program` is one function. Its memory is a set of `Buffer`s; a `Ref` is a strided window into one. Steps are run in
order; `IfStep` and `LoopStep` hold nested lists of steps. Numbers stay `ir.Value`s: a backend keeps them in registers.

Nobody changes a step once it is made. The classes are not frozen, and are compared by identity, because each method
that `dataclass` writes costs time at import, which is part of every cold compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from jitgrad.codegen.program.kernel import Kernel
from jitgrad.dims import Size, Symbol
from jitgrad.dtypes import dtype
from jitgrad.errors import Span
from jitgrad.ops.types import Type
from jitgrad.script.graph.ir import Node, Value

_ids = itertools.count()


@dataclass(slots=True, eq=False)
class Buffer:
    """A stretch of memory.

    kind: "input" and "output" (number `index`, memory of Python's), "slot" (workspace, size known at entry),
    "growable" (workspace, size known only where an `Allocate` stands), "pointer" (a variable that `Point` sets to a
    place in another buffer; `aliases` are the buffers it may point into; `size` is that of what is there, 0 where that
    is not known). `keeps`: it is read in the iteration after the one that wrote it, so it shares its memory with no
    other buffer. `host`: an input in the host's memory, of a program whose other memory is a device's.
    """

    dtype: dtype
    size: Size
    kind: Literal["input", "output", "slot", "growable", "pointer"]
    index: int = -1
    aliases: set[Buffer] = field(default_factory=set)
    keeps: bool = False
    host: bool = False
    id: int = field(default_factory=_ids.__next__)

    def __repr__(self) -> str:
        return f"{self.kind}{self.index if self.index >= 0 else self.id}"


@dataclass(slots=True, eq=False, repr=False)
class Ref:
    """A strided window: element (i, j, ...) is at `offset + i * strides[0] + j * strides[1] + ...`, in elements."""

    buffer: Buffer
    offset: Size
    dims: tuple[Size, ...]
    strides: tuple[Size, ...]

    @property
    def dtype(self) -> dtype:
        return self.buffer.dtype


@dataclass(slots=True, eq=False, repr=False)
class KernelStep:
    """Run a kernel. `sizes`: outer then inner; `starts`: (buffer, offset) per operand; `strides`: those that are
    arguments, in the order of the kernel's parameters; `scalars`: 0-dim values and numbers."""

    kernel: Kernel
    sizes: tuple[Size, ...]
    starts: tuple[tuple[Buffer, Size], ...]
    strides: tuple[Size, ...]
    scalars: tuple[Value, ...]


@dataclass(slots=True, eq=False, repr=False)
class EachStep:
    """Run a kernel of one axis for several tuples of operands, each of its own size: what `EachPut`s have put.

    `parts`: size and (buffer, offset) per operand, of each; `shared`: per scalar, whether all parts have the same.
    """

    kernel: Kernel
    parts: tuple[tuple[Size, tuple[tuple[Buffer, Size], ...]], ...]
    shared: tuple[bool, ...]


@dataclass(slots=True, eq=False, repr=False)
class EachPut:
    """Say what part `number` of `each` is. Numbers are computed here; the kernel runs at `each`, or where the program
    leaves before that."""

    each: EachStep
    number: int
    size: Size
    starts: tuple[tuple[Buffer, Size], ...]
    scalars: tuple[Value, ...]


@dataclass(slots=True, eq=False, repr=False)
class SpoilStep:
    """Fill a buffer that holds nothing yet with NaNs, or (None) the whole workspace: see `cuda/spoiling.py`."""

    buffer: Buffer | None


#: what the words of an epilogue's name compute; a bias is added first
_EPILOGUES = {"bias": "bias", "relu": "relu", "gelu": "gelu", "drelu": "relu'", "dgelu": "gelu'", "bgrad": "bias'",
              "bgrada": "bias'", "bgradb": "bias'"}


@dataclass(slots=True, eq=False, repr=False)
class GemmStep:
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
    def writes(self) -> list[Buffer]:
        """What it writes: c, a bias's gradient, what is kept for the gradient."""
        more = ((self.bias, "grad" in self.epilogue), (self.aux, "aux" in self.epilogue))
        return [self.c[0], *[place[0] for place, written in more if place is not None and written]]

    @property
    def name(self) -> str:
        """For people: the product, and what else it computes."""
        words = self.epilogue.split("_")
        words.sort(key="bias".__ne__)
        return "+".join(["matmul", *[_EPILOGUES[w] for w in words if w in _EPILOGUES]])


@dataclass(slots=True, eq=False, repr=False)
class ScalarStep:
    """A pointwise node on 0-dim values, in registers."""

    node: Node
    args: tuple[Value, ...]


@dataclass(slots=True, eq=False, repr=False)
class LoadScalar:
    """Bring a one-element tensor into a register."""

    value: Value
    buffer: Buffer
    offset: Size


@dataclass(slots=True, eq=False, repr=False)
class StoreScalar:
    """Write a register to memory."""

    value: Value
    buffer: Buffer
    offset: Size


@dataclass(slots=True, eq=False, repr=False)
class NumberStep:
    """A `num.*`, `dim.*`, `item`, `opt.*` node on numbers; `site` where it may raise."""

    node: Node
    site: int = -1
    leaving: Leaving | None = None


@dataclass(slots=True, eq=False, repr=False)
class Allocate:
    """Make a growable buffer large enough for its size, which is known from here on."""

    buffer: Buffer


@dataclass(slots=True, eq=False, repr=False)
class Point:
    """Set pointer buffers, all at once."""

    targets: tuple[tuple[Buffer, Buffer, Size], ...]


@dataclass(slots=True, eq=False, repr=False)
class Assign:
    """Set variables of numbers, one-element tensors and sequences, and size symbols, all at once."""

    values: tuple[tuple[Value, Value], ...] = ()
    sizes: tuple[tuple[Symbol, Size], ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class IfStep:
    condition: Value
    then: list[Any]
    otherwise: list[Any]


@dataclass(slots=True, eq=False, repr=False)
class LoopStep:
    """While the variable `condition` holds: `body`. Looks at pending signals before each back edge.

    `frees`: what an iteration takes from the arena is free again at its end.
    """

    condition: Value
    body: list[Any]
    frees: bool = False


# --- sequences: a header (see `llvm/sequences.py`) whose address is the value; all their memory is from the arena ---


@dataclass(slots=True, eq=False, repr=False)
class Column:
    """One part of every element: "tensor", "word" (number, flag, sequence) or "pair" (Number).

    `dims`: the sizes of a tensor where all elements have the same; None: each element says its own.
    """

    kind: Literal["tensor", "word", "pair"]
    dtype: dtype | None = None
    rank: int = 0
    dims: tuple[Size, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class SeqStart:
    """A new sequence with room for `capacity` elements (None: some)."""

    seq: Value
    columns: tuple[Column, ...]
    capacity: Value | None


@dataclass(slots=True, eq=False, repr=False)
class SeqGrow:
    """Make room for element `k`."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value


@dataclass(slots=True, eq=False, repr=False)
class SeqReach:
    """Let a list have an element `k`: make room, and where it is shorter clear the flags of what is new."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value
    flags: bool


@dataclass(slots=True, eq=False, repr=False)
class SeqCopy:
    """A list with the same elements in columns of its own."""

    source: Value
    columns: tuple[Column, ...]
    out: Value


@dataclass(slots=True, eq=False, repr=False)
class SeqPlace:
    """Point `target` at the storage of element `k` in a column of equal tensors."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    target: Buffer


@dataclass(slots=True, eq=False, repr=False)
class SeqPut:
    """Store element `k` of a column: a number or sequence, or the place and sizes of a tensor (which has its own)."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    what: Value | Ref


@dataclass(slots=True, eq=False, repr=False)
class SeqGet:
    """Read element `k` of a column into a number or pointer; `sizes`: (axis, symbol) to set from a tensor's sizes."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    target: Value | Buffer
    sizes: tuple[tuple[int, Symbol], ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class SeqLength:
    """Read (`k` None) or set the length."""

    seq: Value
    out: Value | None = None
    k: Value | None = None


@dataclass(slots=True, eq=False, repr=False)
class ArenaAllocate:
    """Point `target` at new memory of `size` elements that lives as long as the call's sequences."""

    target: Buffer
    size: Size


# --- what one kernel of a device does ---


@dataclass(slots=True, eq=False, repr=False)
class Barrier:
    """Inside a `ResidentStep`: what was written before is seen by what follows."""


@dataclass(slots=True, eq=False, repr=False)
class ResidentStep:
    """Steps with branches and loops that one kernel of a device runs, without the host: see `cuda/regions.py`.

    The host runs them where one of `conditions` does not hold, or one of `counters` is so large that it might overflow.
    Where their products are too large it runs `otherwise`.

    Attributes:
        values: what is read from registers.
        sizes: the symbols that are read.
        buffers: those whose addresses are taken.
        seqs: sequences that the steps, one loop, write to: where one is full the kernel stops, and is launched again.
        exits: what is set here and read after: it is read from `told`, which waits for the device.
        settled: moves of pointers with which the steps end, and of which the host knows without waiting.
        otherwise: other steps that do the same (see `cuda/repeating.py`), if there are any.
        alone: the steps are numbers, for one thread, which the host need not look at.
    """

    steps: list[Any]
    conditions: tuple[Value, ...]
    counters: tuple[Value, ...]
    values: tuple[Value, ...]
    sizes: tuple[Symbol, ...]
    buffers: tuple[Buffer, ...]
    seqs: tuple[SeqGrow, ...]
    exits: tuple[Value | Buffer, ...]
    told: Buffer | None
    settled: Point | None = None
    otherwise: list[Any] = field(default_factory=list)
    alone: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Recall:
    """Inside a `ResidentStep`: read a number from word `k` of `state`, where another one has written it."""

    value: Value
    state: Buffer
    k: int


@dataclass(slots=True, eq=False, repr=False)
class RepeatStep:
    """While the first word of `state` is not 0: `body`, launches alone, the same in every iteration; one of them sets
    the state, whose words are the values `words`. `wanted`: those that the host reads after the loop.
    """

    body: list[Any]
    state: Buffer
    words: tuple[Value, ...]
    wanted: tuple[Value, ...]


@dataclass(slots=True, eq=False, repr=False)
class CallSite:
    """Where native code leaves for Python: a failing check, a print, a library call.

    `values`: what it passes: (type of the value); `refs`: for tensors, their window.
    """

    kind: Literal["check", "print", "library", "arithmetic", "memory", "callback", "fetch", "callback.vjp", "pending"]
    node: Node | None
    span: Span | None


@dataclass(slots=True, eq=False, repr=False)
class Leaving:
    """What a place that raises tells of changes that are stored then: by `site`, after `before` has run.

    `more`: what comes in addition.
    """

    site: int
    values: tuple[Value | Ref, ...]
    before: list[Any]
    more: Leaving | None
    word: int = field(init=False)  # where its values begin, among those of all
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.word = self.more.end if self.more is not None else 0
        # a number takes up to 4 words, a window an address, sizes and strides
        self.end = self.word + sum(1 + 2 * len(v.dims) if isinstance(v, Ref) else 4 for v in self.values)

    def chain(self) -> Iterator[Leaving]:
        """This and all that it comes in addition to."""
        part: Leaving | None = self
        while part is not None:
            yield part
            part = part.more


@dataclass(slots=True, eq=False, repr=False)
class CallStep:
    """A `check` (raise unless the condition), a `print` or a library call: values are numbers or windows.

    `before`: steps that bring a failing check's values to memory.
    """

    site: int
    kind: Literal["check", "print", "library", "callback"]
    condition: Value | None
    values: tuple[Value | Ref | Size, ...]
    before: list[Any] = field(default_factory=list)
    leaving: Leaving | None = None


@dataclass(slots=True, eq=False, repr=False)
class CommitSlot:
    """Note what the slot behind graph input `target` becomes: `parts` are flags, numbers, or one window."""

    target: int
    parts: tuple[Value | Ref, ...]


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """An array: made by the launcher and written in place (`fresh`) where its sizes are known at entry, else copied.

    `flag`: whether it is there, for an Optional.
    """

    ref: Ref
    fresh: bool
    shape: tuple[Size, ...]
    flags: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class NumberOutput:
    """Flags and a number or sequence."""

    type: Type
    parts: tuple[Value, ...]


@dataclass(slots=True)
class Program:
    """One function: what to run and what it needs.

    Attributes:
        name: the native function's name.
        inputs: the types of the inputs.
        input_parts: per input, the flags and numbers that the launcher passes.
        input_symbols: symbol -> (input, axis) where its value is read at entry.
        steps: the body.
        outputs: one per graph output.
        buffers: every buffer that is not an input's or an output's.
        sites: places that may raise, print or call the library.
        reasons: (producer, consumer, why the two are not in one kernel).
        origins: step -> the nodes that it computes.
        commits: inputs whose memory or slot the program writes.
    """

    name: str
    inputs: tuple[Type, ...]
    input_buffers: dict[int, Buffer]
    input_parts: list[tuple[Value, ...]]
    input_symbols: dict[Symbol, tuple[int, int]]
    steps: list[Any]
    outputs: list[TensorOutput | NumberOutput]
    sites: list[CallSite]
    reasons: list[tuple[Node, Node, str]]
    commits: tuple[int, ...]
    origins: dict[Any, tuple[Node, ...]]
