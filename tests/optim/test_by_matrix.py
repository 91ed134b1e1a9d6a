"""Muon and Adafactor: their rules in NumPy, torch's numbers, and steps in scripts."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import optim

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("Muon", {"lr": 0.05}), ("Muon", {"lr": 0.02, "nesterov": False, "momentum": 0.5, "weight_decay": 0.0}),
    ("Muon", {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}), ("Adafactor", {"lr": 0.05}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-6, 1e-2), "d": 2.0, "weight_decay": 0.1}),
    ("Adafactor", {"maximize": True})]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(SETTINGS)]


def train(library: Any, name: str, options: dict[str, Any], scripted: bool = False) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = ((3, 6), (6, 2)) if name == "Muon" else ((3, 6), (6, 2), (2,), ())
    params = [library.tensor(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]
    x = library.tensor(rng.standard_normal((5, 3)).astype(np.float32))
    optimizer = getattr(library.optim, name)(params, **options)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        y = library.tanh(x @ params[0]) @ params[1]
        for p in params[2:]:
            y = y * p + p
        loss = ((y - 0.3) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    call = jitgrad.script(step) if scripted else step
    losses = [float(call(x)) for _ in range(8)]
    if scripted:
        assert call.cache_info().compilations == 1
    return [np.array(losses), *[p.detach().numpy() for p in params], optimizer]


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=IDS)
def test_eager_scripted_and_torch(name: str, options: dict[str, Any]) -> None:
    eager = train(jitgrad, name, options)
    others = [train(jitgrad, name, options, scripted=True)]
    if find_spec("torch"):
        others.append(train(import_module("torch"), name, options))
        assert repr(eager[-1]) == repr(others[-1][-1])
        saved, wanted = [run[-1].state_dict() for run in (eager, others[-1])]
        assert saved["param_groups"] == wanted["param_groups"]
        assert {k: set(v) for k, v in saved["state"].items()} == {k: set(v) for k, v in wanted["state"].items()}
    tolerance = 3e-2 if name == "Muon" else 1e-4  # Muon's products are of bfloat16
    for other in others:
        for a, b in zip(eager[:-1], other[:-1], strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_muon_makes_steps_orthogonal() -> None:
    """All singular values of a step are near lr times the ratio of its sizes."""
    for shape in ((4, 6), (8, 4)):
        p = jitgrad.zeros(shape, requires_grad=True)
        p.grad = jitgrad.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
        optim.Muon([p], lr=1.0, weight_decay=0.0).step()
        values = jitgrad.linalg.svdvals(p.detach()) / max(1, shape[0] / shape[1]) ** 0.5
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.4


def test_adafactor_keeps_rows_and_columns() -> None:
    p = jitgrad.ones(2, 3, 4, requires_grad=True)
    p.grad = jitgrad.tensor(np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32))
    optimizer = optim.Adafactor([p], lr=0.1)
    optimizer.step()
    state = optimizer.state[p]
    assert {k: tuple(v.shape) for k, v in state.items()} == {"step": (), "row_var": (2, 3, 1), "col_var": (2, 1, 4)}
    g = p.grad.numpy().astype(np.float64)
    rows, columns = (g ** 2).mean(-1, keepdims=True), (g ** 2).mean(-2, keepdims=True)
    update = g / np.sqrt(rows * columns / rows.mean(-2, keepdims=True))
    change = -0.1 * update / max(1.0, np.sqrt((update ** 2).mean()))
    np.testing.assert_allclose(p.detach().numpy(), 1 + change, rtol=1e-4)


@pytest.mark.parametrize(("make", "message"), [
    (lambda p: optim.Muon([p], lr=-1.0), "Learning rate should be >= 0"),
    (lambda p: optim.Muon([p], momentum=-1.0), "momentum should be >= 0"),
    (lambda p: optim.Muon([p], weight_decay=-1.0), "weight decay should be >= 0"),
    (lambda p: optim.Muon([p], adjust_lr_fn="none"), "Adjust learning rate function none is not supported"),
    (lambda p: optim.Muon([p], ns_steps=100), "must be less than 100"),
    (lambda p: optim.Muon([p[0]]), "Muon only supports 2D parameters"),
    (lambda p: optim.Adafactor([p], lr=jitgrad.ones(2)), "must be 1-element"),
    (lambda p: optim.Adafactor([p], beta2_decay=0.1), "beta2_decay should be <= 0"),
    (lambda p: optim.Adafactor([p], eps=(-1.0, 1e-3)), "epsilon1 should be >= 0"),
    (lambda p: optim.Adafactor([p], eps=(None, -1.0)), "epsilon2 should be >= 0"),
    (lambda p: optim.Adafactor([p], d=0.5), "Clipping threshold d should be >= 1"),
    (lambda p: optim.Adafactor([p], weight_decay=-0.5), "weight_decay should be >= 0")])
def test_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(jitgrad.ones(2, 2))
