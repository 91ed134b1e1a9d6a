"""The workloads in JAX, each in its best mode: one jitted function, memory donated where it is overwritten.

    run = PEERS["layer_norm"](jax, **WORKLOADS["layer_norm"].sizes)
    run()               # one step; gives what the workload of that name gives

Numbers are those of `workloads.wave`. Products of float32 are as exact as ours (`jax_default_matmul_precision`).
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
PEERS: dict[str, Callable[..., Run]] = {}


def peer(make: Callable[..., Run]) -> Callable[..., Run]:
    """Register a workload under its function's name."""
    PEERS[make.__name__] = make
    return make


def load() -> Any:
    """JAX, told not to take all of the GPU's memory. ImportError."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_default_matmul_precision", "highest")
    return jax


def wave(jax: Any, *shape: int, by: float = 0.37, dtype: Any = None) -> Any:
    """`workloads.wave`."""
    count = 1
    for n in shape:
        count *= n
    jnp = jax.numpy
    x = jnp.sin((jnp.arange(count) % 8191).astype(jnp.float32) * by).reshape(shape)
    return x if dtype is None else x.astype(dtype)


def normed(jax: Any, x: Any, w: Any, b: Any = None) -> Any:
    """LayerNorm over the last axis, computed in float32."""
    jnp = jax.numpy
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    centred = wide - mean
    y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w.astype(jnp.float32)
    return (y if b is None else y + b.astype(jnp.float32)).astype(x.dtype)


def sgd_step(jax: Any, d: int, h: int, o: int) -> Callable[[Any, Any], Any]:
    """The lecture's net: the step on a batch. Parameters are donated."""
    shapes = ((h, d), (h,), (o, h), (o,))
    parameters = [wave(jax, *shape, by=0.2 + k) * 0.1 for k, shape in enumerate(shapes)]

    def loss(p: Any, x: Any, y: Any) -> Any:
        return ((jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3] - y) ** 2).sum()

    def step(p: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(p, x, y)
        return [a - 1e-4 * g for a, g in zip(p, gradients, strict=True)], value

    compiled = jax.jit(step, donate_argnums=0)

    def run(x: Any, y: Any) -> Any:
        nonlocal parameters
        parameters, value = compiled(parameters, x, y)
        return value

    return run


@peer
def mlp_step(jax: Any, n: int, d: int, h: int, o: int) -> Run:
    """One batch."""
    x, y, step = wave(jax, n, d), wave(jax, n, o, by=0.11), sgd_step(jax, d, h, o)
    return lambda: step(x, y)


@peer
def mlp_batches(jax: Any, n: int, d: int, h: int, o: int, batches: int) -> Run:
    """Another batch at each call."""
    xs = [wave(jax, n, d, by=0.37 + k / 97) for k in range(batches)]
    ys = [wave(jax, n, o, by=0.11 + k / 97) for k in range(batches)]
    step, turns = sgd_step(jax, d, h, o), itertools.cycle(range(batches))

    def run() -> Any:
        k = next(turns)
        return step(xs[k], ys[k])

    return run


@peer
def layer_norm(jax: Any, m: int, n: int) -> Run:
    """Result and three gradients in one function."""
    half = jax.numpy.bfloat16
    x = wave(jax, m, n, dtype=half)
    w, b = (wave(jax, n, by=c, dtype=half) for c in (0.5, 0.6))
    g = wave(jax, m, n, by=0.9, dtype=half)

    def f(x: Any, w: Any, b: Any, g: Any) -> Any:
        y, back = jax.vjp(lambda *a: normed(jax, *a), x, w, b)
        return y, *back(g)

    compiled = jax.jit(f)
    return lambda: compiled(x, w, b, g)[1]


@peer
def cross_entropy(jax: Any, m: int, v: int) -> Run:
    """Loss and gradient in one function."""
    jnp = jax.numpy
    x, y = wave(jax, m, v, dtype=jnp.bfloat16), jnp.arange(m) % v

    def loss(x: Any, y: Any) -> Any:
        wide = x.astype(jnp.float32)
        chosen = jnp.take_along_axis(wide, y[:, None], axis=1)[:, 0]
        return (jax.nn.logsumexp(wide, axis=1) - chosen).mean()

    compiled = jax.jit(jax.value_and_grad(loss))
    return lambda: compiled(x, y)[1]


@peer
def bias_gelu_dropout(jax: Any, m: int, n: int) -> Run:
    """The quick generator of random bits; its state is donated."""
    half = jax.numpy.bfloat16
    x, r = (wave(jax, m, n, by=c, dtype=half) for c in (0.37, 0.21))
    b, g = wave(jax, n, by=0.5, dtype=half), wave(jax, m, n, by=0.9, dtype=half)
    key = jax.random.key(0, impl="rbg")

    def f(x: Any, b: Any, r: Any, key: Any) -> Any:
        kept = jax.random.bernoulli(key, 0.9, x.shape)
        wide = jax.nn.gelu((x + b).astype(jax.numpy.float32), approximate=False)
        return jax.numpy.where(kept, wide / 0.9, 0).astype(x.dtype) + r

    def step(x: Any, b: Any, r: Any, g: Any, key: Any) -> Any:
        following, now = jax.random.split(key)
        y, back = jax.vjp(lambda x, b, r: f(x, b, r, now), x, b, r)
        return y, back(g), following

    compiled = jax.jit(step, donate_argnums=4)

    def run() -> Any:
        nonlocal key
        _, gradients, key = compiled(x, b, r, g, key)
        return gradients[2]

    return run


@peer
def adam(jax: Any, count: int, n: int) -> Run:
    """Parameters and moments are donated."""
    jnp = jax.numpy
    parameters = [wave(jax, n, by=0.1 + k) for k in range(count)]
    gradients = [wave(jax, n, by=0.77) for _ in parameters]
    state = (parameters, [jnp.zeros(n) for _ in parameters], [jnp.zeros(n) for _ in parameters], jnp.zeros(()))

    def step(state: Any, gradients: Any) -> Any:
        ps, ms, vs, k = state
        k = k + 1
        ms = [0.9 * m + 0.1 * g for m, g in zip(ms, gradients, strict=True)]
        vs = [0.999 * v + 0.001 * g * g for v, g in zip(vs, gradients, strict=True)]
        rate, scale = 1e-3 / (1 - 0.9 ** k), jnp.sqrt(1 - 0.999 ** k)
        ps = [p - rate * m / (jnp.sqrt(v) / scale + 1e-8) for p, m, v in zip(ps, ms, vs, strict=True)]
        return ps, ms, vs, k

    compiled = jax.jit(step, donate_argnums=0)

    def run() -> Any:
        nonlocal state
        state = compiled(state, gradients)
        return state[0][0]

    return run


@peer
def lstm(jax: Any, t: int, b: int, h: int) -> Run:
    """A scan; the product with the inputs is made before it."""
    jnp = jax.numpy
    half = jnp.bfloat16
    x = wave(jax, t, b, h, dtype=half)
    wx, wh = (wave(jax, h, 4 * h, by=c, dtype=half) * half(0.02) for c in (0.3, 0.4))
    bias = wave(jax, 4 * h, by=0.5, dtype=half)

    def f(x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        def cell(state: Any, given: Any) -> Any:
            hidden, kept = state
            i, f, g, o = jnp.split(given + hidden @ wh + bias, 4, axis=-1)
            kept = jax.nn.sigmoid(f) * kept + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(kept), kept), None

        zero = jnp.zeros((b, h), half)
        (hidden, _), _ = jax.lax.scan(cell, (zero, zero), x @ wx)
        return hidden

    compiled = jax.jit(f)
    return lambda: compiled(x, wx, wh, bias)


@peer
def newton(jax: Any, n: int) -> Run:
    """A loop on the device."""
    jnp = jax.numpy
    mean = wave(jax, n) * 3

    def f(mean: Any, e: Any, tolerance: Any) -> Any:
        def more(state: Any) -> Any:
            return jnp.abs(state[1]).max() > tolerance

        def body(state: Any) -> Any:
            x, _ = state
            step = (x - e * jnp.sin(x) - mean) / (1 - e * jnp.cos(x))
            return x - step, step

        return jax.lax.while_loop(more, body, (mean, jnp.ones_like(mean)))[0]

    compiled = jax.jit(f)
    return lambda: compiled(mean, 0.3, 1e-5)


@peer
def block(jax: Any, b: int, t: int, c: int, heads: int) -> Run:
    """Attention by cuDNN on a GPU."""
    jnp = jax.numpy
    half = jnp.bfloat16
    x, g = wave(jax, b, t, c, dtype=half), wave(jax, b, t, c, by=0.9, dtype=half)
    shapes = ((c, 3 * c), (c, c), (c, 4 * c), (4 * c, c), (c,), (c,))
    ws = [(wave(jax, *shape, by=0.1 + k) * 0.05).astype(half) for k, shape in enumerate(shapes)]
    how = "cudnn" if jax.default_backend() == "gpu" else None

    def f(x: Any, qkv: Any, out: Any, up: Any, down: Any, one: Any, two: Any) -> Any:
        q, k, v = (p.reshape(b, t, heads, c // heads) for p in jnp.split(normed(jax, x, one) @ qkv, 3, axis=-1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=how)
        x = x + y.reshape(b, t, c) @ out
        return x + jax.nn.gelu(normed(jax, x, two) @ up, approximate=True) @ down

    return pulled(jax, f, g, x, *ws)


def pulled(jax: Any, f: Callable[..., Any], g: Any, *given: Any) -> Run:
    """A function and its gradients as one: the gradient of the first argument."""
    def step(g: Any, *given: Any) -> Any:
        y, back = jax.vjp(f, *given)
        return y, back(g)

    compiled = jax.jit(step)
    return lambda: compiled(g, *given)[1][0]


@peer
def attention(jax: Any, b: int, heads: int, t: int, d: int) -> Run:
    """By cuDNN on a GPU; heads are behind the time there."""
    half = jax.numpy.bfloat16
    q, k, v, g = (wave(jax, b, heads, t, d, by=c, dtype=half) for c in (0.37, 0.21, 0.45, 0.9))
    how = "cudnn" if jax.default_backend() == "gpu" else None

    def f(*given: Any) -> Any:
        q, k, v = (x.transpose(0, 2, 1, 3) for x in given)
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=how).transpose(0, 2, 1, 3)

    return pulled(jax, f, g, q, k, v)


def softmax_of(jax: Any, m: int, n: int) -> Run:
    """Computed in float32."""
    half = jax.numpy.bfloat16
    x, g = wave(jax, m, n, dtype=half), wave(jax, m, n, by=0.9, dtype=half)
    return pulled(jax, lambda x: jax.nn.softmax(x.astype(jax.numpy.float32), -1).astype(half), g, x)


PEERS.update(softmax_1024=softmax_of, softmax_50257=softmax_of)


@peer
def batch_norm(jax: Any, n: int, c: int, h: int) -> Run:
    """Over all axes but the channels'."""
    x, g = wave(jax, n, c, h, h), wave(jax, n, c, h, h, by=0.9)
    w, b = (wave(jax, c, by=a) for a in (0.5, 0.6))

    def f(x: Any, w: Any, b: Any) -> Any:
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w[:, None, None] + b[:, None, None]

    return pulled(jax, f, g, x, w, b)


@peer
def transposed(jax: Any, n: int) -> Run:
    """A copy."""
    x, compiled = wave(jax, n, n), jax.jit(lambda x: x.T.copy())
    return lambda: compiled(x)


@peer
def call(jax: Any, n: int) -> Run:
    """One kernel."""
    x, compiled = wave(jax, n) + 1, jax.jit(lambda x: x + x)
    return lambda: compiled(x)


__all__ = ["PEERS", "load", "wave"]
