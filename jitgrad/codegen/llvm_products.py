"""Matrix products as calls of the BLAS, inside loops over the batch axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitgrad import dtypes
from jitgrad.codegen.llvm_emit import STORED
from jitgrad.codegen.program import GemmStep
from jitgrad.kernels.blas import gemm_symbol
from jitgrad.kernels.values import V

if TYPE_CHECKING:
    from jitgrad.codegen.llvm_program import ProgramPrinter

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112


def gemm_step(p: ProgramPrinter, step: GemmStep) -> None:
    """The call, inside loops over the batch axes; nothing for empty results."""
    d = dtypes.uint8 if step.dtype is dtypes.bool_ else step.dtype
    found = gemm_symbol(d)
    symbol = f"jg_gemm_{d.name}"
    p.module.gemms[symbol] = d
    p.module.externals.add(symbol)
    integer = f"i{found.int_bits}"
    real = "float" if d is dtypes.float32 else "double"
    p.module.declares[symbol] = (f"declare void @{symbol}(i32, i32, i32, {integer}, {integer}, {integer}, "
                                    f"{real}, ptr, {integer}, ptr, {integer}, {real}, ptr, {integer})")
    m, n, k = (p.size(s) for s in (step.m, step.n, step.k))
    some, after = p.label("product"), p.label("go")
    full = (m > 0) & (n > 0)
    p.line(f"br i1 {full.name}, label %{some}, label %{after}")
    p.start(some)
    leading = []
    for size, columns in ((step.lda, m if step.trans_a else k), (step.ldb, k if step.trans_b else n),
                          (step.ldc, n)):
        leading.append(p.size(size).intrinsic("smax", columns).intrinsic("smax", 1))
    starts = [p.address(*place) for place in (step.a, step.b, step.c)]
    sizes = [v if integer == "i64" else v.cast("trunc", integer) for v in (m, n, k, *leading)]
    m, n, k, lda, ldb, ldc = sizes

    def call(a: str, b: str, c: str) -> None:
        one, beta = p.code.const(1.0, real, 1).name, p.code.const(float(step.accumulate), real, 1).name
        p.line(f"call void @{symbol}(i32 {ROW_MAJOR}, i32 {TRANS if step.trans_a else NO_TRANS}, "
                  f"i32 {TRANS if step.trans_b else NO_TRANS}, {integer} {m.name}, {integer} {n.name}, "
                  f"{integer} {k.name}, {real} {one}, ptr {a}, {integer} {lda.name}, ptr {b}, "
                  f"{integer} {ldb.name}, {real} {beta}, ptr {c}, {integer} {ldc.name})")

    _batched(p, step, 0, starts, call)
    p.line(f"br label %{after}")
    p.start(after)


def _batched(p: ProgramPrinter, step: GemmStep, axis: int, starts: list[str], call: Any) -> None:
    if axis == len(step.batch):
        call(*starts)
        return
    size, *strides = step.batch[axis]
    i, end = _loop_head(p, p.size(size))
    elem = STORED[step.dtype.name]
    moved = []
    for start, stride in zip(starts, strides, strict=True):
        name = p.code.name()
        offset = i * p.size(stride)
        p.line(f"{name} = getelementptr {elem}, ptr {start}, i64 {offset.name}")
        moved.append(name)
    _batched(p, step, axis + 1, moved, call)
    _loop_end(p, i, end)


def _loop_head(p: ProgramPrinter, count: V) -> tuple[V, tuple[str, str, str]]:
    """Start `for i in range(count)` with a variable as counter."""
    counter = p.variable("i64")
    head, body, after = p.label("each"), p.label("do"), p.label("done")
    p.line(f"store i64 0, ptr {counter}")
    p.line(f"br label %{head}")
    p.start(head)
    i = p.code.emit(f"load i64, ptr {counter}", "i64", 1)
    go = i < count
    p.line(f"br i1 {go.name}, label %{body}, label %{after}")
    p.start(body)
    return i, (counter, head, after)


def _loop_end(p: ProgramPrinter, i: V, labels: tuple[str, str, str]) -> None:
    counter, head, after = labels
    following = i + 1
    p.line(f"store i64 {following.name}, ptr {counter}")
    p.line(f"br label %{head}")
    p.start(after)
