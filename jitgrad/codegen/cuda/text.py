"""A kernel as CUDA C++: one thread an element, or one block a row of a reduction.

    source(kernel, "softmax_3")      # extern "C" __global__ void jg_row_softmax_3(...)
    forms(kernel, "softmax_3")       # which functions these are, and how each is launched: see `geometry.py`
    llvm_kernel.parameters(kernel)   # what to pass, in order: as for the CPU

A kernel without inner axes is of the kind `pw`: threads stride over the flattened outer space. One with inner axes is
of the kind `row`: a block strides over the outer indices, its threads over the flattened inner space, one sweep for
each stage of the plan (`llvm_plan`); what is computed once per row, every thread computes, and the first one stores.
Arithmetic on indices is in int where `narrow` says that every size and offset fits, else in 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from jitgrad import dtypes
from jitgrad.codegen.cuda.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.scalars import COMPUTED, EXPRESSIONS, STORED, convert, literal, narrow, widen
from jitgrad.codegen.kernel import Kernel
from jitgrad.codegen.llvm_emit import identity
from jitgrad.codegen.llvm_plan import STORES, Plan, is_reloaded, make_plan, needed
from jitgrad.dims import Size

#: threads of a block of a `pw` kernel, and the most blocks: beyond, threads take several elements each
THREADS, BLOCKS = 256, 132 * 16
LARGEST = (1 << 63) - 1

#: reductions: the operator of `prelude.cuh` that joins two parts
_JOINS = {"sum": "jg_sum", "dot": "jg_sum", "prod": "jg_prod", "max": "jg_maximum", "min": "jg_minimum",
          "fastmax": "jg_fastmaximum", "any": "jg_or", "all": "jg_and", "argmax": "jg_argmax", "argmin": "jg_argmin"}


def prelude() -> str:
    """The text in front of all kernels of a module."""
    return resources.files(__package__).joinpath("prelude.cuh").read_text()


def kind(kernel: Kernel) -> str:
    """`row` with inner axes, else `pw`."""
    return "row" if kernel.inner else "pw"


def forms(kernel: Kernel, name: str) -> tuple[Form, ...]:
    """How to launch what `source(kernel, name)` defines."""
    symbol = f"jg_{kind(kernel)}_{name}"
    if kernel.inner:
        return (Form(ANY, (Launch(symbol, THREADS, 1, BLOCKS),)),)
    return (Form(ANY, (Launch(symbol, THREADS, THREADS, BLOCKS),)),)


def source(kernel: Kernel, name: str, wide: bool = True) -> str:
    """The kernel as a function `jg_<kind>_<name>`; `wide`: index arithmetic in 64 bits."""
    return _Writer(kernel, wide).text(f"jg_{kind(kernel)}_{name}")


class _Writer:
    """Prints one kernel along its plan."""

    def __init__(self, kernel: Kernel, wide: bool):
        self.kernel, self.wide = kernel, wide
        self.plan: Plan = make_plan(kernel, 0)
        self.n_outer, self.n = len(kernel.outer), len(kernel.outer) + len(kernel.inner)
        self.lines: list[str] = []
        self.indent = 1
        self.strides: dict[tuple[str, int, int], str] = {}
        of_operands = [("o", k, o.strides) for k, o in enumerate(kernel.operands)]
        of_statements = [("b", k, s.strides) for k, s in enumerate(kernel.body)]
        for where, k, strides in (*of_operands, *of_statements):
            for axis, stride in enumerate(strides):
                if not isinstance(stride, int):
                    self.strides[where, k, axis] = f"s{len(self.strides)}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def text(self, symbol: str) -> str:
        kernel = self.kernel
        written = {k for k, o in enumerate(kernel.operands) if o.role != "in"}
        parameters = [f"i64 a{axis}" for axis in range(self.n)]
        parameters += [f"{'' if k in written else 'const '}{STORED[o.dtype.name]}* p{k}"
                       for k, o in enumerate(kernel.operands)]
        parameters += [f"i64 {name}" for name in self.strides.values()]
        parameters += [f"{COMPUTED[d.name]} c{k}" for k, d in enumerate(kernel.scalars)]
        threads = 1024 if kernel.inner else THREADS
        self.line(f"typedef {'i64' if self.wide else 'int'} I;")
        for axis in range(self.n):
            self.line(f"const I n{axis} = (I)a{axis};")
        self.rows() if kernel.inner else self.elements()
        return "\n".join([f'extern "C" __global__ void __launch_bounds__({threads})',
                          f"{symbol}({', '.join(parameters)}) {{", *self.lines, "}", ""])

    # --- the space ---

    def product(self, axes: range) -> str:
        return " * ".join(f"n{a}" for a in axes) or "1"

    def decode(self, flat: str, axes: range) -> None:
        """The indices along `axes` from their number in row-major order."""
        if not axes:
            return
        for axis in reversed(axes[1:]):
            self.line(f"const I i{axis} = {flat} % n{axis}, d{axis} = {flat} / n{axis};")
            flat = f"d{axis}"
        self.line(f"const I i{axes[0]} = {flat};")

    def elements(self) -> None:
        self.line(f"const I total = {self.product(range(self.n))};")
        self.line("for (I t = (I)jg_thread(); t < total; t += (I)jg_threads()) {")
        self.indent += 1
        self.decode("t", range(self.n))
        for i in range(len(self.kernel.body)):
            self.statement(i, 0)
        self.indent -= 1
        self.line("}")

    def rows(self) -> None:
        plan, body = self.plan, self.kernel.body
        self.line(f"const I rows = {self.product(range(self.n_outer))}, "
                  f"columns = {self.product(range(self.n_outer, self.n))};")
        self.line("for (I row = blockIdx.x; row < rows; row += gridDim.x) {")
        self.indent += 1
        self.decode("row", range(self.n_outer))
        first = [i for i in range(len(body)) if plan.stage[i] < 0 and not plan.element[i]]
        self.at_row(first)
        for stage in range(plan.stages):
            self.sweep(stage)
            self.at_row([i for i in range(len(body))
                         if not plan.element[i] and plan.stage[i] == stage and body[i].op != "reduce"])
        self.indent -= 1
        self.line("}")

    def at_row(self, indices: list[int]) -> None:
        """Statements of one value per row: all threads compute, one stores."""
        stores = [i for i in indices if self.kernel.body[i].op in STORES]
        for i in indices:
            if i not in stores:
                self.statement(i, self.plan.stages)
        if stores:
            if any(o.role == "inout" for o in self.kernel.operands):
                self.line("__syncthreads();")
            self.line("if (threadIdx.x == 0) {")
            self.indent += 1
            for i in stores:
                self.statement(i, self.plan.stages)
            self.indent -= 1
            self.line("}")

    def sweep(self, stage: int) -> None:
        """One pass over the inner space, and the reductions that end with it."""
        body = self.kernel.body
        indices = needed(self.plan, stage)
        reductions = [i for i in indices if body[i].op == "reduce"]
        for i in reductions:
            self.line(f"{self.accumulator(i)} r{i} = {self.identity(i)};")
        self.line("for (I e = threadIdx.x; e < columns; e += blockDim.x) {")
        self.indent += 1
        self.decode("e", range(self.n_outer, self.n))
        for i in indices:
            if body[i].op == "reduce":
                self.accumulate(i)
            else:
                self.statement(i, stage)
        self.indent -= 1
        self.line("}")
        for i in reductions:
            self.finish(i)

    # --- statements ---

    def dtype_of(self, i: int) -> dtypes.dtype:
        return self.kernel.dtype_of(i)

    def address(self, k: int, extra: Sequence[str] = ()) -> str:
        """The place of an operand at the current indices."""
        terms = list(extra)
        for axis, stride in enumerate(self.kernel.operands[k].strides):
            terms += self.term(f"i{axis}", stride, ("o", k, axis))
        return f"p{k}[{' + '.join(terms) or '0'}]"

    def term(self, index: str, stride: Size, key: tuple[str, int, int]) -> list[str]:
        if isinstance(stride, int):
            return [] if stride == 0 else [index if stride == 1 else f"{index} * {stride}"]
        return [f"{index} * (I){self.strides[key]}"]

    def gathered(self, i: int) -> str:
        stmt = self.kernel.body[i]
        indices = stmt.args[stmt.op != "gather":]
        extra = [t for position, a in enumerate(indices)
                 for t in self.term(f"(I)v{a}", stmt.strides[position], ("b", i, position))]
        return self.address(stmt.operand, extra)

    def define(self, i: int, d: dtypes.dtype, text: str) -> None:
        self.line(f"const {COMPUTED[d.name]} v{i} = {text};")

    def statement(self, i: int, stage: int) -> None:
        """One statement other than a reduction over inner axes."""
        stmt, kernel = self.kernel.body[i], self.kernel
        op = stmt.op
        if op in STORES:
            self.store(i)
            return
        kept = self.plan.spill.get(i)
        d = self.dtype_of(i)
        if kept is not None and is_reloaded(self.plan, i, stage):
            text = widen(self.address(kept), kernel.operands[kept].dtype)
        elif op in ("load", "gather"):
            text = widen(self.address(stmt.operand) if op == "load" else self.gathered(i), d)
        elif op == "const":
            text = literal(stmt.value, d)
        elif op == "scalar":
            text = f"c{stmt.number}"
        elif op == "index":
            text = f"(i64)i{stmt.axis}"
        elif op == "reduce":  # a kernel without inner axes: one element
            text = self.single(i)
        else:
            source = self.dtype_of(stmt.args[1] if op == "where" else stmt.args[0])
            text = EXPRESSIONS[op]([f"v{a}" for a in stmt.args], source, d, stmt.value)
        self.define(i, d, text)
        if kept is not None and not is_reloaded(self.plan, i, stage):
            self.line(f"{self.address(kept)} = {narrow(f'v{i}', kernel.operands[kept].dtype)};")

    def store(self, i: int) -> None:
        stmt = self.kernel.body[i]
        d = self.kernel.operands[stmt.operand].dtype
        value, source = f"v{stmt.args[0]}", self.dtype_of(stmt.args[0])
        if stmt.op != "store" or not d.is_half or COMPUTED[source.name] != "float":  # else narrowing rounds
            value = convert(value, source, d)
        place = self.address(stmt.operand) if stmt.op == "store" else self.gathered(i)
        if stmt.op == "scatter_add":
            self.line(f"jg_add(&{place}, {value});")
        else:
            self.line(f"{place} = {narrow(value, d)};")

    # --- reductions ---

    def single(self, i: int) -> str:
        """A reduction over no axes."""
        stmt = self.kernel.body[i]
        first, source = f"v{stmt.args[0]}", self.dtype_of(stmt.args[0])
        if stmt.fn in ("argmax", "argmin"):
            return "0"
        if stmt.fn == "dot":
            return f"({first} * v{stmt.args[1]})"
        if stmt.fn in ("any", "all"):
            return convert(convert(first, source, dtypes.bool_), dtypes.bool_, self.dtype_of(i))
        return convert(first, source, stmt.dtype or source)

    def accumulator(self, i: int) -> str:
        stmt, d = self.kernel.body[i], self.dtype_of(self.kernel.body[i].args[0])
        kind = "bool" if stmt.fn in ("any", "all") else COMPUTED[d.name]
        return f"jg_best<{kind}>" if stmt.fn in ("argmax", "argmin") else kind

    def identity(self, i: int) -> str:
        stmt, d = self.kernel.body[i], self.dtype_of(self.kernel.body[i].args[0])
        value = literal(identity(stmt.fn, d), dtypes.bool_ if stmt.fn in ("any", "all") else d)
        return f"{{{value}, {literal(LARGEST, dtypes.int64)}}}" if stmt.fn in ("argmax", "argmin") else value

    def join(self, i: int) -> str:
        """The operator of a reduction; sums of bools are "or", products "and"."""
        stmt, d = self.kernel.body[i], self.dtype_of(self.kernel.body[i].args[0])
        name = _JOINS[stmt.fn]
        if d is dtypes.bool_:
            name = {"jg_sum": "jg_or", "jg_prod": "jg_and"}.get(name, name)
        kind = "bool" if stmt.fn in ("any", "all") else COMPUTED[d.name]
        return f"{name}<{kind}>"

    def accumulate(self, i: int) -> None:
        stmt = self.kernel.body[i]
        d = self.dtype_of(stmt.args[0])
        values = [f"v{a}" for a in stmt.args]
        if stmt.fn == "dot":
            self.line(f"r{i} = {EXPRESSIONS['fma']([*values, f'r{i}'], d, d, 0)};")
            return
        value = values[0]
        if stmt.fn in ("any", "all"):
            value = convert(value, d, dtypes.bool_)
        elif stmt.fn in ("argmax", "argmin"):
            value = f"{self.accumulator(i)}{{{value}, (i64)e}}"
        self.line(f"r{i} = {self.join(i)}::of(r{i}, {value});")

    def finish(self, i: int) -> None:
        stmt, source = self.kernel.body[i], self.dtype_of(self.kernel.body[i].args[0])
        whole = f"jg_block<{self.join(i)}>(r{i})"
        if stmt.fn in ("argmax", "argmin"):
            self.define(i, dtypes.int64, f"{whole}.at")
            return
        if stmt.fn in ("any", "all"):
            source = dtypes.bool_
        self.line(f"const {self.accumulator(i)} w{i} = {whole};")
        self.define(i, stmt.dtype or source, convert(f"w{i}", source, stmt.dtype or source))


__all__ = ["forms", "kind", "prelude", "source"]
