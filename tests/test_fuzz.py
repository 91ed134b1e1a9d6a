"""Three hundred random programs: eager, interpreted and native agree, and what comes from a disk cache or a file."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from tests.fuzz import compare, session, tiny, world
from tests.fuzz.__main__ import kind
from tests.fuzz.features import Features
from tests.fuzz.generator import BLOCK, program
from tests.fuzz.shrink import shrink

FIRST, COUNT, CHUNK = 20_000, 300, 5


@pytest.mark.sampled("random programs")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_random_programs_agree_with_eager(first: int) -> None:
    reports = {seed: compare.check_program(seed, () if seed % 2 == 0 else ("interpreted",))  # native takes four times
               for seed in range(first, first + CHUNK)}
    problems = [f"seed {seed}: {report.problem}" for seed, report in reports.items() if report.problem]
    assert not problems, "\n".join(problems)
    assert sum(bool(r.refused) for r in reports.values()) <= CHUNK // 2


#: gradients of a list that is read on two ways, where an element is absent on one of them, also of one number; a
#: `.grad` that was there before the loop that makes another; an in-place operand of one of several types; a gradient's
#: gradient from some of its results, which may read of a loop only what the gradient from all of them had saved; the
#: gradient's gradient of a loop in a loop that may be left, whose sequences of sequences bind no size; a list that
#: grows in an object which a loop carries
FOUND = dict(re.findall(r"^=== (\d+)\n(.*?)(?=^===|\Z)", Path(__file__).with_name("fuzz").joinpath("found.case")
                        .read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.sampled("random programs")
@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_once_failed(seed: str) -> None:
    second_order, cases = int(seed) % 10 == 0, list(world.arguments(int(seed), 3))
    report = compare.check_source(FOUND[seed], f"found {seed}", second_order, cases, ("verified",))
    assert not report.problem, report.problem


def test_programs_are_reproducible() -> None:
    again = subprocess.run([sys.executable, "-m", "tests.fuzz", "--show", str(FIRST + 5)], capture_output=True,
                           text=True, check=True)
    assert again.stdout == program(FIRST + 5).source + "\n"


def test_programs_seek_pairs_of_features_that_were_not_tried() -> None:
    features = Features()
    for seed in range(FIRST, FIRST + BLOCK):
        features.add(program(seed).features)
    assert len(features.pairs) == len(list(combinations(features.single, 2)))
    assert features.untried("new", ("branch", "call")) == 2


def test_every_program_has_a_loop_and_a_branch() -> None:
    for seed in range(FIRST, FIRST + COUNT):
        made = program(seed)
        compile(made.source, str(seed), "exec")
        assert made.loops, made.source
        assert made.branches, made.source


def test_shrinking_keeps_what_fails() -> None:
    source = program(FIRST).source
    small = shrink(source, lambda s: "m0 = x * 0.5 + b" in s and "return" in s)
    assert "m0 = x * 0.5 + b" in small
    assert len(small) < len(source) / 2


def test_kinds_of_problems_ignore_numbers() -> None:
    a = "native, arguments [(3, 4)], n=2, s=0.101, flag=True, maybe=None: gradient 2: expected [1.5], got [2.5]"
    b = "native, arguments [(5, 2)], n=0, s=0.2, flag=True, maybe=a tensor: gradient 2: expected [1.7], got [-1.0]"
    assert kind(a) == kind(b) != kind(a.replace("native", "interpreted"))
    crash = "InterpretError: `opt.get` of `%{}: optional<f64[s{}]>`, which is absent"
    assert kind(crash.format(12, 7)) == kind(crash.format(305, 41))


def test_every_mode_is_tried_on_some_programs() -> None:
    alone = {"interpreted", "native"}  # to see which of two differs; every other mode runs both of them
    assert {m for seed in range(5) for m in compare.modes_of(seed)} == set(compare.MODES) - alone
    source = program(FIRST).source
    assert "def f(box, x, y" in session.as_method(source)


@pytest.mark.parametrize("mode", compare.MODES)
def test_every_mode_sees_a_difference(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"def f({session.PARAMETERS}):\n    box.count += 1\n    return (x * 2).sum()\n"
    cases = list(world.arguments(3, 2))
    report = compare.check_source(source, "right", False, cases, (mode,))
    assert (report.problem, report.refused, report.unsaved) == ("", "", [])
    assert (report.from_disk > 0, report.saved) == (mode == "stored", int(mode == "saved"))
    eager = session.Session.run

    def other(self: session.Session, case: world.Case) -> session.Outcome:
        outcome = eager(self, case)
        outcome.state[8] += hasattr(self.function, "cache_info")
        return outcome

    monkeypatch.setattr(session.Session, "run", other)
    assert compare.check_source(source, "wrong", False, cases, (mode,)).problem.startswith(f"{mode}, arguments")


TINY, TINY_COUNT, TINY_CHUNK = 4000, 200, 20


@pytest.mark.sampled("random programs")
@pytest.mark.parametrize("first", range(TINY, TINY + TINY_COUNT, TINY_CHUNK))
@pytest.mark.parametrize("family", [tiny.Tiny, tiny.Memory])
def test_tiny_programs_agree_with_eager(family: type[tiny.Tiny], first: int) -> None:
    programs = {seed: family(seed).program() for seed in range(first, first + TINY_CHUNK)}
    found = {seed: tiny.check(source, seed % 4 == 0) for seed, source in programs.items()}
    problems = [f"seed {seed}: {problem}\n{programs[seed]}" for seed, (problem, _) in found.items() if problem]
    assert not problems, "\n".join(problems)
    assert sum(bool(why) for _, why in found.values()) <= TINY_CHUNK // (4 if family is tiny.Tiny else 2)


def test_differences_of_tiny_programs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.Tiny(5).program() == tiny.Tiny(5).program()
    source = "def f(x, y, n: int, flag: bool):\n    l1 = [n]\n    return x.sum(), l1\n"
    assert tiny.check(source, True) == ("", "")
    monkeypatch.setattr(tiny.jitgrad, "script", lambda f: lambda x, y, n, flag: f(x, y, n + 1, flag))
    assert tiny.check(source, False)[0].startswith("n=2, flag=True")
