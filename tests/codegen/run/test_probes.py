"""Programs with timers compute what the others do, and count."""

from __future__ import annotations

import numpy as np

from jitgrad import dtypes
from jitgrad.codegen.run.probes import Probed
from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import INT, TensorType
from jitgrad.script.graph.ir import Block, Builder, Graph, Value


def small_graph():
    """n times tanh of a product."""
    n, m, k = Symbol("N"), Symbol("M"), Symbol("K")
    x = Value(TensorType(dtypes.float32, (dim(n), dim(m))), "x")
    w = Value(TensorType(dtypes.float32, (dim(m), dim(k))), "w")
    trips = Value(INT, "n")
    b = Builder(Block((x, w, trips), binds=(n, m, k)))
    y = b.one("matmul", x, w)
    body = Block((Value(INT, "k"), Value(y.type, "c")))
    with b.into(body):
        body.results = (b.one("tanh", body.params[1]),)
    (s,) = b.emit("scan", (trips, y), blocks=(body,), types=(y.type,), n_carries=1, reverse=False)
    b.block.results = (s,)
    return Graph(b.block)


def test_values_and_counts():
    probed = Probed({"forward": small_graph()})
    x, w = np.ones((3, 2), np.float32), np.full((2, 4), 0.25, np.float32)
    (out,) = probed["forward"]([x, w, 6])
    expected = x @ w
    for _ in range(6):
        expected = np.tanh(expected)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    costs, total = probed.read("forward")
    found = dict(zip([(p.kind, p.name) for p in probed.probes["forward"]], costs, strict=True))
    product = found["product", "matmul"]
    assert (product.calls, product.flops) == (1, 2 * 3 * 2 * 4)
    assert (product.read, product.written) == (4 * (3 * 2 + 2 * 4), 4 * 3 * 4)
    tanh = next(c for (_, name), c in found.items() if "tanh" in name)
    assert (tanh.calls, tanh.read, tanh.written) == (6, 6 * 48, 6 * 48)
    assert 0 < sum(c.seconds for c in costs) <= total
    assert probed.workspace("forward") >= 48


def test_counters_start_again_when_read():
    probed = Probed({"forward": small_graph()})
    arguments = [np.ones((3, 2), np.float32), np.ones((2, 4), np.float32), 1]
    probed["forward"](arguments)
    probed.read("forward")
    probed["forward"](arguments)
    costs, _ = probed.read("forward")
    assert all(c.calls <= 1 for c in costs)
