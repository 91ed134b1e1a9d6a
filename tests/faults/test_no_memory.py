"""Where the system gives no more memory, MemoryError is raised, nothing aborts, and what is smaller works after it."""

import sys

import pytest

from tests.faults.processes import run

pytestmark = [pytest.mark.sampled("faults"), pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")]

LIMITED = """
import resource
import jitgrad


def limit(more):
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, resource.RLIM_INFINITY))


def fails(f, *args):
    try:
        f(*args)
    except MemoryError:
        return
    raise AssertionError(f"{f} does not fail")
"""


EAGER = """
x = jitgrad.ones(2000, 2000).requires_grad_()
small = jitgrad.ones(3).requires_grad_()
limit(64 << 20)
kept = []


def fill(op):
    while True:
        kept.append(op(x))


def backward():
    with jitgrad.enable_grad():
        y = x.sum()
    for _ in range(20):
        y = y + (x * x).sum()
    y.backward()


for op in (lambda x: x + 1, lambda x: x @ x, lambda x: x.T.contiguous(), lambda x: jitgrad.cat([x, x]),
           lambda x: x.softmax(0), lambda x: x.sort()[0], lambda x: jitgrad.zeros(4000, 4000), lambda x: x[x > 0],
           lambda x: jitgrad.rand(4000, 4000), lambda x: x.cumsum(0), lambda x: x.double()):
    fails(fill, op)
    kept.clear()
    assert (small * 2).sum().item() == 6.0
fails(backward)
(small * 2).sum().backward()
assert small.grad.tolist() == [2.0, 2.0, 2.0]
"""


COMPILED = """
@jitgrad.script
def outer(x):
    return (x[:, None] * x[None, :]).tanh() @ x


@jitgrad.script
def listed(x, n: int):
    found = []
    for i in range(n):
        found.append(x * i)
    return jitgrad.stack(found).sum()


@jitgrad.script
def scanned(x, n: int):
    for i in range(n):
        x = (x * 0.5).tanh()
    return x.sum()


def backward(f, *args):
    f(*args).sum().backward()


small, large = jitgrad.ones(3).requires_grad_(), jitgrad.ones(20000).requires_grad_()
for f, args, much in ((outer, (), ()), (listed, (3,), (20000,)), (scanned, (3,), (20000,))):
    backward(f, small, *args)
compiled = [f.cache_info().compilations for f in (outer, listed, scanned)]
limit(256 << 20)
for f, args, much in ((outer, (), ()), (listed, (3,), (20000,)), (scanned, (3,), (20000,))):
    fails(backward, f, large, *much)
    small.grad = None
    backward(f, small, *args)
    assert small.grad is not None
assert [f.cache_info().compilations for f in (outer, listed, scanned)] == compiled
"""


@pytest.mark.parametrize("program", [EAGER, COMPILED], ids=["eager", "compiled"])
def test_memory_error_where_an_operation_has_none(tmp_path, program):
    run(tmp_path, LIMITED + program)


COMPILING = """
import os


@jitgrad.script
def simple(x):
    return (x @ x).sum()


@jitgrad.script
def program(x, w, n: int):
    h = x
    for _ in range(n):
        h = (h @ w).tanh() + x.softmax(-1)
        if bool(h.sum() > 3):
            h = h * 0.5
    return h.sum()


def first_call(free):
    blocks, spare = [], [bytes(600) for _ in range(free // 600)]
    limit(0)
    for size in (1 << 20, 1 << 16, 4096, 600):
        try:
            while True:
                blocks.append(bytes(size))
        except MemoryError:
            pass
    spare.clear()  # asks for nothing, where `del blocks[k:]` asks for memory to give some back
    try:
        program(x, w, 3).backward()
    except MemoryError:
        print("none")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    blocks.clear()
    program(x, w, 3).backward()


x, w = jitgrad.ones(4, 4), jitgrad.ones(4, 4).requires_grad_()
simple(w).backward()
(w @ w).sum().backward()  # a BLAS asks for its own memory once, and may end the process without it
for free in (0, 40_000, 100_000, 200_000, 400_000, 800_000, 1_600_000, 3_200_000):
    child = os.fork()
    if not child:
        first_call(free)
        break
    assert os.waitpid(child, 0)[1] == 0, free
"""


def test_memory_error_where_the_compiler_has_none(tmp_path):
    """Wherever memory ends while a script is compiled; the same call works when there is some again."""
    assert run(tmp_path, LIMITED + COMPILING).split() == ["none"] * 8
