"""Training steps with `backward()`, optimizers and schedulers inside the script: eager, interpreted and native agree.

Each program is made anew per mode by a factory, which returns the step and the tensors whose content and `.grad` are
compared after every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import config, nn, optim, script
from jitgrad.errors import UnsupportedCall
from jitgrad.optim import lr_scheduler as S

Factory = Callable[[], tuple[Callable[..., Any], Sequence[Any]]]

FACTORIES: dict[str, Factory] = {}
MODES = ("interpreted", "native")


def program(factory: Factory) -> Factory:
    FACTORIES[factory.__name__] = factory
    return factory


def parameter(*shape: int) -> Any:
    return torch.randn(*shape).requires_grad_()


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


# --- by hand -------------------------------------------------------------------------------------------------------


@program
def by_hand() -> Any:
    w1, w2 = parameter(6, 5), parameter(5, 4)

    def step(x, y, k):
        loss = F.cross_entropy((x @ w1).relu() @ w2, y)
        loss.backward()
        with torch.no_grad():
            w1.sub_(0.1 * w1.grad)
            w2.sub_(0.1 * w2.grad)
            w1.grad = None
            w2.grad = None
        return loss

    return step, (w1, w2)


@program
def through_data() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        loss = F.cross_entropy(x @ w, y)
        loss.backward()
        w.data -= 0.1 * w.grad.data
        w.grad.data.zero_()
        return loss.item()

    return step, (w,)


@program
def data_rebound() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        F.cross_entropy(x @ w, y).backward()
        w.data = w.data - 0.1 * w.grad
        w.grad = None

    return step, (w,)


@program
def grads_accumulate_over_calls() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        loss = F.cross_entropy(x @ w, y)
        loss.backward()
        return loss

    return step, (w,)


@program
def accumulation_inside() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        for part in (x * 0.5, x, x + 1):
            (F.cross_entropy(part @ w, y) / 3).backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad.zero_()

    return step, (w,)


@program
def the_branch_of_the_lecture() -> Any:
    w1, w2a, w2b = parameter(6, 5), parameter(5, 4), parameter(5, 4)

    def step(x, y, k):
        w2 = w2a if k % 2 == 0 else w2b
        loss = F.cross_entropy((x @ w1).relu() @ w2, y)
        loss.backward()
        return loss

    return step, (w1, w2a, w2b)


@program
def a_branch_with_an_optimizer() -> Any:
    w1, w2a, w2b = parameter(6, 5), parameter(5, 4), parameter(5, 4)
    optimizer = optim.Adam([w1, w2a, w2b], lr=0.05)

    def step(x, y, k):
        optimizer.zero_grad()
        w2 = w2a if k < 2 else w2b
        loss = F.cross_entropy((x @ w1).relu() @ w2, y)
        loss.backward()
        optimizer.step()
        return loss

    return step, (w1, w2a, w2b)


@program
def a_gradient_read_after_it_was_used() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        F.cross_entropy(x @ w, y).backward()
        norm = w.grad.norm()
        g = w.grad
        w.grad = None
        return norm, g

    return step, (w,)


@program
def two_losses_share_a_graph() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        out = torch.tanh(x @ w)
        first, second = out.sum(), (out * out).mean()
        first.backward(retain_graph=True)
        second.backward()
        return first.detach() + second.detach()

    return step, (w,)


@program
def a_given_cotangent() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        out = torch.tanh(x @ w)
        out.backward(torch.ones_like(out) * 0.5)
        torch.autograd.backward([(x @ w).sum(), (w * w)], [None, torch.ones_like(w)])

    return step, (w,)


@program
def only_some_inputs() -> Any:
    w, v = parameter(6, 4), parameter(6, 4)

    def step(x, y, k):
        loss = F.cross_entropy(x @ (w * v), y)
        loss.backward(inputs=[w])

    return step, (w, v)


@program
def a_tensor_that_retains_its_gradient() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        h = x @ w
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad

    return step, (w,)


@program
def detached_in_the_middle() -> Any:
    w, v = parameter(6, 4), parameter(4, 4)

    def step(x, y, k):
        h = (x @ w).detach()
        loss = F.cross_entropy(h @ v, y)
        loss.backward()
        return loss

    return step, (w, v)


@program
def a_leaf_made_inside() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        z = torch.zeros(4, requires_grad=True)
        (F.cross_entropy(x @ w + z, y) + (z * z).sum()).backward()
        return z.grad

    return step, (w,)


@program
def an_input_that_is_optimised() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        z = x.clone().requires_grad_()
        for _ in range(3):
            loss = F.cross_entropy(z @ w, y)
            (g,) = torch.autograd.grad(loss, (z,))
            with torch.no_grad():
                z += 0.1 * g.sign()
        return z.detach(), w.grad

    return step, (w,)


# --- a gradient that may be there or not ---------------------------------------------------------------------------


@program
def written_where_it_is_not_none() -> Any:
    w, v = parameter(6, 4), parameter(4)

    def step(x, y, k):
        for i in range(k):
            F.cross_entropy((x * i) @ w + v, y).backward()
        for p in (w, v):
            if p.grad is not None:
                p.grad.mul_(0.5)
                p.grad[0] = 3.0

    return step, (w, v)


@program
def another_name_of_it_sees_writes_and_sums() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        if k > 1:
            F.cross_entropy(x @ w, y).backward()
        g = w.grad
        total = torch.zeros(())
        if g is not None:
            g *= 2
            total = total + w.grad.sum()
            F.cross_entropy(x @ w + 1, y).backward()
            total = total + g.sum()
        return total

    return step, (w,)


@program
def clipped_after_a_run_time_number_of_batches() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y, k):
        for i in range(k):
            (F.cross_entropy(model(x + i), y) / k).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        return norm

    return step, tuple(model.parameters())


# --- loops ---------------------------------------------------------------------------------------------------------


@program
def several_steps_in_one_call() -> Any:
    w, b = parameter(6, 4), parameter(4)

    def step(x, y, k):
        total = 0.0
        for _ in range(k + 1):
            loss = F.cross_entropy(x @ w + b, y)
            loss.backward()
            with torch.no_grad():
                for p in (w, b):
                    p -= 0.1 * p.grad
                    p.grad = None
            total += loss.item()
        return total

    return step, (w, b)


@program
def an_epoch_in_one_call() -> Any:
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, y, k):
        losses = torch.zeros(())
        for i in range(x.shape[0]):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[i:i + 1]), y[i:i + 1])
            loss.backward()
            optimizer.step()
            losses += loss.detach()
        return losses / x.shape[0]

    return step, tuple(model.parameters())


@program
def until_it_is_small_enough() -> Any:
    w = parameter(6, 4)
    optimizer = optim.SGD([w], lr=0.5, momentum=0.5)

    def step(x, y, k):
        n = 0
        while True:
            loss = F.cross_entropy(x @ w, y)
            if loss <= 0.5 or n == 20:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            n += 1
        return n, loss.detach()

    return step, (w,)


@program
def gradient_through_a_time_loop() -> Any:
    wx, wh = parameter(6, 5), parameter(5, 5)
    optimizer = optim.SGD([wx, wh], lr=0.1)

    def step(x, y, k):
        h = torch.zeros(5)
        for t in range(x.shape[0]):
            h = torch.tanh(x[t] @ wx + h @ wh)
        loss = (h * h).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, (wx, wh)


@program
def truncated_through_time() -> Any:
    wx, wh = parameter(6, 5), parameter(5, 5)

    def step(x, y, k):
        h = torch.zeros(5)
        for t in range(x.shape[0]):
            h = torch.tanh(x[t] @ wx + h.detach() @ wh)
            (h * h).sum().backward()
        return h.detach()

    return step, (wx, wh)


@program
def gradient_in_a_branch() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        loss = F.cross_entropy(x @ w, y)
        if loss.item() > 1.0:
            loss.backward()
        return loss.item()

    return step, (w,)


@program
def skip_what_is_not_finite() -> Any:
    model = mlp()
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y, k):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x / (k - 1.0)), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        return norm

    return step, tuple(model.parameters())


# --- autograd.grad -------------------------------------------------------------------------------------------------


@program
def gradient_penalty() -> Any:
    model = mlp()
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, y, k):
        z = x.clone().requires_grad_()
        out = model(z)
        (g,) = torch.autograd.grad(out.sum(), z, create_graph=True)
        loss = F.cross_entropy(out, y) + ((g.norm(dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, tuple(model.parameters())


@program
def an_inner_loop() -> Any:
    w = parameter(6, 4)
    optimizer = optim.SGD([w], lr=0.1)

    def step(x, y, k):
        fast = w
        for _ in (0, 1, 2):
            loss = F.cross_entropy(x @ fast, y)
            (g,) = torch.autograd.grad(loss, (fast,), create_graph=True)
            fast = fast - 0.4 * g
        outer = F.cross_entropy((x + 1) @ fast, y)
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        return outer

    return step, (w,)


@program
def hessian_vector_product() -> Any:
    w = parameter(6, 4)

    def step(x, y, k):
        loss = F.cross_entropy(torch.tanh(x @ w), y)
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (h,) = torch.autograd.grad((g * g.detach()).sum(), w)
        return h, g.detach()

    return step, (w,)


@program
def unused_inputs() -> Any:
    w, v = parameter(6, 4), parameter(4)

    def step(x, y, k):
        loss = (x @ w).sum()
        a, b = torch.autograd.grad(loss, (w, v), allow_unused=True)
        c, d = torch.autograd.grad((x @ w).sum(), (w, v), materialize_grads=True)
        return a, b is None, c, d

    return step, (w, v)


# --- optimizers, schedulers, metrics -------------------------------------------------------------------------------


def _trained(optimizer_of: Callable[[Any], Any]) -> Factory:
    def factory() -> Any:
        model = mlp()
        optimizer = optimizer_of(model.parameters())

        def step(x, y, k):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, tuple(model.parameters())
    return factory


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "dampening": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamax": lambda p: optim.Adamax(p, lr=0.01, weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.01, decoupled_weight_decay=True, weight_decay=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "rmsprop_centered": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p),
    "asgd": lambda p: optim.ASGD(p, lr=0.1, t0=2),
}
for _name, _of in OPTIMIZERS.items():
    FACTORIES[f"trained_with_{_name}"] = _trained(_of)


@program
def scheduled() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    def step(x, y, k):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss, optimizer.param_groups[0]["lr"], scheduler.last_epoch

    return step, tuple(model.parameters())


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "multi_step": lambda o: S.MultiStepLR(o, [2, 4]),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "cosine": lambda o: S.CosineAnnealingLR(o, 5),
    "warm_restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2, T_mult=2),
    "lambda": lambda o: S.LambdaLR(o, lambda epoch: 0.9 ** epoch),
    "multiplicative": lambda o: S.MultiplicativeLR(o, lambda epoch: 0.9),
    "linear": lambda o: S.LinearLR(o, total_iters=3),
    "constant": lambda o: S.ConstantLR(o, total_iters=2),
    "polynomial": lambda o: S.PolynomialLR(o, 4),
    "one_cycle": lambda o: S.OneCycleLR(o, 0.5, total_steps=8),
    "one_cycle_three_phases": lambda o: S.OneCycleLR(o, 0.5, total_steps=8, three_phase=True, anneal_strategy="linear"),
    "cyclic": lambda o: S.CyclicLR(o, 0.1, 0.5, 2, mode="triangular2"),
    "sequential": lambda o: S.SequentialLR(o, [S.ConstantLR(o, total_iters=2), S.ExponentialLR(o, 0.9)], [3]),
    "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o), S.ExponentialLR(o, 0.9)]),
}


def _scheduled(scheduler_of: Callable[[Any], Any]) -> Factory:
    def factory() -> Any:
        w = parameter(6, 4)
        optimizer = optim.SGD([w], lr=0.4, momentum=0.9)
        scheduler = scheduler_of(optimizer)

        def step(x, y, k):
            loss = F.cross_entropy(x @ w, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss, scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]

        return step, (w,)
    return factory


for _name, _scheduler_of in SCHEDULERS.items():
    FACTORIES[f"scheduled_by_{_name}"] = _scheduled(_scheduler_of)


@program
def on_a_plateau() -> Any:
    w = parameter(6, 4)
    optimizer = optim.SGD([w], lr=4.0)
    scheduler = S.ReduceLROnPlateau(optimizer, patience=0)

    def step(x, y, k):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(x @ w, y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        scheduler.step(loss)
        return loss, optimizer.param_groups[0]["lr"]

    return step, (w,)


@program
def groups_and_metrics() -> Any:
    model = mlp()
    optimizer = optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], lr=0.1)

    class Meter:
        correct = 0
        seen = 0
        best = 0.0

    meter = Meter()

    def step(x, y, k):
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        meter.correct += (out.argmax(1) == y).sum().item()
        meter.seen += x.shape[0]
        accuracy = meter.correct / meter.seen
        if accuracy > meter.best:
            meter.best = accuracy
        print(f"step {k}: {loss.item():.4f} {accuracy:.2f}")
        return accuracy, meter.best

    return step, tuple(model.parameters())


@program
def an_optimizer_of_the_user() -> Any:
    class Lion(optim.Optimizer):
        def __init__(self, params, lr=1e-2, beta=0.9):
            super().__init__(params, {"lr": lr, "beta": beta})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["mean"] = torch.zeros_like(p)
                        state["steps"] = 0
                    state["steps"] += 1
                    mean = state["mean"]
                    update = (mean * group["beta"] + p.grad * (1 - group["beta"])).sign()
                    p.add_(update, alpha=-group["lr"] / state["steps"])
                    mean.lerp_(p.grad, 1 - group["beta"])

    model = mlp()
    optimizer = Lion(model.parameters())

    def step(x, y, k):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, tuple(model.parameters())


@program
def an_average_of_the_weights() -> Any:
    model, average = mlp(), mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x, y, k):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.mul_(0.9).add_(p, alpha=0.1)
        return loss

    return step, (*model.parameters(), *average.parameters())


# --- the comparison ------------------------------------------------------------------------------------------------


def run(factory: Factory, mode: str, capsys: Any, calls: int = 5) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    step, watched = factory()
    f = step if mode == "eager" else script(step)
    found: list[Any] = []
    capsys.readouterr()
    with config.override(interpret=mode == "interpreted"):
        for k in range(calls):
            torch.manual_seed(100 + k)
            n = 7 + k % 2
            result = f(torch.randn(n, 6), torch.randint(0, 4, (n,)), k)
            found.append(flat(result))
            found.append([value(p) for p in watched])
            found.append([None if p.grad is None else value(p.grad) for p in watched])
    found.append(capsys.readouterr().out)
    return found, f


def flat(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [flat(r) for r in result]
    return value(result)


def value(x: Any) -> Any:
    return x.detach().numpy().copy() if isinstance(x, torch.Tensor) else x


def compare(a: Any, b: Any) -> None:
    if isinstance(a, list):
        assert isinstance(b, list)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            compare(x, y)
    elif isinstance(a, (np.ndarray, float)):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-5)
    else:
        assert type(a) is type(b)
        assert a == b


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FACTORIES)
def test_agrees_with_eager(name: str, mode: str, capsys: Any) -> None:
    eager, _ = run(FACTORIES[name], "eager", capsys)
    scripted, f = run(FACTORIES[name], mode, capsys)
    compare(eager, scripted)
    # one more program at most: where the first call finds no gradient, or no state, and the next ones do
    assert f.cache_info().compilations <= 2, f.recompilations


#: they leave or find a `.grad`, or make their state, at the first call
TWICE = {"through_data", "grads_accumulate_over_calls", "the_branch_of_the_lecture", "an_optimizer_of_the_user",
         "two_losses_share_a_graph", "a_given_cotangent", "only_some_inputs", "a_tensor_that_retains_its_gradient",
         "groups_and_metrics", "detached_in_the_middle", "a_leaf_made_inside", "truncated_through_time",
         "gradient_in_a_branch", "accumulation_inside", "scheduled_by_sequential", "an_epoch_in_one_call",
         "until_it_is_small_enough", "written_where_it_is_not_none", "another_name_of_it_sees_writes_and_sums"}


@pytest.mark.parametrize("name", [n for n in FACTORIES if n not in TWICE])
def test_compiles_once(name: str, capsys: Any) -> None:
    _, f = run(FACTORIES[name], "native", capsys)
    assert f.cache_info().compilations == 1, f.recompilations


def _both(function: Callable[..., Any], *args: Any) -> list[Any]:
    """The results of plain Python, interpreted and native."""
    found = [value_of(function(*args))]
    for mode in MODES:
        with config.override(interpret=mode == "interpreted"):
            found.append(value_of(script(function)(*args)))
    return found


def value_of(x: Any) -> Any:
    return [value_of(i) for i in x] if isinstance(x, (tuple, list)) else value(x)


@pytest.mark.parametrize("n", [2, 3])
def test_leaves_that_one_side_of_a_branch_uses(n: int) -> None:
    def chosen(x, n: int):
        a = x.clone().requires_grad_()
        b = (x * 2).clone().requires_grad_()
        c = a if n > 2 else b
        (c * c).sum().backward()
        return a.grad, b.grad

    def used(x, n: int):
        a = x.clone().requires_grad_()
        c = (x * 3).clone().requires_grad_()
        y = c * 1
        if n > 2:
            y = y + a * 2
        (y * y).sum().backward()
        return a.grad, c.grad

    for f in (chosen, used):
        eager, *scripted = _both(f, torch.ones(2), n)
        for found in scripted:
            compare(eager, found)


def test_the_gradient_of_a_leaf_that_may_be_another_is_refused() -> None:
    def from_a_loop(x, n: int):
        z = x
        for i in range(n):
            z = (x * i).clone().requires_grad_()
            (z * z).sum().backward()
        return z.grad

    def from_a_branch(x, n: int):
        if n > 2:
            z = (x * 2).clone().requires_grad_()
        else:
            z = (x * 3).clone().requires_grad_()
        (z * z).sum().backward()
        return z.grad

    def from_a_list(x, n: int):
        zs = []
        for i in range(n):
            zs.append((x * i).clone().requires_grad_())
        (zs[0] * zs[0]).sum().backward()
        return zs[0].grad

    for f in (from_a_loop, from_a_branch, from_a_list):
        with pytest.raises(UnsupportedCall, match=r"`\.grad` of a tensor that a branch, a loop or a list brings here"):
            script(f)(torch.ones(2), 99)
    for f in (from_a_loop, from_a_list):
        assert script(f)(torch.ones(2), 3).tolist() == f(torch.ones(2), 3).tolist()


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_state_that_an_optimizer_makes_in_a_branch_or_loop(interpret, steps):
    def branch(w, optimizer, x, n: int):
        if n > 0:
            (x * w).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    def loop(w, optimizer, x, n: int):
        for _ in range(n):
            (x * w * w).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    def run(f):
        w = nn.Parameter(torch.tensor([1.0, -2.0]))
        optimizer = torch.optim.Adam([w], lr=0.1)
        for _ in range(2):
            f(w, optimizer, torch.tensor([2.0, 3.0]), steps)
        return w.tolist(), [{k: v.tolist() for k, v in s.items()} for s in optimizer.state.values()]

    with config.override(interpret=interpret):
        for f in (branch, loop):
            assert run(torch.script(f)) == run(f)
