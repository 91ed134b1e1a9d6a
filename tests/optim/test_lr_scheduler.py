"""Schedules against torch: rates, combinations, closed forms, saving, warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.optim import SGD, Adam, lr_scheduler

torch = pytest.importorskip("torch")

SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9 ** epoch}), ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("StepLR", {"step_size": 1}), ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}),
    ("ExponentialLR", {"gamma": 0.8}), ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.01}),
    ("CosineAnnealingLR", {"T_max": 1}), ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 7}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95 if epoch % 2 else 1.01}), ("ConstantLR", {"total_iters": 4}),
    ("PolynomialLR", {"total_iters": 9, "power": 2.0}),
]
NAMES = [f"{name}-{i}" for i, (name, _) in enumerate(SCHEDULES)]


def optimizer_of(lib: Any, lr: Any = 0.1) -> Any:
    p, q = lib.ones(1, requires_grad=True), lib.ones(1, requires_grad=True)
    return lib.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.7}], lr=lr)


def rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def run(optimizer: Any, *schedulers: Any, epochs: int = 25) -> list[list[float]]:
    seen = [rates(optimizer)]
    for _ in range(epochs):
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        seen.append(rates(optimizer))
    return seen


def make(lib: Any, optimizer: Any, name: str, options: dict[str, Any], **more: Any) -> Any:
    return getattr(lib.optim.lr_scheduler, name)(optimizer, **options, **more)


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=NAMES)
def test_rates(name: str, options: dict[str, Any]) -> None:
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        seen.append(run(optimizer, make(lib, optimizer, name, options)))
    assert seen[0] == seen[1]  # the same arithmetic, so to the last bit


@pytest.mark.parametrize("first", SCHEDULES, ids=NAMES)
def test_two_at_once(first: tuple[str, dict[str, Any]]) -> None:
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        pair = [make(lib, optimizer, *first), make(lib, optimizer, "ExponentialLR", {"gamma": 0.95})]
        seen.append(run(optimizer, *pair))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=NAMES)
def test_a_given_epoch_has_the_closed_form(name: str, options: dict[str, Any]) -> None:
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        scheduler = make(lib, optimizer, name, options)
        optimizer.step()
        for epoch in (1, 4, 9, 2):
            with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
                scheduler.step(epoch)
            seen.append((epoch, rates(optimizer), scheduler.last_epoch))
    assert seen[:4] == seen[4:]


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=NAMES)
def test_saved_and_loaded_it_goes_on(name: str, options: dict[str, Any]) -> None:
    optimizer, other = optimizer_of(jitgrad), optimizer_of(jitgrad)
    scheduler = make(jitgrad, optimizer, name, options)
    run(optimizer, scheduler, epochs=4)
    resumed = make(jitgrad, other, name, options)
    resumed.load_state_dict(scheduler.state_dict())
    other.load_state_dict(optimizer.state_dict())
    assert run(optimizer, scheduler, epochs=6) == run(other, resumed, epochs=6)
    reference = optimizer_of(torch)
    assert set(scheduler.state_dict()) >= set(make(torch, reference, name, options).state_dict()) - {"_is_initial"}


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=NAMES)
def test_resumed_after_an_epoch(name: str, options: dict[str, Any]) -> None:
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
            make(lib, optimizer, name, options, last_epoch=3)
        for group in optimizer.param_groups:
            group["initial_lr"] = 2 * group["lr"]
        seen.append(run(optimizer, make(lib, optimizer, name, options, last_epoch=3), epochs=8))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("name", "options"), SCHEDULES[:4], ids=NAMES[:4])
def test_a_rate_that_is_a_tensor_is_written_in_place(name: str, options: dict[str, Any]) -> None:
    rate = jitgrad.tensor(0.1, dtype=jitgrad.float64)
    optimizer, reference = optimizer_of(jitgrad, rate), optimizer_of(torch, torch.tensor(0.1, dtype=torch.float64))
    ours = run(optimizer, make(jitgrad, optimizer, name, options))
    np.testing.assert_allclose(ours, run(reference, make(torch, reference, name, options)), rtol=1e-12)
    assert optimizer.param_groups[0]["lr"] is rate


PLATEAUS: list[dict[str, Any]] = [
    {}, {"mode": "max", "patience": 1}, {"patience": 0, "cooldown": 3}, {"threshold_mode": "abs", "threshold": 0.05},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.1, "factor": 0.5}, {"min_lr": [0.05, 0.001], "patience": 0},
    {"patience": 0, "eps": 1e-2},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateau(options: dict[str, Any]) -> None:
    metrics = np.random.default_rng(0).random(40).round(2).tolist()
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 3, **options})
        for metric in metrics:
            scheduler.step(lib.tensor(metric))
            seen.append((rates(optimizer), scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.in_cooldown))
    assert seen[:40] == seen[40:]


def test_plateau_saved_and_loaded_goes_on() -> None:
    optimizer, other = optimizer_of(jitgrad), optimizer_of(jitgrad)
    first = lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    for _ in range(3):
        first.step(1.0)
    second = lr_scheduler.ReduceLROnPlateau(other, mode="max", patience=9)
    second.load_state_dict(first.state_dict())
    first.step(1.0)
    second.step(1.0)
    assert rates(optimizer) == rates(other) == pytest.approx([0.01, 0.07])


def test_plateau_with_a_later_group() -> None:
    optimizer = optimizer_of(jitgrad)
    one, many = (lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=m) for m in (0.0, [0.0, 0.0]))
    optimizer.add_param_group({"params": [jitgrad.ones(1, requires_grad=True)], "lr": 1.0})
    for _ in range(2):
        one.step(1.0)
    assert rates(optimizer) == pytest.approx([0.01, 0.07, 0.1])
    many.step(1.0)
    with pytest.raises(RuntimeError, match=r"The number of param groups in the `optimizer` \(3\) differs from when"):
        many.step(1.0)


ERRORS: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": [float]}), ("LinearLR", {"start_factor": 0}), ("LinearLR", {"start_factor": 1.5}),
    ("LinearLR", {"end_factor": -0.5}), ("ReduceLROnPlateau", {"factor": 1.0}), ("ReduceLROnPlateau", {"mode": "mean"}),
    ("ReduceLROnPlateau", {"threshold_mode": "x"}), ("ReduceLROnPlateau", {"min_lr": [0.1]}),
]


@pytest.mark.parametrize(("name", "options"), ERRORS, ids=str)
def test_errors_as_in_torch(name: str, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        make(torch, optimizer_of(torch), name, options)
    with pytest.raises(theirs.type) as ours:
        make(jitgrad, optimizer_of(jitgrad), name, options)
    assert str(ours.value) == str(theirs.value)


def test_no_optimizer() -> None:
    for kind in (lr_scheduler.ExponentialLR, lr_scheduler.ReduceLROnPlateau):
        with pytest.raises(TypeError, match="int is not an Optimizer"):
            kind(3, 0.5)


def test_a_schedule_before_the_first_step_warns_once() -> None:
    for make_optimizer in (lambda p: SGD(p, lr=0.1), lambda p: Adam(p)):
        optimizer = make_optimizer([jitgrad.ones(1, requires_grad=True)])
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
        with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step"):
            scheduler.step()
        scheduler.step()
        optimizer = make_optimizer([jitgrad.ones(1, requires_grad=True)])
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.step()  # counts although there is no gradient
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler.step()


def test_rates_are_asked_for_by_step_alone() -> None:
    for name, options in SCHEDULES:
        scheduler = make(jitgrad, optimizer_of(jitgrad), name, options)
        with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
            scheduler.get_lr()
        assert scheduler.get_last_lr() == rates(scheduler.optimizer)


class Decay:
    """A callable object whose attributes are saved."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, epoch: int) -> float:
        return self.rate ** epoch


def test_callable_objects_are_saved_by_their_attributes() -> None:
    scheduler = lr_scheduler.LambdaLR(optimizer_of(jitgrad), [Decay(0.5), lambda epoch: 1.0])
    saved = scheduler.state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.5}, None]
    assert "optimizer" not in saved
    other = lr_scheduler.LambdaLR(optimizer_of(jitgrad), [Decay(0.9), lambda epoch: 1.0])
    other.load_state_dict(saved)
    assert other.lr_lambdas[0](1) == 0.5
    assert saved["lr_lambdas"] == [{"rate": 0.5}, None]


CYCLES: list[tuple[str, dict[str, Any]]] = [
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": [0.1, 0.3], "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "scale_fn": lambda x: 0.5 ** x,
                  "scale_mode": "iterations", "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 26}),
    ("OneCycleLR", {"max_lr": [0.5, 0.2], "epochs": 3, "steps_per_epoch": 9, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 30, "three_phase": True, "pct_start": 0.4}),
]


@pytest.mark.parametrize(("name", "options"), CYCLES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CYCLES)])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_cycles(name: str, options: dict[str, Any], kind: str) -> None:
    seen = []
    for lib in (jitgrad, torch):
        p, q = lib.ones(1, requires_grad=True), lib.ones(1, requires_grad=True)
        more = {"momentum": 0.5} if kind == "SGD" else {}
        optimizer = getattr(lib.optim, kind)([{"params": [p]}, {"params": [q], "lr": 0.7}], lr=0.1, **more)
        schedule = make(lib, optimizer, name, options)
        key = "momentum" if kind == "SGD" else "betas"
        history = []
        for k in range(25):
            history.append((rates(optimizer), [g[key] for g in optimizer.param_groups], schedule.get_last_lr()))
            optimizer.step()
            schedule.step()
            if k == 12:
                state = schedule.state_dict()
                schedule = make(lib, optimizer, name, options, **({} if "T_0" in options else {"last_epoch": 12}))
                schedule.load_state_dict(state)
                for group, rate in zip(optimizer.param_groups, state["_last_lr"], strict=True):
                    group["lr"] = rate
        seen.append(history)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("which", ["sequential", "nested", "chained"])
def test_combinations(which: str) -> None:
    seen = []
    for lib in (jitgrad, torch):
        optimizer = optimizer_of(lib)
        s = lib.optim.lr_scheduler
        warm = s.LinearLR(optimizer, total_iters=4)
        if which == "chained":
            schedule = s.ChainedScheduler([warm, s.ExponentialLR(optimizer, 0.9)])
        else:
            parts = [warm, s.ExponentialLR(optimizer, 0.9), s.CosineAnnealingLR(optimizer, 5)]
            if which == "nested":
                parts[1] = s.ChainedScheduler([parts[1], s.StepLR(optimizer, 2)])
            schedule = s.SequentialLR(optimizer, parts[:2] if which == "nested" else parts,
                                      [4] if which == "nested" else [4, 10])
        history = run(optimizer, schedule, epochs=20) if which != "nested" else rates(optimizer)
        state = schedule.state_dict()
        schedule.load_state_dict(state)
        seen.append((history, schedule.get_last_lr(), len(state["_schedulers"])))
    assert seen[0] == seen[1]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("ConstantLR", {"factor": 2}), ("MultiplicativeLR", {"lr_lambda": [lambda e: 1.0]}),
    ("MultiplicativeLR", {"lr_lambda": 3}), ("CosineAnnealingWarmRestarts", {"T_0": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 1, "eta_min": "a"}),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1.0}), ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "mode": "up"}),
    ("OneCycleLR", {"max_lr": 0.1}), ("OneCycleLR", {"max_lr": 0.1, "total_steps": 0}),
    ("OneCycleLR", {"max_lr": 0.1, "epochs": 0, "steps_per_epoch": 1}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": 3, "pct_start": 2}),
    ("OneCycleLR", {"max_lr": 0.1, "total_steps": 3, "anneal_strategy": "up"}),
    ("SequentialLR", {"schedulers": [], "milestones": []}),
]


@pytest.mark.parametrize(("name", "options"), REFUSED, ids=range(len(REFUSED)))
def test_refused(name: str, options: dict[str, Any]) -> None:
    messages = []
    for lib in (jitgrad, torch):
        with pytest.raises((ValueError, TypeError)) as error:
            make(lib, optimizer_of(lib), name, options)
        messages.append((error.type, str(error.value)))
    assert messages[0] == messages[1]
