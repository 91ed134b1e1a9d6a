"""`GradScaler` against torch's, in eager and as part of a scripted step."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import config, nn

W1, W2 = (np.random.default_rng(k).normal(size=s).astype("f4") * 0.5 for k, s in enumerate([(8, 4), (3, 8)]))
X = np.random.default_rng(2).normal(size=(5, 4)).astype("f4")
#: factors of the loss per step: the large one makes gradients overflow
FACTORS = [1.0, 1e30, 1.0, 1.0, 1.0, 1e30, 1e30, 1.0, 1.0]


def model_of(t: Any) -> Any:
    model = t.nn.Sequential(t.nn.Linear(4, 8, bias=False), t.nn.ReLU(), t.nn.Linear(8, 3, bias=False))
    with t.no_grad():
        model[0].weight.copy_(t.tensor(W1.tolist()))
        model[2].weight.copy_(t.tensor(W2.tolist()))
    return model


def step(model, optimizer, scaler, x, y, factor: float):
    optimizer.zero_grad()
    with jitgrad.autocast("cpu", dtype=jitgrad.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss * factor).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


def clipped(model, optimizer, scaler, x, y, factor: float):
    optimizer.zero_grad()
    with jitgrad.autocast("cpu", dtype=jitgrad.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss * factor).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    return loss


OPTIMIZERS = [("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.01}), ("AdamW", {"lr": 0.01})]


def trained(f: Any, name: str, options: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    model = model_of(jitgrad)
    optimizer = getattr(jitgrad.optim, name)(model.parameters(), **options)
    scaler = jitgrad.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    x, y = jitgrad.tensor(X), jitgrad.tensor([0, 1, 2, 0, 1])
    schedule, losses = [], []
    for factor in FACTORS:
        losses.append(f(model, optimizer, scaler, x, y, factor).item())
        schedule.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return schedule, losses, [p.detach().numpy() for p in model.parameters()]


def torch_trained(name: str, options: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    torch = pytest.importorskip("torch")
    model = model_of(torch)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    schedule, losses = [], []
    for factor in FACTORS:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(torch.tensor(X)), torch.tensor([0, 1, 2, 0, 1]))
        scaler.scale(loss * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        schedule.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return schedule, losses, [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_steps_are_torchs(name, options):
    schedule, losses, weights = trained(step, name, options)
    expected = torch_trained(name, options)
    assert schedule == expected[0]
    np.testing.assert_allclose(losses, expected[1], 5e-3)
    for a, b in zip(weights, expected[2], strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-2)


@pytest.mark.parametrize("interpret", [True, False])
@pytest.mark.parametrize("f", [step, clipped])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_a_whole_step_in_a_script(name, options, f, interpret):
    expected = trained(f, name, options)
    with config.override(interpret=interpret):
        scripted = jitgrad.script(f)
        found = trained(scripted, name, options)
    assert found[0] == expected[0]
    np.testing.assert_allclose(found[1], expected[1], 5e-3)
    for a, b in zip(found[2], expected[2], strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-2)
    assert scripted.cache_info().compilations <= 2  # the optimizer's state is made by the first step


def test_a_scripted_model_and_an_eager_scaler():
    model = model_of(jitgrad)
    fast = jitgrad.script(model)
    optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.1)
    scaler = jitgrad.amp.GradScaler("cpu", init_scale=1024.0)
    x, y = jitgrad.tensor(X), jitgrad.tensor([0, 1, 2, 0, 1])
    losses = [step(fast, optimizer, scaler, x, y, 1.0).item() for _ in range(20)]
    assert losses[-1] < losses[0] - 0.2
    assert fast.cache_info().compilations == 1


# --- the rest ------------------------------------------------------------------------------------------------------


def parts() -> tuple[Any, Any, Any]:
    p = jitgrad.ones(2, requires_grad=True)
    return p, jitgrad.optim.SGD([p], lr=0.5), jitgrad.amp.GradScaler("cpu", init_scale=8.0)


def test_order_of_calls():
    p, optimizer, scaler = parts()
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="Attempted update"):
        scaler.update()
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    scaler.update(8.0)
    scaler.scale((p * 3).sum()).backward()
    assert p.grad.tolist() == [24.0, 24.0]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    assert p.tolist() == [-0.5, -0.5]
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.update()
    assert scaler.get_scale() == 8.0
    assert scaler._get_growth_tracker() == 1


def test_one_bad_optimizer_of_two():
    p, q = (jitgrad.ones(1, requires_grad=True) for _ in range(2))
    first, second = jitgrad.optim.SGD([p], lr=1.0), jitgrad.optim.SGD([q], lr=1.0)
    scaler = jitgrad.amp.GradScaler("cpu", init_scale=8.0, backoff_factor=0.25)
    a, b = scaler.scale([p.sum(), (q * float("inf")).sum()])
    a.backward()
    b.backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (p.item(), q.item(), scaler.get_scale()) == (0.0, 1.0, 2.0)


def test_containers():
    _, _, scaler = parts()
    one = jitgrad.ones(1)
    assert scaler.scale(one).item() == 8.0
    assert [y.item() for y in scaler.scale((one, one * 2))] == [8.0, 16.0]
    assert [y.item() for y in scaler.scale(iter([one]))] == [8.0]
    assert isinstance(scaler.scale((one,)), tuple)
    with pytest.raises(ValueError, match="must be a Tensor or an iterable"):
        scaler.scale(3)


def test_a_disabled_scaler_passes_through():
    p, optimizer, _ = parts()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = jitgrad.amp.GradScaler()
    y = p.sum()
    assert scaler.scale(y) is y
    assert not scaler.is_enabled()
    y.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 1})


def test_state():
    p, optimizer, scaler = parts()
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert state == {"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000,
                     "_growth_tracker": 1}
    other = jitgrad.amp.GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state == pickle.loads(pickle.dumps(scaler)).state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})
    other.set_growth_factor(4.0)
    other.set_backoff_factor(0.1)
    other.set_growth_interval(7)
    assert (other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval()) == (4.0, 0.1, 7)
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        jitgrad.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor must be < 1"):
        jitgrad.amp.GradScaler("cpu", backoff_factor=1.0)


def test_a_given_scale():
    p, _, scaler = parts()
    scaler.scale(p.sum())
    scaler.update(16.0)
    assert scaler.get_scale() == 16.0
    scaler.update(jitgrad.tensor(4.0))
    assert scaler.get_scale() == 4.0
    with pytest.raises(AssertionError, match="new_scale should be"):
        scaler.update(jitgrad.ones(2))


def test_gradients_in_half_precision_are_refused():
    p = jitgrad.ones(2, dtype=jitgrad.float16, requires_grad=True)
    scaler = jitgrad.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(p.float().sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(jitgrad.optim.SGD([p], lr=0.1))


def test_older_names():
    with pytest.warns(FutureWarning, match="torch.cpu.amp.GradScaler"):
        assert jitgrad.cpu.amp.GradScaler().is_enabled()
    with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"), pytest.warns(UserWarning, match="CUDA"):
        assert not jitgrad.cuda.amp.GradScaler().is_enabled()
