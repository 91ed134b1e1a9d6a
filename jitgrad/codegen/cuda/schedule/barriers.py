"""Where the blocks of a region's kernel meet: no two steps without a barrier between touch what the other writes.

    kept_apart(memory, steps, origins)      # the steps, with `Barrier`s

A reduction whose result all threads have (`everywhere.py`) has a barrier inside: elements are read and written before
it, results after it, by one thread of the first block.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.cuda.schedule.everywhere import known_everywhere
from jitgrad.codegen.program.device_steps import Barrier
from jitgrad.codegen.program.effects import Effects, Memory
from jitgrad.codegen.program.step import Buffer, every
from jitgrad.codegen.program.steps import GemmStep, IfStep, KernelStep, LoadScalar, LoopStep


def kept_apart(memory: Memory, steps: Sequence[Any], origins: MutableMapping[Any, Any]) -> list[Any]:
    """The steps with barriers. `origins` is told of branches and loops that are made anew."""
    return _Apart(memory, steps, origins).steps(steps, Effects())[0]


class _Apart:
    def __init__(self, memory: Memory, steps: Sequence[Any], origins: MutableMapping[Any, Any]):
        self.memory, self.origins = memory, origins
        self.scratch = Buffer(dtypes.uint8, 0, "slot")  # stands for the scratch memory of other reductions
        self.known = known_everywhere(steps)
        self.told = {kernel for kernel, _ in self.known.values()}
        self.unread = self.never_read(steps)

    def never_read(self, steps: Sequence[Any]) -> frozenset[Buffer]:
        """What only kernels of `told` write, and nobody reads from memory: the same thread writes it each time."""
        found = {b for kernel in self.told for b in self.results(kernel)}
        for step in every(steps):
            if step in self.known or not isinstance(step, (KernelStep, GemmStep, LoadScalar)):
                continue
            own = self.memory.effects(step)
            if own.unknown:
                return frozenset()
            found -= own.reads if step in self.told else own.reads | own.writes
        return frozenset(found)

    def results(self, step: KernelStep) -> set[Buffer]:
        """Where a kernel of `told` may store results."""
        places = [b for o, (b, _) in zip(step.kernel.operands, step.starts, strict=True)
                  if o.role != "in" and not any(o.strides)]
        return self.memory.touching((), places).writes

    def steps(self, steps: Iterable[Any], pending: Effects) -> tuple[list[Any], Effects]:
        """`pending`: what was read and written since the last barrier; that after the steps is returned."""
        made: list[Any] = []
        for step in steps:
            new = step
            if isinstance(step, IfStep):
                then, one = self.steps(step.then, pending)
                otherwise, other = self.steps(step.otherwise, pending)
                new, pending = IfStep(step.condition, then, otherwise), joined(one, other)
            elif isinstance(step, LoopStep):
                while True:
                    body, after = self.steps(step.body, pending)
                    both = joined(pending, after)
                    if both == pending:
                        break
                    pending = both
                new = LoopStep(step.condition, body)
            elif isinstance(step, (KernelStep, GemmStep, LoadScalar)) and step not in self.known:
                own = self.memory.effects(step)
                if isinstance(step, KernelStep) and step.kernel.inner and step not in self.told:
                    own.writes.add(self.scratch)
                if own.unknown or pending.unknown or pending.meets(own):
                    made.append(Barrier())
                    pending = Effects()
                if step in self.told:
                    assert isinstance(step, KernelStep)
                    pending = Effects(writes=self.results(step) - self.unread, unknown=own.unknown)
                else:
                    pending = joined(pending, own)
            if new is not step:
                self.origins[new] = self.origins.get(step, ())
            made.append(new)
        return made, pending


def joined(a: Effects, b: Effects) -> Effects:
    return Effects(a.reads | b.reads, a.writes | b.writes, a.unknown or b.unknown)
