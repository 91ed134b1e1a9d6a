"""Attention in scripts on the CPU: one call, and one for its gradient, as eager's products and softmax."""

import numpy as np
import pytest

import jitgrad
from jitgrad.nn import functional as F


@jitgrad.script
def attend(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


@jitgrad.script
def causal(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4)


@jitgrad.script
def projected(x, qkv, out, mask):
    n, t, c = x.shape
    q, k, v = [p.reshape(n, t, 2, c // 2).transpose(1, 2) for p in (x @ qkv).chunk(3, -1)]
    y = F.scaled_dot_product_attention(q, k, v, mask)
    return x + y.transpose(1, 2).reshape(n, t, c) @ out


def given(*shapes, dtype=jitgrad.float64):
    rng = np.random.default_rng(0)
    return [jitgrad.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=True) for shape in shapes]


def results(f, arguments, mask):
    """What a function returns, the gradients of a function of that, and of a sum of these the gradients."""
    y = f(*arguments, mask)
    tensors = [*arguments, *([mask] if mask is not None and mask.requires_grad else [])]
    first = jitgrad.autograd.grad(y.sin().sum(), tensors, create_graph=True)
    second = jitgrad.autograd.grad(sum(g.square().sum() for g in first), tensors)
    return [x.detach().numpy() for x in (y, *first, *second)]


def flags(diagonal):
    return jitgrad.ones(5, 7, dtype=jitgrad.bool).tril(diagonal)


MASKS = {"none": lambda: None, "flags": lambda: flags(1), "nothing for one": lambda: flags(-1),
         "added": lambda: given((2, 1, 1, 7))[0]}


@pytest.mark.parametrize("mask", MASKS)
def test_both_orders_of_gradients(mask):
    arguments = given((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))
    made = MASKS[mask]()
    for got, wanted in zip(results(attend, arguments, made), results(attend.__wrapped__, arguments, made), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    assert "attention(" in str(attend.graph_for(*arguments, made))


@pytest.mark.parametrize("shapes", [((5, 4), (7, 4), (7, 4)), ((3, 5, 4), (3, 7, 4), (3, 7, 4))], ids=str)
def test_fewer_axes(shapes):
    arguments = given(*shapes)
    for got, wanted in zip(results(causal, arguments, None), results(causal.__wrapped__, arguments, None), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


def test_other_features_of_values_are_composed():
    arguments = given((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))
    for got, wanted in zip(results(attend, arguments, None), results(attend.__wrapped__, arguments, None), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


def test_one_program_for_all_sizes_and_no_matrix_of_weights():
    sizes = [(2, 9, 8), (3, 300, 12), (4, 64, 20)]
    before = projected.cache_info().compilations
    for n, t, c in sizes:
        arguments = given((n, t, c), (c, 3 * c), (c, c), dtype=jitgrad.float32)
        found = [x.detach().numpy() for x in jitgrad.autograd.grad(projected(*arguments, None).sum(), arguments)]
        wanted = jitgrad.autograd.grad(projected.__wrapped__(*arguments, None).sum(), arguments)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-3, atol=1e-3)
    assert projected.cache_info().compilations == before + 1
    n, t, c = sizes[1]
    report = projected.explain(*given((n, t, c), (c, 3 * c), (c, c), dtype=jitgrad.float32), None)
    assert report.saved_bytes < 4 * n * t * t  # the weights of one head
    kinds = [step.kind for step in report.runs["backward"].steps]
    assert kinds.count("attention") == 1
    assert kinds.count("kernel") == 1  # of x; the gradients of q, k and v are made where the product reads them


def test_a_batch_of_vmap_is_composed():
    q, k, v = given((4, 2, 5, 4), (4, 2, 5, 4), (4, 2, 5, 4))

    @jitgrad.script
    def each(q, k, v):
        return jitgrad.func.vmap(lambda a, b, c: F.scaled_dot_product_attention(a, b, c))(q, k, v)

    np.testing.assert_allclose(each(q, k, v).detach().numpy(),
                               F.scaled_dot_product_attention(q, k, v).detach().numpy(), rtol=1e-10, atol=1e-12)
