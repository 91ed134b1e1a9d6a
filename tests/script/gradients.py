"""Gradients of graphs against central differences, through the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.script.autodiff import differentiate, gradient_function
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph
from jitgrad.script.graph.verify import verify


def gradients(graph: Graph, inputs: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int],
              cotangents: Sequence[Any]) -> list[tuple[Any, bool]]:
    """(gradient, reached) per input, by forward and backward; the gradient function must agree with it exactly.

    A cotangent of None is absent.
    """
    present = tuple(c is not None for c in cotangents)
    given = [c for c in cotangents if c is not None]
    d = differentiate(graph, wrt, outputs)
    backward = d.backward(present)
    verify(d.forward)
    verify(backward, pure=True)
    results = interpret(d.forward, inputs)
    for got, expected in zip(results, interpret(graph, inputs), strict=False):
        np.testing.assert_array_equal(got, expected)
    flat = interpret(backward, [*results[len(graph.outputs):], *given])
    whole = gradient_function(graph, wrt, outputs, present)
    verify(whole, pure=True)
    again = interpret(whole, [*inputs, *given])
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    for (value, reached), value2, reached2 in zip(pairs, again[::2], again[1::2], strict=True):
        assert reached == reached2
        np.testing.assert_allclose(value, value2, rtol=1e-12, atol=1e-14)
    return pairs


def differences(graph: Graph, inputs: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int],
                cotangents: Sequence[Any], eps: float = 1e-6) -> list[Any]:
    """The gradients of sum(cotangent * output) by central differences."""
    def loss(values: list[Any]) -> float:
        results = interpret(graph, values)
        return sum(float((results[o] * c).sum()) for o, c in zip(outputs, cotangents, strict=True) if c is not None)

    found = []
    for i in wrt:
        gradient = np.zeros_like(inputs[i])
        for at in np.ndindex(gradient.shape):
            values = []
            for step in (eps, -eps):
                moved = inputs[i].copy()
                moved[at] += step
                values.append(loss([*inputs[:i], moved, *inputs[i + 1:]]))
            gradient[at] = (values[0] - values[1]) / (2 * eps)
        found.append(gradient)
    return found


def cotangents_for(graph: Graph, inputs: Sequence[Any], outputs: Sequence[int], seed: int = 0) -> list[Any]:
    """Random cotangents of the outputs' actual shapes."""
    rng = np.random.default_rng(seed)
    results = interpret(graph, inputs)
    return [rng.uniform(0.5, 1.5, results[o].shape) for o in outputs]


def check(graph: Graph, inputs: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int] = (0,), *,
          cotangents: Sequence[Any] | None = None, order: int = 1, tolerance: float = 2e-6) -> list[bool]:
    """First-order gradients (and, with order=2, those of the gradient function) against differences.

    Returns which of `wrt` were reached. What was not reached must be zero, and have no effect.
    """
    inputs = list(inputs)
    if cotangents is None:
        cotangents = cotangents_for(graph, inputs, outputs)
    pairs = gradients(graph, inputs, wrt, outputs, cotangents)
    for (value, reached), expected in zip(pairs, differences(graph, inputs, wrt, outputs, cotangents), strict=True):
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
        if not reached:
            assert not np.any(value)
    if order > 1:
        present = tuple(c is not None for c in cotangents)
        whole = gradient_function(graph, wrt, outputs, present)
        given = [*inputs, *(c for c in cotangents if c is not None)]
        floats = [*wrt, *range(len(inputs), len(given))]
        check(whole, given, floats, tuple(range(0, 2 * len(wrt), 2)), order=order - 1, tolerance=tolerance * 10)
    return [reached for _, reached in pairs]
