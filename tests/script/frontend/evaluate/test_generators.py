"""A loop over a generator runs its body at every `yield`, in Python's order."""

from __future__ import annotations

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


def pairs(x, n):
    print("begin")
    for i in range(n):
        if i % 2 == 0:
            yield i, x * i
        print("after", i)
    print("end")


def chained(x, n):
    yield x
    yield from (x * 10 + k for k in range(n))


@program((t(3), 4), (t(3), 0))
def statements_run_between_the_yields(x, n):
    total = x * 0
    for i, y in pairs(x, n):
        print("take", i)
        total = total + y
    return total


@program((t(3), 6), (t(3), 1))
def a_break_ends_the_generator(x, n):
    total = x
    for i, y in pairs(x, n):
        if i > 1:
            break
        total = total + y
    else:
        print("all")
    return total


@program((t(3), 5), (t(3), 2))
def a_return_leaves_both(x, n):
    for i, y in pairs(x, n):
        if i == 2:
            return y
    return x


@program((t(3), 3), (t(3), 0))
def one_passes_on_another(x, n):
    total = x * 0
    for y in chained(x, n):
        total = total * 2 + y
    return total


@program((t(3), 3))
def collected_where_the_number_is_known(x, n):
    first, *rest = [y * n for y in chained(x, 2)]
    return first, sum(rest)


@program((t(3), 3))
def gone_over_twice(x, n):
    made = chained(x, n)
    total = x
    for y in made:
        if y.sum() > 3:
            break
        total = total + y
    for y in made:
        total = total * y
    return total, next(made, None)


test_programs = suite(PROGRAMS)
