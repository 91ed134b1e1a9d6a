"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.adaptive import direction, number
from jitgrad.optim.optimizer import Group, Optimizer, Params, require_at_least_zero, require_modes, require_rate


class ASGD(Optimizer):
    """SGD with a falling rate, and in the state's "ax" the average of the parameters from step t0 on.

    Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate; at step t it is lr / (1 + lambd * lr * t)^alpha.
        lambd: how fast parameters shrink, and the rate falls.
        alpha: the power of the rate's fall.
        t0: where averaging begins.
        weight_decay: strength of the L2 penalty.
        maximize: go uphill.
        foreach, capturable: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative lr or weight_decay.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        require_rate(lr)
        require_at_least_zero("weight_decay value", weight_decay)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {
            "step": jitgrad.tensor(0.0),
            "eta": jitgrad.tensor(1.0),  # the learning rate at the first step
            "mu": jitgrad.tensor(1.0),
            "ax": jitgrad.zeros_like(p),
        }

    def _update(self, group: Group) -> None:
        lr, lambd = number(group["lr"]), group["lambd"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                t, share = state["step"].item(), state["mu"].item()
                rate = lr if t == 1 else state["eta"].item()
                grad = direction(group, p, grad)
                p.mul_(1 - lambd * rate)
                p.add_(grad, alpha=-rate)
                average = state["ax"]
                average.copy_(average + (p - average) * share if share != 1 else p)
                state["eta"].fill_(lr / (1 + lambd * lr * t) ** group["alpha"])
                state["mu"].fill_(1 / max(1.0, t - group["t0"]))
