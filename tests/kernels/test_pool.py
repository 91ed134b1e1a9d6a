"""Threads that share kernels: the same bits whatever their number, in children and under several callers."""

import contextlib
import ctypes
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run import runtime


@pytest.fixture(autouse=True)
def _as_before():
    before = jitgrad.get_num_threads()
    yield
    jitgrad.set_num_threads(before)


def normal(*shape, seed=0):
    return jitgrad.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def pointwise(x, w):
    return (x.tanh() * 0.5 + w.exp()).clamp(max=3.0) * x


def rows(x, w):
    return (x * w).softmax(-1) + jitgrad.nn.functional.layer_norm(x, (x.shape[-1],))


def sums(x, w):
    return x.sum() * (w * x).sum(0), (x * w).sum(1), (x - w).abs().max()


def places(x, w):
    """Indices go on where a chunk begins."""
    at = (x * w).argmax()
    return x * jitgrad.arange(x.shape[0]).reshape(-1, 1) + w, (x + at).argmin(1) + x.argmax(0).sum(), jitgrad.tril(x, 3)


def drawn(x, w):
    return jitgrad.nn.functional.dropout(x, 0.3) * w + jitgrad.rand_like(x)


def turned(x, w):
    return (x.t() * w.t()).contiguous(), x.t().sum(0) + w.sum(1)


PROGRAMS = {
    "pointwise": (pointwise, (1500, 700), (1500, 700)), "broadcast": (pointwise, (1500, 700), (700,)),
    "rows": (rows, (900, 1000), (1000,)), "sums": (sums, (1100, 900), (1100, 900)),
    "columns": (sums, (5000, 130), (130,)), "long": (pointwise, (1, 1_300_001), (1, 1_300_001)),
    "places": (places, (1300, 700), (1300, 700)),
    "random": (drawn, (1200, 900), (900,)), "turned": (turned, (900, 1100), (900, 1100)),
    "several axes": (rows, (30, 40, 700), (700,)), "one row": (rows, (1, 1_000_000), (1_000_000,)),
    "none": (pointwise, (0, 700), (0, 700)),
    "small": (rows, (3, 5), (5,)),
}


def computed(f, x, w):
    """Results and gradients, as bytes."""
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    found = f(x, w)
    found = found if isinstance(found, tuple) else (found,)
    sum((v * v).sum() for v in found if v.is_floating_point()).backward()
    return [v.detach().numpy().tobytes() for v in (*found, x.grad, w.grad)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_on_any_number_of_threads(name):
    function, xs, ws = PROGRAMS[name]
    f = jitgrad.script(function)
    x, w = normal(*xs), normal(*ws, seed=1)
    found = []
    for count in (1, 2, 4, 3):
        jitgrad.set_num_threads(count)
        jitgrad.manual_seed(3)
        assert jitgrad.get_num_threads() == count
        found.append(computed(f, x, w))
    assert found[0] == found[1] == found[2] == found[3]
    jitgrad.manual_seed(3)
    expected = function(x, w)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(expected, found[0][:len(expected)], strict=True):
        np.testing.assert_allclose(np.frombuffer(b, a.numpy().dtype), a.numpy().ravel(), rtol=1e-3, atol=1e-3)


CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def parallel(function, count, length, work=1 << 30):
    native = runtime.symbols()["jg_parallel"]
    ctypes.CFUNCTYPE(None, CHUNK, ctypes.c_void_p, *[ctypes.c_int64] * 3)(native)(
        CHUNK(function), None, count, length, work)


@pytest.mark.parametrize(("count", "length"), [(0, 3), (1, 3), (3, 3), (100, 7), (5000, 1)])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_chunk_once(threads, count, length):
    jitgrad.set_num_threads(threads)
    found = []
    for _ in range(3):
        parallel(lambda _, begin, end: found.append((begin, end)), count, length)
        assert sorted(found) == [(k, min(k + length, count)) for k in range(0, count, length)]
        found.clear()


def taken_by_two(function):
    """Chunks in the order in which the owner took them, of eight, and those of another thread."""
    jitgrad.set_num_threads(2)
    owner, found = threading.get_ident(), {True: [], False: []}

    def run(_, begin, end):
        mine = threading.get_ident() == owner
        found[mine].append(begin)
        function(mine)

    parallel(run, 8, 1)
    return found[True], found[False]


def test_each_thread_has_chunks_of_its_own():
    together = threading.Barrier(2)
    assert taken_by_two(lambda mine: together.wait(60)) == ([0, 1, 2, 3], [4, 5, 6, 7])


def test_who_has_none_left_takes_the_last_of_another():
    came, done, left = threading.Event(), threading.Event(), iter(range(7))

    def run(mine):
        if not mine:
            came.set()
            done.wait(60)
        else:
            came.wait(60)
            if next(left) == 6:
                done.set()

    assert taken_by_two(run) == ([0, 1, 2, 3, 7, 6, 5], [4])


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_chunks_than_a_word_tells(threads):
    jitgrad.set_num_threads(threads)
    found = []
    parallel(lambda _, begin, end: found.append((begin, end)), 70_000, 1)
    found.sort()
    assert (found[0][0], found[-1][1]) == (0, 70_000)
    assert [end for _, end in found[:-1]] == [begin for begin, _ in found[1:]]


def test_chunks_within_chunks():
    jitgrad.set_num_threads(3)
    found = []
    parallel(lambda _, begin, end: parallel(lambda _, b, e: found.append((begin, b)), 4, 1), 5, 1)
    assert sorted(found) == [(k, j) for k in range(5) for j in range(4)]


def test_who_waited_long_works_alone_for_a_while():
    jitgrad.set_num_threads(2)
    owner, started, ended, came = threading.get_ident(), time.perf_counter(), threading.Event(), threading.Event()

    def late(_, begin, end):
        if threading.get_ident() == owner:
            came.wait(60)
            ended.set()
        else:
            came.set()
            ended.wait(60)
            time.sleep(0.3 + 5 * (time.perf_counter() - started))  # the owner may hear of it late

    parallel(late, 2, 1)
    assert came.is_set()
    seen = set()
    parallel(lambda _, begin, end: seen.add(threading.get_ident()), 50, 1)
    assert seen == {owner}


def test_several_callers_at_once():
    jitgrad.set_num_threads(2)
    f = jitgrad.script(pointwise)
    given = [(normal(1000, 600, seed=k), normal(1000, 600, seed=k + 9)) for k in range(4)]
    expected = [f(*g).numpy().tobytes() for g in given]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: f(*given[k % 4]).numpy().tobytes() == expected[k % 4], range(60)))
    assert all(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_makes_threads_of_its_own():
    jitgrad.set_num_threads(2)
    f = jitgrad.script(pointwise)
    x, w = normal(1500, 700), normal(700, seed=1)
    expected = f(x, w).numpy().tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if all(f(x, w).numpy().tobytes() == expected for _ in range(5)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert f(x, w).numpy().tobytes() == expected


def _await_sleep():
    """Until no thread but this one runs; those that wait by spinning always would."""
    own = str(threading.get_native_id())

    def awake():
        states = {}
        for number in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{number}/stat") as stat:
                states[number] = stat.read().rpartition(")")[2].split()[0]
        return [number for number, state in states.items() if state == "R" and number != own]

    for _ in range(1000):
        if not awake():
            return
        time.sleep(0.01)
    raise AssertionError(f"threads {awake()} do not sleep")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc")
def test_who_waits_sleeps():
    jitgrad.set_num_threads(3)
    f = jitgrad.script(pointwise)
    f(normal(1500, 700), normal(700, seed=1))
    _await_sleep()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc")
def test_who_sleeps_is_woken_for_much_work():
    jitgrad.set_num_threads(2)
    parallel(lambda _, begin, end: None, 2, 1)
    _await_sleep()
    owner, seen, came = threading.get_ident(), set(), threading.Event()
    parallel(lambda _, begin, end: seen.add(threading.get_ident()), 50, 1, work=1000)
    assert seen == {owner}

    def much(_, begin, end):
        if threading.get_ident() == owner:
            came.wait(60)
        else:
            came.set()

    parallel(much, 4, 1)
    assert came.is_set()


def test_interop_threads_are_a_number(monkeypatch):
    from jitgrad.codegen.run import threads

    monkeypatch.setattr(threads._Control, "asked_interop", 0)
    assert jitgrad.get_num_interop_threads() == threads._usable()
    jitgrad.set_num_interop_threads(3)
    assert jitgrad.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="set_num_interop_threads expects a positive integer"):
        jitgrad.set_num_interop_threads(0)


@pytest.mark.parametrize(("number", "error"), [(0, RuntimeError), (-1, RuntimeError), (1.5, TypeError),
                                               (True, TypeError)])
def test_numbers_that_are_none(number, error):
    with pytest.raises(error, match="set_num_threads expects"):
        jitgrad.set_num_threads(number)


def test_the_environment_says_how_many(monkeypatch):
    from jitgrad.codegen.run import threads

    monkeypatch.setattr(threads._Control, "asked", 0)
    for value, expected in (("", threads._usable()), ("1,4", 1), ("many", threads._usable())):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        with jitgrad.config.override(num_threads=0):
            assert jitgrad.get_num_threads() == expected
