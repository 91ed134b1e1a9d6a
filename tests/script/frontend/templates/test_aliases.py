"""In-place writes to tensors that a branch of the run chose, by name or in a container."""

from __future__ import annotations

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


def _both(n: int = 1, second: bool = False):
    """Calls with every combination of the flags."""
    flags = [(c, d) for c in (True, False) for d in (True, False)] if second else [(True,), (False,)]
    return [(t(3, 2) * 1, t(3, 2, seed=1) * 1, *f) for f in flags]


class Box:
    def __init__(self, x):
        self.x = x


def _own(*xs):
    """Memory that may be written where gradients are asked for, too."""
    return [x * 1 for x in xs]


@program(*_both())
def unpacked(a, b, c: bool):
    a, b = _own(a, b)
    x, k = (a, 1) if c else (b, 2)
    x.add_(k)
    a.mul_(2)
    return a * 1, b * 1, x * 1


@program(*_both())
def in_containers(a, b, c: bool):
    a, b = _own(a, b)
    p = ((a, 1), [b]) if c else ((b, 2), [a])
    d, box, xs = {"x": a}, Box(b), [a]
    if c:
        d["x"] = b
        box.x = a
        xs[0] = b
    p[0][0].add_(p[0][1])
    p[1][0].mul_(3)
    d["x"].add_(box.x)
    xs[0].mul_(2)
    return a.sum(), b.sum(), p[0][0] * 1, d["x"] * 1, box.x * 1, xs[0] * 1


@program(*_both(second=True))
def branches_in_branches(a, b, c: bool, d: bool):
    a, b = _own(a, b)
    if c:
        w = a * 2
        if d:
            u, v = w, a
        else:
            u, v = b, w
        u = u[0]
    else:
        u = a[1]
        w = v = b
    u.add_(1)
    w.mul_(2)
    v.sub_(3)
    return u * 1, w * 1, v * 1, a.sum(), b.sum()


@program(*_both())
def views_made_inside(a, b, c: bool):
    if c:
        y = a * 1
        v, p = y[0], (y, 1)
    else:
        y = b * 2
        v, p = y[0], (b * 1, 2)
    v.add_(1)
    p[0].mul_(p[1])
    return y * 1, v * 1, p[0] * 1


@program(*_both())
def positions_made_inside(m, b, c: bool):
    (m,) = _own(m)
    x = m[int((b * 0).sum()) + 1] if c else b[0] * 2
    x.mul_(3)
    return m.sum(), x * 1


@program(*_both(second=True))
def arguments(a, b, c: bool, d: bool):
    p = ((a, b) if d else (b, a)) if c else (a, a * 2)
    with torch.no_grad():
        y = p[0].detach()
        y.add_(1)
    return p, a.sum()


@program((t(3, 2), t(3, 2, seed=1), 4), (t(3, 2), t(3, 2, seed=1), 0))
def in_a_loop(a, b, n: int):
    a, b = _own(a, b)
    for i in range(n):
        x, k = (a, i) if a.sum() < b.sum() else (b, 1)
        x.mul_(0.5).add_(k)
    return a * 1, b * 1


@program((t(3), True), (t(3), False))
def what_overlaps(a, c: bool):
    if c:
        y = a * 1
        u, v = y[:2], y[1:]
    else:
        u, v = a[:2] * 1, a[1:] * 2
    u.add_(1)
    return v * 1


test_programs = suite(PROGRAMS)


def test_what_is_returned_is_the_argument():
    def f(a, b, c: bool, d: bool):
        return ((a, b) if d else (b, a)) if c else (a * 2, b)

    scripted = torch.script(f)
    a, b = t(2), t(2, seed=1)
    for c in (True, False):
        for d in (True, False):
            expected, found = f(a, b, c, d), scripted(a, b, c, d)
            assert [x is a for x in found] == [x is a for x in expected]
            assert [x is b for x in found] == [x is b for x in expected]
