"""Helpers for tests of native programs: building graphs, and comparing native results with the interpreter's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.program.sequences import SeqHandle
from jitgrad.codegen.run.compile import Compiled, compile
from jitgrad.dims import Dim, Size, Symbol, dim
from jitgrad.ops.types import TensorType, Type
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.interpret import Some, interpret
from jitgrad.script.graph.ir import Builder, Graph, Value
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.passes import pipeline


def sizes(names: str) -> list[Size]:
    """Symbols that are not 1."""
    return [dim(Symbol(n, not_one=True)) for n in names.split()]


def tensor(*shape: Size, dtype: dtypes.dtype = dtypes.float32) -> TensorType:
    return TensorType(dtype, shape)


def graph(body: Callable[..., Any], *types: Type) -> Graph:
    """The graph of `body(F, *inputs)`; inputs are handles (Values for numbers), so are results."""
    builder = Builder()
    bound: dict[Symbol, None] = {}
    for t in types:
        if isinstance(t, TensorType):
            bound.update((d.symbol, None) for d in t.dims if isinstance(d, Dim) and d.symbol is not None)
    builder.block.params = tuple(Value(t, f"x{i}") for i, t in enumerate(types))
    builder.block.binds = tuple(bound)
    F = GraphNamespace(builder)
    results = body(F, *[F.wrap(p) if isinstance(p.type, TensorType) else p for p in builder.block.params])
    results = results if isinstance(results, (tuple, list)) else (results,)
    builder.block.results = tuple(getattr(r, "value", r) for r in results)
    return Graph(builder.block, "f")


def duplicate(inputs: Sequence[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]


def assert_same(actual: Any, expected: Any, tolerance: float, where: str = "") -> None:
    """Equal types, shapes and values (NaN equals NaN)."""
    if isinstance(actual, SeqHandle):
        actual = actual.to_list()
    if isinstance(expected, Some):
        expected = expected.value
    if isinstance(expected, list):
        assert isinstance(actual, list), where
        assert len(actual) == len(expected), where
        for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, tolerance, f"{where}[{k}]")
    elif isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), where
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), where
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=where)
    elif isinstance(expected, float):
        assert type(actual) is float, where
        np.testing.assert_allclose(actual, expected, rtol=1e-12, err_msg=where)
    else:
        assert (type(actual), actual) == (type(expected), expected), where


def agree(g: Graph, inputs: Sequence[Any], tolerance: float = 1e-5, passes: bool = True) -> Compiled:
    """Check native against interpreted results, twice (the workspace is used again); the compiled program."""
    if passes:
        g = pipeline.run(g)
    expected_inputs = duplicate(inputs)
    with np.errstate(all="ignore"):
        expected = interpret(g, expected_inputs)
    compiled = compile({"f": g})
    for _ in range(2):
        given = duplicate(inputs)
        actual = compiled["f"](given)
        for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, tolerance, f"output {k}")
        for k, (a, e) in enumerate(zip(given, expected_inputs, strict=True)):
            if isinstance(e, np.ndarray):
                assert_same(a, e, tolerance, f"memory of input {k}")
    return compiled


def agree_in_gradients(case: Any, compile: Callable[[dict[str, Graph]], Any], calls: int) -> None:
    """Compare forward and backward of a random graph with the interpreter; residuals go from one to the other."""
    d = differentiate(case.graph, case.floats, case.outputs)
    graphs = {"forward": pipeline.run(d.forward), "backward": pipeline.run(d.backward((True,) * len(case.outputs)))}
    n = len(case.graph.outputs)
    expected = interpret(graphs["forward"], duplicate(case.inputs))
    cotangents = [np.ones_like(expected[i]) for i in case.outputs]
    expected_back = interpret(graphs["backward"], [*expected[n:], *cotangents])
    compiled = compile(graphs)
    for _ in range(calls):
        outputs = compiled["forward"](duplicate(case.inputs))
        for i, (a, e) in enumerate(zip(outputs, expected, strict=True)):
            assert_same(a, e, 1e-9, f"output {i}")
        back = compiled["backward"]([*outputs[n:], *cotangents])
        for k in range(0, len(back), 2):
            assert back[k + 1] == expected_back[k + 1]
            if back[k + 1]:
                assert_same(back[k], expected_back[k], 1e-9, f"gradient {k // 2}")
