"""Fixtures: CuPy's stand-in, and the real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jitgrad.eager.arrays.arrays import settle
from tests import required
from tests.cuda import standin


@pytest.fixture
def cuda() -> Iterator[Any]:
    """CuPy's stand-in while a test runs."""
    with standin.installed() as cupy:
        yield cupy
        settle()  # nothing went wrong that nobody has seen


@pytest.fixture
def gpu() -> None:
    """A real GPU. A test that asks for it is skipped where there is none, or fails with JITGRAD_REQUIRE_GPU=1."""
    required.gpu()
