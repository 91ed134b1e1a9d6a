"""Every assumption about CUDA on which the backend rests: compiling, launching, numbers, memory, streams, products."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import c_float, c_int64, c_uint64
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad import config, dtypes, random
from jitgrad.codegen.cuda.driver import blaslt, driverapi, nvrtc, precision
from jitgrad.codegen.cuda.driver.blaslt import Call
from jitgrad.codegen.cuda.driver.libraries import CudaError
from jitgrad.codegen.cuda.kernels import text
from tools.devcheck.bench import SOURCES, bench, near, numpy_dtype, source
from tools.devcheck.checks import Facts, Wrong, check

N = 10_007


@check()
def compile_load_launch() -> Facts:
    """NVRTC makes code that the driver loads, and it computes what it says."""
    b = bench()
    started = time.perf_counter()
    with config.override(cache=""):
        nvrtc.compile(source("axpy"), b.driver.arch)
    compiled = time.perf_counter() - started
    x, y = np.random.default_rng(0).standard_normal((2, N)).astype(np.float32)
    dx, dy = b.array(x), b.array(y)
    b.launch("axpy", 8, 256, c_int64(N), c_float(3.0), dx, dy)
    b.wait()
    exact = bool((dy.get() == np.float32(3.0) * x + y).all())
    assert exact, "a * x + y is contracted to an fma, or wrong: it should be rounded as on the CPU"
    return {"arch": b.driver.arch, "nvrtc": list(nvrtc.compiler().version), "compile_ms": round(1e3 * compiled, 1)}


@check()
def denormals() -> Facts:
    """Numbers below the normal ones are kept, as on the CPU."""
    b = bench()
    x = np.full(64, 1e-38, np.float32)
    y = b.array(np.zeros(64, np.float32))
    b.launch("halve", 1, 64, c_int64(64), b.array(x), y)
    assert (y.get() == x * np.float32(0.5)).all()
    return {}


@check()
def reductions() -> Facts:
    """Block reductions of the prelude, for rows of several lengths."""
    b, worst = bench(), 0.0
    for columns in (1, 31, 33, 1000, 50304):
        x = np.random.default_rng(columns).standard_normal((37, columns)).astype(np.float32)
        y = b.array(np.zeros(37, np.float32))
        b.launch("row_sums", 16, 256, c_int64(37), c_int64(columns), b.array(x), y)
        expected = x.astype(np.float64).sum(axis=1)
        worst = max(worst, near(y.get(), expected, 1e-4, f"sums of {columns}"))
    return {"error": worst}


@check()
def philox_words() -> Facts:
    """The same random words as on the CPU."""
    b = bench()
    for seed, offset in ((0, 0), (67280421310721, 5), (2 ** 63 + 11, 2 ** 40 + 3)):
        y = b.array(np.zeros(N, np.int64))
        b.launch("words", 8, 256, c_int64(N), c_uint64(seed), c_int64(offset), y)
        assert (y.get() == random.words(seed, offset, N)).all(), f"seed {seed}, offset {offset}"
    return {"words": N}


@check()
def dynamic_shared_memory() -> Facts:
    """More than 48 KB of shared memory, after the attribute was set."""
    b, n = bench(), 25_000
    y = b.array(np.zeros(n, np.float32))
    b.launch("large_shared", 1, 256, c_int64(n), y, shared=4 * n)
    assert (y.get() == np.arange(n, dtype=np.float32)[::-1]).all()
    return {"bytes": 4 * n}


@check()
def argument_sizes() -> Facts:
    """The driver tells the sizes of a kernel's arguments, which replaying compares."""
    b = bench()
    found = {name: b.driver.graphs.sizes(b.kernel(name)) for name in ("axpy", "words", "add_one")}
    assert found == {"axpy": (8, 4, 8, 8), "words": (8, 8, 8, 8), "add_one": (8, 4)}, found
    return {}


@check()
def views_of_memory() -> Facts:
    """CuPy's pool gives memory; views of it, with strides, read what was written."""
    b = bench()
    block = b.driver.allocate(4 * 24)
    whole = b.driver.view(block.ptr, (4, 6), None, dtypes.float32)
    whole[...] = b.array(np.arange(24, dtype=np.float32).reshape(4, 6))
    part = b.driver.view(block.ptr + 4, (6, 4), (1, 6), dtypes.float32)[:5]
    assert (part.get() == np.arange(24).reshape(4, 6).T[1:]).all()
    assert b.driver.contiguous(part).flags.c_contiguous
    assert block.ptr % 256 == 0, "the pool's memory is less aligned than plans assume"
    return {"alignment": int(block.ptr & -block.ptr)}


@check(alone=True)
def reading() -> Facts:
    """`read` brings an element to the host, and waits for what was launched before."""
    b = bench()
    read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, c_uint64, ctypes.c_size_t, ctypes.c_void_p)(b.driver.read)
    y, host = b.array(np.zeros(1, np.float32)), c_float()
    for k in range(1, 4):
        b.launch("add_one", 1, 32, y, c_float(1.0))
        assert read(ctypes.addressof(host), b.driver.address(y), 4, b.stream) == 0
        assert host.value == k, "the value was read before the kernel had run"
    return {"us": round(b.timed(lambda: read(ctypes.addressof(host), b.driver.address(y), 4, b.stream)), 1)}


@check()
def another_thread_and_stream() -> Facts:
    """A thread that never used CUDA can launch, on a stream of its own."""
    b, problems = bench(), []
    y = b.array(np.zeros(1, np.float32))
    b.wait()

    def work() -> None:
        try:
            with b.xp.cuda.Stream(non_blocking=True):
                handle = b.driver.stream()
                assert handle != b.stream
                places, _kept = b.parameters((y, c_float(2.0)))
                b.api.call("cuLaunchKernel", b.kernel("add_one"), 1, 1, 1, 32, 1, 1, 0, handle, places, None)
                b.xp.cuda.get_current_stream().synchronize()
        except BaseException as error:  # told by the thread that waits
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    assert float(y.get()[0]) == 2.0
    return {}


@check(harms=True)
def errors_have_names() -> Facts:
    """A kernel that writes astray is an exception with CUDA's name for it."""
    b = bench()
    b.launch("astray", 1, 32, c_int64(64))
    raised = None
    try:
        b.wait()
    except CudaError as error:
        raised = error
    assert raised is not None, "nothing was raised"
    assert raised.name == "CUDA_ERROR_ILLEGAL_ADDRESS", raised.name
    return {"error": str(raised)}


@check(cap=120.0, alone=True)
def compiling_in_threads() -> Facts:
    """How long many kernels take in one text and in several, compiled at the same time."""
    b = bench()
    prelude, count = text.prelude(), 48
    kernels = [SOURCES["row_sums"].replace("row_sums", f"row_sums_{k}").replace("sum += x", f"sum += {k}.0f * x")
               for k in range(count)]
    whole, facts = prelude + "".join(kernels), {}
    with config.override(cache=""):
        for most in (count, 24, 12, 6, 3):
            started = time.perf_counter()
            nvrtc.compile_units(nvrtc.divided(whole, most), b.driver.arch)
            facts[f"{most} in a text, ms"] = round(1e3 * (time.perf_counter() - started))
    return {**facts, "kernels": count}


@check()
def slim_packages() -> Facts:
    """What CuPy does with cuBLAS, NVRTC and the runtime only: the libraries that its usual functions open."""
    b = bench()
    x = b.xp.asarray(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    facts: Facts = {}
    uses: dict[str, Callable[[], Any]] = {
            "elementwise": lambda: x + x * 2,
            "function": lambda: b.xp.exp(x), "sum": lambda: x.sum(axis=0),
            "argmax": lambda: x.argmax(), "matmul": lambda: x @ x, "sort": lambda: b.xp.sort(x, axis=-1),
            "cumsum": lambda: b.xp.cumsum(x, axis=0), "where": lambda: b.xp.where(x > 0, x, 0),
            "index": lambda: x[b.xp.asarray([1, 2])], "concatenate": lambda: b.xp.concatenate([x, x]),
            "float16": lambda: x.astype(np.float16) @ x.astype(np.float16)}
    for name, run in uses.items():
        try:
            run()
            b.xp.cuda.get_current_stream().synchronize()
            facts[name] = "works"
        except (RuntimeError, ImportError, TypeError, ValueError) as error:
            facts[name] = f"{type(error).__name__}: {error}"
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    names = {line.split(maxsplit=5)[5].rsplit("/", 1)[-1] for line in maps if "/" in line}
    facts["opened"] = sorted(n for n in names if n.startswith(("libcu", "libnv")) and ".so" in n)
    assert facts["elementwise"] == facts["sum"] == "works"
    return facts


# --- products ---

SHAPES = ((1, 1, 1), (3, 5, 4), (64, 100, 1000), (17, 33, 65), (256, 128, 512), (1, 512, 512), (512, 1, 64))
#: relative errors that products of normal numbers may have, by dtype
PRECISE = (1e-5, 1e-13, 2e-3, 1.6e-2)


def _products(dtype: int) -> Facts:
    b, worst, rng = bench(), 0.0, np.random.default_rng(dtype)
    d = numpy_dtype(dtype)
    for m, n, k in SHAPES:
        for ta, tb, accumulate in ((0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1)):
            x = rng.standard_normal((k, m) if ta else (m, k)).astype(d)
            y = rng.standard_normal((n, k) if tb else (k, n)).astype(d)
            z = rng.standard_normal((m, n)).astype(d)
            c = b.array(z)
            b.multiply(b.array(x), b.array(y), c, ta=bool(ta), tb=bool(tb), accumulate=bool(accumulate), dtype=dtype)
            wide = [v.astype(np.float64) for v in (x, y, z)]
            expected = (wide[0].T if ta else wide[0]) @ (wide[1].T if tb else wide[1]) + accumulate * wide[2]
            worst = max(worst, near(b.host(c, d), expected, PRECISE[dtype],
                                    f"{m}x{n}x{k}, transposed {ta} {tb}, accumulated {accumulate}"))
    x, y = [rng.standard_normal((7, 24, 24)).astype(d) for _ in range(2)]
    c = b.array(np.zeros((7, 24, 24), d))
    b.multiply(b.array(x), b.array(y), c, tb=True, dtype=dtype)
    expected = x.astype(np.float64) @ y.astype(np.float64).transpose(0, 2, 1)
    worst = max(worst, near(b.host(c, d), expected, PRECISE[dtype], "batches"))
    ax, ay, padded = b.array(x[0]), b.array(y[0]), b.array(np.zeros((9, 24), d))
    inner = b.product(ax, ay, padded, dtype=dtype)._replace(m=9, n=13, k=11, ldc=24)
    inner = inner._replace(a=inner.a + d.itemsize)  # an address of the least alignment
    b.driver.lt.matmul(b.stream, inner)
    flat = x[0].reshape(-1).astype(np.float64)
    shifted = np.lib.stride_tricks.as_strided(flat[1:], (9, 11), (24 * 8, 8))
    whole = np.zeros((9, 24))
    whole[:, :13] = shifted @ y[0][:11, :13].astype(np.float64)
    worst = max(worst, near(b.host(padded, d), whole, PRECISE[dtype], "part of a matrix, misaligned"))
    return {"error": worst}


@check()
def products_float32() -> Facts:
    """cuBLASLt against NumPy: float32, full precision."""
    return _products(0)


@check()
def products_float64() -> Facts:
    """cuBLASLt against NumPy: float64."""
    return _products(1)


@check()
def products_float16() -> Facts:
    """cuBLASLt against NumPy: float16."""
    return _products(2)


@check()
def products_bfloat16() -> Facts:
    """cuBLASLt against NumPy: bfloat16."""
    return _products(3)


@check()
def products_tf32() -> Facts:
    """TF32 is used when it is allowed, and not before."""
    b = bench()
    x, y = np.random.default_rng(0).standard_normal((2, 512, 512)).astype(np.float32)
    expected, errors = x.astype(np.float64) @ y.astype(np.float64), []
    for allowed in (False, True):
        precision.set_allow_tf32(allowed)
        c = b.array(np.zeros((512, 512), np.float32))
        b.multiply(b.array(x), b.array(y), c)
        errors.append(near(c.get(), expected, 1e-2, f"TF32 {allowed}"))
    assert errors[0] < 2e-6 < errors[1], errors
    return {"errors": errors}


@check()
def empty_products() -> Facts:
    """Nothing to add up gives zeros, or what was there."""
    b = bench()
    c = b.array(np.ones((3, 5), np.float32))
    call = Call(0, 0, 0, 1, 3, 5, 0, 1, 5, 5, 0, 0, b.driver.address(c))
    b.driver.lt.matmul(b.stream, call)
    assert (c.get() == 1).all()
    b.driver.lt.matmul(b.stream, call._replace(accumulate=0))
    assert (c.get() == 0).all()
    return {}


def _gelu(x: Any) -> Any:
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)
    return 0.5 * x * (1 + np.tanh(inner))


def _gelu_slope(x: Any) -> Any:
    h = 1e-6
    return (_gelu(x + h) - _gelu(x - h)) / (2 * h)


def _epilogues(dtype: int) -> Facts:
    """A row for each epilogue; a wrong one is an error. Who computes it is told: cuBLASLt, or kernels behind a product,
    because cuBLASLt refuses it or differs from eager (NaN, infinity, GELU's last bits)."""
    b, rng, d = bench(), np.random.default_rng(3), numpy_dtype(dtype)
    m, n, k = 64, 136, 72
    facts: Facts = {}
    x, y, before = [rng.standard_normal(s).astype(d) for s in ((m, k), (k, n), (m, n))]
    bias = rng.standard_normal(n).astype(d)
    wide = x.astype(np.float64) @ y.astype(np.float64)
    biased, tolerance = wide + bias.astype(np.float64), max(PRECISE[dtype], 1e-4)
    pre = before.astype(np.float64)
    packed = np.zeros((m, blaslt.aux_stride(blaslt.DRELU, n) // 8), np.uint8)
    packed[:, :-(-n // 8)] = np.packbits(pre > 0, axis=1, bitorder="little")
    # name: epilogue, expected, memory for the backward pass, what the bias vector becomes
    cases: dict[str, tuple[int, Any, Any, Any]] = {
        "bias": (blaslt.BIAS, biased, None, None),
        "relu": (blaslt.RELU, np.maximum(wide, 0), None, None),
        "relu, bias": (blaslt.RELU_BIAS, np.maximum(biased, 0), None, None),
        "gelu": (blaslt.GELU, _gelu(wide), None, None),
        "gelu, bias": (blaslt.GELU_BIAS, _gelu(biased), None, None),
        "relu, bias, aux": (blaslt.RELU_AUX_BIAS, np.maximum(biased, 0), np.zeros_like(packed), None),
        "gelu, bias, aux": (blaslt.GELU_AUX_BIAS, _gelu(biased), np.zeros((m, n), d), None),
        "relu'": (blaslt.DRELU, wide * (pre > 0), packed, None),
        "relu', bias'": (blaslt.DRELU_BGRAD, wide * (pre > 0), packed, (wide * (pre > 0)).sum(axis=0)),
        "gelu'": (blaslt.DGELU, wide * _gelu_slope(pre), before, None),
        "gelu', bias'": (blaslt.DGELU_BGRAD, wide * _gelu_slope(pre), before, (wide * _gelu_slope(pre)).sum(axis=0)),
        "bias' of b": (blaslt.BGRADA, wide, None, y.astype(np.float64).sum(axis=0)),
        "bias' of a": (blaslt.BGRADB, wide, None, x.astype(np.float64).sum(axis=1)),
    }
    wrong, rows = [], []
    ax, ay = b.array(x), b.array(y)
    for name, (epilogue, expected, memory, gradient) in cases.items():
        c = b.array(np.zeros((m, n), d))
        vector = b.array(np.zeros(len(gradient), d) if gradient is not None else bias)
        aux: Any = b.array(memory) if memory is not None else None
        call = b.product(ax, ay, c, dtype=dtype, epilogue=epilogue, bias=vector, aux=aux)
        if not epilogue & (4 | 16 | 768):
            call = call._replace(bias=0)
        b.driver.lt.matmul(b.stream, call)
        b.wait()
        facts[name] = "cuBLASLt" if isinstance(b.driver.lt.way(call, b.stream), blaslt.Plan) else "kernels"
        try:
            row = {"name": f"epilogue {name}, {d.name}, by {facts[name]}",
                   "error": near(b.host(c, d), expected, tolerance, name)}
            if gradient is not None:
                near(b.host(vector, d), gradient, 4 * tolerance, f"{name}, the bias")
            if name == "gelu, bias, aux":
                near(b.host(aux, d), biased, tolerance, f"{name}, what is kept")
            if name == "relu, bias, aux":
                kept = np.unpackbits(aux.get(), axis=1, bitorder="little")[:, :n]
                assert (kept != (biased > 0)).mean() < 1e-3, "the mask of ReLU has another layout"
            us = b.timed(lambda call=call: b.driver.lt.matmul(b.stream, call), 5)  # type: ignore[misc]
            rows.append({**row, "us": us})
        except AssertionError as error:  # the other epilogues are tried before it is raised
            facts[name] = f"wrong: {error}"
            wrong.append(str(error))
    if wrong:
        raise Wrong("; ".join(wrong), {**facts, "rows": rows})
    return {**facts, "rows": rows}


@check(alone=True)
def epilogues_float32() -> Facts:
    """Bias, ReLU, GELU and their gradients in the product: float32."""
    return _epilogues(0)


@check(alone=True)
def epilogues_float16() -> Facts:
    """Bias, ReLU, GELU and their gradients in the product: float16."""
    return _epilogues(2)


@check(alone=True)
def epilogues_bfloat16() -> Facts:
    """Bias, ReLU, GELU and their gradients in the product: bfloat16."""
    return _epilogues(3)


@check()
def masked_infinity() -> Facts:
    """ReLU's gradient is a choice by its mask: what is masked is zero, infinity too."""
    b = bench()
    x, y, c = [b.array(np.full(s, v, np.float32)) for s, v in (((8, 8), 1), ((8, 128), np.inf), ((8, 128), 0))]
    mask = np.arange(8 * 16, dtype=np.uint8).reshape(8, 16)
    call = b.product(x, y, c, epilogue=blaslt.DRELU, aux=b.array(mask))
    b.driver.lt.matmul(b.stream, call)
    expected = np.where(np.unpackbits(mask, axis=1, bitorder="little"), np.inf, 0)
    assert (c.get() == expected).all(), "the mask is multiplied by, or has another layout"
    return {"by": "cuBLASLt" if isinstance(b.driver.lt.way(call, b.stream), blaslt.Plan) else "kernels"}


@check(alone=True)
def native_product() -> Facts:
    """The C function for generated code, and what its way through Python costs."""
    b = bench()
    x, y = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    ax, ay, c = b.array(x), b.array(y), b.array(np.zeros((64, 64), np.float32))
    words = (c_int64 * blaslt.WORDS)(*b.product(ax, ay, c))
    multiply = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(b.driver.matmul)
    status = multiply(b.stream, ctypes.addressof(words))
    if status:
        raise b.driver.error(status)
    near(c.get(), x.astype(np.float64) @ y, 1e-5, "product")
    return {"us": round(b.timed(lambda: multiply(b.stream, ctypes.addressof(words))), 1),
            "driver": driverapi.version_text(b.api.made("cuDriverGetVersion"))}
