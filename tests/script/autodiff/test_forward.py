"""Forward mode of graphs: against differences for every row, against reverse mode for random programs."""

from types import SimpleNamespace

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.errors import NonDifferentiable, Span
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.rules import has_derivative
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff import gradient_function
from jitgrad.script.autodiff.forward import tangent_function
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value, walk
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes import pipeline
from tests.oracles import SYMMETRIC
from tests.script.gradients import cotangents_for
from tests.script.graphs import random_graph


def graph_of(op, arrays, attrs):
    """A graph that is one op."""
    params = tuple(Value(TensorType(dtypes.from_numpy(a.dtype), a.shape), f"x{i}") for i, a in enumerate(arrays))
    builder = Builder(Block(params))
    F = GraphNamespace(builder)
    result = F.apply(op, tuple(F.wrap(p) for p in params), attrs)
    results = result if isinstance(result, tuple) else (result,)
    builder.block.results = tuple(r.value for r in results)
    return Graph(builder.block)


#: of vectors whose phases LAPACK chooses anew for every matrix; `test_linalg_complex` has expressions without these
PHASES = {"eig_parts", "eigh_parts", "svd_parts"}


def cases():
    """(name, arrays, attrs) for every row that has a derivative."""
    rng = np.random.default_rng(0)
    for name, op in OPS.items():
        if op.vjp is NONDIFF or name in PHASES:
            continue
        if op.samples is None:
            found = [([rng.uniform(*op.domain, (3, 4)) for _ in range(op.arity)], {}),
                     ([rng.uniform(*op.domain, (4,) if i else (3, 4)) for i in range(op.arity)], {})]
        else:
            found = op.samples(np.random.default_rng(0))
        for at, (arrays, attrs) in enumerate(found):
            one_element = attrs.get("correction") and not attrs["axes"]  # a variance of NaN
            if one_element or not all(isinstance(a, np.ndarray) for a in arrays):
                continue
            arrays = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
            if name == "where":
                arrays[0] = arrays[0] > 0
            if any(a.dtype.kind == "f" for a in arrays) and attrs.get("dtype") is not dtypes.float32:
                yield pytest.param(name, arrays, attrs, id=f"{name}-{at}")


@pytest.mark.parametrize(("name", "arrays", "attrs"), list(cases()))
def test_every_row_against_differences(name, arrays, attrs):
    graph = graph_of(OPS[name], arrays, attrs)
    known = has_derivative(OPS[name], len(arrays))
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f" and known[i]]
    outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_floating_point]
    rng = np.random.default_rng(1)
    for wrt in [floats, *([i] for i in floats if len(floats) > 1)]:
        tangent = tangent_function(graph, wrt, outputs)
        verify(tangent)
        directions = [np.asarray(rng.normal(size=arrays[i].shape)) for i in wrt]
        if name in SYMMETRIC:
            directions = [v + v.swapaxes(-1, -2) for v in directions]
        elif name.removesuffix("_parts") in SYMMETRIC:  # Hermitian: the imaginary part is antisymmetric
            directions = [v + (1 - 2 * (i % 2)) * v.swapaxes(-1, -2) for i, v in zip(wrt, directions, strict=True)]

        def at(step, wrt=wrt, directions=directions):
            moved = list(arrays)
            for i, v in zip(wrt, directions, strict=True):
                moved[i] = np.asarray(moved[i] + step * v)
            return interpret(graph, moved)

        results = interpret(tangent, [*arrays, *directions])
        high, low = at(1e-6), at(-1e-6)
        for i, found in zip(outputs, results[len(graph.outputs):], strict=True):
            np.testing.assert_allclose(found, (high[i] - low[i]) / 2e-6, rtol=1e-4, atol=1e-5)


def test_the_tangent_of_a_cast_is_a_cast():
    graph = graph_of(OPS["cast"], [np.ones(2)], {"dtype": dtypes.float32})
    _, found = interpret(tangent_function(graph, (0,), (0,)), [np.ones(2), np.array([0.1, 0.2])])
    np.testing.assert_array_equal(found, np.array([0.1, 0.2], np.float32))


def product(a, b):
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_against_reverse_mode(seed):
    """c . J v is the same from both sides, before and after the passes; values are those of the program."""
    case = random_graph(seed, size=4, depth=2)
    graph, n = case.graph, len(case.graph.outputs)
    rng = np.random.default_rng(seed)
    directions = [np.asarray(rng.normal(size=case.inputs[i].shape)) for i in case.floats]
    cotangents = cotangents_for(graph, case.inputs, case.outputs)
    tangent = tangent_function(graph, case.floats, case.outputs)
    verify(tangent)
    reverse = gradient_function(graph, case.floats, case.outputs, (True,) * len(case.outputs))
    expected = product(interpret(reverse, [*case.inputs, *cotangents])[::2], directions)
    for program in (tangent, pipeline.run(tangent)):
        results = interpret(program, [*case.inputs, *directions])
        assert product(results[n:], cotangents) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for found, value in zip(interpret(tangent, [*case.inputs, *directions]), interpret(graph, case.inputs),
                            strict=False):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("seed", range(40, 60))
def test_forward_over_reverse_is_reverse_over_forward(seed):
    """The Hessian is symmetric: H v by either order."""
    case = random_graph(seed, size=3, depth=2)
    graph, wrt, n = case.graph, case.floats, len(case.graph.outputs)
    rng = np.random.default_rng(seed)
    directions = [np.asarray(rng.normal(size=case.inputs[i].shape)) for i in wrt]
    cotangents = cotangents_for(graph, case.inputs, case.outputs)
    present = (True,) * len(case.outputs)
    reverse = gradient_function(graph, wrt, case.outputs, present)
    forward_over = tangent_function(reverse, wrt, range(0, 2 * len(wrt), 2))
    verify(forward_over)
    first = interpret(forward_over, [*case.inputs, *cotangents, *directions])[2 * len(wrt):]
    tangent = tangent_function(graph, wrt, case.outputs)
    reverse_over = gradient_function(tangent, wrt, range(n, n + len(case.outputs)), present)
    verify(reverse_over)
    second = interpret(reverse_over, [*case.inputs, *directions, *cotangents])[::2]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


NEWTON = """graph newton(%a: f64[3]) -> f64[3]:
  %c: bool = num.const(){value=True}
  %n: int, %x: f64[3] = while(%c, %a):
    body(%p: f64[3]):
      %two: f64[] = full(){value=2.0, shape=(), dtype=f64}
      %0: f64[3] = div(%a, %p)
      %1: f64[3] = add(%p, %0)
      %2: f64[3] = div(%1, %two)
      %3: f64[3] = sub(%2, %p)
      %4: f64[3] = abs(%3)
      %5: f64[] = sum(%4){axes=(0,), keepdim=False}
      %e: f64[] = full(){value=1e-10, shape=(), dtype=f64}
      %6: b8[] = gt(%5, %e)
      %7: bool = item(%6)
      yield %7, %2
  return %x"""


def test_newton():
    a, v = np.array([2.0, 3.0, 10.0]), np.array([1.0, -1.0, 0.5])
    x, t = interpret(tangent_function(parse(NEWTON), (0,), (0,)), [a, v])
    np.testing.assert_allclose(x, np.sqrt(a))
    np.testing.assert_allclose(t, v / (2 * np.sqrt(a)))


def test_what_does_not_move_has_no_tangent():
    graph = parse("""graph f(%x: f64[3], %y: f64[3]) -> (f64[3], f64[3]):
  %0: f64[3] = sin(%x)
  %1: f64[3] = exp(%y)
  return %0, %1""")
    tangent = tangent_function(graph, (0,), (0, 1))
    ops = [n.op for n in walk(tangent.block)]
    assert sorted(ops) == ["cos", "exp", "full", "mul", "sin"]
    results = interpret(tangent, [np.zeros(3), np.zeros(3), np.ones(3)])
    np.testing.assert_array_equal(results[3], np.zeros(3))


def test_no_placeholder_is_left_of_a_transposed_rule():
    graph = parse("""graph f(%x: f64[3, 4], %w: f64[4, 2]) -> f64[3, 2]:
  %0: f64[3, 2] = matmul(%x, %w)
  return %0""")
    tangent = pipeline.run(tangent_function(graph, (0, 1), (0,)))
    assert sorted(n.op for n in walk(tangent.block)) == ["add", "matmul", "matmul", "matmul"]


def test_an_op_without_derivative():
    type_ = TensorType(dtypes.float64, (3,))
    x, y = Value(type_, "x"), Value(type_, "y")
    call = SimpleNamespace(recorded=(0,))
    node = Node("callback", (x,), {"call": call}, (y,), (), Span("f.py", 3, 1, 3, 4))
    graph = Graph(Block((x,), [node], (y,)))
    with pytest.raises(NonDifferentiable, match="`callback` has no derivative") as caught:
        tangent_function(graph, (0,), (0,))
    assert caught.value.span.line == 3
