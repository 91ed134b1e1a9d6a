"""Stochastic gradient descent.

Source: torch.optim.SGD, whose momentum buffer is momentum * buffer + (1 - dampening) * gradient.
"""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.optim.optimizer import Closure, Optimizer, Params, require_range, run_closure


class SGD(Optimizer):
    """p -= lr * g, with momentum if asked for.

    Args:
        params: what to optimize.
        lr: learning rate.
        momentum: share of the last step that is kept.
        dampening: share of the gradient that momentum leaves out.
        weight_decay: times p, added to the gradient.
        nesterov: look ahead along the momentum.
        maximize: climb instead.
    """

    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None):
        require_range("learning rate", lr)
        require_range("momentum value", momentum)
        require_range("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
                                  "differentiable": differentiable, "fused": fused})

    def step(self, closure: Closure | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = run_closure(closure)
        with jitgrad.no_grad():
            for group in self.param_groups:
                lr, momentum, dampening = group["lr"], group["momentum"], group["dampening"]
                weight_decay, nesterov, maximize = group["weight_decay"], group["nesterov"], group["maximize"]
                for p in group["params"]:
                    g = p.grad
                    if g is None:
                        continue
                    if maximize:
                        g = -g
                    if weight_decay != 0:
                        g = g.add(p, alpha=weight_decay)
                    if momentum != 0:
                        state = self.state[p]
                        buffer = state.get("momentum_buffer")
                        if buffer is None:
                            buffer = state["momentum_buffer"] = g.clone()
                        else:
                            buffer.mul_(momentum).add_(g, alpha=1 - dampening)
                        g = g.add(buffer, alpha=momentum) if nesterov else buffer
                    p.add_(g, alpha=-lr)
        return loss
