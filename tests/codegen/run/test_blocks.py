"""Large arrays lie in memory that is kept (`kernels/blocks.py`), and are NumPy's arrays in all else."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import jitgrad
from jitgrad.codegen.run import blocks as handler, runtime
from jitgrad.eager.arrays import blocks
from jitgrad.kernels import blocks as native

pytestmark = pytest.mark.filterwarnings("ignore")
COUNT = blocks.LEAST


@pytest.fixture(autouse=True)
def _loaded():
    runtime.symbols()


def _ours(array):
    return get_handler_name(array) == "jitgrad"


def _address(array):
    return array.__array_interface__["data"][0]


@jitgrad.script
def shifted(x):
    return x + 1, x.sum(), x * 2


def test_results_of_scripts_that_are_large_have_kept_memory():
    a, total, b = shifted(jitgrad.zeros(COUNT))
    assert _ours(a.numpy())
    assert _ours(b.numpy())
    assert not _ours(total.numpy())
    assert not any(map(_ours, [y.numpy() for y in shifted(jitgrad.zeros(8))]))
    assert a.numpy().flags.owndata
    assert _address(a.numpy()) % 64 == 0


def test_large_blocks_begin_at_different_lines_of_the_cache():
    """Arrays of a large power of two of bytes would begin at multiples of a page, all of them."""
    made = [blocks.empty((1 << 20,), np.float32) for _ in range(6)]
    assert all(map(_ours, made))
    assert len({_address(a) % 4096 for a in made}) > 3
    assert all(_address(a) % 64 == 0 for a in made)


@pytest.mark.parametrize("rows", [3, 70_000])
def test_the_size_of_a_result_is_looked_at_in_the_call(rows):
    @jitgrad.script
    def doubled(x):
        return x * 2

    for n in (2, rows, 5):
        y = doubled(jitgrad.ones(n, 4)).numpy()
        assert _ours(y) == (y.nbytes >= blocks.LEAST)


def test_what_is_large_is_said_alike():
    """Native code keeps what Python asks it for; its text may depend on no file of Python's."""
    assert blocks.LEAST == native.LEAST


def test_memory_is_used_again():
    def address():
        return _address(shifted(jitgrad.zeros(3 * COUNT))[0].numpy())

    address()
    assert len({address() for _ in range(10)}) <= 2


def test_large_eager_results_and_gradients_have_kept_memory():
    x = jitgrad.ones(COUNT, requires_grad=True)
    y = x * 3
    (y * y).sum().backward()
    assert _ours(y.detach().numpy())
    assert _ours(x.grad.numpy())
    assert not _ours((jitgrad.ones(4) * 2).numpy())
    assert not _ours(np.empty(COUNT))


def test_arrays_can_be_resized_retyped_and_outlive_the_pool():
    a = blocks.empty((COUNT,), np.uint8)
    a[:] = np.arange(COUNT) % 251
    before = a.copy()
    a.resize(4 * COUNT, refcheck=False)
    assert _ours(a)
    assert (a[:COUNT] == before).all()
    assert not a[COUNT:].any()
    a.resize(100, refcheck=False)
    assert (a == before[:100]).all()
    a.dtype = np.int32
    a.resize(COUNT, refcheck=False)
    assert a.nbytes == 4 * COUNT
    assert a.view(np.uint8)[:100].tolist() == before[:100].tolist()


def test_they_outlive_all_else(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""
import builtins
import jitgrad

@jitgrad.script
def f(x):
    return x + 1

y = f(jitgrad.ones({COUNT}))
builtins.kept = y.numpy()
print(float(y.sum()))
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert float(done.stdout) == 2 * COUNT
    assert not done.stderr


def test_zeros_are_zeros_where_memory_is_used_again():
    a = blocks.empty((COUNT,), np.float32)
    a[:] = 5
    del a
    token = blocks.keep()
    try:
        zeros = np.zeros(COUNT, np.float32)
    finally:
        blocks.release(token)
    assert _ours(zeros)
    assert not zeros.any()


def test_small_arrays_may_have_it():
    token = blocks.keep()
    try:
        made = [np.arange(n) for n in range(200)]
    finally:
        blocks.release(token)
    assert all(map(_ours, made))
    assert all((a == np.arange(n)).all() for n, a in enumerate(made))


def test_only_where_it_is_asked_for():
    def elsewhere():
        found.append(_ours(np.empty(COUNT)))

    found = []
    token = blocks.keep()
    try:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    finally:
        blocks.release(token)
    assert found == [False]
    assert not _ours(np.empty(COUNT))


def test_threads_take_and_give_at_once():
    def work(seed):
        rng = np.random.default_rng(seed)
        kept = {}
        for turn in range(300):
            n = int(rng.integers(COUNT // 4, COUNT))
            a = blocks.empty((n,), np.int64)
            a[:] = mark = 1000 * seed + turn
            kept[turn % 7] = a, mark
            if any((b != m).any() for b, m in kept.values()):
                wrong.append(turn)
            if turn % 3 == 0:
                given.append(kept.popitem())  # freed by another thread
                del given[:len(given) - 3]

    wrong, given = [], []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _measured(environ, body):
    """What a process prints."""
    lines = ["import numpy as np", "from jitgrad.codegen.run import runtime", "from jitgrad.eager.arrays import blocks",
             "runtime.symbols()",
             "def resident():",
             "    return int(open('/proc/self/statm').read().split()[1]) * 4 // 1024", *body]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True,
                          env={**os.environ, **environ})
    return done.stdout.split()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells the memory of a process")
def test_no_more_is_kept_than_the_limit():
    body = ["start = resident()",
            "arrays = [blocks.empty((1 << 20,), np.int64) for _ in range(40)]",
            "for a in arrays: a[:] = 1",
            "full = resident() - start", "del a, arrays", "print(full, resident() - start)"]
    full, left = map(int, _measured({"JITGRAD_KEPT_MEMORY": "32"}, body))
    assert full >= 300
    assert left <= 60
    full, left = map(int, _measured({"JITGRAD_KEPT_MEMORY": "512"}, body))
    assert full >= 300
    assert left >= 300


def test_nothing_is_kept_where_that_is_asked_for():
    body = ["from numpy._core.multiarray import get_handler_name",
            "print(get_handler_name(blocks.empty((1 << 20,), 'u1')))"]
    assert _measured({"JITGRAD_KEPT_MEMORY": "0"}, body) == ["default_allocator"]


def test_memory_that_is_kept_is_given_back_before_there_is_none():
    body = ["import resource", "sizes = [(8 + k) << 20 for k in range(0, 400, 16)]",
            "arrays = [blocks.empty((n,), 'u1') for n in sizes[:5]]", "del arrays",
            "used = int(open('/proc/self/statm').read().split()[0]) * 4096",
            "resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20),) * 2)",
            "a = blocks.empty((100 << 20,), 'u1')", "print(a.size >> 20)",
            "try:\n    blocks.empty((1 << 40,), 'u1')\nexcept MemoryError:\n    print('none')"]
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("Linux limits a process")
    assert _measured({"JITGRAD_KEPT_MEMORY": "500"}, body) == ["100", "none"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_has_its_own():
    a = blocks.empty((COUNT,), np.uint8)
    a[:] = 7
    pid = os.fork()
    if not pid:
        b = blocks.empty((COUNT,), np.uint8)
        b[:] = 9
        os._exit(0 if (a == 7).all() and _ours(b) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_limit(monkeypatch):
    with jitgrad.config.override(kept_memory=3):
        assert handler.limit() == 3 << 20
    assert 0 < handler.limit() <= handler.MOST
    with pytest.raises(ValueError, match="JITGRAD_KEPT_MEMORY=x: expected a number of megabytes"):
        jitgrad.config.read({"JITGRAD_KEPT_MEMORY": "x"})


def test_a_numpy_that_has_no_such_handler_keeps_its_own_memory(monkeypatch):
    provided = []
    monkeypatch.setattr(handler.blocks, "provide", lambda *what: provided.append(what))
    monkeypatch.setattr(handler.multiarray, "get_handler_name", lambda array: "default_allocator")
    handler.manage(runtime.symbols(), None)
    assert provided == [(None, None)]
