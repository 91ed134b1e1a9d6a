"""Graph attention, capsules, segmentation by overlap and focus, proximal policies."""

from __future__ import annotations

import numpy as np

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn
from tests.programs.beside.sequences import normal


class Attended(nn.Module):
    """Velickovic et al., 2018."""

    def __init__(self, features=5, width=4, heads=2):
        super().__init__()
        self.heads, self.width = heads, width
        self.weight, self.classes = nn.Linear(features, heads * width, bias=False), nn.Linear(heads * width, 3)
        self.source, self.target = (nn.Parameter(torch.zeros(1, heads, width)) for _ in range(2))

    def forward(self, x, edges):
        h = self.weight(x).view(-1, self.heads, self.width)
        s, d = edges
        scores = F.leaky_relu((h * self.source).sum(-1)[s] + (h * self.target).sum(-1)[d], 0.2)
        n = x.size(0)
        top = torch.full((n, self.heads), -1e9).scatter_reduce(0, d[:, None].expand_as(scores), scores, "amax")
        shares = torch.exp(scores - top[d].detach())
        shares = shares / torch.zeros(n, self.heads).index_add(0, d, shares)[d].clamp(min=1e-9)
        out = torch.zeros(n, self.heads, self.width).index_add_(0, d, shares[..., None] * h[s])
        return self.classes(F.elu(out.flatten(1)))


class GraphAttention:
    def __init__(self):
        self.model = Attended()
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), 1e-1)

    def batch(self, rng):
        return normal(rng, 7, 5), rng.integers(0, 7, (2, 20)), rng.integers(0, 3, (7,))

    def step(self, x, edges, y):
        logits = self.model(x, edges)
        known = y != 2
        loss = F.cross_entropy(logits[known], y[known])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss, (logits.argmax(1) == y).float().mean()


def squash(x, dim=-1):
    size = (x ** 2).sum(dim, keepdim=True)
    return size / (1 + size) * x / (size.sqrt() + 1e-8)


class Routed(nn.Module):
    """Sabour et al., "Dynamic Routing Between Capsules", 2017."""

    def __init__(self, inside=6, before=4, outside=3, after=5):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, inside, outside, after, before))

    def forward(self, u):
        votes = (self.weight @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(u.size(0), u.size(1), self.weight.size(2), 1)
        for r in range(3):
            v = squash((F.softmax(b, dim=2) * (votes if r == 2 else votes.detach())).sum(1))
            if r < 2:
                b = b + (votes.detach() * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v.norm(dim=-1)


class Capsules:
    def __init__(self):
        self.model = Routed()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.5, momentum=0.9, nesterov=True, weight_decay=1e-3)

    def batch(self, rng):
        return normal(rng, 4, 6, 4), rng.integers(0, 3, (4,))

    def step(self, u, y):
        v, t = self.model(squash(u)), F.one_hot(y, 3).float()
        loss = (t * F.relu(0.9 - v) ** 2 + 0.5 * (1 - t) * F.relu(v - 0.1) ** 2).sum(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.InstanceNorm2d(4, affine=True)
        self.down, self.up, self.last = nn.Conv2d(4, 4, 3, 2, 1), nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.leaky_relu(self.norm(self.first(x)), 0.1)
        return self.last(torch.cat([a, self.up(F.relu(self.down(a)))], 1))


def dice(p, y):
    inside = (p * y).flatten(1).sum(1)
    return (1 - (2 * inside + 1) / (p.flatten(1).sum(1) + y.flatten(1).sum(1) + 1)).mean()


def focal(logits, y, alpha=0.25, gamma=2.0):
    entropy = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    return (torch.where(y == 1, alpha, 1 - alpha) * (1 - torch.exp(-entropy)) ** gamma * entropy).mean()


class Segmentation:
    def __init__(self):
        self.model = Mask()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 2, 2, 6, 6), (rng.random((2, 1, 6, 6)) < 0.3).astype(np.float32)

    def step(self, x, y):
        logits = self.model(x)
        p = torch.sigmoid(logits)
        overlap = ((p > 0.5) & (y > 0.5)).sum() / ((p > 0.5) | (y > 0.5)).sum().clamp(min=1)
        loss = dice(p, y) + focal(logits, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss, overlap


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.policy(h), self.value(h).squeeze(-1)


class Proximal:
    """Schulman et al., 2017, with generalised advantages."""

    def __init__(self):
        self.model = ActorCritic()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        done = (rng.random(10) < 0.2).astype(np.float32)
        return normal(rng, 10, 4), rng.integers(0, 3, (10,)), normal(rng, 10), done, (rng.random(10) - 2).astype("f")

    def step(self, seen, action, reward, done, before):
        with torch.no_grad():
            _, v = self.model(seen)
            gain, last = torch.zeros_like(reward), torch.zeros(())
            for t in reversed(range(reward.size(0) - 1)):
                last = reward[t] + 0.99 * (1 - done[t]) * (v[t + 1] + 0.95 * last) - v[t]
                gain[t] = last
            target = gain + v
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        for _ in range(2):
            logits, value = self.model(seen)
            choice = torch.distributions.Categorical(logits=logits)
            ratio = (choice.log_prob(action) - before).exp()
            loss = (-torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + 0.5 * F.mse_loss(value, target)
                    - 0.01 * choice.entropy().mean())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
        return loss, ratio.max()


PROGRAMS = (GraphAttention, Capsules, Segmentation, Proximal)
