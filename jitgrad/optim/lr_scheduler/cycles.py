"""Schedules that go up and down, of momentum too.

Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017; Smith, "Cyclical
Learning Rates for Training Neural Networks", 2017; Smith and Topin, "Super-Convergence", 2018.
"""

import math
import types
from collections.abc import Callable
from typing import Any

from jitgrad.optim.lr_scheduler.schedules import LRScheduler, Rate, _set_rate
from jitgrad.optim.optimizer import Group, Optimizer


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group. ValueError for a list of another length."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
                         f"values, param_groups has {groups}.")
    return list(value)


def _set_momentum(group: Group, value: float, beta: bool) -> None:
    """Write momentum, or the first of "betas"."""
    if beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the initial rate down to eta_min along half a cosine, again and again.

    Args:
        optimizer: whose rates are set.
        T_0: epochs until the first restart.
        T_mult: how many times longer each run is than the one before.
        eta_min: the smallest rate.
        last_epoch: -1 to start, or the epoch to go on after.

    Raises:
        ValueError: T_0 or T_mult is no positive int, eta_min no number.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> list[Rate]:
        """The rates T_cur epochs after a restart, of a run of T_i epochs."""
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may lie between two. ValueError for a negative one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch  # type: ignore[assignment]
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0  # type: ignore[assignment]
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult ** n
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        self._set(self.get_lr())


class _WithMomentum(LRScheduler):
    """A schedule that moves momentum against the rate."""

    use_beta1: bool

    def _begin_momentum(self, optimizer: Optimizer, base: Any, largest: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = _per_group("base_momentum", optimizer, base)
        self.max_momentums = _per_group("max_momentum", optimizer, largest)
        if last_epoch == -1:
            for high, low, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True):
                _set_momentum(group, high, self.use_beta1)
                group["max_momentum"], group["base_momentum"] = high, low


class CyclicLR(_WithMomentum):
    """Up from base_lr to max_lr and down again, step by step; call `step` after each batch.

    Args:
        optimizer: whose rates are set.
        base_lr, max_lr: the bounds, or lists with one per group.
        step_size_up, step_size_down: steps of each half.
        mode: "triangular", "triangular2" (half as high each time) or "exp_range" (gamma^step times as high).
        gamma: of "exp_range".
        scale_fn: a height of one's own, of the cycle's number or the step's.
        scale_mode: "cycle" or "iterations": which of the two.
        cycle_momentum: move momentum (or beta1) between its bounds the other way round.
        base_momentum, max_momentum: the bounds.
        last_epoch: -1 to start, or the step to go on after.

    Raises:
        TypeError: the optimizer is none.
        ValueError: an unknown mode, or an optimizer without momentum.
    """

    def __init__(self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
                 step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular",
                 gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: float = 0.8, max_momentum: float = 0.9,
                 last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                _set_rate(group, rate)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (float(step_size_down) if step_size_down is not None else up)
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle, or step, x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else float(self.gamma ** x)

    def _next_rates(self) -> list[Rate]:
        """The rates of this step; momentum is set as well."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups,
                                        strict=True):
                _set_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a height of one's own only where it is an object, by its attributes."""
        state = super().state_dict()
        fn = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the function stays."""
        saved = state_dict.get("_scale_fn_custom")
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(_WithMomentum):
    """From max_lr / div_factor up to max_lr and far down, in `total_steps` steps; call `step` after each batch.

    Args:
        optimizer: whose rates are set.
        max_lr: the largest rate, or a list with one per group.
        total_steps: how many steps there are; or epochs * steps_per_epoch.
        epochs, steps_per_epoch: instead of total_steps.
        pct_start: the share of the steps that go up.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move momentum (or beta1) the other way round.
        base_momentum, max_momentum: its bounds.
        div_factor: max_lr over the first rate.
        final_div_factor: the first rate over the last.
        three_phase: come down to the first rate as slowly as it went up, then to the last.
        last_epoch: -1 to start, or the step to go on after.

    Raises:
        TypeError: the optimizer is none.
        ValueError: no number of steps, a pct_start outside of [0, 1], an unknown strategy, an optimizer without
            momentum; in `step`: more steps than there are.
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float | list[float] = 0.85,
                 max_momentum: float | list[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        turn, last = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        phases = [(turn, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            back = float(2 * pct_start * self.total_steps) - 2
            phases += [(back, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                       (last, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            phases += [(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(names, phase, strict=True)) for phase in phases]
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for high, group in zip(_per_group("max_lr", optimizer, max_lr), optimizer.param_groups, strict=True):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(optimizer, base_momentum, max_momentum, last_epoch)
            del self.base_momentums, self.max_momentums  # the groups have them
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def _next_rates(self) -> list[Rate]:
        """The rates of this step; momentum is set as well."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                return self._rates(phase, (step - start) / (phase["end_step"] - start))
            start = phase["end_step"]
        raise AssertionError("a schedule has a last phase")

    def _rates(self, phase: dict[str, Any], share: float) -> list[Rate]:
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, momentum, self.use_beta1)
        return rates


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch
