"""What follows a product by kernels: the same as cuBLASLt's epilogues by NumPy; which of these are relied on."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.driver import blaslt
from jitgrad.codegen.cuda.driver.blaslt import Call
from jitgrad.codegen.cuda.host.gpu import compile
from jitgrad.codegen.cuda.kernels import composed
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import emulated, host, machinecode, test_epilogues
from tests.codegen.cuda.fakedriver import EPILOGUES, MASKED, gelu, gelu_slope
from tests.codegen.cuda.test_cuda_programs import OnHost
from tests.codegen.programs import assert_same, duplicate, graph, tensor

pytestmark = host.emulated
NAMES = {getattr(blaslt, n): n for n in ("RELU", "BIAS", "RELU_BIAS", "GELU", "GELU_BIAS", "RELU_AUX", "RELU_AUX_BIAS",
                                         "DRELU", "DRELU_BGRAD", "GELU_AUX", "GELU_AUX_BIAS", "DGELU", "DGELU_BGRAD",
                                         "BGRADA", "BGRADB")}
rng = np.random.default_rng(3)


@pytest.fixture(scope="module")
def gpu():
    with pytest.MonkeyPatch.context() as patch:
        yield emulated.gpu(patch)


@pytest.fixture(autouse=True)
def forgetful(gpu):
    gpu.blas.passes_nan, gpu.blas.refused = True, set()
    gpu.driver.lt._proven.clear()
    gpu.driver.lt._ready.clear()


class Device:
    """Arrays of the emulated device. bfloat16 is kept in words."""

    def __init__(self, gpu, d):
        self.gpu, self.kept = gpu, []
        self.d = getattr(dtypes, d).np

    def put(self, values, dtype=None):
        values = np.asarray(values, dtype or self.d)
        block = self.gpu.driver.allocate(values.nbytes)
        self.kept.append(block)
        view = np.frombuffer(block.memory, np.uint8)
        start = block.ptr - block.memory.ctypes.data
        found = view[start:start + values.nbytes].view(values.dtype).reshape(values.shape)
        found[...] = values
        return found, block.ptr


def reference(epilogue, x, y, before, bias):
    """c, bias or its gradient, and what is kept, in float64."""
    total = x @ y
    passed = ~(before <= 0)
    if epilogue in (blaslt.BGRADA, blaslt.BGRADB):
        return total, y.sum(axis=0) if epilogue == blaslt.BGRADA else x.sum(axis=1), None
    if epilogue & 4:
        total = total + bias
    if epilogue & 2:
        return np.maximum(total, 0), bias, ~(total <= 0)
    if epilogue & 32:
        return gelu(total), bias, total
    if epilogue & 8:
        total = np.where(passed, total, 0)
    elif epilogue & 64:
        total = total * gelu_slope(before)
    return total, total.sum(axis=0) if epilogue & 16 else bias, passed if epilogue & 8 else before


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("epilogue", sorted(EPILOGUES), ids=NAMES.get)
@pytest.mark.parametrize("native", [True, False])
def test_values(gpu, d, epilogue, native):
    lt, library = gpu.driver.lt, gpu.blas
    library.refused = set() if native else {epilogue}
    device = Device(gpu, d)
    for m, n, k, ta, tb in ((1, 1, 1, 0, 0), (7, 8, 5, 0, 1), (3, 64, 16, 1, 0), (9, 127, 3, 1, 1), (5, 129, 8, 0, 0)):
        x, y, before = (rng.standard_normal(s).astype(device.d).astype(np.float64) for s in ((m, k), (k, n), (m, n)))
        bias = rng.standard_normal(m if epilogue == blaslt.BGRADB else n).astype(device.d).astype(np.float64)
        before.flat[0], bias[0] = 0, 0
        expected, vector, kept = reference(epilogue, x, y, before, bias)
        stride = blaslt.aux_stride(epilogue, n)
        memory = np.zeros((m, stride // 8), np.uint8)
        if epilogue in MASKED:
            memory[:, :-(-n // 8)] = np.packbits(before > 0, axis=1, bitorder="little")
        else:
            memory = before
        a, b, c = device.put(x.T if ta else x), device.put(y.T if tb else y), device.put(np.full((m, n), 7))
        v, aux = device.put(bias), device.put(memory, np.uint8 if epilogue in MASKED else None)
        lt.matmul(0, Call(blaslt.DTYPES.index(dtypes.by_name(d)), ta, tb, 0, m, n, k, m if ta else k, k if tb else n,
                          n, a[1], b[1], c[1], epilogue=epilogue, bias=v[1] if epilogue & (4 | 16 | 768) else 0,
                          aux=aux[1] if stride else 0))
        near = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}[d]
        np.testing.assert_allclose(c[0].astype(np.float64), expected, rtol=near, atol=near)
        np.testing.assert_allclose(v[0].astype(np.float64), vector, rtol=near, atol=3 * near)
        if epilogue in MASKED:
            bits = np.unpackbits(aux[0], axis=1, bitorder="little")[:, :n]
            assert (bits != kept).mean() < (0.02 if epilogue & 2 else 1e-9)
        elif stride:
            np.testing.assert_allclose(aux[0].astype(np.float64), kept, rtol=near, atol=near)


def test_nan_and_zero(gpu):
    """As eager: ReLU of NaN is NaN and lets the gradient pass, ReLU of zero does not; what is masked is zero."""
    device = Device(gpu, "float32")
    specials = np.array([[np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 2.0]])
    for refused in (set(), set(EPILOGUES)):
        gpu.blas.refused = refused
        one, x, c = device.put([[1.0]]), device.put(specials), device.put(np.zeros((1, 8)))
        mask = device.put(np.zeros((1, 16)), np.uint8)
        call = Call(0, 0, 0, 0, 1, 8, 1, 1, 8, 8, one[1], x[1], c[1], epilogue=blaslt.RELU_AUX, aux=mask[1])
        gpu.driver.lt.matmul(0, call)
        np.testing.assert_array_equal(c[0], [[np.nan, 0, 0, np.inf, 0, 1, 0, 2]])
        np.testing.assert_array_equal(np.unpackbits(mask[0][:, :1], bitorder="little"), [1, 0, 0, 1, 0, 1, 0, 1])
        x[0][...] = np.inf
        gpu.driver.lt.matmul(0, call._replace(epilogue=blaslt.DRELU))
        np.testing.assert_array_equal(c[0], [[np.inf, 0, 0, np.inf, 0, np.inf, 0, np.inf]])


def test_an_epilogue_that_differs_is_not_used(gpu):
    lt, device = gpu.driver.lt, Device(gpu, "float32")
    one, x, c, mask = (device.put(v, t) for v, t in (
        ([[1.0]], None), ([[np.nan] * 8], None), (np.zeros((1, 8)), None), (np.zeros((1, 16)), np.uint8)))
    call = Call(0, 0, 0, 0, 1, 8, 1, 1, 8, 8, one[1], x[1], c[1], epilogue=blaslt.RELU_AUX, aux=mask[1])
    assert isinstance(lt.way(call, 0), blaslt.Plan)
    gpu.blas.passes_nan = False
    lt._proven.clear()
    assert isinstance(lt.way(call, 0), blaslt.Parts)
    lt.matmul(0, call)
    assert mask[0][0, 0] == 255
    assert isinstance(lt.way(call._replace(epilogue=blaslt.DRELU), 0), blaslt.Parts)
    assert isinstance(lt.way(call._replace(epilogue=blaslt.RELU, aux=0), 0), blaslt.Plan)


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16"])
def test_every_epilogue_as_documented_is_relied_on(gpu, d):
    for epilogue in EPILOGUES:
        call = Call(blaslt.DTYPES.index(dtypes.by_name(d)), 0, 0, 0, 8, 8, 8, 8, 8, 8, 256, 512, 768, epilogue=epilogue)
        assert gpu.driver.lt._is_proven(call, 0), NAMES[epilogue]
    assert {tried for _, tried, _ in gpu.driver.lt._proven} == {
        blaslt.RELU_BIAS, blaslt.RELU_AUX_BIAS, blaslt.GELU_BIAS, blaslt.GELU_AUX_BIAS}


def test_sums_of_nothing_are_zero(gpu):
    device = Device(gpu, "float32")
    vector, anything = device.put(np.full(5, 3.0)), device.put(np.zeros(8))
    call = Call(0, 0, 0, 0, 0, 5, 4, 4, 5, 5, anything[1], anything[1], anything[1], epilogue=blaslt.DRELU_BGRAD,
                bias=vector[1], aux=anything[1])
    gpu.driver.lt.matmul(0, call)
    np.testing.assert_array_equal(vector[0], 0)
    vector[0][...] = 3
    c = device.put(np.full((4, 5), 9.0))
    gpu.driver.lt.matmul(0, call._replace(m=4, k=0, c=c[1], epilogue=blaslt.BGRADA, aux=0))
    np.testing.assert_array_equal(vector[0], 0)
    np.testing.assert_array_equal(c[0], 0)


def test_batches(gpu):
    device = Device(gpu, "float32")
    a, b, bias = (rng.standard_normal(s).astype("float32") for s in ((3, 4, 5), (5, 7), 7))
    places = [device.put(v) for v in (a, b, bias, np.zeros((3, 4, 7)))]
    for refused in (set(), {blaslt.RELU_BIAS}):
        gpu.blas.refused = refused
        gpu.driver.lt.matmul(0, Call(0, 0, 0, 0, 4, 7, 5, 5, 7, 7, places[0][1], places[1][1], places[3][1], 3, 20, 0,
                                     28, epilogue=blaslt.RELU_BIAS, bias=places[2][1]))
        np.testing.assert_allclose(places[3][0], np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-6)


def test_programs_with_biases_anywhere(gpu):
    """A bias at an address that cuBLASLt does not take, in calls that are replayed."""
    g = pipeline.run(graph(test_epilogues.mlp, *(tensor(*t.dims) for t in test_epilogues.LAYER)))
    compiled = compile({"f": g}, OnHost(gpu.driver))
    for shift in (0, 0, 0, 4, 4, 8, 0):
        inputs = test_epilogues.arguments(test_epilogues.LAYER, {"M": 5, "N": 24, "K": 4, "L": 3})
        memory = np.empty(24 * 4 + 64, np.uint8)
        start = -memory.ctypes.data % 16 + shift
        bias = memory[start:start + 96].view(np.float32)
        bias[...] = inputs[2]
        inputs[2] = bias
        expected = interpret(g, duplicate(inputs))
        for actual, wanted in zip(compiled["f"](inputs), expected, strict=True):
            assert_same(np.asarray(actual), wanted, 1e-5)


@machinecode.needs_cuda
@pytest.mark.parametrize("d", composed.TYPES)
def test_kernels_compile(d):
    for arch in ("sm_80", "sm_90"):
        assert all(k.stack == 0 for k in machinecode.compiled(composed.source(dtypes.by_name(d)), arch).values())
