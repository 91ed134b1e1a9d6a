"""`match`: cases in order, what they bind, guards; decided while compiling or by the run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@dataclass
class Shift:
    by: int
    axis: int = 0


@dataclass
class Scale:
    factor: float


@program((t(2), 0), (t(2), 2), (t(2), 3), (t(2), 9))
def numbers_by_value(x, n):
    match n:
        case 0:
            y = x
        case 2 | 3 as k if k > 2:
            y = x * k
        case 2 | 3:
            y = x - n
        case other:
            y = x + other
    return y * 1


@program((t(2), 1, 2), (t(2), 2, 2), (t(2), 0, 5))
def sequences_by_length_and_value(x, a, b):
    match (a, b, x):
        case (0, _, y):
            return y * 10
        case (p, q, y) if p == q:
            return y + p
        case (first, *rest):
            return rest[1] * first + rest[0]


@program((t(2), 3), (t(2), 4))
def objects_by_class(x, n):
    total = x
    for change in (Shift(n), Scale(0.5), Shift(1, axis=1), None, n):
        match change:
            case Shift(by, axis=0):
                total = total + by
            case Shift(by=k):
                total = total - k
            case Scale(factor):
                total = total * factor
            case None:
                print("nothing")
            case int():
                total = total * 2
    return total


@program((t(2), 3), (t(2), 7))
def dicts_by_key(x, n):
    match {"kind": "add", "by": n, "x": x}:
        case {"kind": "mul", "by": k}:
            return x * k
        case {"kind": "add", "by": 3, **rest}:
            return rest["x"] + len(rest)
        case {"by": k}:
            return x - k


@program((t(2), 1), (t(2), 5))
def no_case_fits(x, n):
    y = x + 1
    match n:
        case 5:
            y = y * 3
    return y


test_programs = suite(PROGRAMS)
