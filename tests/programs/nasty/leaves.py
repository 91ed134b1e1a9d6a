"""Leaves that a script makes, and arguments, of which a branch or a loop decides which one leaves it."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty

TURNS = tuple((lambda n=n, leaf=leaf: (torch.tensor([0.3, -0.2, 0.5], requires_grad=leaf), n))
              for n in (0, 1, 2, 3) for leaf in (False, True))


def leaf(value: float):
    return torch.full((3,), value, requires_grad=True)


@nasty(*TURNS)
def a_leaf_of_the_last_turn(x, n: int):
    """What a loop made last, and the list of all that it made, are leaves, as what was there before it."""
    w = leaf(0.0)
    made = []
    for k in range(n):
        w = leaf(float(k))
        made.append(leaf(2.0 * k))
    return w, made, x


@nasty(*TURNS)
def an_argument_until_the_first_turn(x, n: int):
    """It is the argument itself where no turn changed it, wherever it is found."""
    w = x
    for _ in range(n - 1):
        w = w * 2
    return w, [w], {"w": w}, w[1:]


@nasty(*TURNS)
def a_search_that_ends_at_once(x, n: int):
    """The loop is left before it has done anything, in the middle, or at its end."""
    w = x
    for _ in range(n):
        if w.sum() > 1.0:
            return w
        w = w * 1.7
    return w


@nasty(*TURNS)
def descent_from_an_argument(x, n: int):
    """Every step makes a new leaf: the last one is a result."""
    w = x.detach().requires_grad_()
    for _ in range(n):
        g, = torch.autograd.grad((w ** 2).sum(), w)
        w = (w - 0.1 * g).detach().requires_grad_()
    return w


@nasty(*TURNS)
def some_items_are_leaves(x, n: int):
    """Of a list's items some have a history, others are leaves."""
    ws = [x]
    for k in range(n):
        w = x * (k + 1)
        ws.append(w.detach().requires_grad_() if k % 2 else w)
    return ws[n // 2:]


@nasty(*TURNS)
def nothing_an_argument_or_a_leaf(x, n: int):
    """What a name is after a loop: None, the argument, or a leaf."""
    w = None
    for k in range(n):
        w = x if k % 2 else leaf(1.0)
    return w


@nasty(*TURNS)
def two_that_swap(x, n: int):
    """The two change places in every turn, and stay who they are."""
    a, b = x, leaf(2.0)
    for _ in range(n):
        a, b = b, a
    return a, b


@nasty(*TURNS)
def a_leaf_on_one_side(x, n: int):
    """A leaf here, something with a history there."""
    if x.sum() * n > 1.0:
        w = leaf(1.0)
    else:
        w = x * n
    if n == 3:
        w = leaf(2.0)
    return w


@nasty(*TURNS)
def views_of_either(x, n: int):
    """A view of a tensor that may be the argument shows the argument's memory."""
    w = x.view(3, 1)
    for _ in range(n - 1):
        w = w.sin()
    return w, w[0], w.t()


@nasty(*TURNS)
def a_leaf_and_what_was_before_it(x, n: int):
    """A leaf leaves in an attribute; what it replaced does not."""
    kept = {"w": x * 2}
    for k in range(n):
        kept["w"] = leaf(float(k)) if k != 1 else x
    return kept


@nasty(*TURNS)
def a_leaf_in_the_memory_of_an_argument(x, n: int):
    """It shows what is written to the argument, and is one leaf wherever it is found."""
    w = x.detach().requires_grad_()
    if n == 2:
        w = leaf(3.0)
    return [w, (w, x.detach().requires_grad_())]


@nasty(*TURNS)
def detached_by_two_calls(x, n: int):
    """Two objects, one memory, whichever name has which."""
    t = x * 2
    a, b = t.detach(), t.detach()
    if n > 1:
        a, b = b, a
    return [a, b, {"b": b}, t]


@nasty(*TURNS)
def a_result_that_may_be_the_other(x, n: int):
    """What a branch or a loop leaves as it was is one object with what it was."""
    y = x * 2
    z, v = y, y
    if n == 1:
        z = z + 1
    for _ in range(n - 2):
        v = v * 3
    return y, z, [v]


@nasty(*TURNS)
def the_best_so_far_may_be_the_last(x, n: int):
    """Two variables of a loop are one object where the last turn was the best: a write to either shows in both."""
    best = x
    for k in range(n):
        x = (x * (1.5 - k)).relu()
        if x.sum() > best.sum():
            best = x
    return best, {"last": x}


@nasty(*TURNS)
def one_behind_the_other(x, n: int):
    """Each turn makes objects of its own, none that of another turn."""
    a = b = x * 2
    while n > 0:
        a = b
        b = b + 1 if n % 3 else a
        n -= 1
    return a, [b, a]


@nasty(*TURNS)
def one_in_a_loop_in_a_loop(x, n: int):
    """Objects of an inner loop have numbers of their own, too."""
    low = high = x
    for k in range(n):
        for j in range(k):
            x = x * 0.5 + j
            if x.sum() < low.sum():
                low = x
        x = x + 1
        if x.sum() > high.sum():
            high = x
    return low, high, x


@nasty(*TURNS)
def asked_whether_two_are_one(x, n: int):
    """`is` of two variables of a loop."""
    best = x
    for _ in range(n):
        x = x * 1.5
        if x.sum() > 2.0:
            best = x
    print(best is x)
    return best.sum()


@nasty(*TURNS)
def one_that_was_there_before_the_loop(x, n: int):
    """Two objects from before the loop end up as one, whichever turn brought them together."""
    a, b = x * 2, x * 3
    c = b
    for k in range(n):
        if k > 1:
            b = a * 2
        else:
            a, b = b, a
    for _ in range(n - 1):
        a = b
        b = b + 1 if n > 3 else a
    return a, b, [c]


@nasty(*TURNS)
def copies_of_copies_in_an_outer_loop(x, n: int):
    """What an inner loop copied, an outer loop copies on."""
    best = last = x * 1
    m = n
    while m > 0:
        for j in range(m):
            last = last * 1.1
            if n == 2 or j == 1:
                best = last
        if n > 2:
            last = best
        m -= 1
    return {"best": best}, last
