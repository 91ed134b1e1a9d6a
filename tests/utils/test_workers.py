"""Worker processes of `DataLoader`: what they give, how they are seeded, and that none is left or waited for."""

# ruff: noqa: E501  (messages)

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import jitgrad
from jitgrad.utils import data
from jitgrad.utils.data import worker
from tests.layers import ROOT

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
              pytest.mark.filterwarnings("ignore:This DataLoader will create")]


@pytest.fixture(autouse=True)
def alarm():
    """A test that waits for ever fails."""
    def ring(*_):
        raise TimeoutError("this test waits")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Numbers(data.Dataset):
    """Sample i: what `make` makes of i."""

    def __init__(self, make, n=12):
        self.make, self.n = make, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.make(i)


class Stream(data.IterableDataset):
    """0 .. n - 1, shared among the workers."""

    def __init__(self, n=10):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


def gone(pid):
    """Whether a process has ended, or does within a few seconds."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("count", [1, 2, 3])
def test_batches_come_in_order(count):
    def late(i):
        time.sleep(0.02 if i % 4 == 0 else 0)
        return jitgrad.full((2, 3), float(i)), i, np.float32(i), f"s{i}"

    here, there = (list(data.DataLoader(Numbers(late), 2, num_workers=n)) for n in (0, count))
    for a, b in zip(here, there, strict=True):
        assert [type(x) for x in a] == [type(x) for x in b]
        assert [x.tolist() for x in a[:3]] == [x.tolist() for x in b[:3]]
        assert [x.dtype for x in a[:3]] == [x.dtype for x in b[:3]]
        assert a[3] == b[3]


def test_large_batches_are_writable_memory_of_their_own():
    found = list(data.DataLoader(Numbers(lambda i: np.full((300, 200), i, np.float32)), 3, num_workers=2))
    for batch in found:
        batch += 1
    assert [float(b.sum()) for b in found] == [60000.0 * (3 * k + 3) + 180000.0 for k in (0, 3, 6, 9)]
    assert not found[0].is_shared()


def test_other_objects_pass():
    odd = np.arange(10000).reshape(100, 100).T[::2]
    loader = data.DataLoader(Numbers(lambda i: {"odd": odd, "text": "x" * 5000, "half": jitgrad.ones(2, dtype=jitgrad.bfloat16),
                                                "empty": jitgrad.ones(0, 3), "dtype": jitgrad.float32}, 4),
                             batch_size=None, num_workers=2)
    for sample in loader:
        assert np.array_equal(sample["odd"].numpy(), odd)
        assert (sample["text"], sample["half"].dtype, sample["dtype"]) == ("x" * 5000, jitgrad.bfloat16, jitgrad.float32)
        assert sample["empty"].shape == (0, 3)


def test_many_and_large_tasks_do_not_block():
    """More answers and indices than a socket takes."""
    batches = [list(range(12)) * 400 for _ in range(60)]
    loader = data.DataLoader(Numbers(lambda i: i), batch_sampler=batches, num_workers=1, prefetch_factor=10_000)
    iterator = iter(loader)
    time.sleep(0.5)
    assert [int(b.sum()) for b in iterator] == [66 * 400] * 60


@pytest.mark.parametrize(("n", "count", "size"), [(10, 2, 2), (10, 3, 2), (3, 3, 2), (7, 2, None), (1, 3, 4)])
def test_streams(n, count, size):
    torch = pytest.importorskip("torch")

    class Theirs(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            return iter(range(info.id, n, info.num_workers))

    theirs = torch.utils.data.DataLoader(Theirs(), size, num_workers=count)
    expected = [b if size is None else b.tolist() for b in theirs]
    for persistent in (False, True):
        loader = data.DataLoader(Stream(n), size, num_workers=count, persistent_workers=persistent)
        for _ in range(2):
            assert [b if size is None else b.tolist() for b in loader] == expected


def test_as_they_are_ready():
    def make(i):
        time.sleep(0.6 if i == 0 else 0)
        return i

    loader = data.DataLoader(Numbers(make, 6), num_workers=2, in_order=False)
    found = [int(b) for b in loader]
    assert sorted(found) == list(range(6))
    assert found[0] != 0


# --- random numbers ------------------------------------------------------------------------------------------------


def test_orders_do_not_depend_on_workers():
    def orders(**options):
        jitgrad.manual_seed(3)
        loader = data.DataLoader(Numbers(lambda i: i), 5, shuffle=True, **options)
        return [[b.tolist() for b in loader] for _ in range(3)], jitgrad.rand(1).item()

    expected = orders()
    for options in ({"num_workers": 1}, {"num_workers": 3}, {"num_workers": 2, "persistent_workers": True}):
        assert orders(**options) == expected
    own = [[b.tolist() for b in data.DataLoader(Numbers(lambda i: i), 5, shuffle=True, num_workers=n,
                                                generator=jitgrad.Generator().manual_seed(7))] for n in (0, 2)]
    assert own[0] == own[1]


def drawn(i):
    info = data.get_worker_info()
    return info.id, info.seed, jitgrad.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002


def test_each_worker_has_its_seed():
    def draws():
        jitgrad.manual_seed(1)
        return list(data.DataLoader(Numbers(drawn, 6), batch_size=None, num_workers=2))

    found = draws()
    assert found == draws()
    assert [f[0] for f in found] == [0, 1, 0, 1, 0, 1]
    assert found[1][1] == found[0][1] + 1
    assert len({tuple(f[2:]) for f in found}) == 6
    first = jitgrad.Generator(found[0][1])
    assert found[0][2] == jitgrad.rand(1, generator=first).item()
    assert found[0][3] == random.Random(found[0][1]).random()
    assert data.get_worker_info() is None


def test_numpy_is_seeded_as_in_torch():
    theirs = pytest.importorskip("torch.utils.data._utils.worker")
    for base in (0, 1, 12345678901234567, (1 << 63) + 11):
        for number in (0, 1, 7):
            assert worker.seeds(base, number).tolist() == theirs._generate_state(base, number)


def test_workers_begin_with_a_function():
    class Split(Stream):
        def __iter__(self):
            return iter(self.mine)

    def begin(number):
        info = data.get_worker_info()
        assert (info.id, info.num_workers) == (number, 2)
        info.dataset.mine = [number * 10, number * 10 + 1]

    assert [b.tolist() for b in data.DataLoader(Split(), 2, num_workers=2, worker_init_fn=begin)] == [[0, 1], [10, 11]]


def test_persistent_workers_stay():
    loader = data.DataLoader(Numbers(lambda i: os.getpid(), 4), num_workers=2, persistent_workers=True)
    first, left, second = ({int(b) for b in loader}, int(next(iter(loader))), {int(b) for b in loader})
    assert first == second
    assert left in first
    assert os.getpid() not in first
    assert len(first) == 2
    assert len(list(loader)) == 4
    del loader
    gc.collect()
    assert all(gone(pid) for pid in first)


# --- errors and ends -----------------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def failing(error):
    def make(i):
        if i == 5:
            raise error
        return i

    return make


@pytest.mark.parametrize(("error", "raised"), [
    (ValueError("no such sample"), ValueError), (KeyError("name"), KeyError), (TwoArguments(1, 2), RuntimeError)])
def test_an_exception_is_raised_again(error, raised):
    iterator = iter(data.DataLoader(Numbers(failing(error), 8), num_workers=2))
    assert [int(next(iterator)) for _ in range(5)] == list(range(5))
    with pytest.raises(raised, match=rf"^Caught {type(error).__name__} in DataLoader worker process 1\.\nOriginal "
                                     r"Traceback \(most recent call last\)(.|\n)*in make") as caught:
        next(iterator)
    assert type(caught.value) is raised
    assert [int(b) for b in iterator] == [6, 7]


def test_what_cannot_be_sent():
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        list(data.DataLoader(Numbers(failing(Local("?"))), num_workers=1))
    with pytest.raises(Exception, match=r"(?i)pickle .*lambda"):
        list(data.DataLoader(Numbers(lambda i: lambda: i), batch_size=None, num_workers=1))
    weight = jitgrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Caught RuntimeError in DataLoader worker process 0(.|\n)*non-leaf tensor"):
        list(data.DataLoader(Numbers(lambda i: weight * i), batch_size=None, num_workers=1))

    def begin(number):
        raise LookupError("no file")

    with pytest.raises(LookupError, match=r"Caught LookupError in DataLoader worker process 0(.|\n)*no file"):
        list(data.DataLoader(Numbers(lambda i: i), num_workers=1, worker_init_fn=begin))


@pytest.mark.parametrize(("end", "cause"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: SIGKILL"), (lambda: os._exit(3), None)])
def test_a_worker_that_ends(end, cause):
    def make(i):
        if i == 5:
            end()
        return os.getpid()

    iterator = iter(data.DataLoader(Numbers(make, 8), num_workers=2))
    pids = {int(next(iterator)) for _ in range(4)}
    with pytest.raises(RuntimeError, match=r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(iterator)
    assert (cause or "None") in str(caught.value.__cause__)
    assert all(gone(pid) for pid in pids)


def test_timeout():
    loader = data.DataLoader(Numbers(lambda i: time.sleep(2 if i == 1 else 0) or i), num_workers=1, timeout=0.3)
    iterator = iter(loader)
    assert int(next(iterator)) == 0
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.3 seconds"):
        next(iterator)


def test_an_iterator_that_is_left_ends_its_workers():
    iterator = iter(data.DataLoader(Numbers(lambda i: os.getpid(), 100), num_workers=2))
    pids = {int(next(iterator)) for _ in range(4)}
    descriptors = len(os.listdir("/proc/self/fd"))
    del iterator
    gc.collect()
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
    assert len(os.listdir("/proc/self/fd")) < descriptors


def test_batches_hold_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    held = list(data.DataLoader(Numbers(lambda i: jitgrad.ones(1000), 50), num_workers=1))
    assert len(os.listdir("/proc/self/fd")) <= before
    assert len(held) == 50


PROGRAM = """
import os, signal, sys, time
import jitgrad
from jitgrad.utils import data

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

class Slow(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(0.01)
        return os.getpid()

iterator = iter(data.DataLoader(Slow(), num_workers=2))
print(*sorted({int(next(iterator)) for _ in range(6)}), flush=True)
"""


@pytest.mark.parametrize(("rest", "send", "code"), [
    ("", None, 0),                                                  # the interpreter ends with workers at work
    ("os._exit(5)", None, 5),                                       # without saying so
    ("list(iterator)", signal.SIGINT, -signal.SIGINT),              # Ctrl-C
    ("list(iterator)", signal.SIGKILL, -signal.SIGKILL),
    ("raise ValueError", None, 1),
])
def test_no_worker_outlives_its_program(rest, send, code):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM + rest], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        pids = process.stdout.readline().split()
        if send is not None:
            process.send_signal(send)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_spawned_workers(tmp_path):
    program = textwrap.dedent("""
        import jitgrad
        from jitgrad.utils import data
        class Squares(data.Dataset):
            def __len__(self): return 6
            def __getitem__(self, i): return jitgrad.full((50, 50), float(i * i))
        if __name__ == "__main__":
            for method in ("spawn", "forkserver"):
                loader = data.DataLoader(Squares(), 2, num_workers=2, multiprocessing_context=method)
                print([b[:, 0, 0].tolist() for b in loader])
        """)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, tmp_path / "program.py"], env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "[[0.0, 1.0], [4.0, 9.0], [16.0, 25.0]]\n" * 2, done.stderr


def test_native_code_runs_in_workers():
    """The parent's threads are not in its children, which compute alone."""
    @jitgrad.script
    def f(x):
        return (x * 2).exp().sum(1)

    jitgrad.set_num_threads(2)
    x = jitgrad.rand(1500, 700)
    expected = f(x).tolist()
    found = list(data.DataLoader(Numbers(lambda i: (f(x), jitgrad.get_num_threads()), 4), None, num_workers=2))
    assert all(y.tolist() == expected and n == 1 for y, n in found)
    assert jitgrad.get_num_threads() == 2


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"multiprocessing_context": "fork"}, ValueError, "multiprocessing_context can only be used with multi-process"),
    ({"multiprocessing_context": "x", "num_workers": 1}, ValueError, "multiprocessing_context option should specify a "),
    ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "multiprocessing_context option should be a valid co"),
    ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
])
def test_options(options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        data.DataLoader(Numbers(int), **options)


def test_defaults():
    loader = data.DataLoader(Numbers(int), num_workers=1)
    assert (loader.prefetch_factor, loader.multiprocessing_context, loader.in_order) == (2, None, True)
    loader.multiprocessing_context = multiprocessing.get_context("fork")
    assert [int(b) for b in loader] == list(range(12))
    with pytest.raises(ValueError, match="persistent_workers attribute should not be set after DataLoader is init"):
        loader.persistent_workers = True
    with pytest.warns(UserWarning, match="will create 500 worker processes in total. Our suggested max number of worke"):
        data.DataLoader(Numbers(int), num_workers=500)


def test_pinned_memory_needs_a_device(monkeypatch):
    from jitgrad.utils.data import dataloader

    monkeypatch.setattr(dataloader, "has_gpu", lambda: False)
    loader = data.DataLoader(Numbers(int), 6, pin_memory=True, num_workers=1)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        assert [len(b) for b in loader] == [6, 6]
