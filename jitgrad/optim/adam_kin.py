"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.adaptive import direction, number
from jitgrad.optim.optimizer import Group, Optimizer, Params, is_on, require_at_least_zero, require_modes, require_rate

Betas = tuple[float, float]


def _require(lr: Any, betas: Any, eps: float, weight_decay: float) -> None:
    require_rate(lr)
    require_at_least_zero("epsilon value", eps)
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    require_at_least_zero("weight_decay value", weight_decay)


def _decayed(group: Group, p: Tensor, grad: Tensor, lr: float) -> Tensor:
    """`direction`, or with decoupled weight decay p <- p * (1 - lr * weight_decay) and the gradient alone."""
    if not group["decoupled_weight_decay"]:
        return direction(group, p, grad)
    if is_on(group["weight_decay"]):
        p.mul_(1 - lr * group["weight_decay"])
    return -grad if group["maximize"] else grad


class Adamax(Optimizer):
    """p <- p - lr / (1 - beta1^t) * m / u, with m the gradient's running mean and u <- max(beta2 * u, |g| + eps).

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 7.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate.
        betas: how much of m and of u stays.
        eps: keeps u from 0.
        weight_decay: strength of the L2 penalty.
        maximize: go uphill.
        foreach, capturable: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative lr, eps or weight_decay, or betas outside of [0, 1).
    """

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        _require(lr, betas, eps, weight_decay)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"step": jitgrad.tensor(0.0), "exp_avg": jitgrad.zeros_like(p), "exp_inf": jitgrad.zeros_like(p)}

    def _update(self, group: Group) -> None:
        lr, (beta1, beta2) = number(group["lr"]), group["betas"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                grad = direction(group, p, grad)
                mean, largest = state["exp_avg"], state["exp_inf"]
                mean.lerp_(grad, 1 - beta1)
                largest.copy_(jitgrad.maximum(largest * beta2, grad.abs() + group["eps"]))
                p.addcdiv_(mean, largest, value=-lr / (1 - beta1 ** state["step"].item()))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, whose strength grows with the steps.

    Source: Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate.
        betas: how much of the running means of the gradient and of its square stays.
        eps: keeps the divisor from 0.
        weight_decay: strength of the L2 penalty.
        momentum_decay: mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2).
        decoupled_weight_decay: shrink the parameters by lr * weight_decay instead, as AdamW.
        maximize: go uphill.
        foreach, capturable: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative option, or betas outside of [0, 1).
    """

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        _require(lr, betas, eps, weight_decay)
        require_at_least_zero("momentum_decay value", momentum_decay)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable,
                                  "differentiable": differentiable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"step": jitgrad.tensor(0.0), "mu_product": jitgrad.tensor(1.0),
                "exp_avg": jitgrad.zeros_like(p), "exp_avg_sq": jitgrad.zeros_like(p)}

    def _update(self, group: Group) -> None:
        lr, (beta1, beta2), decay = number(group["lr"]), group["betas"], group["momentum_decay"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                t = state["step"].item()
                grad = _decayed(group, p, grad, lr)
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * decay))
                following = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * decay))
                state["mu_product"].mul_(mu)
                product = state["mu_product"].item()
                mean.lerp_(grad, 1 - beta1)
                square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                divisor = square.div(1 - beta2 ** t).sqrt_().add_(group["eps"])
                p.addcdiv_(grad, divisor, value=-lr * (1.0 - mu) / (1.0 - product))
                p.addcdiv_(mean, divisor, value=-lr * following / (1.0 - product * following))


class RAdam(Optimizer):
    """Adam whose adaptive rate is left out while its variance is unbounded, and corrected for it then.

    Source: Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", ICLR 2020.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate.
        betas: how much of the running means of the gradient and of its square stays.
        eps: keeps the divisor from 0.
        weight_decay: strength of the L2 penalty.
        decoupled_weight_decay: shrink the parameters by lr * weight_decay instead, as AdamW.
        maximize: go uphill.
        foreach, capturable: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative lr, eps or weight_decay, or betas outside of [0, 1).
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        _require(lr, betas, eps, weight_decay)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable,
                                  "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"step": jitgrad.tensor(0.0), "exp_avg": jitgrad.zeros_like(p), "exp_avg_sq": jitgrad.zeros_like(p)}

    def _update(self, group: Group) -> None:
        lr, (beta1, beta2) = number(group["lr"]), group["betas"]
        longest = 2 / (1 - beta2) - 1  # of the approximated moving average
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                t = state["step"].item()
                grad = _decayed(group, p, grad, lr)
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mean.lerp_(grad, 1 - beta1)
                square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                correction = 1 - beta2 ** t
                length = longest - 2 * t * beta2 ** t / correction
                rate = lr / (1 - beta1 ** t)
                if length > 5.0:
                    rectified = ((length - 4) * (length - 2) * longest
                                 / ((longest - 4) * (longest - 2) * length)) ** 0.5
                    p.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-rate * rectified * correction ** 0.5)
                else:
                    p.add_(mean, alpha=-rate)
