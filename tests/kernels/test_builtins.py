"""Native code as built-in functions of Python."""

from __future__ import annotations

import ctypes
import threading

import numpy as np

from jitgrad.codegen.run import runtime
from jitgrad.codegen.run.launch import ARRAY_DATA


def test_a_program_gets_its_workspace_and_the_arrays_where_they_lie():
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.POINTER(ctypes.c_int64)] * 2)
    def program(workspace, arrays):
        seen.extend(arrays[:300])
        return workspace[0]

    run = runtime.builtin("jg_run", ctypes.cast(program, ctypes.c_void_p).value, None)
    workspace = (ctypes.c_int64 * 2)(-7)
    arrays = [np.zeros(k) for k in range(300)]
    assert run(ctypes.addressof(workspace), *arrays) == -7
    assert seen == list(map(id, arrays))
    workspace[0] = 1 << 62
    assert run(ctypes.addressof(workspace), *arrays) == 1 << 62


def test_others_run_while_a_program_does():
    there, on = threading.Event(), threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    def waiting(workspace, arrays):
        there.set()
        return int(on.wait(60))

    run = runtime.builtin("jg_run", ctypes.cast(waiting, ctypes.c_void_p).value, None)
    found = []
    thread = threading.Thread(target=lambda: found.append(run(1)))
    thread.start()
    assert there.wait(60)
    on.set()
    thread.join()
    assert found == [1]


def test_a_loop_gets_the_addresses_of_elements_and_ints():
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
    def loop(words):
        seen.extend(words[:5])
        return -(1 << 62)

    table = (ctypes.c_int64 * 3)(id(np.ndarray), ARRAY_DATA, ctypes.cast(loop, ctypes.c_void_p).value)
    run = runtime.builtin("jg_words", ctypes.addressof(table), table)
    a, b = np.zeros(3), np.zeros((2, 3))[1:]
    assert run(a, -7, b, 1 << 62, 0) == -(1 << 62)
    assert seen == [a.ctypes.data, -7, b.ctypes.data, 1 << 62, 0]
