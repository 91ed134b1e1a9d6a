"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Params
from jitgrad.optim.per_parameter import PerParameter, State


class ASGD(PerParameter):
    """SGD with a falling rate, and in the state's "ax" the average of the parameters from step t0 on.

    Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.

    Args:
        lr: learning rate; at step t it is lr / (1 + lambd * lr * t)^alpha.
        lambd: how fast parameters shrink, and the rate falls.
        alpha: the power of the rate's fall.
        t0: where averaging begins.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative lr or weight_decay.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _new_state(self, p: Tensor, group: Group) -> State:
        return {
            "step": jitgrad.tensor(0.0),
            "eta": jitgrad.tensor(1.0),  # the learning rate at the first step
            "mu": jitgrad.tensor(1.0),
            "ax": jitgrad.zeros_like(p),
        }

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        lambd = group["lambd"]
        t, share = state["step"].item(), state["mu"].item()
        rate = lr if t == 1 else state["eta"].item()
        p.mul_(1 - lambd * rate)
        p.add_(grad, alpha=-rate)
        average = state["ax"]
        average.copy_(average + (p - average) * share if share != 1 else p)
        state["eta"].fill_(lr / (1 + lambd * lr * t) ** group["alpha"])
        state["mu"].fill_(1 / max(1.0, t - group["t0"]))
