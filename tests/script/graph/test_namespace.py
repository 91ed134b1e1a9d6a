"""Rules run under `GraphNamespace` write the nodes that compute them."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim
from jitgrad.ops import OPS
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Builder, Graph, Value
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.graph.verify import verify

N = Symbol("N")


def build(function, *types, binds=(N,)):
    """The graph of `function(F, *handles)`."""
    block = Block(tuple(Value(t) for t in types), binds=binds)
    F = GraphNamespace(Builder(block))
    block.results = (function(F, *map(F.wrap, block.params)).value,)
    graph = Graph(block)
    verify(graph)
    return graph


X = TensorType(dtypes.float64, (dim(N), 3))


def test_a_rule_becomes_nodes():
    graph = build(lambda F, g, y, x: OPS["tanh"].vjp(F, g, y, x)[0], X, X, X)
    g, y = np.random.default_rng(0).normal(size=(2, 4, 3))
    (result,) = interpret(graph, [g, y, y])
    np.testing.assert_allclose(result, g * (1 - y * y), rtol=1e-15)


def test_operators_and_literals_take_the_other_dtype():
    graph = build(lambda F, x: F.where(x > 0, 1 - x / 2, -x * 0.5 + x ** 2), X)
    assert all(n.output.type.dtype is dtypes.float64 for n in graph.block.nodes if n.op == "full" and n.attrs["value"])
    x = np.random.default_rng(0).normal(size=(4, 3))
    (result,) = interpret(graph, [x])
    np.testing.assert_allclose(result, np.where(x > 0, 1 - x / 2, -x * 0.5 + x**2), rtol=1e-15)


def test_one_constant_per_literal_and_block():
    graph = build(lambda F, x: (x + 1) * (x - 1) + 1.0, X)
    assert [n.attrs["value"] for n in graph.block.nodes if n.op == "full"] == [1, 1.0]


def test_sizes_become_numbers():
    graph = build(lambda F, x: F.sum(x, axes=(0,), keepdim=False) / F.count(x, (0,)), X)
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(interpret(graph, [x])[0], x.mean(0), rtol=1e-15)


@pytest.mark.parametrize(("axes", "keepdim"), [((0,), False), ((1,), True), ((0, 1), False), ((0, 1), True)])
def test_unreduce(axes, keepdim):
    graph = build(lambda F, x: F.unreduce(F.sum(x, axes=axes, keepdim=keepdim), x, axes, keepdim), X)
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(interpret(graph, [x])[0], np.broadcast_to(x.sum(axes, keepdims=True), x.shape))


def test_unknown_op():
    with pytest.raises(AttributeError, match="no op `frobnicate`"):
        _ = GraphNamespace(Builder()).frobnicate
