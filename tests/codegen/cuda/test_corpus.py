"""Kernels of all programs of the tests, forward and backward, compiled for two architectures: no spilled registers.

Of kernels of rows a multiprocessor holds three blocks, or as many threads.

They are more than a thousand: each test takes those of some of the programs, and compiles them for one of the two,
which read the same text alike and differ in how registers are allotted.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda.kernels import text
from jitgrad.script.inspect.face import ScriptFunction
from tests.codegen.cuda import machinecode
from tests.observe import duplicate
from tests.programs import test_programs
from tools.devcheck.lecture import LATER, programs as lecture
from tools.devcheck.workloads import WORKLOADS

PARTS = 32
NAME = re.compile(r"\bjg_(?:pw|row|col|all|each|mix|gather|loop)_\w+")
#: what the names of kernels that reduce rows end in
ROWS = ("_row", "_mix", "_all")
#: programs whose kernels of rows take the most: float64, much that is computed, many operands, sums of columns
MUCH = ("attention::selective_scan", "machines::game_of_life", "memory::neural_turing_machine", "ode::leapfrog_orbit",
        "probabilistic::mixture_by_expectation_maximisation", "probabilistic::particle_filter",
        "solvers::qr_by_householder", "solvers::qr_iteration")
#: bytes of a thread's stack that are an array of the mathematical library's (large angles), not spilled registers
ANGLES, ARRAY = re.compile(r"\b(?:sin|cos|tan|sincos)f?\("), 24


def called(run: Callable[[], Any]) -> Iterator[tuple[ScriptFunction, tuple[Any, ...]]]:
    """The scripted functions that run, with the arguments of the first call of each."""
    calls: dict[int, tuple[ScriptFunction, tuple[Any, ...]]] = {}
    original = ScriptFunction.__call__

    def remember(self: ScriptFunction, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and id(self) not in calls:
            calls[id(self)] = self, args
        return original(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptFunction, "__call__", remember)
        run()
    yield from calls.values()


def in_part(name: str, part: int) -> bool:
    return zlib.crc32(name.encode()) % PARTS == part


def programs(part: int) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Scripted functions with arguments: of the corpus, of the lecture, and what is measured on a GPU."""
    for name, item in sorted(test_programs.PROGRAMS.items()):
        if in_part(name, part):
            yield name, jitgrad.script(item.new()), duplicate(item.calls[0])
    for program in lecture.PROGRAMS:
        if program.__name__ not in LATER and in_part(program.__name__, part):
            for function, args in called(lambda program=program: program(jitgrad)):  # type: ignore[misc]
                yield program.__name__, function, args
    for name, w in WORKLOADS.items():
        if in_part(name, part):
            for function, args in called(w.make(jitgrad, "cpu", jitgrad.script, **w.tiny)):
                yield name, function, args


def kernels(programs: Iterable[tuple[str, Any, tuple[Any, ...]]]) -> dict[str, str]:
    """The kernels' texts, and of which program each is; texts that differ in the names of functions are one."""
    found: dict[str, str] = {}
    with config.override(interpret=True, cache=""):
        for name, function, args in programs:
            for kernel in function.kernels(*args, device="cuda"):
                for k, symbol in enumerate(dict.fromkeys(NAME.findall(kernel))):
                    kernel = re.sub(rf"\b{symbol}\b", f"k{k}_{symbol.split('_')[1]}", kernel)
                found.setdefault(kernel, name)
    return found


def test_the_programs_that_matter_are_there() -> None:
    assert {"layer_norm", "cross_entropy", "adam", "lstm", "block"} <= {
        *(p.__name__ for p in lecture.PROGRAMS if p.__name__ not in LATER), *WORKLOADS}


def check(found: dict[str, str], arch: str) -> None:
    """Kernels as `kernels` finds them spill no registers; a multiprocessor holds as many of rows as it should."""
    renamed = [re.sub(r"\bk(\d+_\w+)\(", rf"k{i}_\1(", kernel) for i, kernel in enumerate(found)]
    used = machinecode.compiled("\n".join([text.prelude(), *renamed]), arch)
    stacks = {symbol: facts.stack for symbol, facts in used.items() if facts.stack}
    texts = list(found)
    of = {symbol: texts[int(symbol[1:].partition("_")[0])] for symbol in used}
    usual = {symbol for symbol in used if not ANGLES.search(of[symbol])}
    for symbol, stack in stacks.items():
        most = machinecode.BARRIER + (ARRAY if symbol not in usual else 0)
        assert stack <= most, f"{stack} bytes of stack in a kernel of {found[of[symbol]]}, {arch}:\n{of[symbol]}"
    assert sum(symbol in usual for symbol in stacks) * 10 <= len(usual)  # a program of angles has one in most kernels
    assert max(facts.registers for facts in used.values()) <= 255
    for most_threads, symbol in machinecode.HEAD.findall("\n".join(renamed)):
        threads, registers = int(most_threads), used[symbol].registers
        held = machinecode.blocks(registers, threads) * threads
        assert held >= machinecode.HELD or not symbol.endswith(ROWS), (
            f"{held} threads of {registers} registers in a kernel of {found[of[symbol]]}, {arch}:\n{of[symbol]}")


@machinecode.needs_cuda
@pytest.mark.sampled("machine code")
@pytest.mark.parametrize(("part", "arch"), [(k, "sm_80" if k % 3 == 0 else "sm_90") for k in range(PARTS)])
def test_kernels_of_programs_compile_without_spills(part: int, arch: str) -> None:
    found = kernels(programs(part))
    assert len(found) >= 8
    check(found, arch)


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_of_rows_that_take_many_registers_leave_room_for_others(arch: str) -> None:
    """Also a single row, of which there is one block."""
    named = [(name, jitgrad.script(item.new()), duplicate(item.calls[0]))
             for name, item in test_programs.PROGRAMS.items() if name in MUCH]
    assert len(named) == len(MUCH)
    found = {kernel: name for kernel, name in kernels(named).items() if re.search(rf"k0(?:{'|'.join(ROWS)})\(", kernel)}
    assert len(found) >= 3 * len(MUCH)
    check(found, arch)
