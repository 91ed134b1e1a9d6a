"""`make demo` accepts rounding, whatever processor adds, and nothing else."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def demo():
    path = Path(__file__).parent.parent / "examples" / "demo.py"
    spec = importlib.util.spec_from_file_location("jitgrad_demo", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


LOSSES = np.geomspace(2.0, 0.02, 200)
ULP = 2.0**-23


def run(demo, losses=LOSSES, accuracy=math.nan):
    return demo.Run(losses=[float(x) for x in losses], accuracy=accuracy)


def changed(step, factor):
    """The losses, one of them multiplied."""
    losses = LOSSES.copy()
    losses[step] *= factor
    return losses


def test_rounding_is_accepted(demo):
    signs = np.where(np.arange(200) % 2, 1, -1)
    assert demo.disagreement(run(demo), run(demo)) is None
    assert demo.disagreement(run(demo), run(demo, LOSSES * (1 + 500 * ULP * signs))) is None


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("factor", [1 + 1e-3, 1 - 1e-3])
@pytest.mark.parametrize("accuracy", [math.nan, 0.99])
def test_a_difference_in_a_first_step_is_refused(demo, step, factor, accuracy):
    problem = demo.disagreement(run(demo, accuracy=accuracy), run(demo, changed(step, factor), accuracy))
    assert f"at step {step} differ by more than rounding" in problem


def test_what_rounding_grew_to_between_is_not_judged(demo):
    assert demo.disagreement(run(demo), run(demo, changed(100, 1.2))) is None
    grown = LOSSES * (1 + 0.2 * np.linspace(-1, 1, 200) * (np.arange(200) > 50))
    assert demo.disagreement(run(demo, accuracy=0.997), run(demo, grown, 0.994)) is None


@pytest.mark.parametrize(("eager", "scripted"), [(0.99, 0.96), (0.90, 0.93), (0.99, math.nan), (math.nan, 0.99)])
def test_accuracies_must_be_near(demo, eager, scripted):
    assert "accuracies" in demo.disagreement(run(demo, accuracy=eager), run(demo, accuracy=scripted))


@pytest.mark.parametrize("factor", [1.02, 0.98])
def test_without_an_accuracy_the_losses_at_the_end_must_be_near(demo, factor):
    problem = demo.disagreement(run(demo), run(demo, np.where(np.arange(200) < 180, LOSSES, factor * LOSSES)))
    assert "mean losses at the end" in problem


@pytest.mark.parametrize("step", [0, 100, 199])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("accuracy", [math.nan, 0.99])
def test_losses_are_finite(demo, step, value, accuracy):
    good, bad = run(demo, accuracy=accuracy), run(demo, changed(step, value), accuracy)
    assert demo.disagreement(bad, good) == f"the eager loss of step {step} is {value}"
    assert demo.disagreement(good, bad) == f"the scripted loss of step {step} is {value}"
    assert demo.disagreement(bad, bad) == f"the eager loss of step {step} is {value}"


def test_runs_are_of_one_length(demo):
    assert demo.disagreement(run(demo), run(demo, LOSSES[:-1])) == "200 eager and 199 scripted losses"
    assert demo.disagreement(run(demo, []), run(demo, [])) == "0 eager and 0 scripted losses"


@pytest.mark.parametrize("workload", ["train_choose", "train_rnn"])
def test_workloads_keep_the_promise(demo, workload):
    train = getattr(demo, workload)
    eager, scripted = (train(way, 12, lambda items, title: items) for way in (False, True))
    assert demo.disagreement(eager, scripted) is None


def test_a_wrong_gradient_is_seen(demo, monkeypatch):
    eager = demo.train_rnn(False, 12, lambda items, title: items)
    backward = demo.jitgrad.Tensor.backward
    monkeypatch.setattr(demo.jitgrad.Tensor, "backward", lambda loss: backward(1.01 * loss))
    wrong = demo.train_rnn(False, 12, lambda items, title: items)
    assert "at step 1 differ by more than rounding" in demo.disagreement(eager, wrong)
