"""Modules without the work of filling their parameters."""

import inspect
from typing import Any, TypeVar

from jitgrad.nn.module import Module
from jitgrad.random import fork_rng

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose parameters are as `empty` gives them: its class's `reset_parameters` is not called.

    What else the class draws while it is made leaves the generators as they were. RuntimeError unless the class is one
    of modules that take a `device`.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    unfilled = type(module_cls.__name__, (module_cls,), {"reset_parameters": lambda self: None})
    with fork_rng():
        made: M = unfilled(*args, **kwargs)
    object.__setattr__(made, "__class__", module_cls)
    return made


__all__ = ["skip_init"]
