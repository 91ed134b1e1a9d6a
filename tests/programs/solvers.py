"""Roots, linear systems, eigenvalues and factorisations, written as loops that stop when they are done."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.arrays import f64, spd, vec
from tests.programs.harness import program

# --- roots ---------------------------------------------------------------------------------------------------------


@program((vec(2.0, 3.0), 1e-10, 50), (vec(5.0, 0.5, 7.0), 1e-6, 20), (vec(9.0, 2.0), 1e-3, 2))
def newton_square_root(a, tol: float, limit: int):
    x = torch.ones_like(a)
    steps = 0
    while steps < limit:
        f = x * x - a
        if f.abs().max() < tol:
            break
        x = x - f / (2 * x)
        steps += 1
    return x, steps


@program((2.0, 1.0, 3.0), (10.0, 0.5, 9.0), (0.3, 0.1, 0.2))
def secant_of_floats(a: float, x0: float, x1: float):
    f0, f1 = x0 * x0 - a, x1 * x1 - a
    n = 0
    while abs(f1) > 1e-12 and n < 60:
        if f1 == f0:
            break
        x0, x1 = x1, x1 - f1 * (x1 - x0) / (f1 - f0)
        f0, f1 = f1, x1 * x1 - a
        n += 1
    return x1, n


@program((vec(0.0), vec(2.0), vec(1.3)), (vec(-1.0), vec(4.0), vec(2.2)), (vec(3.0), vec(4.0), vec(0.1)))
def bisection(low, high, c):
    def f(x):
        return x ** 3 + x - c

    if f(low) * f(high) > 0:
        raise ValueError(f"no change of sign between {low.item():.2f} and {high.item():.2f}")
    while (high - low).item() > 1e-8:
        middle = (low + high) / 2
        if f(low) * f(middle) <= 0:
            high = middle
        else:
            low = middle
    x = (low + high) / 2
    return x.detach() - f(x.detach()) / (3 * x.detach() ** 2 + 1)


@program((vec(1.5), 0.0, 3.0), (vec(0.4), -1.0, 2.0), (vec(4.0), 0.0, 1.0))
def brent_like(c, a: float, b: float):
    """Inverse quadratic, secant or bisection, whichever is trusted."""
    k = c.item()
    fa, fb = a ** 3 - k, b ** 3 - k
    if fa * fb >= 0.0:
        return c * 0 - 1, 0
    if abs(fa) < abs(fb):
        a, b, fa, fb = b, a, fb, fa
    last, flast, d = a, fa, 0.0
    bisected = True
    path = 0
    for _ in range(100):
        if fb == 0.0 or abs(b - a) < 1e-10:
            break
        if fa != flast and fb != flast:
            s = (a * fb * flast / ((fa - fb) * (fa - flast)) + b * fa * flast / ((fb - fa) * (fb - flast))
                 + last * fa * fb / ((flast - fa) * (flast - fb)))
            path += 100
        else:
            s = b - fb * (b - a) / (fb - fa)
            path += 10
        between = min((3 * a + b) / 4, b) < s < max((3 * a + b) / 4, b)
        slow = abs(s - b) >= (abs(b - last) if bisected else abs(last - d)) / 2
        if not between or slow:
            s = (a + b) / 2
            bisected = True
            path += 1
        else:
            bisected = False
        fs = s ** 3 - k
        d, last, flast = last, b, fb
        if fa * fs < 0:
            b, fb = s, fs
        else:
            a, fa = s, fs
        if abs(fa) < abs(fb):
            a, b, fa, fb = b, a, fb, fa
    print(f"{b:.8f} {path}")
    return c / (b * b), path


@program((f64(3, 3) * 0.2, vec(1.0, 0.5, -0.2), 1e-9), (f64(4, 4, seed=2) * 0.1, vec(1.0, 2.0, 3.0, 4.0), 1e-3))
def fixed_point(w, b, tol: float):
    z = torch.zeros_like(b)
    for n in range(200):
        new = torch.tanh(w @ z + b)
        if (new - z).norm() < tol:
            break
        z = new
    return new.sum(), n


@program((f64(3, 3) * 0.3, vec(1.0, 0.5, -0.2), 12), (f64(4, 4, seed=2) * 0.2, vec(1.0, 2.0, 3.0, 4.0), 7))
def anderson_depth_one(w, b, limit: int):
    x = torch.zeros_like(b)
    fx = torch.tanh(w @ x + b)
    previous, residual = x, fx - x
    x = fx
    for _ in range(limit):
        fx = torch.tanh(w @ x + b)
        r = fx - x
        dr = r - residual
        if dr @ dr < 1e-14:
            break
        theta = (r @ dr) / (dr @ dr)
        new = fx - theta * (x + r - previous - residual)
        previous, residual, x = x, r, new
    return x


# --- linear systems ------------------------------------------------------------------------------------------------


@program((spd(4), f64(4, seed=1), 1e-10), (spd(6), f64(6, seed=2), 1e-6), (spd(3), f64(3, seed=2) * 0, 1e-6))
def conjugate_gradient(a, b, tol: float):
    x = torch.zeros_like(b)
    r = b - a @ x
    p = r
    rs = r @ r
    n = 0
    while rs.sqrt() > tol:
        ap = a @ p
        alpha = rs / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        n += 1
        if n >= 2 * b.shape[0]:
            break
    return x, n


@program((spd(4) + 0.3 * f64(4, 4), f64(4, seed=1), 4), (spd(5) + 0.1 * f64(5, 5), f64(5, seed=1), 3))
def gmres_small(a, b, m: int):
    beta = b.norm()
    basis = [b / beta]
    h = torch.zeros(m + 1, m, dtype=torch.float64)
    for j in range(m):
        v = a @ basis[j]
        for i in range(j + 1):
            part = basis[i] @ v
            v = v - part * basis[i]
            h[i, j] = part
        h[j + 1, j] = v.norm()
        basis.append(v / (v.norm() + 1e-30))
    e = torch.zeros(m + 1, dtype=torch.float64)
    e[0] = 1.0
    normal = h.t() @ h + 1e-12 * torch.eye(m, dtype=torch.float64)
    y = conjugate_gradient_steps(normal, h.t() @ (beta * e), m)
    return torch.stack(basis)[:m].t() @ y


def conjugate_gradient_steps(a, b, n):
    x, r = torch.zeros_like(b), b
    p = r
    for _ in range(n):
        alpha = (r @ r) / (p @ (a @ p))
        x = x + alpha * p
        new = r - alpha * (a @ p)
        p = new + ((new @ new) / (r @ r)) * p
        r = new
    return x


@program((spd(4) + 4 * torch.eye(4, dtype=torch.float64), f64(4, seed=1), 1e-6),
         (spd(6) + 9 * torch.eye(6, dtype=torch.float64), f64(6, seed=1), 1e-3))
def jacobi(a, b, tol: float):
    d = torch.diagonal(a)
    off = a - torch.diag(d)
    x = torch.zeros_like(b)
    for k in range(200):
        new = (b - off @ x) / d
        if (new - x).abs().max() < tol:
            return new, k
        x = new
    return x, -1


@program((spd(4), f64(4, seed=1), 5), (spd(3), f64(3, seed=1), 9))
def gauss_seidel(a, b, sweeps: int):
    x = torch.zeros_like(b)
    for _ in range(sweeps):
        for i in range(b.shape[0]):
            x[i] = (b[i] - a[i] @ x.clone() + a[i, i] * x[i].clone()) / a[i, i]
    return x


@program((spd(4), f64(4, seed=1), 1.2, 5), (spd(3), f64(3, seed=1), 0.8, 8))
def successive_over_relaxation(a, b, omega: float, sweeps: int):
    x = b.clone()
    change = 0.0
    for _ in range(sweeps):
        change = 0.0
        for i in range(len(b)):
            old = x.clone()
            sigma = a[i, :i] @ old[:i] + a[i, i + 1:] @ old[i + 1:]
            new = (1 - omega) * old[i] + omega * (b[i] - sigma) / a[i, i]
            change = max(change, abs((new - old[i]).item()))
            x[i] = new
        if change < 1e-4:
            break
    return x, change


@program((f64(5, 3), f64(5, seed=4), 0.05), (f64(4, 4), f64(4, seed=4), 0.1))
def kaczmarz(a, b, tol: float):
    x = torch.zeros(a.shape[1], dtype=torch.float64)
    sweeps = 0
    while True:
        before = x
        for row, value in zip(a, b):
            x = x + (value - row @ x) / (row @ row) * row
        sweeps += 1
        if (x - before).norm() < tol or sweeps == 20:
            return x, sweeps


@program((vec(1.0, 1.0, 1.0), vec(4.0, 5.0, 6.0, 7.0), vec(1.0, -1.0, 0.5), vec(1.0, 2.0, 3.0, 4.0)),
         (vec(1.0, 0.5), vec(4.0, 5.0, 6.0), vec(1.0, -1.0), vec(1.0, 2.0, 3.0)))
def thomas(low, diagonal, up, b):
    """A tridiagonal system, eliminated in place."""
    n = b.shape[0]
    c, d = up.clone(), b.clone()
    c[0] /= diagonal[0]
    d[0] /= diagonal[0]
    for i in range(1, n):
        m = diagonal[i] - low[i - 1] * c[i - 1].clone()
        if i < n - 1:
            c[i] = up[i] / m
        d[i] = (b[i] - low[i - 1] * d[i - 1].clone()) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i].clone() * d[i + 1].clone()
    return d


# --- eigenvalues ---------------------------------------------------------------------------------------------------


@program((spd(4), 1e-8, 300), (spd(6), 1e-3, 20))
def power_iteration(a, tol: float, limit: int):
    v = torch.ones(a.shape[0], dtype=torch.float64)
    value = torch.zeros((), dtype=torch.float64)
    for n in range(limit):
        w = a @ v
        new = v @ w / (v @ v)
        v = w / w.norm()
        if (new - value).abs() < tol:
            break
        value = new
    return value, v, n


@program((spd(4), 3), (spd(5), 4))
def lanczos(a, m: int):
    n = a.shape[0]
    v = torch.ones(n, dtype=torch.float64) / n ** 0.5
    before = torch.zeros_like(v)
    beta = torch.zeros((), dtype=torch.float64)
    t = torch.zeros(m, m, dtype=torch.float64)
    for j in range(m):
        w = a @ v - beta * before
        alpha = w @ v
        t[j, j] = alpha
        w = w - alpha * v
        beta = w.norm()
        if j + 1 < m:
            t[j, j + 1] = beta
            t[j + 1, j] = beta
        before, v = v, w / beta
    return t


@program((spd(3), 6), (spd(4), 4))
def qr_iteration(a, steps: int):
    for _ in range(steps):
        q, r = gram_schmidt(a)
        a = r @ q
    return torch.diagonal(a)


def gram_schmidt(a):
    q = torch.zeros_like(a)
    r = torch.zeros(a.shape[1], a.shape[1], dtype=a.dtype)
    for j in range(a.shape[1]):
        v = a[:, j]
        for i in range(j):
            unit = q[:, i].clone()
            r[i, j] = unit @ v
            v = v - (unit @ v) * unit
        r[j, j] = v.norm()
        q[:, j] = v / v.norm()
    return q, r


@program((f64(4, 3),), (f64(5, 2),))
def qr_by_gram_schmidt(a):
    q, r = gram_schmidt(a)
    return q, r


@program((f64(4, 3),), (f64(5, 2),))
def qr_by_householder(a):
    m, n = a.shape
    r = a.clone()
    q = torch.eye(m, dtype=a.dtype)
    for k in range(n):
        x = r[k:, k].clone()
        alpha = -x.norm() if x[0] > 0 else x.norm()
        v = x.clone()
        v[0] -= alpha
        v = v / v.norm()
        r[k:, k:] -= 2 * torch.outer(v, v @ r[k:, k:].clone())
        q[:, k:] -= 2 * torch.outer(q[:, k:].clone() @ v, v)
    return q, r


# --- factorisations with index writes ------------------------------------------------------------------------------


@program((spd(3),), (spd(5),), (-spd(3),))
def cholesky(a):
    n = a.shape[0]
    low = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - low[i, :j].clone() @ low[j, :j].clone()
            if i == j:
                if s <= 0:
                    raise ArithmeticError(f"not positive definite at {i}")
                low[i, j] = s.sqrt()
            else:
                low[i, j] = s / low[j, j].clone()
    return low


@program((f64(3, 3),), (f64(5, 5, seed=8),))
def lu_with_pivots(a):
    """Doolittle, rows swapped in place."""
    n = a.shape[0]
    a = a.clone()
    swaps = 0
    for k in range(n - 1):
        p = k
        for i in range(k + 1, n):
            if a[i, k].abs() > a[p, k].abs():
                p = i
        if p != k:
            row = a[k].clone()
            a[k] = a[p].clone()
            a[p] = row
            swaps += 1
        for i in range(k + 1, n):
            factor = a[i, k].clone() / a[k, k].clone()
            a[i, k] = factor
            a[i, k + 1:] -= factor * a[k, k + 1:].clone()
    determinant = torch.diagonal(a).prod() * (-1) ** (swaps % 2)
    return a, determinant, swaps


@program((f64(3, 3), 1), (f64(4, 4) * 3, 2))
def matrix_exponential(a, extra: int):
    """Scaling and squaring of a Taylor series."""
    s = extra
    norm = a.abs().sum(dim=0).max().item()
    while norm > 0.5:
        norm /= 2
        s += 1
    x = a / 2 ** s
    term = torch.eye(a.shape[0], dtype=a.dtype)
    total = term
    k = 1
    while term.abs().max() > 1e-12:
        term = term @ x / k
        total = total + term
        k += 1
    for _ in range(s):
        total = total @ total
    return total, s


@program((spd(3), 12), (spd(4), 6))
def newton_schulz_inverse(a, limit: int):
    eye = torch.eye(a.shape[0], dtype=a.dtype)
    x = a.t() / a.pow(2).sum()
    for k in range(limit):
        r = eye - a @ x
        if r.abs().max() < 1e-9:
            break
        x = x + x @ r
    return x, k


@program((f64(3, 3), 0), (f64(4, 4), 5), (f64(3, 3), 10))
def matrix_power_by_squaring(a, n: int):
    result = torch.eye(a.shape[0], dtype=a.dtype)
    while n > 0:
        if n & 1:
            result = result @ a
        a = a @ a
        n >>= 1
    return result


@program((spd(3), 8), (spd(4), 4))
def jacobi_eigenvalues(a, limit: int):
    """Rotate the largest off-diagonal element away."""
    a = a.clone()
    n = a.shape[0]
    for _ in range(limit):
        p, q, largest = 0, 1, -1.0
        for i in range(n):
            for j in range(i + 1, n):
                if abs(a[i, j].item()) > largest:
                    p, q, largest = i, j, abs(a[i, j].item())
        if largest < 1e-10:
            break
        theta = 0.5 * torch.atan2(2 * a[p, q], a[q, q] - a[p, p])
        c, s = theta.cos(), theta.sin()
        j = torch.eye(n, dtype=a.dtype)
        j[p, p] = c
        j[q, q] = c
        j[p, q] = s
        j[q, p] = -s
        a = j.t() @ a @ j
    return torch.diagonal(a)
