"""A kernel as CUDA C++.

    source(kernel, "softmax_3")      # extern "C" __global__ void jg_row_softmax_3_warp(...), and its other forms
    forms(kernel, "softmax_3")       # which functions these are, and how each is launched: see `geometry.py`
    llvm_kernel.parameters(kernel)   # what to pass, in order: as for the CPU

Kinds: `pw` without inner axes (`pointwise.py`), `gather` of these where a scatter keeps an order (`ordered.py`); `all`
without outer axes, `row` where operands are contiguous along an inner axis, `mix` where such a kernel adds up columns
too (all `rows.py`), `col` where they are along an outer one (`columns.py`).
Offsets are in 64 bits, lengths of rows in 32 where the form's bound allows it; divisions are done in 32 bits where both
numbers fit. Sums have a fixed order, which the sizes decide: equal calls give equal bits. Only `scatter_add` adds in
the order in which threads come; deterministic programs have `ordered_add` instead.
"""

import re
from importlib import resources

from jitgrad.codegen.cuda.kernels import columns, pointwise, rows
from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.columns import Columns
from jitgrad.codegen.cuda.kernels.draws import simplified
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, scratch as scratch_of
from jitgrad.codegen.cuda.kernels.ordered import Ordered, is_ordered
from jitgrad.codegen.cuda.kernels.rows import Rows
from jitgrad.codegen.program.kernel import Kernel


def prelude() -> str:
    """The text in front of all kernels of a module."""
    folder = resources.files(__package__)
    return folder.joinpath("prelude.cuh").read_text() + folder.joinpath("resident.cuh").read_text()


def kind(kernel: Kernel) -> str:
    """`pw`, `gather`, `all`, `row`, `mix` or `col`."""
    if is_ordered(kernel):
        return "gather"
    if not kernel.inner:
        return "pw"
    if not kernel.outer:
        return "all"
    if any(s.op == "column" for s in kernel.body):
        return "mix"
    return "row" if lane_of(kernel) >= len(kernel.outer) else "col"


def symbol_of(kernel: Kernel, name: str) -> str:
    """`jg_<kind>_<name>`, what all its functions' names begin with; no dots, as ops' names may have."""
    return re.sub(r"\W", "_", f"jg_{kind(kernel)}_{name}")


def forms(kernel: Kernel, name: str) -> tuple[Form, ...]:
    """How to launch what `source(kernel, name)` defines."""
    symbol, kernel = symbol_of(kernel, name), simplified(kernel)
    if not kernel.inner:
        return (Ordered(kernel).form(symbol),) if is_ordered(kernel) else pointwise.forms(kernel, symbol)
    found: list[Form] = []
    for together in writers(kernel):
        suffix, writer = together[0]
        if len(together) == 1:
            found += writer.forms(symbol + suffix, found[-1].bound if found else 0)
        else:
            launches = tuple(writer.launch(symbol + suffix) for suffix, writer in together)
            found.append(Form(ANY, launches, writer.most_rows))
    return tuple(found)


def source(kernel: Kernel, name: str) -> str:
    """The kernel's functions `jg_<kind>_<name>...`, one for each launch of `forms(kernel, name)`."""
    symbol, kernel = symbol_of(kernel, name), simplified(kernel)
    if not kernel.inner:
        return Ordered(kernel).source(symbol) if is_ordered(kernel) else pointwise.source(kernel, symbol)
    scratch = scratch_of(forms(kernel, name)) > 0
    by_suffix = {suffix: writer for together in writers(kernel) for suffix, writer in together}
    return "\n".join(writer.source(symbol + suffix, scratch) for suffix, writer in by_suffix.items())


def writers(kernel: Kernel) -> list[list[tuple[str, Rows]]] | list[list[tuple[str, Columns]]]:
    """What writes the functions of a kernel with inner axes, and the ends of their names: of those that are launched
    together a list.
    """
    return columns.functions(kernel) if kind(kernel) == "col" else rows.functions(kernel)
