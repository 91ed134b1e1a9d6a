"""The library that device programs call: compiled once, its errors, its tables."""

from __future__ import annotations

import ctypes
import re

import pytest

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda.driver import runtime
from jitgrad.codegen.cuda.host.device_program import DeviceProgramPrinter
from jitgrad.codegen.cuda.host.module import DeviceModule
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.layout import Word
from jitgrad.codegen.run import store
from jitgrad.script.passes import pipeline


def test_programs_hold_declarations_alone() -> None:
    assert set(runtime.NAMES) >= {"jg_launch", "jg_product", "jg_copy", "jg_read", "jg_take", "jg_reserve"}
    for name in runtime.NAMES:
        assert len(re.findall(rf"^declare \w+ @{name}\(", runtime.LIBRARY.declarations, re.MULTILINE)) == 1
    graph = pipeline.run(jitgrad.script(lambda x: x.exp() * 2).graph_for(jitgrad.ones(3)))
    module = DeviceModule(DeviceProgramPrinter)
    module.add(lower("f", graph, True))
    assert not re.search(r"define \w+ @jg_", module.text())
    engine.compile_module(module.text())


def test_the_object_is_kept_on_disk(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(cache=str(tmp_path)):
        first = runtime._object.__wrapped__()
        assert store.current() is not None
        monkeypatch.setattr(engine, "compile_module", lambda text: pytest.fail("compiled again"))
        assert runtime._object.__wrapped__() == first


def test_the_first_error_of_a_driver_is_kept() -> None:
    """A driver whose copies return what they are told: the size."""
    copy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        lambda to, source, size, stream: size - 10)
    read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        lambda host, source, size, stream: size - 10)
    functions = dict.fromkeys(("jg_cuda_launch", "jg_cuda_together", "jg_cuda_matmul", "jg_cuda_memory"), 1)
    known = runtime.symbols({**functions, "jg_cuda_copy": ctypes.cast(copy, ctypes.c_void_p).value or 0,
                             "jg_cuda_read": ctypes.cast(read, ctypes.c_void_p).value or 0})
    arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    jg_copy = ctypes.CFUNCTYPE(None, *arguments)(known["jg_copy"])
    jg_read = ctypes.CFUNCTYPE(ctypes.c_bool, *arguments)(known["jg_read"])
    block = (ctypes.c_int64 * 64)()
    block[Word.STREAM] = 0
    for size, error, good in ((10, 0, True), (0, 0, False), (12, 2, False), (10, 2, False), (15, 2, False)):
        jg_copy(block, 0, 0, size)
        assert block[Word.ERROR] == error
        block[Word.ERROR] = 0 if good else block[Word.ERROR]
        if size:
            assert jg_read(block, 0, 0, size) is good
    block[Word.ERROR] = 0
    assert jg_read(block, 0, 0, 17) is False
    assert block[Word.ERROR] == 7
