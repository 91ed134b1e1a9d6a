"""Scripted calls: which specialisation runs, what a call leaves behind, what there is to see."""

from __future__ import annotations

import gc
import io
import sys
import threading

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.errors import ScriptError
from jitgrad.script.call.mismatch import SHARED, TWICE
from jitgrad.script.executor import ENTRIES
from jitgrad.script.frontend import build
from jitgrad.script.loaded import NoProgram


def tensor(*values, **options):
    return jitgrad.tensor(list(values), **options)


def scale(x, n):
    return x * n


# --- specialisations -----------------------------------------------------------------------------------------------


def test_counters():
    f = jitgrad.script(scale)
    assert tuple(f.cache_info()) == (0, 0, 0, 0, 0)
    f(tensor(1.0, 2.0), 2)
    f(tensor(1.0, 2.0, 3.0), 3)
    f(tensor(1.0, 2.0), 2.0)
    info = f.cache_info()
    assert (info.hits, info.misses, info.compilations, info.entries) == (1, 2, 2, 2)
    assert f.compile_ms > 0


@pytest.mark.parametrize(("second", "reason"), [
    ((jitgrad.tensor([1, 2]), 2), "`x` had dtype float32, has int64"),
    ((jitgrad.ones(2, 2), 2), "`x` had rank 1, has 2"),
    ((jitgrad.ones(1), 2), "`x` had not size 1 along axis 0, has 1"),
    ((jitgrad.ones(2, requires_grad=True), 2), "`x` did not require grad, does now"),
    ((jitgrad.ones(2), 2.0), "`n` was int, is float"),
    ((jitgrad.ones(2), jitgrad.ones(2)), "`n` was int, is Tensor"),
    ((3, 2), "`x` was a tensor, is int"),
])
def test_why_a_call_was_compiled_again(second, reason):
    f = jitgrad.script(scale)
    f(jitgrad.ones(2), 2)
    assert f.recompilations == []
    f(*second)
    [given] = f.recompilations
    assert given.replace("torch.", "").replace("jitgrad.", "") == reason


def test_recompilation_by_grad_mode_and_by_attributes():
    class Settings:
        power = 2

    settings = Settings()

    def f(x):
        return x ** settings.power

    scripted = jitgrad.script(f)
    x = tensor(3.0, requires_grad=True)
    assert scripted(x).requires_grad
    with jitgrad.no_grad():
        assert not scripted(x).requires_grad
    assert scripted.recompilations == ["the grad mode was True, is False"]
    settings.power = 3
    assert scripted(x).item() == 27.0
    assert len(scripted.recompilations) == 2


def test_sizes_that_were_equal_by_chance_cost_one_more_program():
    def f(a, b):
        for _ in range(3):
            a = a @ b
        return a

    scripted = jitgrad.script(f)
    square, wide = jitgrad.ones(3, 3), jitgrad.ones(2, 3)
    assert jitgrad.equal(scripted(square, square), f(square, square))
    assert jitgrad.equal(scripted(wide, square), f(wide, square))
    assert jitgrad.equal(scripted(jitgrad.ones(4, 5), jitgrad.ones(5, 5)), f(jitgrad.ones(4, 5), jitgrad.ones(5, 5)))
    assert scripted.cache_info().compilations <= 2


def test_the_debug_log_tells_why(capsys):
    f = jitgrad.script(scale)
    with config.override(debug=1, cache=""):
        f(jitgrad.ones(2), 2)
        f(jitgrad.ones(2, 2), 2)
    first, second = [line for line in capsys.readouterr().err.splitlines() if "compiled" in line]
    assert first.startswith("jitgrad: compiled scale in ")
    assert second.endswith("(recompiled: `x` had rank 1, has 2)")


def test_the_number_of_specialisations_is_bounded():
    def f(name, x):
        return x * len(name)

    f = jitgrad.script(f)
    x = jitgrad.ones(2)
    with config.override(interpret=True):
        for k in range(ENTRIES + 3):
            f(f"name {k}", x)
    assert f.cache_info().entries == ENTRIES


def test_threads_share_one_compilation():
    f = jitgrad.script(scale)
    barrier, results = threading.Barrier(4), []

    def work(k):
        barrier.wait()
        results.append(f(jitgrad.full((4,), float(k)), 2).tolist() == [2.0 * k] * 4)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4
    assert f.cache_info().compilations == 1


def test_two_threads_that_compile_leave_the_recursion_limit_as_it_was() -> None:
    before, inside = sys.getrecursionlimit(), threading.Barrier(2)

    def work() -> None:
        with build._deep_stack:
            inside.wait()

    other = threading.Thread(target=work)
    other.start()
    with build._deep_stack:
        inside.wait()
        assert sys.getrecursionlimit() >= build.STACK
    other.join()
    assert sys.getrecursionlimit() == before


def test_a_refused_call_changes_nothing():
    def f(x):
        x.add_(1)
        return x.no_such_method()

    x, scripted = jitgrad.ones(2), jitgrad.script(f)
    for _ in range(2):
        with pytest.raises(ScriptError):
            scripted(x)
    assert x.tolist() == [1.0, 1.0]
    assert scripted.cache_info().entries == 0


# --- shared memory -------------------------------------------------------------------------------------------------


def both(a, b):
    a.add_(b)
    b.mul_(2)
    return a * b


def expected(same):
    a = jitgrad.tensor([1.0, 2.0])
    b = a if same else jitgrad.tensor([3.0, 4.0])
    return both(a, b).tolist(), a.tolist(), b.tolist()


@pytest.mark.parametrize("order", [(True, False, True), (False, True, False)])
def test_the_same_tensor_twice_and_two_tensors(order):
    f = jitgrad.script(both)
    for same in order:
        a = jitgrad.tensor([1.0, 2.0])
        b = a if same else jitgrad.tensor([3.0, 4.0])
        assert (f(a, b).tolist(), a.tolist(), b.tolist()) == expected(same)
    assert f.cache_info().compilations == 2


def test_memory_that_is_shared_in_part_is_refused_whenever_it_comes():
    f = jitgrad.script(both)
    f(tensor(1.0, 2.0), tensor(3.0, 4.0))
    base = jitgrad.arange(3.0)
    with pytest.raises(ScriptError, match="this in-place write goes to memory that two tensors share"):
        f(base[:2], base[1:])
    assert base.tolist() == [0.0, 1.0, 2.0]
    grid = jitgrad.ones(2, 2)
    f(grid[:, 0], grid[:, 1])  # interleaved, not shared
    assert grid.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_an_attribute_that_becomes_the_written_tensor():
    class State:
        def __init__(self):
            self.a, self.b = jitgrad.zeros(2), jitgrad.zeros(2)

    def f(state):
        state.a.add_(1)
        return state.b * 2

    state, scripted = State(), jitgrad.script(f)
    assert scripted(state).tolist() == [0.0, 0.0]
    state.b = state.a
    assert scripted(state).tolist() == [4.0, 4.0]
    state.b = jitgrad.ones(2)
    assert scripted(state).tolist() == [2.0, 2.0]
    assert state.a.tolist() == [3.0, 3.0]
    assert len(scripted.recompilations) == 1
    assert "shares memory" in scripted.recompilations[0]


def test_gradients_of_one_tensor_passed_twice_add_up():
    f = jitgrad.script(lambda a, b: (a * b * b).sum())
    a = tensor(2.0, 3.0, requires_grad=True)
    f(a, a).backward()
    assert a.grad.tolist() == [12.0, 27.0]


# --- what a call leaves behind -------------------------------------------------------------------------------------


class Counter:
    def __init__(self):
        self.n = 0
        self.rate = 0.5
        self.last = None
        self.total = jitgrad.zeros(2)


def update(c, x):
    c.n += 1
    c.total.add_(x)
    c.rate = c.rate * 2
    c.last = x * 10
    return c.n


def interrupted(c, x):
    c.n += 1
    c.total.add_(x)
    if x.sum() > 100:
        raise ValueError("too much")
    c.rate = 1.0
    c.total.mul_(0.5)


def state(c):
    return c.n, c.rate, c.total.tolist()


def test_attributes_are_written_back():
    a, b, scripted = Counter(), Counter(), jitgrad.script(update)
    for value in (1.0, 2.0, 3.0):
        assert scripted(a, jitgrad.full((2,), value)) == update(b, jitgrad.full((2,), value))
        assert state(a) == state(b)
        assert a.last.tolist() == b.last.tolist()
    assert scripted.cache_info().compilations <= 2  # `last` was None at first


def test_what_was_done_before_an_exception_stays_done():
    a, b, scripted = Counter(), Counter(), jitgrad.script(interrupted)
    for value in (1.0, 99.0, 2.0):
        x = jitgrad.full((2,), value)
        outcomes = []
        for function, counter in ((scripted, a), (interrupted, b)):
            try:
                function(counter, x)
                outcomes.append(None)
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        assert state(a) == state(b)


def test_an_exception_before_an_attribute_is_rebound_leaves_it():
    def f(c, x):
        if x.sum() > 100:
            raise ValueError("too much")
        c.last = x

    c, scripted = Counter(), jitgrad.script(f)
    x = jitgrad.ones(2)
    scripted(c, x)
    assert c.last is x
    with pytest.raises(ValueError, match="too much"):
        scripted(c, jitgrad.full((2,), 99.0))
    assert c.last is x


def test_globals_and_closures_are_read_at_every_call():
    factor, offset = 2.0, jitgrad.ones(2)

    def f(x):
        return x * factor + offset

    scripted = jitgrad.script(f)
    x = jitgrad.ones(2)
    assert scripted(x).tolist() == [3.0, 3.0]
    factor = 5.0
    assert scripted(x).tolist() == [6.0, 6.0]
    offset = jitgrad.zeros(2)
    assert scripted(x).tolist() == [5.0, 5.0]
    assert scripted.cache_info().compilations == 1


# --- results -------------------------------------------------------------------------------------------------------


def test_results_are_the_objects_views_and_containers_that_eager_returns():
    def f(x, n: int):
        y = x * n
        return {"same": x, "view": x[1:], "new": [y, (n, "text", None)], "number": n / 2}

    x = tensor(1.0, 2.0, 3.0)
    found = jitgrad.script(f)(x, 3)
    assert found["same"] is x
    x[1] = 7.0
    assert found["view"].tolist() == [7.0, 3.0]
    assert found["new"][0].tolist() == [3.0, 6.0, 9.0]
    assert found["new"][1] == (3, "text", None)
    assert found["number"] == 1.5


# --- seeing --------------------------------------------------------------------------------------------------------


def test_what_there_is_to_see():
    f = jitgrad.script(scale)
    for attribute in ("graph", "code"):
        with pytest.raises(RuntimeError, match="`scale` has not been called yet"):
            getattr(f, attribute)
    x = jitgrad.ones(2, requires_grad=True)
    graph = f.graph_for(x, 2.0)
    assert f.cache_info().hits == 0
    assert str(graph) == repr(f.graph)
    assert "def scale(x, n):\n" in f.code
    assert "    return x * n\n" in f.code
    assert f.kernels() == f.kernels(x, 2.0)
    assert "mul(" in f.kernels()[0]
    assert ".text" in f.asm()


# --- the switches --------------------------------------------------------------------------------------------------


def test_switches():
    f = jitgrad.script(scale)
    x = jitgrad.ones(2)
    with config.override(jit=False):
        assert f(x, 2).tolist() == [2.0, 2.0]
    with jitgrad.jit.eager_mode():
        assert f(x, 2).tolist() == [2.0, 2.0]
    assert f.cache_info().misses == 0
    with config.override(interpret=True):
        assert f(x, 2).tolist() == [2.0, 2.0]
    assert f.cache_info().disk_hits == 0
    assert f.kernels() == []


def test_source_is_what_the_compiler_read():
    @jitgrad.script
    def f(x):
        # a comment
        return x[..., 1:2, ::3] * 2  # and slices that astunparse gets wrong

    text = f.source
    assert "comment" not in text
    assert text.endswith("return x[..., 1:2, ::3] * 2") or text.endswith("return (x[..., 1:2, ::3] * 2)")


def test_a_write_is_counted_so_that_eager_notices_it():
    @jitgrad.script
    def write(b, v, fail: bool):
        b += v
        if fail:
            raise ValueError("after the write")
        return b.sum()

    for fail in (False, True):
        w, b = jitgrad.ones(3, requires_grad=True), jitgrad.ones(3)
        product = (w * b).sum()
        before = b._version
        if fail:
            with pytest.raises(ValueError, match="after the write"):
                write(b, jitgrad.ones(3), True)
        else:
            write(b, jitgrad.ones(3), False)
        assert b.tolist() == [2, 2, 2]
        assert b._version == before + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_a_write_in_a_script_carries_history_once():
    @jitgrad.script
    def add(b, v):
        b += v * v
        return b.sum()

    v = jitgrad.full((3,), 3.0, requires_grad=True)
    b = jitgrad.ones(3) * 1
    add(b, v)
    assert b._version == 1
    (b * 2).sum().backward()
    assert v.grad.tolist() == [12, 12, 12]


def test_the_default_dtype_is_part_of_the_key():
    @jitgrad.script
    def zeros_and(x):
        return jitgrad.zeros(2) + x

    x = jitgrad.ones(2)
    assert zeros_and(x).dtype is jitgrad.float32
    jitgrad.set_default_dtype(jitgrad.float64)
    try:
        assert zeros_and(x).dtype is zeros_and.eager(x).dtype is jitgrad.float64
    finally:
        jitgrad.set_default_dtype(jitgrad.float32)
    assert zeros_and(x).dtype is jitgrad.float32
    assert zeros_and.recompilations == ["the default dtype was jitgrad.float32, is jitgrad.float64"]


def with_row(x):
    y = x * 2
    return y, y[0]


def rows_only(x):
    y = jitgrad.tanh(x)
    return {"first": y[0], "rest": [y[1:], y.T]}


def chunks(x, n: int):
    y = x * 2
    a, b = y.chunk(2, 1)
    if n > 2:
        a.add_(n)
    return a, b, y.detach()


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("function", "args"), [(with_row, ()), (rows_only, ()), (chunks, (3,)), (chunks, (1,))])
def test_parts_of_a_new_tensor_share_memory(function, args, interpret, tmp_path):
    def leaves(v):
        if isinstance(v, (tuple, list)):
            return [x for i in v for x in leaves(i)]
        return leaves(list(v.values())) if isinstance(v, dict) else [v]

    def observed(f, rows, needs):
        x = jitgrad.arange(rows * 4, dtype=jitgrad.float32).reshape(rows, 4).div(7).requires_grad_(needs)
        parts = leaves(f(x, *args))
        flags = [p.requires_grad for p in parts]
        if needs:
            sum((p * p).sum() for p in parts if p.requires_grad).backward()
        with jitgrad.no_grad():
            parts[0].mul_(5)
        return [[p.tolist() for p in parts], flags, None if x.grad is None else x.grad.numpy().round(3).tolist()]

    with config.override(interpret=interpret):
        scripted = jitgrad.script(function)
        for needs in (False, True):
            for rows in (3, 5):
                given, wanted = observed(scripted, rows, needs), observed(function, rows, needs)
                assert given[1] == wanted[1]
                assert np.allclose(np.concatenate([np.ravel(p) for p in given[0]]),
                                   np.concatenate([np.ravel(p) for p in wanted[0]]), rtol=1e-5)
                assert given[2] == wanted[2]
        assert scripted.cache_info().compilations == 2
    if not interpret:
        scripted.save(tmp_path / "program.zip")
        loaded = jitgrad.jit.load(tmp_path / "program.zip")
        assert np.allclose(observed(loaded, 3, False)[0][-1], observed(function, 3, False)[0][-1], rtol=1e-5)


def _refused(x):
    return undefined_name(x)  # noqa: F821


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_pauses_while_a_program_is_compiled(enabled, monkeypatch):
    """And is as it was afterwards, also when the script is refused."""
    f, seen = jitgrad.script(scale), []
    monkeypatch.setattr(f, "_prepare", lambda *a: seen.append(gc.isenabled()) or type(f)._prepare(f, *a))
    (gc.enable if enabled else gc.disable)()
    try:
        f(tensor(1.0), 2)
        assert gc.isenabled() is enabled
        with pytest.raises(NameError):
            jitgrad.script(_refused)(tensor(1.0))
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert seen == [False]


def _reaches_both(x, y):
    (x * 2 + y.tanh() * 3).sum().backward()
    return x * 1


def _asks_for_one(x, y):
    return jitgrad.autograd.grad((x * 2 + y * 3).sum(), [x])[0]


def _writes_one(x, y):
    x.mul_(2)
    return y + 1


def _assigns_one(x, y):
    x.grad = jitgrad.ones(3)
    return y.grad if y.grad is not None else x * 0


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, True, False)])
@pytest.mark.parametrize("function", [_reaches_both, _asks_for_one, _assigns_one])
def test_gradients_of_two_tensors_and_then_of_one_twice(function, order):
    """A program compiled for two tensors does not take one tensor twice: that has one `.grad`."""
    scripted = jitgrad.script(function)
    for twice in order:
        found = []
        for f in (function, scripted):
            x = jitgrad.arange(3.0).requires_grad_()
            y = x if twice else jitgrad.ones(3).requires_grad_()
            result = f(x, y)
            found.append([None if t is None else t.tolist() for t in (result, x.grad, y.grad)])
        for a, b in zip(*found, strict=True):
            assert b == (a if a is None else pytest.approx(a, rel=1e-5))
    assert scripted.recompilations == [TWICE if order[1] else "`y` is another object than `x`"]
    x, y = (jitgrad.ones(3).requires_grad_() for _ in range(2))
    assert "no tensor is found on two paths" in str(scripted.explain(x, y))


def test_gradients_of_a_tensor_that_is_also_in_a_list_of_any_length():
    def total(x, xs):
        found = x * 2
        for each in xs:
            found = found + each * each
        return jitgrad.autograd.grad(found.sum(), [x])[0]

    scripted = jitgrad.script(total)
    for count, own in ((3, False), (4, False), (5, False), (5, True), (4, True)):
        x = jitgrad.ones(3).requires_grad_()
        xs = [x if own and k == 0 else jitgrad.ones(3).requires_grad_() for k in range(count)]
        assert scripted(x, xs).tolist() == total(x, xs).tolist()
    assert TWICE in scripted.recompilations


@pytest.mark.parametrize(("function", "reason"), [(_asks_for_one, TWICE), (_writes_one, SHARED)])
def test_a_saved_program_for_two_tensors_refuses_one_twice(function, reason):
    scripted = jitgrad.script(function)
    x, y = jitgrad.ones(3), jitgrad.ones(3)
    needs = function is _asks_for_one
    scripted(x.requires_grad_(needs), y.requires_grad_(needs))
    file = io.BytesIO()
    jitgrad.jit.save(scripted, file)
    file.seek(0)
    loaded = jitgrad.jit.load(file)
    loaded(x, y)
    with pytest.raises(NoProgram, match=reason):
        loaded(x, x)
