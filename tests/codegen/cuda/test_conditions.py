"""Whether a device does loops in graphs: tried once, found out without harm, and the reason kept."""

from __future__ import annotations

import pytest

from jitgrad.codegen.cuda.graphs import conditions
from tests.codegen.cuda import emulated, fakegraphs, host, hostgraphs, machinecode
from tests.codegen.cuda.fakegraphs import FakeGraphs

STREAM = 0x77


@pytest.fixture
def device():
    made = FakeGraphs()
    yield made
    assert not made.graphs
    assert not made.executables
    assert not made.library.alive


def test_it_is_tried_once(device):
    found = device.shared.conditions
    assert found.reason is None
    assert found.works(STREAM)
    assert found.reason == ""
    calls = len(device.library.calls)
    assert found.works(STREAM)
    assert len(device.library.calls) == calls
    assert device.library.names().count("cuGraphLaunch") == 2


@pytest.mark.parametrize("name", ["cuGraphConditionalHandleCreate", "cuGraphAddNode_v2"])
def test_an_old_driver(device, name):
    device.library.missing = (name,)
    assert not device.shared.conditions.works(STREAM)
    assert device.shared.conditions.reason == f"the NVIDIA driver is too old: it has no {name}"
    device.library.missing = ()
    assert not device.shared.conditions.works(STREAM)


@pytest.mark.parametrize("name", ["cuGraphConditionalHandleCreate", "cuGraphAddNode_v2", "cuGraphInstantiateWithFlags",
                                  "cuGraphLaunch", "cuMemsetD8Async"])
def test_a_driver_that_refuses(device, monkeypatch, name):
    monkeypatch.setitem(device.library.handlers, name, lambda *_: 1)
    assert not device.shared.conditions.works(STREAM)
    assert device.shared.conditions.reason == f"{name}: CUDA_ERROR_INVALID_VALUE"


def test_a_text_that_is_not_loaded(monkeypatch):
    def load(self, source, names):
        raise RuntimeError("undefined symbol")

    monkeypatch.setattr(FakeGraphs, "load", load)
    found = FakeGraphs().shared.conditions
    assert not found.works(STREAM)
    assert found.reason == "undefined symbol"


@pytest.mark.parametrize(("decided", "ran"), [(0, "0 times, with 3 left"), (None, "5 times, with -2 left")])
def test_a_wrong_result(device, monkeypatch, decided, ran):
    """Conditions that are ignored, or understood in another way."""
    replay, left = device.replay, [1, 1, 1, 1, 1, 0] + [0] * 9

    def wrong(stream, operation):
        replay(stream, operation)
        if operation[1] == fakegraphs.DECIDE:
            handle = int.from_bytes(operation[3][1], "little")
            device.conditions[handle] = left.pop(0) if decided is None else decided

    monkeypatch.setattr(device, "replay", wrong)
    assert not device.shared.conditions.works(STREAM)
    assert device.shared.conditions.reason == f"a loop of 3 iterations in a graph ran {ran}"


@host.needs_compiler
def test_the_kernels_on_the_host(monkeypatch):
    assert emulated.gpu(monkeypatch).driver.graphs.conditions.works(0x55)
    for order in (False, True):
        driver = hostgraphs.driver()
        with driver.reversed(order):
            driver.graphs.conditions.reason = None
            assert driver.graphs.conditions.works(0)


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code(arch):
    """The unit is compiled without the prelude, and leaves the function to who loads it."""
    (code,) = machinecode.machine_code(conditions.TEXT, arch)
    assert b"cudaGraphSetConditional" in code
    assert not [name for name, used in machinecode.usage(code).items() if used.stack]
