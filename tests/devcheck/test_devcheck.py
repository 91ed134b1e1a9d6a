"""The command: its options, processes of their own, caps, budget, results and table."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from jitgrad.codegen.cuda.driver.libraries import LibraryError
from tools.devcheck import __main__, checks, environment, runner, suite, table
from tools.devcheck.checks import Check, Lost

OK = 'print("RESULT " + __import__("json").dumps({"check": "s.fine", "status": "ok", "seconds": 0.5, "facts": {}}))'


def a_check(name="fine", function=dict, cap=20.0):
    return Check("s", name, function, cap)


def python(text):
    return lambda check: [sys.executable, "-c", text]


def test_without_a_gpu_it_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(__main__, "without_gpu", lambda: "no NVIDIA driver: not found")
    assert __main__.main(["--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "devcheck needs a GPU: no NVIDIA driver: not found\n"
    assert not (tmp_path / "out").exists()


def test_why_there_is_none(monkeypatch):
    def none():
        raise LibraryError("no NVIDIA driver")

    monkeypatch.setattr(__main__.driverapi, "driver", none)
    assert __main__.without_gpu() == "no NVIDIA driver"


def test_help_and_list(capsys):
    with pytest.raises(SystemExit, match="0"):
        __main__.main(["--help"])
    text = capsys.readouterr().out
    assert "--budget SECONDS" in text
    assert "there is no GPU" in text
    assert __main__.main(["--list", "--stage", "smoke", "--only", "products_"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [f"smoke.products_{d}" for d in
                                                   ("float32", "float64", "float16", "bfloat16", "tf32")]


def test_faults_are_asked_for_and_last(capsys):
    titles = []
    for more in ((), ("--faults",)):
        assert __main__.main(["--list", "--stage", "smoke", "--stage", "smoke_graphs", *more]) == 0
        titles.append([line.split()[0] for line in capsys.readouterr().out.splitlines()])
    assert titles[1] == [*titles[0], "smoke.errors_have_names"]


def test_every_check_says_what_it_checks():
    found = checks.collect()
    assert [c.stage for c in found] == sorted([c.stage for c in found], key=checks.STAGES.index)
    assert all((c.function.__doc__ or "").endswith(".") for c in found)
    assert len({c.title for c in found}) == len(found) > 30


def test_one_check_in_a_process_of_its_own():
    done = subprocess.run([sys.executable, "-m", "tools.devcheck", "--one", "environment.packages"],
                          capture_output=True, text=True, check=True)
    assert done.stdout.startswith("\nRESULT ")
    result = json.loads(done.stdout[8:])
    assert (result["check"], result["status"]) == ("environment.packages", "ok")


def raises(error):
    def function():
        raise error
    return function


@pytest.mark.parametrize(("function", "status", "error"), [
    (lambda: {"a": 1}, "ok", None), (raises(Lost("no pytest")), "lost", "no pytest"),
    (raises(LibraryError("no cublasLt")), "lost", "no cublasLt"),
    (raises(ModuleNotFoundError("no llvmlite")), "lost", "no llvmlite"),
    (raises(AssertionError("wrong")), "failed", "AssertionError: wrong"),
    (raises(KeyboardInterrupt()), "failed", "KeyboardInterrupt: ")])
def test_performing(function, status, error):
    result = runner.perform(a_check("x", function))
    assert (result["check"], result["status"], result.get("error")) == ("s.x", status, error)
    assert ("where" in result) == (status == "failed")


def test_results_of_processes():
    assert runner.separately(a_check(), 20, python(OK))["status"] == "ok"
    crashed = runner.separately(a_check(), 20, python("import os; print('before', flush=True); os.abort()"))
    assert (crashed["status"], crashed["output"]) == ("crashed", "before")
    assert "status -6" in crashed["error"]


def test_what_takes_too_long_is_stopped_with_its_children():
    text = ("import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; "
            "time.sleep(60)']); print(child.pid, flush=True); time.sleep(60)")
    result = runner.separately(a_check(), 1.5, python(text))
    assert (result["status"], result["error"]) == ("timeout", "stopped after 2 s")
    assert result["seconds"] < 20


def test_a_child_of_another_session_keeps_nobody_waiting():
    """As the workers with which a compiler of Python compiles: they hold the output open."""
    text = ("import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)'], "
            "start_new_session=True);" + OK)
    assert runner.separately(a_check(), 20, python(text))["seconds"] == 0.5
    started = time.monotonic()
    result = runner.separately(a_check(), 1.0, python(text.replace(OK, "import time; time.sleep(8)")))
    assert result["status"] == "timeout"
    assert time.monotonic() - started < 6


def test_what_was_found_until_then_stands():
    text = ("print('PART {\"rows\": [1]}'); print('noise'); print('PART {\"rows\": [1, 2]}');"
            "print('PART {\"ro', flush=True)")
    stopped = runner.separately(a_check(), 1.5, python(text + "; import time; time.sleep(60)"))
    assert (stopped["status"], stopped["facts"]) == ("timeout", {"rows": [1, 2]})
    assert stopped["output"] == "noise"
    crashed = runner.separately(a_check(), 20, python(text + "; import os; os.abort()"))
    assert (crashed["status"], crashed["facts"]) == ("crashed", {"rows": [1, 2]})


def test_what_is_wrong_has_facts():
    result = runner.perform(a_check("x", raises(checks.Wrong("two of them", {"one": 1}))))
    assert (result["status"], result["error"], result["facts"]) == ("failed", "Wrong: two of them", {"one": 1})


def test_running_within_a_budget(tmp_path, capsys):
    results = runner.run([a_check("one"), a_check("two")], tmp_path, 100, python(OK))
    assert [r["status"] for r in results] == ["ok", "ok"]
    results = runner.run([a_check("late")], tmp_path, 2, python(OK))
    assert results == [{"check": "s.late", "status": "skipped", "seconds": 0.0, "error": "no time left"}]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["ok", "ok", "skipped"]
    assert "  1/1     0 s of 2  skipped  s.late (0.0 s) no time left" in capsys.readouterr().out


MEASURED = ('print("RESULT " + __import__("json").dumps({"check": "s.fine", "status": "ok", "seconds": 0.5, "facts": '
            '{"rows": [{"name": "copy", "us": 200.0, "floor_us": 150.0}]}}))')


def test_whoever_is_cut_off_has_what_was_measured(monkeypatch, tmp_path, capsys):
    """The rows are printed, and the table and the page are written, as they come."""
    found = []

    def told(results):
        found.append(capsys.readouterr().out)
        __main__.written(results, tmp_path)
        if len(results) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run([a_check("one"), a_check("two")], tmp_path, 100, python(MEASURED), told)
    assert "        copy | 200.0 | 150.0 | 75\n" in found[0]
    assert "copy | 200.0 | 150.0 |         75 |" in (tmp_path / "table.txt").read_text()
    assert "| copy | 200.0 | 150.0 | 75 |" in (tmp_path / "results.md").read_text()


class Clock:
    """Time that passes as checks say."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_time_is_shared(monkeypatch, tmp_path):
    """Every check takes as long as it may: no more than the budget is used, and the last ones have their share."""
    clock, limits = Clock(), {}

    def separately(check, limit, how):
        limits[check.name] = limit
        clock.now += limit
        return {"check": check.title, "status": "timeout", "seconds": limit}

    monkeypatch.setattr(runner, "separately", separately)
    quick = [Check("s", f"quick{k}", dict, 10.0, alone=True) for k in range(3)]
    long = [Check("s", f"long{k}", dict, 150.0, alone=True, shares=True) for k in range(4)]
    results = runner.run([*quick, *long], tmp_path, runner.Budget(235.0, clock))
    assert limits == {"quick0": 10, "quick1": 10, "quick2": 10, "long0": 50, "long1": 50, "long2": 50, "long3": 50}
    assert clock.now - 100 == 235 - runner.RESERVE
    assert len(results) == 7
    limits.clear()
    clock.now = 100.0
    results = runner.run([*quick, *long], tmp_path, runner.Budget(90.0, clock))
    assert [r["status"] for r in results] == ["timeout"] * 6 + ["skipped"]
    assert list(limits.values()) == [10, 10, 10, 25, 25, 5]


def test_what_measures_runs_alone():
    def a(name, alone):
        return Check("s", name, dict, 9.0, alone)

    found = runner.groups([a("1", False), a("2", False), a("3", True), a("4", True), a("5", False)])
    assert [[c.name for c in group] for group in found] == [["1", "2"], ["3"], ["4"], ["5"]]
    assert all(c.alone for c in checks.collect(("ceilings", "benchmarks")))
    assert all(c.shares for c in checks.collect(("benchmarks",)))


def test_the_command_writes_results_and_a_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(__main__, "without_gpu", lambda: "")
    assert __main__.main(["--out", str(tmp_path), "--stage", "environment"]) == 0
    text = (tmp_path / "table.txt").read_text()
    assert "GPU usable: " in text
    assert "environment.packages | " in text
    assert text.endswith("2 ok\n")
    assert (tmp_path / "results.md").read_text().startswith("# GPU, 2")
    assert capsys.readouterr().out.endswith(text)
    monkeypatch.setattr(runner, "command", python(OK))
    monkeypatch.setattr(runner, "run", lambda *_, **more: [
        {"check": "s.x", "status": "failed", "seconds": 1.0, "error": "!"}])
    assert __main__.main(["--out", str(tmp_path), "--stage", "environment"]) == 1


def test_the_table_of_measurements():
    rows = [{"name": "copy", "us": 200.0, "floor_us": 150.0, "peers": {"torch": 300.0, "jax": 250.0}, "error": 1.5e-7},
            {"name": "kernel", "us": 2.0}]
    text = table.summary([{"check": "ceilings.copy", "status": "ok", "seconds": 1.0, "facts": {"rows": rows}},
                          {"check": "smoke.bad", "status": "failed", "seconds": 2.0, "error": "no", "where": "line 1"}])
    assert text == """
check         | status | seconds
ceilings.copy |     ok |     1.0
smoke.bad     | failed |     2.0

smoke.bad: no
    line 1

name   |    µs | floor | % of floor | best peer | ratio |   error
copy   | 200.0 | 150.0 |         75 | jax 250.0 |  1.25 | 1.5e-07
kernel |   2.0 |       |            |           |       |

1 ok, 1 failed"""


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setitem(environment.COSTS, "no-such-package", "nothing")
    facts = environment.packages()
    assert facts["no-such-package"] == "missing"
    assert facts["lost"]["no-such-package"] == "nothing"
    told = table.summary([{"check": "environment.packages", "status": "ok", "seconds": 1.0, "facts": facts}])
    assert "lost: no-such-package: nothing" in told.splitlines()


def hidden(*packages):
    """A Python that does not find some packages, whose argument is a check."""
    text = f"""import sys, runpy
import importlib.metadata as m
from importlib.abc import MetaPathFinder
hidden, version = {packages!r}, m.version
class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
def of(name):
    if name in hidden: raise m.PackageNotFoundError(name)
    return version(name)
sys.meta_path.insert(0, Finder()); m.version = of
sys.argv = ["devcheck", "--one", sys.argv[1]]
runpy.run_module("tools.devcheck", run_name="__main__")
"""
    return lambda check: [sys.executable, "-c", text, check.title]


@pytest.mark.sampled("tools")
@pytest.mark.parametrize("package", ["astunparse", "llvmlite", "pytest", "torch", "jax"])
def test_devcheck_starts_without(package):
    """It says what is lost, and the checks that need the package are lost, not failed."""
    (known,) = [c for c in checks.collect(("environment",)) if c.name == "packages"]
    result = runner.separately(known, 60, hidden(package))
    assert (result["status"], result["facts"][package]) == ("ok", "missing")
    assert result["facts"]["lost"][package] == environment.COSTS[package]
    stage, name = {"llvmlite": ("smoke", "compile_load_launch"), "pytest": ("suite", "gpu_tests")}.get(
        package, ("environment", "machine"))
    (check,) = [c for c in checks.collect((stage,)) if c.name == name]
    assert runner.separately(check, 60, hidden(package))["status"] == ("ok" if stage == "environment" else "lost")


def test_the_suite_needs_pytest_and_tests(monkeypatch, tmp_path):
    with pytest.raises(Lost, match="without its tests"):
        suite.run(tmp_path / "none")
    monkeypatch.setattr(suite.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Lost, match="pytest is not installed"):
        suite.run(tmp_path)


def test_the_suite_runs_what_is_marked(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs one\n")
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.gpu\ndef test_it():\n    assert 1\n"
                                         "def test_other():\n    assert 0\n")
    assert "1 passed in" in suite.run(tmp_path)["pytest"]
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.gpu\ndef test_it():\n    assert 0\n")
    with pytest.raises(RuntimeError, match="pytest failed"):
        suite.run(tmp_path)
    (tmp_path / "test_it.py").write_text("")
    with pytest.raises(Lost, match="no test is marked"):
        suite.run(tmp_path)
