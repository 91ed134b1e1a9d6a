"""A hundred random programs: eager, interpreted and native agree."""

from __future__ import annotations

import pytest

from tests import fuzz

FIRST, CHUNK = 20_000, 10


@pytest.mark.parametrize("mode", ["interpreted", "native"])
@pytest.mark.parametrize("first", range(FIRST, FIRST + 100, CHUNK))
def test_random_programs_agree_with_eager(first: int, mode: str) -> None:
    problems = [f"seed {seed}: {problem}" for seed in range(first, first + CHUNK)
                if (problem := fuzz.check_program(seed, (mode,)))]
    assert not problems, "\n".join(problems)


def test_programs_are_reproducible() -> None:
    assert fuzz.Generator(5).program() == fuzz.Generator(5).program()


def test_every_program_has_a_loop_and_a_branch() -> None:
    for seed in range(FIRST, FIRST + 100):
        generator = fuzz.Generator(seed)
        source = generator.program()
        assert generator.loops, source
        assert generator.branches, source
