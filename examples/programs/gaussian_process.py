"""A Gaussian process whose kernel is learnt from the marginal likelihood, by Cholesky. Rasmussen and Williams, 2006."""

import math

import numpy as np

import jitgrad as torch
from jitgrad import nn


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.tensor(0.0, dtype=torch.double))
        self.raw_outputscale = nn.Parameter(torch.tensor(0.0, dtype=torch.double))
        self.raw_noise = nn.Parameter(torch.tensor(-2.0, dtype=torch.double))

    def kernel(self, a, b):
        lengthscale = nn.functional.softplus(self.raw_lengthscale)
        squared = (a[:, None] - b[None, :]).pow(2).sum(-1) / lengthscale ** 2
        return nn.functional.softplus(self.raw_outputscale) * torch.exp(-0.5 * squared)

    def forward(self, x, y):
        """The negative log marginal likelihood of a point."""
        n = x.shape[0]
        K = self.kernel(x, x) + nn.functional.softplus(self.raw_noise) * torch.eye(n, dtype=x.dtype)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), L).squeeze(-1)
        log_det = 2 * torch.diagonal(L).log().sum()
        return 0.5 * (y @ alpha + log_det + n * math.log(2 * math.pi)) / n

    def predict(self, x, y, new):
        """Mean and variance at new points."""
        noise = nn.functional.softplus(self.raw_noise)
        L = torch.linalg.cholesky(self.kernel(x, x) + noise * torch.eye(x.shape[0], dtype=x.dtype))
        k = self.kernel(x, new)
        v = torch.linalg.solve_triangular(L, k, upper=False)
        mean = k.T @ torch.cholesky_solve(y[:, None], L).squeeze(-1)
        return mean, self.kernel(new, new).diagonal() - v.square().sum(0)


def make():
    gp = GP()
    return gp, torch.optim.Adam(gp.parameters(), lr=0.1)


def batch(number, size=20):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, (size, 1)), axis=0)
    return torch.from_numpy(x), torch.from_numpy(np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=size))


def step(gp, optimizer, x, y):
    optimizer.zero_grad()
    loss = gp(x, y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        mean, variance = gp.predict(x, y, torch.linspace(-3, 3, 5, dtype=x.dtype)[:, None])
    return loss.item(), mean.sum().item(), variance.sum().item()


if __name__ == "__main__":
    state = make()
    for number in range(30):
        print(number, *step(*state, *batch(number)))
