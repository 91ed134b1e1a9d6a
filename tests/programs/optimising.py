"""Minimisers written by hand: line searches, histories, proximal steps, clusters and assignments."""

from __future__ import annotations

import math

import jitgrad as torch
from tests.programs.arrays import f64, spd, vec
from tests.programs.harness import data, program, weight


def rosenbrock(x):
    return ((x[1:] - x[:-1] ** 2) ** 2).sum() * 10 + ((1 - x[:-1]) ** 2).sum()


@program((vec(-1.0, 1.0), 0.5, 6), (vec(0.0, 0.5, 2.0), 0.3, 10))
def descent_with_backtracking(start, shrink: float, steps: int):
    x = start.detach().clone()
    evaluations = 0
    for _ in range(steps):
        z = x.clone().requires_grad_()
        loss = rosenbrock(z)
        (g,) = torch.autograd.grad(loss, (z,))
        rate = 1.0
        while rosenbrock(x - rate * g) > loss - 1e-4 * rate * (g @ g):
            rate *= shrink
            evaluations += 1
            if rate < 1e-8:
                break
        x = x - rate * g
    return x, evaluations


@program((vec(-1.0, 1.0), 8, 3), (vec(0.0, 0.5, 2.0), 12, 4))
def limited_memory_bfgs(start, steps: int, memory: int):
    """The two-loop recursion over lists that keep the last few pairs."""
    x = start.detach().clone()
    z = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(rosenbrock(z), (z,))
    ss, ys, rhos = [], [], []
    for _ in range(steps):
        q = g
        alphas = []
        for i in range(len(ss) - 1, -1, -1):
            alpha = rhos[i] * (ss[i] @ q)
            q = q - alpha * ys[i]
            alphas.append(alpha)
        if len(ss) > 0:
            q = q * ((ss[-1] @ ys[-1]) / (ys[-1] @ ys[-1]))
        for i in range(len(ss)):
            beta = rhos[i] * (ys[i] @ q)
            q = q + ss[i] * (alphas[len(ss) - 1 - i] - beta)
        rate = 1.0
        while rosenbrock(x - rate * q) > rosenbrock(x) and rate > 1e-6:
            rate /= 2
        new = x - rate * q
        z = new.clone().requires_grad_()
        (following,) = torch.autograd.grad(rosenbrock(z), (z,))
        s, y = new - x, following - g
        if (s @ y).item() > 1e-10:
            ss.append(s)
            ys.append(y)
            rhos.append(1 / (s @ y))
            if len(ss) > memory:
                ss.pop(0)
                ys.pop(0)
                rhos.pop(0)
        x, g = new, following
    return x, len(ss)


@program((vec(-1.0, 1.0), 0.05, 5), (vec(0.0, 0.5, 2.0), 0.1, 9))
def adam_by_hand(start, rate: float, steps: int):
    """Unrolled, so that the result has a gradient with respect to the start."""
    x = start
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    for t in range(1, steps + 1):
        g = torch.cat([-2 * (1 - x[:-1]), torch.zeros(1, dtype=x.dtype)]) + x - 0.5
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        x = x - rate * (m / (1 - 0.9 ** t)) / ((v / (1 - 0.999 ** t)).sqrt() + 1e-8)
    return x


@program((spd(4), f64(4, seed=1), 3), (spd(3), f64(3, seed=1), 5))
def coordinate_descent(a, b, sweeps: int):
    x = torch.zeros_like(b)
    n = len(b)
    for _ in range(sweeps):
        for i in range(n):
            unit = torch.nn.functional.one_hot(torch.tensor(i), n).to(b.dtype)
            x = x - unit * ((a[i] @ x - b[i]) / a[i, i])
    return x


def shrunk(x, by):
    return x.sign() * (x.abs() - by).clamp(min=0)


@program((f64(6, 4), f64(6, seed=1), 0.3, 1e-3), (f64(5, 3), f64(5, seed=1), 0.05, 1e-2))
def ista(a, b, penalty: float, tol: float):
    rate = 1 / (a * a).sum()
    x = torch.zeros(a.shape[1], dtype=a.dtype)
    for k in range(100):
        new = shrunk(x - rate * (a.t() @ (a @ x - b)), rate * penalty)
        done = (new - x).norm() < tol
        x = new
        if done:
            break
    return x, k


@program((f64(6, 4), f64(6, seed=1), 0.3, 12), (f64(5, 3), f64(5, seed=1), 0.05, 40))
def fista_with_restart(a, b, penalty: float, limit: int):
    rate = 1 / (a * a).sum()
    x = y = torch.zeros(a.shape[1], dtype=a.dtype)
    t, restarts = 1.0, 0
    for _ in range(limit):
        new = shrunk(y - rate * (a.t() @ (a @ y - b)), rate * penalty)
        if ((y - new) * (new - x)).sum() > 0:
            t, restarts = 1.0, restarts + 1
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y = new + (t - 1) / following * (new - x)
        x, t = new, following
    return x, restarts


@program((f64(6, 4), f64(6, seed=1), 0.3, 1.0, 8), (f64(5, 3), f64(5, seed=1), 0.1, 0.5, 4))
def admm_lasso(a, b, penalty: float, rho: float, steps: int):
    n = a.shape[1]
    x = z = u = torch.zeros(n, dtype=a.dtype)
    for _ in range(steps):
        right = a.t() @ b + rho * (z - u)
        r = right - (a.t() @ (a @ x) + rho * x)
        p = r
        for _ in range(n):
            if r @ r < 1e-20:
                break
            ap = a.t() @ (a @ p) + rho * p
            alpha = (r @ r) / (p @ ap)
            x = x + alpha * p
            new = r - alpha * ap
            p = new + ((new @ new) / (r @ r)) * p
            r = new
        z = shrunk(x + u, penalty / rho)
        u = u + x - z
    return z


@program((weight(4, 5), 0.5, 30), (weight(3, 3), 0.1, 6))
def sinkhorn(cost, epsilon: float, limit: int):
    n, m = cost.shape
    f, g = torch.zeros(n), torch.zeros(m)
    for it in range(limit):
        f = -epsilon * torch.logsumexp((g[None, :] - cost) / epsilon, dim=1) - epsilon * math.log(n)
        g = -epsilon * torch.logsumexp((f[:, None] - cost) / epsilon, dim=0) - epsilon * math.log(m)
        plan = torch.exp((f[:, None] + g[None, :] - cost) / epsilon)
        if (plan.sum(1) - 1 / n).abs().sum() < 1e-3:
            break
    return (plan * cost).sum(), it


@program((weight(8, 2), 3, 10), (weight(5, 3), 2, 4))
def k_means(points, k: int, limit: int):
    centers = points[:k]
    owner = torch.full((points.shape[0],), -1)
    for _ in range(limit):
        distances = ((points[:, None] - centers[None]) ** 2).sum(-1)
        new = distances.argmin(1)
        if (new == owner).all():
            break
        owner = new
        rows = []
        for c in range(k):
            mine = owner == c
            if mine.any():
                rows.append(points[mine].mean(0))
            else:
                rows.append(centers[c])
        centers = torch.stack(rows)
    return centers, owner


@program((weight(6, 4), 2, 9), (weight(5, 3), 1, 5))
def pca_by_deflation(x, k: int, steps: int):
    x = x - x.mean(0)
    c = x.t() @ x / (x.shape[0] - 1)
    variances = []
    for _ in range(k):
        v = torch.ones(c.shape[0])
        for _ in range(steps):
            v = c @ v
            v = v / v.norm()
        value = v @ c @ v
        c = c - value * torch.outer(v, v)
        variances.append(value)
    return torch.stack(variances)


@program((data(6), 1.0, 0.9, 15), (data(4, seed=3), 3.0, 0.7, 40))
def simulated_annealing(values, temperature: float, cooling: float, steps: int):
    """Which order of the values changes least from one to the next?"""
    order = torch.arange(values.shape[0])
    energy = values.diff().abs().sum()
    accepted = 0
    for _ in range(steps):
        i = int(torch.randint(0, values.shape[0], ()))
        j = int(torch.randint(0, values.shape[0], ()))
        other = order.clone()
        other[i] = order[j]
        other[j] = order[i]
        new = values[other].diff().abs().sum()
        u = torch.rand(())
        if new < energy or bool(u < torch.exp((energy - new) / temperature)):
            order, energy = other, new
            accepted += 1
        temperature *= cooling
    return order, energy, accepted


@program((weight(3, 4), 0.5), (weight(5, 2), 2.0))
def projection_to_simplex(x, radius: float):
    """Duchi et al., 2008, row by row."""
    rows = []
    for row in x:
        u = torch.sort(row, descending=True)[0]
        total, theta = torch.zeros(()), torch.zeros(())
        for j in range(u.shape[0]):
            total = total + u[j]
            t = (total - radius) / (j + 1)
            if u[j] - t <= 0:
                break
            theta = t
        rows.append((row - theta).clamp(min=0))
    return torch.stack(rows)


@program((weight(4), 3.0, 1e-6), (weight(6), 1.5, 1e-3))
def water_filling(x, total: float, tol: float):
    """The level by bisection, the gradient through the last, smooth step."""
    low, high = x.detach().min() - total, x.detach().max() + total
    while high - low > tol:
        middle = (low + high) / 2
        if (middle - x.detach()).clamp(min=0).sum() < total:
            low = middle
        else:
            high = middle
    active = x < high
    level = (x[active].sum() + total) / active.sum()
    return torch.where(active, level - x, torch.zeros_like(x))


@program((vec(3.0, -2.0, 1.0), 4), (vec(0.5, 0.2), 9))
def nelder_mead_reflections(start, steps: int):
    n = start.shape[0]
    simplex = [start]
    for i in range(n):
        e = torch.zeros_like(start)
        e[i] = 0.5
        simplex.append(start + e)
    points = torch.stack(simplex)
    for _ in range(steps):
        f = (points ** 2).sum(1) + points[:, 0]
        points = points[torch.argsort(f.detach())]
        center = points[:-1].mean(0)
        mirrored = 2 * center - points[-1]
        best, worst = ((points[k] ** 2).sum() + points[k, 0] for k in (0, -1))
        value = (mirrored ** 2).sum() + mirrored[0]
        if value < best:
            new = 3 * center - 2 * points[-1]
        elif value < worst:
            new = mirrored
        else:
            new = (center + points[-1]) / 2
        points = torch.cat([points[:-1], new[None]])
    return points[0]
