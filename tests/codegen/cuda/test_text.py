"""The kernels of `codegen/llvm/test_kernel.py`, printed as CUDA and run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.dtypes import float64
from tests.codegen.cuda import host
from tests.codegen.kernels import Space
from tests.codegen.llvm import test_kernel

pytestmark = host.emulated


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(test_kernel, "run", host.run)


#: which of several writes to one place stays is not defined between threads
UNORDERED = {"test_scatter_the_last_wins_and_scatter_add_counts_all"}
#: of the pairs of a reduction and a dtype: a few of each
KINDS = [(fn, d) for k, (fn, d) in enumerate(test_kernel.KINDS)
         if (d.name == "float32" and fn not in ("fastmax", "all")) or (k % 20 == 0 and d.name != "float32")]

for _name, _test in list(vars(test_kernel).items()):
    if _name.startswith("test_") and _name not in UNORDERED and {"run", "execute"} & set(_test.__code__.co_names):
        globals()[_name] = _test


def test_scatter_add_counts_all() -> None:
    at, x = np.array([0, 2, 2, 1, 2]), np.arange(5.0)
    total = np.zeros(3)
    space = Space((5,))
    i, v = space.operand(at), space.operand(x)
    target = len(space.operands)
    space.operands.append(Operand(float64, (0,), "inout"))
    space.arrays.append(total)
    body = (Stmt("load", operand=i), Stmt("load", operand=v),
            Stmt("scatter_add", (1, 0), operand=target, strides=(1,)))
    host.run(Kernel(space.outer, (), tuple(space.operands), (), body), (5,), space.arrays)
    np.testing.assert_array_equal(total, [0, 3, 7])


@pytest.mark.parametrize(("fn", "d"), KINDS, ids=[f"{fn}-{d.name}" for fn, d in KINDS])
def test_reduce_rows_columns_and_all(fn: str, d: Any) -> None:
    test_kernel.test_reduce_rows_columns_and_all(fn, d)
