"""What figures were measured on, and how they are told."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    from importlib.metadata import PackageNotFoundError, version

    facts = {"date": time.strftime("%Y-%m-%d"), "python": platform.python_version(), "machine": platform.machine(),
             "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())}
    for package in ("jitgrad", "numpy", "llvmlite", "torch", "jax"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def tell(results: dict[str, Any], table: str, file: Path | None) -> None:
    """Print the machine and the table of results; write all figures to a file, if one is given."""
    facts = machine()
    print(", ".join(f"{k} {v}" for k, v in facts.items()) + "\n")
    print(table)
    if file is not None:
        file.write_text(json.dumps({"machine": facts, "results": results}, indent=1))
