"""Averages of a model's parameters over the course of training."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import jitgrad
from jitgrad import Tensor
from jitgrad.nn import Module

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """averaged * decay + current * (1 - decay). ValueError for a decay outside of [0, 1]."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        return averaged * decay + current * (1 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """The mean of all so far."""
    def average(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        moved: Tensor = averaged + (current - averaged) / (number + 1)
        return moved

    return average


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's; call `update_parameters` after each step.

    Source: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    Args:
        model: what is averaged.
        avg_fn: (averaged, current, how many so far) -> averaged; the mean by default.
        use_buffers: average the buffers too; else they are copied.

    Attributes:
        module: the copy.
        n_averaged: int64 (): how many models are in the average.
    """

    n_averaged: Tensor

    def __init__(self, model: Module, device: Any = None, avg_fn: Average | None = None, use_buffers: bool = False):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", jitgrad.tensor(0))
        self.avg_fn = get_swa_avg_fn() if avg_fn is None else avg_fn
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
            for averaged, current in self._averaged(model):
                averaged.copy_(current if first else self.avg_fn(averaged, current, self.n_averaged))
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
