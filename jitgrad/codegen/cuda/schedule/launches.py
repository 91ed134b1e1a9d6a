"""How a region is launched: threads of a block, the scratch memory that it needs, what its kernels with inner axes are.

    threads_of(step)            # of a `ResidentStep`
    threads_in(source)          # of each region in a text, by name
"""

import re

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.columns import Columns
from jitgrad.codegen.cuda.kernels.geometry import TICKETS
from jitgrad.codegen.cuda.kernels.rows import Rows
from jitgrad.codegen.cuda.schedule.everywhere import Everywhere, known_everywhere
from jitgrad.codegen.program.device_steps import ResidentStep
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import GemmStep, KernelStep

#: threads of a block, of which a multiprocessor has one at least, and as many as there are registers for; those of a
#: region with a product or more steps than `LONG`, each of which may have all the registers that there are
THREADS, FEW, LONG = 512, 256, 32
#: blocks for which there are tickets, beside the word at which all meet, and places for parts of reductions
MOST = TICKETS // 4 - 2


def symbol_of(name: str) -> str:
    return re.sub(r"\W", "_", f"jg_loop_{name}")


def threads_of(step: ResidentStep) -> int:
    """The threads of a block of a region."""
    steps = list(every(step.steps))
    return FEW if len(steps) > LONG or any(isinstance(s, GemmStep) for s in steps) else THREADS


def bounds(step: ResidentStep) -> str:
    """What the compiler is told: else it puts registers aside so that more blocks fit."""
    threads = threads_of(step)
    return f"{threads}, 1" if threads == FEW else str(threads)


def threads_in(source: str) -> dict[str, int]:
    """The threads of a block of each region in a text of kernels."""
    found = re.findall(rf"__launch_bounds__\((\d+)[^)]*\)\n({symbol_of('')}\w+)\(", source)
    return {name: int(threads) for threads, name in found}


def scratch_bytes(step: ResidentStep) -> int:
    """What of the scratch memory the kernel uses: tickets at least."""
    made = {k for k, _ in known_everywhere(step.steps).values()}
    threads = threads_of(step)
    return places_at(step) + 2 * max((Everywhere(k.kernel, threads).part_bytes() for k in made), default=0)


def places_at(step: ResidentStep) -> int:
    """Where in the scratch memory the two places for parts of reductions are that all blocks join."""
    kernels = [s.kernel for s in every(step.steps) if isinstance(s, KernelStep) and s.kernel.inner]
    ways = [w for k in kernels for _, ws in functions(k, threads_of(step)) for w in ws]
    return max([TICKETS, *[w.scratch_bytes() for w in ways]]) + 15 & -16


def functions(kernel: Kernel, threads: int) -> list[tuple[int, list[Rows | Columns]]]:
    """What a kernel with inner axes is done by: the longest row that each way takes, and its passes.

    Between passes is a barrier.
    """
    ways: list[tuple[int, list[Rows | Columns]]] = []
    if kernel.outer and lane_of(kernel) < len(kernel.outer):
        ways.append((0, [Columns(kernel)]))
    else:
        stages = Rows(kernel, "sweeps").plan.stages
        alone = not kernel.outer
        if not alone and len(kernel.inner) == 1:
            rows = Rows(kernel, "warp", "registers" if stages > 1 else "")
            if stages <= 1 or rows.kept:
                ways.append((rows.longest, [rows]))
        if stages <= 1:
            ways.append((0, [Rows(kernel, "split")]))
        elif alone and all(o.role != "inout" for o in kernel.operands):
            ways.append((0, [Rows(kernel, "split", phase=s) for s in range(stages)]))
        else:
            ways.append((0, [Rows(kernel, "sweeps")]))
    for _, passes in ways:
        for one in passes:
            one.threads, one.restrict = threads, ""
    return ways
