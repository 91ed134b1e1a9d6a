"""torch.jit's names: `script`, and helpers for code that runs both ways."""

from __future__ import annotations

from typing import Any

from jitgrad.script.api import script
from jitgrad.script.executor import CacheInfo, ScriptFunction, eager_mode
from jitgrad.script.marks import export, ignore, unused

__all__ = ["CacheInfo", "ScriptFunction", "annotate", "eager_mode", "export", "ignore", "is_scripting", "load",
           "save", "script", "unused"]


def is_scripting() -> bool:
    """True while a function is being compiled: inside a script the call is folded to True."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, unchanged: types are inferred. Kept for programs written for torch."""
    return the_value


def save(f: Any, path: Any, example_inputs: Any = None) -> None:
    """Write a scripted function or module, with all that it has compiled and its state, to a file.

    Args:
        f: what `script` returned, or what `load` returned.
        path: a path, or a file opened for writing bytes.
        example_inputs: the arguments of a call, as a tuple, or a list of such tuples, to compile for before saving.

    Raises:
        TypeError: something that the program reads or returns cannot be in a file.
        RuntimeError: nothing has been compiled.
    """
    from jitgrad.script.saved.api import save

    save(f, path, example_inputs)


def load(f: Any, map_location: Any = None) -> Any:
    """A module that runs what `save` wrote: no Python source is needed, none is executed.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go; None or the CPU.

    Raises:
        LoadError: not such a file, damaged, or of a newer version.
    """
    from jitgrad.script.saved.api import load

    return load(f, map_location)
