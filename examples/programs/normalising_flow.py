"""A RealNVP flow that learns the density of two moons. Dinh et al., 2017."""

import numpy as np

import jitgrad as torch
from jitgrad import distributions, nn


class Coupling(nn.Module):
    def __init__(self, mask, hidden=16):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        x_ = x * self.mask
        s = self.s(x_) * (1 - self.mask)
        t = self.t(x_) * (1 - self.mask)
        return x_ + (1 - self.mask) * (x - t) * torch.exp(-s), -s.sum(dim=1)


class RealNVP(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(layers // 2, 1)
        self.layers = nn.ModuleList(Coupling(m) for m in masks)
        self.log_scale = nn.Parameter(torch.zeros(2))

    def log_prob(self, x):
        log_det = x.new_zeros(x.shape[0])
        z = x * self.log_scale.exp()
        for layer in reversed(self.layers):
            z, det = layer(z)
            log_det = log_det + det
        prior = distributions.Independent(distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
        return prior.log_prob(z) + log_det + self.log_scale.sum()

    def forward(self, x):
        return -self.log_prob(x).mean()


def make():
    flow = RealNVP()
    return flow, torch.optim.Adamax(flow.parameters(), lr=1e-2)


def batch(number, size=32):
    rng = np.random.default_rng(number)
    angle, upper = rng.uniform(0, np.pi, size), rng.integers(0, 2, size) * 2 - 1
    points = np.stack([np.cos(angle) + 0.5 * (upper < 0), upper * np.sin(angle) + 0.25 * (upper < 0)], axis=1)
    return (torch.from_numpy((points + rng.normal(0, 0.1, (size, 2))).astype(np.float32)),)


def step(flow, optimizer, x):
    loss = flow(x)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, step(*state, *batch(number)))
