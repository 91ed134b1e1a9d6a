"""Steps of sequences, and of the arena that has their memory.

A sequence is a header (see `llvm/sequences.py`) whose address is the value; all their memory is from the arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jitgrad.codegen.program.step import Buffer, Ref, Step, Use, uses_in
from jitgrad.dims import Size, Symbol
from jitgrad.dtypes import dtype
from jitgrad.script.graph.ir import Value


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
class SeqStart(Step):
    """A new sequence with room for `capacity` elements (None: some)."""

    seq: Value
    columns: tuple[Column, ...]
    capacity: Value | None

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in([c.dims for c in self.columns], self.capacity)

    @property
    def sets(self) -> Sequence[Use]:
        return (self.seq,)


@dataclass(slots=True, eq=False, repr=False)
class SeqGrow(Step):
    """Make room for element `k`."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, [c.dims for c in self.columns], self.k)


@dataclass(slots=True, eq=False, repr=False)
class SeqReach(Step):
    """Let a list have an element `k`: make room, and where it is shorter clear the flags of what is new."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value
    flags: bool

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, [c.dims for c in self.columns], self.k)


@dataclass(slots=True, eq=False, repr=False)
class SeqCopy(Step):
    """A list with the same elements in columns of its own."""

    source: Value
    columns: tuple[Column, ...]
    out: Value

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.source, [c.dims for c in self.columns])

    @property
    def sets(self) -> Sequence[Use]:
        return (self.out,)


@dataclass(slots=True, eq=False, repr=False)
class SeqPlace(Step):
    """Point `target` at the storage of element `k` in a column of equal tensors."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    target: Buffer

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, self.k)

    @property
    def sets(self) -> Sequence[Use]:
        return (self.target,)


@dataclass(slots=True, eq=False, repr=False)
class SeqPut(Step):
    """Store element `k` of a column: a number or sequence, or the place and sizes of a tensor (which has its own)."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    what: Value | Ref

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, self.k, self.what)


@dataclass(slots=True, eq=False, repr=False)
class SeqGet(Step):
    """Read element `k` of a column into a number or pointer; `sizes`: (axis, symbol) to set from a tensor's sizes."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value
    target: Value | Buffer
    sizes: tuple[tuple[int, Symbol], ...] = ()

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, self.k)

    @property
    def sets(self) -> Sequence[Use]:
        return (self.target, *[symbol for _, symbol in self.sizes])


@dataclass(slots=True, eq=False, repr=False)
class SeqLength(Step):
    """Read (`k` None) or set the length."""

    seq: Value
    out: Value | None = None
    k: Value | None = None

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.seq, self.k)

    @property
    def sets(self) -> Sequence[Use]:
        return (self.out,) if self.out is not None else ()


@dataclass(slots=True, eq=False, repr=False)
class ArenaAllocate(Step):
    """Point `target` at new memory of `size` elements that lives as long as the call's sequences."""

    target: Buffer
    size: Size

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.size)

    @property
    def sets(self) -> Sequence[Use]:
        return (self.target,)
