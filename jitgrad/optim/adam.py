"""Adam and AdamW.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; Loshchilov and Hutter, "Decoupled Weight Decay
Regularization", 2019; Reddi et al., "On the Convergence of Adam and Beyond", 2018 (amsgrad).
"""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.optim.optimizer import Closure, Optimizer, Params, require_range, run_closure


class Adam(Optimizer):
    """Steps along the running mean of the gradient over the root of the running mean of its square.

    Args:
        params: what to optimize.
        lr: learning rate.
        betas: shares of the running means that are kept.
        eps: added to the root.
        weight_decay: times p, added to the gradient.
        amsgrad: divide by the largest mean of squares so far.
        maximize: climb instead.
        decoupled_weight_decay: shrink p by lr * weight_decay instead of changing the gradient (AdamW).
    """

    def __init__(self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False):
        require_range("learning rate", lr)
        require_range("epsilon value", eps)
        require_range("beta parameter at index 0", betas[0], below=1.0)
        require_range("beta parameter at index 1", betas[1], below=1.0)
        require_range("weight_decay value", weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
                                  "capturable": capturable, "differentiable": differentiable, "fused": fused,
                                  "decoupled_weight_decay": decoupled_weight_decay})

    def step(self, closure: Closure | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = run_closure(closure)
        with jitgrad.no_grad():
            for group in self.param_groups:
                lr, eps, weight_decay = group["lr"], group["eps"], group["weight_decay"]
                beta1, beta2 = group["betas"]
                amsgrad, maximize, decoupled = group["amsgrad"], group["maximize"], group["decoupled_weight_decay"]
                for p in group["params"]:
                    g = p.grad
                    if g is None:
                        continue
                    if maximize:
                        g = -g
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["exp_avg"] = jitgrad.zeros_like(p)
                        state["exp_avg_sq"] = jitgrad.zeros_like(p)
                        if amsgrad:
                            state["max_exp_avg_sq"] = jitgrad.zeros_like(p)
                    state["step"] += 1
                    step, mean, square = state["step"], state["exp_avg"], state["exp_avg_sq"]
                    if weight_decay != 0:
                        if decoupled:
                            p.mul_(1 - lr * weight_decay)
                        else:
                            g = g.add(p, alpha=weight_decay)
                    mean.lerp_(g, 1 - beta1)
                    square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                    if amsgrad:
                        largest = state["max_exp_avg_sq"]
                        largest.copy_(jitgrad.maximum(largest, square))
                        square = largest
                    bias1, bias2 = 1 - beta1**step, 1 - beta2**step
                    root = square.sqrt().div_(math.sqrt(bias2)).add_(eps)
                    p.addcdiv_(mean, root, value=-(lr / bias1))
        return loss


class AdamW(Adam):
    """Adam that shrinks p by lr * weight_decay apart from the gradient; the options are Adam's."""

    def __init__(self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused, decoupled_weight_decay=True)
