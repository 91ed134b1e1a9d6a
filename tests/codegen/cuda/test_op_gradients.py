"""Every pointwise op and its gradient as kernels on the host: edge sizes and odd strides, against the interpreter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.host.gpu import compile
from jitgrad.ops import OPS
from jitgrad.ops.opdef import POINTWISE, REDUCE
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import fakedriver, host
from tests.codegen.programs import assert_same, graph, sizes, tensor
from tests.ops.cases import cases, differentiable

pytestmark = host.emulated

def attrs_of(name: str) -> dict[str, Any]:
    return cases(OPS[name])[0][1]


SIZES = (1, 7, 255, 257, 1000)
#: ops in one program: it is compiled by g++ once
TOGETHER = 6
NAMES = [n for n in differentiable() if OPS[n].kind is POINTWISE and n not in ("cast", "where")]
REDUCTIONS = [n for n in differentiable() if OPS[n].kind is REDUCE and "axes" in attrs_of(n)]


def check(body: Any, names: list[str], arity: int, low: float, high: float) -> None:
    """Forward and backward of a graph, natively and interpreted. Operands are columns of a matrix: no two of their
    elements are neighbours. Threads run in ascending order for one size, in descending order for the next."""
    n, m = sizes("n m")

    def whole(F: Any, *xs: Any) -> Any:
        return body(F, [F.select(x, axis=1, index=k) for k, x in enumerate(xs)])

    g = graph(whole, *[tensor(n, m, dtype=dtypes.float64)] * arity)
    outputs = tuple(range(len(g.outputs)))
    d = differentiate(g, tuple(range(arity)), outputs)
    graphs = {"forward": pipeline.run(d.forward), "backward": pipeline.run(d.backward((True,) * len(outputs)))}
    driver = fakedriver.driver()
    compiled = compile(graphs, driver)
    rng = np.random.default_rng(0)
    for size, order in zip(SIZES, itertools.cycle((False, True))):
        given = [rng.uniform(low, high, (size, max(3, arity))) for _ in range(arity)]
        with np.errstate(all="ignore"), driver.reversed(order):
            expected = interpret(graphs["forward"], given)
            found = compiled["forward"](given)
            cotangents = [np.cos(np.arange(expected[k].size)).reshape(expected[k].shape) for k in outputs]
            back = interpret(graphs["backward"], [*expected[len(outputs):], *cotangents])
            found_back = compiled["backward"]([*found[len(outputs):], *cotangents])
        for k, (a, e) in enumerate(zip(found[:len(outputs)], expected, strict=False)):
            assert_same(a, e, 1e-9, f"{names[k]} of {size}")
        for k in range(0, len(back), 2):
            assert found_back[k + 1] == back[k + 1]
            if back[k + 1]:
                assert_same(found_back[k], back[k], 1e-8, f"gradient {k // 2} of {names}, {size}")


def batches() -> list[tuple[int, list[str]]]:
    """Ops of one arity and domain together."""
    by = lambda n: (OPS[n].arity, OPS[n].domain)  # noqa: E731
    found = []
    for (arity, _), some in itertools.groupby(sorted(NAMES, key=by), by):
        names = list(some)
        found += [(arity, names[k:k + TOGETHER]) for k in range(0, len(names), TOGETHER)]
    return found


@pytest.mark.parametrize(("arity", "names"), batches(), ids=lambda v: "-".join(v) if isinstance(v, list) else str(v))
def test_pointwise(arity: int, names: list[str]) -> None:
    def body(F: Any, xs: Any) -> Any:
        return [getattr(F, name)(*xs, **attrs_of(name)) for name in names]

    check(body, names, arity, *OPS[names[0]].domain)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    """Of the whole of a strided vector."""
    attrs = {**attrs_of(name), "axes": (0,), "keepdim": False}
    check(lambda F, xs: [getattr(F, name)(*xs, **attrs)], [name], 1, *OPS[name].domain)
