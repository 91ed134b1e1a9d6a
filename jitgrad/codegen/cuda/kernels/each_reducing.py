"""Reductions of many tensors in one launch, a number for each: the squares of all gradients, for their norm.

The table is that of `each.py`. Chunks of all entries stand in one row, of which each block takes an equal part: it
may begin in one entry and end in another. What a block has of an entry is a part; the parts of an entry are joined by
the block that comes last, in the order of the blocks. Block b and entry e share part number b + e, which no others do.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.codegen.cuda.kernels.geometry import TICKETS
from jitgrad.codegen.cuda.kernels.reducing import SHARING, Reducing
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.plan import STORES, make_plan, needed

THREADS = 256


def fits(kernel: Kernel) -> bool:
    """Whether a kernel makes numbers of one contiguous axis, in one sweep."""
    if kernel.outer or len(kernel.inner) != 1 or any(o.role == "inout" for o in kernel.operands):
        return False
    plan = make_plan(kernel, 0)
    return (plan.stages == 1 and any(s.op == "reduce" for s in kernel.body)
            and not any(s.op in STORES and (plan.element[i] or plan.stage[i] < 0) for i, s in enumerate(kernel.body)))


class EachReducing(Reducing):
    """Prints such a kernel. `most`: the largest number of an entry, and one."""

    joined = "jg_block<{join}>({part})"
    leader = "threadIdx.x == 0"
    from_part, own_part, part_b = " + number", "blockIdx.x", "b"
    over_parts = f"i64 b = first + threadIdx.x; b <= last; b += {THREADS}"
    sharing = "(u32*)scratch + number, (u32)(last - first + 1)"

    def __init__(self, kernel: Kernel, most: int):
        super().__init__(kernel, 0)
        self.most = most

    def scratch_bytes(self) -> int:
        return TICKETS + (SHARING + self.most) * sum(self.slot_bytes(i) for i in self.reductions)

    def parts_at(self, i: int) -> int:
        before = sum(self.slot_bytes(j) for j in self.reductions if j < i)
        return TICKETS + (SHARING + self.most) * before

    def loop(self, indices: Sequence[int], stage: int) -> None:
        self.stretch(indices, THREADS)

    def entry(self) -> None:
        """What a block does of one entry: its part is `begin` to `end`, of the blocks `first` to `last`."""
        body, plan = self.kernel.body, self.plan
        of_row = [i for i in range(len(body)) if not plan.element[i] and body[i].op != "reduce"]
        self.at_row([i for i in of_row if plan.stage[i] < 0])
        indices = needed(plan, 0)
        ending = [i for i in indices if body[i].op == "reduce"]
        self.start(ending)
        self.loop(indices, 0)
        self.join_threads(ending)
        self.line("bool mine = true;  // whether this block has all parts")
        with self.block("if (last > first)"):
            self.exchange(ending)
        with self.block("if (mine)"):
            for i in ending:
                self.result(i)
            self.at_row([i for i in of_row if plan.stage[i] == 0])
