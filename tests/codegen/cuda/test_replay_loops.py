"""Loops as nodes of graphs: the device runs their bodies as often as it should, and the host waits for nothing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from jitgrad.codegen.cuda.driver import launcher, runtime
from jitgrad.codegen.cuda.driver.blaslt import FAILED
from jitgrad.codegen.cuda.graphs import replay
from jitgrad.codegen.cuda.graphs.replay import Replay
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import Word
from tests.codegen.cuda import fakedriver, hostgraphs
from tests.codegen.cuda import host as shim
from tests.codegen.cuda.fakegraphs import error
from tests.codegen.cuda.test_replay import CALLS, STREAM, Run, copy, launch, loop, product, read, warm, written_out

GO = 0xA0
BODY = (launch(0x200), product(), copy(), ("together", 0x400, (2, 1, 1, 64, 1, 1, 0), (b"\x01" * 8,)), launch(0x400, 9))


def calls(trips, *, before=CALLS[:2], body=BODY, after=CALLS[3:], place=GO):
    return (*before, loop(place, trips, *body), *after)


@pytest.fixture
def host():
    made = Run()
    assert made.device.shared.conditions.works(STREAM)
    yield made
    made.close()


def test_directly_the_host_waits_at_each_iteration(host):
    assert host.run(*calls(3)) == {}
    assert host.device.asked == 4


def test_in_a_graph_the_host_waits_for_nothing(host):
    host.run(*calls(3))
    asked = host.device.asked
    assert host.run(*calls(3)) == {"InstantiateWithFlags": 1, "Launch": 1}
    for trips in (3, 0, 1, 100):
        assert host.run(*calls(trips)) == {"Launch": 1}
    assert host.device.asked == asked
    assert not host.device.waits
    assert host.replay.state.updates == 0


def test_a_replay_asks_no_python(host, monkeypatch):
    warm(host, *calls(3))
    monkeypatch.setattr(host.replay, "_other", lambda *_: pytest.fail("asked"))
    assert host.run(*calls(2)) == {"Launch": 1}


def test_a_loop_is_worth_a_graph_however_short(host):
    one = (loop(GO, 2, launch(0x400)),)
    warm(host, *one)
    assert host.run(*one) == {"Launch": 1}
    assert not host.replay.direct


def test_several_loops_and_what_waits_between_them(host):
    several = (*CALLS, loop(GO, 2, *BODY), loop(0xB0, 3, launch(0x100)), read(), loop(0xB0, 0, launch(0x200)), CALLS[0])
    warm(host, *several)
    assert host.run(*several) == {"Launch": 2}


def test_arguments_around_a_loop_are_updated(host):
    warm(host, *calls(3))
    for turn in range(2):
        around = calls(turn, before=(launch(a0=0x1000 + turn), CALLS[1]),
                       after=(copy(source=0x7000 + turn), launch(0x400)))
        found = host.run(*around)
        assert found["Launch"] == 1
        assert found.get("InstantiateWithFlags", 0) == (turn == 0)  # another sequence follows the loop
    assert found == {"Launch": 1, "ExecKernelNodeSetParams": 1, "ExecMemcpyNodeSetParams": 1}


@pytest.mark.parametrize(("k", "other"), [
    (0, launch(0x200, a1=77)), (0, launch(0x200, blocks=5)), (0, launch(0x200, shared=64)), (0, launch(0x100)),
    (1, product(a=0x1100)), (2, copy(source=0x7000)),
    (3, ("together", 0x400, (2, 1, 1, 64, 1, 1, 0), (b"\x02" * 8,)))])
def test_another_body_is_another_graph_and_both_are_kept(host, k, other):
    warm(host, *calls(3))
    body = (*BODY[:k], other, *BODY[k + 1:])
    before = (launch(a0=0x1010, a1=7), CALLS[1])
    assert host.run(*calls(2, body=body, before=before))["InstantiateWithFlags"] == 1
    for _ in range(2):
        for again in (BODY, body):
            found = host.run(*calls(2, body=again))
            assert set(found) <= {"Launch", "ExecKernelNodeSetParams"}
            assert found["Launch"] == 1
    assert host.run(*calls(2, body=body)) == {"Launch": 1}


def test_a_longer_and_a_shorter_body(host):
    warm(host, *calls(3))
    others = BODY[:2], (*BODY, launch(0x100))
    for body in others:
        assert host.run(*calls(1, body=body))["InstantiateWithFlags"] == 1
    for body in (BODY, *others):
        assert host.run(*calls(4, body=body)) == {"Launch": 1}


def test_another_place_that_is_asked_is_another_graph(host):
    warm(host, *calls(3))
    assert host.run(*calls(3, place=0xB0))["InstantiateWithFlags"] == 1
    assert host.run(*calls(3)) == {"Launch": 1}
    assert host.run(*calls(3, place=0xB0)) == {"Launch": 1}


def test_nodes_of_a_body_are_never_set(host):
    """Whichever differ, in whatever order: `counts` would have what is not in the executable graph."""
    warm(host, *calls(3))
    inside = {node for graph in host.device.graphs.values() for _, operation in graph
              if operation[0] == "conditional" for node, _ in host.device.graphs[operation[3][0]]}
    assert len(inside) == len(BODY) + 1
    for k in range(6):
        host.run(*calls(2, before=(launch(a0=k), CALLS[1]), body=(launch(0x200, a0=k % 3), *BODY[1:])))
        for name, given in host.library.calls:
            assert not (name.startswith("cuGraphExec") and "Set" in name and given[1] in inside)


def test_where_the_device_cannot_the_host_loops(host):
    host.device.shared.conditions.reason = "it was told so"
    warm(host, *calls(3))
    asked = host.device.asked
    assert host.run(*calls(3)) == {"Launch": 5}
    assert host.device.asked == asked + 4
    assert host.run(*calls(0)) == {"Launch": 2}


def test_leaving_in_the_middle_of_a_body(host):
    warm(host, *calls(3))
    for recording in (False, True):
        before = CALLS[:2] if not recording else (launch(0x300), *CALLS[:2])
        for left in range(len(BODY) + 1):
            begin(host, before, BODY[:left])
            host.device.ran.clear()
            host.replay.finish()
            assert host.device.ran == written_out(before)
            assert (host.replay.state.mode, host.replay.state.repeating) == (0, 0)
    assert not host.replay.direct
    host.run(*calls(3))
    assert host.run(*calls(2)) == {"Launch": 1}


def begin(host, before, body):
    """Begin a call, and a loop in it."""
    go = ctypes.c_int64()
    host.replay.begin()
    for operation in before:
        assert host.device.perform(host.replay.address, operation) == 0
    host.device.trips[GO] = [5]
    assert host.device.call_repeat(ctypes.addressof(go), GO, 8, host.replay.address) == 0
    assert go.value == 1
    for operation in body:
        assert host.device.perform(host.replay.address, operation) == 0


def test_leaving_at_once_launches_nothing(host):
    warm(host, *calls(3))
    for before in ((), CALLS[:1]):
        begin(host, before, BODY)
        host.device.ran.clear()
        host.replay.finish()
        assert host.device.ran == written_out(before)
        assert not host.replay.direct
    assert host.run(*calls(3))["Launch"] == 1


def test_a_failure_in_a_body_is_an_error_of_the_call(host):
    warm(host, *calls(3))
    begin(host, CALLS[:2], BODY[:1])
    host.device.fails = error(13)
    assert host.device.perform(host.replay.address, product(m=9)) == 0  # it is multiplied when the graph is built
    go = ctypes.c_int64(7)
    assert host.device.call_repeat(ctypes.addressof(go), GO, 8, host.replay.address) == 0
    assert go.value == 0
    with pytest.raises(RuntimeError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
        host.replay.finish()
    host.device.fails = None
    assert host.run(*calls(3)) == {"Launch": 1}


def test_nothing_is_read_and_nothing_flushed_in_a_body(host):
    warm(host, *calls(3))
    begin(host, CALLS[:2], BODY[:1])
    assert host.device.perform(host.replay.address, read()) == FAILED
    assert isinstance(host.device.shared.failure, AssertionError)
    with pytest.raises(AssertionError):
        host.replay.flush()
    host.replay.finish()
    assert host.run(*calls(3))["Launch"] == 1


def test_outside_of_a_call_loops_are_direct(host):
    warm(host, *calls(3))
    host.device.ran.clear()
    assert host.device.perform(host.replay.address, loop(GO, 2, *BODY)) == 0
    assert host.device.ran == written_out([loop(GO, 2, *BODY)])
    assert host.run(*calls(3)) == {"Launch": 1}


def test_bodies_that_keep_changing_are_launched_directly(host):
    for k in range(40):
        host.run(*calls(2, body=(launch(0x200, a0=k), *BODY[1:])))
        assert len(host.device.executables) <= replay.KEPT
    assert host.replay.direct


@pytest.mark.parametrize("name", ["cuGraphAddNode_v2", "cuGraphInstantiateWithFlags", "cuGraphKernelNodeSetAttribute"])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_what_cannot_be_built_is_launched_one_by_one(host, monkeypatch, name, trips):
    """And from then on the host loops."""
    program = (*calls(trips), loop(0xB0, 2, launch(0x400)), CALLS[0])
    host.run(*program)
    with monkeypatch.context() as patch:
        patch.setitem(host.library.handlers, name, lambda *_: 1)
        assert "Launch" not in host.run(*program)
    assert host.replay.reason == f"{name}: CUDA_ERROR_INVALID_VALUE"
    assert not host.device.graphs
    assert not host.replay.direct
    host.run(*program)
    asked = host.device.asked
    assert host.run(*program)["Launch"] == trips + 5
    assert host.device.asked == asked + trips + 4
    assert host.device.shared.conditions.reason == ""


@pytest.mark.parametrize("broken", ["launch", "together", "copy", "read"])
def test_what_fails_one_by_one_is_an_error(host, monkeypatch, broken):
    host.run(*calls(3))
    monkeypatch.setitem(host.library.handlers, "cuGraphAddNode_v2", lambda *_: 1)
    host.device.broken = broken
    host.replay.begin()
    for operation in calls(3):
        assert host.device.perform(host.replay.address, operation) == 0
    with pytest.raises(RuntimeError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        host.replay.finish()
    host.device.broken = ""
    host.device.trips.clear()
    host.run(*calls(3))


KERNEL = """extern "C" __global__ void __launch_bounds__(32)
jg_advance(i64* go, float* y) { if (threadIdx.x == 0) { y[0] += 0.5f * (float)go[0]; go[0] -= 1; } }
"""
#: a host function whose loop launches a kernel as long as the word at %go is not 0
PROGRAM = f"""{runtime.LIBRARY.declarations}
define i64 @f(ptr %block, ptr %kernel, ptr %arguments, ptr %go) {{
entry:
  %to = alloca i64
  call void @jg_together(ptr %block, ptr %kernel, i64 1, i64 1, i64 32, ptr %arguments)
  br label %head
head:
  %good = call i1 @jg_repeat(ptr %block, ptr %to, ptr %go)
  br i1 %good, label %look, label %bad
look:
  %word = load i64, ptr %to
  %more = icmp ne i64 %word, 0
  br i1 %more, label %body, label %end
body:
  call void @jg_together(ptr %block, ptr %kernel, i64 1, i64 1, i64 32, ptr %arguments)
  br label %head
end:
  ret i64 0
bad:
  ret i64 1
}}
"""


@shim.needs_compiler
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("order", [True, False])
def test_a_host_function_on_the_host(graphs, order):
    """What a driver with graphs and one without compute, and how often the host waits."""
    driver = hostgraphs.driver() if graphs else fakedriver.driver()
    code = engine.load(engine.compile_module(PROGRAM), launcher.symbols(driver))
    (kernel,) = driver.load(KERNEL, ["jg_advance"])
    memory = driver.allocate(16)
    block = (ctypes.c_int64 * 64)()
    replay = Replay(driver.graphs, 0) if graphs else None
    block[Word.STREAM] = replay.address if replay else 0
    values = (ctypes.c_uint64 * 2)(memory.ptr, memory.ptr + 8)
    places = (ctypes.c_void_p * 2)(*[ctypes.addressof(values) + 8 * k for k in range(2)])
    f = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_void_p,) * 4)(code.address("f"))
    with driver.reversed(order):
        for turn, trips in enumerate((3, 3, 0, 1, 20)):
            given = np.array([trips + 1, 0], np.int64)
            driver.c.fake_begin()
            ctypes.memmove(memory.ptr, given.ctypes.data, 16)
            driver.c.fake_end()
            reads = driver.c.fake_reads()
            if replay:
                replay.begin()
            assert f(ctypes.addressof(block), kernel, ctypes.addressof(places), memory.ptr) == 0
            if replay:
                replay.finish()
            assert driver.c.fake_reads() - reads == (0 if graphs and turn else trips + 1)
            driver.c.fake_begin()
            left, = (ctypes.c_int64 * 1).from_address(memory.ptr)
            y, = (ctypes.c_float * 1).from_address(memory.ptr + 8)
            driver.c.fake_end()
            assert (left, y) == (0, 0.25 * (trips + 1) * (trips + 2))
    if replay:
        replay.close()
