"""Convolutions as native programs: symbolic sizes, memory for one image or for some, no call of Python."""

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.buffers import assign
from jitgrad.codegen.program.steps import CallStep, ConvolutionStep, GemmStep, LoopStep
from jitgrad.dims import dim, evaluate, symbols
from tests.codegen.programs import agree, graph, sizes, tensor

HOW = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 1}


def steps_of(steps):
    for step in steps:
        yield step
        if isinstance(step, LoopStep):
            yield from steps_of(step.body)


def conv_graph(dtype=dtypes.float32, **how):
    N, C, H, W, D, K, L = sizes("N C H W D K L")
    how = {**HOW, **how}

    def body(F, x, w):
        y = F.conv(x, w, **how)
        return y, F.conv_transpose(y, w, shape=x.shape, **how), F.conv_weight(y, x, shape=w.shape, **how)

    return graph(body, tensor(N, C, H, W, dtype=dtype), tensor(D, C, K, L, dtype=dtype))


@pytest.mark.parametrize(("x", "w"), [((2, 3, 7, 6), (4, 3, 3, 2)), ((5, 2, 5, 9), (3, 2, 2, 3)),
                                      ((0, 2, 5, 5), (3, 2, 2, 2))])
def test_all_sizes_are_known_only_at_run_time(x, w):
    rng = np.random.default_rng(0)
    agree(conv_graph(), [rng.standard_normal(s).astype(np.float32) for s in (x, w)], 1e-4)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16])
def test_no_call_of_python_and_memory_that_does_not_grow_with_the_batch(dtype):
    program = lower("f", conv_graph(dtype))
    steps = list(steps_of(program.steps))
    assert not any(isinstance(s, CallStep) for s in steps)
    ours, theirs = (sum(isinstance(s, kind) for s in steps) for kind in (ConvolutionStep, GemmStep))
    assert (ours, theirs) == ((3, 0) if dtype is dtypes.float32 else (0, 3))
    _, slots = assign(program)
    found = [size for slot in slots for size, _ in slot.sizes]
    assert found
    unknown = set().union(*map(symbols, found))
    batch = program.inputs[0].dims[0].symbol
    small, large = ([evaluate(size, {s: n if s is batch else 9 for s in unknown}) for size in found]
                    for n in (10**4, 10**6))
    assert small == large


def test_a_kernel_of_one_element_needs_no_columns():
    N, C, H, W, D = sizes("N C H W D")
    how = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    g = graph(lambda F, x, w: F.conv(x, w, **how), tensor(N, C, H, W), tensor(D, C, 1, 1))
    assert not assign(lower("f", g))[1]
    rng = np.random.default_rng(0)
    agree(g, [rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4, 5), (6, 3, 1, 1))], 1e-4)


def test_groups_and_results_that_are_read_on():
    """What a loop fills image by image does not share memory with what the loop itself uses."""
    N, C, H, W = sizes("N C H W")
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}

    def body(F, x, w):
        y = F.conv_transpose(F.tanh(x), w, shape=x.shape, **how)
        return F.conv(F.exp(y), w, **how) + y, F.conv_weight(x, y, shape=w.shape, **how)

    rng = np.random.default_rng(0)
    g = graph(body, tensor(N, C, H, W), tensor(C, 2, 3, 3))
    agree(g, [rng.standard_normal(s).astype(np.float32) for s in ((3, 4, 5, 6), (4, 2, 3, 3))], 1e-3)


def test_strided_sizes_have_one_form():
    """Two ways to halve an image, as beside a shortcut of a residual network, give sizes that are seen to be equal."""
    from jitgrad.ops.specs import windows_count

    (h,) = sizes("h")
    assert windows_count(h + 2, 3, 2, 1) == windows_count(h, 1, 2, 1)
    assert windows_count((h - 1) * 3 + 1, 2, 3, 1) == h - 1 + windows_count(1, 2, 3, 1)
    for n in range(1, 12):
        values = {h.symbol: n}
        assert evaluate(windows_count(h + 2, 3, 2, 1), values) == (n + 2 - 3) // 2 + 1
        assert evaluate(windows_count(2 * h + 1, 4, 3, 2), values) == (2 * n + 1 - 7) // 3 + 1
    assert dim(h.symbol) == h
