"""Tensors in lists of run-time length: each is one object, wherever else it leaves the script."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values: float):
    return torch.tensor([float(a) for a in values], requires_grad=True)


@nasty(lambda: (v(1, 2), 3, True), lambda: (v(1, 2), 3, False), lambda: (v(1, 2), 0, True))
def one_tensor_in_every_place(x, n: int, grows: bool):
    """A tensor that no turn changes is in the list as often as there are turns."""
    rows, b = [], x * 2
    for _ in range(n):
        rows.append(b)
        if grows:
            b = b + 1
    return rows


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def the_last_item_is_a_variable(x, n: int):
    """What a recurrent net returns: all states, and the last one."""
    rows, h = [], x
    for k in range(n):
        h = (h + x).tanh()
        rows.append((h, k))
    return rows, h


@nasty(lambda: (v(1, 2), 3, True), lambda: (v(1, 2), 3, False), lambda: (v(1, 2), 1, False))
def the_best_of_a_list(x, n: int, last: bool):
    """One that a loop over the list chooses."""
    rows, h = [], x * 1
    for _ in range(n):
        h = h * 2
        rows.append(h)
    best = rows[0]
    for row in rows:
        if last or row.sum() < 10:
            best = row
    return {"rows": rows, "best": best, "x": x}


@nasty(lambda: (v(1, 2), 4), lambda: (v(1, 2), 1))
def two_lists_of_the_same(x, n: int):
    """Two lists, a list turned round, and a dict hold the same tensors."""
    rows, other = [], []
    b = x * 2
    for k in range(n):
        if k == 1:
            b = b * 2
        rows.append(b)
        other.append(b)
    made = [x * k for k in range(n)]
    return rows, other, made, made[::-1], dict(enumerate(made))


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def items_made_before_the_loop(x, n: int):
    """Tensors of before the loop, of numbers and of the library's, are items beside new ones."""
    c, z = torch.tensor([1.0, 2.0]), torch.zeros(2)
    rows = [c]
    for k in range(n):
        rows.append(z if k == 1 else c)
        if k == 1:
            z = torch.ones(2)
    return rows, c, z, [x * 3] * n


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def lists_and_dicts_of_a_list(x, n: int):
    """Items of items."""
    rows, named, h = [], [], x * 1
    while n > 0:
        inner = []
        for _ in range(n):
            h = h + 1
            inner.append(h)
        rows.append(inner)
        named.append({"h": h, "n": n})
        n -= 1
    return rows, named, h


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def leaves_in_a_list(x, n: int):
    """Leaves that the script makes, one of them twice."""
    rows = [(x * k).detach().clone().requires_grad_() for k in range(n)]
    last = x.detach().clone().requires_grad_()
    rows.append(last)
    return rows, rows[0], last


@nasty(lambda: (v(1, 2), 4, True), lambda: (v(1, 2), 4, False), lambda: (v(1, 2), 1, True))
def a_window_of_the_last_two(x, n: int, over: bool):
    """A list that loses its first items, and of which one is set."""
    window, a, b = [], x * 1, x * 2
    for _ in range(n):
        a, b = b, a + b
        window.append(a)
        if len(window) > 2:
            window.pop(0)
        if over:
            window[-1] = b
    return window, a, b
