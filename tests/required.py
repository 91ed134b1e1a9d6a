"""What a test needs of the machine: without it the test is skipped, or, where nothing may be skipped, an error.

`JITGRAD_REQUIRE_COMPILER=1` (`.ci/run` sets it) forbids to skip for want of g++, or of nvcc and NVRTC,
`JITGRAD_REQUIRE_GPU=1` (`devcheck` sets it) for want of a GPU.
"""

from __future__ import annotations

import os

import pytest

COMPILERS, GPU = "JITGRAD_REQUIRE_COMPILER", "JITGRAD_REQUIRE_GPU"


def compilers(there: bool, reason: str) -> pytest.MarkDecorator:
    """A mark that skips where a compiler is not there. RuntimeError where it must be."""
    if not there and os.environ.get(COMPILERS) == "1":
        raise RuntimeError(f"{COMPILERS}=1, but there is {reason}")
    return pytest.mark.skipif(not there, reason=reason)


def gpu() -> None:
    """Skip the test that runs, or fail it, where no GPU can be used."""
    from jitgrad.device import require_gpu

    try:
        require_gpu()
    except RuntimeError as error:
        if os.environ.get(GPU) == "1":
            pytest.fail(f"{GPU}=1, but {error}")
        pytest.skip(f"no CUDA device: {error}")
