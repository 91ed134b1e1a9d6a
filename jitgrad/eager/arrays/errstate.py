"""NumPy's floating-point warnings, which torch does not give: switched off around a computation, at the least cost."""

from collections.abc import Callable
from typing import Any

import numpy as np

try:  # setting NumPy's context variable itself costs a quarter of `with np.errstate(all="ignore")`
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    SILENT: Any = _make_extobj(divide="ignore", over="ignore", under="ignore", invalid="ignore")
    silence: Callable[[Any], Any] = _extobj_contextvar.set
    restore: Callable[[Any], None] = _extobj_contextvar.reset
except ImportError:  # a NumPy that moved it
    SILENT = None

    def silence(state: Any) -> Any:
        context = np.errstate(all="ignore")
        context.__enter__()
        return context

    def restore(context: Any) -> None:
        context.__exit__(None, None, None)
