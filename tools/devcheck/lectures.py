"""The lecture's programs on the GPU: PyTorch's numbers, eagerly and scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tools.devcheck.checks import Facts, check
from tools.devcheck.lecture import LATER, REFERENCE, programs, run

#: how far numbers may be from PyTorch's after a program's steps, relative and absolute
RELATIVE, ABSOLUTE = 2e-3, 1e-4


def checked(program: Any) -> Callable[[], Facts]:
    """The check of a program."""
    def perform() -> Facts:
        import jitgrad
        from jitgrad.script.executor import eager_mode

        expected = np.asarray(REFERENCE[program.__name__])
        found = np.asarray(run(program, jitgrad, "cuda"))
        with eager_mode():
            eager = np.asarray(run(program, jitgrad, "cuda"))
        for what, numbers in (("eager", eager), ("scripted", found)):
            np.testing.assert_allclose(numbers, expected, RELATIVE, ABSOLUTE, err_msg=f"{program.__name__}, {what}")
        return {"largest_error": float(np.max(np.abs(found - expected) / (1 + np.abs(expected)), initial=0.0))}

    perform.__name__, perform.__module__ = program.__name__, __name__
    perform.__doc__ = f"`{program.__name__}` of the lecture."
    return perform


for _program in programs.PROGRAMS:
    if _program.__name__ not in LATER:
        check()(checked(_program))
