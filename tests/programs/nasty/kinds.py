"""Names that are a number here and a tensor there, of this rank or that one."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def square():
    return torch.tensor([[0.3, -0.2, 0.5], [0.1, 0.7, -0.4], [-0.6, 0.2, 0.9]], requires_grad=True)


TURNS = tuple((lambda n=n: (square(), n)) for n in (0, 1, 2, 3))


@nasty(*TURNS)
def a_number_or_a_matrix_meets_rows(x, n: int):
    """After the first turn it is a vector or a matrix, after a vector it stays one."""
    m = 0.5
    if n > 0:
        m = x * 1
    for row in x:
        m = m + row
    return m


@nasty(*TURNS)
def a_number_until_a_loop_runs(x, n: int):
    """The loop before decides what the loop after begins with."""
    m = 0.5
    for _ in range(2):
        for _ in range(n):
            m = (x * 2).tanh()
    for row in x:
        m = (m + row).tanh()
    return m


@nasty(*TURNS)
def three_ranks(x, n: int):
    """A scalar, a vector or a matrix at the loop's head, two of which become one rank."""
    m = x.sum() if n == 1 else x[0] if n == 2 else x * 1
    for row in x:
        m = m * row
    return m


@nasty(*TURNS)
def iterated_if_it_can_be(x, n: int):
    """A number cannot be gone over; the run says so where it comes to it."""
    m = x if n > 2 else 3
    for row in m:
        x = x + row
    return x


@nasty(*TURNS)
def iterated_only_if_it_is_there(x, n: int):
    """None, where no run goes over it."""
    m = x if n > 1 else None
    if n > 1:
        for row in m:
            x = x + row
    return x


@nasty(*TURNS)
def no_elements_of_a_scalar(x, n: int):
    """PyTorch's own complaint."""
    m = x if n != 2 else x.sum()
    for row in m:
        x = x + row
    return x


@nasty(*TURNS)
def a_sum_that_is_not_empty(x, n: int):
    """`sum` of a list gives 0 where it is empty, which the `if` rules out."""
    rows = []
    for _ in range(n + 1):
        rows.append((sum(rows) if len(rows) > 1 else x[0]) * 1.5)
    return sum(rows)


@nasty(*TURNS)
def a_sum_that_may_be_empty(x, n: int):
    """Its scaled sum is a float or a vector."""
    rows = []
    for k in range(n):
        rows.append(x[k])
    total = sum(rows) * 0.3
    found = 0.0
    if len(rows) >= 1:
        for v in total:
            found = found + v
    return total, found


@nasty(*TURNS)
def returned_before_the_loop(x, n: int):
    """What follows an early return has sizes that another way through does not have."""
    m = x
    for row in x:
        if row.sum() > n:
            return m > 0.1
    m = torch.stack([m[k] for k in range(x.shape[0] - 1, n - 2, -1)])
    for _ in x:
        m = m.tanh()
    return m.sum()


@nasty(lambda: (square(), 2, True), lambda: (square(), 0, False), lambda: (square(), 3, False))
def a_range_of_what_may_be_none(x, n: int, flag: bool):
    """A function that returns only on one of its ways says how often the loop runs."""
    def often(b):
        if flag:
            return b
        print(b)
    total = 0
    for k in range(often(n)):
        total += k
    return total, x
