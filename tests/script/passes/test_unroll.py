"""Short loops written out: the same values and gradients, and what stays a loop."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.loops.unroll import MOST, unroll

LOOP = """graph f(%x: f32[N], %w: f32[N]) -> ():
  %n: int = num.const(){value=3}
  %y: f32[N], %z: f32[N] = scan(%n, %x, %w){n_carries=2, reverse=False}:
    body(%k: int, %p: f32[N], %q: f32[N]):
      %0: float = num.cast(%k){to="float"}
      %1: f32[] = fill(%0){shape=(), dtype=f32}
      %2: f32[N] = mul(%p, %q)
      %3: f32[N] = add(%2, %1)
      yield %q, %3
  return %y, %z
"""


def loops(graph: Graph) -> int:
    return sum(n.op == "scan" for n in walk(graph.block))


def given(n: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=n).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("trips", [0, 1, 3, 20])
def test_the_iterations_are_written_out(trips: int, reverse: bool) -> None:
    before = parse(LOOP.replace("value=3", f"value={trips}").replace("reverse=False", f"reverse={reverse}"))
    after = dce(unroll(before))
    verify(after)
    assert loops(after) == 0
    for a, b in zip(interpret(after, given()), interpret(before, given()), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("change", [
    ("value=3", f"value={MOST}"),
    ("%n: int = num.const(){value=3}", "%n: int = dim.value(){dim=N}"),
], ids=["long", "unknown"])
def test_what_stays_a_loop(change: tuple[str, str]) -> None:
    graph = parse(LOOP.replace(*change))
    assert loops(unroll(graph)) == 1


def test_sizes_and_symbols_of_an_iteration_are_its_own() -> None:
    @jitgrad.script
    def f(x):
        total = x.sum()
        for k in range(3):
            total = total + x[k:].sum() * x[x > k].sum()
        return total

    x = jitgrad.linspace(-1.0, 4.0, 7).requires_grad_()
    f(x).backward()
    y = x.detach().clone().requires_grad_()
    f.eager(y).backward()
    assert jitgrad.allclose(x.grad, y.grad)
    assert f(x).item() == pytest.approx(f.eager(x).item())


def test_a_chain_of_operations_saves_nothing_for_each_iteration() -> None:
    @jitgrad.script
    def f(x):
        for _ in range(4):
            x = x * 0.5 + x * x
        return x.sum()

    x = jitgrad.rand(50, requires_grad=True)
    report = f.explain(x)
    assert [s.cost.calls for s in report.runs["forward"].steps if s.kind == "kernel"] == [1]
    (forward,) = jitgrad.autograd.grad(f(x), x)
    (eager,) = jitgrad.autograd.grad(f.eager(x), x)
    np.testing.assert_allclose(forward.numpy(), eager.numpy(), rtol=1e-6)


def test_products_stay_in_their_loop() -> None:
    graph = parse("""graph f(%x: f32[N, N]) -> ():
  %n: int = num.const(){value=3}
  %y: f32[N, N] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[N, N]):
      %0: f32[N, N] = matmul(%p, %x)
      yield %0
  return %y
""")
    assert loops(unroll(graph)) == 1


def test_errors_name_their_iteration_as_eager_does() -> None:
    @jitgrad.script
    def f(x, d: int):
        for k in range(3):
            x = x + 1 // (d - k)
        return x

    x = jitgrad.zeros(2)
    assert f(x, 5).tolist() == f.eager(x, 5).tolist()
    with pytest.raises(ZeroDivisionError):
        f(x, 2)


def test_prints_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    @jitgrad.script
    def f(x):
        for k in range(3):
            print(k, x.sum().item())
            x = x * 2
        return x

    f(jitgrad.ones(2))
    assert capsys.readouterr().out == "0 2.0\n1 4.0\n2 8.0\n"


def test_a_loop_and_its_gradient_in_a_whole_step_are_one_kernel():
    @jitgrad.script
    def step(x):
        y = x
        for _ in range(4):
            y = y * 0.5 + y * y
        loss = y.sum()
        loss.backward()
        return loss

    x = jitgrad.linspace(-1.0, 1.0, 40).requires_grad_()
    found, gradient = step(x).item(), x.grad
    assert len(step.kernels()) == 1
    x.grad = None
    assert step.eager(x).item() == pytest.approx(found, rel=1e-5)
    np.testing.assert_allclose(gradient, x.grad, rtol=1e-5, atol=1e-6)
