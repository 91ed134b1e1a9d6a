"""Kernels whose operands have their neighbours along different axes: tiles in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.cuda.kernels import text
from jitgrad.codegen.cuda.kernels.pointwise import Tiled, across, pointwise
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.dims import Symbol, dim
from tests.codegen.cuda import host, machinecode
from tests.cuda.hosted import gpu

pytestmark = host.emulated
DTYPES = [jitgrad.bfloat16, jitgrad.float16, jitgrad.float32, jitgrad.float64, jitgrad.int64, jitgrad.uint8]


@pytest.fixture(autouse=True)
def on_a_gpu() -> Iterator[None]:
    with gpu():
        yield


def numbers(shape: tuple[int, ...], d: Any) -> Any:
    return jitgrad.tensor(np.arange(math.prod(shape)).reshape(shape) % 113).to(d)


def as_on_the_cpu(f: Callable[..., Any], *tensors: Any) -> str:
    """What the scripted function's kernels are on the GPU; its values there are those on the CPU."""
    scripted = jitgrad.script(f)
    there = scripted(*[t.to("cuda") for t in tensors])
    here = f(*tensors)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (here, there)], strict=True):
        np.testing.assert_array_equal(b.cpu().double().numpy(), a.double().numpy())
    return "\n".join(scripted.kernels(*tensors, device="cuda"))


@pytest.mark.parametrize("d", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(16, 16), (70, 131), (64, 128), (17, 200), (15, 90)], ids=str)
def test_transposed(shape: tuple[int, int], d: Any) -> None:
    """Whole tiles and parts of them, rows that are aligned and others; short axes have no tiles."""
    printed = as_on_the_cpu(lambda x: x.t().contiguous(), numbers(shape, d))
    assert "tile0[" in printed


@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (0, 2, 3, 1), (3, 1, 0, 2), (1, 3, 2, 0)], ids=str)
@pytest.mark.parametrize("d", [jitgrad.bfloat16, jitgrad.float32], ids=str)
def test_permuted(axes: tuple[int, ...], d: Any) -> None:
    printed = as_on_the_cpu(lambda x: x.permute(*axes) * 2, numbers((2, 35, 3, 40), d))
    assert ("tile0[" in printed) is (axes[-1] != 3)


def test_what_is_computed_of_tiles_and_rows() -> None:
    """Two operands in tiles beside one in rows, broadcast ones, an operand that is not aligned, a dropout mask."""
    x, y, z, b = numbers((66, 50), jitgrad.float32), numbers((51, 66), jitgrad.float32), numbers(
        (66, 50), jitgrad.bfloat16), numbers((66,), jitgrad.float32)
    printed = as_on_the_cpu(lambda x, y, z, b: (x.t() + z.t()) * y[1:] + b, x, y, z, b)
    assert printed.count("__shared__") == 2

    def drawn(x: Any, y: Any) -> Any:
        return jitgrad.nn.functional.dropout(x.t() + 1.0, 0.4) + y[1:]

    found = []
    for where in ("cpu", "cuda"):
        jitgrad.manual_seed(4)
        found.append(jitgrad.script(drawn)(x.to(where), y.to(where)).cpu().numpy())
    np.testing.assert_array_equal(*found)


def test_what_is_written_across() -> None:
    """Most operands decide the lanes: the result's neighbours may be across."""
    def f(x: Any, y: Any, z: Any) -> Any:
        return (x * y + z).t().contiguous()

    tensors = [numbers((70, 45), jitgrad.float32) for _ in range(3)]
    assert "= tile3[" in as_on_the_cpu(f, *tensors)


def transposing(stores: int = 1) -> Kernel:
    m, n = (dim(Symbol()) for _ in range(2))
    s, t = (dim(Symbol()) for _ in range(2))
    operands = (Operand(jitgrad.float32, (1, s)), Operand(jitgrad.float32, (t, 1), "out"))
    return Kernel((m, n), (), operands, (), (
        Stmt("load", operand=0), *[Stmt("store", (0,), operand=1) for _ in range(stores)]))


def test_which_operands_have_tiles() -> None:
    kernel = transposing()
    assert across(kernel, 1) == (0, [0])
    assert isinstance(pointwise(kernel), Tiled)
    assert across(kernel, 0) == (1, [1])
    assert across(transposing(stores=2), 0) == (-1, [])  # it is written twice


@machinecode.needs_cuda
def test_all_reads_of_a_tile_are_under_way_at_once() -> None:
    used = machinecode.compiled(text.prelude() + text.source(transposing(), "t"), "sm_90")
    assert used["jg_pw_t"].stack == 0
    assert used["jg_pw_t"].registers <= 64
