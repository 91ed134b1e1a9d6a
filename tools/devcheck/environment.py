"""What there is: the machine, the packages, and what those that are missing cost."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from jitgrad.codegen.cuda.driver import toolkit
from tools.devcheck.checks import Facts, check

#: package -> what cannot be checked without it
COSTS = {
    "numpy": "everything", "llvmlite": "compiled programs and graph replay",
    "astunparse": "a script's source as text (`f.source`)", "ml_dtypes": "bfloat16 arrays",
    "pytest": "the tests marked gpu", "torch": "PyTorch as peer", "jax": "JAX as peer",
    "cuda-pathfinder": "the first way to find libraries",
}


@check()
def machine() -> Facts:
    """CUDA's libraries and devices, Python, the processor."""
    return {**dict(toolkit.rows()), "python": platform.python_version(), "system": platform.platform(),
            "cores": os.cpu_count()}


@check()
def packages() -> Facts:
    """Versions; for each missing package, what is lost."""
    facts: Facts = {}
    lost: dict[str, str] = {}
    for package, cost in COSTS.items():
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package], lost[package] = "missing", cost
    return {**facts, "lost": lost} if lost else facts
