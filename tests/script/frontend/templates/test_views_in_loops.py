"""A variable of a loop that the run chooses, and that is another view with every iteration."""

from __future__ import annotations

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()
X, Y = t(3), t(4, seed=1)
NS = tuple((X, Y, n) for n in (3, 1, 2, 0, 5, 70))


@program(*NS)
def shortened_where_another_one_may_be(x, y, n):
    z = x
    for k in range(n):
        if k % 5 == 1:
            z = y
        if k > 2:
            z = z[:2]
    return z


@program(*NS)
def moved_on(x, y, n):
    z = x
    for k in range(n):
        if k % 3 == 0:
            z = y
        if k > 0:
            z = z[1:]
    return z * 2


@program(*NS, grad=False)
def written_in_the_loop(x, y, n):
    x = x * 1
    y = y * 1
    z = x
    for k in range(n):
        z = z[:2] if k > 2 else y
        z.mul_(1.1)
    return z, x, y


@program(*NS, grad=False)
def written_after_the_loop(x, y, n):
    z = x
    for k in range(n):
        if z.sum() > k:
            z = z[:2]
        elif k > 1:
            z = y[1:]
    z.add_(1)
    return z


@program(*((t(3, 2), t(2, 2, seed=1), n) for n in (0, 1, 2, 6, 80)))
def transposed(x, y, n):
    z = x[:2]
    for k in range(n):
        if k % 4 == 3:
            z = y
        z = z.t()
    return z


@program(*((t(0), t(2), n) for n in (0, 3, 70)))
def nothing_is_left(x, y, n):
    z = x
    for k in range(n):
        z = y if k % 4 == 2 else z[:2]
    return z, z.shape[0]


@program(*((t(1), t(2), n) for n in (0, 3, 70)))
def one_is_left(x, y, n):
    z = x
    for k in range(n):
        if k % 4 == 2:
            z = y
        z = z[:1] if k % 3 == 1 else z
    return z, z.shape[0]


test_programs = suite(PROGRAMS)
