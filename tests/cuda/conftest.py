"""Fixtures: CuPy's stand-in, and the real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from jitgrad.eager.arrays import settle
from tests.cuda import standin


@pytest.fixture
def cuda() -> Iterator[Any]:
    """CuPy's stand-in while a test runs."""
    with standin.installed() as cupy:
        yield cupy
        settle()  # nothing went wrong that nobody has seen


def trouble() -> str:
    """Why no GPU can be used here; "" where one can."""
    from jitgrad.device import require_gpu

    try:
        require_gpu()
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.fixture
def gpu() -> None:
    """A real GPU. A test that asks for it is skipped where there is none, or fails with JITGRAD_REQUIRE_GPU=1."""
    reason = trouble()
    if reason:
        if os.environ.get("JITGRAD_REQUIRE_GPU") == "1":
            pytest.fail(f"JITGRAD_REQUIRE_GPU=1, but {reason}")
        pytest.skip(f"no CUDA device: {reason}")

