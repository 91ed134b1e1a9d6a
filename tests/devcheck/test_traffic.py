"""Bytes and launches of the workloads at the sizes that are measured, against their floors: counted, not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda.host.traffic import Moved, traffic
from jitgrad.codegen.cuda.schedule.passes import prepared
from jitgrad.script.call.graph_function import GraphFunction
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tools.devcheck.workloads import WORKLOADS

#: sizes that stand for those of a workload, one each, so that they can be told apart
STAND_FOR = (11, 13, 17, 19, 23)
#: sizes that decide which program it is; the features of a head, for which there are kernels or not, are their own
FIXED = ("count", "heads", "batches")
OWN = {"block": {"c": 768}, "attention": {"d": 64}}


@dataclass
class Limit:
    """The most launches; bytes moved as a multiple of `ideal`, which is computed from the sizes."""

    launches: int
    most: float
    ideal: Any


def step_bytes(n: int, d: int, h: int, o: int) -> int:
    """What a step of the lecture's net reads and writes."""
    return 4 * (2 * n * d + n * h * 7 + d * h * 5 + n * o * 7 + 8 * o)


LIMITS = {
    "layer_norm": Limit(3, 1.05, lambda m, n: 5 * m * n * 2),
    "cross_entropy": Limit(5, 1.01, lambda m, v: 3 * m * v * 2),
    "bias_gelu_dropout": Limit(2, 1.17, lambda m, n: 6 * m * n * 2),
    "adam": Limit(6, 1.01, lambda count, n: 28 * count * n),
    "mlp_step": Limit(7, 1.05, step_bytes),
    "mlp_batches": Limit(7, 1.05, lambda n, d, h, o, batches: step_bytes(n, d, h, o)),
    "newton": Limit(3, 1.05, lambda n: 12 * n + 5 * n + 8 * n),
    # the products of all inputs at once, and one time step
    "lstm": Limit(5, 1.05, lambda t, b, h: 2 * (5 * t * b * h + 4 * h * h) + 3.3e6),
    # operands and results of products (with the residual), of attention and of norms, and their gradients'; the weights
    "block": Limit(20, 1.1, lambda b, t, c, heads: 2 * ((57 + 12 + 14) * b * t * c + 3 * 12 * c * c)),
    # the result is copied for the backward, where it is in the order of what made q, k and v
    "attention": Limit(4, 1.01, lambda b, heads, t, d: 18.2 * b * heads * t * d * 2),
    "softmax_1024": Limit(2, 1.01, lambda m, n: 5 * m * n * 2),
    "softmax_50257": Limit(2, 1.01, lambda m, n: 7 * m * n * 2),
    "batch_norm": Limit(4, 1.01, lambda n, c, h: 8 * n * c * h * h * 4),
    "transposed": Limit(1, 1.0, lambda n: 2 * n * n * 4),
    "call": Limit(1, 1.0, lambda n: 8 * n),
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Functions as they are prepared, with the objects for which that was done."""
    found: list[Any] = []
    prepare = GraphFunction.prepare.__func__  # type: ignore[attr-defined]

    def noted(cls: Any, graph: Any, objects: Any, *args: Any, **more: Any) -> Any:
        function = prepare(cls, graph, objects, *args, **more)
        found.append((function, [getattr(o, "shape", ()) for o in objects]))
        return function

    monkeypatch.setattr(GraphFunction, "prepare", classmethod(noted))
    with gpu(), config.override(cache=""):
        yield found


def measured(name: str, made: list[Any]) -> list[Moved]:
    """What the last program of a workload moves at its real sizes, compiled for small ones."""
    w = WORKLOADS[name]
    stand_for = iter(STAND_FOR)
    small = {k: n if k in FIXED else next(stand_for) for k, n in w.sizes.items()} | OWN.get(name, {})
    real = {small[k]: n for k, n in w.sizes.items() if k not in FIXED}
    real.update({times * k: times * n for k, n in list(real.items()) for times in (3, 4)})
    run = w.make(jitgrad, "cuda", jitgrad.script, **small)
    run()
    if name == "adam":
        run()  # with moments
    function, shapes = made[-1]
    graphs, _, _ = function._graphs()
    programs = {k: prepared(k, g, function.hosted if k == "forward" else ()) for k, g in graphs.items()}
    sizes = {}
    for symbol, (i, axis) in programs["forward"].input_symbols.items():
        sizes[symbol] = real.get(shapes[i][axis], shapes[i][axis])
    return [m for p in programs.values() for m in traffic(p, sizes)]


@host.needs_compiler
@pytest.mark.sampled("tools")
@pytest.mark.parametrize("name", WORKLOADS)
def test_near_the_floor(name: str, made: list[Any]) -> None:
    found = measured(name, made)
    limit = LIMITS[name]
    assert sum(m.launches for m in found) <= limit.launches, "\n".join(map(str, found))
    total = sum((m.read or 0) + (m.written or 0) for m in found)
    assert total <= limit.most * limit.ideal(**WORKLOADS[name].sizes), "\n".join(map(str, found))
    assert all(m.read is not None and m.written is not None for m in found)


def test_a_layer_norm_and_its_gradient_in_one_script_read_once() -> None:
    """What the backward needs of a row is still there."""
    @jitgrad.script
    def step(x: Any, w: Any, b: Any, g: Any) -> Any:
        y = jitgrad.nn.functional.layer_norm(x, (x.shape[-1],), w, b)
        y.backward(g)
        return y.detach()

    x, g = (jitgrad.empty(16384, 4096, dtype=jitgrad.bfloat16) for _ in range(2))
    w, b = (jitgrad.ones(4096, dtype=jitgrad.bfloat16, requires_grad=True) for _ in range(2))
    found = step.traffic(x.requires_grad_(), w, b, g)
    assert found.launches == 2
    assert found.bytes <= 1.05 * 4 * 2 * 16384 * 4096


def test_a_cross_entropy_and_its_gradient_in_one_script_are_three_passes() -> None:
    """The logits are read by the loss and by the gradient, which is written; no exponential is."""
    @jitgrad.script
    def step(y: Any, target: Any) -> Any:
        loss = jitgrad.nn.functional.cross_entropy(y, target)
        loss.backward()
        return loss.detach()

    y = jitgrad.empty(8192, 50257, dtype=jitgrad.bfloat16, requires_grad=True)
    found = step.traffic(y, jitgrad.zeros(8192, dtype=jitgrad.int64))
    assert found.launches == 3
    assert found.bytes <= 1.01 * 3 * 2 * 8192 * 50257
