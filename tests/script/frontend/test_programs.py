"""Eager and scripted (interpreted) agree: values, effects, exceptions, aliases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.script.frontend.harness import check
from tests.script.frontend.programs import PROGRAMS


@pytest.mark.parametrize(("function", "args"), PROGRAMS,
                         ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(PROGRAMS)])
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "checked"])
def test_program(function: Any, args: tuple[Any, ...], optimistic: bool) -> None:
    check(function, *args, optimistic=optimistic)
