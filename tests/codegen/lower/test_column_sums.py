"""Sums over columns and over everything in kernels that reduce rows: counted, beside the interpreter, on threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes
from jitgrad.codegen.llvm import kernel as llvm_kernel, module
from jitgrad.codegen.lower.column_sums import TOGETHER
from jitgrad.codegen.program.kernel import ROWS
from jitgrad.codegen.program.plan import make_plan
from tests.codegen.programs import agree, graph, sizes, tensor

ROW_COUNTS = (0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5)


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def both(F: Any, x: Any, y: Any, total: bool = True) -> tuple[Any, ...]:
    """What each row, each column and everything adds up to, of numbers that need their row's largest."""
    rank = len(x.shape)
    z = F.mul(F.sub(x, F.amax(x, axes=(rank - 1,), keepdim=True)), y)
    last, others, everything = (rank - 1,), tuple(range(rank - 1)), tuple(range(rank))
    return (F.sum(z, axes=last, keepdim=False), F.sum(z, axes=others, keepdim=False), F.exp(z),
            *[F.sum(F.mul(z, x), axes=everything, keepdim=False)] * total)


@pytest.mark.parametrize("rows", ROW_COUNTS)
@pytest.mark.parametrize("columns", [1, 5, 70])
def test_all_are_in_one_kernel_and_ends(rows: int, columns: int) -> None:
    N, D = sizes("N D")
    c = agree(graph(both, tensor(N, D), tensor(N, D)), [normal(rows, columns), normal(rows, columns) + 1])
    assert len(c.kernels) == 3
    assert sum("column(" in text for text in c.kernels) == 1


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (5, 7, 33), (2, ROWS + 1, 9), (2 * ROWS, 3, 8)])
def test_rows_along_several_axes(shape: tuple[int, ...]) -> None:
    N, T, D = sizes("N T D")
    g = graph(lambda F, x, y: both(F, x, y), tensor(N, T, D), tensor(N, T, D))
    agree(g, [normal(*shape), normal(*shape) + 1])
    turned = normal(shape[1], shape[0], shape[2]).transpose(1, 0, 2)  # rows that do not follow one another
    agree(g, [turned, normal(*shape) + 1])


def test_rows_that_lie_apart() -> None:
    N, T, D = sizes("N T D")
    g = graph(lambda F, x, y: both(F, F.permute(x, axes=(1, 0, 2)), y), tensor(T, N, D), tensor(N, T, D))
    agree(g, [normal(7, 40, 33), normal(40, 7, 33) + 1])


@pytest.mark.parametrize("d", [dtypes.float64, dtypes.float16, dtypes.bfloat16], ids=str)
def test_dtypes(d: Any) -> None:
    N, D = sizes("N D")
    given = [normal(50, 21).astype(d.np), (normal(50, 21) + 1).astype(d.np)]
    agree(graph(lambda F, x, y: both(F, x, y, not d.is_half), tensor(N, D, dtype=d), tensor(N, D, dtype=d)), given,
          2e-2 if d.is_half else 1e-12)


def test_what_columns_have_in_common_is_added_for_each_row() -> None:
    N, D = sizes("N D")
    agree(graph(lambda F, x, w: (F.softmax(x, axis=1), F.sum(F.add(F.mul(x, 0.0), w), axes=(0,), keepdim=False)),
                tensor(N, D), tensor(D)), [normal(37, 11), normal(11)])


@jitgrad.script
def normalised(x: Any, gain: Any, shift: Any) -> Any:
    F = jitgrad.nn.functional
    return (F.layer_norm(F.gelu(x), (x.shape[-1],), gain, shift) * x).sum()


def test_a_norm_with_its_gradients_is_one_kernel_and_the_ends_of_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """What several sweeps need of what costs much is kept, the `erf`; what the last one alone needs, its `exp`, not."""
    plans = []

    def noted(kernel: Any, vector_bytes: int, vectors: int = 1) -> Any:
        plans.append(make_plan(kernel, vector_bytes, vectors))
        return plans[-1]

    monkeypatch.setattr(llvm_kernel, "make_plan", noted)
    module.of_body.cache_clear()

    def step(x: Any, gain: Any, shift: Any) -> Any:
        loss = normalised.eager(x, gain, shift)
        loss.backward()
        return loss

    whole = jitgrad.script(step)
    with config.override(cache="", interpret=False):
        whole(*[jitgrad.from_numpy(normal(*s)).requires_grad_() for s in ((50, 20), (20,), (20,))])
    assert len(whole.kernels()) == 3
    (rows,) = [p for p in plans if any(s.op == "column" for s in p.kernel.body)]
    assert {"erf", "exp"} <= {s.op for s in rows.kernel.body}
    assert [rows.kernel.body[i].op for i in rows.spill] == ["erf"]


@pytest.mark.parametrize("shape", [(700, 300), (3, 5, 200), (70, 40, 100)])
def test_threads_change_no_bit(shape: tuple[int, ...]) -> None:
    before, found = jitgrad.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            x, gain, shift = [jitgrad.from_numpy(normal(*s)).requires_grad_() for s in (shape, shape[-1:], shape[-1:])]
            loss = normalised(x, gain, shift)
            loss.backward()
            found.append([loss.tolist(), *[v.grad.tolist() for v in (x, gain, shift)]])
    finally:
        jitgrad.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    x, gain, shift = [jitgrad.from_numpy(normal(*s).astype(np.float64)).requires_grad_()
                      for s in (shape, shape[-1:], shape[-1:])]
    normalised.eager(x, gain, shift).backward()
    for got, v in zip(found[0][1:], (x, gain, shift), strict=True):
        np.testing.assert_allclose(got, v.grad, rtol=1e-3, atol=1e-3)


def test_many_ends_are_several_equal_kernels() -> None:
    """A kernel that ended the sums of all layers would grow with their number, and compile for half a second."""
    N, D = sizes("N D")
    layers = 2 * TOGETHER

    def sums(F: Any, *xs: Any) -> tuple[Any, ...]:
        found = []
        for x in xs:
            z = F.sub(x, F.amax(x, axes=(1,), keepdim=True))
            found += [F.sum(z, axes=(1,), keepdim=False), F.sum(z, axes=(0,), keepdim=False)]
        return tuple(found)

    c = agree(graph(sums, *[tensor(N, D)] * layers), [normal(3, 5) + k for k in range(layers)])
    assert len(set(c.kernels)) == 2
