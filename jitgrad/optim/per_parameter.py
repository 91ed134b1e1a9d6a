"""What the optimizers share that treat every parameter by itself and count its steps."""

from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.optim.optimizer import Group, Optimizer, Params, count_step, is_on, require_options

State = dict[str, Any]


class PerParameter(Optimizer):
    """An optimizer whose subclass says in `_change` what a step does to one parameter.

    Args:
        params: tensors, named tensors, or groups of them.
        options: those of the subclass; these mean the same everywhere:
            lr: learning rate.
            weight_decay: strength of the L2 penalty.
            decoupled_weight_decay: shrink the parameters by lr * weight_decay instead, as AdamW.
            maximize: go uphill.
            foreach, capturable, fused: accepted for torch's sake; one implementation serves all.
            differentiable: must be False.
    """

    #: what a parameter's state has besides the number of its steps, 0 at the start
    _buffers: tuple[str, ...] = ()

    def __init__(self, params: Params, options: dict[str, Any]) -> None:
        require_options(options)
        super().__init__(params, options)

    def _new_state(self, p: Tensor, group: Group) -> State:
        return {"step": jitgrad.tensor(0.0), **{name: jitgrad.zeros_like(p) for name in self._buffers}}

    def _update(self, group: Group) -> None:
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        decay = group.get("weight_decay", 0)
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self._state_of(p, group)
                count_step(state["step"])
                if group["maximize"]:
                    grad = -grad
                if is_on(decay):
                    if group.get("decoupled_weight_decay", False):
                        p.mul_(1 - lr * decay)
                    else:
                        grad = grad.add(p, alpha=decay)
                self._change(p, grad, state, group, lr)

    def _change(self, p: Tensor, grad: Tensor, state: State, group: Group, lr: Any) -> None:
        """One step of a parameter: `grad` has the L2 penalty in it, `lr` is a number."""
        raise NotImplementedError
