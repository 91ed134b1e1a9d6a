"""The second level: buffers and steps. What lowering makes of a graph, and what a backend prints.

A `Program` is one function. Its memory is a set of `Buffer`s; a `Ref` is a strided window into one. Steps are run in
order; `IfStep` and `LoopStep` hold nested lists of steps. Numbers stay `ir.Value`s: a backend keeps them in registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jitgrad.codegen.kernel import Kernel
from jitgrad.dims import Size, Symbol
from jitgrad.dtypes import dtype
from jitgrad.errors import Span
from jitgrad.ops.types import Type
from jitgrad.script.ir import Node, Value

_ids = itertools.count()


@dataclass(slots=True, eq=False)
class Buffer:
    """A stretch of memory.

    kind: "input" and "output" (number `index`, memory of Python's), "slot" (workspace, size known at entry),
    "growable" (workspace, size known only where an `Allocate` stands), "pointer" (a variable that `Point` sets to a
    place in another buffer; `aliases` are the buffers it may point into).
    """

    dtype: dtype
    size: Size
    kind: Literal["input", "output", "slot", "growable", "pointer"]
    index: int = -1
    aliases: set[Buffer] = field(default_factory=set)
    id: int = field(default_factory=_ids.__next__)

    def __repr__(self) -> str:
        return f"{self.kind}{self.index if self.index >= 0 else self.id}"


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """A strided window: element (i, j, ...) is at `offset + i * strides[0] + j * strides[1] + ...`, in elements."""

    buffer: Buffer
    offset: Size
    dims: tuple[Size, ...]
    strides: tuple[Size, ...]

    @property
    def dtype(self) -> dtype:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True, eq=False)
class KernelStep:
    """Run a kernel. `sizes`: outer then inner; `starts`: (buffer, offset) per operand; `strides`: those that are
    arguments, in the order of the kernel's parameters; `scalars`: 0-dim values and numbers."""

    kernel: Kernel
    sizes: tuple[Size, ...]
    starts: tuple[tuple[Buffer, Size], ...]
    strides: tuple[Size, ...]
    scalars: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GemmStep:
    """c[m, n] = a[m, k] @ b[k, n] (+ c if `accumulate`), once per index of `batch`: (size, strides of a, b, c)."""

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


@dataclass(frozen=True, slots=True, eq=False)
class ScalarStep:
    """A pointwise node on 0-dim values, in registers."""

    node: Node
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoadScalar:
    """Bring a one-element tensor into a register."""

    value: Value
    buffer: Buffer
    offset: Size


@dataclass(frozen=True, slots=True, eq=False)
class StoreScalar:
    """Write a register to memory."""

    value: Value
    buffer: Buffer
    offset: Size


@dataclass(frozen=True, slots=True, eq=False)
class NumberStep:
    """A `num.*`, `dim.*`, `item`, `opt.*` node on numbers; `site` where it may raise."""

    node: Node
    site: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """Make a growable buffer large enough for its size, which is known from here on."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Set pointer buffers, all at once."""

    targets: tuple[tuple[Buffer, Buffer, Size], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """Set number (or 0-dim) variables and size symbols, all at once. A source may be a Value or a Python number."""

    values: tuple[tuple[Value, Value], ...] = ()
    sizes: tuple[tuple[Symbol, Size], ...] = ()
    constants: tuple[tuple[Value, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class IfStep:
    condition: Value
    then: list[Any]
    otherwise: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class LoopStep:
    """`before` once; then while `condition` (a variable): `body`. Polls for signals on the back edge.

    With `count` the loop runs that often and `counter` is its variable.
    """

    body: list[Any]
    condition: Value | None = None
    count: Value | None = None
    counter: Value | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """Where native code leaves for Python: a failing check, a print, a library call.

    `values`: what it passes: (type of the value); `refs`: for tensors, their window.
    """

    kind: Literal["check", "print", "library", "arithmetic", "memory"]
    node: Node | None
    span: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class CallStep:
    """A `check` (raise unless the condition), a `print` or a library call: values are numbers or windows."""

    site: int
    kind: Literal["check", "print", "library"]
    condition: Value | None
    values: tuple[Value | Ref | Size, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CommitNumber:
    """Write a number (or Optional of one) to the slot of graph input `target`."""

    target: int
    value: Value


@dataclass(slots=True)
class Program:
    """One function: what to run and what it needs.

    Attributes:
        name: the native function's name.
        inputs: the types of the inputs.
        input_symbols: symbol -> (input, axis) where its value is read at entry.
        steps: the body.
        outputs: one `Output` per graph output.
        buffers: every buffer that is not an input's or an output's.
        sites: places that may raise, print or call the library.
        reasons: why two nodes are not in one kernel.
        commits: inputs whose memory or slot the program writes.
    """

    name: str
    inputs: tuple[Type, ...]
    input_buffers: dict[int, Buffer]
    input_values: tuple[Value, ...]
    input_symbols: dict[Symbol, tuple[int, int]]
    steps: list[Any]
    outputs: list[Any]
    sites: list[CallSite]
    reasons: list[str]
    commits: tuple[int, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
