"""Every assumption about CUDA graphs on which the backend rests: nodes, updates, replay."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int64, c_uint64

import numpy as np

from jitgrad.codegen.cuda.driver.blaslt import WORDS, Call
from jitgrad.codegen.cuda.driver.driverapi import NON_BLOCKING
from jitgrad.codegen.cuda.graphs.graphs import Builder, captured
from jitgrad.codegen.cuda.graphs.replay import Replay
from tools.devcheck.bench import Bench, bench, near
from tools.devcheck.checks import Facts, check

N = 4099


def builder(b: Bench) -> Builder:
    """An empty graph."""
    return Builder(b.api, b.driver.graphs.context)


@check(alone=True)
def kernel_nodes_and_updates() -> Facts:
    """Arguments and grids of kernels in an instantiated graph can be set; sizes of memory copies too."""
    b = bench()
    x, y, z = [b.array(np.full(N, v, np.float32)) for v in (1, 2, 3)]
    graph = builder(b)
    made, _kept = b.node("axpy", 1, 256, c_int64(N), c_float(2.0), x, y)
    node = graph.kernel(made)
    copied = b.array(np.zeros(N, np.float32))
    graph.copy(b.driver.address(copied), b.driver.address(y), 4 * N)
    ready = graph.instantiate()
    ready.launch(b.stream)
    assert (copied.get() == 4).all()
    changed, _kept = b.node("axpy", 8, 128, c_int64(N // 2), c_float(10.0), x, z)
    b.api.call("cuGraphExecKernelNodeSetParams_v2", ready.handle, node, byref(changed))
    ready.launch(b.stream)
    b.wait()
    assert (z.get()[:N // 2] == 13).all()
    assert (z.get()[N // 2:] == 3).all()
    assert (y.get() == 4).all()

    def update() -> None:
        b.api.call("cuGraphExecKernelNodeSetParams_v2", ready.handle, node, byref(changed))

    facts = {"update_us": round(b.timed(update), 2), "launch_us": round(b.timed(lambda: ready.launch(b.stream)), 2)}
    ready.close()
    return facts


@check(alone=True)
def blocks_meet() -> Facts:
    """All blocks of a cooperative launch are resident, and see behind a barrier what others wrote: also in a graph."""
    b = bench()
    blocks = b.driver.processors
    told, wrong = b.array(np.zeros(2 * blocks, np.int64)), b.array(np.zeros(1, np.int64))
    scratch = b.array(np.zeros(4096, np.uint8))
    rounds = c_int64(5)
    places, _kept = b.parameters((rounds, told, wrong, scratch))
    kernel = b.kernel("meet")

    def launch() -> None:
        b.api.call("cuLaunchCooperativeKernel", kernel, blocks, 1, 1, 512, 1, 1, 0, b.stream, places)

    launch()
    graph = builder(b)
    made, _more = b.node("meet", blocks, 512, rounds, told, wrong, scratch)
    graph.kernel(made, together=True)
    ready = graph.instantiate()
    ready.launch(b.stream)
    b.wait()
    assert (wrong.get() == 0).all(), "a block read what another had written before the barrier, or later"
    few = b.timed(launch)
    rounds.value = 37
    many = b.timed(launch)
    b.wait()
    assert (wrong.get() == 0).all()
    ready.close()
    return {"blocks": blocks, "barrier_us": round((many - few) / 32, 2), "launch_us": round(few, 1)}


@check(alone=True)
def product_as_child_graph() -> Facts:
    """A captured product is replayed, and its addresses are changed by replacing the child."""
    b = bench()
    rng = np.random.default_rng(0)
    facts: Facts = {}
    for m, n, k in ((64, 100, 1000), (8, 8, 8), (512, 512, 4096)):
        x, other, y = [rng.standard_normal(s).astype(np.float32) for s in ((m, k), (m, k), (k, n))]
        ax, ao, ay, c = [b.array(v) for v in (x, other, y, np.zeros((m, n), np.float32))]
        graph = builder(b)
        node = graph.child(b.driver.graphs.product(b.product(ax, ay, c), b.stream))
        ready = graph.instantiate()
        ready.launch(b.stream)
        near(c.get(), x.astype(np.float64) @ y, 1e-5, "captured")
        ax[...] = 0
        ready.launch(b.stream)
        assert not c.get().any(), "a replay reads memory as it is then"
        words = b.product(ao, ay, c)

        def replace(node: int = node, handle: int = ready.handle, words: Call = words) -> None:
            child = b.driver.graphs.product(words, b.stream)
            b.api.call("cuGraphExecChildGraphNodeSetParams", handle, node, child)
            b.api.call("cuGraphDestroy", child)

        replace()
        ready.launch(b.stream)
        near(c.get(), other.astype(np.float64) @ y, 1e-5, "with another address")
        facts[f"{m}x{n}x{k}: replace_us"] = round(b.timed(replace, 20), 1)
        ready.close()
    return facts


@check()
def capture_of_nothing() -> Facts:
    """An empty capture, and an empty child graph, are graphs too."""
    b = bench()
    stream = b.api.made("cuStreamCreate", NON_BLOCKING)
    graph = builder(b)
    graph.child(captured(b.api, stream, lambda s: None))
    ready = graph.instantiate()
    ready.launch(b.stream)
    b.wait()
    ready.close()
    b.api.call("cuStreamDestroy_v2", stream)
    return {}


@check(cap=90.0)
def replay_of_a_host_function() -> Facts:
    """A host function as graphs: other addresses, numbers, sizes, branches and waits, and the right results."""
    b = bench()
    rng = np.random.default_rng(0)
    replay = Replay(b.driver.graphs, b.stream)
    functions = b.driver.graphs.functions
    launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *(ctypes.c_uint,) * 7, *(ctypes.c_void_p,) * 3)(
        functions.launch)
    matmul = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(functions.matmul)
    copy = ctypes.CFUNCTYPE(ctypes.c_int, c_uint64, c_uint64, ctypes.c_size_t, ctypes.c_void_p)(functions.copy)
    read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, c_uint64, ctypes.c_size_t, ctypes.c_void_p)(functions.read)
    kernels = {name: b.kernel(name) for name in ("axpy", "add_one", "halve")}
    state = replay.address
    host = c_float()

    def good(status: int) -> None:
        if status:
            raise b.driver.error(status)

    def start(name: str, blocks: int, threads: int, *arguments: object) -> None:
        places, _kept = b.parameters(arguments)
        good(launch(kernels[name], blocks, 1, 1, threads, 1, 1, 0, state, ctypes.addressof(places), None))

    def called(x: np.ndarray, w: np.ndarray, factor: float, waits: bool) -> None:
        """y = factor * (x @ w) + 1, halved; then, if it waits, whether its first element is positive decides."""
        m, n = x.shape[0], w.shape[1]
        ax, aw, product = b.array(x), b.array(w), b.array(np.zeros((m, n), np.float32))
        y, half, kept = [b.array(np.full((m, n), v, np.float32)) for v in (1, 0, 0)]
        b.wait()
        replay.begin()
        words = (c_int64 * WORDS)(*b.product(ax, aw, product))
        good(matmul(state, ctypes.addressof(words)))
        start("axpy", -(-m * n // 256), 256, c_int64(m * n), c_float(factor), product, y)
        start("halve", 2, 128, c_int64(m * n), y, half)
        if waits:
            good(read(ctypes.addressof(host), b.driver.address(half), 4, state))
            start("add_one", 1, 32, half, c_float(1.0 if host.value > 0 else -1.0))
        good(copy(b.driver.address(kept), b.driver.address(half), 4 * m * n, state))
        replay.finish()
        expected = 0.5 * (np.float32(factor) * (x.astype(np.float64) @ w) + 1)
        if waits:
            assert (host.value > 0) == (expected[0, 0] > 0)
            expected[0, 0] += 1.0 if expected[0, 0] > 0 else -1.0
        near(kept.get(), expected, 1e-5, f"{x.shape}, {factor}, {waits}")

    for turn in range(30):
        m = 64 if turn % 7 else 48
        called(rng.standard_normal((m, 100)).astype(np.float32), rng.standard_normal((100, 10)).astype(np.float32),
               float(turn), turn % 3 == 2)
    assert not replay.direct, "so many graphs were built that replay gave up"
    updates = replay.state.updates
    replay.close()
    return {"updates": updates}


@check(alone=True)
def replay_costs() -> Facts:
    """Microseconds for 20 launches: directly, as a graph that is the same, with an argument that differs in each."""
    b = bench()
    functions, kernel = b.driver.graphs.functions, b.kernel("axpy")
    types = (ctypes.c_void_p, *(ctypes.c_uint,) * 7, *(ctypes.c_void_p,) * 3)
    direct = ctypes.CFUNCTYPE(ctypes.c_int, *types)(b.driver.launch)
    through = ctypes.CFUNCTYPE(ctypes.c_int, *types)(functions.launch)
    x, y = [b.array(np.zeros(N, np.float32)) for _ in range(2)]
    factor = c_float(1.0)
    places, _kept = b.parameters((c_int64(N), factor, x, y))
    where, replay = ctypes.addressof(places), Replay(b.driver.graphs, b.stream)

    def directly() -> None:
        for _ in range(20):
            direct(kernel, 16, 1, 1, 256, 1, 1, 0, b.stream, where, None)

    def replayed() -> None:
        replay.begin()
        for _ in range(20):
            through(kernel, 16, 1, 1, 256, 1, 1, 0, replay.address, where, None)
        replay.finish()

    def changed() -> None:
        factor.value += 1.0
        replayed()

    facts = {name: round(b.timed(run), 1) for name, run in
             {"direct_us": directly, "replayed_us": replayed, "all_20_changed_us": changed}.items()}
    replay.close()
    return facts
