"""Tensors that ask for gradients, in double precision: what numerical programs are called with."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgrad as torch


def f64(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal values."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape) * scale).requires_grad_()


def vec(*values: float) -> Any:
    """A float64 vector."""
    return torch.from_numpy(np.array(values, dtype=np.float64)).requires_grad_()


def spd(n: int, seed: int = 0) -> Any:
    """A symmetric positive definite float64 matrix."""
    a = np.random.default_rng(seed).standard_normal((n, n))
    return torch.from_numpy(a @ a.T + n * np.eye(n)).requires_grad_()
