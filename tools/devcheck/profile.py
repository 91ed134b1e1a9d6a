"""What Nsight Compute says of each kernel of the workloads: time, bytes, registers, occupancy, issue slots."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tools.devcheck.checks import Facts, Lost, check
from tools.devcheck.workloads import WORKLOADS

#: metric -> what it is called here
METRICS = {"gpu__time_duration.sum": "us", "dram__bytes.sum": "MB", "launch__registers_per_thread": "registers",
           "launch__grid_size": "blocks", "launch__block_size": "threads",
           "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
           "sm__inst_issued.avg.pct_of_peak_sustained_active": "issued"}
#: unit -> by what it is multiplied: times in microseconds, sizes in megabytes
UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "byte": 1e-6,
         "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}


def command(name: str) -> list[str]:
    """What profiles one call of a workload. Lost where Nsight Compute is not installed."""
    profiler = shutil.which("ncu")
    if profiler is None:
        raise Lost("Nsight Compute is not installed")
    return [profiler, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--metrics", ",".join(METRICS),
            sys.executable, "-m", "tools.devcheck.programs", "--large", name]


def kernels(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Each launch with its metrics, from Nsight Compute's CSV, in order."""
    found: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(line for line in lines if line.startswith('"')):
        kernel = found.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        value = float(row["Metric Value"].replace(",", "")) * UNITS.get(row["Metric Unit"], 1.0)
        kernel[METRICS[row["Metric Name"]]] = round(value, 2)
    return list(found.values())


def profiled(name: str) -> Callable[[], Facts]:
    """The check of a workload."""
    def perform() -> Facts:
        done = subprocess.run(command(name), capture_output=True, text=True, errors="replace", check=False)
        found = kernels(done.stdout.splitlines())
        if not found:
            raise RuntimeError("\n".join(["no kernel was seen:", *(done.stdout + done.stderr).splitlines()[-20:]]))
        for kernel in found:
            print("  ".join(f"{key} {kernel.get(key, ''):>8}" for key in METRICS.values()), kernel["kernel"][:80])
        return {"launches": len(found), "us": round(sum(k["us"] for k in found), 1), "kernels": found}

    perform.__name__, perform.__module__ = name, __name__
    perform.__doc__ = f"Kernels of {WORKLOADS[name].title}."
    return perform


for _name in WORKLOADS:
    check(cap=60.0, alone=True)(profiled(_name))
