"""Matrix products as calls of the BLAS, inside loops over the batch axes; convolutions as calls of our own."""

from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.llvm.scalars import STORED
from jitgrad.codegen.program.steps import ConvolutionStep, GemmStep
from jitgrad.kernels.blas import NO_TRANS, ROW_MAJOR, TRANS, gemm_symbol
from jitgrad.kernels.convolution import PREFIX
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V


def gemm_step(p: Printer, step: GemmStep) -> None:
    """The call, inside loops over the batch axes; nothing for empty results.

    In glue that the quick code generator makes, a call of a function that all products of the kind share.
    """
    sizes = [p.size(s) for s in (step.m, step.n, step.k, step.lda, step.ldb, step.ldc)]
    starts = [p.address(*place) for place in (step.a, step.b, step.c)]
    batch = [tuple([p.size(s) for s in axis]) for axis in step.batch]
    if not p.quick:
        _product(p, step, sizes, starts, batch)
        return
    key = ("product", step.dtype, step.trans_a, step.trans_b, step.accumulate, len(batch))
    name = p.module.helpers.get(key)
    if name is None:
        name = p.module.helpers[key] = f"jg_product{len(p.module.helpers)}"
        _helper(p, step, name)
    numbers = [v.name for v in (*sizes, *[v for axis in batch for v in axis])]
    p.line(f"call void @{name}({', '.join([f'ptr {s}' for s in starts] + [f'i64 {n}' for n in numbers])})")


def convolution_step(p: Printer, step: ConvolutionStep) -> None:
    """The call, its numbers in the payload."""
    d = step.made.dtype
    symbol = f"{PREFIX}{step.role}_{d.name}"
    p.module.externals[symbol] = d
    p.module.declares[symbol] = f"declare void @{symbol}(ptr, ptr, ptr, ptr, ptr)"
    starts = [p.address(r.buffer, r.offset) for r in step.places]
    p.pass_values(step.words)
    p.line(f"call void @{symbol}({', '.join(f'ptr {s}' for s in (p.word(p.layout.payload), *starts))})")


def _helper(p: Printer, step: GemmStep, name: str) -> None:
    """The function that computes products like `step` from their addresses, sizes and strides."""
    around, p.code = p.code, Native()
    code = p.code
    starts = ["%a", "%b", "%c"]
    sizes = [V(code, f"%{n}", "i64", 1) for n in ("m", "n", "k", "lda", "ldb", "ldc")]
    batch = [tuple([V(code, f"%{n}{axis}", "i64", 1) for n in ("count", "a", "b", "c")])
             for axis in range(len(step.batch))]
    _product(p, step, sizes, starts, batch)
    parameters = [f"ptr {s}" for s in starts] + [f"i64 {v.name}" for v in (*sizes, *[v for x in batch for v in x])]
    code.leave()
    p.module.helper(code, f"void @{name}", parameters)
    p.code = around


def _product(p: Printer, step: GemmStep, sizes: list[V], starts: list[str],
             batch: list[tuple[V, ...]]) -> None:
    d = dtypes.uint8 if step.dtype is dtypes.bool_ else step.dtype
    found = gemm_symbol(d)
    symbol = f"jg_gemm_{d.name}"
    p.module.externals[symbol] = d
    integer = f"i{found.int_bits}"
    real = "float" if d is dtypes.float32 else "double"
    p.module.declares[symbol] = (f"declare void @{symbol}(i32, i32, i32, {integer}, {integer}, {integer}, "
                                    f"{real}, ptr, {integer}, ptr, {integer}, {real}, ptr, {integer})")
    m, n, k, *leading = sizes
    with p.code.when((m > 0) & (n > 0)):
        columns = (m if step.trans_a else k, k if step.trans_b else n, n)
        leading = [v.intrinsic("smax", c).intrinsic("smax", 1) for v, c in zip(leading, columns, strict=True)]
        m, n, k, lda, ldb, ldc = [v if integer == "i64" else v.cast("trunc", integer) for v in (m, n, k, *leading)]

        def call(a: str, b: str, c: str) -> None:
            one, beta = p.code.const(1.0, real, 1).name, p.code.const(float(step.accumulate), real, 1).name
            p.line(f"call void @{symbol}(i32 {ROW_MAJOR}, i32 {TRANS if step.trans_a else NO_TRANS}, "
                   f"i32 {TRANS if step.trans_b else NO_TRANS}, {integer} {m.name}, {integer} {n.name}, "
                   f"{integer} {k.name}, {real} {one}, ptr {a}, {integer} {lda.name}, ptr {b}, "
                   f"{integer} {ldb.name}, {real} {beta}, ptr {c}, {integer} {ldc.name})")

        batched(p, STORED[step.dtype.name], batch, starts, call)


def batched(p: Printer, elem: str, batch: list[tuple[V, ...]], starts: list[str], call: Any) -> None:
    """Loops over the batch axes, each (size, strides), around the call."""
    if not batch:
        call(*starts)
        return
    (count, *strides), *inner = batch
    with p.code.each(count) as i:
        moved = [p.code.element(start, (i * stride).name, elem) for start, stride in zip(starts, strides, strict=True)]
        batched(p, elem, inner, moved, call)
