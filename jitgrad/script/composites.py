"""Functions of many library operations (norms, losses) as native programs for eager code, gradient included.

    computed(F.layer_norm, (x, (1024,), w, b), {})      # NotImplemented: eager is to compute it, operation by operation

A function is compiled as a script is, once for the types of its arguments, and kept in the disk cache; a call is one
node of the tape. Where somebody looks at the single operations (a profile, anomaly detection, autocast), and for
tensors that do not lie in order in the CPU's memory, there is no program. Few elements never come here, so that what
eager computes of them is what programs can be compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad import config, dtypes
from jitgrad.eager import profiling
from jitgrad.eager.autograd.anomaly import watching
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.parameter import Parameter
from jitgrad.ops import autocast
from jitgrad.ops.backend import AnyTensor
from jitgrad.ops.library.core import is_library
from jitgrad.script.api import calling
from jitgrad.script.call.list_kinds import NOTHING
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.executor import Dispatcher

#: programs at most of a function: there may be an argument of which each value needs another
MOST = 32
_CLASSES = frozenset({Tensor, Parameter})
_TYPES = frozenset(d.np.char for d in dtypes.REALS if not d.is_half)
_ndarray = np.ndarray


class Composite(Dispatcher):
    """A function of the library that eager runs as native programs. On the tape its node has its name, as a row's has.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__(calling(function) if is_library(function) else function)
        self.__name__ = "".join([part.capitalize() for part in function.__name__.split("_")])
        self.left = MOST

    def _first(self, params: tuple[Any, ...]) -> tuple[Specialisation, Any]:
        if not self.left:
            raise LookupError(f"it has been compiled {MOST} times")
        return super()._first(params)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        self.left -= 1
        return super()._prepare(params)

    def build(self, values: dict[str, Any], assumed: Any, any_grads: bool, lists: Any = NOTHING,
              decided: dict[Any, str] | None = None, late_checks: bool = False) -> Any:
        """A flag (`training`) chooses what is computed: what is a choice at run time is kept in memory."""
        from jitgrad.script.frontend.state.context import FLAGS  # only here: see `Dispatcher.build`

        decided = {} if decided is None else decided
        decided[FLAGS] = "bools are constants"
        return super().build(values, assumed, any_grads, lists, decided, late_checks)


_known: dict[Callable[..., Any], Composite] = {}


def computed(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `fn` returns; NotImplemented, and nothing done, where no program computes it."""
    if (config.mode.eager or not config._current.jit or watching.on or autocast.mode.low is not None
            or profiling.current() is not None):
        return NotImplemented
    for x in (*args, *kwargs.values()) if kwargs else args:
        if type(x) in _CLASSES:
            array = x._data
            if type(array) is not _ndarray or array.dtype.char not in _TYPES:
                return NotImplemented
            flags = array.flags
            if not flags.c_contiguous or not flags.aligned:
                return NotImplemented
        elif isinstance(x, AnyTensor):
            return NotImplemented
    found = _known.get(fn) or _known.setdefault(fn, Composite(fn))
    try:
        return found(*args, **kwargs)
    except Exception as error:  # nothing has changed; if arguments are to blame, the operations say it in their words
        config.log(1, f"`{fn.__name__}` runs operation by operation: {type(error).__name__}: {error}")
        return NotImplemented
