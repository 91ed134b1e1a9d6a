"""Functions of NumPy on numbers: NumPy computes what is known, of what is not there is Python that scripts inline."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import Args
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.protocol import call, register
from jitgrad.script.frontend.values.values import Number


def _sqrt(x: Any) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _exp(x: Any) -> float:
    return math.exp(x) if x < 709 else math.inf if x > 710 else math.exp(x / 2) * math.exp(x / 2)


def _log(x: Any) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


_PYTHON: dict[Any, Callable[[Any], float]] = {np.sqrt: _sqrt, np.exp: _exp, np.log: _log}


@register(np.ufunc)
class UfuncKind(ObjectKind):
    """A function of NumPy's that goes over arrays: here it is given numbers."""

    def call(self, context: Context, obj: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        if not kwargs and all(isinstance(a, (bool, int, float)) for a in args):
            found = guarded(context, lambda: obj(*args))
            return found.item() if isinstance(found, np.generic) else found
        if obj in _PYTHON and not kwargs and len(args) == 1 and isinstance(args[0], Number):
            return call(context, _PYTHON[obj], args[0])
        raise self.not_callable(context, obj)
