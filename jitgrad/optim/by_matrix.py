"""Optimizers that treat a parameter as a matrix: Muon, Adafactor."""

import math
from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Optimizer, Params, count_step, is_on, options

State = dict[str, Any]
Coefficients = tuple[float, float, float]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _number(lr: Any) -> Any:
    return lr.item() if isinstance(lr, Tensor) else lr


def _require_rate(lr: Any) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    _require(bool(lr >= 0.0), f"Learning rate should be >= 0 but is: {lr}")


def _orthogonalized(grad: Any, coefficients: Coefficients, steps: int, eps: float) -> Any:
    """Nearly the orthogonal matrix nearest to a gradient, in bfloat16: a polynomial of its singular values, repeated.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """
    a, b, c = coefficients
    tall = grad.shape[0] > grad.shape[1]
    x = grad.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = jitgrad.addmm(x, jitgrad.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(Optimizer):
    """Momentum whose every step is made orthogonal: p <- p * (1 - lr * weight_decay) - lr * ratio * orthogonal(m).

    For the weights of hidden layers, which are matrices; another optimizer is for the rest.

    Args:
        params: matrices, named matrices, or groups of them.
        lr: learning rate.
        weight_decay: what share of lr times a parameter is taken off it at each step.
        momentum: how much of the running mean of the gradient stays.
        nesterov: look ahead by the momentum.
        ns_coefficients: of the polynomial x, x^3, x^5 of the singular values.
        eps: keeps the norm from 0.
        ns_steps: how often the polynomial is applied, below 100.
        adjust_lr_fn: ratio by sizes (A, B): "original" (the default), sqrt(max(1, A / B)), or "match_rms_adamw",
            0.2 sqrt(max(A, B)).

    Raises:
        ValueError: an option out of range, or a parameter that is no matrix.
    """

    def __init__(self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Coefficients = (3.4445, -4.7750, 2.0315), eps: float = 1e-7,
                 ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:
        given = options(locals())
        _require_rate(lr)
        _require(momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        _require(weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        _require(adjust_lr_fn in (None, "original", "match_rms_adamw"),
                 f"Adjust learning rate function {adjust_lr_fn} is not supported")
        _require(ns_steps < 100, "Number of steps must be less than 100 for computational efficiency")
        _require(len(ns_coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
        super().__init__(params, given)
        for group in self.param_groups:
            for p in group["params"]:
                _require(p.ndim == 2, "Muon only supports 2D parameters whereas we found a parameter with size: "
                                      f"{p.shape}")

    def _new_state(self, p: Tensor, group: Group) -> State:
        return {"momentum_buffer": jitgrad.zeros_like(p)}

    def _update(self, group: Group) -> None:
        lr, momentum = _number(group["lr"]), group["momentum"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                mean = self._state_of(p, group)["momentum_buffer"]
                mean.lerp_(grad, 1 - momentum)
                update = grad.lerp(mean, momentum) if group["nesterov"] else mean
                update = _orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                rows, columns = p.shape[0], p.shape[1]
                if group["adjust_lr_fn"] == "match_rms_adamw":
                    ratio = 0.2 * math.sqrt(max(rows, columns))
                else:
                    ratio = math.sqrt(max(1, rows / columns))
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(update.to(p.dtype), alpha=-lr * ratio)


class Adafactor(Optimizer):
    """Adam without momentum, whose squares of gradients are kept as a row and a column of a matrix.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: the largest learning rate; at step t it is no more than 1 / sqrt(t), times the parameter's size.
        beta2_decay: t^beta2_decay is the share of step t in the running means of squares.
        eps: below what squares are not taken (None: the dtype's rounding), and the smallest size of a parameter.
        d: how many times larger than usual an update may be.
        weight_decay: what share of lr times a parameter is taken off it at each step.
        foreach: accepted for torch's sake.
        maximize: go uphill.

    Raises:
        ValueError: an option out of range.

    Source: Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", ICML 2018.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:
        given = options(locals())
        _require_rate(lr)
        _require(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        _require(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        _require(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        _require(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        _require(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, given)

    def _new_state(self, p: Tensor, group: Group) -> State:
        step = jitgrad.tensor(0.0)
        if p.dim() <= 1:
            return {"step": step, "variance": jitgrad.zeros_like(p)}
        *lead, rows, columns = p.shape
        how = {"dtype": p.dtype, "device": p.device}
        return {"step": step, "row_var": jitgrad.zeros(*lead, rows, 1, **how),
                "col_var": jitgrad.zeros(*lead, 1, columns, **how)}

    def _update(self, group: Group) -> None:
        lr, (eps1, eps2) = _number(group["lr"]), group["eps"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                count_step(state["step"])
                t = state["step"].item()
                smallest = jitgrad.finfo(p.dtype).eps if eps1 is None else eps1
                rate = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / t ** 0.5)
                if is_on(group["weight_decay"]):
                    p.mul_(1 - lr * group["weight_decay"])
                if group["maximize"]:
                    grad = -grad
                update = _scaled(grad, state, t ** group["beta2_decay"], smallest)
                size = update.norm(2).item() / (update.numel() ** 0.5 * group["d"])
                p.add_(update, alpha=-rate / max(1.0, size))


def _scaled(grad: Any, state: State, share: Any, smallest: Any) -> Any:
    """A gradient by the root of the running mean of its squares, of which a share is new."""
    if grad.dim() > 1:
        rows, columns = state["row_var"], state["col_var"]
        rows.lerp_(grad.square().mean(-1, keepdim=True), share)
        columns.lerp_(grad.square().mean(-2, keepdim=True), share)
        estimate = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=smallest)
    else:
        estimate = state["variance"]
        estimate.lerp_(grad * grad, share)
    return grad * estimate.clamp(min=smallest * smallest).rsqrt()
