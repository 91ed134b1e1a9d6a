"""Kernels on several cores: how a kernel is called for a part of the axis that its plan cuts, and by whom.

    define internal void @k0(ptr %parts, i64 %begin, i64 %n0, ptr %p0, ...)       # the kernel
    @k0.how = internal constant { ... }       # what the pool must know to cut it: see `jg_share` in kernels/pool.py

    %callee = select i1 <much work>, ptr @jg_shared_8, ptr @k0
    call void %callee(ptr @k0.how, i64 0, i64 %n0, ptr %p0, ...)

`jg_shared_8` takes what a kernel with eight further arguments takes, and calls the kernel that the constant names for
each chunk: with a smaller size, and addresses that are farther on. So a kernel is compiled once and knows nothing of
threads, but for where in the whole its indices begin, and little work is done as if there were none. Arguments are
addresses and words: a scalar is passed as one (`V.word`).

A sum of everything looks at `%parts`, which are null where it is alone: then it sums and ends. Else it puts its
accumulators there and leaves it at that; called with a negative `%begin` it takes what is there, and ends. In between
the pool joins those of all chunks, in order, by a function that the constant names. What is summed, and in which order,
depends on sizes alone: on one core it is the same.
"""

import math
import operator
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, islice
from typing import Literal

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.llvm.scalars import COMPUTED, elements, merged
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.plan import Plan, cost
from jitgrad.dims import Size
from jitgrad.kernels.native import Native
from jitgrad.kernels.pool import ALIGNMENT, ARITIES, WORK
from jitgrad.kernels.values import BITS, Code, V

#: what is accumulated, as what, in how many lanes
Accumulator = tuple[str, dtypes.dtype, int]


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """A kernel of a module. `shared`: threads may share it; `total`: it is a sum of everything."""

    symbol: str
    shared: bool
    total: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of the function. `value`: the size or stride, or the number of the operand or scalar."""

    kind: Literal["size", "operand", "stride", "scalar"]
    llvm_type: str
    value: Size


def parameters(kernel: Kernel) -> list[Parameter]:
    """Sizes of outer and inner axes; operands; strides that are Dims (operands', then statements'); scalars.

    A bool scalar is i1; floats are passed as doubles, all as words.
    """
    result = [Parameter("size", "i64", s) for s in (*kernel.outer, *kernel.inner)]
    result += [Parameter("operand", "ptr", k) for k in range(len(kernel.operands))]
    for strides in [*[o.strides for o in kernel.operands], *[s.strides for s in kernel.body]]:
        result += [Parameter("stride", "i64", s) for s in strides if not isinstance(s, int)]
    result += [Parameter("scalar", COMPUTED[d.name], k) for k, d in enumerate(kernel.scalars)]
    return result


def head(symbol: str, arguments: Sequence[tuple[str, str]]) -> str:
    """The first line of a kernel's function."""
    return f"define internal {passed_on(symbol, arguments)} nounwind {{"


def passed_on(symbol: str, arguments: Sequence[tuple[str, str]]) -> str:
    """A kernel's function with a kernel's arguments, as they are defined and passed on to another."""
    return f"void @{symbol}({_listed('%parts', '%begin', _rounded(arguments, '%unused'))})"


def much(kernel: Kernel, sizes: Sequence[V]) -> V | None:
    """Whether a kernel over a space of these sizes is much work; None where that is known not to be so."""
    limit = WORK // cost(kernel)
    if all(size.name.isdecimal() for size in sizes) and math.prod(int(size.name) for size in sizes) <= limit:
        return None
    return reduce(operator.mul, sizes) > limit


def call(code: Code, known: KnownKernel, arguments: Sequence[tuple[str, str]], is_much: V | None) -> None:
    """Call a kernel, where it is much work through the pool."""
    callee, how, given = f"@{known.symbol}", "null", _rounded(arguments)
    if is_much is not None:
        how, arity = f"{callee}.how", len(given)
        code.declares[f"jg_shared_{arity}"] = f"declare void @jg_shared_{arity}(ptr, i64{', i64' * arity})"
        callee = code.emit(f"select i1 {is_much.name}, ptr @jg_shared_{arity}, ptr {callee}", "ptr", 1).name
        if known.total:
            how = code.emit(f"select i1 {is_much.name}, ptr {how}, ptr null", "ptr", 1).name
    code.line(f"call void {callee}({_listed(how, '0', given)})")


def shared(code: Code, plan: Plan, symbol: str, accumulators: Sequence[Accumulator]) -> dict[str, str]:
    """The constant that says how a kernel is shared, and what it names: a function that joins two chunks' accumulators.
    """
    kernel, cut, rank = plan.kernel, plan.cut, len(plan.order)
    strides = {place: rank + len(kernel.operands) + number for number, place in enumerate(kernel.argument_strides())}
    moves: list[int] = []
    for k, operand in enumerate(kernel.operands):
        stride, size = operand.strides[cut], operand.dtype.itemsize
        if not isinstance(stride, int):
            moves += [rank + k, size, strides["o", k, cut]]
        elif stride != 0:
            moves += [rank + k, stride * size, -1]
    name = "_".join(["jg_join", *[f"{fn}_{d.name}_{lanes}" for fn, d, lanes in accumulators]])
    text, size = _join(code, name, accumulators)
    words = [rank, cut, cost(kernel), plan.unit]
    fields = [f"ptr @{symbol}", *[f"i64 {n}" for n in words], f"ptr @{name}" if accumulators else "ptr null",
              *[f"i64 {n}" for n in (size, len(moves) // 3, *moves)]]
    kinds = ", ".join([field.partition(" ")[0] for field in fields])
    how = f"@{symbol}.how = internal constant {{ {kinds} }} {{ {', '.join(fields)} }}"
    return {name: text, symbol: how} if accumulators else {symbol: how}


def slots(types: Sequence[tuple[str, int]]) -> tuple[list[int], int]:
    """Where vectors of some elements and lanes lie in a memory of their own, and its bytes."""
    each = 8 * ALIGNMENT
    ends = list(accumulate([-(-BITS[elem] * lanes // each) * ALIGNMENT for elem, lanes in types], initial=0))
    return ends[:-1], ends[-1]


def _join(code: Code, name: str, accumulators: Sequence[Accumulator]) -> tuple[str, int]:
    """A function that adds accumulators to others, and how many bytes they take. It runs seldom and is made quickly."""
    f = Native()
    where, size = slots([(elem, lanes) for fn, d, lanes in accumulators for elem in elements(fn, d)])
    offsets = iter(where)
    for fn, d, lanes in accumulators:
        kinds = elements(fn, d)
        pairs = [[V(f, f.element(pointer, offset, "i8"), "ptr", 1) for pointer in ("%into", "%other")]
                 for offset in islice(offsets, len(kinds))]
        a, b = ([f.read(elem, pair[side].name, lanes, ALIGNMENT) for pair, elem in zip(pairs, kinds, strict=True)]
                for side in (0, 1))
        for pair, value in zip(pairs, merged(fn, d, a, b), strict=True):
            f.write(value, pair[0].name, ALIGNMENT)
    f.leave()
    text = f.defined(f"internal void @{name}", ["ptr %into", "ptr %other"], " noinline optnone")
    code.declares.update(f.declares)
    return "\n".join(text), size


def _rounded(arguments: Sequence[tuple[str, str]], rest: str = "") -> list[tuple[str, str]]:
    """Arguments of a kernel and as many more as the functions that share it pass: parameters `rest`, or no values."""
    more = next((arity for arity in ARITIES if arity >= len(arguments)), len(arguments)) - len(arguments)
    return [*arguments, *[("i64", f"{rest}{k}" if rest else "poison") for k in range(more)]]


def _listed(parts: str, begin: str, arguments: Sequence[tuple[str, str]]) -> str:
    return ", ".join([f"{kind} {name}" for kind, name in (("ptr", parts), ("i64", begin), *arguments)])
