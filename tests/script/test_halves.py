"""Half types in scripts: interpreted and native code give eager's values, to the bit where no order of sums differs."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F


def arithmetic(x, y):
    return x * 0.3 + y / 3 - 1.7 / x.abs().clamp(min=0.5) + (x * y).tanh()


def in_place(x, y):
    return x.clone().mul_(0.999).add_(y, alpha=0.3).addcmul_(x, y, value=0.1)


def numbers(x, y):
    return x * x[0, 0].item() + y / (y.shape[0] + 0.1) + x[0, 1] * 0.3 - x.sum() / 7


def reductions(x, y):
    return x.sum(0) + y.mean(0) + (x * y).prod(0) + x.amax(0) + x.var(0) + x.cumsum(0)[1]


def normalised(x, y):
    return F.layer_norm(x * y, (4,)) + F.softmax(x, 1) * F.log_softmax(y, 1) + F.gelu(x) + F.silu(y)


def products(x, y):
    return F.linear(x, y, y[:, 0]) @ x + (x.reshape(3, 2, 2) @ y.reshape(3, 2, 2)).sum(0).reshape(4)


def indexed(x, y):
    return (x.index_add(0, jitgrad.tensor([0, 0, 1]), y) * x.scatter_add(1, jitgrad.zeros(3, 4, dtype=jitgrad.int64), y)
            + x[jitgrad.tensor([0, 2, 0])] * y[1:, ::2].sum() + x.sort(1)[0] * y.topk(4, 1)[0])


def joined(x, y):
    return F.pad(jitgrad.cat([x, y], 1), (1, 2), value=0.1) + jitgrad.full((11,), 0.1, dtype=x.dtype)


def mixed(x, y):
    return jitgrad.where(x > y, x * 1.1, y) * jitgrad.ones(4) + y.float().sum() + x.half() * 1.0


def empty(x, y):
    return (x[:0] * y[:0]).sum(0) + x[0] + y[0, 0]


def convolved(x, y):
    return F.conv1d(x[None], jitgrad.ones(2, 3, 2, dtype=x.dtype) * 0.3) + F.max_pool1d(y[None, :2], 2, 1)


def losses(x, y):
    return F.cross_entropy(x, jitgrad.tensor([0, 1, 3])) + F.mse_loss(x, y) + F.smooth_l1_loss(x, y)


def attention(x, y):
    return F.scaled_dot_product_attention(x[None], y[None], x[None])


def rounding(x, y):
    return (x > 0.1).to(x.dtype) + (y * 3).floor() + (x.abs() + 0.1) ** 1.3 + x.remainder(0.3) + x.fmod(y)


def looped(x, y):
    s, i = x, 0
    while i < 4:
        s = s * 0.9 + y * 0.1
        if s.sum() > 0:
            s = s - 0.01
        i += 1
    return s


def drawn(x, y):
    return x * jitgrad.rand(3, 4, dtype=x.dtype) + jitgrad.randn(3, 4, dtype=x.dtype) + F.dropout(y, 0.5)


PROGRAMS = (arithmetic, in_place, numbers, reductions, normalised, products, indexed, joined, mixed, empty, convolved,
            losses, attention, rounding, looped, drawn)


def run(f: Any, dtype: Any, turned: bool) -> list[Any]:
    jitgrad.manual_seed(0)
    rng = np.random.default_rng(0)
    xs = [jitgrad.tensor(rng.normal(size=(3, 4)).astype(np.float32)).to(dtype).requires_grad_() for _ in range(2)]
    y = f(*[x.t().contiguous().t() for x in xs] if turned else xs)
    (y.float() * jitgrad.arange(y.numel()).reshape(y.shape).cos()).sum().backward()
    return [y.detach(), *[x.grad for x in xs]]


@pytest.mark.parametrize("dtype", [jitgrad.bfloat16, jitgrad.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program: Any, turned: bool, dtype: Any) -> None:
    expected = run(program, dtype, turned)
    with config.override(interpret=True):
        interpreted = run(jitgrad.script(program), dtype, turned)
    native = run(jitgrad.script(program), dtype, turned)
    step = jitgrad.finfo(dtype).eps
    for k, (a, b, c) in enumerate(zip(expected, interpreted, native, strict=True)):
        assert a.dtype is b.dtype is c.dtype
        wide = [t.double().numpy() for t in (a, b, c)]
        scale = np.abs(wide[0]).max(initial=1)
        for found in wide[1:]:  # cotangents of several uses are added in another order
            np.testing.assert_allclose(found, wide[0], 0, 2 * step * scale if k else 1e-6 * scale)


def test_infinities_nan_and_denormals() -> None:
    bits = np.array([0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x7F7F, 0xFF7F, 0x0080, 0x3F80] * 3, np.uint16)
    x = jitgrad.from_numpy(bits.view(jitgrad.bfloat16.np))

    def f(x):
        return x * 0.5, x + x.flip(0), x / x.flip(0), -x, x.abs().sqrt(), x.float(), x.double().bfloat16(), x.clamp(-1)

    for a, b in zip(jitgrad.script(f)(x), f(x), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a.float().numpy(), b.float().numpy())


class Model(jitgrad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = jitgrad.nn.Linear(4, 3), jitgrad.nn.LayerNorm(3)

    def forward(self, x):
        return F.gelu(self.norm(self.linear(x))) * 0.3


def test_saved_programs() -> None:
    model, x = jitgrad.script(Model().bfloat16()), jitgrad.randn(2, 4).bfloat16()
    expected, file = model(x), io.BytesIO()
    jitgrad.jit.save(model, file)
    file.seek(0)
    loaded = jitgrad.jit.load(file)
    found = loaded(x)
    assert loaded.linear.weight.dtype is found.dtype is jitgrad.bfloat16
    assert jitgrad.equal(found, expected)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training_in_bfloat16(name: str) -> None:
    """Parameters and the optimizer's state are bfloat16; a scripted step is eager's."""
    states = []
    for compiled in (False, True):
        jitgrad.manual_seed(0)
        model = Model().bfloat16()
        optimizer = getattr(jitgrad.optim, name)(model.parameters(), lr=1e-2)

        def step(x, model=model, optimizer=optimizer):
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        f = jitgrad.script(step) if compiled else step
        for _ in range(3):
            f(jitgrad.randn(5, 4).bfloat16())
        states.append([*model.parameters(), *[v for s in optimizer.state.values() for k, v in s.items()
                                              if isinstance(v, jitgrad.Tensor) and k != "step"]])
    for a, b in zip(*states, strict=True):
        assert a.dtype is b.dtype is jitgrad.bfloat16
        np.testing.assert_allclose(a.detach().float().numpy(), b.detach().float().numpy(), 2e-2, 1e-3)
