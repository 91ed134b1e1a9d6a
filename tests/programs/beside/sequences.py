"""Sequences: a Conformer block, WaveNet, RWKV, a state space model, speech with CTC, a neural differential equation."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn


def normal(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


class ConformerBlock(nn.Module):
    """Gulati et al., 2020."""

    def __init__(self, width=8, heads=2, kernel=3):
        super().__init__()
        self.first, self.second = [nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(2)]
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
        self.batch_norm, self.out = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        y = self.attention_norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.gate(self.norm(x).transpose(1, 2)), dim=1)
        x = x + self.out(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
        return self.last_norm(x + 0.5 * self.second(x))


class Conformer:
    def __init__(self):
        self.model = ConformerBlock()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)

    def batch(self, rng):
        return normal(rng, 3, 5, 8), normal(rng, 3, 5, 8)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Dilated(nn.Module):
    """van den Oord et al., 2016."""

    def __init__(self, width=6, layers=4, classes=5):
        super().__init__()
        self.embedding = nn.Embedding(classes, width)
        self.dilated = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2 ** i) for i in range(layers)])
        self.residual = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(layers)])
        self.skip = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(layers)])
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, classes, 1))

    def forward(self, x):
        h = self.embedding(x).transpose(1, 2)
        skips = None
        for i, (dilated, residual, skip) in enumerate(zip(self.dilated, self.residual, self.skip, strict=True)):
            a, b = dilated(F.pad(h, (2 ** i, 0))).chunk(2, 1)
            z = torch.tanh(a) * torch.sigmoid(b)
            skips = skip(z) if skips is None else skips + skip(z)
            h = h + residual(z)
        return self.out(skips)


class WaveNet:
    def __init__(self):
        self.model = Dilated()
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), 1e-3, momentum=0.9)

    def batch(self, rng):
        return (rng.integers(0, 5, (2, 17)),)

    def step(self, x):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x[:, :-1]), x[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


class TimeMix(nn.Module):
    """Peng et al., "RWKV", 2023."""

    def __init__(self, width=6):
        super().__init__()
        self.decay, self.bonus = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.mix = nn.Parameter(torch.zeros(3, width))
        self.k, self.v, self.r, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm, self.shift = nn.LayerNorm(width), nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x):
        y = self.norm(x)
        before, mix = self.shift(y), torch.sigmoid(self.mix)
        k, v, r = (part(y * mix[i] + before * (1 - mix[i])) for i, part in enumerate((self.k, self.v, self.r)))
        above = torch.zeros_like(x[:, 0])
        below, top = torch.zeros_like(above), torch.full_like(above, -1e38)
        decay, seen = -torch.exp(self.decay), []
        for t in range(x.shape[1]):
            q = torch.maximum(top, self.bonus + k[:, t])
            a, b = torch.exp(top - q), torch.exp(self.bonus + k[:, t] - q)
            seen.append((a * above + b * v[:, t]) / (a * below + b))
            q = torch.maximum(top + decay, k[:, t])
            a, b = torch.exp(top + decay - q), torch.exp(k[:, t] - q)
            above, below, top = a * above + b * v[:, t], a * below + b, q
        return x + self.out(torch.sigmoid(r) * torch.stack(seen, 1))


class Rwkv:
    def __init__(self):
        self.model = TimeMix()
        self.optimizer = torch.optim.NAdam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 2, 7, 6), normal(rng, 2, 7, 6)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.smooth_l1_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


class Diagonal(nn.Module):
    """A diagonal state space. Gu et al., 2022."""

    def __init__(self, width=4, states=3):
        super().__init__()
        self.rate, self.b, self.c = (nn.Parameter(torch.zeros(width, states)) for _ in range(3))
        self.dt, self.d = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))

    def forward(self, u):
        dt = F.softplus(self.dt)[:, None]
        a, b = torch.exp(-torch.exp(self.rate) * dt), self.b * dt
        h, seen = u.new_zeros(u.size(0), *a.shape), []
        for t in range(u.size(1)):
            h = a * h + b * u[:, t, :, None]
            seen.append((h * self.c).sum(-1))
        return torch.stack(seen, 1) + self.d * u


class StateSpace:
    def __init__(self):
        self.model = nn.Sequential(Diagonal(), nn.GELU(), nn.Linear(4, 4))
        self.optimizer = torch.optim.RAdam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 2, 9, 4), normal(rng, 2, 9, 4)

    def step(self, u, y):
        loss = F.l1_loss(self.model(u), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 5, batch_first=True, bidirectional=True), nn.Linear(10, 6)

    def forward(self, x):
        h, _ = self.rnn(x)
        return F.log_softmax(self.head(h), -1).transpose(0, 1)


class Speech:
    def __init__(self):
        self.model = Recogniser()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 3, 12, 4), rng.integers(1, 6, (3, 4)), np.array([12, 10, 9]), np.array([4, 3, 2])

    def step(self, x, y, frames, letters):
        loss = F.ctc_loss(self.model(x), y, frames, letters, zero_infinity=True)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


class Field(nn.Module):
    """A differential equation, solved by Runge-Kutta steps. Chen et al., 2018."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))

    def slope(self, t, y):
        return self.net(torch.cat([y, t.expand(y.size(0), 1)], 1))

    def forward(self, y, times):
        path = [y]
        for i in range(len(times) - 1):
            t, h, y = times[i], times[i + 1] - times[i], path[-1]
            a = self.slope(t, y)
            b = self.slope(t + h / 2, y + h * a / 2)
            c = self.slope(t + h / 2, y + h * b / 2)
            d = self.slope(t + h, y + h * c)
            path.append(y + h / 6 * (a + 2 * b + 2 * c + d))
        return torch.stack(path)


class NeuralODE:
    def __init__(self):
        self.model = Field()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)

    def batch(self, rng):
        return normal(rng, 4, 2), np.linspace(0, 1, 6).astype(np.float32), normal(rng, 6, 4, 2)

    def step(self, y, times, target):
        self.optimizer.zero_grad()
        loss = (self.model(y, times) - target).abs().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()


PROGRAMS = (Conformer, WaveNet, Rwkv, StateSpace, Speech, NeuralODE)
