"""Iterators that never end, that end early, and of which somebody else takes the rest."""

from __future__ import annotations

import itertools

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


def naturals():
    k = 0
    while True:
        print("makes", k)
        yield k
        k += 1


def halves(x):
    while x.sum() > 1:
        yield x
        x = x / 2


@nasty(lambda: (v(1, 2, 3), 3), lambda: (v(1, 2), 2), lambda: (v(), 0))
def endless_beside_what_ends(x, n: int):
    """zip asks a generator once more than Python, or never stops asking it."""
    out = [k * a for a, k in zip(x, (k for k in itertools.count(n)))]
    for a, k in zip(x, naturals()):
        out.append(a * k)
    for k, a in zip(naturals(), x):
        out.append(a + k)
    for k, _, _ in zip(naturals(), range(0), x):
        print("never", k)
    return out


@nasty(lambda: (v(1, 2, 3), 3), lambda: (v(1, 2), 1))
def endless_and_left(x, n: int):
    """What enumerate, map and filter make of an endless generator is made in advance."""
    for j, k in enumerate(naturals(), n):
        if j > 2 * n:
            break
        x = x + k
    for r in map(lambda k: k * n, naturals()):
        if r > 6:
            break
        print(r)
    for r in filter(lambda k: k % 2, naturals()):
        if r > 6:
            break
        print(r)
    return x


@nasty(lambda: (3,), lambda: (2,), lambda: (0,))
def parts_of_iterators(n: int):
    """islice takes all items of its iterator, not those up to its end."""
    it, other = iter([5, 6, 7, 8, 9]), iter(range(10))
    first, rest = list(itertools.islice(it, 2)), list(it)
    every_third, some, others = list(itertools.islice(other, 1, 5, 3)), list(itertools.islice(other, n)), list(other)
    print(list(itertools.islice("abcdef", n, None, 2)), list(itertools.islice(itertools.count(n, -2), n)))
    return first, rest, every_third, some, others


@nasty(lambda: (3,), lambda: (-1,))
def part_with_a_negative_end(n: int):
    """islice counts from the end as a slice does."""
    return list(itertools.islice([1, 2, 3], n))


@nasty(lambda: (v(1, 2, 3), 3), lambda: (v(1, 2, 3), 2), lambda: (v(1, 2, 3), 0))
def counters_and_cycles(x, n: int):
    """An endless counter gives the same number twice, a cycle runs out."""
    c = itertools.count(n, 3)
    a, b = next(c), next(c)
    pairs = [(p, next(c)) for p in range(n)]
    signs = [k * t for k, t in zip(itertools.cycle([1, -1, n]), range(7))]
    print(list(zip(itertools.repeat(n), x.tolist())), list(itertools.repeat(n, 2)), list(itertools.repeat(1, -n)))
    print([t for t, _ in zip(itertools.cycle([]), range(3))], list(map(pow, range(n), itertools.repeat(2))))
    total = x[0]
    for t, _ in zip(itertools.cycle(x), range(4 + n)):
        total = total * 2 + t
    return a, b, pairs, signs, total


@nasty(lambda: (3,), lambda: (1,), lambda: (0,))
def begun_and_ended_by_a_test(n: int):
    """takewhile goes on after the first item that fails, dropwhile drops later ones too."""
    xs = [0, 2, 1, 3, n, 5]
    print(list(itertools.takewhile(lambda k: k < n, itertools.count())))
    print(list(itertools.takewhile(lambda k: k < n, xs)), list(itertools.dropwhile(lambda k: k < n, xs)))
    return list(itertools.compress(xs, [1, 0, n, 1])), list(itertools.filterfalse(lambda k: k % 2, xs))


@nasty(lambda: (v(1, 2, 3).requires_grad_(),), lambda: (v(1, 2, 30).requires_grad_(),))
def tensors_of_several_generators(x):
    """Two generators that the run ends, side by side."""
    s = x * 0
    for k, h in enumerate(halves(x)):
        s = s + h * k
    for h, r in zip(halves(x), x):
        s = s + h * r
    return s, [a + b for a, b in zip(halves(x), halves(x * 2))]


class Halving:
    """An iterator of its own: of a tensor, and how often it was asked."""

    def __init__(self, x, n):
        self.x, self.n, self.asked = x, n, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.asked += 1
        if self.asked > self.n:
            raise StopIteration
        self.x = self.x / 2
        return self.x


class Countdown:
    """What makes an iterator of another class."""

    def __init__(self, x, n):
        self.x, self.n = x, n

    def __iter__(self):
        return Halving(self.x, self.n)


OWN = (lambda: (v(1, 2, 3).requires_grad_(), 3), lambda: (v(1, 2).requires_grad_(), 1),
       lambda: (v(4).requires_grad_(), 0))


@nasty(*OWN)
def iterators_of_own_classes(x, n: int):
    """`for`, `next` with a default, `list`, `zip` and `sum` of them; one that is used up."""
    it = Halving(x, n)
    first = next(it, None)
    for y in it:
        if y.sum() < 1:
            break
    total = sum(h.sum() for h in Countdown(x, n))
    return first, it.asked, list(it), it.asked, total, list(zip(Countdown(x, n), range(2), strict=False))


@nasty(*OWN)
def asked_until_it_ends(x, n: int):
    """`next` in a loop that its StopIteration ends."""
    x, it = x * 1, iter(Countdown(x, n))
    try:
        while True:
            x = x + next(it)
    except StopIteration:
        print("ended")
    return x, it.asked


def counted():
    if False:
        k = 0

    def step(n):
        nonlocal k
        if n == 0:
            k = 0
        k += 1
        return k

    return step


@nasty(lambda: (3,), lambda: (0,))
def bound_by_a_function_that_was_returned(n: int):
    """A variable of a call that has ended, bound by an iteration and read by the next."""
    step, s = counted(), 0
    for i in range(n):
        s += step(i)
    return s
