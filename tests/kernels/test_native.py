"""Functions of native code written in Python: branches, loops, variables, memory."""

from __future__ import annotations

import ctypes

from jitgrad.codegen.llvm import engine
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

library = Library()


@library.function("i64", words="ptr", count="i64", most="i64")
def jg_first_over(f: Native, words: V, count: V, most: V) -> V:
    """The number of the first word over `most`, whose place is then 0; -1 where there is none."""
    with f.each(count) as k, f.when(f.load(words, k) > most):
        f.store(f.number(0), words, k)
        f.leave(k)
    return f.number(-1)


@library.function("i64", n="i64")
def jg_steps(f: Native, n: V) -> V:
    """How many steps of Collatz's lead to 1, 100 at most."""
    at, steps = f.variable(n), f.variable(f.number(0))
    with f.loop() as stop:
        with f.when(at.value.eq(1) | (steps.value >= 100)):
            stop()
        at.value = (at.value & 1).ne(0).where(at.value * 3 + 1, at.value.lshr(1))
        steps.value = steps.value + 1
    return steps.value


def test_what_is_written_runs() -> None:
    loaded = engine.load(engine.compile_module(library.text()), {})
    words = (ctypes.c_int64 * 4)(3, 7, 5, 9)
    first_over = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        loaded.address("jg_first_over"))
    assert [first_over(ctypes.addressof(words), 4, most) for most in (4, 4, 4, 4)] == [1, 2, 3, -1]
    assert list(words) == [3, 0, 0, 0]
    steps = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("jg_steps"))
    assert [steps(n) for n in (1, 6, 7, 27)] == [0, 8, 16, 100]


def test_declarations_are_what_callers_need() -> None:
    assert library.declarations == "declare i64 @jg_first_over(ptr, i64, i64)\ndeclare i64 @jg_steps(i64)"


def test_words_that_threads_use_and_internal_functions() -> None:
    shared = Library()

    @shared.function("internal i64", name="jg_put", words="ptr", old="i64")
    def put(f: Native, words: V, old: V) -> V:
        with f.when(f.exchange(words, old, 7)):
            f.leave(f.number(1))
        f.atomic_store(f.number(-5), words)
        return f.number(0)

    @shared.function("i64", words="ptr", old="i64")
    def jg_added(f: Native, words: V, old: V) -> V:
        taken = f.call("jg_put", "i64", 1, words, old)
        return f.atomic_add(words, 10) * 100 + f.atomic_load(words) * 2 + taken

    assert shared.exports == ["jg_added"]
    assert "define internal i64 @jg_put(" in shared.text()
    loaded = engine.load(engine.compile_module(shared.text()), {})
    added = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(loaded.address("jg_added"))
    words = (ctypes.c_int64 * 1)(3)
    assert added(ctypes.addressof(words), 3) == 7 * 100 + 17 * 2 + 1
    assert added(ctypes.addressof(words), 3) == -5 * 100 + 5 * 2 + 0
