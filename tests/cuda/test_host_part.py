"""What the host does in a step that is one graph: few calls of Python, whatever the step."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import jitgrad
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tools.devcheck.workloads import WORKLOADS

OURS = ("/jitgrad/script/", "/jitgrad/eager/", "/jitgrad/codegen/run/", "/jitgrad/codegen/cuda/driver/launcher.py")
#: called once for each result; no other function more than twice
FOR_RESULTS = {"wrap"}


def calls(run: Any) -> Counter[str]:
    """The functions of ours, and those that we have written, that a call calls."""
    found: Counter[str] = Counter()

    def noted(frame: Any, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and (file.startswith("<jitgrad") or any(part in file for part in OURS)):
            found[frame.f_code.co_name] += 1

    sys.setprofile(noted)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@host.needs_compiler
def test_a_step_of_a_small_net() -> None:
    with gpu(replayed=True):
        work = WORKLOADS["mlp_step"]
        run = work.make(jitgrad, "cuda", jitgrad.script, **work.tiny)
        for _ in range(4):
            run()
        found = calls(run)
    assert sum(found.values()) <= 25, found
    assert all(n <= 2 for name, n in found.items() if name not in FOR_RESULTS), found
