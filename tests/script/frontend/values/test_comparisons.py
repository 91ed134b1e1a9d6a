"""Comparisons and truth of values of every kind: a bool of Python's where it is known, else one of the run."""

from __future__ import annotations

from dataclasses import dataclass

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@dataclass(order=True)
class Version:
    major: int
    minor: int


class Bag:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items


@program((t(3), 1, 2), (t(3), 2, 2), (t(3), 3, 2))
def chains_stop_early(x, a, b):
    def say(v):
        print("asked", v)
        return v

    return x, a < say(b) < say(3), a <= b != 3, say(a) == b == say(2)


@program((1, 2.0), (2, 2.0), (3, 2.0), grad=False)
def orders_of_sequences(a, b):
    first, second = (a, b, 1), (2, b, a)
    return first < second, first <= second, first == second, [a, 2] > [b, 1], [a] != [a], (a,) < (a, b)


@program((1, 2), (2, 1), (2, 2), grad=False)
def orders_of_objects(a, b):
    return Version(a, b) < Version(b, a), Version(a, b) == Version(2, 2), Version(a, 1) >= Version(b, 0)


@program((t(2), 3), (t(2), 4), (t(2), 9))
def membership(x, n):
    found = n in (1, 3, 9), n in [n - 1], n not in {4, 5}, n in range(1, 10, 4), n in {3: x, 4: x}, n in Bag([n + 1, 4])
    return x, found


@program((t(2), True), (t(2), False))
def identity(x, c):
    y = x if c else None
    z = x
    return y is None, y is not None, x is z, x is not None, c is True, (x + 1) is x


@program((t(2), True), (t(2), False))
def equality_with_what_may_be_none(x, c):
    n = 3 if c else None
    return x, n == 3, n != 3, n == None  # noqa: E711


@program((t(1), 0, 0.0), (t(1), 2, -0.5))
def truth_of_numbers_and_containers(x, n, c):
    values = [bool(n), bool(c), bool([n] * n), not (), not [x], bool({"a": n}), bool(Bag([n])), not Bag(range(n))]
    y = x * 2 if (x > 0 and n) or c else x * 3
    return y, values


@program((t(2),), grad=False)
def truth_of_a_tensor_of_two(x):
    return 1 if x else 2


@program((t(2), 1), (t(2), 0))
def sizes_are_equal_where_they_are_known_to_be(x, n):
    y = torch.cat([x, x[:n]])
    return y, x.shape == (x * 2).shape, y.shape == x.shape, x.shape[0] < y.shape[0]


@program((t(2), 1))
def a_text_is_not_ordered_with_a_number(x, n):
    return "a" < 1


test_programs = suite(PROGRAMS)
