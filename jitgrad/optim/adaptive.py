"""Optimizers with a rate per element: Adagrad, Adadelta, RMSprop, Rprop."""

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Params, is_on, options, require_at_least_zero
from jitgrad.optim.per_parameter import PerParameter, State


class Adagrad(PerParameter):
    """p <- p - lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps), with s the sum of the gradients' squares.

    Source: Duchi et al., "Adaptive Subgradient Methods", JMLR 2011.

    Args:
        lr_decay: how fast the rate falls with the steps.
        initial_accumulator_value: what s starts from.
        eps: keeps the divisor from 0.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative option.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, options(locals()))

    def share_memory(self) -> None:
        """Move the sums of squares to memory that processes share (`Tensor.share_memory_`)."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _new_state(self, p: Tensor, group: Group) -> State:
        return {"step": jitgrad.tensor(0.0), "sum": jitgrad.full_like(p, self.defaults["initial_accumulator_value"])}

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        total = state["sum"]
        total.addcmul_(grad, grad)
        rate = lr / (1 + (state["step"].item() - 1) * group["lr_decay"])
        p.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-rate)


class Adadelta(PerParameter):
    """p <- p - lr * sqrt(d + eps) / sqrt(v + eps) * g, with v and d running means of squares of g and of the changes.

    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.

    Args:
        lr: a factor on every change.
        rho: how much of the running means stays.
        eps: under both roots.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative option, or rho above 1.
    """

    _buffers = ("square_avg", "acc_delta")

    def __init__(self, params: Params, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, options(locals()))

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        rho, eps = group["rho"], group["eps"]
        square, changes = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = changes.add(eps).sqrt_() / square.add(eps).sqrt_() * grad
        changes.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-lr)


class RMSprop(PerParameter):
    """p <- p - lr * g / (sqrt(v) + eps), with v the running mean of the gradient's square (centered: its variance).

    Source: Hinton, lecture 6e of "Neural Networks for Machine Learning", 2012; `centered`: Graves, "Generating
    Sequences With Recurrent Neural Networks", 2013.

    Args:
        alpha: how much of the running mean stays.
        eps: keeps the divisor from 0.
        momentum: how much of the last change is made again.
        centered: subtract the square of the gradient's running mean.

    The others are `PerParameter`'s.

    Raises:
        ValueError: a negative option.
    """

    _buffers = ("square_avg",)

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:
        require_at_least_zero("alpha value", alpha)
        super().__init__(params, options(locals()))

    def _new_state(self, p: Tensor, group: Group) -> State:
        state = super()._new_state(p, group)
        if is_on(group["momentum"]):
            state["momentum_buffer"] = jitgrad.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = jitgrad.zeros_like(p)
        return state

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        alpha, momentum = group["alpha"], group["momentum"]
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
        super().__init__(params, options(locals()))

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
