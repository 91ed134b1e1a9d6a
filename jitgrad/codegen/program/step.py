"""Buffers, and what every step of a program says of itself: what it reads, sets, touches in memory and contains.

Passes over programs ask the steps; they do not tell their kinds apart. Nobody changes a step once it is made. The
classes are neither frozen nor of slots, and are compared by identity, because what `dataclass` writes costs time at
import, which is part of every cold compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, dataclass_transform

from jitgrad.classes import dataclass, field
from jitgrad.dims import Dim, Size, Symbol, symbols
from jitgrad.dtypes import dtype
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


#: what a step names: a value, a symbol of sizes, a buffer whose address it takes
Use = Value | Symbol | Buffer
#: the buffers that a step reads, and those that it writes
Touched = tuple[Sequence[Buffer], Sequence[Buffer]]


@dataclass_transform(eq_default=False)
class Step:
    """What runs in a program. Kinds of steps are dataclasses, which read what their fields name, but for those that
    they set. `blocks` and what leaves the program is said apart.
    """

    __match_args__: ClassVar[tuple[str, ...]]
    #: the fields that name what it sets, and those of tuples of what is set and to what
    SETS: ClassVar[tuple[str, ...]] = ()
    MOVES: ClassVar[tuple[str, ...]] = ()
    #: the buffers that it reads, and those that it writes; None, and no others: more than can be told
    READS: ClassVar[tuple[str, ...] | None] = None
    WRITES: ClassVar[tuple[str, ...]] = ()
    #: the fields that are lists of steps
    BLOCKS: ClassVar[tuple[str, ...]] = ()
    #: all others
    NAMED: ClassVar[tuple[str, ...]]
    #: what runs only where it leaves the program, and what is stored there
    before: Sequence[Any] = ()
    leaving: Leaving | None = None

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)
        cls.NAMED = tuple([f for f in cls.__match_args__ if f not in (*cls.SETS, *cls.MOVES, *cls.BLOCKS)])

    @property
    def uses(self) -> list[Use]:
        """What it reads."""
        return uses_in([getattr(self, name) for name in self.NAMED],
                       [source for name in self.MOVES for _, *source in getattr(self, name)])

    @property
    def sets(self) -> Sequence[Use]:
        """What it sets: values, symbols, pointers."""
        return [*uses_in([getattr(self, name) for name in self.SETS]),
                *[target for name in self.MOVES for target, *_ in getattr(self, name)]]

    @property
    def memory(self) -> Touched | None:
        """What it does to memory itself; None: more than can be told."""
        if self.READS is None and not self.WRITES:
            return None
        return [getattr(self, name) for name in self.READS or ()], [getattr(self, name) for name in self.WRITES]

    @property
    def blocks(self) -> tuple[list[Any], ...]:
        """The lists of steps in it."""
        return tuple([getattr(self, name) for name in self.BLOCKS])

    def with_blocks(self, made: Callable[[list[Any]], list[Any]]) -> Step:
        """The step with other lists of steps that the host runs; itself where it has none."""
        return self

    @property
    def payload(self) -> int:
        """At most how many words it passes to Python: a number takes up to 4, a window an address, sizes and strides.
        """
        return 0

    @property
    def named(self) -> list[Buffer]:
        """The buffers that it names."""
        return [m for m in (*self.uses, *self.sets) if isinstance(m, Buffer)]


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
        self.end = self.word + sum(map(words_of, self.values))

    def chain(self) -> Iterator[Leaving]:
        """This and all that it comes in addition to."""
        part: Leaving | None = self
        while part is not None:
            yield part
            part = part.more

    @property
    def uses(self) -> Iterator[Use]:
        """What is read to tell all of it."""
        for part in self.chain():
            yield from uses_in(part.values)
            for step in every(part.before):
                yield from (*step.sets, *all_uses(step))


@dataclass(slots=True, eq=False, repr=False)
class Column:
    """One part of every element of a sequence: "tensor", "word" (number, flag, sequence) or "pair" (Number).

    `dims`: the sizes of a tensor where all elements have the same; None: each element says its own.
    """

    kind: Literal["tensor", "word", "pair"]
    dtype: dtype | None = None
    rank: int = 0
    dims: tuple[Size, ...] | None = None

    @property
    def is_tensors(self) -> bool:
        """Whether it has the elements of tensors in it, and not where they are."""
        return self.kind == "tensor" and self.dims is not None


def words_of(value: object) -> int:
    """At most how many words a value takes that is passed to Python."""
    return 1 + 2 * len(value.dims) if isinstance(value, Ref) else 4


def in_order(size: Dim) -> list[Symbol]:
    """The symbols of a size as they were made: what is printed must not hang on where they lie in memory."""
    return sorted(symbols(size), key=lambda s: s.number)


def uses_in(*parts: object) -> list[Use]:
    """What is named in parts of steps and outputs: values, windows, sizes, tuples of these."""
    found: list[Use] = []
    pending: list[object] = [*reversed(parts)]
    while pending:
        part = pending.pop()
        if isinstance(part, int):  # most sizes
            continue
        if isinstance(part, (Value, Buffer, Symbol)):
            found.append(part)
        elif isinstance(part, (tuple, list)):
            pending += reversed(part)
        elif isinstance(part, Ref):
            found.append(part.buffer)
            pending += part.strides, part.dims, part.offset
        elif isinstance(part, Dim):
            found += in_order(part)
        elif isinstance(part, Column):
            pending.append(part.dims)
    return found


def node_uses(node: Node) -> list[Use]:
    """What a node on numbers reads: its inputs, and sizes."""
    return [*node.inputs, *[s for a in node.attrs.values() if isinstance(a, Dim) for s in in_order(a)]]


def all_uses(step: Step) -> Iterator[Use]:
    """What a step reads, also where it leaves the program; without the lists of steps in it."""
    yield from step.uses
    for inner in every(step.before):
        yield from (*inner.sets, *all_uses(inner))
    if step.leaving is not None:
        yield from step.leaving.uses


def with_inner(step: Step, made: Callable[[list[Any]], list[Any]], origins: dict[Any, tuple[Node, ...]]) -> Step:
    """A step with what `made` makes of the lists of steps in it that the host runs."""
    new = step.with_blocks(made)
    if new is not step:
        origins[new] = origins.get(step, ())
    return new


def every(steps: Iterable[Any]) -> Iterator[Any]:
    """All steps, those inside of others too."""
    for step in steps:
        yield step
        for block in step.blocks:
            yield from every(block)
