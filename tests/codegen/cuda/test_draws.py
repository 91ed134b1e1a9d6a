"""Random words in kernels: thresholds in place of numbers, runs of words for neighbours."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.cuda.kernels.draws import simplified, step_of
from jitgrad.codegen.cuda.kernels.text import source
from jitgrad.codegen.program.kernel import RANDOM_WORD, Kernel, Operand, Stmt
from jitgrad.dtypes import bfloat16, bool_, dtype, float16, float32, int32, int64
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

pytestmark = host.emulated
COMPARED = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}


def mask(d: dtype, op: str, p: float, mirrored: bool = False) -> Kernel:
    """What `uniform(d) op p` is in a kernel over rows of any length."""
    body = [Stmt("index", axis=0), Stmt("scalar", number=0), Stmt("mul", (0, 1), int64), Stmt("index", axis=1),
            Stmt("add", (2, 3), int64), Stmt("scalar", number=1), Stmt("scalar", number=2),
            Stmt(RANDOM_WORD, (4, 5, 6), int64), Stmt("const", value=8, dtype=int64),
            Stmt("bitwise_right_shift", (7, 8), int64), Stmt("cast", (9,), int32), Stmt("cast", (10,), float32),
            Stmt("const", value=2.0 ** -24, dtype=float32), Stmt("mul", (11, 12), float32)]
    if d.is_half:
        body.append(Stmt("cast", (13,), d))
    number = len(body) - 1
    sides = (number + 1, number) if mirrored else (number, number + 1)
    body += [Stmt("const", value=p, dtype=d), Stmt(op, sides, bool_)]
    body.append(Stmt("store", (len(body) - 1,), operand=0))
    return Kernel((8, 8), (), (Operand(bool_, (8, 1), "out"),), (int64,) * 3, tuple(body))


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("op", COMPARED)
@pytest.mark.parametrize("d", [float32, bfloat16, float16], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.998, 1.0, 2.0, -1.0])
def test_the_threshold_says_what_the_number_says(d: dtype, op: str, p: float, mirrored: bool) -> None:
    p = float(np.array(p).astype(d.np))
    body = simplified(mask(d, op, p, mirrored)).body
    compared = next(s for s in body if s.op in COMPARED)
    assert body[compared.args[0]].op == RANDOM_WORD
    assert not any(s.op == "cast" for s in body)
    threshold = int(body[compared.args[1]].value)
    near = [w for at in (0, threshold, 1 << 32, 0x1999999A) for w in range(at - 3, at + 3) if 0 <= w < 1 << 32]
    words = np.array([*near, *np.random.default_rng(0).integers(0, 1 << 32, 1000)], np.int64)
    numbers = ((words >> 8).astype(np.float32) * np.float32(2.0 ** -24)).astype(d.np).astype(np.float64)
    sides = (p, numbers) if mirrored else (numbers, p)
    assert np.array_equal(COMPARED[compared.op](words, threshold), COMPARED[op](*sides))


def test_other_comparisons_stay() -> None:
    kernel = mask(float32, "ge", 0.5)
    body = list(kernel.body)
    body[14] = Stmt("scalar", number=0)  # known at run time only
    changed = Kernel(kernel.outer, (), kernel.operands, kernel.scalars, tuple(body))
    assert simplified(changed) is changed
    body[14], body[12] = kernel.body[14], Stmt("const", value=-1.0, dtype=float32)  # falls
    changed = Kernel(kernel.outer, (), kernel.operands, kernel.scalars, tuple(body))
    assert simplified(changed) is changed


def test_words_of_neighbours_are_drawn_together() -> None:
    kernel = mask(bfloat16, "ge", 0.1)
    assert [step_of(kernel, i, 1) for i in (0, 2, 3, 4, 7, 13)] == [0, 0, 1, 1, None, None]
    assert "jg_philox_run<8>(" in source(kernel, "drawn")


@pytest.mark.parametrize("n", [1, 3, 6, 8, 13, 32, 65])
@pytest.mark.parametrize("d", [jitgrad.float32, jitgrad.bfloat16, jitgrad.float64], ids=str)
def test_rows_of_any_length_have_the_words_of_the_stream(n: int, d: Any) -> None:
    """Rows that begin in the middle of a block of words, in kernels of both kinds."""
    def f(x: Any) -> Any:
        y = jitgrad.nn.functional.dropout(x, 0.25)
        return y, y.sum(0)

    shape = 5, n
    found = []
    for scripted in (False, True):
        jitgrad.manual_seed(2)
        with gpu():
            ones = jitgrad.ones(*shape, dtype=d, device="cuda")
            y, total = (jitgrad.script(f) if scripted else f)(ones)
            found.append((y.cpu().double().numpy(), total.cpu().double().numpy()))
    jitgrad.manual_seed(2)
    y, total = f(jitgrad.ones(*shape, dtype=d))
    for values, sums in found:
        assert np.array_equal(values, y.double().numpy())
        assert np.allclose(sums, total.double().numpy(), rtol=1e-2)
