"""torch.jit's names: `script`, and helpers for code that runs both ways."""

from __future__ import annotations

from typing import Any

from jitgrad.script.api import script
from jitgrad.script.executor import CacheInfo, ScriptFunction, eager_mode

__all__ = ["CacheInfo", "ScriptFunction", "annotate", "eager_mode", "is_scripting", "script"]


def is_scripting() -> bool:
    """True while a function is being compiled: inside a script the call is folded to True."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, unchanged: types are inferred. Kept for programs written for torch."""
    return the_value
