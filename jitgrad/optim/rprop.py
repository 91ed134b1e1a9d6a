"""Rprop: step sizes from the signs of gradients."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Params
from jitgrad.optim.per_parameter import PerParameter, State


class Rprop(PerParameter):
    """p <- p - sign(g) * s; s grows while the gradient keeps its sign, and shrinks (without a step) where it turns.

    Source: Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning", 1993.

    Args:
        lr: what the step sizes s start from.
        etas: the factors of shrinking and growing.
        step_sizes: the bounds of s.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative lr, or etas that do not shrink and grow.
    """

    _buffers = ("prev", "step_size")  # the step size is the learning rate at the first step

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        if state["step"].item() == 1:
            size.fill_(lr)
        agreement = grad * before
        turned = agreement < 0
        grown = jitgrad.where(agreement > 0, size * grow, size)
        size.copy_(jitgrad.where(turned, size * shrink, grown).clamp(smallest, largest))
        grad = jitgrad.where(turned, 0.0, grad)
        p.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)
