"""Calls of a host function as graphs: the device runs the same operations in the same order, however they change."""

from __future__ import annotations

import gc
import random
import struct

import pytest

from jitgrad.codegen.cuda.driver import precision
from jitgrad.codegen.cuda.driver.libraries import FAILED, failure
from jitgrad.codegen.cuda.graphs import replay, replaying
from jitgrad.codegen.cuda.graphs.replay import Replay
from tests.codegen.cuda.fakegraphs import KERNELS, FakeGraphs, error

STREAM = 0x77


def launch(kernel=0x100, blocks=4, threads=256, shared=0, **values):
    """A launch whose arguments are numbers by position: a0, a1..."""
    arguments = tuple([values.get(f"a{k}", k).to_bytes(size, "little") for k, size in enumerate(KERNELS[kernel])])
    return ("launch", kernel, (blocks, 1, 1, threads, 1, 1, shared), arguments)


def product(a=0x1000, b=0x2000, c=0x3000, m=3):
    return ("matmul", 0, 0, 0, 0, m, 5, 4, 4, 5, 5, a, b, c, 1, 0, 0, 0, 0, 0, 0)


def copy(to=0x5000, source=0x6000, size=64):
    return ("copy", to, source, size)


def read(place=0x42):
    return ("read", place, 8)


class Run:
    """A replay on the fake driver; `run` calls a host function that makes these operations."""

    def __init__(self) -> None:
        self.device = FakeGraphs()
        self.replay = Replay(self.device.shared, STREAM)
        self.library = self.device.library

    def run(self, *operations, flush_at=()):
        """What the device ran is what was called; how often the driver was asked what."""
        self.device.ran.clear()
        self.library.calls.clear()
        self.replay.begin()
        for k, operation in enumerate(operations):
            if k in flush_at:
                self.replay.flush()
                assert self.device.ran == [(STREAM, o) for o in operations[:k]]
            assert self.device.perform(self.replay.address, operation) == 0, failure()
        self.replay.finish()
        assert self.device.ran == [(STREAM, o) for o in operations]
        return self.counts()

    def counts(self):
        names = [n.removeprefix("cuGraph").removesuffix("_v2") for n in self.library.names()]
        return {n: names.count(n) for n in ("Launch", "InstantiateWithFlags", "ExecKernelNodeSetParams",
                                            "ExecMemcpyNodeSetParams", "ExecChildGraphNodeSetParams") if n in names}

    def close(self):
        self.replay.close()
        self.device.shared.close()
        leaked = {h: kind for h, kind in self.library.alive.items() if kind != "node"}
        assert not leaked
        assert not self.device.graphs
        assert not self.device.executables


@pytest.fixture
def host():
    made = Run()
    yield made
    made.close()


CALLS = (launch(a0=0x1000, a1=7), launch(0x200), product(), launch(0x300), copy(), launch(0x400, 9))


def test_the_first_call_is_launched_directly_the_second_becomes_a_graph(host):
    assert host.run(*CALLS) == {}
    assert host.run(*CALLS) == {"InstantiateWithFlags": 1, "Launch": 1}
    assert host.run(*CALLS) == {"Launch": 1}
    assert host.run(*CALLS) == {"Launch": 1}
    assert host.replay.state.updates == 0


def warm(host, *calls):
    for _ in range(2):
        host.run(*calls)


def test_an_argument_that_differs_is_one_update(host):
    warm(host, *CALLS)
    changed = (launch(a0=0x1008, a1=7), *CALLS[1:])
    assert host.run(*changed) == {"Launch": 1, "ExecKernelNodeSetParams": 1}
    assert host.run(*changed) == {"Launch": 1}
    (call,) = [c for n, c in (host.run(*CALLS) and host.library.calls) if n == "cuGraphExecKernelNodeSetParams_v2"]
    assert call[1] in host.device.executables[call[0]]


def test_a_small_argument_is_compared_in_its_own_bytes_only(host):
    """The words of arguments are 8 bytes; what is above a 2-byte argument means nothing."""
    warm(host, *CALLS)
    host.replay.begin()
    import ctypes

    values = [ctypes.create_string_buffer(struct.pack("<q", v), 8) for v in (0, 1, 2, 3 + (5 << 16))]
    places = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
    assert host.device.perform(host.replay.address, CALLS[0]) == 0
    host.library.calls.clear()
    host.device.call_launch(0x200, 4, 1, 1, 256, 1, 1, 0, host.replay.address, ctypes.addressof(places), None)
    assert host.library.calls == []
    for operation in CALLS[2:]:
        host.device.perform(host.replay.address, operation)
    host.replay.finish()


@pytest.mark.parametrize("change", [{"blocks": 5}, {"threads": 128}, {"shared": 1024}])
def test_a_grid_that_differs_is_one_update(host, change):
    warm(host, *CALLS)
    changed = (CALLS[0], launch(0x200, **change), *CALLS[2:])
    assert host.run(*changed) == {"Launch": 1, "ExecKernelNodeSetParams": 1}
    assert host.run(*CALLS) == {"Launch": 1, "ExecKernelNodeSetParams": 1}


def test_a_product_with_other_addresses_replaces_its_child(host):
    warm(host, *CALLS)
    changed = (*CALLS[:2], product(a=0x1100), *CALLS[3:])
    assert host.run(*changed) == {"Launch": 1, "ExecChildGraphNodeSetParams": 1}
    assert host.run(*changed) == {"Launch": 1}


@pytest.mark.parametrize("seen", ["parameters", "buffer"])
def test_where_a_products_kernels_have_its_addresses_is_found_and_they_are_moved(host, seen):
    host.device.seen = seen
    warm(host, *CALLS)
    other = (*CALLS[:2], product(a=0x1100), *CALLS[3:])
    for calls, kernels in ((other, 1), (other, 0), ((*CALLS[:2], product(0x4000, 0x5000, 0x9000), *CALLS[3:]), 2)):
        found = {"Launch": 1, "ExecKernelNodeSetParams": kernels}
        assert host.run(*calls) == {k: n for k, n in found.items() if n}
    assert host.replay.state.updates == 2
    assert host.run(*CALLS[:2], product(a=0x1008), *CALLS[3:]) == {"Launch": 1, "ExecChildGraphNodeSetParams": 1}
    assert host.run(*CALLS[:2], product(a=0x2008), *CALLS[3:]) == {"Launch": 1, "ExecKernelNodeSetParams": 1}


def test_a_product_that_has_an_address_in_a_way_of_its_own_is_captured_again(host):
    host.device.seen = "shifted"
    host.device.replay = lambda stream, operation: host.device.ran.append((stream, operation))
    assert host.device.shared.places(product()[1:], STREAM) is None


def test_an_update_of_a_products_kernel_that_is_refused_makes_a_new_graph(host):
    host.device.seen = "parameters"
    warm(host, *CALLS)
    host.device.refused = {"kernel": 1}
    assert host.run(*CALLS[:2], product(a=0x1100), *CALLS[3:]) == {
        "ExecKernelNodeSetParams": 1, "InstantiateWithFlags": 1, "Launch": 1}


def test_a_product_of_nothing_has_no_kernels(host):
    host.device.matmul = lambda stream, call, owner=None: None
    words = product()[1:]
    graph = host.device.shared.product(words, STREAM)
    assert host.device.shared.kernels(graph) == []
    assert host.device.shared.places(words, STREAM) == ()
    host.device.api.call("cuGraphDestroy", graph)


def test_new_arrays_at_each_call_capture_nothing(host):
    host.device.seen = "parameters"
    warm(host, *CALLS)
    host.library.calls.clear()
    for k in range(100):
        host.run(*CALLS[:2], product(0x1000 + 256 * k, c=0x3000 + 512 * k), *CALLS[3:])
        assert "cuStreamBeginCapture_v2" not in host.library.names()


def test_a_copy_of_other_memory(host):
    warm(host, *CALLS)
    assert host.run(*CALLS[:4], copy(source=0x7000, size=32), CALLS[5]) == {"Launch": 1, "ExecMemcpyNodeSetParams": 1}


def test_another_sequence_is_another_graph_and_both_are_kept(host):
    warm(host, *CALLS)
    other = (*CALLS[:3], launch(0x400, 2), launch(0x200, a0=5), CALLS[5])
    assert host.run(*other) == {"InstantiateWithFlags": 1, "Launch": 1}
    counts = host.run(*CALLS)
    assert counts == {"Launch": 1}
    assert host.run(*other) == {"Launch": 1}
    changed = (launch(a0=0x9999), *other[1:])
    assert host.run(*changed) == {"Launch": 1, "ExecKernelNodeSetParams": 1}


def test_a_shorter_and_a_longer_sequence(host):
    warm(host, *CALLS)
    assert host.run(*CALLS[:4])["InstantiateWithFlags"] == 1
    assert host.run(*CALLS, launch(0x100))["InstantiateWithFlags"] == 1
    for calls in (CALLS, CALLS[:4], (*CALLS, launch(0x100))):
        assert "InstantiateWithFlags" not in host.run(*calls)


def test_a_product_of_another_size_is_another_graph(host):
    warm(host, *CALLS)
    assert host.run(*CALLS[:2], product(m=6), *CALLS[3:])["InstantiateWithFlags"] == 1
    assert "InstantiateWithFlags" not in host.run(*CALLS)


def test_reading_ends_a_segment(host):
    calls = (*CALLS[:3], read(1), *CALLS[3:], read(2), launch(0x400))
    warm(host, *calls)
    assert host.run(*calls) == {"Launch": 3}
    assert host.run(*CALLS[:3], read(1), CALLS[3], launch(0x400, 8), read(2), launch(0x400)) == {
        "Launch": 3, "InstantiateWithFlags": 1}
    assert host.run(*calls) == {"Launch": 3}


def test_a_loop_that_waits_replays_one_graph(host):
    body = (launch(0x200), launch(0x400), launch(0x100), read())
    warm(host, *CALLS, *body, *body)
    assert host.run(*CALLS, *body * 10) == {"Launch": 10}
    assert host.run(*CALLS, *body) == {"Launch": 1}


def test_two_reads_in_a_row_launch_nothing_between(host):
    calls = (*CALLS, read(1), read(2))
    warm(host, *calls)
    assert host.run(*calls) == {"Launch": 1}


def test_flush(host):
    for _ in range(4):
        counts = host.run(*CALLS, flush_at=(3,))
    assert counts == {"Launch": 2}


def test_few_launches_are_not_worth_a_graph(host):
    calls = CALLS[:2]
    warm(host, *calls)
    assert host.replay.direct
    assert host.run(*calls) == {}


def test_calls_that_keep_changing_are_launched_directly(host):
    sequence = random.Random(0)
    for _ in range(40):
        host.run(*[launch(sequence.choice((0x100, 0x200, 0x300, 0x400))) for _ in range(12)])
    assert host.replay.direct
    assert not host.device.executables


def test_graphs_are_bounded(host, monkeypatch):
    monkeypatch.setattr(replay, "KEPT", 3)
    host.run(*CALLS)
    for length in (3, 4, 5, 6) * 2:
        host.run(*CALLS[:length])
        assert len(host.device.executables) <= 3
    assert not host.device.waits  # the driver destroys a graph that runs when it has


def test_an_update_that_the_driver_refuses_makes_a_new_graph(host):
    warm(host, *CALLS)
    host.device.refused = {"child": replay.UPDATE_FAILED}
    assert host.run(*CALLS[:2], product(a=0x1100), *CALLS[3:]) == {
        "ExecChildGraphNodeSetParams": 1, "InstantiateWithFlags": 1, "Launch": 1}
    host.device.refused = {"kernel": 1}
    assert host.run(CALLS[0], launch(0x200, 77), product(a=0x1100), *CALLS[3:]) == {
        "ExecKernelNodeSetParams": 1, "InstantiateWithFlags": 1, "Launch": 1}
    assert len(host.device.executables) == 1


def test_a_product_that_fails_is_an_error_of_the_call(host):
    host.run(*CALLS)
    host.device.fails = error(13)
    host.replay.begin()
    for operation in CALLS:
        assert host.device.perform(host.replay.address, operation) == 0
    with pytest.raises(RuntimeError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
        host.replay.finish()
    host.device.fails = None
    host.run(*CALLS)
    host.run(*CALLS)
    host.device.fails = error(13)
    host.replay.begin()
    for operation in CALLS[:2]:
        host.device.perform(host.replay.address, operation)
    assert host.device.perform(host.replay.address, product(a=0x1100)) == FAILED
    assert "CUBLAS_STATUS_EXECUTION_FAILED" in str(failure())
    host.device.fails = None
    host.replay.finish()
    host.run(*CALLS)


def test_products_are_chosen_anew_when_their_precision_changes(host):
    warm(host, *CALLS)
    precision.set_allow_tf32(True)
    try:
        assert host.run(*CALLS) == {"InstantiateWithFlags": 1, "Launch": 1}
    finally:
        precision.set_allow_tf32(False)
    assert host.run(*CALLS) == {"InstantiateWithFlags": 1, "Launch": 1}
    assert len(host.device.executables) == 1


def test_empty_copies_and_empty_calls(host):
    host.run(*CALLS)
    host.run()
    host.replay.begin()
    for operation in (*CALLS[:3], copy(size=0)):
        assert host.device.perform(host.replay.address, operation) == 0
    host.device.ran.clear()
    host.replay.finish()
    assert host.device.ran == [(STREAM, o) for o in CALLS[:3]]


def test_outside_of_a_call_launches_are_direct(host):
    warm(host, *CALLS)
    host.device.ran.clear()
    host.device.perform(host.replay.address, CALLS[0])
    assert host.device.ran == [(STREAM, CALLS[0])]


def test_graphs_are_destroyed_with_the_replay():
    host = Run()
    warm(host, *CALLS)
    assert host.device.executables
    host.replay = None
    gc.collect()
    assert not host.device.executables
    assert not host.device.graphs


def test_old_drivers_say_what_they_lack(host):
    host.library.missing = ("cuFuncGetParamInfo",)
    host.device.shared._sizes.clear()
    host.run(*CALLS)
    host.replay.begin()
    assert host.device.perform(host.replay.address, CALLS[0]) == FAILED
    assert "too old: it has no cuFuncGetParamInfo" in str(failure())


@pytest.mark.parametrize("seed", range(16))
def test_whatever_changes_the_device_runs_what_was_called(seed):
    """Random programs of branches, loops that wait or do not, changing arguments and sizes."""
    chance = random.Random(seed)
    host = Run()
    host.device.seen = ("", "parameters", "buffer", "parameters")[seed % 4]

    def random_call():
        what = chance.random()
        if what < 0.6:
            kernel = chance.choice((0x100, 0x200, 0x300, 0x400))
            return launch(kernel, chance.choice((1, 2)), a0=chance.choice((5, 6)), a1=chance.choice((7, 8)))
        if what < 0.75:
            return product(a=chance.choice((0x1000, 0x1100, 0x2080)), m=chance.choice((3, 3, 3, 4)))
        return copy(source=chance.choice((0x6000, 0x6100))) if what < 0.9 else read(chance.choice((1, 2)))

    parts = [[random_call() for _ in range(chance.randint(1, 6))] for _ in range(4)]
    for _ in range(40):
        calls = [c for part in parts for c in part * chance.choice((0, 1, 1, 1, 2))]
        if chance.random() < 0.5:
            calls = [c if chance.random() < 0.9 else random_call() for c in calls]
        host.run(*calls, flush_at={chance.randrange(len(calls) + 1)} if chance.random() < 0.2 else ())
    host.close()


def test_the_text_is_small_and_complete():
    assert replaying.LIBRARY.text().count("define i32") == 6
    assert set(vars(replaying.functions())) == {"launch", "together", "matmul", "moved", "copy", "read", "code"}
