"""Ten whole models: values and gradients of the scripted loss, and the whole training step as one program.

A step is forward, backward, the optimizer's step and `zero_grad` in one scripted function; after five of them, over
batches of different sizes, the weights are eager's, and nothing was compiled twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn, optim
from jitgrad.nn import functional as F
from tests.test_models import Transformer
from tests.test_models_conv import LeNet, ResNet, assert_equal_state, assert_same
from tests.test_models_seq import Classifier, LanguageModel, Translator


class Autoencoder(nn.Module):
    """A variational autoencoder of binary images. Kingma and Welling, 2014."""

    def __init__(self, pixels=12, width=16, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, width), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, pixels))

    def sample(self, mean, log_variance):
        if self.training:
            return mean + jitgrad.randn_like(mean) * jitgrad.exp(0.5 * log_variance)
        return mean

    def forward(self, x, beta: float):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        logits = self.decoder(self.sample(mean, log_variance))
        fit = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * jitgrad.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return (fit + beta * divergence) / x.shape[0]


class Experts(nn.Module):
    """A sparse mixture: each token goes to its best two experts, which see only their tokens. Shazeer et al., 2017."""

    def __init__(self, width=6, experts=3, k=2, classes=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, width))
                                      for _ in range(experts)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.k = k

    def forward(self, x, y):
        probabilities = F.softmax(self.gate(x), dim=-1)
        weights, chosen = probabilities.topk(self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = jitgrad.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, places = (chosen == e).nonzero(as_tuple=True)
            if rows.numel() > 0:
                mixed = mixed.index_add(0, rows, expert(x[rows]) * weights[rows, places].unsqueeze(1))
        load = F.one_hot(chosen[:, 0], len(self.experts)).float().mean(0)
        balance = len(self.experts) * (load * probabilities.mean(0)).sum()
        return F.cross_entropy(self.head(self.norm(x + mixed)), y) + 0.01 * balance


class TreeLSTM(nn.Module):
    """Binary trees in postfix order, on an explicit stack: a word is pushed, -1 joins two. Tai et al., 2015."""

    def __init__(self, vocabulary=10, width=5, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.leaf = nn.Linear(width, 3 * width)
        self.join = nn.Linear(2 * width, 5 * width)
        self.head = nn.Linear(width, classes)

    def forward(self, codes, label):
        stack = []
        for code in codes:
            if code.item() >= 0:
                i, o, u = self.leaf(self.embed(code)).chunk(3)
                c = jitgrad.sigmoid(i) * jitgrad.tanh(u)
            else:
                right_h, right_c = stack.pop()
                left_h, left_c = stack.pop()
                i, f1, f2, o, u = self.join(jitgrad.cat([left_h, right_h])).chunk(5)
                c = (jitgrad.sigmoid(i) * jitgrad.tanh(u) + jitgrad.sigmoid(f1 + 1) * left_c
                     + jitgrad.sigmoid(f2 + 1) * right_c)
            stack.append((jitgrad.sigmoid(o) * jitgrad.tanh(c), c))
        h, _ = stack.pop()
        return F.cross_entropy(self.head(h).unsqueeze(0), label)


class ActorCritic(nn.Module):
    """A rollout in a simulated world until all have left it or time is over, and its loss. Mnih et al., 2016."""

    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 3), nn.Linear(width, 1)

    def forward(self, state, limit: int, gamma: float):
        logs, values, rewards, entropies = [], [], [], []
        alive = jitgrad.ones(state.shape[0])
        for _ in range(limit):
            h = self.body(state)
            policy = F.log_softmax(self.actor(h), dim=-1)
            action = jitgrad.multinomial(policy.exp().detach(), 1)
            logs.append(policy.gather(1, action).squeeze(1) * alive)
            values.append(self.critic(h).squeeze(1) * alive)
            entropies.append(-(policy.exp() * policy).sum(1) * alive)
            push = 0.3 * (action.squeeze(1).float() - 1.0)
            speed = state[:, 1] + push - 0.1 * state[:, 0]
            state = jitgrad.stack([state[:, 0] + 0.2 * speed, speed], dim=1)
            rewards.append((1.0 - state[:, 0].abs()) * alive)
            alive = alive * (state[:, 0].abs() < 1.5).float()
            if alive.sum() == 0:
                break
        value = jitgrad.zeros_like(alive)
        loss = jitgrad.zeros(())
        for t in range(len(rewards) - 1, -1, -1):
            value = rewards[t] + gamma * value
            advantage = value - values[t]
            loss = loss + (-logs[t] * advantage.detach() + 0.5 * advantage ** 2 - 0.01 * entropies[t]).mean()
        return loss / len(rewards)


# --- their losses and batches --------------------------------------------------------------------------------------


def last(model: Any, *batch: Any) -> Any:
    return model(*batch)[-1]


def classified(model: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x), y)


def whole(model: Any, *batch: Any) -> Any:
    return model(*batch)


RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return jitgrad.from_numpy(RNG.standard_normal(shape).astype(np.float32))


def tokens(below: int, *shape: int) -> Any:
    return jitgrad.from_numpy(RNG.integers(0, below, shape))


def sentences(lengths: list[int]) -> tuple[Any, ...]:
    n = len(lengths)
    return tokens(15, n, 7), jitgrad.tensor(lengths), tokens(12, n, 5), 0.5


#: model -> (class, loss, five batches: the second differs in size, the last is partial)
MODELS: dict[str, tuple[Callable[[], Any], Callable[..., Any], list[tuple[Any, ...]]]] = {
    "lenet": (LeNet, classified, [(normal(n, 1, 28, 28), tokens(10, n)) for n in (4, 6, 4, 4, 3)]),
    "resnet": (ResNet, classified, [(normal(n, 3, 8, 8), tokens(10, n)) for n in (4, 6, 4, 4, 3)]),
    "gpt": (Transformer, last, [(tokens(30, n, t), tokens(30, n, t)) for n, t in (
        (3, 7), (2, 5), (4, 11), (3, 7), (2, 3))]),
    "lstm language model": (LanguageModel, last, [
        (tokens(20, n, t), tokens(20, n, t), jitgrad.zeros(2, n, 8), jitgrad.zeros(2, n, 8))
        for n, t in ((3, 7), (2, 9), (3, 7), (4, 4), (2, 3))]),
    "translation with attention": (Translator, last, [
        sentences(x) for x in ([4, 6, 2], [3, 5], [2, 2, 7, 3], [4, 6, 2], [5, 3])]),
    "gru classifier": (Classifier, last, [
        (normal(7, len(x), 5), jitgrad.tensor(x), tokens(3, len(x)))
        for x in ([4, 6, 2], [3, 5], [2, 2, 7, 3], [4, 6, 2], [5, 3])]),
    "variational autoencoder": (Autoencoder, whole, [
        ((normal(n, 12) > 0).float(), beta) for n, beta in ((5, 0.1), (7, 0.5), (5, 1.0), (5, 1.0), (2, 1.0))]),
    "mixture of experts": (Experts, whole, [(normal(n, 6), tokens(4, n)) for n in (7, 9, 7, 7, 2)]),
    "tree-lstm": (TreeLSTM, whole, [
        (jitgrad.tensor(codes), tokens(3, 1)) for codes in (
            [1, 2, -1], [1, 2, -1, 3, 4, -1, -1], [5, 6, 7, 8, -1, -1, -1], [0, 9, -1, 1, -1], [3, 4, -1])]),
    "actor-critic": (ActorCritic, whole, [
        (normal(n, 2) * 0.5, limit, gamma) for n, limit, gamma in (
            (4, 5, 0.9), (6, 8, 0.99), (4, 12, 0.5), (4, 5, 0.9), (2, 7, 0.9))]),
}


def twins(make: Callable[[], Any]) -> tuple[Any, Any]:
    """Two models with equal weights."""
    jitgrad.manual_seed(0)
    a, b = make(), make()
    b.load_state_dict(a.state_dict())
    return a, b


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients(name: str, mode: str) -> None:
    make, loss_of, batches = MODELS[name]
    plain, model = twins(make)
    with config.override(interpret=mode == "interpreted"):
        scripted = jitgrad.script(loss_of)
        for k, batch in enumerate(batches[:2]):
            found = []
            for m, f in ((plain, loss_of), (model, scripted)):
                m.zero_grad()
                jitgrad.manual_seed(k)
                loss = f(m, *batch)
                loss.backward()
                found.append(loss)
            assert_same(found[1], found[0])
            assert_equal_state(model, plain)
    assert scripted.cache_info().compilations == 1, scripted.recompilations


@pytest.mark.parametrize("name", MODELS)
def test_whole_step(name: str) -> None:
    make, loss_of, batches = MODELS[name]
    plain, model = twins(make)

    def step(m: Any, optimizer: Any, *batch: Any) -> Any:
        loss = loss_of(m, *batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    fast = jitgrad.script(step)
    optimizers = [optim.SGD(m.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3) for m in (plain, model)]
    for k, batch in enumerate(batches):
        losses = []
        for f, m, optimizer in ((step, plain, optimizers[0]), (fast, model, optimizers[1])):
            jitgrad.manual_seed(k)
            losses.append(f(m, optimizer, *batch))
        assert_same(losses[1], losses[0])
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert p.grad is None
        assert_same(p, q)
    for p, q in zip(model.buffers(), plain.buffers(), strict=True):
        assert_same(p, q)
    assert fast.cache_info().compilations == 1, fast.recompilations
