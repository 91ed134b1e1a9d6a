"""Programs for a device whose calls are replayed as graphs: random ones, repeatedly, with other arrays and sizes."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.host.gpu import compile
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import host, hostgraphs
from tests.codegen.programs import agree_in_gradients, assert_same, duplicate, graph, sizes, tensor
from tests.script.graphs import random_graph

pytestmark = host.emulated


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    case = random_graph(seed)
    g = pipeline.run(case.graph)
    compiled = compile({"f": g}, hostgraphs.driver())
    for k in range(5):
        given = [np.asarray(x * (1 - 0.1 * k)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
                 for x in duplicate(case.inputs)]
        with np.errstate(all="ignore"):
            expected = interpret(g, duplicate(given))
        for i, (a, e) in enumerate(zip(compiled["f"](given), expected, strict=True)):
            assert_same(a, e, 1e-9, f"call {k}, output {i}")


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_gradients(seed):
    agree_in_gradients(random_graph(seed), lambda graphs: compile(graphs, hostgraphs.driver()), 3)


def test_a_program_is_one_graph_launch():
    n, m = sizes("n m")
    g = graph(lambda F, x, y: F.sum(F.exp(F.matmul(F.tanh(x), F.permute(y, axes=(1, 0)))), axes=(1,), keepdim=False),
              tensor(n, m, dtype=dtypes.float64), tensor(n, m, dtype=dtypes.float64))
    g = pipeline.run(g)
    driver = hostgraphs.driver()
    compiled = compile({"f": g}, driver)
    rng = np.random.default_rng(0)
    for k, rows in enumerate((5, 5, 5, 7, 7, 5)):
        x, y = rng.standard_normal((2, rows, 3))
        before = driver.simulated.launched
        (got,) = compiled["f"]([x, y])
        assert_same(got, interpret(g, [x, y])[0], 1e-9)
        assert driver.simulated.launched - before == (k > 0)
