"""Relatives of Adam: Adamax, NAdam, RAdam."""

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Params, options
from jitgrad.optim.per_parameter import PerParameter, State

Betas = tuple[float, float]


class Adamax(PerParameter):
    """p <- p - lr / (1 - beta1^t) * m / u, with m the gradient's running mean and u <- max(beta2 * u, |g| + eps).

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 7.

    Args:
        betas: how much of m and of u stays.
        eps: keeps u from 0.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative lr, eps or weight_decay, or betas outside of [0, 1).
    """

    _buffers = ("exp_avg", "exp_inf")

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        super().__init__(params, options(locals()))

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(jitgrad.maximum(largest * beta2, grad.abs() + group["eps"]))
        p.addcdiv_(mean, largest, value=-lr / (1 - beta1 ** state["step"].item()))


class NAdam(PerParameter):
    """Adam with Nesterov's momentum, whose strength grows with the steps.

    Source: Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016.

    Args:
        betas: how much of the running means of the gradient and of its square stays.
        eps: keeps the divisor from 0.
        momentum_decay: mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2).

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative option, or betas outside of [0, 1).
    """

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        super().__init__(params, options(locals()))

    def _new_state(self, p: Tensor, group: Group) -> State:
        return {"step": jitgrad.tensor(0.0), "mu_product": jitgrad.tensor(1.0),
                "exp_avg": jitgrad.zeros_like(p), "exp_avg_sq": jitgrad.zeros_like(p)}

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        (beta1, beta2), decay = group["betas"], group["momentum_decay"]
        t = state["step"].item()
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


class RAdam(PerParameter):
    """Adam whose adaptive rate is left out while its variance is unbounded, and corrected for it then.

    Source: Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", ICLR 2020.

    Args:
        betas: how much of the running means of the gradient and of its square stays.
        eps: keeps the divisor from 0.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative lr, eps or weight_decay, or betas outside of [0, 1).
    """

    _buffers = ("exp_avg", "exp_avg_sq")

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        super().__init__(params, options(locals()))

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        beta1, beta2 = group["betas"]
        longest = 2 / (1 - beta2) - 1  # of the approximated moving average
        t = state["step"].item()
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
