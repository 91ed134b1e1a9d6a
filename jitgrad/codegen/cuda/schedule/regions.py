"""Branches and loops that wait for the device become one kernel each, whose blocks are all resident (`resident.py`).

    program = resident(lower(name, graph, device=True))

A region is steps of one list: a loop that reads its condition from the device, or a branch on what was read from it,
with the light steps before (from the first read on) and after. It fits if all in it can be done by a kernel: kernels,
products, numbers, moves of pointers, and what a loop keeps of each iteration for its gradient; no calls of Python. Then
nobody waits: the host launches, and goes on. Where later steps read what the region sets, light steps after it are
taken in, if that leaves nothing; else tensors are copied to where the host knows them (`settled`); else all of it is
read back (`exits`), which waits once. A branch with exits is left to the host, which waits once either way.

The host keeps the steps for what the kernel does not do: a check that fails (its condition is known before), integers
that may leave 64 bits, products too large to be worth it.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.classes import dataclass, field, replace
from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.ordered import is_ordered
from jitgrad.codegen.cuda.kernels.scalars import EXPRESSIONS
from jitgrad.codegen.cuda.schedule.barriers import kept_apart
from jitgrad.codegen.program.device_steps import ResidentStep
from jitgrad.codegen.program.effects import Effects, Memory
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.sequence_steps import ArenaAllocate, SeqGrow, SeqPlace, SeqPut
from jitgrad.codegen.program.step import Buffer, Use, all_uses, every, with_inner
from jitgrad.codegen.program.steps import (Allocate, Assign, CallStep, GemmStep, IfStep, KernelStep, LoadScalar,
                                           LoopStep, NumberStep, Point, ScalarStep)
from jitgrad.dims import Symbol, dim, symbols
from jitgrad.ops.numbers import family, may_divide_by_zero
from jitgrad.ops.types import BOOL, FLOAT, INT, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Value

#: bytes of static shared memory that the kernel of a region may take: a block has 48 KiB
SHARED = 40 << 10
#: what a product in a region may compute besides, and by which number `resident.cuh` knows it (a bias is added first)
EPILOGUES = {"bias": 0, "relu": 1, "relu_bias": 1, "gelu": 2, "gelu_bias": 2}
LIGHT = (NumberStep, ScalarStep, LoadScalar, Point, Assign)
#: how far before a branch or loop is looked for what it needs
BEFORE = 64
#: the most that a region takes in behind its last branch or loop
AFTER = 16
#: a constant that is added to a counter may be so large: a loop of days does not leave 64 bits then
STEP = 1 << 31
#: words of a kernel's parameter
WORDS = 500

def resident(program: Program) -> Program:
    """The program with regions where it has branches and loops that need not wait for the host."""
    return _Regions(program).program


# --- finding regions ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """What is known of steps that may be a region. `entry`: what they read that was set before them."""

    steps: Sequence[Any]
    reads: Counter[Use] = field(default_factory=Counter)
    sets: dict[Use, None] = field(default_factory=dict)
    entry: dict[Use, None] = field(default_factory=dict)


class _Regions:
    def __init__(self, program: Program):
        self.memory = Memory(program)
        self.reads = Counter(m for step in every(program.steps) for m in all_uses(step))
        self.reads.update(m for output in program.outputs for m in output.uses)
        self.constants = {s.node.outputs[0]: s.node.attrs["value"] for s in every(program.steps)
                          if isinstance(s, NumberStep) and s.node.op == "num.const"}
        self.at_entry = frozenset(program.input_symbols)
        self.origins = dict(program.origins)
        self.program = replace(program, steps=self.steps(program.steps), origins=self.origins)

    def steps(self, steps: Sequence[Any]) -> list[Any]:
        done: list[Any] = []
        position = 0
        while position < len(steps):
            step = steps[position]
            found = None
            if isinstance(step, (IfStep, LoopStep)):
                keeps = any(isinstance(s, SeqGrow) for s in every([step]))
                before, own = (done, []) if keeps else self.parted(done)
                found = self.region([*own, step], steps[position + 1:])
            if found is None:
                done.append(with_inner(step, self.steps, self.origins))
                position += 1
            else:
                made, taken = found
                done = [*before, *made]
                position += 1 + taken
        return done

    def parted(self, done: list[Any]) -> tuple[list[Any], list[Any]]:
        """The steps before a branch or loop: what stays before, and what is its from the first read of the device on.

        Kernels and products in between stay before: they need nothing of what was read.
        """
        start = len(done)
        while start and len(done) - start < BEFORE and not done[start - 1].blocks and self.fits(done[start - 1]):
            start -= 1
        before: list[Any] = done[:start]
        own: list[Any] = []
        reads: set[Use] = set()
        sets: set[Use] = set()
        memory = Effects()
        for position, step in enumerate(done[start:], start):
            light = isinstance(step, LIGHT)
            if not own and not isinstance(step, LoadScalar):
                before.append(step)
                continue
            if light:
                own.append(step)
                reads.update(all_uses(step))
                sets.update(step.sets)
                memory.add(self.memory.effects(step))
                continue
            effects = self.memory.effects(step)
            if not sets.isdisjoint(all_uses(step)) or not reads.isdisjoint(step.sets) or (
                    effects.unknown or memory.meets(effects)):
                before, own = done[:position + 1], []
                reads, sets, memory = set(), set(), Effects()
            else:
                before.append(step)
        return before, own

    def region(self, steps: list[Any], following: Sequence[Any]) -> tuple[list[Any], int] | None:
        """The region of `steps`, after what the host computes for it, and how many of the following steps it has taken
        in. None: they are no region.
        """
        if not any(isinstance(s, LoadScalar) for s in every(steps)) or not all(self.fits(s) for s in every(steps)):
            return None
        known = self.known(steps)
        if known is None:
            return None
        if any(isinstance(s, SeqGrow) for s in every(steps)):  # the kernel may be launched again: only the loop
            again = self.made(steps, True)
            return None if again is None else ([*known, again], 0)
        loops = any(isinstance(s, LoopStep) for s in steps)
        first = made = self.made(steps, loops)
        taken = 0
        for count, step in enumerate(following[:AFTER], 1):
            if made is not None and not made.exits:
                break
            if not all(self.fits(s) for s in every([step])) or isinstance(step, GemmStep) or (
                    isinstance(step, KernelStep) and step.kernel.inner):
                break
            made, taken = self.made([*steps, *following[:count]], loops), count
        if made is None or made.exits:
            light = itertools.takewhile(lambda s: isinstance(s, LIGHT) and self.fits(s), following[:AFTER])
            after = [*light]
            made, taken = self.settled([*steps, *after]), len(after)
        if made is None and loops:
            made, taken = first, 0
        if made is None:
            return None
        return [*known, made], taken

    def settled(self, steps: Sequence[Any]) -> ResidentStep | None:
        """A region that ends with copies of the tensors that later steps read, to memory that the host knows."""
        made = self.made(steps, True)
        if made is None or not made.exits:
            return made
        pointers = [e for e in made.exits if isinstance(e, Buffer) and e.size != 0 and symbols(e.size) <= self.at_entry]
        if len(pointers) < len(made.exits):
            return None
        places = [Buffer(p.dtype, p.size, "slot", keeps=True) for p in pointers]
        copies: list[Any] = []
        for pointer, place in zip(pointers, places, strict=True):
            pointer.aliases.add(place)
            copies.append(KernelStep(copying(place.dtype), (place.size,), ((pointer, 0), (place, 0)), (), ()))
        self.memory.known.clear()
        last = Point(tuple([(pointer, place, 0) for pointer, place in zip(pointers, places, strict=True)]))
        found = self.made([*steps, *copies, last], True)
        assert found is not None
        found.exits, found.told, found.settled = (), None, last
        return found

    def known(self, steps: Sequence[Any]) -> list[Any] | None:
        """The number steps of a region that its checks need, which the host computes too; None if it cannot."""
        of = {out: s for s in every(steps) for out in s.sets}
        needed: dict[Any, None] = {}
        pending: list[Use] = [*checks(steps)]
        while pending:
            step = of.get(pending.pop())
            if step is None or step in needed:
                continue
            if not isinstance(step, NumberStep) or step.site >= 0 or step.node.op == "dim.bind":
                return None
            needed[step] = None
            pending += all_uses(step)
        return [s for s in every(steps) if s in needed]

    def made(self, steps: Sequence[Any], loops: bool) -> ResidentStep | None:
        """The region of these steps; None where what they set is needed outside and cannot be read back."""
        found = Found(steps)
        certain: set[Use] = set()
        self.look(found, steps, certain)
        for step in every(steps):
            size = step.buffer.size if isinstance(step, Allocate) else getattr(step, "size", 0)
            if isinstance(step, (Allocate, ArenaAllocate)) and any(s in found.sets for s in symbols(size)):
                return None
        if shared_bytes(steps) > SHARED:
            return None
        seqs = tuple([s for s in every(steps) if isinstance(s, SeqGrow)])
        if not in_top_loop(steps, seqs):
            return None
        known = {out for s in self.known(steps) or () for out in s.sets}
        exits: list[Value | Buffer] = []
        for use in found.sets:
            needed = self.reads[use] > found.reads[use] or (seqs and use in found.entry)
            if needed and use not in known:
                if isinstance(use, Symbol) or not loops:
                    return None
                exits.append(use)
                if use not in certain:  # it may stay as it was
                    found.entry[use] = None
        values = tuple([m for m in found.entry if isinstance(m, Value) and not isinstance(m.type, SeqType)])
        sizes = tuple([m for m in found.entry if isinstance(m, Symbol)])
        buffers = tuple([m for m in found.entry if isinstance(m, Buffer)])
        kept = sum(1 + 2 * len(s.columns) for s in seqs) + 2 * sum(isinstance(s, ArenaAllocate) for s in every(steps))
        if len(values) + len(sizes) + len(buffers) + kept >= WORDS:
            return None
        checked = any(isinstance(s, NumberStep) and s.site >= 0 for s in every(steps))
        counters = tuple([v for v in values if v.type == INT and v not in self.constants]) if checked else ()
        told = Buffer(dtypes.int64, len(exits) + bool(seqs), "slot") if exits else None
        apart = kept_apart(self.memory, steps, self.origins)
        step = ResidentStep(apart, checks(steps), counters, values, sizes, buffers, seqs, tuple(exits), told)
        self.origins[step] = tuple(dict.fromkeys(n for s in every(steps) for n in self.origins.get(s, ())))
        return step

    def look(self, found: Found, steps: Iterable[Any], have: set[Use]) -> None:
        """Note what steps read and set; `have`: what is certainly set before, in the region."""
        for step in steps:
            for use in all_uses(step):
                found.reads[use] += 1
                if use not in have:
                    found.entry[use] = None
            if isinstance(step, IfStep):
                one, other = set(have), set(have)
                self.look(found, step.then, one)
                self.look(found, step.otherwise, other)
                have |= one & other
            elif isinstance(step, LoopStep):
                self.look(found, step.body, set(have))
            for use in step.sets:
                found.sets[use] = None
                have.add(use)

    # --- what a kernel can do ---

    def fits(self, step: Any) -> bool:
        """Whether a kernel can do a step; of branches and loops, without what is in them."""
        if isinstance(step, KernelStep):
            own = any(s.op == "column" for s in step.kernel.body) or is_ordered(step.kernel)
            return not own
        if isinstance(step, GemmStep):
            return step.epilogue in ("", *EPILOGUES) and not (step.epilogue and (step.batch or step.accumulate))
        if isinstance(step, (IfStep, LoopStep, Point)):
            return True
        if isinstance(step, Allocate):
            return not step.buffer.keeps
        if isinstance(step, LoadScalar):
            return not step.buffer.host
        if isinstance(step, Assign):
            return all(word_type(t.type) and word_type(s.type) for t, s in step.values)
        if isinstance(step, CallStep):
            return step.kind == "check"
        if isinstance(step, (ArenaAllocate, SeqGrow, SeqPlace, SeqPut)):
            return True
        if isinstance(step, ScalarStep):
            return step.node.op in EXPRESSIONS and not any(
                isinstance(v.type, TensorType) and v.type.dtype.is_half for v in (*step.args, *step.node.outputs))
        return isinstance(step, NumberStep) and self.number_fits(step)

    def number_fits(self, step: NumberStep) -> bool:
        node = step.node
        op, types = node.op, [v.type for v in (*node.inputs, *node.outputs)]
        if not all(word_type(t) for t in types):
            return False
        if family(op) in ("comparison", "moves") or op in ("num.not", "dim.value", "dim.bind", "item"):
            return True
        if op in ("num.min", "num.max"):
            return True
        if op == "num.cast":
            return node.attrs["to"] in ("float", "bool") or types[0] in (INT, BOOL)
        if family(op) == "bitwise":
            return types[-1] == BOOL
        if op in ("num.neg", "num.abs"):
            return types[0] == FLOAT
        if op == "num.truediv":
            return FLOAT in types[:2] and step.site < 0
        if family(op) == "arithmetic" and not may_divide_by_zero(op):
            if FLOAT in types or step.site < 0:
                return True
            return op != "num.mul" and any(abs(self.constants.get(v, STEP)) < STEP for v in node.inputs)
        return False


def copying(d: dtypes.dtype) -> Kernel:
    """A kernel that copies."""
    operands = (Operand(d, (1,)), Operand(d, (1,), "out"))
    return Kernel((dim(Symbol()),), (), operands, (), (Stmt("load", operand=0), Stmt("store", (0,), operand=1)), "copy")


def shared_bytes(steps: Iterable[Any]) -> int:
    """At most how much static shared memory a kernel with these steps takes: see `jg_columns` and `jg_tiles`.

    What joins the threads of a block is one function for each operator and type.
    """
    parts: dict[tuple[str, str], int] = {}
    for step in every(steps):
        if isinstance(step, GemmStep):
            parts["tiles", step.dtype.name] = 2 * 32 * 33 * max(4, step.dtype.itemsize)
        elif isinstance(step, KernelStep) and step.kernel.inner:
            across = step.kernel.outer and lane_of(step.kernel) < len(step.kernel.outer)
            for stmt in step.kernel.body:
                if stmt.op == "reduce":
                    d = step.kernel.dtype_of(stmt.args[0])
                    size = 16 if stmt.fn in ("argmax", "argmin") else max(4, d.itemsize)
                    key = stmt.fn, d.name
                    parts[key] = max(parts.get(key, 0), (1024 if across else 32) * size)
    return sum(parts.values())


def in_top_loop(steps: Sequence[Any], seqs: Sequence[SeqGrow]) -> bool:
    """Whether sequences are written to once in an iteration of a region's only loop, and were made before."""
    uses = [s for s in every(steps) if isinstance(s, (ArenaAllocate, SeqPlace, SeqPut))]
    if not seqs:
        return not uses
    if not isinstance(steps[0], LoopStep):
        return False
    top = list(every([s for s in steps[0].body if not isinstance(s, LoopStep)]))
    grown = {s.seq for s in seqs}
    return (all(s in steps[0].body for s in seqs) and all(s in top for s in uses)
            and all(isinstance(s, ArenaAllocate) or s.seq in grown for s in uses))


def checks(steps: Iterable[Any]) -> tuple[Value, ...]:
    """The conditions of the checks among steps."""
    found = [s.condition for s in every(steps) if isinstance(s, CallStep) and s.condition is not None]
    return tuple(dict.fromkeys(found))


def region_name(step: ResidentStep) -> str:
    """A name for the kernel of a region: what its largest kernel computes."""
    names = [s.kernel.name for s in every(step.steps) if isinstance(s, KernelStep)]
    return max(names, key=len)[:24] if names else "numbers"


def word_type(type_: Type) -> bool:
    """Whether values of a type are one word."""
    return type_ in (INT, FLOAT, BOOL) or isinstance(type_, TensorType)
