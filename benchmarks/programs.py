"""The programs of the table of peers, each written once for every torch-like module and once for JAX.

A program is a loss over `data` and `weights`; with an optimizer, a step of training. Where `data` holds several
tuples, they take turns: other batch sizes, other lengths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """One row of the table.

    Attributes:
        loss: torch-like module -> the loss of (*data, *weights).
        jax_loss: the same for `jax.numpy`.
        data: what the loss is given in turn: float32 or int64 arrays and Python numbers.
        weights: float32 arrays that get gradients.
        optimizer: name and arguments of what updates them; without it, loss and gradients are all.
        wanted: the best peer's time over ours that is wanted.
        tolerance: of results of two systems, relative to their largest number.
    """

    name: str
    loss: Callable[[Any], Callable[..., Any]]
    jax_loss: Callable[[Any], Callable[..., Any]]
    data: tuple[Arrays, ...]
    weights: Arrays
    optimizer: tuple[str, Mapping[str, Any]] | None = None
    wanted: float = 1.0
    tolerance: float = 2e-3


def normal(*shape: int, seed: int, scale: float = 1.0) -> np.ndarray:
    """Reproducible float32 values."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


# --- losses for torch-like modules, and for JAX --------------------------------------------------------------------


def rnn_loss(xs, h, wx, wh):
    """A plain recurrent net; the loop is as long as the sequence."""
    for t in range(xs.shape[0]):
        h = (xs[t].mm(wx) + h.mm(wh)).tanh()
    return h.pow(2).sum()


def lstm_loss(xs, h, c, wx, wh, b):
    """An LSTM written by hand, its four gates in one matrix."""
    for t in range(xs.shape[0]):
        i, f, g, o = (xs[t].mm(wx) + h.mm(wh) + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h.pow(2).sum()


def jax_rnn_loss(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(xs, h, wx, wh):
        def body(h, x):
            return jnp.tanh(x @ wx + h @ wh), None

        h, _ = jax.lax.scan(body, h, xs)
        return (h**2).sum()

    return loss


def jax_lstm_loss(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(xs, h, c, wx, wh, b):
        def body(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        (h, _), _ = jax.lax.scan(body, (h, c), xs)
        return (h**2).sum()

    return loss


def chosen(torch: Any) -> Callable[..., Any]:
    """The lecture's net, whose second weight a float chooses."""
    def loss(x, y, previous: float, w1, w2, w3):
        w = w2 if previous > 5.0 else w3
        return (x.mm(w1).clamp(min=0).mm(w) - y).pow(2).sum()

    return loss


def jax_chosen(jnp: Any) -> Callable[..., Any]:
    def loss(x, y, previous, w1, w2, w3):
        w = jnp.where(previous > 5.0, w2, w3)
        return ((jnp.maximum(x @ w1, 0) @ w - y) ** 2).sum()

    return loss


def perceptron(torch: Any) -> Callable[..., Any]:
    """Two layers with ReLU and a squared error."""
    def loss(x, y, w1, b1, w2, b2):
        return ((x.mm(w1) + b1).clamp(min=0).mm(w2) + b2 - y).pow(2).mean()

    return loss


def jax_perceptron(jnp: Any) -> Callable[..., Any]:
    def loss(x, y, w1, b1, w2, b2):
        return ((jnp.maximum(x @ w1 + b1, 0) @ w2 + b2 - y) ** 2).mean()

    return loss


def gru(torch: Any) -> Callable[..., Any]:
    """A GRU written by hand, its gates in two matrices."""
    def loss(xs, h, wx, wh, b):
        for t in range(xs.shape[0]):
            xr, xz, xn = (xs[t].mm(wx) + b).chunk(3, 1)
            hr, hz, hn = h.mm(wh).chunk(3, 1)
            z = (xz + hz).sigmoid()
            h = (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h
        return h.pow(2).sum()

    return loss


def jax_gru(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(xs, h, wx, wh, b):
        def body(h, x):
            xr, xz, xn = jnp.split(x @ wx + b, 3, axis=1)
            hr, hz, hn = jnp.split(h @ wh, 3, axis=1)
            z = jax.nn.sigmoid(xz + hz)
            return (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h, None

        h, _ = jax.lax.scan(body, h, xs)
        return (h**2).sum()

    return loss


def norm(torch: Any) -> Callable[..., Any]:
    """GELU of a sum with a bias, a residual, LayerNorm."""
    F = torch.nn.functional

    def loss(target, x, r, bias, gain, shift):
        y = F.layer_norm(F.gelu(x + bias) + r, (x.shape[1],), gain, shift)
        return (y * target).sum()

    return loss


def jax_norm(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(target, x, r, bias, gain, shift):
        y = jax.nn.gelu(x + bias, approximate=False) + r
        centred = y - y.mean(-1, keepdims=True)
        y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gain + shift
        return (y * target).sum()

    return loss


def entropy(torch: Any) -> Callable[..., Any]:
    """Softmax and cross-entropy."""
    def loss(y, x):
        return torch.nn.functional.cross_entropy(x, y)

    return loss


def jax_entropy(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(y, x):
        return (jax.nn.logsumexp(x, axis=1) - jnp.take_along_axis(x, y[:, None], axis=1)[:, 0]).mean()

    return loss


def attention(torch: Any) -> Callable[..., Any]:
    """Multi-head attention with its projections, 8 heads."""
    def loss(x, qkv, out):
        n, t, c = x.shape
        q, k, v = [p.reshape(n, t, 8, c // 8).transpose(1, 2) for p in (x @ qkv).chunk(3, -1)]
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (x + y.transpose(1, 2).reshape(n, t, c) @ out).pow(2).mean()

    return loss


def jax_attention(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(x, qkv, out):
        n, t, c = x.shape
        q, k, v = (p.reshape(n, t, 8, c // 8) for p in jnp.split(x @ qkv, 3, axis=-1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return ((x + y.reshape(n, t, c) @ out) ** 2).mean()

    return loss


def lenet(torch: Any) -> Callable[..., Any]:
    """Two convolutions with pooling, three linear layers."""
    F = torch.nn.functional

    def loss(x, y, k1, b1, k2, b2, w1, c1, w2, c2, w3, c3):
        h = F.max_pool2d(F.relu(F.conv2d(x, k1, b1, padding=2)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, k2, b2)), 2).flatten(1)
        h = F.relu(h @ w1 + c1)
        return F.cross_entropy(F.relu(h @ w2 + c2) @ w3 + c3, y)

    return loss


def jax_lenet(jnp: Any) -> Callable[..., Any]:
    import jax

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def conv(x, k, b, padding):
        return jax.lax.conv_general_dilated(x, k, (1, 1), padding) + b[:, None, None]

    def loss(x, y, k1, b1, k2, b2, w1, c1, w2, c2, w3, c3):
        h = pool(jax.nn.relu(conv(x, k1, b1, [(2, 2), (2, 2)])))
        h = pool(jax.nn.relu(conv(h, k2, b2, "VALID")))
        h = jax.nn.relu(h.reshape(h.shape[0], -1) @ w1 + c1)
        z = jax.nn.relu(h @ w2 + c2) @ w3 + c3
        return (jax.nn.logsumexp(z, axis=1) - jnp.take_along_axis(z, y[:, None], axis=1)[:, 0]).mean()

    return loss


def black_scholes(torch: Any) -> Callable[..., Any]:
    """The price of European calls, summed."""
    def loss(rate: float, spot, strike, years, sigma):
        root = sigma * years.sqrt()
        d1 = ((spot / strike).log() + (rate + 0.5 * sigma * sigma) * years) / root
        d2 = d1 - root
        n1, n2 = 0.5 * (1 + torch.erf(d1 * 0.7071067811865476)), 0.5 * (1 + torch.erf(d2 * 0.7071067811865476))
        return (spot * n1 - strike * (-rate * years).exp() * n2).sum()

    return loss


def jax_black_scholes(jnp: Any) -> Callable[..., Any]:
    import jax

    def loss(rate, spot, strike, years, sigma):
        root = sigma * jnp.sqrt(years)
        d1 = (jnp.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / root
        n1, n2 = (0.5 * (1 + jax.lax.erf(d * 0.7071067811865476)) for d in (d1, d1 - root))
        return (spot * n1 - strike * jnp.exp(-rate * years) * n2).sum()

    return loss


def newton(torch: Any) -> Callable[..., Any]:
    """Square roots by Newton's method until the largest step is small."""
    def loss(target, w):
        x = w.clone()
        steps = 0
        while steps < 20:
            new = 0.5 * (x + w / x)
            far = (new - x).abs().max() > 1e-4
            x = new
            steps += 1
            if not far:
                break
        return (x - target).pow(2).sum()

    return loss


def jax_newton(jnp: Any) -> Callable[..., Any]:
    """A loop of twenty, as `while_loop` has no gradient; what is done stays."""
    import jax

    def loss(target, w):
        def body(state, _):
            x, far = state
            new = 0.5 * (x + w / x)
            return (jnp.where(far, new, x), far & (jnp.abs(new - x).max() > 1e-4)), None

        (x, _), _ = jax.lax.scan(body, (w, jnp.asarray(True)), None, length=20)
        return ((x - target) ** 2).sum()

    return loss


def squares(torch: Any) -> Callable[..., Any]:
    """What gives each of many weights a gradient of its own; the optimizer is what is measured."""
    def loss(scale: float, *weights):
        total = weights[0].sum() * scale
        for k, w in enumerate(weights):
            total = total + (w * w).sum() * (0.01 * k)
        return total

    return loss


def jax_squares(jnp: Any) -> Callable[..., Any]:
    def loss(scale, *weights):
        return weights[0].sum() * scale + sum((w * w).sum() * (0.01 * k) for k, w in enumerate(weights))

    return loss


def chain(torch: Any) -> Callable[..., Any]:
    """Twenty pointwise ops, forward and backward."""
    def loss(target, x):
        y = x
        for _ in range(5):
            y = (y * 0.9 + 0.1).clamp(min=-1.0) - 0.05 * y * y
        return (y * target).sum()

    return loss


def jax_chain(jnp: Any) -> Callable[..., Any]:
    def loss(target, x):
        y = x
        for _ in range(5):
            y = jnp.maximum(y * 0.9 + 0.1, -1.0) - 0.05 * y * y
        return (y * target).sum()

    return loss


# --- the rows ------------------------------------------------------------------------------------------------------


def _layers(*sizes: int) -> Arrays:
    found: list[Any] = []
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        found += [normal(a, b, seed=k, scale=a**-0.5), np.zeros(b, np.float32)]
    return tuple(found)


def _batches(sizes: tuple[int, ...], a: int, b: int) -> tuple[Arrays, ...]:
    return tuple((normal(n, a, seed=100 + n), normal(n, b, seed=200 + n)) for n in sizes)


def _sequences(lengths: tuple[int, ...], batch: int, hidden: int, states: int = 1) -> tuple[Arrays, ...]:
    return tuple((normal(t, batch, hidden, seed=t), *[np.zeros((batch, hidden), np.float32)] * states) for t in lengths)


def _square(hidden: int, wide: int = 1) -> Arrays:
    return tuple(normal(hidden, wide * hidden, seed=s, scale=0.7 * hidden**-0.5) for s in (1, 2))


def _positive(n: int, low: float, high: float, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(low, high, n).astype(np.float32)


def _classes(n: int, of: int) -> Any:
    return np.arange(n, dtype=np.int64) * 7 % of


def programs() -> list[Program]:
    """The rows, in order."""
    def plain(loss: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
        return lambda torch: loss

    sgd, adam = ("SGD", {"lr": 1e-5}), ("Adam", {"lr": 1e-3})
    rnn, lstm = plain(rnn_loss), plain(lstm_loss)
    million = 1_000_000
    return [
        Program("lecture net 64-1000-100-10, chosen weight, SGD", chosen, jax_chosen,
                tuple((normal(64, 1000, seed=0), normal(64, 10, seed=1), p) for p in (7.5, 2.5)),
                (normal(1000, 100, seed=2, scale=0.03), *(normal(100, 10, seed=s, scale=0.1) for s in (3, 4))), sgd,
                1.6),
        Program("MLP 64-32-10, batch 8, Adam", perceptron, jax_perceptron, _batches((8,), 64, 10), _layers(64, 32, 10),
                adam, 3.0),
        Program("the same, 12 batch sizes in turn", perceptron, jax_perceptron,
                _batches(tuple(range(4, 28, 2)), 64, 10), _layers(64, 32, 10), adam, 6.0),
        Program("MLP 1024-1024, batch 256, SGD", perceptron, jax_perceptron, _batches((256,), 1024, 1024),
                _layers(1024, 1024, 1024), sgd, 1.1),
        Program("RNN T=64 B=16 H=64", rnn, jax_rnn_loss, _sequences((64,), 16, 64), _square(64), None, 3.0),
        Program("RNN T=32 B=1 H=32", rnn, jax_rnn_loss, _sequences((32,), 1, 32), _square(32), None, 3.0),
        Program("RNN, 10 lengths in turn", rnn, jax_rnn_loss, _sequences(tuple(range(20, 40, 2)), 4, 32), _square(32),
                None, 3.0),
        Program("GRU T=50 B=8 H=128", gru, jax_gru, _sequences((50,), 8, 128),
                (*_square(128, 3), np.zeros(384, np.float32)), None, 3.0),
        Program("LSTM T=40 B=32 H=128", lstm, jax_lstm_loss, _sequences((40,), 32, 128, 2),
                (*_square(128, 4), np.zeros(512, np.float32)), None, 1.7),
        Program("GELU, bias, residual, LayerNorm 512x1024", norm, jax_norm, ((normal(512, 1024, seed=0),),),
                (normal(512, 1024, seed=1), normal(512, 1024, seed=2), normal(1024, seed=3), normal(1024, seed=4),
                 normal(1024, seed=5)), None, 2.0),
        Program("softmax cross-entropy 512x10000", entropy, jax_entropy, ((_classes(512, 10_000),),),
                (normal(512, 10_000, seed=0),), None, 1.6),
        Program("attention B=4 T=128 C=256 h=8", attention, jax_attention, ((normal(4, 128, 256, seed=0),),),
                (normal(256, 768, seed=1, scale=0.06), normal(256, 256, seed=2, scale=0.06)), None, 1.5),
        Program("LeNet, batch 64", lenet, jax_lenet, ((normal(64, 1, 28, 28, seed=0), _classes(64, 10)),),
                (normal(6, 1, 5, 5, seed=1, scale=0.2), np.zeros(6, np.float32), normal(16, 6, 5, 5, seed=2, scale=0.1),
                 np.zeros(16, np.float32), *_layers(400, 120, 84, 10)), None, 1.6),
        Program("Black-Scholes and gradient, 1M", black_scholes, jax_black_scholes, ((0.02,),),
                (_positive(million, 50, 150, 0), _positive(million, 50, 150, 1), _positive(million, 0.2, 2, 2),
                 _positive(million, 0.1, 0.5, 3)), None, 4.0, tolerance=2e-2),
        Program("Newton, while and break, 1000, SGD", newton, jax_newton, ((_positive(1000, 1, 3, 0),),),
                (_positive(1000, 1, 9, 1),), ("SGD", {"lr": 1e-6}), 2.0),
        Program("AdamW of 60 tensors, 3M", squares, jax_squares, ((0.5,),),
                tuple(normal(250, 200, seed=k) for k in range(60)), ("AdamW", {"lr": 1e-3}), 1.15),
        Program("20 pointwise ops, 1M", chain, jax_chain, ((normal(million, seed=0),),), (normal(million, seed=1),),
                None, 3.0),
    ]


__all__ = ["Program", "programs"]
