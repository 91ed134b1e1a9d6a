"""Reductions of many tensors in one launch, a number for each: the squares of all gradients, for their norm.

The table is that of `each.py`. Chunks of all entries stand in one row, of which each block takes an equal part: it
may begin in one entry and end in another. What a block has of an entry is a part; the parts of an entry are joined by
the block that comes last, in the order of the blocks. Block b and entry e share part number b + e, which no others do.
"""

from collections.abc import Sequence

from jitgrad.codegen.cuda.kernels.pointwise import THREADS
from jitgrad.codegen.cuda.kernels.reducing import SHARING, Reducing
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.plan import STORES, make_plan


def fits(kernel: Kernel) -> bool:
    """Whether a kernel makes numbers of one contiguous axis, in one sweep."""
    if kernel.outer or len(kernel.inner) != 1 or any(o.role == "inout" for o in kernel.operands):
        return False
    plan = make_plan(kernel, 0)
    return (plan.stages == 1 and any(s.op == "reduce" for s in kernel.body)
            and not any(s.op in STORES and (plan.element[i] or plan.stage[i] < 0) for i, s in enumerate(kernel.body)))


class EachReducing(Reducing):
    """Prints such a kernel: what a block does of one entry, `begin` to `end`, shared by the blocks `first` to `last`.

    `most`: the largest number of an entry, and one.
    """

    joined = "jg_block<{join}>({part})"
    leader = "threadIdx.x == 0"
    from_part, own_part, part_b = " + number", "blockIdx.x", "b"
    over_parts = f"i64 b = first + threadIdx.x; b <= last; b += {THREADS}"
    sharing = "(u32*)scratch + number, (u32)(last - first + 1)"
    several, what_is_shared = "last > first", "parts"

    def __init__(self, kernel: Kernel, most: int):
        super().__init__(kernel, 0, split=True)
        self.most = most

    @property
    def shares(self) -> int:
        return SHARING + self.most

    def loop(self, indices: Sequence[int], stage: int) -> None:
        self.stretch(indices, THREADS)
