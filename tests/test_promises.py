"""What the README promises of scripted functions: compiled once, fused, interruptible, thread-safe, no leaks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F


def normal(*shape, seed=0, scale=1.0):
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return jitgrad.from_numpy(values.astype(np.float32))


# --- compiled once -------------------------------------------------------------------------------------------------


def test_one_compilation_for_500_values_of_a_float_that_steers_a_branch():
    @jitgrad.script
    def model(x, w1, w2a, w2b, prev_loss: float):
        w2 = w2a if prev_loss < 5.0 else w2b
        return (x.mm(w1).clamp(min=0).mm(w2)).pow(2).sum()

    x = normal(4, 6)
    w1, w2a, w2b = (normal(*s, seed=i, scale=0.3).requires_grad_() for i, s in enumerate(((6, 5), (5, 2), (5, 2))))
    for step in range(500):
        w2a.grad = w2b.grad = None
        model(x, w1, w2a, w2b, 0.02 * step).backward()
        taken, other = (w2a, w2b) if 0.02 * step < 5.0 else (w2b, w2a)
        assert taken.grad is not None
        assert other.grad is None
    assert model.cache_info().compilations == 1


def test_one_compilation_for_12_batch_sizes():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    scripted = jitgrad.script(model)
    for batch in (2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 100):
        x = normal(batch, 6, seed=batch)
        np.testing.assert_allclose(scripted(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert scripted.cache_info().compilations == 1


def test_one_compilation_for_10_sequence_lengths():
    @jitgrad.script
    def rnn(xs, h, wx, wh):
        for t in range(xs.shape[0]):
            h = jitgrad.tanh(xs[t].mm(wx) + h.mm(wh))
        return h.pow(2).sum()

    wx, wh = (normal(*s, seed=1, scale=0.3).requires_grad_() for s in ((8, 16), (16, 16)))
    for length in (2, 3, 4, 5, 6, 7, 9, 12, 20, 41):
        rnn(normal(length, 4, 8, seed=length), jitgrad.zeros(4, 16), wx, wh).backward()
    assert rnn.cache_info().compilations == 1


def test_one_compilation_for_a_learning_rate_that_a_scheduler_changes():
    w = normal(3, 3).requires_grad_()
    optimizer = jitgrad.optim.SGD([w], lr=0.1)
    scheduler = jitgrad.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    @jitgrad.script
    def scaled(g):
        return g * optimizer.param_groups[0]["lr"]

    g = normal(3, 3, seed=1)
    for step in range(10):
        np.testing.assert_allclose(scaled(g).numpy(), g.numpy() * 0.1 * 0.9**step, rtol=1e-5)
        optimizer.step()
        scheduler.step()
    assert scaled.cache_info().compilations == 1


# --- fused ---------------------------------------------------------------------------------------------------------


def kernels_of(function, *args):
    scripted = jitgrad.script(function)
    expected = function(*args)
    np.testing.assert_allclose(scripted(*args).detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    return scripted.kernels()


def test_bias_gelu_residual_layer_norm_is_one_kernel():
    def block(x, bias, residual, weight, shift):
        h = F.gelu(x + bias) + residual
        return F.layer_norm(h, (h.shape[-1],), weight, shift)

    args = [normal(5, 24), normal(24, seed=1), normal(5, 24, seed=2), normal(24, seed=3), normal(24, seed=4)]
    assert len(kernels_of(block, *args)) == 1


def test_softmax_is_one_kernel():
    assert len(kernels_of(lambda x: x.softmax(dim=-1), normal(5, 24))) == 1


def chain(x, y):
    return (x * y + 1.0).tanh() * jitgrad.sigmoid(x) - y.exp()


def test_a_pointwise_chain_is_one_kernel_and_so_is_its_backward():
    x, y = normal(5, 24), normal(5, 24, seed=1)
    assert len(kernels_of(chain, x, y)) == 1
    scripted = jitgrad.script(chain)
    x.requires_grad_()
    y.requires_grad_()
    scripted(x, y).sum().backward()
    assert len(scripted.kernels()) == 2


# --- robust --------------------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_a_native_loop(tmp_path):
    program = textwrap.dedent("""
        import signal, jitgrad
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored

        @jitgrad.script
        def forever(x):
            n = 0
            while bool((x > -1.0).all()):
                x = x * 0.5
                n += 1
            return x

        forever.specialise(jitgrad.ones(4))
        print("ready", flush=True)
        try:
            forever(jitgrad.ones(4))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    path = tmp_path / "interrupted.py"
    path.write_text(program)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "ready\n"
        threading.Event().wait(0.3)
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert output == "interrupted\n"


def test_several_threads_call_one_function():
    @jitgrad.script
    def work(x, n: int):
        for _ in range(n):
            x = (x * 0.9 + 0.1).tanh()
        return x.sum()

    wrong = []

    def run(seed):
        for step in range(60):
            x = normal(3 + step % 5, 7, seed=seed).requires_grad_()
            y = normal(3 + step % 5, 7, seed=seed).requires_grad_()
            a, b = work(x, step % 9), work.eager(y, step % 9)
            a.backward()
            b.backward()
            same = np.allclose(a.item(), b.item(), rtol=1e-4)
            if not same or not np.allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4):
                wrong.append(step)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.slow
def test_memory_is_constant_over_10_000_steps():
    @jitgrad.script
    def step(x, w, n: int):
        h = x
        while n > 0:
            h = (h @ w).tanh()
            n -= 1
        return h.sum()

    x, w = normal(4, 16), normal(16, 16, seed=1, scale=0.2).requires_grad_()

    def run(count):
        for i in range(count):
            w.grad = None
            step(x, w, 1 + i % 7).backward()
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = run(2_000)
    after = run(10_000)
    assert after - before < 4e6
