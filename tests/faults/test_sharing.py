"""Scripts that several processes and threads compile and run at the same time."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from tests.faults.processes import command, environment

pytestmark = pytest.mark.sampled("faults")

PROGRAM = """
import jitgrad
import functions

scripts = [jitgrad.script(getattr(functions, f"f{k}")) for k in range(6)]
print("ready", flush=True)
input()
found = []
for f in scripts:
    x = jitgrad.ones(3).requires_grad_()
    f(x, 3).backward()
    found.append(x.grad.tolist())
print(sum(f.cache_info().disk_hits for f in scripts), found)
"""
FUNCTION = """
def f{0}(x, n: int):
    for _ in range(n):
        x = (x * {0}.5).tanh()
    return x.sum()
"""


def test_processes_fill_one_cache(tmp_path):
    (tmp_path / "functions.py").write_text("".join(FUNCTION.format(k) for k in range(6)))

    def together(count):
        """What so many processes print that begin at the same time."""
        started = [subprocess.Popen(command(tmp_path, PROGRAM), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    text=True, cwd=tmp_path, env=environment(JITGRAD_CACHE=str(tmp_path / "cache")))
                   for _ in range(count)]
        try:
            assert [p.stdout.readline() for p in started] == ["ready\n"] * count
            for p in started:
                p.stdin.write("\n")
                p.stdin.flush()
            return [p.communicate(timeout=120)[0].split(maxsplit=1) for p in started]
        finally:
            for p in started:
                p.kill()

    (_, first), (_, other) = together(2)
    assert first == other
    assert together(1) == [["6", first]]
    assert not [p for p in (tmp_path / "cache").iterdir() if p.suffix != ".entry"]


def recurrent(x, n: int):
    for _ in range(n):
        x = (x * 0.9 + 0.1).tanh()
    return x.sum()


def branching(x, n: int):
    if bool(x.sum() > 0):
        x = x.exp() * n
    return (x * x).sum()


def listed(x, n: int):
    return jitgrad.stack([x * k for k in range(n)]).tanh().sum()


def test_threads_compile_and_call_the_same_and_different_scripts():
    shared = [jitgrad.script(f) for f in (recurrent, branching, listed)]
    failures, begin = [], threading.Barrier(8)

    def work(seed):
        own = [jitgrad.script(f) for f in (recurrent, branching, listed)]
        begin.wait()
        try:
            for step in range(12):
                shape = (2 + step % 3,) * (1 + (step + seed) % 3)
                data = np.random.default_rng(seed * 100 + step).normal(size=shape).astype(np.float32)
                for f in (*shared, *own):
                    x, y = jitgrad.tensor(data).requires_grad_(), jitgrad.tensor(data).requires_grad_()
                    f(x, 1 + step % 4).backward()
                    f.eager(y, 1 + step % 4).backward()
                    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    with config.override(cache=""):
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    if failures:
        raise failures[0]


def in_child(script, loss, x):
    loss.backward()  # of a call of the parent
    expected = x.grad.tolist()
    for f in (script, jitgrad.script(recurrent), jitgrad.script(listed)):
        y = jitgrad.ones(3).requires_grad_()
        f(y, 2).backward()
        assert f is not script or y.grad.tolist() == expected
        assert y.grad.shape == (3,)


def fork(*args):
    child = multiprocessing.get_context("fork").Process(target=in_child, args=args)
    child.start()
    child.join(120)
    if child.is_alive():
        child.kill()
    return child.exitcode


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="a process is forked")
@pytest.mark.filterwarnings("ignore:This process")  # Python's own, of threads and forks
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "beside a thread that compiles"])
def test_a_fork_uses_scripts(busy):
    script = jitgrad.script(recurrent)
    x = jitgrad.ones(3).requires_grad_()
    with config.override(cache=""):  # imports the compiler: Python itself cannot fork beside a thread that imports
        loss = script(x, 2)
    done = threading.Event()

    def compile_on():
        while not done.is_set():
            jitgrad.script(branching)(jitgrad.ones(3), 2)

    threads = [threading.Thread(target=compile_on)] if busy else []
    with config.override(cache=""):
        for thread in threads:
            thread.start()
        try:
            assert [fork(script, loss, x) for _ in range(3)] == [0, 0, 0]
        finally:
            done.set()
            for thread in threads:
                thread.join()
    loss.backward()
    assert x.grad is not None
