"""Compiling, loading and unloading objects."""

import ctypes
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from jitgrad import config
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime
from jitgrad.codegen.run.compile import compile
from jitgrad.codegen.run.compiled import Compiled
from jitgrad.script.graph.parse import parse

ADD = """
define i64 @add(i64 %a, i64 %b) nounwind {
  %c = add i64 %a, %b
  ret i64 %c
}
"""


def test_an_object_can_be_loaded_many_times():
    compiled = engine.compile_module(ADD)
    assert isinstance(compiled, bytes)
    loaded = [engine.load(compiled, {}) for _ in range(3)]
    addresses = {handle.address("add") for handle in loaded}
    assert len(addresses) == 3
    for address in addresses:
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(2, 40) == 42


def test_symbols_are_given_at_load_time():
    compiled = engine.compile_module("""
declare double @outside(double)
define double @twice(double %x) nounwind {
  %y = call double @outside(double %x)
  %z = fadd double %y, %y
  ret double %z
}
""")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    for offset in (1, 5):
        outside = kind(lambda x, offset=offset: x + offset)
        loaded = engine.load(compiled, {"outside": ctypes.cast(outside, ctypes.c_void_p).value}, ["twice"])
        assert kind(loaded.address("twice"))(1.0) == 2.0 * (1 + offset)


def test_missing_names_are_errors():
    with pytest.raises(RuntimeError):
        engine.load(engine.compile_module(ADD), {}).address("subtract")
    with pytest.raises(RuntimeError):
        engine.load(engine.compile_module("declare void @jg_nowhere()\ndefine void @f() {\n call void @jg_nowhere()\n"
                                          " ret void\n}\n"), {}, ["f"])


def test_what_either_half_leaves_undefined_is_given():
    """A function of the one half that the other calls is not; one that code generation adds has a name like `__f`."""
    text = ("declare i64 @outside(i64)\ndefine i64 @{name}(i64 %x) nounwind {{\n"
            "  %y = call i64 @{called}(i64 %x)\n  ret i64 %y\n}}\n")
    good, quick = (text.format(name=n, called=called) for n, called in (("first", "outside"), ("second", "first")))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    outside = kind(lambda x: x + 1)
    address = ctypes.cast(outside, ctypes.c_void_p).value
    objects = engine.compile_module(good, quick.replace("@outside", "@first"))
    found = engine.load(objects, {"outside": address, "second": address, "jg_unused": 0})
    assert kind(found.address("second"))(4) == 5


def test_malformed_text_is_an_error():
    with pytest.raises(RuntimeError, match="parsing"):
        engine.compile_module("define i64 @f( {")


def test_handles_free_their_code():
    compiled = engine.compile_module(ADD)
    for _ in range(200):
        handle = engine.load(compiled, {}, ["add"])
        handle.address("add")
        del handle
    gc.collect()
    kept = engine.load(compiled, {})
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(kept.address("add"))(1, 2) == 3


def test_assembly_and_host():
    assert "add" in engine.assembly(ADD)
    host = engine.host()
    assert host.vector_bytes in (16, 32, 64)
    assert host.lanes == host.vector_bytes // 4
    assert host.cpu in host.identity


def test_the_library_is_kept_on_disk(tmp_path):
    with config.override(cache=str(tmp_path / "cache")):
        first = runtime.compiled()
        files = list((tmp_path / "cache").iterdir())
        assert len(files) == 1
        stamp = files[0].stat().st_ino
        assert runtime.compiled() == first
        assert files[0].stat().st_ino == stamp
    with config.override(cache=""):
        assert set(runtime.compiled()[1]) == set(runtime.symbols())


def test_llvmlite_is_imported_lazily_and_exit_is_clean():
    code = ("import sys; from jitgrad.codegen.llvm import engine; assert 'llvmlite' not in sys.modules; "
            "h = engine.load(engine.compile_module('define void @f() {\\n ret void\\n}\\n'), {}); h.address('f')")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_long_glue_is_compiled_quickly_and_linked(monkeypatch):
    """Programs that run every step once are a second object; those with loops share its kernels from the first."""
    straight = parse("""graph f(%x: f64[N]) -> f64[N]:
  %0: f64[N] = exp(%x)
  %1: f64[N] = cumsum(%0){axis=0}
  return %1""")
    looping = parse("""graph g(%x: f64[N], %n: int) -> f64[N]:
  %0: f64[N] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %h: f64[N]):
      %1: f64[N] = exp(%h)
      yield %1
  return %0""")
    graphs = {"f": straight, "g": looping}
    x = np.linspace(-2.0, -1.0, 5)
    expected = compile(graphs)
    monkeypatch.setattr("jitgrad.codegen.llvm.module.MUCH_GLUE", 1)
    compiled = compile(graphs)
    for c in (compiled, Compiled.from_bytes(compiled.to_bytes())):
        for name, inputs in (("f", [x]), ("g", [x, 2])):
            np.testing.assert_array_equal(c[name](inputs)[0], expected[name](inputs)[0])
    assert len(compiled.code) > len(expected.code)


APART = """
import mmap
from jitgrad.codegen.llvm import engine

TEXT = '''
@words = global [4 x i64] [i64 1, i64 2, i64 3, i64 4]
@table = constant [512 x i64] zeroinitializer
define i64 @f(i64 %i) {
  %place = getelementptr i64, ptr @words, i64 %i
  %word = load i64, ptr %place
  %other = getelementptr i64, ptr @table, i64 %i
  %none = load i64, ptr %other
  %sum = add i64 %word, %none
  ret i64 %sum
}
'''
objects = engine.compile_module(TEXT)
kept = []
for _ in range(40):
    kept.append(engine.load(objects, {}, ["f"]))
    kept.append(mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000))
import ctypes
print(sum(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(k.address("f"))(2) for k in kept[::2]))
"""


def test_code_and_data_stay_near_each_other():
    """However much memory is taken between two objects."""
    ran = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "120\n"


def test_nothing_is_left_of_a_run_of_the_passes(monkeypatch):
    """A run registers observers with its builder, and calls all of the builder's: one for each run, and no more."""
    llvm = engine._llvm()
    made = []
    pass_builder = type(llvm).pass_builder
    monkeypatch.setattr(type(llvm), "pass_builder", lambda self: made.append(pass_builder(self)) or made[-1])
    for name in ("@one", "@two", "@three"):
        engine.compile_module(ADD.replace("@add", name))
    assert len({id(builder) for builder in made}) == 3


def test_one_text_is_compiled_once(monkeypatch):
    texts = []
    optimise = engine.optimise
    monkeypatch.setattr(engine, "optimise", lambda text: (texts.append(text), optimise(text))[1])
    monkeypatch.setattr(engine, "_objects", {})
    monkeypatch.setattr(engine, "KEPT", 0)
    others = [ADD.replace("@add", f"@add{k}") for k in range(2)]
    first = engine.compile_module(others[0])
    assert engine.compile_module(others[0]) == first  # the last one is kept, however large
    assert engine.compile_module(others[1]) != first
    engine.compile_module(others[0])
    assert texts == [others[0], others[1], others[0]]
    engine.compile_module(*others)
    engine.compile_module("".join(others))  # where a module's text ends and the quick one's begins makes a difference
    assert texts[3:] == [*others, "".join(others)]


ANSWER = "define i64 @answer{0}() {{\n  ret i64 {0}\n}}\n"


def test_objects_are_made_beside_python() -> None:
    wait = engine.meanwhile(ANSWER.format(41))
    assert wait() == wait() == engine.compile_module(ANSWER.format(41))


def test_who_holds_the_lock_makes_the_objects() -> None:
    with engine.lock:
        assert engine.meanwhile(ANSWER.format(42))()


def test_what_a_thread_raises_is_raised_where_its_result_is_asked_for() -> None:
    wait = engine.meanwhile("this is no module")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="parsing"):
            wait()


def test_where_no_thread_can_begin_who_asks_makes_the_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert engine.meanwhile(ANSWER.format(43))()
