"""Ctrl-C wherever time is spent: KeyboardInterrupt comes at once, and the next call works."""

import signal
import subprocess
import sys
import time

import pytest

from tests.faults.processes import command, environment

pytestmark = [pytest.mark.sampled("faults"), pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")]

PROGRAM = """
import signal
import jitgrad

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored


@jitgrad.script
def recurrent(x, n: int):
    for _ in range(n):
        x = (x * 0.999 + 0.001).tanh()
    return x.sum()


@jitgrad.script
def halved(x, n: int):
    k = 0
    with jitgrad.no_grad():
        h = x
        while k < n and bool((h > -1.0).all()):
            h = h * 0.5
            k += 1
    return (x * k).sum()


class Slow(jitgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        k = 0
        while bool((g > -1.0).all()):
            g = g * 0.5
            k += 1
        return g


@jitgrad.script
def endless_backward(x, n: int):
    return (Slow.apply(x) if n > 5 else x * 2).sum()


x = jitgrad.ones(4).requires_grad_()


def interrupted(act):
    print("ready", flush=True)
    try:
        act()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def works(f):
    x.grad = None
    f(x, 2).backward()
    assert x.grad.shape == (4,)
"""

FORWARD = """
works(halved)
interrupted(lambda: halved(x, 1 << 60))
works(halved)
"""

BACKWARD = """
works(endless_backward)
loss = endless_backward(x, 9)
interrupted(loss.backward)
works(endless_backward)
"""

LINES = "".join(f"    x = (x * {k}.5 + n).tanh() if n > {k} else x.exp() - x.sum()\n" for k in range(60))
COMPILING = f"""
def many(x, n: int):
{LINES}    return x.sum()


f = jitgrad.script(many)
interrupted(lambda: [g(x, 2) for g in (f, *(jitgrad.script(many) for _ in range(1000)))])
works(jitgrad.script(recurrent.eager))
works(f)
"""


@pytest.mark.parametrize(("program", "after"), [
    (FORWARD, 0.3), (BACKWARD, 0.3), *((COMPILING, 0.2 * k) for k in range(1, 5))],
    ids=["forward", "backward", *(f"compiling {k}" for k in range(1, 5))])
def test_ctrl_c(tmp_path, program, after):
    with subprocess.Popen(command(tmp_path, PROGRAM + program), stdout=subprocess.PIPE, text=True,
                          env=environment()) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(after)
            process.send_signal(signal.SIGINT)
            sent = time.perf_counter()
            assert process.stdout.readline() == "interrupted\n"
            assert time.perf_counter() - sent < 20  # a hang, not a timing
            assert process.wait(60) == 0
        finally:
            process.kill()
