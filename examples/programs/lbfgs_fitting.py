"""A sum of Gaussians fitted to measured points by L-BFGS with a strong Wolfe line search, in float64."""

import numpy as np

import jitgrad as torch
from jitgrad import nn


class Peaks(nn.Module):
    """A sum of two peaks over a line."""

    def __init__(self):
        super().__init__()
        self.height = nn.Parameter(torch.tensor([1.0, 0.5], dtype=torch.float64))
        self.centre = nn.Parameter(torch.tensor([-1.0, 1.0], dtype=torch.float64))
        self.log_width = nn.Parameter(torch.tensor([0.0, 0.0], dtype=torch.float64))
        self.line = nn.Linear(1, 1, dtype=torch.float64)

    def forward(self, x):
        z = (x[:, None] - self.centre) / self.log_width.exp()
        return (self.height * torch.exp(-0.5 * z ** 2)).sum(-1) + self.line(x[:, None]).squeeze(-1)


def make():
    model = Peaks()
    return model, torch.optim.LBFGS(model.parameters(), lr=1, max_iter=4, history_size=5, line_search_fn="strong_wolfe")


def batch(number):
    rng = np.random.default_rng(0)
    x = np.linspace(-4, 4, 60)
    y = 1.5 * np.exp(-0.5 * ((x + 1.3) / 0.6) ** 2) + 0.8 * np.exp(-0.5 * ((x - 1.5) / 1.1) ** 2) + 0.1 * x
    return torch.from_numpy(x), torch.from_numpy(y + rng.normal(0, 0.02, 60))


def step(model, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    return optimizer.step(closure)


if __name__ == "__main__":
    state = make()
    for number in range(10):
        print(number, step(*state, *batch(number)).item())
