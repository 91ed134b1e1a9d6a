"""Python's complex numbers of the run, and functions that remember what they answered."""

from __future__ import annotations

import functools

import jitgrad as torch
from tests.programs.nasty.harness import nasty


class Measured:
    def __init__(self, value):
        self.value = value

    def __abs__(self):
        return abs(self.value) + 1

    def __round__(self, digits=0):
        return round(self.value, digits)


def v(*values):
    return torch.tensor([float(k) for k in values])


REAL = (lambda: (1.0, 2.0), lambda: (-1.5, 0.0), lambda: (0.0, -3.0))
TWO = (lambda: (v(1, 2, 3), 3), lambda: (v(1, 2, 3), 1))


@nasty(*REAL)
def parts(a: float, b: float):
    """Made of two numbers, taken apart."""
    z = complex(a, b)
    return z.real, z.imag, abs(z), z, bool(z), f"{z} {z!r}", complex(a) == a, type(z).__name__


@nasty(*REAL)
def operators(a: float, b: float):
    """With floats, ints and constants on either side."""
    z = a + b * 1j
    return z * z, z.conjugate(), z + 1, 2 - z, z / (1 + 2j), -z, z == z, z != 1, 1j * a, isinstance(z, complex)


@nasty(*REAL)
def carried_by_a_loop(a: float, b: float):
    """Until it escapes."""
    n, z, c = 0, 0j, complex(a, b)
    while abs(z) < 2 and n < 20:
        z = z * z + c
        n += 1
    return n, z


@nasty(*REAL)
def chosen_by_a_branch(a: float, b: float):
    """A constant here, a number of the run there."""
    z, w = 0j if a > 0 else complex(a, b), complex(b, a)
    return z * z, w + z, z - w


@nasty(*REAL)
def divided_by_zero(a: float, b: float):
    """Python's words."""
    try:
        return (1 + 1j) / complex(a * 0, b * 0)
    except ZeroDivisionError as e:
        return str(e)


@nasty(*REAL)
def powers(a: float, b: float):
    """By counts, fractions and complex numbers."""
    z = complex(a, b)
    w = z
    w **= 3
    return z**2, z**-3, pow(z, 0), complex(a) ** 0.5, 2**z, z ** (1 - z), (1 + 1j) ** b, w


@nasty(lambda: (2.0, 3), lambda: (-0.5, -3), lambda: (0.0, -1), lambda: (1.5, 4000))
def powers_beyond_floats(a: float, n: int):
    """Of zero, and infinite: Python's words, handled too."""
    try:
        return complex(a, a) ** n
    except (OverflowError, ZeroDivisionError) as e:
        return str(e)


@nasty(*REAL)
def in_containers(a: float, b: float):
    """In lists and dicts, summed."""
    return [complex(a, k) for k in range(3)], {"z": 1j * b}, sum([1j * a, complex(b)])


@nasty(lambda: (3 + 4j, 2.0), lambda: (1 - 4j, 0.5))
def given(z, a: float):
    """One that the caller gives."""
    return z * a, abs(z), z.real + a


@nasty(lambda: (-2.0, 3), lambda: (2.25, 1))
def own_abs_and_round(a: float, n: int):
    """Classes that say it themselves."""
    m = Measured(a)
    return abs(m), round(m), round(m, n)


@nasty(*TWO)
def remembered(x, n: int):
    """What was asked before is not evaluated again."""
    calls = []

    @functools.lru_cache(maxsize=None)
    def fibonacci(k):
        calls.append(k)
        return k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)

    return fibonacci(10), x * fibonacci(7), len(calls)


@nasty(*TWO)
def remembered_by_numbers_of_the_run(x, n: int):
    """The same of arguments that only the run knows."""
    calls = []

    @functools.cache
    def square(k):
        calls.append(k)
        return k * k

    return [square(i % 2 + n) for i in range(n + 2)], calls


@nasty(lambda: (v(1, 2), v(3, 4).requires_grad_()), lambda: (v(1, 2).requires_grad_(), v(3, 4).requires_grad_()))
def complex_written_to_what_was_detached(x, y):
    """As of real numbers: the detached tensor has a history from then on."""
    h = torch.complex(x, x).detach()
    h += torch.complex(y, y)
    h[0] *= y[1]
    return h.real.sum() + (h * torch.complex(x, y)).imag.sum()
