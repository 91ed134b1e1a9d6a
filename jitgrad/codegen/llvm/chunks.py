"""Kernels on several cores: how a kernel is called for a part of the axis that its plan cuts, and by whom.

    define internal void @k0(ptr %parts, i64 %begin, i64 %count, i64 %n0, ptr %p0, ...)   # `count` places from `begin` on
    @k0.how = internal constant { ... }       # what the pool must know to cut it: see `jg_shared_8` in kernels/pool.py

    %callee = select i1 <much work>, ptr @jg_shared_8, ptr @k0
    call void %callee(ptr @k0.how, i64 0, i64 %n0, i64 %n0, ptr %p0, ...)

`jg_shared_8` takes what a kernel with eight further arguments takes, and calls the kernel that the constant names for each
chunk. So a kernel is compiled once and knows nothing of threads, and little work is done as if there were none. Arguments
are addresses and words: a scalar is passed as its bits.

A sum of everything looks at `%parts`, which are null where it is alone: then it sums and ends. Else it puts its
accumulators there and leaves it at that; called with a negative `%begin` it takes what is there, and ends. In between the
pool joins those of all chunks, in order, by functions that the constant names. What is summed, and in which order, depends
on sizes alone: on one core it is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad import dtypes
from jitgrad.codegen.llvm.scalars import elements, merged
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.plan import Plan, cost
from jitgrad.kernels.native import Native
from jitgrad.kernels.pool import ROUND, SLOT, WORK
from jitgrad.kernels.values import Code, V

#: places at whose multiples the axis in lanes is cut: whole vectors, and whole cache lines of all but small integers
UNIT = 64

#: what is accumulated, as what, in how many lanes
Accumulator = tuple[str, dtypes.dtype, int]


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """A kernel of a module. `cut`: the axis of which it computes a part, -1: none; `shared`: threads may share it;
    `total`: it is a sum of everything.
    """

    symbol: str
    cut: int
    shared: bool
    total: bool


def head(symbol: str, arguments: Sequence[tuple[str, str]]) -> str:
    """The first line of a kernel's function."""
    return f"define internal void @{symbol}({_listed('%parts', '%begin', '%count', arguments)}) nounwind {{"


def limit(kernel: Kernel) -> int:
    """The places of a kernel's space from which it is much work, a power of two: many kernels have the same."""
    return 1 << (WORK // cost(kernel)).bit_length()


def call(code: Code, known: KnownKernel, arguments: Sequence[tuple[str, str]], size: V, much: V | None) -> None:
    """Call a kernel for all of the axis that is cut, of that size, where it is `much` work through the pool."""
    callee, how, given = f"@{known.symbol}", "null", list(arguments)
    if much is not None:
        how, arity = f"{callee}.how", -len(given) // ROUND * -ROUND
        given += [("i64", "poison")] * (arity - len(given))  # a function does not look at more than it has
        code.declares[f"jg_shared_{arity}"] = f"declare void @jg_shared_{arity}(ptr, i64, i64{', i64' * arity})"
        callee = code.emit(f"select i1 {much.name}, ptr @jg_shared_{arity}, ptr {callee}", "ptr", 1).name
        if known.total:
            how = code.emit(f"select i1 {much.name}, ptr {how}, ptr null", "ptr", 1).name
    code.line(f"call void {callee}({_listed(how, '0', size.name, given)})")


def shared(code: Code, plan: Plan, symbol: str, accumulators: Sequence[Accumulator]) -> dict[str, str]:
    """The constant that says how a kernel is shared, and what it names: a function that joins two chunks' accumulators.
    """
    unit = UNIT if plan.cut == plan.lane else 1
    words = ", ".join([f"i64 {n}" for n in (len(plan.order), plan.cut, cost(plan.kernel), unit)])
    name = "_".join(["jg_join", *[f"{fn}_{d.name}_{lanes}" for fn, d, lanes in accumulators]])
    text, size = _join(code, name, accumulators)
    join = f"ptr @{name}" if accumulators else "ptr null"
    how = (f"@{symbol}.how = internal constant {{ ptr, i64, i64, i64, i64, ptr, i64 }} "
           f"{{ ptr @{symbol}, {words}, {join}, i64 {size} }}")
    return {name: text, symbol: how} if accumulators else {symbol: how}


def _join(code: Code, name: str, accumulators: Sequence[Accumulator]) -> tuple[str, int]:
    """A function that adds accumulators to others, and how many bytes they take. It runs seldom and is made quickly."""
    f = Native()
    size = 0
    for fn, d, lanes in accumulators:
        pairs = [[V(f, f.element(pointer, size + SLOT * k, "i8"), "ptr", 1) for pointer in ("%into", "%other")]
                 for k in range(len(elements(fn, d)))]
        a, b = ([f.read(elem, pair[side].name, lanes) for pair, elem in zip(pairs, elements(fn, d), strict=True)]
                for side in (0, 1))
        for pair, value in zip(pairs, merged(fn, d, a, b), strict=True):
            f.write(value, pair[0].name)
        size += SLOT * len(pairs)
    f.leave()
    text = f.defined(f"internal void @{name}", ["ptr %into", "ptr %other"], " noinline optnone")
    code.declares.update(f.declares)
    return "\n".join(text), size


def _listed(parts: str, begin: str, count: str, arguments: Sequence[tuple[str, str]]) -> str:
    bounds = (("ptr", parts), ("i64", begin), ("i64", count))
    return ", ".join([f"{kind} {name}" for kind, name in (*bounds, *arguments)])
