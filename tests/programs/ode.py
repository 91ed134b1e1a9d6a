"""Time steppers, fixed and adaptive, and motions that conserve something."""

from __future__ import annotations

import math

import jitgrad as torch
from tests.programs.arrays import f64, vec
from tests.programs.harness import program


def field(x, w):
    return torch.tanh(w @ x) - 0.1 * x


@program((f64(3), f64(3, 3, seed=2), 0.1, 8), (f64(2), f64(2, 2, seed=2), 0.02, 20))
def euler(x, w, dt: float, steps: int):
    for _ in range(steps):
        x = x + dt * field(x, w)
    return x


@program((f64(3), f64(3, 3, seed=2), 0.1, 5), (f64(2), f64(2, 2, seed=2), 0.3, 2))
def heun_trajectory(x, w, dt: float, steps: int):
    path = [x]
    for _ in range(steps):
        k1 = field(path[-1], w)
        k2 = field(path[-1] + dt * k1, w)
        path.append(path[-1] + dt / 2 * (k1 + k2))
    return torch.stack(path)


@program((f64(3), f64(3, 3, seed=2), 0.2, 5), (f64(2), f64(2, 2, seed=2), 0.1, 9))
def runge_kutta_4(x, w, dt: float, steps: int):
    for _ in range(steps):
        k1 = field(x, w)
        k2 = field(x + dt / 2 * k1, w)
        k3 = field(x + dt / 2 * k2, w)
        k4 = field(x + dt * k3, w)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


@program((f64(3), f64(3, 3, seed=2), 1.0, 1e-4), (f64(2), f64(2, 2, seed=2), 2.5, 1e-6))
def embedded_with_rejection(x, w, end: float, tol: float):
    """Bogacki and Shampine's pair: a step that errs too much is taken again, shorter."""
    t, dt = 0.0, 0.5
    taken, rejected = 0, 0
    while t < end:
        dt = min(dt, end - t)
        k1 = field(x, w)
        k2 = field(x + dt / 2 * k1, w)
        k3 = field(x + dt * 3 / 4 * k2, w)
        new = x + dt * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = field(new, w)
        error = (dt * (-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)).abs().max().item()
        if error <= tol:
            t += dt
            x = new
            taken += 1
        else:
            rejected += 1
            if rejected > 30:
                raise RuntimeError("the step became too small")
        dt *= min(4.0, max(0.2, 0.9 * (tol / max(error, 1e-12)) ** (1 / 3)))
    return x, taken, rejected


@program((vec(1.0, 0.0), vec(0.5), 0.1, 10), (vec(0.2, 0.3), vec(2.0), 0.05, 7))
def implicit_euler(x, k, dt: float, steps: int):
    """Newton's method inside each step of a stiff scalar system."""
    for _ in range(steps):
        y = x
        for _ in range(10):
            residual = y - x + dt * k * y ** 3
            if residual.abs().max() < 1e-10:
                break
            y = y - residual / (1 + 3 * dt * k * y ** 2)
        x = y
    return x


@program((vec(1.0, 0.0), vec(0.0, 1.0), 0.1, 12), (vec(0.5, 0.5), vec(0.3, -1.0), 0.02, 5))
def leapfrog_orbit(q, p, dt: float, steps: int):
    def force(q):
        return -q / q.norm() ** 3

    p = p + dt / 2 * force(q)
    for k in range(steps):
        q = q + dt * p
        if k < steps - 1:
            p = p + dt * force(q)
    p = p + dt / 2 * force(q)
    return q, p, (p @ p) / 2 - 1 / q.norm()


@program((f64(3, 2), f64(3, 2, seed=5), vec(1.0, 2.0, 0.5), 0.05, 4),
         (f64(4, 2), f64(4, 2, seed=5), vec(1.0, 2.0, 0.5, 1.0), 0.02, 3))
def n_body(x, v, m, dt: float, steps: int):
    n = x.shape[0]
    for _ in range(steps):
        forces = torch.zeros_like(x)
        for i in range(n):
            for j in range(i):
                d = x[i] - x[j]
                f = m[i] * m[j] * d / (d @ d + 0.01) ** 1.5
                forces[i] -= f
                forces[j] += f
        v = v + dt * forces / m.unsqueeze(1)
        x = x + dt * v
    return x, v


@program((f64(3), f64(3, seed=8), 0.2, 0.1, 6), (f64(2), f64(2, seed=8), 0.1, 0.5, 9))
def van_der_pol_events(x, v, mu: float, dt: float, steps: int):
    """Count changes of sign while stepping; each is added to the result where it happens."""
    crossings = 0
    total = torch.zeros_like(x)
    for _ in range(steps):
        new = x + dt * v
        v = v + dt * (mu * (1 - x * x) * v - x)
        if (new[0] > 0) != (x[0] > 0):
            crossings += 1
            total = total + new * v
        x = new
    return total, x, crossings


@program((vec(1.0), 9.81, 0.8, 0.01, 200), (vec(2.0), 1.6, 0.5, 0.05, 90))
def bouncing_ball(height, g: float, restitution: float, dt: float, limit: int):
    v = torch.zeros_like(height)
    bounces = 0
    for k in range(limit):
        height = height + dt * v
        v = v - dt * g
        if height.item() < 0:
            height = -height * restitution
            v = -v * restitution
            bounces += 1
            if bounces == 3:
                break
    return height, v, bounces, k


@program((vec(0.99, 0.01), 0.5, 0.1, 0.1, 400), (vec(0.7, 0.3), 0.9, 0.4, 0.2, 50))
def epidemic_until_over(state, beta: float, gamma: float, dt: float, limit: int):
    s, i = state
    peak = i
    for day in range(limit):
        infections = beta * s * i
        s, i = s - dt * infections, i + dt * (infections - gamma * i)
        peak = torch.maximum(peak, i)
        if i < 1e-3:
            print(f"over on day {day}")
            break
    else:
        print("not over")
    return s, peak


@program((f64(4), vec(0.3), 3), (f64(7), vec(0.1), 6))
def upwind_advection(u, speed, steps: int):
    for _ in range(steps):
        if speed.item() * steps > 1.0:
            u = u - speed * (u - torch.roll(u, 1, 0))
        else:
            u = u - speed * (torch.roll(u, -1, 0) - u)
    return u


@program((vec(0.5), 5, 2.0), (vec(0.9), 9, 0.3))
def delay_equation(x, delay: int, rate: float):
    """A list is the history; before its start the value is constant."""
    history = [x]
    for t in range(3 * delay):
        past = history[t - delay] if t >= delay else history[0]
        history.append(history[-1] + 0.1 * (rate * past / (1 + past ** 4) - history[-1]))
    return torch.cat(history)[::delay]


@program((f64(2), 0.1, 5), (f64(3), 0.3, 8))
def adjoint_of_energy(x, dt: float, steps: int):
    """The gradient of the path's energy with respect to the start, taken inside."""
    start = x.detach().clone().requires_grad_()
    y = start
    energy = torch.zeros((), dtype=torch.float64)
    for k in range(steps):
        new = y + dt * torch.sin(y) * math.exp(-0.1 * k)
        energy = energy + ((new - y) ** 2).sum()
        y = new
    (g,) = torch.autograd.grad(energy, (start,))
    return g, energy.detach()
