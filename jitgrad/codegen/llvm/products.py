"""Matrix products and convolutions as calls of functions."""

from collections.abc import Sequence

from jitgrad import dtypes
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.program.steps import ConvolutionStep, GemmStep
from jitgrad.kernels.blas import gemm_symbol
from jitgrad.kernels.native import Native
from jitgrad.kernels.products import ACCUMULATE, ITEMSIZE, SHARED, TRANS_A, TRANS_B
from jitgrad.kernels.tiled.convolution import PREFIX
from jitgrad.kernels.values import V


def gemm_step(p: Printer, step: GemmStep) -> None:
    """The call of the run-time library's function for the kind of `gemm` that the BLAS has (`kernels/products.py`)."""
    d = dtypes.uint8 if step.dtype is dtypes.bool_ else step.dtype
    symbol, found = f"jg_gemm_{d.name}", gemm_symbol(d)
    p.module.externals[symbol] = d
    p.module.declares[symbol] = f"declare void @{symbol}()"
    sizes = [p.size(s) for s in (step.m, step.n, step.k, step.lda, step.ldb, step.ldc)]
    starts = [p.pointer(p.address(*place)) for place in (step.a, step.b, step.c)]
    kind = (step.trans_a << TRANS_A | step.trans_b << TRANS_B | step.accumulate << ACCUMULATE
            | (found.kind == "cblas") << SHARED | step.dtype.itemsize << ITEMSIZE)
    name = f"jg_product_{'float' if d is dtypes.float32 else 'double'}_{found.int_bits}"
    given = [p.pointer(f"@{symbol}"), p.const(kind), *starts, *sizes]
    if step.batch:
        function = _batched(p, name, given, len(step.batch))
        given += [p.size(s) for axis in step.batch for s in axis]
        p.line(f"call void @{function}({', '.join([f'{v.type} {v.name}' for v in given])})")
    else:
        p.code.do(name, *given, p.const(0), p.pointer("null"))


def _batched(p: Printer, name: str, given: Sequence[V], rank: int) -> str:
    """The function that puts what a batch's axes say into a table, and calls `name`."""
    key = "batch", name, rank
    found = p.module.helpers.get(key)
    if found is None:
        found = p.module.helpers[key] = f"jg_batch{len(p.module.helpers)}"
        f = Native()
        parameters = [V(f, f"%x{k}", v.type, 1) for k, v in enumerate(given)]
        axes = [V(f, f"%axis{k}", "i64", 1) for k in range(4 * rank)]
        table = f.room(len(axes))
        for k, v in enumerate(axes):
            f.store(v, table, k)
        f.do(name, *parameters, f.number(rank), table)
        f.leave()
        p.module.helper(f, f"void @{found}", [f"{v.type} {v.name}" for v in (*parameters, *axes)])
    return found


def convolution_step(p: Printer, step: ConvolutionStep) -> None:
    """The call, its numbers in the payload."""
    d = step.made.dtype
    symbol = f"{PREFIX}{step.role}_{d.name}"
    p.module.externals[symbol] = d
    p.module.declares[symbol] = f"declare void @{symbol}(ptr, ptr, ptr, ptr, ptr)"
    starts = [p.address(r.buffer, r.offset) for r in step.places]
    p.pass_values(step.words)
    p.line(f"call void @{symbol}({', '.join(f'ptr {s}' for s in (p.word(p.layout.payload), *starts))})")
