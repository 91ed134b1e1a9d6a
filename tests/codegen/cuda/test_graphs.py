"""Graphs built of nodes: order, and that nothing is left over."""

from __future__ import annotations

import ctypes

import pytest

from jitgrad.codegen.cuda.driver import driverapi
from jitgrad.codegen.cuda.driver.driverapi import KernelNode
from jitgrad.codegen.cuda.graphs.graphs import Builder, captured
from tests.codegen.cuda.fakegraphs import CONTEXT, FakeGraphs


@pytest.fixture
def device():
    made = FakeGraphs()
    yield made
    assert not [kind for kind in made.library.alive.values() if kind != "node"]


def test_nodes_follow_each_other(device):
    graph = Builder(device.api, CONTEXT)
    values = ctypes.create_string_buffer(b"\x01" * 8, 8)
    places = (ctypes.c_void_p * 1)(ctypes.addressof(values))
    graph.kernel(KernelNode(function=0x400, grid=(2, 1, 1), block=(32, 1, 1), parameters=ctypes.addressof(places)))
    graph.copy(1, 2, 3)
    built = graph.instantiate()
    built.launch(9)
    assert device.ran == [(9, ("launch", 0x400, (2, 1, 1, 32, 1, 1, 0), (b"\x01" * 8,))), (9, ("copy", 1, 2, 3))]
    built.close()
    built.close()


def test_a_graph_that_cannot_be_instantiated_is_destroyed(device):
    device.library.handlers["cuGraphInstantiateWithFlags"] = lambda *_: 1
    with pytest.raises(RuntimeError, match="cuGraphInstantiateWithFlags: CUDA_ERROR_INVALID_VALUE"):
        Builder(device.api, CONTEXT).instantiate()


def test_capturing(device):
    stream = device.api.made("cuStreamCreate", driverapi.NON_BLOCKING)
    graph = captured(device.api, stream, lambda s: device.run(s, ("something",)))
    assert [operation for _, operation in device.graphs[graph]] == [("something",)]
    device.api.call("cuGraphDestroy", graph)

    def fails(s):
        device.run(s, ("something",))
        raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        captured(device.api, stream, fails)
    assert not device.capturing
    device.api.call("cuStreamDestroy_v2", stream)
