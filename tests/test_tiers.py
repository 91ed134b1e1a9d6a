"""The sample of the second tier: the same everywhere, some of every kind, nothing left out where all is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers

ROOT = Path(__file__).parent.parent
NAMES = [f"tests/test_a.py::test_large[{k}]" for k in range(50)] + [f"tests/test_a.py::test_{k}" for k in "bcd"]


def test_a_sample_is_a_share_rounded_up() -> None:
    for n in range(14):
        assert len(tiers.sample(map(str, range(n)), 6)) == -(-n // 6)


def test_a_sample_depends_on_names_alone() -> None:
    assert tiers.sample(NAMES, 6) == tiers.sample(reversed(NAMES), 6)
    assert tiers.sample(["a", "b", "c", "d"], 2) == {"b", "c"}  # by checksums that are the same everywhere


def test_an_added_test_moves_one_other_at_most() -> None:
    before = tiers.sample(NAMES, 6)
    for extra in range(20):
        assert len(before - tiers.sample([*NAMES, f"extra {extra}"], 6)) <= 1


def test_large_tests_and_the_rest_of_a_file_each_have_a_sample() -> None:
    large, rest = tiers.strata(NAMES, 6)
    assert large == NAMES[:50]
    assert rest == NAMES[50:]
    kinds = dict.fromkeys(NAMES, "emulated GPU")
    found = tiers.chosen(kinds | {"tests/test_b.py::test_only": "emulated GPU"})
    assert "tests/test_b.py::test_only" in found
    assert len(found.intersection(large)) == -(-50 // tiers.KINDS["emulated GPU"].one_in)
    assert len(found.intersection(rest)) == 1


def test_kinds_are_sampled_apart() -> None:
    kinds = dict(zip(NAMES, list(tiers.KINDS) * 30, strict=False))
    assert {kinds[name] for name in tiers.chosen(kinds)} == set(tiers.KINDS)


def test_an_interpreted_test_is_sampled_beside_a_native_one() -> None:
    names = ["tests/a.py::test[x-interpreted]", "tests/a.py::test[x-native]", "tests/a.py::test_alone[interpreted]",
             "tests/b.py::test[interpreted-y]", "tests/b.py::test[native-y]", "tests/b.py::test_interpreted"]
    items: Any = [SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: None) for name in names]
    assert tiers.kinds_of(items) == {names[0]: "interpreter", names[3]: "interpreter"}


def test_what_is_left_out_is_told() -> None:
    told = tiers.LeftOut()
    assert told.lines() == []
    told.note("machine code", 0, 3)
    assert told.lines() == []
    told.note("machine code", 1200, 1300)
    told.note("machine code", 1200, 1300)  # by the other worker
    assert told.lines() == ["left out, and run by `make test-all` or where a path is named:",
                            f"  1,200 of 1,300 {tiers.KINDS['machine code'].what}"]


# --- whole runs ----------------------------------------------------------------------------------------------------

TESTS = """
import pytest

def test_first():
    pass

@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("k", range({count}))
def test_again(k):
    pass
"""
COUNT = 24
SAMPLE = -(-COUNT // tiers.KINDS["emulated GPU"].one_in)
SUMMARY = f"  {COUNT - SAMPLE} of {COUNT} {tiers.KINDS['emulated GPU'].what}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with this one's conftest."""
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "tiers.py"):
        (tests / name).write_text((ROOT / "tests" / name).read_text())
    (tests / "__init__.py").write_text("")
    (tests / "test_some.py").write_text(TESTS.format(count=COUNT))
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\npythonpath = .\n"
                                         "addopts = -q --strict-markers --import-mode=importlib\n")
    return tmp_path


def run(project: Path, *arguments: str, everything: str = "0") -> str:
    """The output of a run."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", *arguments], cwd=project,
                          env=environment | {tiers.VARIABLE: everything}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("arguments", [(), ("-n", "2", "--dist", "worksteal")], ids=["one process", "two workers"])
def test_a_run_is_sampled_and_says_so(project: Path, arguments: tuple[str, ...]) -> None:
    told = run(project, *arguments)
    assert f"{1 + SAMPLE} passed" in told
    assert SUMMARY in told.splitlines()


@pytest.mark.parametrize("arguments", [("tests/test_some.py",), ("tests",), ("-k", "again or first"),
                                       ("-n", "2", "tests/test_some.py")], ids=" ".join)
def test_what_is_named_runs(project: Path, arguments: tuple[str, ...]) -> None:
    told = run(project, *arguments)
    assert f"{1 + COUNT} passed" in told
    assert "left out" not in told


def test_the_variable_asks_for_everything(project: Path) -> None:
    assert f"{1 + COUNT} passed" in run(project, everything="1")


def test_an_unknown_kind_is_an_error(project: Path) -> None:
    (project / "tests" / "test_some.py").write_text(TESTS.format(count=1).replace("emulated", "emulsified"))
    with pytest.raises(AssertionError, match=r"test_again\[0\]: `emulsified GPU` is not a kind of tests.tiers.KINDS"):
        run(project)
