"""What a test needs of the machine: without it the test is skipped, or, where nothing may be skipped, an error.

`JITGRAD_REQUIRE_COMPILER=1` (`.ci/run` sets it) forbids to skip for want of g++, or of nvcc and NVRTC.
"""

from __future__ import annotations

import os

import pytest

COMPILERS = "JITGRAD_REQUIRE_COMPILER"


def compilers(there: bool, reason: str) -> pytest.MarkDecorator:
    """A mark that skips where a compiler is not there. RuntimeError where it must be."""
    if not there and os.environ.get(COMPILERS) == "1":
        raise RuntimeError(f"{COMPILERS}=1, but there is {reason}")
    return pytest.mark.skipif(not there, reason=reason)
