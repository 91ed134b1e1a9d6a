"""Figures of `explain`: known bytes, calls and operations; and a measurement leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from tests.script.inspect.explain.programs import Counter, noisy, rnn, rnn_arguments, two_maxima


def line(function, text):
    """The number of the line of a function that contains `text`."""
    import inspect

    lines, first = inspect.getsourcelines(function.eager)
    return first + next(i for i, s in enumerate(lines) if text in s)


def by_line(saved):
    return {where.number: n for where, n in saved.items() if where is not None}


def test_products_in_a_loop_count_every_iteration_and_those_before_it_one():
    report = rnn.explain(*rnn_arguments(steps=5, batch=2, n=3, m=4))
    products = [s for s in report.runs["forward"].steps if s.kind == "product"]
    assert sorted(s.cost.flops for s in products) == [5 * 2 * 2 * 3 * 4, 5 * 2 * 2 * 4 * 4]
    assert all(s.cost.seconds > 0 for s in products)
    x_product, h_product = sorted(products, key=lambda s: s.cost.flops)
    assert (x_product.cost.calls, h_product.cost.calls) == (1, 5)
    assert x_product.cost.read == 4 * (5 * 2 * 3 + 3 * 4)
    assert x_product.cost.written == 5 * 4 * 2 * 4
    backward = [s for s in report.runs["backward"].steps if s.kind == "product"]
    assert sum(s.cost.flops for s in backward) == 5 * (2 * 2 * 3 * 4 + 2 * 2 * 2 * 4 * 4)
    assert all(s.lines[0].number == line(rnn, "tanh") for s in products + backward)


def test_sizes_are_those_of_the_call_and_nothing_is_recompiled():
    before = rnn.cache_info().compilations
    rnn.explain(*rnn_arguments())
    report = rnn.explain(*rnn_arguments(steps=7))
    assert rnn.cache_info().compilations <= before + 1
    assert {s.cost.calls for s in report.runs["forward"].steps if s.kind == "product"} == {1, 7}


def test_saved_bytes_belong_to_the_line_that_made_them():
    report = rnn.explain(*rnn_arguments(steps=5, batch=2, n=3, m=4))
    saved = by_line(report.measured.saved)
    assert saved == {line(rnn, "tanh"): 4 * 2 * 4 * (5 + 1)}  # h before each step, and the last one
    assert report.measured.kept >= 4 * 5 * 2 * 3  # xs is read again, not copied


def test_without_gradients_there_is_no_backward():
    with jitgrad.no_grad():
        report = rnn.explain(*rnn_arguments())
    assert set(report.runs) == {"forward"}
    assert report.saved_bytes == 0
    assert "backward" not in rnn.explain(*rnn_arguments(), backward=False).runs


def test_nothing_that_the_run_does_is_kept(capsys):
    x = jitgrad.tensor([[3.0, 1.0]])
    report = noisy.explain(x, 3)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(x.numpy(), [[3.0, 1.0]])
    sort = next(s for s in report.steps if s.kind == "library")
    assert (sort.label, sort.cost.calls, sort.cost.read, sort.cost.written) == ("sort 1", 1, 8, 8 + 16)
    model = Counter()
    scripted = jitgrad.script(model)
    report = scripted.explain(jitgrad.ones(2, 3))
    assert model.calls == 0.0
    assert model.fc.weight.grad is None
    assert {f.name for f in report.functions} == {"forward", "helper"}


def test_a_program_that_raises_raises():
    import pytest

    with pytest.raises(AssertionError, match="none"):
        noisy.explain(jitgrad.ones(2, 2), 0)


def test_interpreted_functions_are_measured_natively():
    with config.override(interpret=True):
        report = jitgrad.script(two_maxima.eager).explain(jitgrad.ones(3, 2))
    assert report.runs["forward"].untimed > 0
    assert report.steps


def test_kernels_count_each_element_once():
    report = two_maxima.explain(jitgrad.ones(6, 5))
    written = sum(s.cost.written for s in report.steps)
    assert written == 4 * (6 + 5) or written == 4 * (6 + 5 + 30)
    assert [r.why for r in report.measured.reasons] == ["they reduce different axes"]


def test_call_backs_are_not_repeated_for_a_measurement():
    @jitgrad.jit.ignore
    def tell(x: jitgrad.Tensor) -> jitgrad.Tensor:
        return x * 2

    @jitgrad.script
    def calls(x):
        return tell(x) + 1

    calls(jitgrad.ones(2))
    assert "tell(x)" in calls.code
    with pytest.raises(RuntimeError, match="would repeat their effects"):
        calls.explain(jitgrad.ones(2))


def test_a_whole_training_step_is_measured_without_training():
    model = jitgrad.nn.Linear(3, 2)
    optimizer = jitgrad.optim.Adam(model.parameters())

    @jitgrad.script
    def step(x):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    before = model.weight.detach().clone()
    report = step.explain(jitgrad.ones(4, 3))
    np.testing.assert_array_equal(model.weight.detach().numpy(), before.numpy())
    assert model.weight.grad is None
    assert set(report.runs) == {"forward"}
    text = str(report)
    assert "optimizer.step()" in text
    charged = {where.number for s in report.steps for where in s.lines[:1]}
    assert line(step, "optimizer.step()") in charged
