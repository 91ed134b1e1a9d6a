"""One loop nest: an iteration space, strided operands, and a flat list of scalar statements.

This is what fusion produces and what the LLVM and CUDA emitters turn into text. A kernel knows no buffers: operands
are parameters, so that equal kernels are one function.

Space. `outer` axes are independent; `inner` axes are reduced by the `reduce` statements (none: a pointwise kernel).
A kernel without inner axes has every statement at element level. With inner axes a statement is at *row level* (one
value per outer index) or at *element level* (one per outer and inner index): loads with a stride on an inner axis,
and what depends on them, are at element level; reductions of them, and what depends only on row-level values, are at
row level. Softmax over the last axis of f32[N, D], outer = (N,), inner = (D,):

    s0 = load operand 0              element
    s1 = reduce max s0               row
    s2 = sub s0 s1                   element
    s3 = exp s2                      element
    s4 = reduce sum s3               row
    s5 = div s3 s4                   element
    store operand 1, s5
"""

from __future__ import annotations

from typing import Literal

from jitgrad.classes import dataclass
from jitgrad.dims import Size
from jitgrad.dtypes import dtype, int64
from jitgrad.ops.opdef import has_trait

#: a statement with args (index, seed, offset), int64: that word of a draw
RANDOM_WORD = "random.word"
#: rows of which the CPU adds up columns in one place: few enough for several threads, and for short chains of additions
ROWS = 32
#: a reduction to squared distances from a number that is known after it
SPREAD = "spread"
#: stores of kernels that do nothing else
ORDERED = frozenset({"ordered_add", "ordered_put"})


@dataclass(frozen=True, slots=True)
class Operand:
    """A pointer parameter. `strides` are in elements, one per axis of the space, outer then inner; 0 repeats.

    A stride that is an int is compiled in (0 and 1 decide the form of the code); a Dim becomes an argument. The
    operand's start (base pointer plus the view's offset) is computed by the caller.
    """

    dtype: dtype
    strides: tuple[Size, ...]
    role: Literal["in", "out", "inout"] = "in"


@dataclass(frozen=True, slots=True)
class Stmt:
    """One scalar statement; its value is known by its position in `Kernel.body`.

    op and fields:
        "load"     operand                      dtype = the operand's (half types are widened to float32 at once)
        "store"    operand, args=(value,)
        "const"    value (Python number), dtype
        "scalar"   number: index of a scalar argument, of `dtype`
        "index"    axis: the index along a space axis, int64
        "reduce"   args=(value,), fn: sum prod max min any all argmax argmin ("max" inside softmax may drop NaN:
                   "fastmax"; "max"/"min" keep NaN); args=(value, value2) for a fused multiply-add "dot";
                   args=(value, number) for "spread" (CUDA only): the sum of squares of how far values are from a
                   number of the row, which need not be known before the values have been gone over
        "gather"   operand, args = one int64 index per entry of `strides`: loads at start + sum(index * stride)
                   + the operand's own strides over the space. fn "where" (CUDA only): the first of args is a
                   condition; where it does not hold nothing is read, and the value is 0
        "random.word"  args=(index, seed, offset), int64: word `index` of that draw of Philox words
        "column"   operand, args = (value,): adds up over the outer axes. Each block of rows has a sum of its own for
                   each inner index, at start + block * (number of these) + the operand's strides; on the CPU a block
                   is `ROWS` rows, on devices it is what one block of threads works on
        "scatter_add" / "scatter"  operand, args = (value, index...), `strides` as for gather
        "ordered_add" / "ordered_put"  (CUDA only) the same in a fixed order, the only store (`lower/rules/ordered.py`)
        else       a scalar primitive of the op table, args, attrs in `param` (cast: the dtype is the target)
    """

    op: str
    args: tuple[int, ...] = ()
    dtype: dtype | None = None
    operand: int = -1
    value: bool | int | float = 0
    number: int = -1
    axis: int = -1
    fn: str = ""
    strides: tuple[Size, ...] = ()

    @property
    def by_index(self) -> bool:
        """Whether it reads or writes where indices say."""
        return bool(self.strides)


def is_expensive(op: str) -> bool:
    """Whether computing a statement again costs more than a trip to the cache."""
    return op == RANDOM_WORD or has_trait(op, "expensive")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loop nest over `outer` x `inner`; see the module's docstring. `scalars` are the dtypes of number arguments."""

    outer: tuple[Size, ...]
    inner: tuple[Size, ...]
    operands: tuple[Operand, ...]
    scalars: tuple[dtype, ...]
    body: tuple[Stmt, ...]
    name: str = "kernel"

    def argument_strides(self) -> list[tuple[str, int, int]]:
        """The strides that are arguments, in order: ("o", operand, axis), then ("b", statement, position)."""
        both = [*[("o", k, o.strides) for k, o in enumerate(self.operands)],
                *[("b", k, s.strides) for k, s in enumerate(self.body)]]
        return [(where, k, a) for where, k, strides in both for a, s in enumerate(strides) if not isinstance(s, int)]

    def dtype_of(self, i: int) -> dtype:
        """The dtype of statement `i`'s value."""
        stmt = self.body[i]
        if stmt.op in ("load", "gather"):
            return self.operands[stmt.operand].dtype
        if stmt.op == "scalar":
            return self.scalars[stmt.number]
        if stmt.op == "index":
            return int64
        assert stmt.dtype is not None, f"statement {i} ({stmt.op}) has no dtype"
        return stmt.dtype
