"""What Python does with lists, tensors and iterators whose length is known at run time."""

# ruff: noqa: B905, C416, C417  (the forms themselves are tested)
from __future__ import annotations

import math

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((t(3),), (t(5),))
def generators_over_a_tensor(x):
    return sum(v * v for v in x), max(v for v in x), [v + 1 for v in x]


@program((3, t(3)), (5, t(3)))
def ints(n: int, x):
    xs = []
    for i in range(n):
        xs.append((i * 7) % 5)
    a = sorted(xs)
    b = sorted(xs, reverse=True)
    c = list(reversed(xs))
    d = any(v > 3 for v in xs), all(v >= 0 for v in xs)
    e = xs[1:n], xs[:-1], xs[::2]
    f = list(map(lambda v: v * 2, xs))
    g = [v for v in xs if v % 2]
    h = sum(v for v in xs), max(xs), min(xs), len(xs)
    return a, b, c, d, e, f, g, h


@program((3, t(3)), (5, t(3)))
def floats_and_tensors(n: int, x):
    xs = [float(i) * 0.5 for i in range(n)]
    ys = [x * i for i in range(n)]
    z = list(zip(xs, ys))
    tot = 0.0
    for k, (a, b) in enumerate(zip(xs, ys)):
        tot = tot + a * b.sum() * k
    f = list(filter(lambda v: v > 0.6, xs))
    return tot, z, f, list(enumerate(xs)), sum(xs), sorted(xs, key=lambda v: -v)


@program((3,), (6,))
def collatz(n: int):
    seen = []
    while n != 1:
        seen.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return seen, len(seen), max(seen), seen[-1], sum(seen), seen.index(2), 5 in seen


@program((t(5, 2), 1, 3), (t(7, 2), 2, 7))
def rows_of_a_tensor(x, a: int, b: int):
    xs = list(x)
    ys = xs[a:b]
    return torch.stack(ys), xs[a], ys[-1]


@program((3, t(4)), (10, t(7)))
def quantifiers(n: int, x):
    return any(i * j == n for i in range(4) for j in range(4) if i != j), all(v < n for v in x if v > 0), (
        any(v > 100 for v in x))


@program((t(6), 3), (t(9), 5))
def sort_of_pairs(x, n: int):
    pairs = [(x[i] * 2, i) for i in range(n)]
    best = sorted(pairs, key=lambda p: p[0], reverse=True)
    (v, i) = best[0]
    ranked = sorted(pairs, key=lambda p: -p[1])
    return (v, i, [j for _, j in best], ranked[0][0], max(pairs, key=lambda p: p[0])[1],
            min(pairs, key=lambda p: p[1])[0])


@program((t(20),))
def sort_of_many(x):
    vs = [float(v) for v in x[:20]]
    return sorted(vs), sorted(vs, key=lambda v: -abs(v))


@program((t(5),), (t(8),))
def sort_of_a_tensor(x):
    return torch.stack(sorted(x)), sorted(x, reverse=True)[0], torch.stack(list(reversed(list(x))))


@program((5,), (8,))
def sort_in_place(n: int):
    xs = [(k * 5) % 7 for k in range(n)]
    xs.sort()
    ys = xs.copy()
    ys.sort(reverse=True)
    return xs, ys


@program((4, t(3)), (7, t(3)))
def maps(n: int, x):
    xs = [x * k for k in range(n)]
    ys = list(map(lambda v: v.sum(), xs))
    zs = list(map(lambda a, b: a * b, xs, ys))
    ps = list(enumerate(ys))
    qs = [a + b for a, b in zip(xs, ys)]
    kept = list(filter(lambda v: v.sum() > 0, xs))
    return torch.stack(zs), ps[1], torch.stack(qs), len(kept), sum(map(lambda v: v.mean(), xs)), max(map(float, ys))


@program((4, 3), (0, 5))
def defaults(n: int, k: int):
    xs = [i * k for i in range(n)]
    return max(xs, default=7), min(xs, default=-1), sum(xs), sum(xs, k), max(xs, key=lambda v: -v, default=3)


@program((0,), (2,))
def largest_of_nothing(n: int):
    return max([i for i in range(n)])


@program((3, t(4)), (5, t(4)))
def printed(n: int, x):
    print([i for i in range(n)], sorted([n - i for i in range(n)]))
    for v in sorted([n - i for i in range(n)]):
        print(v)
    return [v + 1 for v in x]


@program((4, 1.5), (7, 0.5))
def product(n: int, a: float):
    return math.prod([k + a for k in range(n)]), math.prod([k + 1 for k in range(n)], start=2)


test_programs = suite(PROGRAMS)
