"""Adam and AdamW."""

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.ops.library.foreach import adam_
from jitgrad.optim.optimizer import Group, Optimizer, Params, count_step, is_on, options, require_options

Betas = tuple[float | Tensor, float | Tensor]


class Adam(Optimizer):
    """p <- p - lr * m / (sqrt(v) + eps), with m and v running means of the gradient and of its square.

    m <- beta1 * m + (1 - beta1) * g, divided by 1 - beta1^t at step t since it started from 0; v likewise with beta2.
    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015; `amsgrad`: Reddi et al., "On the
    Convergence of Adam and Beyond", ICLR 2018.

    Args:
        params: tensors, named tensors, or groups of them.
        lr: learning rate; a tensor of one element may be changed in place.
        betas: how much of the two running means stays.
        eps: keeps the divisor from 0.
        weight_decay: strength of the L2 penalty, added to the gradient.
        amsgrad: divide by the largest v so far.
        maximize: go uphill.
        foreach, capturable, fused: accepted for torch's sake; one implementation serves all.
        differentiable: must be False.
        decoupled_weight_decay: shrink the parameters by lr * weight_decay instead, as AdamW.

    Raises:
        ValueError: a negative lr, eps or weight_decay, or betas outside of [0, 1).
    """

    _takes_complex = True

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:
        defaults = options(locals())
        require_options(defaults)
        kinds = [isinstance(b, Tensor) for b in betas]
        if kinds[0] != kinds[1] or not all(isinstance(b, (float, Tensor)) for b in betas):
            raise ValueError("betas must be either both floats or both Tensors")
        defaults["betas"] = (float(betas[0]), float(betas[1]))
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("amsgrad", False), ("maximize", False), ("foreach", None), ("capturable", False),
                                  ("differentiable", False), ("decoupled_weight_decay", False), ("fused", None)):
                group.setdefault(name, default)
            for p in group["params"]:
                own = self.state.get(p)
                if own and not isinstance(own["step"], Tensor):  # saved before step counts were tensors
                    own["step"] = jitgrad.tensor(float(own["step"]))

    def _new_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        state = {"step": jitgrad.tensor(0.0), "exp_avg": jitgrad.zeros_like(p), "exp_avg_sq": jitgrad.zeros_like(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = jitgrad.zeros_like(p)
        return state

    def _update(self, group: Group) -> None:
        lr, weight_decay = group["lr"], group["weight_decay"]
        decays, apart = is_on(weight_decay), group["decoupled_weight_decay"]
        shrink = 1 - lr * weight_decay if decays and apart else 1.0
        decay = weight_decay if decays and not apart else None
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                # nearly always there: a script need not go into a function for each parameter
                state = self.state[p] if p in self.state else self._state_of(p, group)
                count_step(state["step"])
                adam_(p, -grad if group["maximize"] else grad, state["exp_avg"], state["exp_avg_sq"],
                      state["max_exp_avg_sq"] if group["amsgrad"] else None, state["step"].item(), lr, group["betas"],
                      group["eps"], shrink, decay)


class AdamW(Adam):
    """Adam with decoupled weight decay: p <- p * (1 - lr * weight_decay) before each of Adam's steps.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019. Arguments as Adam's.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
