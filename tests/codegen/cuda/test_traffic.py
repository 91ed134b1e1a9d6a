"""Bytes and launches of kernels, by kind and form; a user's report."""

from __future__ import annotations

import jitgrad
from jitgrad.script.inspect.explain.moved import Traffic
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

F = jitgrad.nn.functional


def count(function, *args, **options) -> Traffic:
    return jitgrad.script(function).traffic(*args, **options)


def test_a_pointwise_kernel_reads_its_operands_and_writes_its_results():
    found = count(lambda x, b: (x + b).exp(), jitgrad.ones(1000, 8), jitgrad.ones(8))
    (step,) = found.steps
    assert (step.read, step.written) == (4 * (8000 + 8), 4 * 8000)
    assert (step.launches, step.kind, step.inside) == (1, "kernel", ())


def test_half_types_are_two_bytes():
    found = count(lambda x: (x * 2).tanh(), jitgrad.ones(1000, dtype=jitgrad.bfloat16))
    assert found.bytes == 4000


def test_a_row_is_read_once_where_it_waits_and_for_each_stage_where_it_does_not():
    """Softmax: registers up to some length, shared memory, then three readings; the exponentials are written twice."""
    for rows, n, names, times in ((3, 100, "_group", 1), (3, 4000, "_group", 1), (3, 8000, "_block", 1),
                                  (3, 30000, "_shared", 1), (300, 100000, "_sweeps", 3)):
        (step,) = count(lambda x: x.softmax(-1), jitgrad.empty(rows, n)).steps
        assert step.name.endswith(names)
        assert step.read == times * rows * n * 4
        assert step.written == (1 if times == 1 else 2) * rows * n * 4


def test_one_row_takes_a_launch_for_each_stage():
    found = count(lambda x: x / x.sum(), jitgrad.ones(1000000))
    (step,) = found.steps
    assert step.launches == 2
    assert 8000000 <= step.read < 8100000  # and the blocks' parts
    assert 4000000 <= step.written < 4100000


def test_columns_and_weights():
    """A weight that each row reads counts once."""
    (step,) = count(lambda x, w: (x * w).sum(0), jitgrad.ones(10, 300), jitgrad.ones(300)).steps
    assert step.read == 4 * (3000 + 300)
    assert step.written == 4 * 300


def test_products_libraries_waits_loops_and_branches():
    def f(x, w, n: int):
        for _ in range(n):
            x = (x @ w).relu()
        if x.sum() > 3:
            x = x.sort(-1).values
        else:
            x = x + 1
        return x

    found = count(f, jitgrad.ones(8, 16), jitgrad.ones(16, 16), 3)
    kinds = [(s.kind, s.inside) for s in found.steps]
    assert ("product", ("loop",)) in kinds
    assert ("wait", ()) in kinds
    assert ("library", ("if",)) in kinds
    assert found.waits == 1
    product = next(s for s in found.steps if s.kind == "product")
    assert (product.read, product.written) == (4 * (8 * 16 + 16 * 16), 4 * 8 * 16)
    assert "the host waits" in str(found)
    assert "loop" in str(found)


def test_a_loop_with_large_products_is_launched_piece_by_piece():
    def f(x, w, most: int):
        k = 0
        while x.abs().max() > 1e-3 and k < most:
            x = jitgrad.tanh(x @ w)
            k += 1
        return x, k

    small, large = (count(f, jitgrad.ones(n, n), jitgrad.ones(n, n), 5) for n in (8, 512))
    assert [s.kind for s in small.steps if s.inside] == ["kernel"]
    assert ("product", ("loop",)) in [(s.kind, s.inside) for s in large.steps]
    assert small.waits == 1  # for k
    assert [s.inside for s in large.steps if s.kind == "wait"] == [(), ("loop",)]  # for the condition


def test_equal_updates_are_one_launch():
    found = count(lambda a, b, c: (a.mul_(2), b.mul_(2), c.mul_(2)), *[jitgrad.ones(n) for n in (5, 6, 7)])
    (step,) = found.steps
    assert (step.launches, step.read, step.written) == (1, 4 * 18, 4 * 18)


def test_a_report_has_both_programs_lines_and_reasons():
    x, w = jitgrad.ones(4, 8), jitgrad.ones(8, 2, requires_grad=True)

    @jitgrad.script
    def loss(x, w):
        e = (x @ w).exp()
        return (e / e.sum(0)).sum(1)

    found = loss.traffic(x, w)
    assert set(found.runs) == {"forward", "backward"}
    assert set(loss.traffic(x, w, backward=False).runs) == {"forward"}
    text = str(found)
    assert "loss on a GPU: " in text
    assert "not one kernel, and why" in text
    assert "line" in text


def test_a_size_that_only_the_run_knows():
    found = count(lambda x: x[x > 0] * 2, jitgrad.ones(9))
    assert any(s.read is None for s in found.steps)
    assert "?" in str(found)


def test_a_scripted_module_has_it_too():
    net = jitgrad.script(jitgrad.nn.Linear(4, 2))
    assert net.traffic(jitgrad.ones(3, 4)).launches >= 1


@host.needs_compiler
def test_tensors_on_the_cpu_are_counted_as_those_on_a_gpu():
    """Which checks its indices late: nothing waits."""
    def loss(x, t):
        return F.cross_entropy(x, t) + x[t].sum()

    x, t = jitgrad.ones(5, 5, requires_grad=True), jitgrad.arange(5)
    here = jitgrad.script(loss).traffic(x, t)
    assert here.waits == 0
    with gpu():
        there = jitgrad.script(loss).traffic(x.detach().cuda().requires_grad_(), t.cuda())
    assert [(s.name, s.read, s.written) for s in here.steps] == [(s.name, s.read, s.written) for s in there.steps]
