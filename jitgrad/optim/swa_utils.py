"""Averages of a model's parameters over the course of training."""

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.nn import Module
from jitgrad.optim.lr_scheduler import LRScheduler
from jitgrad.optim.optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
#: writes averages of many parameters at once
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def _require_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """averaged * decay + current * (1 - decay). ValueError for a decay outside of [0, 1]."""
    _require_decay(decay)

    def average(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        return averaged * decay + current * (1 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """The mean of all so far."""
    def average(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        moved: Tensor = averaged + (current - averaged) / (number + 1)
        return moved

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` of many parameters, in place."""
    _require_decay(decay)
    return lambda averaged, current, number: _move(averaged, current, 1 - decay)


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` of many parameters, in place."""
    return lambda averaged, current, number: _move(averaged, current, 1 / (number + 1))


def _move(averaged: list[Tensor], current: list[Tensor], by: Any) -> None:
    for a, b in zip(averaged, current, strict=True):
        a.lerp_(b, by)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's; call `update_parameters` after each step.

    Source: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    Args:
        model: what is averaged.
        avg_fn: (averaged, current, how many so far) -> averaged; the mean by default.
        multi_avg_fn: in place of that, writes to the first of two lists of parameters.
        use_buffers: average the buffers too; else they are copied.

    Attributes:
        module: the copy.
        n_averaged: int64 (): how many models are in the average.
    """

    n_averaged: Tensor

    def __init__(self, model: Module, device: Any = None, avg_fn: Average | None = None,
                 multi_avg_fn: Averages | None = None, use_buffers: bool = False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", jitgrad.tensor(0))
        self.avg_fn = get_swa_avg_fn() if avg_fn is None else avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The copy's."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[tuple[Tensor, Tensor]]:
        ours, theirs = list(self.module.parameters()), list(model.parameters())
        if self.use_buffers:
            ours += self.module.buffers()  # type: ignore[arg-type]
            theirs += model.buffers()  # type: ignore[arg-type]
        return list(zip(ours, theirs, strict=True))

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the average; the first time they are copied."""
        first = int(self.n_averaged) == 0
        with jitgrad.no_grad():
            pairs = self._averaged(model)
            if first:
                for averaged, current in pairs:
                    averaged.copy_(current)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn([a for a, _ in pairs], [b for _, b in pairs], self.n_averaged)
            else:
                for averaged, current in pairs:
                    averaged.copy_(self.avg_fn(averaged, current, self.n_averaged))
            if not self.use_buffers:
                for b, given in zip(self.module.buffers(), model.buffers(), strict=True):
                    b.copy_(given)
            self.n_averaged.add_(1)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Run the model over a loader's inputs to find the running statistics of its batch norms anew."""
    norms = [m for m in model.modules() if hasattr(m, "running_mean") and m.running_mean is not None]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with jitgrad.no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From each group's rate to `swa_lr` in `anneal_epochs` epochs, where it stays.

    Args:
        swa_lr: the last rate, one for all groups or a list with one per group.
        anneal_strategy: "cos", along a cosine, or "linear".

    Raises:
        ValueError: another strategy, a negative number of epochs, a list of another length.
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"swa_lr must have the same length as optimizer.param_groups: swa_lr has {len(rates)}, "
                             f"optimizer.param_groups has {len(groups)}")
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the rate is `swa_lr`."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _next_rates(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        found = []
        for group in self.optimizer.param_groups:
            last, rate = group["swa_lr"], group["lr"]
            first = last if before == 1 else (rate - before * last) / (1 - before)
            found.append(last * now + first * (1 - now))
        return found
