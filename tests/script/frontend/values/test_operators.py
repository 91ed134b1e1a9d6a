"""Operators on values of every kind, and Python's words where there is no meaning."""

from __future__ import annotations

from dataclasses import dataclass

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@dataclass
class Money:
    units: int

    def __add__(self, other):
        return Money(self.units + (other.units if isinstance(other, Money) else other))

    def __radd__(self, other):
        return self + other

    def __neg__(self):
        return Money(-self.units)

    def __matmul__(self, other):
        return NotImplemented


@program((t(2, 2), 3, 1.5), (t(2, 2), -2, 0.5))
def tensors_and_numbers(x, n, c):
    return x * n - c / x, x @ x + n // 2, 7 % n, n ** 2, c ** n, -x, +x, n << 2, n & 6 | 1 ^ n, ~n


@program((t(2), 2), (t(2), 0))
def lists_tuples_and_dicts(x, n):
    xs = [x] * 2 + [x * n]
    xs += [x]
    one = (1,)
    pair = (n, x) + one  # noqa: RUF005
    both = {"a": x, "b": n} | {"b": n + 1}
    return xs, pair * 2, both, [n] * n


@program((t(2), 2), (t(2), 5))
def objects_define_their_own(x, n):
    total = Money(n) + Money(1) + 2
    total = 3 + total
    return x * (-total).units


@program((t(2), 1), (t(2), 3), grad=False)
def texts(x, n):
    return "n=" + f"{n}" * 2, "%d of" % n, "ab" * 2  # noqa: UP031


@program((t(2), 1, True), (t(2), 2, False))
def none_where_a_number_may_be(x, n, c):
    y = n if c else None
    return x * (y + 1)


@program((t(2), 1))
def two_objects_without_a_product(x, n):
    return Money(n) @ Money(n)


@program((t(2), 1))
def a_tuple_has_no_sign(x, n):
    return -(n, x)


@program((t(2), 3), (t(2), 0))
def division_by_zero(x, n):
    return x * (5 // n)


test_programs = suite(PROGRAMS)
