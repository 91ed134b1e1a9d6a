"""Whole steps with every optimizer in one script: eager's parameters after ten steps."""

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, optim

OPTIMIZERS = [
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}), ("Adadelta", {"lr": 0.5}), ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}), ("Rprop", {}), ("Adamax", {"lr": 0.02}), ("NAdam", {"lr": 0.02}),
    ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}), ("ASGD", {"lr": 0.02, "t0": 3}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(OPTIMIZERS)])
def test_ten_steps(name, options):
    found = []
    for scripted in (False, True):
        rng = np.random.default_rng(0)
        w, b = (jitgrad.from_numpy(rng.standard_normal(s).astype(np.float32)).requires_grad_() for s in ((3, 4), (4,)))
        x = jitgrad.from_numpy(rng.standard_normal((5, 3)).astype(np.float32))
        optimizer = getattr(optim, name)([w, b], **options)

        def step(x):
            optimizer.zero_grad()  # noqa: B023
            loss = ((jitgrad.tanh(x @ w + b) - 0.3) ** 2).sum()  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023
            return loss.detach()

        call = jitgrad.script(step) if scripted else step
        losses = [call(x).item() for _ in range(10)]
        found.append((losses, w.detach().numpy(), b.detach().numpy()))
        if scripted:
            assert call.cache_info().compilations == 1
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("options", [
    {"lr": 0.1, "max_iter": 3}, {"line_search_fn": "strong_wolfe", "max_iter": 2},
    {"lr": 0.5, "history_size": 4, "max_iter": 2, "tolerance_grad": 1e-3},
    {"line_search_fn": "strong_wolfe", "max_iter": 5, "max_eval": 6, "lr": 3, "history_size": 2}], ids=range(4))
@pytest.mark.parametrize("interpret", [False, True])
def test_lbfgs(options, interpret):
    """Fifty steps with a closure: the line search, what ends it, and the history are one program.

    The loss is convex: where it is not, rounding decides which way an iteration leaves a saddle.
    """
    steps = 5 if interpret else 50
    found = []
    for scripted in (False, True):
        rng = np.random.default_rng(0)
        w, b = (jitgrad.from_numpy(rng.standard_normal(s)).requires_grad_() for s in ((3, 4), (4,)))
        x, y = (jitgrad.from_numpy(rng.standard_normal(s)) for s in ((6, 3), (6, 4)))
        optimizer = optim.LBFGS([w, b], **options)

        def step(x, y):
            def closure():
                optimizer.zero_grad()  # noqa: B023
                loss = ((x @ w + b - y) ** 2).sum() + 0.1 * (w ** 4).sum()  # noqa: B023
                loss.backward()
                return loss

            return optimizer.step(closure)  # noqa: B023

        call = jitgrad.script(step) if scripted else step
        with config.override(interpret=interpret):
            losses = [call(x, y).item() for _ in range(steps)]
        state = optimizer.state_dict()["state"][0]
        found.append((losses, w.detach().numpy(), b.detach().numpy(), w.grad.numpy(), state["func_evals"],
                      state["n_iter"], len(state["ro"]), state["prev_flat_grad"].numpy()))
        if scripted:
            assert call.cache_info().compilations == 1
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_lbfgs_state_goes_on():
    """A saved state, as lists, is a new optimizer's history."""
    def make(start):
        w = jitgrad.tensor(start, requires_grad=True)
        optimizer = optim.LBFGS([w], lr=0.2, max_iter=3, history_size=4)

        def step():
            def closure():
                optimizer.zero_grad()
                loss = ((w * w - jitgrad.arange(1.0, 4.0)) ** 2).sum()
                loss.backward()
                return loss

            return optimizer.step(closure).item()

        return w, optimizer, step

    w, optimizer, step = make([3.0, 2.0, 1.0])
    for _ in range(3):
        step()
    v, other, again = make(w.tolist())
    saved = optimizer.state_dict()
    assert len(saved["state"][0]["old_dirs"]) == len(saved["state"][0]["ro"]) == 4
    other.load_state_dict(saved)
    assert [step() for _ in range(4)] == [again() for _ in range(4)]
    assert w.tolist() == v.tolist()


# --- counts of steps -------------------------------------------------------------------------------------------------


@pytest.fixture
def uncached():
    """A program on disk that takes any counts takes equal ones, too."""
    with config.override(cache=""):
        yield


def make_step(name, between=None, twice=False):
    """Two parameters under an optimizer: a call that first calls `between`, then makes one step, or two."""
    a, b = (jitgrad.tensor(v, requires_grad=True) for v in ([1.0, -2.0], [[0.5], [3.0]]))
    optimizer = getattr(optim, name)([a, b], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (((a * x) ** 2).sum() + (b ** 2).sum()).backward()
        optimizer.step()

    def call(x):
        if between is not None:
            between(optimizer)
        step(x)
        if twice:
            step(x)

    return (a, b), optimizer, call


def count(optimizer, *steps):
    for own, n in zip(optimizer.state.values(), steps, strict=True):
        own["step"].fill_(n)


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"])
def test_what_follows_from_equal_counts_is_computed_once(name):
    _, _, step = make_step(name)
    scripted = jitgrad.script(step)
    x = jitgrad.tensor([1.0, 2.0])
    scripted(x)
    found = [node.op for node in scripted.specialisations[0].script.graph.block.nodes]
    assert found.count("num.pow") <= {"Adam": 3, "AdamW": 3}.get(name, 4)
    assert found.count("commit") > 2  # each has a count of its own all the same
    scripted(x)
    assert scripted.cache_info().compilations == 1


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("name", ["Adam", "RAdam"])
@pytest.mark.parametrize("twice", [False, True])
def test_counts_that_part(name, twice):
    """Counts that are not equal any more are another program; it serves whatever they are."""
    x = jitgrad.tensor([1.0, 2.0])
    found = []
    for scripted in (False, True):
        params, optimizer, step = make_step(name, twice=twice)
        call = jitgrad.script(step) if scripted else step
        for before in ((0, 0), None, (7, 7), (2, 9), None, (4, 4), (1, 3)):
            if before is not None:
                count(optimizer, *before)
            call(x)
        found.append([*(p.tolist() for p in params), *(s["step"].item() for s in optimizer.state.values())])
        if scripted:
            assert call.cache_info().compilations == 2
            assert "holds another number than `" in call.recompilations[0]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)
    assert found[1][-2:] == ([3, 5] if twice else [2, 4])


@pytest.mark.parametrize("start", [(0, 3), (float("nan"), float("nan"))])
def test_counts_that_are_not_equal_at_first(start):
    x = jitgrad.tensor([1.0, 2.0])
    found = []
    for scripted in (False, True):
        params, optimizer, step = make_step("Adam")
        count(optimizer, *start)
        call = jitgrad.script(step) if scripted else step
        for _ in range(3):
            call(x)
        found.append([p.tolist() for p in params])
        if scripted:
            assert call.cache_info().compilations == 1
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.usefixtures("uncached")
def test_after_a_call_back_nothing_is_assumed_of_counts():
    """It may have changed one of them where nobody sees that: in the memory of an array."""
    @jitgrad.ignore
    def between(optimizer) -> None:
        pass

    for function in (None, between):
        _, _, step = make_step("Adam", function)
        scripted = jitgrad.script(step)
        scripted(jitgrad.tensor([1.0, 2.0]))
        assert any(g.kind == "alike" for g in scripted.specialisations[0].script.guards) is (function is None)


def test_the_step_of_a_parameter_is_three_nodes_and_one_kernel() -> None:
    """Passes and fusion see of Adam what it writes; the kernel has the expressions."""
    jitgrad.manual_seed(0)
    layer = jitgrad.nn.Linear(3, 4)
    optimizer = jitgrad.optim.AdamW(layer.parameters(), lr=1e-3)

    @jitgrad.script
    def step(x: Any) -> None:
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(jitgrad.randn(2, 3))
    text = str(step.graph)
    assert text.count(" adam(") == text.count(" ema(") == text.count(" ema_of_squares(") == 2
    assert sum("adam" in kernel for kernel in step.kernels()) <= 2
