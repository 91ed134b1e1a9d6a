"""What the machine can do at most: the floors of measurements are told by these."""

from __future__ import annotations

import ctypes

import numpy as np

from tools.devcheck.bench import bench
from tools.devcheck.checks import Facts, check
from tools.devcheck.smoke_graphs import builder

#: bytes that are copied, rows and columns of the matrices
COPIED, SIDE = 4 << 30, 8192
#: dtypes of products, by number
PRECISIONS = ((3, "bfloat16"), (2, "float16"), (0, "float32"))


@check(alone=True)
def copy_bandwidth() -> Facts:
    """Bytes read and written by a copy of device memory."""
    b = bench()
    source, target = b.driver.allocate(COPIED), b.driver.allocate(COPIED)
    us = b.timed(lambda: b.api.call("cuMemcpyDtoDAsync_v2", target.ptr, source.ptr, COPIED, b.stream), 5)
    return {"bytes_per_s": 2 * COPIED / us * 1e6, "rows": [{"name": f"copy of {COPIED >> 30} GiB", "us": us}]}


@check(alone=True)
def products_8192() -> Facts:
    """An 8192 x 8192 x 8192 product of random numbers, in each precision."""
    b, n = bench(), SIDE
    rows, facts = [], {}
    x = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)
    for dtype, name in PRECISIONS:
        bits = (x.view(np.uint32) >> 16).astype(np.uint16) if dtype == 3 else x.astype(("f4", "f8", "f2")[dtype])
        a, c = b.array(bits), b.array(np.zeros_like(bits))
        call = b.product(a, a, c, dtype=dtype)
        b.driver.lt.prepare(b.stream, call)
        us = b.timed(lambda call=call: b.driver.lt.matmul(b.stream, call), 5)  # type: ignore[misc]
        rows.append({"name": f"product of {n}^3, {name}", "us": us})
        facts[f"{name}_flop_per_s"] = 2 * n ** 3 / us * 1e6
    return {**facts, "rows": rows}


@check(alone=True)
def dependent_kernels() -> Facts:
    """What one more small kernel costs: launched directly, and in a graph."""
    b, count = bench(), 100
    y, by = b.array(np.zeros(1, np.float32)), ctypes.c_float(1.0)
    graph = builder(b)
    for _ in range(count):
        node, _kept = b.node("add_one", 1, 32, y, by)
        graph.kernel(node)
    ready = graph.instantiate()
    launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *(ctypes.c_uint,) * 7, *(ctypes.c_void_p,) * 3)(
        b.driver.launch)
    kernel, (places, _kept) = b.kernel("add_one"), b.parameters((y, by))

    def directly() -> None:
        for _ in range(count):
            launch(kernel, 1, 1, 1, 32, 1, 1, 0, b.stream, ctypes.addressof(places), None)

    rows = [{"name": "a kernel, launched", "us": b.timed(directly, 10) / count},
            {"name": "a kernel, in a graph", "us": b.timed(lambda: ready.launch(b.stream), 10) / count}]
    ready.close()
    return {"rows": rows}
