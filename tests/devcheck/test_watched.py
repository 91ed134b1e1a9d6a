"""Workloads under tools that watch a process: how they are called, and what is read from their output."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from jitgrad.codegen.cuda.driver.libraries import cupy
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tools.devcheck import benchmarks, checks, profile, programs, sanitize
from tools.devcheck.checks import Lost
from tools.devcheck.workloads import WORKLOADS

HEAD = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"')


def line(launch: int, kernel: str, metric: str, unit: str, value: str) -> str:
    """As Nsight Compute prints a metric of a launch."""
    about = launch, 12, "python3", "h", kernel, 1, 7, "(256, 1, 1)", "(48, 1, 1)", 0, "9.0", "Command line"
    return ",".join(f'"{x}"' for x in (*about, metric, unit, value))


CSV = "\n".join(["==PROF== Connected to process 12", HEAD,
                 line(0, "jg_row", "dram__bytes.sum", "Mbyte", "248.25"),
                 line(0, "jg_row", "gpu__time_duration.sum", "ns", "134,123"),
                 line(0, "jg_row", "launch__grid_size", "", "16,384"),
                 line(1, "jg_col", "gpu__time_duration.sum", "us", "17.5")])


def test_what_a_profile_says() -> None:
    assert profile.kernels(CSV.splitlines()) == [{"kernel": "jg_row", "MB": 248.25, "us": 134.12, "blocks": 16384.0},
                                                 {"kernel": "jg_col", "us": 17.5}]


def done(status: int, output: str) -> Any:
    return lambda *a, **k: subprocess.CompletedProcess(a, status, output, "")


def test_a_profile_of_a_workload(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(profile.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(profile.subprocess, "run", done(0, CSV))
    (found,) = [c for c in checks.collect(("profile",)) if c.name == "layer_norm"]
    assert found.function()["launches"] == 2
    assert found.function()["us"] == 151.6
    assert "jg_row" in capsys.readouterr().out
    monkeypatch.setattr(profile.subprocess, "run", done(1, "==ERROR== no permission"))
    with pytest.raises(RuntimeError, match="no permission"):
        found.function()


def test_a_sanitizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitize.shutil, "which", lambda name: f"/bin/{name}")
    memcheck, racecheck, _ = checks.collect(("sanitize",))
    assert sanitize.command("memcheck")[:3] == ["/bin/compute-sanitizer", "--tool", "memcheck"]
    monkeypatch.setattr(sanitize.subprocess, "run", done(0, "newton\n========= ERROR SUMMARY: 0 errors"))
    assert memcheck.function() == {"summary": "ERROR SUMMARY: 0 errors"}
    monkeypatch.setattr(sanitize.subprocess, "run", done(9, "========= Invalid __global__ read of size 4 bytes"))
    with pytest.raises(RuntimeError, match=r"racecheck: status 9\n.*Invalid"):
        racecheck.function()


@pytest.mark.parametrize("command", [profile.command, sanitize.command])
def test_a_tool_that_is_not_there_is_lost(monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    monkeypatch.setattr(profile.shutil, "which", lambda name: None)
    with pytest.raises(Lost, match="not installed"):
        command("newton")


def test_the_program_that_is_watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(programs, "watched", lambda name, large: seen.append((name, large)))
    monkeypatch.setattr(sys, "argv", ["programs", "--large", "newton"])
    programs.main()
    assert seen == [("newton", True)]
    monkeypatch.setattr(sys, "argv", ["programs"])
    programs.main()
    assert [name for name, _ in seen[1:]] == list(WORKLOADS)
    assert capsys.readouterr().out.split() == ["newton", *WORKLOADS]


@host.needs_compiler
def test_a_workload_at_its_tiny_sizes_on_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu():
        calls: list[str] = []
        monkeypatch.setattr(cupy().cuda, "profiler", type("", (), {
            "start": staticmethod(lambda: calls.append("start")), "stop": staticmethod(lambda: calls.append("stop"))}),
            raising=False)
        programs.watched("newton", False)
    assert calls == ["start", "stop"]


@host.needs_compiler
def test_how_long_a_workload_takes_on_the_stand_in(monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    newton = WORKLOADS["newton"]
    monkeypatch.setitem(WORKLOADS, "newton", replace(newton, sizes=newton.tiny))
    monkeypatch.setattr(benchmarks, "SERIES", 1e-6)
    monkeypatch.setattr(sys, "argv", ["programs", "--time", "newton"])
    with gpu():
        programs.main()
    name, us, unit = capsys.readouterr().out.split()
    assert (name, unit) == ("newton:", "us")
    assert float(us) > 0
