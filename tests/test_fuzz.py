"""Two hundred random programs: eager, interpreted and native agree."""

from __future__ import annotations

import pytest

from tests.fuzz import compare
from tests.fuzz.__main__ import kind
from tests.fuzz.generator import Generator
from tests.fuzz.shrink import shrink

FIRST, COUNT, CHUNK = 20_000, 200, 10
MODES = (("interpreted", "native"), ("interpreted",))  # native code takes four times as long


@pytest.mark.sampled("random programs")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_random_programs_agree_with_eager(first: int) -> None:
    reports = {seed: compare.check_program(seed, MODES[seed % 2]) for seed in range(first, first + CHUNK)}
    problems = [f"seed {seed}: {report.problem}" for seed, report in reports.items() if report.problem]
    assert not problems, "\n".join(problems)
    assert sum(bool(r.refused) for r in reports.values()) <= CHUNK // 2


#: gradients of a list that is read on two ways, where an element is absent on one of them, also of one number; a
#: `.grad` that was there before the loop that makes another; an in-place operand of one of several types
FOUND = (279, 1100, 1852, 31_026, 9082, 61_005, 62_101)


@pytest.mark.parametrize("mode", ["interpreted", "native"])
@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_once_failed(seed: int, mode: str) -> None:
    report = compare.check_program(seed, (mode,))
    assert not report.problem, report.problem


def test_programs_are_reproducible() -> None:
    assert Generator(5).program() == Generator(5).program()


def test_every_program_has_a_loop_and_a_branch() -> None:
    for seed in range(FIRST, FIRST + COUNT):
        generator = Generator(seed)
        source = generator.program()
        compile(source, str(seed), "exec")
        assert generator.loops, source
        assert generator.branches, source


def test_shrinking_keeps_what_fails() -> None:
    source = Generator(FIRST).program()
    small = shrink(source, lambda s: "m0 = x * 0.5 + b" in s and "return" in s)
    assert "m0 = x * 0.5 + b" in small
    assert len(small) < len(source) / 2


def test_kinds_of_problems_ignore_numbers() -> None:
    a = "native, arguments [(3, 4)], n=2, s=0.101, flag=True, maybe=None: gradient 2: expected [1.5], got [2.5]"
    b = "native, arguments [(5, 2)], n=0, s=0.2, flag=True, maybe=a tensor: gradient 2: expected [1.7], got [-1.0]"
    assert kind(a) == kind(b) != kind(a.replace("native", "interpreted"))
    crash = "InterpretError: `opt.get` of `%{}: optional<f64[s{}]>`, which is absent"
    assert kind(crash.format(12, 7)) == kind(crash.format(305, 41))
