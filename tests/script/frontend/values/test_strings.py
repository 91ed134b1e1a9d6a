"""Strings with run-time parts: made, joined, formatted and printed as Python would, at the time of the statement."""

from __future__ import annotations

import sys

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((t(2), 7, 1.25, True), (t(2), -3, float("inf"), False), grad=False)
def formats(x, n, c, b):
    print(f"{n:+05d}|{n:>6}|{n:,}|{c:.3f}|{c:e}|{b}|{b!r:>6}|{n!s:<4}|{n:x}")
    print("%5d|%-6s|%.2f|%s" % (n, n, c, b))  # noqa: UP031
    print("{0:>4}|{b}|{0!r}".format(n, b=c))  # noqa: UP032
    return x


@program((t(2), 3), (t(2), 12), grad=False)
def joined_and_returned(x, n):
    head = f"n={n}"
    both = head + ", " + str(n + 1)
    return both, ",".join([head, "x"]), [f"{k}:{n}" for k in range(2)]


@program((t(2), 2), (t(2), 0))
def a_text_is_of_its_time(x, n):
    k = n
    said = f"k was {k}, x was {x}"
    x.add_(1)
    k += 5
    print(said)
    return x * k


@program((t(2), 1), (t(2), 4))
def chosen_by_a_branch(x, n):
    word = "large" if n > 2 else "small"
    print(word, n, sep="-", end="!\n")
    return x * n, word


@program((t(2), 1), (t(2), 4))
def raised(x, n):
    if n > 2:
        raise ValueError("n is " + str(n) + f" of {n * 2:03d}")
    return x


class Named:
    def __init__(self, v):
        self.v = v

    def __str__(self):
        return f"named {self.v}"


class Formatted(Named):
    def __format__(self, spec):
        return f"{spec}:{self.v}"


@program((t(2), 2))
def text_that_a_class_gives(x, n):
    print(Named(n), [Formatted(n)][0])
    return f"{Named(n)}, {Named(n)!s}, {Formatted(n):>4}", str(Named(x.sum().item() > 100))


@program((t(2), 0), (t(2), 3))
def to_standard_error(x, n):
    found, counts = [], {}
    for k in range(n):
        found.append(k * n)
        counts[k] = x.sum().item() > k
    print("found", found, counts, n, sep=" - ", file=sys.stderr)
    print(found, end="!")
    return x * n


test_programs = suite(PROGRAMS)
