"""`jitgrad.multiprocessing`: Python's, with tensors whose memory both processes have; and memory that is shared."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import jitgrad
from jitgrad import multiprocessing as mp, nn
from jitgrad.eager import shared
from tests.layers import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
FORK = mp.get_context("fork")


def run(target, *args):
    """A forked process that calls `target`, until it has ended well."""
    process = FORK.Process(target=target, args=args)
    process.start()
    process.join(30)
    code = process.exitcode
    process.kill()
    assert code == 0


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# --- shared memory -------------------------------------------------------------------------------------------------


def test_tensors_move_with_all_that_share_their_memory():
    x = jitgrad.arange(12.0).reshape(3, 4)
    row, transposed, same = x[1], x.t(), x.detach()
    other = jitgrad.ones(3)
    assert not x.is_shared()
    assert row.share_memory_() is row
    assert all(t.is_shared() for t in (x, row, transposed, same))
    assert not other.is_shared()
    assert transposed.stride() == (1, 4)
    run(lambda: row.mul_(10))
    assert x.tolist() == [[0, 1, 2, 3], [40, 50, 60, 70], [8, 9, 10, 11]]
    assert transposed[1].tolist() == same[:, 1].tolist() == [1, 50, 9]
    x[0] = 5
    assert same[0].tolist() == [5] * 4


def test_leaves_views_and_gradients_stay_what_they_are():
    w = jitgrad.ones(3, requires_grad=True)
    view = w[:2]
    w.share_memory_()
    (view * w[1:]).sum().backward()
    assert w.grad.tolist() == [1, 2, 1]
    assert view._base is w
    odd = jitgrad.from_numpy(np.arange(10.0)[::-2])
    odd.share_memory_()
    assert odd.tolist() == [9, 7, 5, 3, 1]
    assert jitgrad.ones(0, 2).share_memory_().shape == (0, 2)


def test_memory_is_given_back():
    before = descriptors()
    tensors = [jitgrad.ones(1000).share_memory_() for _ in range(10)]
    views = [t[5:] for t in tensors]
    del tensors
    assert descriptors() == before + 10
    assert views[3].sum() == 995
    del views
    assert descriptors() == before
    assert not shared._blocks


def test_modules_and_optimizers_are_shared():
    layer = nn.BatchNorm1d(3)
    assert layer.share_memory() is layer
    optimizer = jitgrad.optim.Adagrad(layer.parameters())
    optimizer.share_memory()

    def step():
        layer(jitgrad.rand(4, 3)).pow(3).sum().backward()
        optimizer.step()

    run(step)
    assert (layer.weight != 1).all()
    assert (layer.running_mean != 0).all()
    assert optimizer.state[layer.weight]["sum"].sum() > 0


def test_scripts_read_shared_memory():
    w = jitgrad.ones(1000).share_memory_()
    f = jitgrad.script(lambda x: (x * w).sum())
    assert f(jitgrad.ones(1000)) == 1000
    run(lambda: w.fill_(3))
    assert f(jitgrad.ones(1000)) == 3000


# --- sending -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(mp.get_all_sharing_strategies()))
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def add_one(inward, outward):
    for x in iter(inward.get, None):
        x += 1
        outward.put(type(x).__name__)
    outward.close()
    outward.join_thread()


def test_a_queue_shares_what_it_sends(strategy):
    inward, outward = FORK.Queue(), FORK.Queue()
    process = FORK.Process(target=add_one, args=(inward, outward))
    process.start()
    base = jitgrad.zeros(4, 4)
    parameter = nn.Parameter(jitgrad.zeros(3), requires_grad=False)
    for x in (base[:, 1], parameter, jitgrad.zeros(2, dtype=jitgrad.bfloat16), jitgrad.zeros(0)):
        inward.put(x)
    assert [outward.get(timeout=20) for _ in range(4)] == ["Tensor", "Parameter", "Tensor", "Tensor"]
    inward.put(None)
    process.join(20)
    assert process.exitcode == 0
    assert base.sum(0).tolist() == [0, 4, 0, 0]
    assert parameter.tolist() == [1, 1, 1]
    assert not [name for name in os.listdir(shared.FOLDER) if name.startswith(shared.PREFIX)]


def put(queue):
    big = jitgrad.full((100, 100), 7.0)
    big.name = "seven"
    queue.put({"big": big.t()[1:], "needs": jitgrad.ones(2, requires_grad=True)})


def test_a_name_outlives_its_sender():
    before = mp.get_sharing_strategy()
    if "file_system" not in mp.get_all_sharing_strategies():
        pytest.skip("no files without names")
    mp.set_sharing_strategy("file_system")
    try:
        queue = FORK.Queue()
        run(put, queue)
        found = queue.get(timeout=20)
    finally:
        mp.set_sharing_strategy(before)
    assert found["big"].shape == (99, 100)
    assert (found["big"] == 7).all()
    assert found["big"].is_shared()
    assert found["needs"].requires_grad


def test_history_is_not_sent():
    with pytest.raises(RuntimeError, match=r"^Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        mp.reduction.ForkingPickler.dumps(jitgrad.ones(2, requires_grad=True) * 2)
    assert pickle.loads(pickle.dumps(jitgrad.ones(2))).is_shared() is False


def test_strategies_have_names():
    torch = pytest.importorskip("torch")
    assert mp.get_sharing_strategy() == torch.multiprocessing.get_sharing_strategy()
    assert mp.get_all_sharing_strategies() == torch.multiprocessing.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'pigeon', expected one of"):
        mp.set_sharing_strategy("pigeon")


def test_the_names_of_torch():
    torch = pytest.importorskip("torch")
    missing = {name for name in torch.multiprocessing.__all__ if not hasattr(mp, name)}
    assert missing == set()
    for name in ("spawn", "start_processes", "ProcessContext", "ProcessRaisedException", "ProcessExitedException",
                 "SpawnContext", "connection", "reduction"):
        assert hasattr(mp, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        mp.no_such_name  # noqa: B018


def square(x):
    return x * x


def test_pools():
    with FORK.Pool(2) as pool:
        assert [x.tolist() for x in pool.map(square, [jitgrad.ones(2) * k for k in range(4)])] == [
            [k * k] * 2 for k in range(4)]


# --- spawn ---------------------------------------------------------------------------------------------------------


def work(index, how, out):
    out[index] = index + 1
    if index == 1 and how == "raise":
        raise ValueError("no more")
    if index == 1 and how == "exit":
        sys.exit(7)
    if index == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_end_well():
    out = jitgrad.zeros(3).share_memory_()
    assert mp.start_processes(work, ("", out), 3, start_method="fork") is None
    assert out.tolist() == [1, 2, 3]
    started = mp.start_processes(work, ("", out), 2, join=False, start_method="fork")
    assert len(started.pids()) == 2
    while not started.join(timeout=10):
        pass
    assert started.join()


@pytest.mark.parametrize(("how", "error", "message"), [
    ("raise", mp.ProcessRaisedException, r"\n\n-- Process 1 terminated with the following error:\nTraceback (.|\n)*no"),
    ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 7"),
    ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
])
def test_processes_that_fail(how, error, message):
    with pytest.raises(error, match=f"^{message}") as caught:
        mp.start_processes(work, (how, jitgrad.zeros(3)), 3, start_method="fork")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.error_index, again.error_pid, str(again)) == (1, caught.value.error_pid, str(caught.value))
    if how == "kill":
        assert (again.exit_code, again.signal_name) == (-9, "SIGKILL")


def test_spawn(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import jitgrad as torch
        def train(rank, shared):
            shared[rank] += rank + 1
        if __name__ == "__main__":
            shared = torch.zeros(2).share_memory_()
            torch.multiprocessing.spawn(train, args=(shared,), nprocs=2)
            print(shared.tolist())
        """))
    done = subprocess.run([sys.executable, tmp_path / "program.py"], env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "[1.0, 2.0]\n", done.stderr
    with pytest.warns(FutureWarning, match="This method only supports start_method=spawn"):
        mp.spawn(work, nprocs=0, start_method="fork")
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext"):
        mp.SpawnContext([], [])
