"""Matrix products, convolutions and attention as calls of functions."""

from collections.abc import Sequence

from jitgrad import dtypes
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import AttentionStep, ConvolutionStep, GemmStep
from jitgrad.dims import Size
from jitgrad.kernels.blas import gemm_symbol
from jitgrad.kernels.native import Native
from jitgrad.kernels.products import ACCUMULATE, ITEMSIZE, SHARED, TRANS_A, TRANS_B
from jitgrad.kernels.tiled import attention, convolution
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
    _tiled(p, f"{convolution.PREFIX}{step.role}_", step.made.dtype, step.words, step.places)


def attention_step(p: Printer, step: AttentionStep) -> None:
    """The same."""
    places: dict[str, Ref] = dict(zip(("mask",), step.mask, strict=False))
    q, k, v, *more = step.reads
    places |= {"q": q, "k": k, "v": v}
    if step.kind == "forward":
        (places["y"],), (places["lse"],) = step.makes, step.counted
    else:
        (places["y"], places["g"]), (places["lse"],) = more, step.given
        places |= zip(("dq", "dk", "dv"), step.makes, strict=True)
    order = [places.get(name) for name in attention.ROLES[step.kind]]
    _tiled(p, f"{attention.PREFIX}{step.kind}_", q.dtype, step.words, order)


def _tiled(p: Printer, name: str, d: dtypes.dtype, words: Sequence[Size], places: Sequence[Ref | None]) -> None:
    """A call of a function of `kernels/tiled/`: where the numbers are, and the operands, null where there is none."""
    symbol = f"{name}{d.name}"
    p.module.externals[symbol] = d
    p.module.declares[symbol] = f"declare void @{symbol}({', '.join(['ptr'] * (1 + len(places)))})"
    starts = ["null" if r is None else p.address(r.buffer, r.offset) for r in places]
    p.pass_values(words)
    p.line(f"call void @{symbol}({', '.join(f'ptr {s}' for s in (p.word(p.layout.payload), *starts))})")
