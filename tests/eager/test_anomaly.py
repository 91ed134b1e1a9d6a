"""Anomaly detection: which line a NaN among gradients comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad.autograd import detect_anomaly, set_detect_anomaly


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    set_detect_anomaly(False)


def root(x: Any) -> Any:
    return jitgrad.sqrt(x * 0)  # its slope at 0 is infinite, and 0 times that is NaN


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_line_of_a_nan(create_graph: bool) -> None:
    x = jitgrad.ones(3, requires_grad=True)
    root(x).sum().backward()  # nobody looks
    with set_detect_anomaly(True):
        y = root(x).sum()
        told = "Function 'MulBackward' returned nan values in its 0th output"
        with pytest.raises(RuntimeError, match=told) as raised:
            y.backward(create_graph=create_graph)
    text = str(raised.value)
    assert "Traceback of forward call that caused the error" in text
    assert "return jitgrad.sqrt(x * 0)" in text
    assert "in root" in text
    assert "engine.py" not in text, "only the user's lines"
    assert not jitgrad.is_anomaly_enabled()


def test_what_is_not_nan_passes() -> None:
    with set_detect_anomaly(True):
        x = jitgrad.tensor([1.0, 4.0], requires_grad=True)
        (jitgrad.sqrt(x).sum() + x.prod()).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [4.5, 1.25]
        y = jitgrad.zeros(1, requires_grad=True)
        jitgrad.sqrt(y).sum().backward()
        assert y.grad is not None
        assert y.grad.tolist() == [float("inf")]


def test_without_looking_for_nan() -> None:
    with set_detect_anomaly(True, check_nan=False):
        assert not jitgrad.is_anomaly_check_nan_enabled()
        x = jitgrad.ones(1, requires_grad=True)
        root(x).sum().backward()
        assert x.grad is not None
        assert bool(x.grad.isnan())
        y = x.exp()
        y.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time") as raised:
            y.sum().backward()
        assert "y = x.exp()" in "".join(raised.value.__notes__)


def test_nodes_from_before() -> None:
    x = jitgrad.ones(1, requires_grad=True)
    y = root(x)
    with set_detect_anomaly(True), pytest.raises(RuntimeError, match="No forward call is known"):
        y.backward()


def test_scopes() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        scope = detect_anomaly()
    assert not jitgrad.is_anomaly_enabled()
    with scope:
        assert jitgrad.is_anomaly_enabled()
        with set_detect_anomaly(False):
            assert not jitgrad.is_anomaly_enabled()
        assert jitgrad.is_anomaly_enabled()
    assert not jitgrad.is_anomaly_enabled()
    set_detect_anomaly(True)
    assert jitgrad.is_anomaly_enabled()


def test_functions_of_users_and_scripts() -> None:
    class Spoiled(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("nan")

    scripted = jitgrad.script(root)
    x = jitgrad.ones(2, requires_grad=True)
    for call, line in ((lambda: Spoiled.apply(x), "Spoiled.apply(x)"), (lambda: scripted(x), "scripted(x)")):
        with set_detect_anomaly(True):
            y = call().sum()
            with pytest.raises(RuntimeError, match="returned nan values in its 0th output") as raised:
                y.backward()
            assert line in str(raised.value)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_scripts_refuse_it() -> None:
    @jitgrad.script
    def inside(x: Any) -> Any:
        with detect_anomaly():
            return x * 2

    @jitgrad.script
    def switched(x: Any) -> Any:
        set_detect_anomaly(True)
        return x * 2

    for function in (inside, switched):
        with pytest.raises(NotImplementedError, match="anomaly detection inside a script"):
            function(jitgrad.ones(1))
        assert not jitgrad.is_anomaly_enabled()
