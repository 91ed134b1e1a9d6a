"""`jitgrad.cuda` and `jitgrad.accelerator`: questions about devices, memory, streams and events."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import jitgrad
from jitgrad import accelerator, device
from jitgrad.cuda import streams as cuda_streams
from tests.codegen.cuda import host
from tests.cuda import standin
from tests.cuda.hosted import gpu


def test_devices(cuda: Any) -> None:
    assert jitgrad.cuda.is_available()
    assert jitgrad.cuda.device_count() == 2
    assert jitgrad.cuda.current_device() == 0
    with jitgrad.cuda.device(1):
        assert jitgrad.cuda.current_device() == 1
        assert jitgrad.ones(1, device="cuda").device == device("cuda:1")
    assert jitgrad.cuda.get_device_name() == "Stand-in"
    assert jitgrad.cuda.get_device_capability("cuda:1") == (9, 0)
    assert jitgrad.cuda.get_device_properties(0).multi_processor_count == 132
    assert jitgrad.cuda.mem_get_info()[1] == 139 << 30
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == device("cuda")
    assert accelerator.device_count() == 2
    before = dict(standin.waits)
    jitgrad.cuda.synchronize()
    assert standin.waits["synchronize"] == before.get("synchronize", 0) + 1
    with pytest.raises(ValueError, match="Expected a cuda device"):
        jitgrad.cuda.get_device_name("cpu")


def test_memory(cuda: Any) -> None:
    before = jitgrad.cuda.memory_allocated()
    x = jitgrad.zeros(1024, device="cuda")
    assert jitgrad.cuda.memory_allocated() == before + 4096
    jitgrad.cuda.reset_peak_memory_stats()
    y = x + 1
    del y
    assert jitgrad.cuda.memory_allocated() == before + 4096
    assert jitgrad.cuda.max_memory_allocated() == before + 8192
    assert jitgrad.cuda.memory_reserved() >= jitgrad.cuda.max_memory_allocated()
    jitgrad.cuda.empty_cache()
    assert "allocated" in jitgrad.cuda.memory_summary()


def test_streams_and_events(cuda: Any) -> None:
    stream = jitgrad.cuda.Stream()
    assert jitgrad.cuda.current_stream() == jitgrad.cuda.default_stream()
    start, end = (jitgrad.cuda.Event(enable_timing=True) for _ in range(2))
    with jitgrad.cuda.stream(stream):
        assert jitgrad.cuda.current_stream() == stream
        start.record()
        jitgrad.ones(2, device="cuda").sum()
        end.record()
    with jitgrad.cuda.stream(None):
        assert jitgrad.cuda.current_stream() != stream
    end.synchronize()
    assert end.query()
    assert stream.query()
    assert start.elapsed_time(end) > 0
    jitgrad.cuda.current_stream().wait_stream(stream)
    end.wait()
    assert "cuda:0" in repr(stream)


def test_one_stream_of_random_numbers(cuda: Any) -> None:
    jitgrad.cuda.manual_seed_all(3)
    assert jitgrad.cuda.initial_seed() == 3
    state = jitgrad.cuda.get_rng_state()
    drawn = jitgrad.rand(4, device="cuda")
    jitgrad.cuda.set_rng_state(state)
    assert jitgrad.rand(4).tolist() == drawn.tolist()


def test_indices_are_checked_without_waiting(cuda: Any) -> None:
    """An index out of range is an error at the latest when a result is read; none makes the host wait."""
    table = jitgrad.nn.Embedding(5, 3, device="cuda")
    logits = jitgrad.randn(4, 6, device="cuda", requires_grad=True)
    labels = jitgrad.tensor([1, 2, 3, 0], device="cuda")
    before = dict(standin.waits)
    loss = jitgrad.nn.functional.cross_entropy(logits, labels) + table(labels).sum() + logits[labels, -labels].sum()
    loss.backward()
    assert standin.waits == before
    loss.item()
    for act in (lambda: table(labels + 2), lambda: logits[labels - 5],
                lambda: logits.gather(1, (labels + 3).unsqueeze(1)),
                lambda: jitgrad.nn.functional.cross_entropy(logits, labels * 3)):
        y = act().sum()
        with pytest.raises((IndexError, RuntimeError), match="is out of bounds"):
            y.item()
        y.item()  # said once
    table(labels + 2)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        jitgrad.cuda.synchronize()


def test_a_training_step_never_waits(cuda: Any) -> None:
    """Nothing in a forward pass, a backward pass and an optimizer's step makes the host wait for the device."""
    net = jitgrad.nn.Sequential(
        jitgrad.nn.Linear(3, 8), jitgrad.nn.GELU(), jitgrad.nn.LayerNorm(8), jitgrad.nn.Dropout(0.1),
        jitgrad.nn.Linear(8, 2)).cuda()
    optimizer = jitgrad.optim.Adam(net.parameters())
    x, y = jitgrad.randn(5, 3, device="cuda"), jitgrad.randn(5, 2, device="cuda")
    before = dict(standin.waits)
    for _ in range(2):
        optimizer.zero_grad()
        jitgrad.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    assert standin.waits == before


@host.needs_compiler
@pytest.mark.parametrize("made_by_cupy", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
def test_the_workspaces_of_a_stream_go_with_it(replayed: bool, made_by_cupy: bool) -> None:
    """A handle that is only another name for the stream keeps nothing, and takes nothing away."""
    doubled = jitgrad.script(lambda x: (x * 2).sum())
    with gpu(replayed) as made, jitgrad.device("cuda"):
        x = jitgrad.ones(3)
        pools = weakref.WeakSet(cuda_streams._kept)
        streams: list[Any] = [standin.Stream() if made_by_cupy else jitgrad.cuda.Stream() for _ in range(2)]
        handles = [s.ptr if made_by_cupy else s.cuda_stream for s in streams]
        for s in streams * 3:
            with s:
                assert doubled(x) == 6
        (pool,) = [p for p in cuda_streams._kept if p not in pools and p.by_handle]
        assert set(pool.by_handle) == set(handles)
        jitgrad.cuda.ExternalStream(handles[0])
        assert set(pool.by_handle) == set(handles)
        del streams[0], s
        gc.collect()
        assert set(pool.by_handle) == {handles[1]}
        assert made.stream() == 0


@host.needs_compiler
@pytest.mark.parametrize("replayed", [False, True])
def test_threads_own_streams_share_a_handle_and_no_workspace(replayed: bool) -> None:
    """Two calls that run at once would write over each other's memory."""
    doubled = jitgrad.script(lambda x: (x * 2).sum())
    with gpu(replayed), jitgrad.device("cuda"):
        x = jitgrad.ones(3)
        pools = weakref.WeakSet(cuda_streams._kept)
        turn, both = threading.Lock(), threading.Barrier(2, timeout=60)

        def call() -> None:
            with turn, standin.Stream(ptds=True):
                assert doubled(x) == 6
            both.wait()  # a thread that is gone may give its number to the next

        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(call) for _ in range(2)]:
                done.result()
        (pool,) = [p for p in cuda_streams._kept if p not in pools and p.by_handle]
        assert [len(workspaces) for workspaces in pool.by_handle.values()] == [1, 1]
