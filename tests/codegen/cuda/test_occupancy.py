"""Registers of the kernels that are measured on a GPU, and how many of their blocks a multiprocessor holds.

    python -m tests.codegen.cuda.test_occupancy      # writes the table anew

The table is nvcc 13.0's; other versions take a few registers more or less. It has each function with as many threads as
its block has at most, how many blocks of these a multiprocessor holds, and how many threads that are; of rows in shared
memory it holds as many as that has room for, too.
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
from tests.codegen.cuda.machinecode import HEAD, HELD, blocks
from tests.codegen.cuda.test_corpus import called
from tools.devcheck.workloads import WORKLOADS

TABLE = Path(__file__).parent / "golden" / "occupancy.txt"
#: registers that another version of the compiler may take besides
OTHERWISE = 8
#: kernels of rows by their names
ROWS = re.compile(r"_(?:row|mix|all)_")


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
    return "".join(
        f"{name:72} {threads:5} threads {registers:4} registers {held:3} blocks {held * threads:5} resident\n"
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
def test_three_blocks_of_rows_are_held(arch: str) -> None:
    """Of 256 threads, and of larger ones as many threads. With sums of columns there are two blocks for each
    multiprocessor: of 512 threads, or of a row's 1024, which come one after another.
    """
    rows = {name: facts for name, facts in found(arch).items() if ROWS.search(name)}
    assert len(rows) >= 60
    for name, (threads, registers, held) in rows.items():
        assert held >= 3 if threads == 256 else threads * held >= HELD, name
        if "_mix_" in name and name.endswith("_group"):
            assert threads == 1024, name
            assert blocks(registers, 512) == 2, name


def test_blocks_of_a_multiprocessor() -> None:
    assert [blocks(r, 256) for r in (32, 40, 64, 65, 80, 128, 255)] == [8, 6, 4, 3, 3, 2, 1]
    assert blocks(16, 32) == 32


if __name__ == "__main__":
    TABLE.write_text(table())
