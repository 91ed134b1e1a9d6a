"""Anomaly detection, on and off: see `eager/autograd/anomaly.py`."""

import warnings
from types import TracebackType
from typing import Self

from jitgrad.eager.autograd.anomaly import watching
from jitgrad.script.graph.marks import refuse


class _Scope:
    """What `set_detect_anomaly` returns: as a context manager it brings back what was before."""

    def __init__(self, before: tuple[bool, bool]):
        self._before = before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> None:
        watching.on, watching.check_nan = self._before


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> _Scope:
    """Detection on or off, from the call on; as a context manager until the block ends.

    While it is on, an error in a backward pass tells the forward call behind it, and with `check_nan` a gradient that
    is NaN is a RuntimeError, which names the line whose derivative it is. Of a scripted call, one node, that is the
    line that calls. It costs time: for looking for a fault only.
    """
    refuse("anomaly detection inside a script", "turn it on outside, and call the function as it is: `f.eager(...)`")
    before = watching.on, watching.check_nan
    watching.on, watching.check_nan = bool(mode), bool(check_nan)
    return _Scope(before)


class detect_anomaly:
    """`with detect_anomaly():`, detection on in a block; see `set_detect_anomaly`. Warns of its cost, as torch does."""

    def __init__(self, check_nan: bool = True):
        self._check_nan = bool(check_nan)
        self._scopes: list[_Scope] = []
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self) -> Self:
        refuse("anomaly detection inside a script", "turn it on outside, and call the function as it is: "
               "`f.eager(...)`")
        self._scopes.append(set_detect_anomaly(True, self._check_nan))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> None:
        self._scopes.pop().__exit__(kind, error, where)


__all__ = ["detect_anomaly", "set_detect_anomaly"]
