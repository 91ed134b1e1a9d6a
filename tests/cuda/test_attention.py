"""Attention in scripts on a GPU: one kernel, two for its gradient, next to float64; where it is composed instead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F
from tests.codegen.cuda import host
from tests.codegen.cuda.test_attention import reference
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.emulated
rng = np.random.default_rng(11)


@pytest.fixture
def device() -> Iterator[StandinDriver]:
    with gpu() as driver, jitgrad.device("cuda"), config.override(debug_arena=True):
        yield driver


def tensor(d, *shape):
    return jitgrad.tensor(rng.normal(size=shape).astype(np.float32)).to(d).cuda().requires_grad_()


def check(found, expected, d):
    unit = 2.0 ** -7 if d is jitgrad.bfloat16 else 2.0 ** -10
    size = max(np.abs(other).max(initial=1e-3) for other in expected)  # small differences of rounded numbers are rough
    for one, other in zip(found, expected, strict=True):
        one = one.detach().cpu().to(jitgrad.float64).numpy()
        np.testing.assert_allclose(one, other, rtol=4 * unit, atol=2 * unit * size)


def as_float64(x):
    return x.detach().cpu().to(jitgrad.float64).numpy()


def test_projections_are_read_and_written_where_they_are(device):
    """A block as models write it: heads are views of one product, and so are their gradients."""
    @jitgrad.script
    def f(x, w):
        n, length, width = x.shape
        q, k, v = (p.reshape(n, length, 2, width // 2).transpose(1, 2) for p in (x @ w).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, length, width)

    x, w = tensor(jitgrad.bfloat16, 2, 5, 64), tensor(jitgrad.bfloat16, 64, 192)
    y = f(x, w)
    g = tensor(jitgrad.bfloat16, 2, 5, 64).detach()
    y.backward(g)
    made = (x @ w).detach()
    q, k, v = (as_float64(p.reshape(2, 5, 2, 32).transpose(1, 2)) for p in made.chunk(3, -1))
    out, _, dq, dk, dv = reference(q, k, v, as_float64(g.reshape(2, 5, 2, 32).transpose(1, 2)), True, 32 ** -0.5)
    dqkv = np.concatenate([p.transpose(0, 2, 1, 3).reshape(2, 5, 64) for p in (dq, dk, dv)], -1)
    check([y], [out.transpose(0, 2, 1, 3).reshape(2, 5, 64)], jitgrad.bfloat16)
    check([x.grad], [dqkv @ as_float64(w).T], jitgrad.bfloat16)
    told = str(f.traffic(x, w))
    assert told.count("jg_attention") == told.count("matmul") == 3
    assert "7 launches" in told  # the other one copies y, which is saved, to the result


@pytest.mark.parametrize(("d", "shapes", "causal", "scale"), [
    (jitgrad.float16, ((3, 4, 64), (3, 6, 64)), False, None),
    (jitgrad.bfloat16, ((5, 128), (5, 128)), True, 0.2),
    (jitgrad.float16, ((1, 2, 3, 32), (1, 2, 3, 32)), True, -1 / 8)])
def test_ranks_and_scales(d, shapes, causal, scale, device):
    @jitgrad.script
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    q, k, v = tensor(d, *shapes[0]), tensor(d, *shapes[1]), tensor(d, *shapes[1])
    y = f(q, k, v)
    g = tensor(d, *y.shape).detach()
    y.backward(g)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    out, _, *slopes = reference(*map(as_float64, (q, k, v, g)), causal, factor)
    check([y, q.grad, k.grad, v.grad], [out, *slopes], d)
    assert "jg_attention_dkv" in str(f.traffic(q, k, v))


@pytest.mark.parametrize(("shape", "d", "learned"), [
    ((2, 1, 1, 6), jitgrad.bool, False), ((5, 6), jitgrad.bool, False), ((2, 3, 5, 6), jitgrad.bfloat16, False),
    ((3, 1, 6), jitgrad.bfloat16, True), ((2, 3, 5, 6), jitgrad.bfloat16, True)])
def test_masks(shape, d, learned, device):
    """Padding, flags for all heads, biases of positions, of which there is a gradient."""
    @jitgrad.script
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)

    half = jitgrad.bfloat16
    q, k, v = tensor(half, 2, 3, 5, 32), tensor(half, 2, 3, 6, 32), tensor(half, 2, 3, 6, 32)
    if d is jitgrad.bool:
        seen = rng.random(shape) < 0.6
        seen[..., 0] = False  # a row of (5, 6) sees nothing
        seen[..., -1, :] = False
        mask = jitgrad.tensor(seen).cuda()
    else:
        mask = tensor(d, *shape) if learned else tensor(d, *shape).detach()
    y = f(q, k, v, mask)
    g = tensor(half, *y.shape).detach()
    y.backward(g)
    wide = [jitgrad.from_numpy(as_float64(x)).requires_grad_() for x in (q, k, v)]
    bias = mask.cpu() if d is jitgrad.bool else jitgrad.from_numpy(as_float64(mask)).requires_grad_()
    with jitgrad.device("cpu"):
        other = F.scaled_dot_product_attention(*wide, bias)
        other.backward(jitgrad.from_numpy(as_float64(g)))
    pairs = [(y, other), *[(a.grad, b.grad) for a, b in zip((q, k, v), wide, strict=True)]]
    check(*zip(*[(a, as_float64(b)) for a, b in pairs], strict=True), half)
    if learned:
        check([mask.grad], [as_float64(bias.grad)], half)
    told = str(f.traffic(q, k, v, mask))
    assert told.count("jg_attention") == 3
    assert told.count("matmul") == (2 if learned else 0)  # the gradient of a mask is composed


def test_padding_of_a_module(device):
    """Of other lengths with every batch: one program."""
    attend = jitgrad.nn.MultiheadAttention(64, 2, batch_first=True, dtype=jitgrad.bfloat16).cuda()

    @jitgrad.script
    def f(attend, x, padding):
        return attend(x, x, x, key_padding_mask=padding, need_weights=False)[0]

    for n, length in ((2, 7), (3, 9), (5, 4)):
        x = tensor(jitgrad.bfloat16, n, length, 64).detach()
        padding = jitgrad.arange(length) >= jitgrad.arange(2, 2 + n).clamp(max=length).unsqueeze(1)
        np.testing.assert_allclose(as_float64(f(attend, x, padding)), as_float64(attend(x, x, x, padding, False)[0]),
                                   rtol=0.05, atol=0.02)
    assert "jg_attention" in str(f.traffic(attend, x, padding))
    assert f.cache_info().compilations <= 2


def test_a_device_with_too_little_shared_memory_is_an_error(device, monkeypatch):
    """As before Ampere: no block has room for a head's gradient, and what has no form to be launched says so."""
    monkeypatch.setattr(type(device), "shared", 61 << 10)

    @jitgrad.script
    def f(q):
        y = F.scaled_dot_product_attention(q, q, q)
        y.sum().backward()
        return q.grad

    with pytest.raises(RuntimeError, match="701"):
        f(tensor(jitgrad.float16, 1, 1, 5, 128))


def test_what_is_composed(device):
    """Other widths and types: as in eager."""
    @jitgrad.script
    def h(q):
        return F.scaled_dot_product_attention(q, q, q)

    wide, narrow = tensor(jitgrad.float16, 1, 2, 3, 64), tensor(jitgrad.float16, 1, 2, 3, 16)
    for call, args in ((h, (narrow,)), (h, (wide.float(),))):
        assert "attention" not in str(call.traffic(*args))
        found, expected = call(*args), F.scaled_dot_product_attention(args[0], args[0], args[0])
        np.testing.assert_allclose(as_float64(found), as_float64(expected), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("mask", [None, ((True, False, False), (True, True, False), (False, False, False))])
def test_second_derivatives(mask, device):
    seen = None if mask is None else jitgrad.tensor(mask)

    @jitgrad.script
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None).float().sin().sum()

    q, k, v = (tensor(jitgrad.bfloat16, 1, 1, 3, 32) for _ in range(3))

    def second(function, *given):
        first = jitgrad.autograd.grad(function(*given), given, create_graph=True)
        return jitgrad.autograd.grad(sum((x.double() * x.double()).sum() for x in first), given)

    found = second(f, q, k, v)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = second(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None).sin().sum(),
                      *wide)
    for one, other in zip(found, map(as_float64, expected), strict=True):
        np.testing.assert_allclose(as_float64(one), other, rtol=0.1, atol=0.03 * np.abs(other).max())


class Heads(jitgrad.nn.Module):
    """As nanoGPT has it."""

    def __init__(self, dropout):
        super().__init__()
        self.n_head, self.n_embd, self.dropout = 2, 64, dropout
        self.c_attn = jitgrad.nn.Linear(64, 192, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0,
                                           is_causal=True)
        return y.transpose(1, 2).contiguous().view(B, T, C)


def test_a_dropout_of_zero_is_none(device):
    """Until it is another."""
    heads = Heads(0.0).to(jitgrad.bfloat16).cuda()
    script, x = jitgrad.script(heads), tensor(jitgrad.bfloat16, 2, 4, 64).detach()
    np.testing.assert_allclose(as_float64(script(x)), as_float64(heads(x)), rtol=0.05, atol=0.02)
    assert "jg_attention" in str(script.traffic(x))
    heads.dropout = 0.5
    script(x)
    assert "jg_attention" not in str(script.traffic(x))
