"""Python's numbers: large, negative, of other kinds than expected, and the text of them."""

from __future__ import annotations

import math

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


@nasty(lambda: (2 ** 53,), lambda: (2 ** 53 + 2,))
def beyond_doubles(n: int):
    """Ints above 2 ** 53 pass through a double."""
    return n + 1, n * 3 // 3, (n + 1) % 10, n == n + 1


@nasty(lambda: (-7, 2), lambda: (7, -2), lambda: (-7, -2), lambda: (6, 0))
def floor_and_sign(a: int, b: int):
    """`//` and `%` truncate as in C."""
    return a // b, a % b, divmod(a, b), int(a / b)


@nasty(lambda: (-7.5, 2.0), lambda: (7.5, -2.0), lambda: (-0.0, 5.0), lambda: (1.0, 0.0))
def floor_and_sign_of_floats(a: float, b: float):
    """The float remainder has the sign of the dividend, as fmod's."""
    return a // b, a % b, math.fmod(a, b)


@nasty(lambda: (2, 10), lambda: (2, -2), lambda: (-3, 3), lambda: (0, 0), lambda: (0, -1))
def powers_of_ints(a: int, b: int):
    """int ** int is always an int, or always a float."""
    p = a ** b
    return p, isinstance(p, int), -a ** 2


@nasty(lambda: (2.5,), lambda: (3.5,), lambda: (-0.5,), lambda: (-1.5,))
def rounding_to_even(x: float):
    """round goes away from zero."""
    return round(x), int(x), math.floor(x), math.ceil(x), round(x, 0)


@nasty(lambda: (True, False), lambda: (True, True))
def bools_are_ints(a: bool, b: bool):
    """True + True is 1 or True."""
    return a + b, a & b, a * 3, -a, ~a, a == 1, a / 2, [10, 20][b]


@nasty(lambda: (5,), lambda: (-5,))
def shifts_and_masks(n: int):
    """Negative ints are shifted as unsigned words."""
    return n >> 1, n << 3, n & 0xFF, n | 8, n ^ -1, ~n, abs(n)


@nasty(lambda: (1, 2.0), lambda: (3, 3.0))
def kind_of_the_branch(a: int, b: float):
    """The merged number is a float, so it prints as 3.0."""
    x = a if a > 2 else b
    print(x, x // 2, x == 3)
    return x


@nasty(lambda: (1.0,), lambda: (1e16,), lambda: (1e-7,), lambda: (float("nan"),), lambda: (float("-inf"),))
def text_of_floats(x: float):
    """str of floats is that of C's %g."""
    print(x, f"{x:.3f}", f"{x:>12}", f"{x:e}", repr(x))
    return f"{x!r}:{x:+.1f}"


@nasty(lambda: (42,), lambda: (-7,))
def text_of_ints(n: int):
    """Widths, signs and bases of a format."""
    print(f"{n:05d}|{n:<6}|{n:^7}|{n:x}|{n:+}|{n:,}", n, sep="-", end="!\n")
    return "%d of %5.2f" % (n, n / 3)


@nasty(lambda: (float("nan"), 1.0), lambda: (1.0, float("nan")), lambda: (1.0, 2.0))
def nan_in_max(a: float, b: float):
    """max and min of NaN depend on the order in Python."""
    return max(a, b), min(a, b), a != a, sorted([b, a])[0] == b


@nasty(lambda: (0.0, -0.0), lambda: (-0.0, 0.0))
def signed_zeros(a: float, b: float):
    """The sign of zero is dropped by a simplification of x + 0."""
    print(a + b, a - b, a * 1, a + 0, 0 - a, -a, abs(a))
    return math.copysign(1.0, a), math.atan2(a, -1.0)


@nasty(lambda: (3,), lambda: (0,), lambda: (-4,))
def chain_evaluated_once(n: int):
    """The middle of a chained comparison is evaluated twice."""
    calls = []

    def middle():
        calls.append(n)
        return n

    return 0 < middle() < 10 > n, len(calls)


@nasty(lambda: (0, 5), lambda: (3, 0), lambda: (0, 0))
def and_or_give_operands(a: int, b: int):
    """`and` and `or` give bools."""
    return a or b, a and b, not a, (a or 7) + (b and 1)


@nasty(lambda: (1, 0), lambda: (5, 2))
def short_circuit_guards_a_division(a: int, b: int):
    """Both operands of `and` are evaluated, so that 1 / 0 is raised."""
    return (b != 0 and a / b > 1) or (b == 0 and a > 0)


@nasty(lambda: (10, 3), lambda: (2, 7), lambda: (5, 5))
def ranges_count(a: int, b: int):
    """Ranges with negative steps have one item too many."""
    xs = [k for k in range(a, b, -2)]
    return xs, len(range(a, b, -2)), list(range(b, a, 3)), sum(range(a))


@nasty(lambda: (5,), lambda: (0,))
def loop_variable_changed(n: int):
    """An assignment to the loop variable changes the number of iterations."""
    total = 0
    for k in range(n):
        k = k * 2
        total += k
        n = 1
    return total, n


@nasty(lambda: (4,), lambda: (1,))
def loop_variable_afterwards(n: int):
    """The loop variable is n after the loop, not n - 1."""
    k = -1
    for k in range(n):
        pass
    return k


@nasty(lambda: (0,), lambda: (3,))
def loop_variable_unbound(n: int):
    """A loop variable exists though the loop ran not once."""
    for k in range(n):
        pass
    return k + n


@nasty(lambda: (27,), lambda: (1,), lambda: (6,))
def collatz(n: int):
    """Trip counts that only the run knows."""
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


@nasty(lambda: (48, 18), lambda: (17, 5), lambda: (-12, 8))
def euclid(a: int, b: int):
    """The tuple assignment is made one after the other."""
    while b:
        a, b = b, a % b
    return a


@nasty(lambda: (10,), lambda: (80,))
def fibonacci(n: int):
    """a, b = b, a + b with the new a."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@nasty(lambda: (0.1, 10), lambda: (0.1, 3))
def sum_of_tenths(x: float, n: int):
    """Ten tenths are 1.0: floats are added in float32, or in another order."""
    s = 0.0
    for _ in range(n):
        s += x
    return s == 1.0, s == x * n


@nasty(lambda: (3, 7), lambda: (-3, 5))
def modular(a: int, p: int):
    """pow with a modulus of a negative base, or a negative exponent."""
    return pow(a, 5, p), pow(a, p - 2, p), pow(a, -1, p)


@nasty(lambda: (3,), lambda: (5,))
def default_bound_when_defined(n: int):
    """A default is evaluated at the call."""
    k = n

    def f(a, b=k * 2):
        return a + b

    k = 100
    return f(k), f(1, 2)


@nasty(lambda: (2,), lambda: (3,))
def mutable_default(n: int):
    """A mutable default is made anew at each call of the inner function."""

    def f(a, seen=[]):
        seen.append(a)
        return len(seen)

    return f(1), f(n), f(3, [4])


@nasty(lambda: (True,), lambda: (False,))
def int_of_a_bool_tensor_sum(c: bool):
    """sum of bools is an int64 tensor."""
    b = torch.tensor([c, True, False])
    return b.sum(), b.sum().item() + 1, int(b.any()), sum([c, True])


@nasty(lambda: (3, 4), lambda: (4, 3))
def walrus_binds_in_the_function(a: int, b: int):
    """A walrus in a comprehension binds outside of it."""
    found = [last := k for k in range(a) if k < b]
    return last, found, (y := a * b) + y


@nasty(lambda: (5, 0), lambda: (5, 7), lambda: (5, 3))
def while_else(n: int, stop: int):
    """`else` of a loop runs after break."""
    while n > 0:
        n -= 1
        if n == stop:
            break
    else:
        return "ran out", n
    return "stopped", n


@nasty(lambda: (7,), lambda: (9,), lambda: (1,))
def for_else_prime(n: int):
    """`else` of a for loop whose break is conditional."""
    for d in range(2, n):
        if n % d == 0:
            factor = d
            break
    else:
        factor = None
    return factor


@nasty(lambda: (3,), lambda: (3,))
def rule_of_a_table(n: int):
    """A string that is repeated as often as an argument says."""
    x = torch.ones(2, 3)
    print("=" * x.shape[1], "-" * (x.shape[0] * 2), sep="\n")
    return "ab" * 0 + "x" * len(x)


@nasty(lambda: (2**53, 3), lambda: (2**53 + 1, 5), lambda: (-2**62, 2), lambda: (7, -3))
def quotients_of_large_ints(a: int, n: int):
    """An int is rounded to a float before it is divided, by a constant too."""
    print(a / 3, (a + 1) / 3, a / n, -a / 7, a / 2, 1 / a, a / -3, a / 3.0, a * 0.5, a + 0.5, a % 2.5, a // 2.5)
    print((a + n) / 2, int(a / 3), round(a / 3), divmod(a, 3.0), a > n / 3, max(a, 2.5), (a / 1) == a, a == float(a))
    t = torch.tensor(a)
    return a / 3, t.item() / 3, t / 3, t.item() == a, float(t)


@nasty(lambda: (torch.arange(12.0).reshape(3, 4), 1), lambda: (torch.arange(12.0).reshape(3, 4), 2))
def lists_as_keys(x, n: int):
    """A short list with a tensor or list in it is one index, a float in one an error."""
    i, y = torch.tensor([0, 1]), x * 1
    y[[i, n]] = 7
    y[[[0, 1], [n, 0]]] += 100
    print(x[[i, n]], x[[[0, n]]], x[[0, n]], x[[n, 1.5]], x[[slice(0, n), 1]], x[[0.0, n / 2]])
    return y, x[[torch.tensor(n), 2]], x[[n > 1, True, False]], x[[None, n]]


@nasty(lambda: (v(1, 2, 3),), lambda: (v(1, 2, 3, 4),))
def large_number_of_a_size(x):
    """Beyond 2**53 an int and a float that is as near as can be differ."""
    j = -2 ** 60 - len(x) % 100
    return j < j + 1.0, j == float(j), len(x) < 3.5
