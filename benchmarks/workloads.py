"""The workloads, each written once for every torch-like module and once for JAX: loss and gradients, no update.

Those of `models.py` are whole training steps, for torch-like modules only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import models


def mlp_loss(x, y, w1, b1, w2, b2, w3, b3):
    """A three-layer perceptron with ReLU and a squared error. (`torch` is any torch-like module.)"""
    h = (x.mm(w1) + b1).clamp(min=0)
    h = (h.mm(w2) + b2).clamp(min=0)
    return (h.mm(w3) + b3 - y).pow(2).mean()


def net_loss(x, y, w1, w2):
    """The lecture's two-layer net."""
    return (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()


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


def jax_mlp_loss(jnp: Any) -> Callable[..., Any]:
    def loss(x, y, w1, b1, w2, b2, w3, b3):
        h = jnp.maximum(x @ w1 + b1, 0)
        h = jnp.maximum(h @ w2 + b2, 0)
        return ((h @ w3 + b3 - y) ** 2).mean()

    return loss


def jax_net_loss(jnp: Any) -> Callable[..., Any]:
    def loss(x, y, w1, w2):
        return ((jnp.maximum(x @ w1, 0) @ w2 - y) ** 2).sum()

    return loss


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


@dataclass(frozen=True)
class Workload:
    """`data` are constant inputs, `weights` need gradients; all float32 arrays.

    Or a whole training step, `training`: a torch-like module -> the step and its arguments.
    """

    name: str
    loss: Callable[..., Any] | None = None
    jax_loss: Callable[[Any], Callable[..., Any]] | None = None
    data: tuple[np.ndarray, ...] = ()
    weights: tuple[np.ndarray, ...] = ()
    training: Callable[[Any], models.Training] | None = None


def normal(*shape: int, seed: int, scale: float = 1.0) -> np.ndarray:
    """Reproducible float32 values."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _mlp(batch: int, sizes: tuple[int, ...]) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    weights: list[np.ndarray] = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        weights += [normal(a, b, seed=i, scale=a**-0.5), np.zeros(b, np.float32)]
    return (normal(batch, sizes[0], seed=100), normal(batch, sizes[-1], seed=101)), tuple(weights)


def all_workloads() -> list[Workload]:
    """The rows of the benchmark table."""
    mlp_data, mlp_weights = _mlp(8, (8, 64, 32, 10))
    rows = [
        Workload("MLP 8-64-32-10, batch 8", mlp_loss, jax_mlp_loss, mlp_data, mlp_weights),
        Workload("net 64,1000,100,10", net_loss, jax_net_loss, (normal(64, 1000, seed=0), normal(64, 10, seed=1)),
                 (normal(1000, 100, seed=2, scale=0.03), normal(100, 10, seed=3, scale=0.1))),
    ]
    for steps, batch, hidden in ((32, 1, 32), (64, 16, 64)):
        rows.append(Workload(
            f"RNN T={steps} B={batch} H={hidden}", rnn_loss, jax_rnn_loss,
            (normal(steps, batch, hidden, seed=0), np.zeros((batch, hidden), np.float32)),
            (normal(hidden, hidden, seed=1, scale=0.7 * hidden**-0.5),
             normal(hidden, hidden, seed=2, scale=0.7 * hidden**-0.5))))
    steps, batch, hidden = 64, 16, 64
    rows.append(Workload(
        f"LSTM T={steps} B={batch} H={hidden}", lstm_loss, jax_lstm_loss,
        (normal(steps, batch, hidden, seed=0), *[np.zeros((batch, hidden), np.float32)] * 2),
        (*(normal(hidden, 4 * hidden, seed=s, scale=hidden**-0.5) for s in (1, 2)), np.zeros(4 * hidden, np.float32))))
    rows += [Workload(f"GPT of {n} layers, whole step", training=models.gpt(n)) for n in (3, 12)]
    return rows
