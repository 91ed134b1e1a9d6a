"""Anomaly detection: every node of the tape remembers the call that made it, and gradients that are NaN are errors."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

_PACKAGE = str(Path(__file__).parents[2])


class _Watching:
    """`on`: nodes remember their calls; `check_nan`: the backward pass looks at what they give."""

    on = False
    check_nan = True


watching = _Watching()
_calls: WeakKeyDictionary[Any, Sequence[traceback.FrameSummary]] = WeakKeyDictionary()


def remember(node: Any) -> None:
    """Keep the lines of the user's program that lead to a node that is made now."""
    _calls[node] = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(_PACKAGE)]


def made_by(node: Any) -> str:
    """The call that made a node, as Python prints a stack."""
    frames = _calls.get(node)
    if frames is None:
        return "No forward call is known: detection was not on when it was made."
    return "Traceback of forward call that caused the error:\n" + "".join(traceback.format_list(list(frames))).rstrip()


def require_numbers(node: Any, gradients: Sequence[Any]) -> None:
    """RuntimeError, which names the forward call, where an array of a node's gradients has a NaN."""
    for i, gradient in enumerate(gradients):
        if gradient is not None and bool((gradient != gradient).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.\n{made_by(node)}")


def is_anomaly_enabled() -> bool:
    """Whether nodes remember the calls that make them."""
    return watching.on


def is_anomaly_check_nan_enabled() -> bool:
    """Whether, where they do, gradients that are NaN are errors."""
    return watching.check_nan


__all__ = ["is_anomaly_check_nan_enabled", "is_anomaly_enabled"]
