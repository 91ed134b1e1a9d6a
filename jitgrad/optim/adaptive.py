"""Optimizers with a rate per element: Adagrad, Adadelta, RMSprop."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Optimizer, Params, is_on, require_at_least_zero, require_modes, require_rate


def number(rate: Any) -> Any:
    """A learning rate as a number."""
    return rate.item() if isinstance(rate, Tensor) else rate


def direction(group: Group, p: Tensor, grad: Tensor) -> Tensor:
    """The gradient, turned round where the group maximises, plus the L2 penalty's."""
    if group["maximize"]:
        grad = -grad
    if is_on(group["weight_decay"]):
        grad = grad.add(p, alpha=group["weight_decay"])
    return grad


class Adagrad(Optimizer):
    """p <- p - lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps), with s the sum of the gradients' squares.

    Source: Duchi et al., "Adaptive Subgradient Methods", JMLR 2011.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate.
        lr_decay: how fast the rate falls with the steps.
        weight_decay: strength of the L2 penalty.
        initial_accumulator_value: what s starts from.
        eps: keeps the divisor from 0.
        maximize: go uphill.
        foreach, fused: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative option.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        require_rate(lr)
        require_at_least_zero("lr_decay value", lr_decay)
        require_at_least_zero("weight_decay value", weight_decay)
        require_at_least_zero("initial_accumulator_value value", initial_accumulator_value)
        require_at_least_zero("epsilon value", eps)
        require_modes(foreach, fused, differentiable)
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "fused": fused})

    def share_memory(self) -> None:
        """Nothing: memory is not shared between processes."""

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"step": jitgrad.tensor(0.0), "sum": jitgrad.full_like(p, self.defaults["initial_accumulator_value"])}

    def _update(self, group: Group) -> None:
        lr = number(group["lr"])
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                grad = direction(group, p, grad)
                state["step"].add_(1)
                total = state["sum"]
                total.addcmul_(grad, grad)
                rate = lr / (1 + (state["step"].item() - 1) * group["lr_decay"])
                p.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-rate)


class Adadelta(Optimizer):
    """p <- p - lr * sqrt(d + eps) / sqrt(v + eps) * g, with v and d running means of squares of g and of the changes.

    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: a factor on every change.
        rho: how much of the running means stays.
        eps: under both roots.
        weight_decay: strength of the L2 penalty.
        maximize: go uphill.
        foreach, capturable: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative option, or rho above 1.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False) -> None:
        require_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        require_at_least_zero("epsilon value", eps)
        require_at_least_zero("weight_decay value", weight_decay)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        return {"step": jitgrad.tensor(0.0), "square_avg": jitgrad.zeros_like(p), "acc_delta": jitgrad.zeros_like(p)}

    def _update(self, group: Group) -> None:
        lr, rho, eps = number(group["lr"]), group["rho"], group["eps"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                grad = direction(group, p, grad)
                square, changes = state["square_avg"], state["acc_delta"]
                square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
                delta = changes.add(eps).sqrt_() / square.add(eps).sqrt_() * grad
                changes.mul_(rho).addcmul_(delta, delta, value=1 - rho)
                p.add_(delta, alpha=-lr)


class RMSprop(Optimizer):
    """p <- p - lr * g / (sqrt(v) + eps), with v the running mean of the gradient's square (centered: its variance).

    Source: Hinton, lecture 6e of "Neural Networks for Machine Learning", 2012; `centered`: Graves, "Generating
    Sequences With Recurrent Neural Networks", 2013.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate.
        alpha: how much of the running mean stays.
        eps: keeps the divisor from 0.
        weight_decay: strength of the L2 penalty.
        momentum: how much of the last change is made again.
        centered: subtract the square of the gradient's running mean.
        maximize: go uphill.
        capturable, foreach: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative option.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:
        require_rate(lr)
        require_at_least_zero("epsilon value", eps)
        require_at_least_zero("momentum value", momentum)
        require_at_least_zero("weight_decay value", weight_decay)
        require_at_least_zero("alpha value", alpha)
        require_modes(foreach, None, differentiable)
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable})

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        state: dict[str, Any] = {}
        state["step"] = jitgrad.tensor(0.0)
        state["square_avg"] = jitgrad.zeros_like(p)
        if is_on(group["momentum"]):
            state["momentum_buffer"] = jitgrad.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = jitgrad.zeros_like(p)
        return state

    def _update(self, group: Group) -> None:
        lr, alpha, momentum = number(group["lr"]), group["alpha"], group["momentum"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                state["step"].add_(1)
                grad = direction(group, p, grad)
                square = state["square_avg"]
                square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
                if group["centered"]:
                    mean = state["grad_avg"]
                    mean.lerp_(grad, 1 - alpha)
                    square = square.addcmul(mean, mean, value=-1)
                divisor = square.sqrt().add_(group["eps"])
                if is_on(momentum):
                    buffer = state["momentum_buffer"]
                    buffer.mul_(momentum).addcdiv_(grad, divisor)
                    p.add_(buffer, alpha=-lr)
                else:
                    p.addcdiv_(grad, divisor, value=-lr)
