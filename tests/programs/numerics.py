"""Number theory, transforms, stencils, images and fractals: loops over Python numbers and index arithmetic."""

from __future__ import annotations

import math

import jitgrad as torch
from tests.programs.arrays import f64, vec
from tests.programs.harness import data, ints, program, weight

# --- Python ints ---------------------------------------------------------------------------------------------------


@program((48, 36), (17, 5), (0, 9), (-12, 18))
def gcd(a: int, b: int):
    while b:
        a, b = b, a % b
    return abs(a)


@program((240, 46), (7, 3), (17, 3120))
def extended_euclid(a: int, b: int):
    x0, x1, y0, y1 = 1, 0, 0, 1
    while b != 0:
        q, a, b = a // b, b, a % b
        x0, x1 = x1, x0 - q * x1
        y0, y1 = y1, y0 - q * y1
    return a, x0, y0


@program((27, weight(3)), (6, weight(3)), (1, weight(3)))
def collatz(n: int, x):
    steps, peak = 0, n
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        peak = max(peak, n)
        steps += 1
        x = x * 0.9 if n & 1 else x + 0.1
    return x * 2, steps, peak


@program((30,), (10,), (2,))
def sieve(n: int):
    is_prime = torch.ones(n, dtype=torch.bool)
    is_prime[:2] = False
    p = 2
    while p * p < n:
        if is_prime[p]:
            is_prime[p * p::p] = False
        p += 1
    return is_prime.nonzero().squeeze(1), int(is_prime.sum())


@program((3, 200, 13), (2, 10, 1000), (7, 0, 5))
def modular_power(base: int, exponent: int, modulus: int):
    result = 1
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


@program((10,), (1,), (90,), (100,))
def fibonacci(n: int):
    """The hundredth does not fit in 64 bits: eager goes on, so it is not asked for."""
    a, b = 0, 1
    for _ in range(min(n, 91)):
        a, b = b, a + b
    return a


@program((97,), (91,), (2,), (1,))
def is_prime(n: int):
    if n < 2:
        return False
    k = 2
    while k * k <= n:
        if n % k == 0:
            return False
        k += 1
    else:
        return True


@program((0b1011,), (255,), (0,))
def count_bits(n: int):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


@program((1234, 10), (255, 2), (7, 7))
def digit_sum_of_base(n: int, base: int):
    total = 0
    while n:
        n, d = divmod(n, base)
        total += d
    return total


@program((1.0, 2.0), (24.0, 6.0), (5.0, 0.01))
def arithmetic_geometric_mean(a: float, b: float):
    n = 0
    while abs(a - b) > 1e-14 * abs(a):
        a, b = (a + b) / 2, math.sqrt(a * b)
        n += 1
    return a, n


@program((vec(1.0, 24.0), vec(2.0, 6.0)), (vec(5.0, 2.0, 1.0), vec(0.5, 2.0, 7.0)))
def agm_of_tensors(a, b):
    while (a - b).abs().max() > 1e-12:
        a, b = (a + b) / 2, (a * b).sqrt()
    return a


@program((0.5, 20), (-1.2, 12), (0.0, 30))
def cordic(angle: float, n: int):
    x, y, z, scale, p = 1.0, 0.0, angle, 1.0, 1.0
    for _ in range(n):
        d = 1.0 if z >= 0 else -1.0
        x, y = x - d * y * p, y + d * x * p
        z -= d * math.atan(p)
        scale *= math.sqrt(1 + p * p)
        p /= 2
    return x / scale, y / scale


@program((3.14159, 5), (0.618033, 8), (0.5, 4))
def continued_fraction(x: float, n: int):
    terms = []
    for _ in range(n):
        whole = math.floor(x)
        terms.append(whole)
        x -= whole
        if x < 1e-6:
            break
        x = 1 / x
    return terms, len(terms)


@program((f64(5), f64(4, seed=3)), (f64(3), f64(6, seed=3)))
def polynomial_product(a, b):
    c = torch.zeros(len(a) + len(b) - 1, dtype=a.dtype)
    for i in range(len(a)):
        for j in range(len(b)):
            c[i + j] += a[i] * b[j]
    return c


@program((f64(5), 0.7), (f64(2), -1.3))
def horner_with_derivative(coefficients, x: float):
    p = torch.zeros((), dtype=torch.float64)
    d = torch.zeros((), dtype=torch.float64)
    for i in range(len(coefficients) - 1, -1, -1):
        d = d * x + p
        p = p * x + coefficients[i]
    return p, d


@program((data(5), weight(5)), (data(3), weight(3)))
def lagrange_interpolation(xs, ys):
    at = xs.mean() + 0.05
    total = torch.zeros(())
    for i in range(len(xs)):
        term = ys[i]
        for j in range(len(xs)):
            if i != j:
                term = term * (at - xs[j]) / (xs[i] - xs[j])
        total = total + term
    return total


# --- integrals -----------------------------------------------------------------------------------------------------


@program((vec(0.5), 0.0, 1.0, 16), (vec(2.0), -1.0, 2.0, 6))
def simpson(k, a: float, b: float, n: int):
    h = (b - a) / n
    total = torch.exp(-k * a * a) + torch.exp(-k * b * b)
    for i in range(1, n):
        x = a + i * h
        total = total + (4 if i % 2 else 2) * torch.exp(-k * x * x)
    return total * h / 3


@program((vec(1.0), 1e-7), (vec(3.0), 1e-4))
def romberg(k, tol: float):
    rows = [0.5 * (torch.zeros(1, dtype=torch.float64) + torch.sin(k))]
    n, h = 1, 1.0
    for level in range(1, 12):
        h /= 2
        middle = torch.zeros(1, dtype=torch.float64)
        for i in range(n):
            middle = middle + torch.sin(k * (2 * i + 1) * h)
        row = [rows[0] / 2 + h * middle]
        for m in range(level):
            row.append(row[m] + (row[m] - rows[m]) / (4.0 ** (m + 1) - 1))
        done = (row[-1] - rows[-1]).abs().item() < tol
        rows = row
        n *= 2
        if done:
            break
    return rows[-1], level


@program((vec(0.8), 1e-6), (vec(6.0), 1e-3))
def adaptive_quadrature(k, tol: float):
    """Simpson with an explicit stack of intervals."""
    def f(x):
        return torch.exp(-k * x) * math.cos(3 * x)

    stack = [(0.0, 2.0)]
    total = torch.zeros(1, dtype=torch.float64)
    evaluations = 0
    while stack:
        a, b = stack.pop()
        m = (a + b) / 2
        fa, fm, fb = f(a), f(m), f(b)
        left = (m - a) / 6 * (fa + 4 * f((a + m) / 2) + fm)
        right = (b - m) / 6 * (fm + 4 * f((m + b) / 2) + fb)
        whole = (b - a) / 6 * (fa + 4 * fm + fb)
        evaluations += 1
        if (left + right - whole).abs().item() < tol or b - a < 0.05:
            total = total + left + right
        else:
            stack.append((m, b))
            stack.append((a, m))
    return total, evaluations


# --- transforms and stencils ---------------------------------------------------------------------------------------


@program((f64(8), f64(8, seed=1)), (f64(16), f64(16, seed=1)))
def fast_fourier_transform(re, im):
    """Iterative radix two: bit reversal, then butterflies."""
    n = re.shape[0]
    order = torch.arange(n)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        order[i] = j
    re, im = re[order], im[order]
    length = 2
    while length <= n:
        half = length // 2
        angle = -2 * math.pi / length * torch.arange(half, dtype=torch.float64)
        c, s = torch.cos(angle), torch.sin(angle)
        re, im = re.reshape(-1, length), im.reshape(-1, length)
        er, ei, odr, odi = re[:, :half], im[:, :half], re[:, half:], im[:, half:]
        tr, ti = odr * c - odi * s, odr * s + odi * c
        re = torch.cat([er + tr, er - tr], dim=1).reshape(n)
        im = torch.cat([ei + ti, ei - ti], dim=1).reshape(n)
        length *= 2
    return re, im


@program((weight(8),), (weight(16),))
def haar_wavelet(x):
    n = x.shape[0]
    out = x.clone()
    while n > 1:
        part = out[:n].clone()
        half = n // 2
        out[:half] = (part[0::2] + part[1::2]) / math.sqrt(2)
        out[half:n] = (part[0::2] - part[1::2]) / math.sqrt(2)
        n = half
    return out


@program((weight(8), weight(2), 0.1, 5), (weight(5), weight(2), 0.2, 9))
def heat_equation(u, ends, r: float, steps: int):
    for _ in range(steps):
        u = torch.cat([ends[:1], u, ends[1:]])
        u = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@program((weight(6, 5), 0.2, 1e-2), (weight(4, 4), 0.15, 0.3))
def heat_in_place(u, r: float, tol: float):
    """The plate's inner points, until they hardly move."""
    u = u.clone()
    change, steps = 1.0, 0
    while change > tol and steps < 40:
        old = u.clone()
        u[1:-1, 1:-1] += r * (old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2] - 4 * old[1:-1, 1:-1])
        change = (u - old).abs().max().item()
        steps += 1
    return u, steps


@program((weight(6), weight(6, seed=3), 0.3, 4), (weight(9), weight(9, seed=3), 0.1, 7))
def wave_equation(u, velocity, c: float, steps: int):
    for _ in range(steps):
        velocity = velocity + c * (torch.roll(u, 1, 0) - 2 * u + torch.roll(u, -1, 0))
        u = u + velocity
    return u, (u * u).sum() + (velocity ** 2).sum()


@program((data(6, 6), 3), (data(5, 7, seed=4), 6))
def game_of_life(seed, generations: int):
    board = (seed > 0).int()
    for _ in range(generations):
        around = torch.zeros_like(board)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dy != 0 or dx != 0:
                    around += torch.roll(board, (dy, dx), (0, 1))
        board = ((around == 3) | ((board == 1) & (around == 2))).int()
        if board.sum() == 0:
            break
    return board, board.sum()


@program((30, 6), (110, 9))
def elementary_automaton(rule: int, steps: int):
    row = torch.zeros(9, dtype=torch.int64)
    row[4] = 1
    rows = [row]
    for _ in range(steps):
        code = 4 * torch.roll(row, 1, 0) + 2 * row + torch.roll(row, -1, 0)
        row = (torch.full_like(code, rule) >> code) & 1
        rows.append(row)
    return torch.stack(rows)


@program((weight(5, 6), weight(3, 3)), (weight(4, 4), weight(2, 3)))
def correlate_by_loops(image, kernel):
    h, w = kernel.shape
    rows = image.shape[0] - h + 1
    columns = image.shape[1] - w + 1
    out = torch.zeros(rows, columns)
    for i in range(h):
        for j in range(w):
            out = out + kernel[i, j] * image[i:i + rows, j:j + columns]
    return out


@program((weight(5, 6), 0.5, 2), (weight(4, 4), 1.5, 1))
def bilateral_filter(image, sigma: float, radius: int):
    total, norm = torch.zeros_like(image), torch.zeros_like(image)
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            shifted = torch.roll(image, (dy, dx), (0, 1))
            weights = torch.exp(-(dy * dy + dx * dx) / (2 * radius ** 2) - (shifted - image) ** 2 / (2 * sigma ** 2))
            total, norm = total + weights * shifted, norm + weights
    return total / norm


@program((weight(5, 5), 3), (weight(4, 6), 2))
def summed_area_means(image, size: int):
    table = torch.zeros(image.shape[0] + 1, image.shape[1] + 1)
    table[1:, 1:] = image.cumsum(0).cumsum(1)
    out = []
    for y in range(image.shape[0] - size + 1):
        for x in range(image.shape[1] - size + 1):
            out.append(table[y + size, x + size] - table[y, x + size] - table[y + size, x] + table[y, x])
    return torch.stack(out) / size ** 2


@program((data(2, 3), 8), (data(3, 3, seed=5), 20))
def mandelbrot(offset, limit: int):
    cr, ci = offset * 0.7 - 0.5, offset.flip(0) * 0.6
    zr, zi = torch.zeros_like(cr), torch.zeros_like(ci)
    counts = torch.zeros(cr.shape, dtype=torch.int64)
    for _ in range(limit):
        inside = zr * zr + zi * zi <= 4
        if not inside.any():
            break
        zr, zi = torch.where(inside, zr * zr - zi * zi + cr, zr), torch.where(inside, 2 * zr * zi + ci, zi)
        counts += inside
    return counts


@program((-0.5, 0.5, 30), (0.4, 0.4, 50), (2.0, 1.0, 9))
def escape_time(cr: float, ci: float, limit: int):
    zr = zi = 0.0
    for n in range(limit):
        if zr * zr + zi * zi > 4:
            return n
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
    return limit


@program((weight(3), data(4, 3), 40), (weight(3), data(2, 3), 10))
def ray_marching(center, directions, limit: int):
    """Distance to a sphere along each ray; rays that miss count nothing."""
    shade = torch.zeros(())
    hits = 0
    for i in range(directions.shape[0]):
        d = directions[i] / directions[i].norm()
        t = torch.zeros(())
        for _ in range(limit):
            p = t * d - center - torch.tensor([0.0, 0.0, 1.5])
            distance = p.norm() - 1
            if distance < 1e-3:
                shade = shade + (p @ d) / p.norm()
                hits += 1
                break
            t = t + distance
            if t > 10:
                break
    return shade, hits


@program((ints(3, 1, 2, 5, 4),), (ints(9, 8, 7),))
def bubble_sort(x):
    x = x.clone()
    swaps = 0
    for i in range(len(x)):
        moved = False
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                low = x[j + 1].clone()
                x[j + 1] = x[j]
                x[j] = low
                swaps += 1
                moved = True
        if not moved:
            break
    return x, swaps


@program((vec(0.1, 0.4, 0.8, 1.6), 0.5), (vec(0.1, 0.2), 0.15), (vec(0.1, 0.2, 0.7), 5.0))
def binary_search(xs, x: float):
    low, high = 0, xs.shape[0]
    while low < high:
        m = (low + high) // 2
        if xs[m] < x:
            low = m + 1
        else:
            high = m
    return low, xs[low] * 2 if low < xs.shape[0] else xs[-1] - 1
