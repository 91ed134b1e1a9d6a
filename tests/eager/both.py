"""Programs that run under jitgrad and under torch, and must give the same."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad.eager
import jitgrad.ops.library
from jitgrad import autograd, dtypes
from jitgrad.ops.library.core import is_library

try:
    import torch
except ImportError:
    torch = None


def _namespace() -> Any:
    found = types.SimpleNamespace(autograd=autograd, Tensor=jitgrad.eager.Tensor,
                                  from_numpy=jitgrad.eager.construct.from_numpy)
    for module in pkgutil.walk_packages(jitgrad.ops.library.__path__, "jitgrad.ops.library."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if is_library(value) and not name.startswith("_"):
                setattr(found, name, value)
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled"):
        setattr(found, name, getattr(autograd, name))
    for d in dtypes.ALL:
        setattr(found, d.name, d)
    return found


jt = _namespace()


def error(action: Callable[[], Any], *words: str) -> list[Any]:
    """The type of the exception that `action` raises, and whether its text has the words."""
    try:
        action()
    except Exception as e:
        return [type(e).__name__, *(True if w in str(e) else str(e) for w in words)]
    return ["no error"]


def plain(value: Any) -> Any:
    """Tensors as arrays, all else as it is."""
    if isinstance(value, jitgrad.eager.Tensor) or (torch is not None and isinstance(value, torch.Tensor)):
        return value.detach().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def same(ours: Any, theirs: Any) -> None:
    """Compare results, tensors within 1e-5."""
    if isinstance(ours, (list, tuple)):
        assert isinstance(theirs, (list, tuple)), (ours, theirs)
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(ours, np.ndarray):
        assert isinstance(theirs, np.ndarray), (ours, theirs)
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    elif isinstance(ours, float) and isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    else:
        assert type(ours) is type(theirs), (ours, theirs)
        assert ours == theirs


def check(program: Callable[[Any], Any]) -> None:
    """Run `program(namespace)` under both."""
    same(plain(program(jt)), plain(program(torch)))
