"""Steps of sequences, and of the arena that has their memory.

A sequence is a header (see `llvm/sequences.py`) whose address is the value; all their memory is from the arena.
"""

from jitgrad.codegen.program.step import Buffer, Column, Ref, Step
from jitgrad.dims import Size, Symbol
from jitgrad.script.graph.ir import Value


class SeqStart(Step):
    """A new sequence with room for `capacity` elements (None: some)."""

    SETS = ("seq",)

    seq: Value
    columns: tuple[Column, ...]
    capacity: Value | None


class SeqGrow(Step):
    """Make room for element `k`."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value


class SeqReach(Step):
    """Let a list have an element `k`: make room, and where it is shorter clear the flags of what is new."""

    seq: Value
    columns: tuple[Column, ...]
    k: Value
    flags: bool


class SeqCopy(Step):
    """A list with the same elements in columns of its own."""

    SETS = ("out",)

    source: Value
    columns: tuple[Column, ...]
    out: Value


class SeqElement(Step):
    """A step at element `k` of a column."""

    seq: Value
    columns: tuple[Column, ...]
    column: int
    k: Value


class SeqPlace(SeqElement):
    """Point `target` at the storage of the element, in a column of equal tensors."""

    SETS = ("target",)

    target: Buffer


class SeqPut(SeqElement):
    """Store the element: a number or sequence, or the place and sizes of a tensor (which has its own)."""

    what: Value | Ref


class SeqGet(SeqElement):
    """Read the element into a number or pointer; `sizes`: (axis, symbol) to set from a tensor's sizes."""

    SETS = ("target", "sizes")

    target: Value | Buffer
    sizes: tuple[tuple[int, Symbol], ...] = ()


class SeqLength(Step):
    """Read (`k` None) or set the length."""

    SETS = ("out",)

    seq: Value
    out: Value | None = None
    k: Value | None = None


class ArenaAllocate(Step):
    """Point `target` at new memory of `size` elements that lives as long as the call's sequences."""

    SETS = ("target",)

    target: Buffer
    size: Size
