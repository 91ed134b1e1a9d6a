"""Inference and sampling: filters, chains, mixtures, flows, diffusion."""

from __future__ import annotations

import math

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.arrays import f64, vec
from tests.programs.harness import data, program, weight


@program((f64(6), 2, 8), (f64(9, seed=4), 3, 4))
def mixture_by_expectation_maximisation(x, k: int, limit: int):
    mu = x[:k]
    sigma = torch.ones(k, dtype=x.dtype)
    pi = torch.full((k,), 1 / k, dtype=x.dtype)
    before = -math.inf
    for _ in range(limit):
        logs = pi.log() - sigma.log() - 0.5 * ((x[:, None] - mu) / sigma) ** 2
        total = torch.logsumexp(logs, 1)
        r = (logs - total[:, None]).exp()
        n = r.sum(0)
        mu = (r * x[:, None]).sum(0) / n
        sigma = ((r * (x[:, None] - mu) ** 2).sum(0) / n + 0.05).sqrt()
        pi = n / x.shape[0]
        now = total.sum().item()
        if now - before < 1e-3:
            break
        before = now
    return mu, sigma, pi


@program((f64(6), vec(0.9), vec(0.2), vec(0.5)), (f64(3), vec(0.5), vec(1.2), vec(0.1)))
def kalman_filter_scalar(ys, a, q, r):
    mean, variance = torch.zeros(1, dtype=ys.dtype), torch.ones(1, dtype=ys.dtype)
    likelihood = torch.zeros(1, dtype=ys.dtype)
    for y in ys:
        mean, variance = a * mean, a * a * variance + q * q
        s = variance + r * r
        gain = variance / s
        innovation = y - mean
        likelihood = likelihood - 0.5 * (torch.log(2 * math.pi * s) + innovation ** 2 / s)
        mean, variance = mean + gain * innovation, (1 - gain) * variance
    return likelihood, mean


@program((f64(5, 2), f64(3, 3, seed=3, scale=0.4), f64(2, 3, seed=4)),
         (f64(2, 2), f64(4, 4, seed=3, scale=0.2), f64(2, 4, seed=4)))
def kalman_filter_and_smoother(ys, a, h):
    n = a.shape[0]
    eye = torch.eye(n, dtype=a.dtype)
    m, p = torch.zeros(n, dtype=a.dtype), eye
    filtered, predicted = [], []
    for y in ys:
        m, p = a @ m, a @ p @ a.t() + 0.1 * eye
        predicted.append((m, p))
        s = h @ p @ h.t() + 0.2 * torch.eye(2, dtype=a.dtype)
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = torch.stack([torch.stack([s[1, 1], -s[0, 1]]), torch.stack([-s[1, 0], s[0, 0]])]) / det
        k = p @ h.t() @ inverse
        m, p = m + k @ (y - h @ m), (eye - k @ h) @ p
        filtered.append((m, p))
    smooth = filtered[-1][0]
    total = smooth.sum()
    for t in range(len(filtered) - 2, -1, -1):
        mean, covariance = filtered[t]
        ahead, spread = predicted[t + 1]
        smooth = mean + covariance @ a.t() @ (smooth - ahead) / (1 + spread.trace())
        total = total + smooth.sum()
    return total


@program((data(5), weight(2), 0.5), (data(8), weight(2), 0.95))
def particle_filter(ys, w, threshold: float):
    """Resample where few particles are left; gradients flow through the weights."""
    n = 6
    x = torch.randn(n)
    log_weights = torch.zeros(n)
    resampled = 0
    for y in ys:
        x = torch.tanh(w[0] * x) + 0.3 * torch.randn(n)
        log_weights = log_weights - (y - w[1] * x) ** 2
        p = torch.softmax(log_weights, 0)
        if 1 / (p ** 2).sum() < threshold * n:
            positions = (torch.arange(n) + torch.rand(1)) / n
            index = torch.searchsorted(p.detach().cumsum(0), positions).clamp(max=n - 1)
            x = x[index]
            log_weights = torch.zeros(n)
            resampled += 1
    return (torch.softmax(log_weights, 0) * x).sum(), resampled


def potential(x):
    return 0.5 * (x * x).sum() + 0.1 * (x ** 4).sum()


@program((data(3), 0.1, 4, 6), (data(2), 0.3, 2, 9))
def hamiltonian_monte_carlo(x, step: float, inner: int, samples: int):
    def slope(x):
        z = x.detach().clone().requires_grad_()
        (g,) = torch.autograd.grad(potential(z), (z,))
        return g

    accepted = 0
    chain = []
    for _ in range(samples):
        p = torch.randn(x.shape[0])
        energy = potential(x) + 0.5 * (p * p).sum()
        q = x
        p = p - step / 2 * slope(q)
        for k in range(inner):
            q = q + step * p
            if k != inner - 1:
                p = p - step * slope(q)
        p = p - step / 2 * slope(q)
        new = potential(q) + 0.5 * (p * p).sum()
        if torch.rand(()) < torch.exp(energy - new):
            x = q
            accepted += 1
        chain.append(x)
    return torch.stack(chain), accepted


@program((data(3), weight(3), 0.05, 6), (data(2), weight(2), 0.2, 4))
def langevin_through_the_chain(x, center, step: float, n: int):
    for _ in range(n):
        x = x - step * (x - center) ** 3 + math.sqrt(2 * step) * torch.randn_like(x)
    return x


@program((0.0, 0.5, 20), (2.0, 1.5, 8))
def metropolis_of_floats(x: float, width: float, n: int):
    accepted = 0
    total = 0.0
    for _ in range(n):
        proposal = x + width * (torch.rand(()).item() - 0.5)
        if torch.rand(()).item() < math.exp(min(0.0, (x * x - proposal * proposal) / 2)):
            x = proposal
            accepted += 1
        total += x
    return total / n, accepted


@program((data(3, 3), 4), (data(4, 5, seed=9), 2))
def gibbs_ising(noise, sweeps: int):
    spins = torch.where(noise > 0, 1.0, -1.0)
    h, w = spins.shape
    for _ in range(sweeps):
        for i in range(h):
            for j in range(w):
                around = spins[(i + 1) % h, j] + spins[i - 1, j] + spins[i, (j + 1) % w] + spins[i, j - 1]
                up = torch.sigmoid(0.8 * around)
                spins[i, j] = 1.0 if torch.rand(()) < up else -1.0
    return spins, spins.mean()


@program((20, 0.1), (35, 0.5))
def epsilon_greedy_bandit(steps: int, epsilon: float):
    means = torch.tensor([0.1, 0.5, 0.9])
    counts, values = torch.zeros(3), torch.zeros(3)
    reward = 0.0
    for _ in range(steps):
        if torch.rand(()) < epsilon:
            arm = int(torch.randint(0, 3, ()))
        else:
            arm = int(values.argmax())
        r = means[arm] + 0.1 * torch.randn(())
        counts[arm] += 1
        values[arm] += (r - values[arm]) / counts[arm]
        reward += r.item()
    return counts, values, reward


@program((15,), (30,))
def thompson_sampling(steps: int):
    """Gaussian posteriors; the arm of the highest draw is pulled."""
    means = torch.tensor([0.0, 0.4, 1.0])
    mu, precision = torch.zeros(3), torch.ones(3)
    pulls = [0, 0, 0]
    for _ in range(steps):
        arm = int((mu + torch.randn(3) / precision.sqrt()).argmax())
        r = means[arm] + torch.randn(())
        mu[arm] = (mu[arm] * precision[arm] + r) / (precision[arm] + 1)
        precision[arm] += 1
        pulls[arm] += 1
    return mu, precision, pulls


@program((weight(3, 4), data(5, 4), 0.5), (weight(2, 4), data(2, 4), 2.0))
def upper_confidence_bound(theta, contexts, c: float):
    total = torch.zeros(())
    counts = torch.zeros(theta.shape[0])
    for t, x in enumerate(contexts, 1):
        bonus = c * (math.log(t + 1) / (counts + 1)).sqrt()
        arm = (theta @ x + bonus).argmax()
        total = total + torch.sigmoid(theta[arm] @ x)
        counts[arm] += 1
    return total, counts


# --- flows, variational inference, diffusion -----------------------------------------------------------------------


@program((data(4, 3), weight(3), weight(3, seed=5), weight(1), 3),
         (data(2, 2), weight(2), weight(2, seed=5), weight(1), 5))
def planar_flow(z, u, w, b, layers: int):
    log_det = torch.zeros(z.shape[0])
    for k in range(layers):
        a = torch.tanh(z @ w + b + 0.1 * k)
        psi = (1 - a * a)[:, None] * w
        log_det = log_det + torch.log((1 + psi @ u).abs() + 1e-6)
        z = z + a[:, None] * u
    return (0.5 * (z * z).sum(1) - log_det).mean()


@program((data(5, 4),), (data(2, 4, seed=6),))
class Coupling(nn.Module):
    """A RealNVP: forth, with the log-determinant, and back again."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(3)])

    def forward(self, x):
        z, log_det = x, torch.zeros(x.shape[0])
        for i, net in enumerate(self.nets):
            a, b = z.chunk(2, dim=1) if i % 2 == 0 else z.flip(1).chunk(2, dim=1)
            s, t = net(a).chunk(2, dim=1)
            s = torch.tanh(s)
            z = torch.cat([a, b * s.exp() + t], dim=1)
            log_det = log_det + s.sum(1)
        back = z.detach()
        for i in reversed(range(len(self.nets))):
            a, b = back.chunk(2, dim=1)
            s, t = self.nets[i](a).chunk(2, dim=1)
            back = torch.cat([a, (b - t) * (-torch.tanh(s)).exp()], dim=1)
            if i % 2:
                back = back.flip(1)
        return (0.5 * (z ** 2).sum(1) - log_det).mean(), (back - x).abs().max().detach() < 1e-4


@program((data(6, 4), 1.0), (data(3, 4), 0.1))
class Variational(nn.Module):
    """A variational autoencoder with an annealed KL term."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 6), nn.Linear(3, 4)

    def forward(self, x, beta: float):
        mu, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mu + torch.exp(0.5 * log_variance) * torch.randn_like(mu)
        kl = -0.5 * (1 + log_variance - mu ** 2 - log_variance.exp()).sum(-1)
        return (F.mse_loss(self.decoder(z), x, reduction="none").sum(-1) + beta * kl).mean()


@program((data(5, 3), 0.9), (data(2, 3), 0.5))
class Denoiser(nn.Module):
    """A training step of a diffusion model: noise at a random time, and the error of its prediction."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 3))
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-2, 0.2, 10), 0))

    def predict(self, x, t):
        s = t.to(x.dtype) / 10
        return self.net(torch.cat([x, torch.stack([torch.sin(s), torch.cos(s)], dim=1)], dim=1))

    def forward(self, x, guidance: float):
        t = torch.randint(0, 10, (x.shape[0],))
        a = self.alphas[t][:, None]
        noise = torch.randn_like(x)
        loss = F.mse_loss(self.predict(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        with torch.no_grad():
            y = torch.randn_like(x)
            for k in range(9, -1, -1):
                a = self.alphas[k]
                step = a / self.alphas[k - 1] if k > 0 else a
                eps = self.predict(y, torch.full((x.shape[0],), k)) * guidance
                y = (y - (1 - step) / (1 - a).sqrt() * eps) / step.sqrt()
                if k > 0:
                    y = y + (1 - step).sqrt() * torch.randn_like(y)
        return loss, y


@program((data(4, 3), weight(3, 3), weight(3), 2), (data(2, 2), weight(2, 2), weight(2), 5))
def score_matching(x, w, b, projections: int):
    """Sliced: the divergence by random directions, through a gradient of the score."""
    z = x.clone().requires_grad_()
    total = torch.zeros(())
    for _ in range(projections):
        v = torch.randn_like(x)
        score = torch.tanh(z @ w + b)
        (g,) = torch.autograd.grad((score * v).sum(), (z,), create_graph=True)
        total = total + ((g * v).sum(1) + 0.5 * (score * v).sum(1) ** 2).mean()
    return total / projections


@program((data(3), weight(3), 8), (data(2), weight(2), 3))
def stochastic_gradient_ascent_of_elbo(target, start, steps: int):
    """The score-function estimator with a running baseline, differentiated through the updates."""
    mu = start
    baseline = 0.0
    for k in range(steps):
        z = mu.detach() + torch.randn_like(target)
        reward = -((z - target) ** 2).sum().item()
        mu = mu + 0.05 * (reward - baseline) * (z - mu)
        baseline = 0.9 * baseline + 0.1 * reward if k > 0 else reward
    return mu
