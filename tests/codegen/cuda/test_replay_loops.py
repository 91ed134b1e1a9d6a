"""Loops of host functions: the host waits at each iteration, and replays one graph for what it launches."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from jitgrad.codegen.cuda.driver import launcher, runtime
from jitgrad.codegen.cuda.graphs.replay import Replay
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import Word
from tests.codegen.cuda import fakedriver, host as shim, hostgraphs

KERNEL = """extern "C" __global__ void __launch_bounds__(32)
jg_advance(i64* go, float* y) { if (threadIdx.x == 0) { y[0] += 0.5f * (float)go[0]; go[0] -= 1; } }
"""
#: a host function whose loop launches a kernel as long as the word at %go is not 0
PROGRAM = f"""{runtime.LIBRARY.declarations}
define i64 @f(ptr %block, ptr %kernel, ptr %arguments, ptr %go) {{
entry:
  %to = alloca i64
  call void @jg_together(ptr %block, ptr %kernel, i64 1, i64 1, i64 32, ptr %arguments)
  br label %head
head:
  %good = call i1 @jg_read(ptr %block, ptr %to, ptr %go, i64 8)
  br i1 %good, label %look, label %bad
look:
  %word = load i64, ptr %to
  %more = icmp ne i64 %word, 0
  br i1 %more, label %body, label %end
body:
  call void @jg_together(ptr %block, ptr %kernel, i64 1, i64 1, i64 32, ptr %arguments)
  br label %head
end:
  ret i64 0
bad:
  ret i64 1
}}
"""


@shim.needs_compiler
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("order", [True, False])
def test_a_host_function_on_the_host(graphs, order):
    """What a driver with graphs and one without compute, and how often the host waits."""
    driver = hostgraphs.driver() if graphs else fakedriver.driver()
    code = engine.load(engine.compile_module(PROGRAM), launcher.symbols(driver))
    (kernel,) = driver.load(KERNEL, ["jg_advance"])
    memory = driver.allocate(16)
    block = (ctypes.c_int64 * 64)()
    replay = Replay(driver.graphs, 0) if graphs else None
    block[Word.STREAM] = replay.address if replay else 0
    values = (ctypes.c_uint64 * 2)(memory.ptr, memory.ptr + 8)
    places = (ctypes.c_void_p * 2)(*[ctypes.addressof(values) + 8 * k for k in range(2)])
    f = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p,) * 4)(code.address("f"))
    with driver.reversed(order):
        for trips in (3, 3, 0, 1, 20):
            given = np.array([trips + 1, 0], np.int64)
            driver.c.fake_begin()
            ctypes.memmove(memory.ptr, given.ctypes.data, 16)
            driver.c.fake_end()
            reads = driver.c.fake_reads()
            if replay:
                replay.begin()
            assert f(ctypes.addressof(block), kernel, ctypes.addressof(places), memory.ptr) == 0
            if replay:
                replay.finish()
            assert driver.c.fake_reads() - reads == trips + 1
            driver.c.fake_begin()
            left, = (ctypes.c_int64 * 1).from_address(memory.ptr)
            y, = (ctypes.c_float * 1).from_address(memory.ptr + 8)
            driver.c.fake_end()
            assert (left, y) == (0, 0.25 * (trips + 1) * (trips + 2))
    if replay:
        assert not replay.direct
        replay.close()
