"""Registers of the kernels that are measured on a GPU, and how many of their blocks a multiprocessor holds.

    python -m tests.codegen.cuda.test_occupancy      # writes the table anew

The table is nvcc 13.0's; other versions take a few registers more or less. It has each function with as many threads as
its block has at most, but for rows in shared memory, whose blocks are as many as that holds.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda.kernels import text
from tests.codegen.cuda import machinecode
from tests.codegen.cuda.test_corpus import called
from tests.observe import duplicate
from tests.programs import test_programs
from tools.devcheck.workloads import WORKLOADS

TABLE = Path(__file__).parent / "golden" / "occupancy.txt"
#: of a multiprocessor from sm_80 to sm_90; a warp's registers are given in units, eight for each of its threads
REGISTERS, WARPS, BLOCKS, UNIT = 65536, 64, 32, 8
#: registers that another version of the compiler may take besides
OTHERWISE = 8
HEAD = re.compile(r'extern "C" __global__ void __launch_bounds__\((\d+)[^)]*\)\s+(\w+)\(')


def blocks(registers: int, threads: int) -> int:
    """How many blocks a multiprocessor holds, as far as registers say."""
    warps = threads // 32
    return min(REGISTERS // (-(-registers // UNIT) * UNIT * 32) // warps, WARPS // warps, BLOCKS)


def single(x: Any, w: Any, b: Any) -> Any:
    """Rows of float32."""
    y = jitgrad.nn.functional.layer_norm(x, (x.shape[-1],), w, b)
    return y.softmax(-1) + y.log_softmax(-1)


@functools.cache
def source() -> str:
    """The kernels, behind the prelude."""
    kernels: dict[str, str] = {}
    with config.override(interpret=True, cache=""):
        programs = [(name, function, args) for name, w in sorted(WORKLOADS.items())
                    for function, args in called(w.make(jitgrad, "cpu", jitgrad.script, **w.tiny))]
        arrays = [jitgrad.ones(*shape, requires_grad=True) for shape in ((4, 8), (8,), (8,))]
        for name, function, args in [*programs, ("single", jitgrad.script(single), tuple(arrays))]:
            for kernel in function.kernels(*args, device="cuda"):
                kernels.setdefault(HEAD.sub(lambda m, name=name: m[0].replace("jg_", f"{name}_"), kernel), name)
    return "\n".join([text.prelude(), *kernels])


@functools.cache
def found(arch: str = "sm_90") -> dict[str, tuple[int, int, int]]:
    """By kernel: threads, registers, blocks."""
    used = machinecode.compiled(source(), arch)
    threads = {name: int(count) for count, name in HEAD.findall(source())}
    return {name: (threads[name], facts.registers, blocks(facts.registers, threads[name]))
            for name, facts in sorted(used.items())}


def table() -> str:
    """The table as it is printed."""
    return "".join(f"{name:72} {threads:5} threads {registers:4} registers {held:3} blocks\n"
                   for name, (threads, registers, held) in found().items())


def listed() -> dict[str, tuple[int, ...]]:
    return {line.split()[0]: tuple(map(int, line.split()[1::2])) for line in TABLE.read_text().splitlines()}


@machinecode.needs_cuda
def test_registers_and_blocks_are_those_of_the_table() -> None:
    table, now = listed(), found()
    assert sorted(table) == sorted(now), "write the table anew"
    for name, (threads, registers, held) in now.items():
        assert threads == table[name][0], name
        assert registers <= table[name][1] + OTHERWISE, name
        assert held >= blocks(table[name][1] + OTHERWISE, threads), name


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_three_blocks_of_rows_of_8192_floats_are_held(arch: str) -> None:
    """Two, where threads have sums of columns besides: there are no more than two for a multiprocessor."""
    rows = {name: facts for name, facts in found(arch).items() if name.endswith(("_group", "_block"))}
    assert len(rows) >= 16
    for name, (threads, registers, _) in rows.items():
        mixed = "_mix_" in name
        assert threads == (512 if mixed else 256), name
        assert blocks(registers, 256) >= (2 if mixed else 3), name


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_two_blocks_of_much_computed_with_sums_of_columns_are_held(arch: str) -> None:
    """There are two for a multiprocessor. Asked for (launch bounds), they would spill; elements of a thread are fewer.

    Of float32 the programs of the tests have two other kernels of rows of which fewer than three are held. The split
    rows of a selective scan, of 100 registers: where three are asked for they spill on sm_80, and kernels that take
    fewer registers take all that three leave them. A single row (a particle filter), of 114: it has one block.
    """
    program = test_programs.PROGRAMS["memory::neural_turing_machine"]
    with config.override(interpret=True, cache=""):
        kernels = jitgrad.script(program.new()).kernels(*duplicate(program.calls[0]), device="cuda")
    used = machinecode.compiled("\n".join([text.prelude(), *[k for k in kernels if "_mix_" in k]]), arch)
    held = [(facts.stack, blocks(facts.registers, 256)) for name, facts in used.items() if name.endswith("_group")]
    assert set(held) == {(0, 2)}


def test_blocks_of_a_multiprocessor() -> None:
    assert [blocks(r, 256) for r in (32, 40, 64, 65, 80, 128, 255)] == [8, 6, 4, 3, 3, 2, 1]
    assert blocks(16, 32) == 32


if __name__ == "__main__":
    TABLE.write_text(table())
