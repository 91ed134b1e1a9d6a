"""Functions that call themselves as often as the run says."""

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
M = t(2, 2)
CALLS = tuple((M, n) for n in (5, 0, 9, 1))


def power(x, n):
    if n == 0:
        return torch.eye(x.shape[0])
    h = power(x, n // 2)
    y = h @ h
    return y @ x if n % 2 == 1 else y


@program(*CALLS)
def power_by_squaring(x, n):
    return power(x, n)


def fib(x, n):
    if n < 2:
        return x * n
    return fib(x, n - 1) + fib(x, n - 2) * 0.5


@program(*CALLS)
def two_calls_in_one_expression(x, n):
    return fib(x, n)


def even(x, n):
    if n == 0:
        return x
    return odd(x * 2, n - 1)


def odd(x, n):
    if n == 0:
        return -x
    y = x + 1
    r = even(y * 0.5, n=n - 1)
    return r + y


@program(*CALLS)
def two_functions_by_turns(x, n):
    return even(x, n)


def quadrature(f, a, b, tolerance):
    m = (a + b) / 2
    one = (b - a) * f(m)
    two = (b - a) / 2 * (f((a + m) / 2) + f((m + b) / 2))
    if (one - two).abs() < tolerance:
        return two
    return quadrature(f, a, m, tolerance / 2) + quadrature(f, m, b, tolerance / 2)


@program((M, 1.0), (M, 3.0))
def adaptive_quadrature(x, end):
    return quadrature(lambda s: (x * s).sin().sum(), torch.tensor(0.0), torch.tensor(end), 1e-2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@program((M, 2), (M, 0), (M, 3))
def a_call_in_the_argument_of_a_call(x, n):
    return x * ackermann(2, n)


def branching(x, n, scale=0.5):
    total = x * 1.0
    for k in range(n):
        if k == 3:
            break
        total = total + branching(x * scale, k).tanh()
    else:
        total = total * 2
    while n > 2:
        n -= 2
        if n == 3:
            continue
        total = total + branching(total * 0.1, n - 1 if n else 0, scale=0.25)
    return total


@program((M, 4), (M, 0), (M, 6), (M, 2))
def calls_in_loops(x, n):
    return branching(x, n)


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[0.5, 0.1], [0.2, 0.3]]))

    def unfold(self, x, n, scale=0.5):
        if n == 0:
            return x
        return self.unfold((x @ self.w) * scale, n - 1).tanh() + x

    def forward(self, x, n):
        return self.unfold(x, n)


cell = Cell()


@program(*CALLS)
def a_method(x, n):
    return cell(x, n)


@program(*CALLS)
def an_inner_function(x, n):
    w = x * 0.5

    def down(z, j):
        if j == 0:
            return z * w
        return (down(z, j - 1) + x).tanh()

    return down(x, n) + down(w, n + 1)


def told(x, n):
    print("in", n)
    if n > 0 and told(x, n - 1) > 1.0:
        print("large", n)
    print(f"out {n}: {n * 2}")
    return x.sum() + n


@program(*CALLS)
def printed_on_the_way_in_and_out(x, n):
    return told(x, n)


def halves(x):
    if x.shape[0] < 2:
        return x
    k = x.shape[0] // 2
    low, high = halves(x[:k]), halves(x[k:])
    return torch.cat([low + high.sum(), high * 0.5])


@program((t(5),), (t(8),), (t(2),))
def sizes_that_shrink(x):
    return halves(x)


def filled(out, n):
    if n == 0:
        return
    filled(out, n - 1)
    out.append(n)


@program(*CALLS)
def a_list_that_all_calls_fill(x, n):
    out = [0]
    filled(out, n)
    return x * sum(out), len(out)


def spread(x, n):
    if n == 0:
        return x.sum()
    parts = [spread(x * (k + 1), n - 1 - k) for k in range(n) if k != 1]
    total = x.mean()
    for k in range(len(parts)):
        total = total + parts[k] * (k + 1)
    return total


@program(*((M, n) for n in (0, 1, 2, 4)))
def calls_in_a_comprehension(x, n):
    return spread(x, n)


def lengths(n):
    if n < 2:
        return n + 1
    found = [lengths(k) for k in range(n)]
    return sum(found) + len(found)


@program(*CALLS)
def numbers_in_a_comprehension(x, n):
    print(lengths(n))
    return x * lengths(n % 4)
