"""`torch.compile` and torch.compiler's names, for programs written for torch: what they compile is scripted."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.script.api import script
from jitgrad.script.graph.marks import ignore, is_scripting

__all__ = ["allow_in_graph", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling",
           "list_backends", "reset"]

#: whether this is code of a script, being compiled
is_compiling = is_dynamo_compiling = is_scripting


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None,
            backend: str | Callable[..., Any] = "inductor", mode: str | None = None,
            options: Mapping[str, Any] | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None) -> Any:
    """`script(model)`, or a decorator where there is no model.

    Unlike torch's this runs nothing uncompiled: what a script may not contain is refused, with its line.

    Args:
        model: a function, a method or a Module.
        disable: give the model back as it is.
        fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec: torch's,
            ignored: a program is always one graph, of any sizes.

    Raises:
        ScriptError: see `script`.
        TypeError: model is neither callable Python code nor a Module.
    """
    if model is None:
        return functools.partial(compile, disable=disable)
    return model if disable else script(model)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that scripts call as plain Python: `jit.ignore`. Without a function, a decorator.

    Args:
        recursive, reason: torch's, ignored.
    """
    return ignore if fn is None else ignore(fn)


def allow_in_graph(fn: Any) -> Any:
    """The function, unchanged: what a script calls is part of its graph."""
    return fn


def list_backends(exclude_tags: tuple[str, ...] = ()) -> list[str]:
    """The compilers that there are: one."""
    return ["jitgrad"]


def reset() -> None:
    """Nothing: each script has programs of its own, and forgets the ones that were used longest ago."""


def cudagraph_mark_step_begin() -> None:
    """Nothing: no results are kept in a graph of the device's."""
