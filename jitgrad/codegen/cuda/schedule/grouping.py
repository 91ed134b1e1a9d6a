"""Kernels that are equal but for their operands are launched together: the updates of all parameters are one launch.

    program = grouped(lower(name, graph, device=True))

A group's members are `KernelStep`s of one list of steps. What a member is called with is computed where it stood
(`EachPut`), and all run where the last one stood (`EachStep`). So a member is moved down, behind the steps in between:
none of them may write what it reads or writes, or read what it writes. Where the program leaves in between, the
members so far run first (`device_program.py`): a check that fails after an update finds it done.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from jitgrad.classes import dataclass, field, replace
from jitgrad.codegen.cuda.kernels import each
from jitgrad.codegen.llvm import kernel as llvm_kernel
from jitgrad.codegen.program.device_steps import EachPut, EachStep
from jitgrad.codegen.program.effects import Effects, Memory
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import Buffer, with_inner
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.script.graph.ir import Node


def grouped(program: Program) -> Program:
    """The program with equal kernels together where that changes nothing."""
    return _Grouping(program).program


@dataclass(slots=True)
class Group:
    """Kernels that may run where the last one of them stands: their positions in the list of steps.

    `written`: the elements that they write; None where not each writes single ones.
    """

    kernel: Any
    members: list[int]
    effects: Effects
    written: set[tuple[Buffer, int]] | None = field(default_factory=set)

    def is_beside(self, step: KernelStep, own: Effects) -> bool:
        """Whether an equal kernel only writes other elements of what the group writes: the parts of a stack."""
        elements = _elements(step)
        return (elements is not None and self.written is not None and self.written.isdisjoint(elements)
                and self.effects.reads.isdisjoint(own.writes) and own.reads.isdisjoint(self.effects.writes))


def _elements(step: KernelStep) -> set[tuple[Buffer, int]] | None:
    """The elements that a kernel without axes writes; None where it may write others."""
    found: set[tuple[Buffer, int]] = set()
    if step.sizes:
        return None
    for operand, (buffer, offset) in zip(step.kernel.operands, step.starts, strict=True):
        if operand.role != "in":
            if not isinstance(offset, int) or buffer.kind == "pointer":
                return None
            found.add((buffer, offset))
    return found


class _Grouping:
    def __init__(self, program: Program):
        self.memory = Memory(program)
        self.origins = dict(program.origins)
        self.program = replace(program, steps=self.steps(program.steps), origins=self.origins)

    # --- one list of steps ---

    def steps(self, steps: Sequence[Any]) -> list[Any]:
        steps = [with_inner(s, self.steps, self.origins) for s in steps]
        keys = [self.key(s) for s in steps]
        times = Counter(k for k in keys if k is not None)
        groups: dict[Hashable, Group] = {}
        done: list[Group] = []
        for position, (step, key) in enumerate(zip(steps, keys, strict=True)):
            if groups:
                own = self.memory.effects(step)
                for other in [k for k, g in groups.items() if own.unknown or g.effects.meets(own)]:
                    if other != key or not groups[other].is_beside(step, own):
                        done.append(groups.pop(other))
            if key is None or times[key] < 2:
                continue
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(each.flat(step.kernel), [], Effects())
            group.members.append(position)
            elements = _elements(step)
            group.written = None if group.written is None or elements is None else group.written | elements
            group.effects.add(self.memory.effects(step))
            if (len(group.members) + 1) * each.width(group.kernel, [False] * len(group.kernel.scalars)) > (
                    each.MOST_WORDS):
                done.append(groups.pop(key))
        made: dict[int, list[Any]] = {}
        for group in [*done, *groups.values()]:
            if len(group.members) > 1:
                made.update(self.together(steps, group))
        return [new for position, step in enumerate(steps) for new in made.get(position, [step])]

    def key(self, step: Any) -> Hashable:
        """What members of a group have in common; None for what is never one.

        A member keeps what it reads alive until the group runs. So it writes what lives on anyway, or reads nothing,
        or is a number of a tensor or of numbers.
        """
        if not isinstance(step, KernelStep):
            return None
        kernel = each.flat(step.kernel)
        if not each.fits(kernel) or 2 * each.width(kernel, [False] * len(kernel.scalars)) > each.MOST_WORDS:
            return None
        reads, writes = step.memory
        if self.memory.effects(step).unknown or (
                any(b.kind in ("slot", "growable") for b in writes) and reads and step.kernel.outer):
            return None
        return llvm_kernel.body_key(kernel)

    def together(self, steps: Sequence[Any], group: Group) -> dict[int, list[Any]]:
        """What stands where the members stood."""
        own: list[KernelStep] = [steps[m] for m in group.members]
        sizes = [s.sizes[0] if s.sizes else 1 for s in own]
        shared = tuple([all(v is values[0] for v in values) for values in zip(*[s.scalars for s in own], strict=True)])
        step = EachStep(group.kernel, tuple(zip(sizes, [s.starts for s in own], strict=True)), shared)
        made: dict[int, list[Any]] = {}
        nodes: dict[Node, None] = {}
        for number, (member, position) in enumerate(zip(own, group.members, strict=True)):
            put = EachPut(step, number, sizes[number], member.starts, member.scalars)
            self.origins[put] = self.origins.get(member, ())
            nodes.update(dict.fromkeys(self.origins[put]))
            made[position] = [put]
        made[group.members[-1]].append(step)
        self.origins[step] = tuple(nodes)
        return made
