"""Stochastic gradient descent, plain and averaged."""

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Optimizer, Params, is_on, options, require_options
from jitgrad.optim.per_parameter import PerParameter, State


class SGD(Optimizer):
    """p <- p - lr * d, with d the gradient g + weight_decay * p, or with momentum a running sum of gradients.

    b <- g at a parameter's first step, momentum * b + (1 - dampening) * g afterwards; d = b, with `nesterov`
    g + momentum * b.
    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013, in torch's
    form, where the learning rate is outside of b.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate; a tensor of one element may be changed in place.
        momentum: how much of b stays.
        dampening: how much of a later gradient does not enter b.
        weight_decay: strength of the L2 penalty.
        nesterov: look ahead; needs a momentum, and no dampening.
        maximize: go uphill.
        foreach, fused: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.

    Raises:
        ValueError: a negative lr, momentum or weight_decay; `nesterov` without momentum or with dampening.
    """

    _takes_complex = True

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        defaults = options(locals())
        require_options(defaults)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        self._undamped: dict[Tensor, Tensor] = {}  # 1 before a parameter's first step, then 0
        super().__init__(params, defaults)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_undamped": self._undamped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._undamped = {}  # what was saved with its state has begun
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("nesterov", False), ("maximize", False), ("foreach", None),
                                  ("differentiable", False), ("fused", False)):
                group.setdefault(name, default)

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        if not is_on(group["momentum"]):
            return {}
        state = {"momentum_buffer": jitgrad.zeros_like(p)}  # momentum * 0 + grad is the first gradient
        if group["dampening"] != 0:
            self._undamped[p] = jitgrad.tensor(1.0, dtype=p.dtype)  # the first gradient is not damped
        return state

    def _update(self, group: Group) -> None:
        lr, weight_decay = group["lr"], group["weight_decay"]
        momentum, dampening = group["momentum"], group["dampening"]
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                if group["maximize"]:
                    grad = -grad
                if is_on(weight_decay):
                    grad = grad.add(p, alpha=weight_decay)
                if is_on(momentum):
                    state = self._state_of(p, group)
                    buffer = state.get("momentum_buffer")
                    if buffer is None:  # momentum was switched on after the parameter was added
                        buffer = grad.clone()
                        self.state[p]["momentum_buffer"] = buffer
                    elif p in self._undamped:
                        buffer.mul_(momentum).add_(grad * (1 - dampening * (1 - self._undamped[p])))
                        self._undamped[p].zero_()
                    else:
                        buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
                    grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
                if isinstance(lr, Tensor):
                    p.sub_(grad * lr)
                else:
                    p.sub_(grad, alpha=lr)


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
        super().__init__(params, options(locals()))

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
