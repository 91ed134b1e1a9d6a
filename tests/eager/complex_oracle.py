"""One expression under two libraries: values, gradients of a real loss of it, and the gradients of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Expression = Callable[..., Any]


def numbers(*shape: int, seed: int = 0, real: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x if real else x + 1j * rng.normal(size=shape)


def loss_of(library: Any, y: Any) -> Any:
    """A real number that every part of y changes."""
    rng = np.random.default_rng(1)
    weights = library.tensor(rng.normal(size=tuple(y.shape)))
    if not y.is_complex():
        return (y * y * weights).sum()
    return (y.real * y.real * weights).sum() + (y.real * y.imag).sum()


def derivatives(library: Any, f: Expression, *arrays: Any) -> list[Any]:
    """The value of f(library, *tensors), the gradients of its loss, and those of a loss of these."""
    xs = [library.tensor(a) for a in arrays]
    for x in xs:
        x.requires_grad_(x.is_complex() or x.is_floating_point())
    y = f(library, *xs)
    found = [y]
    if not y.requires_grad:
        return [plain(v) for v in found]
    first = library.autograd.grad(loss_of(library, y), xs, create_graph=True, allow_unused=True)
    found += first
    moved = [g for g in first if g is not None and g.requires_grad]
    if moved:
        found += library.autograd.grad(sum(loss_of(library, g) for g in moved), xs, allow_unused=True)
    return [plain(v) for v in found]


def plain(x: Any) -> Any:
    return None if x is None else np.array(x.detach().resolve_conj().numpy())


def agree(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
