"""Whole models, eager against scripted: values, gradients and random numbers, at several sizes of one compilation."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = [p.view(n, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).split(c, dim=2)]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(jitgrad.tril(jitgrad.ones(t, t)) == 0, float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(n, t, c))


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(self.narrow(F.gelu(self.wide(self.norm(x)))))


class Transformer(nn.Module):
    """A small GPT: (tokens, targets or None) -> (logits, loss or None)."""

    def __init__(self, vocabulary=30, width=16, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([nn.ModuleList([Attention(width, heads), Feed(width)]) for _ in range(layers)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, targets=None):
        x = self.embed(tokens)
        for attention, feed in self.layers:
            x = feed(x + attention(x))
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class GatedRecurrence(nn.Module):
    """A GRU cell by hand over a sequence, with an early exit when the state has settled."""

    def __init__(self, inputs, width):
        super().__init__()
        self.gates = nn.Linear(inputs + width, 2 * width)
        self.candidate = nn.Linear(inputs + width, width)
        self.width = width

    def forward(self, xs):
        h = jitgrad.zeros(xs.shape[1], self.width)
        steps = 0
        for t in range(xs.shape[0]):
            gates = jitgrad.sigmoid(self.gates(jitgrad.cat([xs[t], h], dim=1)))
            reset, update = gates[:, : self.width], gates[:, self.width :]
            new = jitgrad.tanh(self.candidate(jitgrad.cat([xs[t], reset * h], dim=1)))
            following = update * h + (1 - update) * new
            steps += 1
            if bool((following - h).abs().max() < 0.02):
                break
            h = following
        return h.pow(2).sum(), steps


def run(call, model, seed):
    """Loss, gradients, other results of one call from a fixed random state."""
    jitgrad.manual_seed(seed)
    model.zero_grad()
    result = call()
    loss = next(r for r in reversed(result) if isinstance(r, jitgrad.Tensor))
    loss.backward()
    return result, [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]


def compare(model, calls):
    scripted = jitgrad.script(model)
    for seed, arguments in enumerate(calls):
        expected, gradients = run(lambda a=arguments: model(*a), model, seed)
        found, scripted_gradients = run(lambda a=arguments: scripted(*a), model, seed)
        for a, b in zip(expected, found, strict=True):
            if isinstance(a, jitgrad.Tensor):
                np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-5, atol=2e-6)
            else:
                assert a == b
        for a, b in zip(gradients, scripted_gradients, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-6)
    return scripted


@pytest.mark.parametrize("training", [True, False])
def test_transformer(training):
    jitgrad.manual_seed(0)
    model = Transformer().train(training)
    rng = np.random.default_rng(0)

    def tokens(*shape):
        return jitgrad.from_numpy(rng.integers(0, 30, shape))

    scripted = compare(model, [(tokens(*s), tokens(*s)) for s in ((3, 7), (2, 5), (4, 11))])
    assert scripted.cache_info().compilations == 1


def test_gated_recurrence_with_early_exit():
    jitgrad.manual_seed(0)
    rng = np.random.default_rng(0)
    calls = [(jitgrad.from_numpy((rng.standard_normal((t, 3, 5)) * scale).astype(np.float32)),)
             for t, scale in ((6, 1.0), (9, 0.01), (2, 1.0), (13, 0.5))]
    scripted = compare(GatedRecurrence(5, 8), calls)
    assert scripted.cache_info().compilations == 1
