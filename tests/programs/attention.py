"""Attention in its forms: masks, positions, windows, caches, and the linear recurrences that replace it."""

from __future__ import annotations

import math

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import data, ints, program, tokens, weight


@program(
    (data(2, 4, 6), weight(6, 18), 2),
    (data(3, 7, 6), weight(6, 18), 3),
    (data(2, 2, 6), weight(6, 18), 2),
)
def causal_self_attention(x, w_qkv, heads: int):
    b, t, c = x.shape
    q, k, v = (x @ w_qkv).split(c, dim=2)
    q = q.view(b, t, heads, c // heads).transpose(1, 2)
    k = k.view(b, t, heads, c // heads).transpose(1, 2)
    v = v.view(b, t, heads, c // heads).transpose(1, 2)
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    mask = torch.tril(torch.ones(t, t)) == 0
    att = att.masked_fill(mask, float("-inf"))
    y = F.softmax(att, dim=-1) @ v
    return y.transpose(1, 2).contiguous().view(b, t, c)


@program(
    (data(5, 4), weight(4, 4), weight(4, 4), 2),
    (data(8, 4), weight(4, 4), weight(4, 4), 3),
    (data(2, 4), weight(4, 4), weight(4, 4), 50),
)
def sliding_window_per_query(x, w_q, w_k, window: int):
    """Each query sees itself and what lies at most `window` back; a loop with slices of run-time bounds."""
    q, k = x @ w_q, x @ w_k
    rows = []
    for t in range(x.shape[0]):
        start = max(0, t - window)
        scores = k[start:t + 1] @ q[t] / math.sqrt(q.shape[1])
        rows.append(scores.softmax(0) @ x[start:t + 1])
    return torch.stack(rows)


@program(
    (data(2, 5, 4), weight(2)),
    (data(2, 3, 4), weight(2)),
)
def alibi(x, slopes):
    t = x.size(1)
    position = torch.arange(t)
    distance = (position[None, :] - position[:, None]).to(x.dtype)
    bias = slopes.view(-1, 1, 1) * distance
    bias = bias.masked_fill(position[None, :] > position[:, None], float("-inf"))
    scores = x @ x.transpose(1, 2) / 2 + bias
    return scores.softmax(-1) @ x


@program(
    (weight(3, 6), 0, 10000.0),
    (weight(5, 6), 4, 10000.0),
    (weight(2, 6), 100, 500.0),
)
def rotary(x, offset: int, base: float):
    half = x.shape[-1] // 2
    frequency = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = torch.outer(torch.arange(offset, offset + x.shape[0]).float(), frequency)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@program(
    (data(4, 4), weight(7, 4), 3),
    (data(6, 4), weight(7, 4), 3),
    (data(2, 4), weight(7, 4), 3),
)
def relative_positions(x, table, clip: int):
    t = x.size(0)
    index = torch.arange(t).unsqueeze(0) - torch.arange(t).unsqueeze(1)
    index = index.clamp(-clip, clip) + clip
    scores = x @ x.t() + torch.einsum("id,ijd->ij", x, table[index])
    return torch.softmax(scores, dim=-1) @ x


@program(
    (weight(6, 4), weight(4, 4), weight(4, 6), ints(1, 2), 4),
    (weight(6, 4), weight(4, 4), weight(4, 6), ints(0, 3, 5), 0),
    (weight(6, 4), weight(4, 4), weight(4, 6), ints(5, 5, 5, 5), 7),
)
def decode_with_cache(embed, w, out, prompt, n: int):
    """The cache grows by `cat`, one key and value per token."""
    x = embed[prompt]
    keys, values = x @ w, x.tanh()
    token = prompt[-1]
    said = []
    for _ in range(n):
        q = embed[token]
        attended = F.softmax(keys @ q / 2.0, dim=0) @ values
        token = (attended @ out).argmax()
        said.append(token.item())
        new = embed[token].unsqueeze(0)
        keys = torch.cat([keys, new @ w])
        values = torch.cat([values, new.tanh()])
    return keys, values, said


@program(
    (data(4, 3, 6), 8),
    (data(7, 3, 6), 7),
    (data(3, 3, 6), 3),
)
class CachedAttention(nn.Module):
    """Buffers of fixed length that the steps write into; reading is cut to what is written."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(6, 6), nn.Linear(6, 12)
        self.register_buffer("position", torch.zeros((), dtype=torch.long))

    def step(self, x, cache_k, cache_v, at: int):
        k, v = self.kv(x).chunk(2, dim=-1)
        cache_k[at] = k
        cache_v[at] = v
        score = (cache_k[:at + 1] * self.q(x)).sum(-1)
        return (score.softmax(0).unsqueeze(-1) * cache_v[:at + 1]).sum(0)

    def forward(self, xs, size: int):
        cache_k = torch.zeros(size, xs.size(1), 6)
        cache_v = torch.zeros(size, xs.size(1), 6)
        outs = []
        with torch.no_grad():
            for t, x in enumerate(xs):
                outs.append(self.step(x, cache_k, cache_v, t))
                self.position += 1
        return torch.stack(outs)


@program(
    (weight(5, 3), weight(5, 3, seed=2), weight(5, 2, seed=3)),
    (weight(2, 3), weight(2, 3, seed=2), weight(2, 2, seed=3)),
    (weight(9, 3), weight(9, 3, seed=2), weight(9, 2, seed=3)),
)
def linear_attention(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = torch.zeros(q.shape[1], v.shape[1])
    normaliser = torch.zeros(q.shape[1])
    outs = []
    for t in range(q.shape[0]):
        state = state + torch.outer(k[t], v[t])
        normaliser = normaliser + k[t]
        outs.append(q[t] @ state / (q[t] @ normaliser + 1e-6))
    return torch.stack(outs)


@program(
    (data(6), weight(4, 4, scale=0.3), weight(4), weight(4, seed=3), 0.1),
    (data(3), weight(4, 4, scale=0.3), weight(4), weight(4, seed=3), 0.5),
    (data(2), weight(4, 4, scale=0.3), weight(4), weight(4, seed=3), 1e-3),
)
def state_space(u, a, b, c, step: float):
    """The bilinear discretisation of a linear system, then its recurrence."""
    eye = torch.eye(4)
    left = torch.linalg.inv(eye - step / 2 * a)
    a_bar, b_bar = left @ (eye + step / 2 * a), left @ (b * step)
    x = torch.zeros(4)
    ys = torch.zeros_like(u)
    for t in range(u.size(0)):
        x = a_bar @ x + b_bar * u[t]
        ys[t] = c @ x
    return ys


@program(
    (data(2, 5, 3), weight(3, 3), weight(3, 4), weight(3, 4, seed=7), weight(3, 4, seed=8)),
    (data(3, 2, 3), weight(3, 3), weight(3, 4), weight(3, 4, seed=7), weight(3, 4, seed=8)),
)
def selective_scan(x, w_delta, w_b, w_c, log_a):
    """Mamba's recurrence: step sizes and input maps depend on the input."""
    delta = F.softplus(x @ w_delta)
    b, c = x @ w_b, x @ w_c
    a = -torch.exp(log_a)
    h = torch.zeros(x.size(0), x.size(2), log_a.size(1))
    ys = []
    for t in range(x.size(1)):
        decay = torch.exp(delta[:, t].unsqueeze(-1) * a)
        h = decay * h + (delta[:, t] * x[:, t]).unsqueeze(-1) * b[:, t].unsqueeze(1)
        ys.append((h * c[:, t].unsqueeze(1)).sum(-1))
    return torch.stack(ys, dim=1)


@program(
    (data(2, 3, 6), weight(4, 3, 3), 1),
    (data(1, 3, 9), weight(4, 3, 3), 2),
    (data(3, 3, 2), weight(4, 3, 3), 4),
)
def causal_convolution(x, w, dilation: int):
    """Taps by shifting: what lies before the beginning is zero."""
    taps = w.shape[2]
    out = torch.zeros(x.shape[0], w.shape[0], x.shape[2])
    for k in range(taps):
        shift = (taps - 1 - k) * dilation
        moved = F.pad(x, (shift, 0))[:, :, :x.shape[2]]
        out = out + torch.einsum("oc,nct->not", w[:, :, k], moved)
    return out


@program((5, 6), (2, 6), (9, 8))
def sinusoidal(length: int, width: int):
    position = torch.arange(length).unsqueeze(1)
    div = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    pe = torch.zeros(length, width)
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)
    return pe


@program(
    (weight(6, 4), weight(6, 4, seed=2), weight(6, 4, seed=3), 2),
    (weight(9, 4), weight(9, 4, seed=2), weight(9, 4, seed=3), 4),
    (weight(3, 4), weight(3, 4, seed=2), weight(3, 4, seed=3), 7),
)
def flash_style_blocks(q, k, v, block: int):
    """Exact attention in blocks with a running maximum and normaliser."""
    n, d = q.shape
    m = torch.full((n,), float("-inf"))
    total = torch.zeros(n)
    acc = torch.zeros(n, v.shape[1])
    for start in range((n + block - 1) // block):
        lo = start * block
        hi = min(lo + block, n)
        s = q @ k[lo:hi].t() / math.sqrt(d)
        new_m = torch.maximum(m, s.amax(dim=1))
        scale = torch.exp(m - new_m)
        p = torch.exp(s - new_m.unsqueeze(1))
        total = total * scale + p.sum(1)
        acc = acc * scale.unsqueeze(1) + p @ v[lo:hi]
        m = new_m
    return acc / total.unsqueeze(1)


@program(
    (data(7, 4), weight(4, 4), tokens(7, below=3, seed=4), 3),
    (data(4, 4), weight(4, 4), tokens(4, below=2, seed=4), 2),
    (data(5, 4), weight(4, 4), ints(0, 0, 0, 0, 0), 4),
)
def bucketed_attention(x, w, bucket, buckets: int):
    """Attention within hash buckets: a loop over buckets of run-time sizes, some of them empty."""
    out = torch.zeros_like(x)
    sizes = []
    for b in range(buckets):
        index = (bucket == b).nonzero().squeeze(1)
        sizes.append(index.numel())
        if index.numel() == 0:
            continue
        part = x[index] @ w
        weights = (part @ part.t()).softmax(dim=-1)
        out[index] = weights @ x[index]
    return out, sizes


@program(
    (data(3, 5, 4), ints(5, 2, 3), weight(4)),
    (data(2, 3, 4), ints(1, 3), weight(4)),
)
def masked_pooling(x, lengths, query):
    mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
    scores = (x * query).sum(-1).masked_fill(~mask, -1e9)
    pooled = (scores.softmax(-1).unsqueeze(-1) * x).sum(1)
    peak = x.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(dim=1).values
    mean = (x * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)
    return torch.cat([pooled, peak, mean], dim=-1)
