"""What a test can see of a call: copies of its arguments before, the tensors in them, what of them changed.

The harnesses that run a program in several ways (`script/frontend/harness.py`, `script/frontend/agree.py`,
`programs/harness.py`) compare these; how close floats must be is theirs.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import types
from typing import Any

import jitgrad
from jitgrad import nn
from jitgrad.eager.arrays.arrays import library
from jitgrad.eager.tensor import Tensor


def plain(value: Any) -> Any:
    """A value as nested Python data for comparison."""
    if isinstance(value, Tensor):
        array = library(value._data).to_host(value._data)
        where = f" on {value.device}" if value.is_cuda else ""
        return ("tensor", f"{array.dtype}{where}", array.shape, array.copy())
    if isinstance(value, collections.deque):
        return ("deque", value.maxlen, [plain(v) for v in value])
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, [plain(v) for v in value])
    if isinstance(value, dict):
        return ("dict", [(k, plain(v)) for k, v in value.items()])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [(k, plain(v)) for k, v in vars(value).items()])
    return (type(value).__name__, value)


def duplicate(value: Any) -> Any:
    """A copy with memory of its own; functions and constants stay the objects that they are."""
    if isinstance(value, Tensor):
        copied = jitgrad.from_numpy(value.detach().cpu().numpy().copy()).to(value.device)
        return copied.requires_grad_() if value.requires_grad else copied
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(duplicate(v) for v in value))
    if isinstance(value, collections.deque):
        return collections.deque((duplicate(v) for v in value), value.maxlen)
    if isinstance(value, (tuple, list)):
        return type(value)(duplicate(v) for v in value)
    if isinstance(value, dict):
        return {k: duplicate(v) for k, v in value.items()}
    if isinstance(value, (types.FunctionType, type, int, float, bool, str, type(None))):
        return value
    return copy.deepcopy(value)


def leaves(value: Any) -> list[Any]:
    """The tensors in containers, dataclasses and modules, in a fixed order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list, collections.deque)):
        return [x for v in value for x in leaves(v)]
    if isinstance(value, dict):
        return [x for v in value.values() for x in leaves(v)]
    if isinstance(value, nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, (types.FunctionType, type)):
        return []
    return [x for k, v in sorted(getattr(value, "__dict__", {}).items()) if not k.startswith("_") for x in leaves(v)]


def sharing(*values: Any) -> list[int]:
    """Which mutable containers in values are one: a number for each, in the order in which they are met."""
    numbers: dict[int, int] = {}
    found: list[int] = []

    def meet(value: Any) -> None:
        mutable = isinstance(value, (list, dict, set, collections.deque)) or dataclasses.is_dataclass(value)
        if mutable and not isinstance(value, type):
            known = id(value) in numbers
            found.append(numbers.setdefault(id(value), len(numbers)))
            if known:
                return
        if isinstance(value, (list, tuple, set, collections.deque)):
            for v in value:
                meet(v)
        elif isinstance(value, dict) or mutable:
            for v in (value if isinstance(value, dict) else vars(value)).values():
                meet(v)

    for value in values:
        meet(value)
    return found


def state(value: Any) -> Any:
    """What of an argument, or of a module, a call can change."""
    if isinstance(value, (tuple, list, collections.deque)):
        return [state(v) for v in value]
    if isinstance(value, dict):
        return {k: state(v) for k, v in value.items()}
    if isinstance(value, nn.Module):
        numbers = {k: v for k, v in sorted(vars(value).items())
                   if isinstance(v, (int, float, str, list, Tensor)) and not k.startswith("_")}
        return [numbers, [state(p) for p in value.parameters()], [state(b) for b in value.buffers()],
                [state(m) for m in value.children()]]
    if isinstance(value, (Tensor, int, float, bool, str, type(None))):
        return value
    if isinstance(value, (types.FunctionType, type)):
        return None
    return {k: state(v) for k, v in sorted(getattr(value, "__dict__", {}).items()) if not k.startswith("_")}
