"""Which nodes share a kernel, counted; and that the kernels are right."""

import numpy as np

from jitgrad.codegen.run.compile import compile
from jitgrad.script.autodiff import differentiate
from jitgrad.script.passes import pipeline
from tests.codegen.programs import agree, graph, sizes, tensor

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("f")


def layer_norm(F, x, w, b):
    axes = (len(x.shape) - 1,)
    mean = F.mean(x, axes=axes, keepdim=True)
    centred = F.sub(x, mean)
    variance = F.mean(F.mul(centred, centred), axes=axes, keepdim=True)
    return F.add(F.mul(F.mul(centred, F.rsqrt(F.add(variance, 1e-5))), w), b)


def test_softmax_is_one_kernel():
    N, D = sizes("N D")
    c = agree(graph(lambda F, x: F.softmax(x, axis=1), tensor(N, D)), [normal(5, 37)])
    assert len(c.kernels) == 1
    assert "fastmax" in c.kernels[0]
    c = agree(graph(lambda F, x: F.log_softmax(x, axis=1), tensor(N, D)), [normal(5, 37)])
    assert len(c.kernels) == 1


def test_softmax_keeps_nan():
    N, D = sizes("N D")
    x = normal(3, 21)
    x[1, 20] = np.nan
    agree(graph(lambda F, x: F.softmax(x, axis=1), tensor(N, D)), [x])


def test_softmax_over_a_leading_axis():
    N, D = sizes("N D")
    assert len(agree(graph(lambda F, x: F.softmax(x, axis=0), tensor(N, D)), [normal(5, 37)]).kernels) == 1


def test_bias_gelu_residual_layer_norm_is_one_kernel():
    N, D = sizes("N D")
    g = graph(lambda F, x, bias, residual, w, b: layer_norm(F, F.add(F.gelu(F.add(x, bias)), residual), w, b),
              tensor(N, D), tensor(D), tensor(N, D), tensor(D), tensor(D))
    c = agree(g, [normal(6, 70), normal(70), normal(6, 70), normal(70), normal(70)])
    assert len(c.kernels) == 1


def test_a_pointwise_chain_and_its_backward_are_one_kernel_each():
    N, M = sizes("N M")
    g = graph(lambda F, x, y: F.silu(F.mul(F.tanh(F.add(x, y)), F.sigmoid(x))), tensor(N, M), tensor(N, M))
    assert len(agree(g, [normal(7, 9), normal(7, 9)]).kernels) == 1
    backward = pipeline.run(differentiate(g, (0, 1), (0,)).backward((True,)))
    assert len(compile({"b": backward}).kernels) == 1


def test_several_reductions_and_a_store_share_a_kernel():
    N, D = sizes("N D")
    g = graph(lambda F, x: (F.exp(x), F.sum(F.exp(x), axes=(1,), keepdim=False), F.amax(x, axes=(1,), keepdim=False)),
              tensor(N, D))
    assert len(agree(g, [normal(4, 33)]).kernels) == 1


def test_siblings_read_the_same_memory_not_the_same_number():
    """The updates of all parameters by one rate would else be a few kernels that read dozens of tensors."""
    N, M = sizes("N M")
    shared = graph(lambda F, x, y, z: (F.mul(x, z), F.add(y, z)), *[tensor(N, M)] * 3)
    assert len(agree(shared, [normal(4, 33) for _ in range(3)]).kernels) == 1
    rate = graph(lambda F, x, y, r: (F.mul(x, r), F.add(y, r)), tensor(N, M), tensor(N, M), tensor())
    assert len(agree(rate, [normal(4, 33), normal(4, 33), normal()]).kernels) == 2


def test_what_reduces_other_axes_is_another_kernel_with_a_reason():
    N, D = sizes("N D")
    g = graph(lambda F, x, y: (F.amax(F.mul(x, y), axes=(0,), keepdim=False),
                               F.amax(F.mul(x, y), axes=(1,), keepdim=False)), tensor(N, D), tensor(N, D))
    c = agree(g, [normal(4, 33), normal(4, 33)])
    assert len(c.kernels) == 2
    assert any("they reduce different axes" in r for r in c.reasons)


def test_masks_and_constants_are_never_stored():
    T, = sizes("T")

    def causal(F, x):
        i = F.reshape(F.arange(length=T, dtype=_int64()), shape=(T, 1))
        j = F.reshape(F.arange(length=T, dtype=_int64()), shape=(1, T))
        return F.softmax(F.where(F.ge(i, j), x, float("-inf")), axis=1)

    c = agree(graph(causal, tensor(T, T)), [normal(19, 19)])
    assert len(c.kernels) == 1


def _int64():
    from jitgrad import dtypes

    return dtypes.int64


def test_views_fold_into_loads():
    N, M = sizes("N M")

    def body(F, x):
        y = F.permute(F.flip(x, axes=(0,)), axes=(1, 0))
        return F.add(F.slice(y, axis=1, start=1, length=2, step=1), F.unsqueeze(F.select(y, axis=1, index=0), axis=1))

    assert len(agree(graph(body, tensor(3, M)), [normal(3, 5)]).kernels) == 1
    assert N is not M


def test_equal_layers_share_their_kernels():
    N, D = sizes("N D")

    def body(F, x, w, b):
        for _ in range(5):
            x = F.relu(F.add(F.matmul(x, w), b))
        return x

    c = agree(graph(body, tensor(N, D), tensor(D, D), tensor(D)), [normal(3, 8), normal(8, 8), normal(8)])
    assert len(c.kernels) == 1


def test_what_depends_through_a_product_is_not_merged():
    N, = sizes("N")

    def body(F, x):
        a = F.exp(F.neg(F.mul(x, x)))
        return F.add(F.matmul(a, a), a)

    assert len(agree(graph(body, tensor(N, N)), [normal(6, 6)]).kernels) == 2


def test_constants_that_a_product_reads_are_stored():
    N, = sizes("N")

    def body(F, x):
        i = F.arange(length=N, dtype=x.dtype)
        ones = F.full(value=1.0, shape=(N, N), dtype=x.dtype)
        return F.matmul(ones, x), F.add(F.reshape(F.reshape(i, shape=(N, 1)), shape=(N,)), F.select(x, axis=0, index=0))

    agree(graph(body, tensor(N, N)), [normal(6, 6)])
