"""Learning to learn: inner loops with gradients of gradients, implicit gradients, Hessian products."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn, optim
from jitgrad.nn import functional as F
from tests.programs.arrays import f64, vec
from tests.programs.harness import data, program, weight


def predict(x, w, b):
    return torch.tanh(x @ w) @ b


@program((data(5, 3), data(5), 0.2, 2), (data(3, 3), data(3), 0.05, 4))
class Reptile(nn.Module):
    """Inner steps on copies, then the weights move towards them."""

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(3, 4) * 0.5), nn.Parameter(torch.randn(4) * 0.5)

    def forward(self, x, y, rate: float, steps: int):
        w, b = self.w.detach().clone(), self.b.detach().clone()
        for _ in range(steps):
            fw, fb = w.clone().requires_grad_(), b.clone().requires_grad_()
            gw, gb = torch.autograd.grad(F.mse_loss(predict(x, fw, fb), y), (fw, fb))
            w, b = w - rate * gw, b - rate * gb
        with torch.no_grad():
            self.w.add_(0.5 * (w - self.w))
            self.b.add_(0.5 * (b - self.b))


@program((data(5, 3), data(5), 2), (data(2, 3), data(2), 3))
class MetaStep(nn.Module):
    """The outer optimizer inside as well; the inner rates are learned."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4) * 0.5)
        self.b = nn.Parameter(torch.randn(4) * 0.5)
        self.rates = nn.Parameter(torch.full((2,), 0.1))
        self.optimizer = optim.Adam(self.parameters(), lr=0.05)

    def forward(self, x, y, tasks: int):
        total = torch.zeros(())
        for k in range(tasks):
            target = y * (k + 1)
            loss = F.mse_loss(predict(x, self.w, self.b), target)
            gw, gb = torch.autograd.grad(loss, (self.w, self.b), create_graph=True)
            fast_w, fast_b = self.w - self.rates[0] * gw, self.b - self.rates[1] * gb
            total = total + F.mse_loss(predict(x, fast_w, fast_b), target)
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return total.detach()


@program((f64(5, 3), f64(5, seed=2), vec(0.1), 6), (f64(3, 2), f64(3, seed=2), vec(0.5), 3))
def hypergradient_of_a_penalty(x, y, penalty, steps: int):
    """The validation loss after ridge steps, differentiated by the penalty."""
    w = torch.zeros(x.shape[1], dtype=x.dtype)
    for _ in range(steps):
        w = w - 0.05 * (x.t() @ (x @ w - y) + penalty * w)
    return ((x.flip(0) @ w - y) ** 2).mean()


@program((f64(3, 3, scale=0.3), vec(0.5, -0.2, 0.1), 1e-10), (f64(2, 2, scale=0.2), vec(0.5, 1.0), 1e-6))
def implicit_gradient(w, b, tol: float):
    """A fixed point found without a gradient, which one more application then gives to first order."""
    with torch.no_grad():
        z = torch.zeros_like(b)
        for _ in range(100):
            new = torch.tanh(w @ z + b)
            if (new - z).norm() < tol:
                break
            z = new
    z = torch.tanh(w @ z + b)
    with torch.no_grad():
        j = (1 - z * z)[:, None] * w
        v = torch.ones_like(z)
        for _ in range(50):
            v = torch.ones_like(z) + j.t() @ v
    return (z * v).sum()


@program((f64(3), f64(3, seed=4)), (f64(5), f64(5, seed=4)))
def hessian_vector_product(x, v):
    y = (torch.sin(x) * x.cumsum(0)).sum()
    (g,) = torch.autograd.grad(y, (x,), create_graph=True)
    (h,) = torch.autograd.grad((g * v.detach()).sum(), (x,))
    return h


@program((f64(3), 3), (f64(2), 6))
def newton_with_hessian_products(start, steps: int):
    """Conjugate gradients on the Hessian, that is never formed."""
    x = start.detach().clone()
    for _ in range(steps):
        z = x.clone().requires_grad_()
        loss = (z ** 4).sum() + (z ** 2).sum() + z.prod()
        (g,) = torch.autograd.grad(loss, (z,), create_graph=True)
        p = -g.detach()
        r, d = p, torch.zeros_like(p)
        for _ in range(x.shape[0]):
            (hp,) = torch.autograd.grad((g * p).sum(), (z,), retain_graph=True)
            alpha = (r @ r) / (p @ hp)
            d = d + alpha * p
            new = r - alpha * hp
            if new @ new < 1e-16:
                break
            p = new + ((new @ new) / (r @ r)) * p
            r = new
        x = x + d
    return x


@program((data(4, 3), data(4), weight(3), 0.1, 3), (data(2, 3), data(2), weight(3), 0.3, 5))
def learned_optimizer(x, y, phi, rate: float, steps: int):
    """Each coordinate's update is a small function of its gradient and momentum."""
    w = torch.zeros(3)
    m = torch.zeros(3)
    total = torch.zeros(())
    for _ in range(steps):
        error = x @ w - y
        g = x.t() @ error / x.shape[0]
        m = torch.sigmoid(phi[0]) * m + g
        w = w - rate * torch.tanh(phi[1] * m + phi[2] * g)
        total = total + (error * error).mean()
    return total


@program((data(6, 3), weight(3, 2), 2), (data(4, 3), weight(3, 2), 1))
def prototypical(x, w, shots: int):
    """The classes of a few-shot task are the means of their examples."""
    z = x @ w
    half = z.shape[0] // 2
    prototypes = torch.stack([z[:shots].mean(0), z[half:half + shots].mean(0)])
    distances = ((z[:, None] - prototypes) ** 2).sum(-1)
    labels = (torch.arange(x.shape[0]) >= half).long()
    return F.cross_entropy(-distances, labels)


@program((f64(4), 0.1, 4), (f64(2), 0.02, 7))
def jacobian_by_rows(x, rate: float, steps: int):
    """One gradient per output, gathered in a list."""
    z = x.detach().clone().requires_grad_()
    y = z
    for _ in range(steps):
        y = y + rate * torch.sin(y).cumsum(0)
    rows = []
    for i in range(x.shape[0]):
        (g,) = torch.autograd.grad(y[i], (z,), retain_graph=True)
        rows.append(g)
    return torch.stack(rows)
