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


def rows(x, n):
    h = x
    for _ in range(n):
        h = torch.tanh(h * 2)
        yield h


def labelled(xs, labels):
    for k, (x, label) in enumerate(zip(xs, labels, strict=False), 1):
        if k == 2:
            continue
        yield k, x * label


def windows(xs, k):
    held = []
    for x in xs:
        held.append(x)
        if len(held) == k:
            yield sum(held)
            held.pop(0)


class Loader:
    def __init__(self, x, size):
        self.x, self.size = x, size

    def __iter__(self):
        for k in range(0, self.x.shape[0], self.size):
            yield self.x[k:k + self.size]


ASKED = (lambda: (v(1, 2, 3).requires_grad_(), 3), lambda: (v(1, 2, 3).requires_grad_(), 5), lambda: (v(1, 2, 3), 0))


@nasty(*ASKED)
def generators_asked_by_hand(x, n: int):
    """`next`, a loop that is left and gone on with, `list` of the rest, one that is used up."""
    g = rows(x, n)
    a = next(g, None)
    for y in g:
        print("asked")
        if y.sum() < 2.88:
            break
    return a, list(g), next(g, None), sum(y.sum() for y in g)


@nasty(*ASKED)
def endless_generators_asked(x, n: int):
    """In loops, branches and functions."""
    numbers, made = naturals(), []

    def take(k):
        return [next(numbers) for _ in range(k)]

    for i in range(n):
        if i % 2:
            made.append(next(numbers) * 10)
    return take(2), made, take(1), next(numbers)


@nasty(*ASKED)
def a_loader_begun_again(x, n: int):
    """What people write for a given number of steps."""
    batches, total = iter(Loader(x, 2)), 0.0
    for k in range(n):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(Loader(x, 2))
            batch = next(batches)
        total = total + batch.sum() * k
    return total


@nasty(*ASKED)
def pairs_of_one_generator(x, n: int):
    """`zip` of one with itself, and beside a range that ends first: what is taken is gone."""
    g, h = rows(x, n), rows(x, n)
    return list(zip(g, g, strict=False)), [(k, y.sum()) for k, y in zip(range(2), h, strict=False)], next(h, None)


@nasty(*ASKED)
def generators_of_pairs(x, n: int):
    """`enumerate` and `zip` gone over inside."""
    g = labelled(x, [1.0, 2.0, 3.0])
    return next(g), list(g), n


@nasty(*ASKED)
def generators_of_generators(x, n: int):
    """One that goes over another, and a generator expression of one."""
    w, g = windows(rows(x, n), 2), rows(x, n)
    h = (y * 2 for y in g)
    return next(w, None), [y.sum() for y in w], next(h, None), next(g, None), list(h)


@nasty(lambda: (3,), lambda: (1,))
def ended_by_an_error(n: int):
    """A generator that has raised is used up; its variables are its own, `nonlocal` ones those around it."""
    total = 0

    def counted(k):
        nonlocal total
        while k > 0:
            total += k
            k -= 1
            yield total
        raise ValueError("below zero")

    g = counted(n)
    first = next(g)
    try:
        for t in g:
            first += t
    except ValueError as e:
        print(e, first)
    return first, total, next(g, "none")


def doubled(x, n):
    for k in range(n):
        x.mul_(2)
        print("doubled", k)
        yield x


def growing(n):
    held = []
    for k in range(n):
        held.append(k)
        yield held


@nasty(lambda: (v(1, 2), 3), lambda: (v(1), 1), lambda: (v(1, 2), 0))
def items_of_one_memory(x, n: int):
    """An item is looked at before the next is asked for: it may be the same object, changed."""
    a = [y.sum() for y in doubled(x.clone(), n)]
    b = {k: y.sum() for k, y in enumerate(doubled(x.clone(), n)) if k % 2 == 0}
    return a, b, sum(doubled(x.clone(), n)), [len(h) for h in growing(n)], sum(len(h) for h in growing(n)), [
        i + j for i in range(n) for j in map(len, growing(i))], sum(growing(n), [])


@nasty(lambda: (v(1, 2), 7), lambda: (v(1).requires_grad_(), 3), lambda: (v(1, 2), 0))
def groups_of_neighbours(x, n: int):
    """`groupby`: of what is known and what the run knows, by a key; groups that are passed are empty."""
    total, passed = 0.0, [g for _, g in itertools.groupby("aab")]
    for k, g in itertools.groupby([(1, x), (1, x * 2), (2, x * 3)], key=lambda pair: pair[0]):
        for _, y in g:
            total = total + y * k
    sums = [sum(g) * k for k, g in itertools.groupby(range(n), key=lambda i: i // 3)]
    return [(c, len(list(g))) for c, g in itertools.groupby("aabbba")], sums, total, [list(g) for g in passed]


@nasty(lambda: (v(1, 2), 3), lambda: (v(1), 1), lambda: (v(1, 2), 0))
def two_generators_that_take_turns(x, n: int):
    """Of those that are gone over together each gives an item when its turn comes: the other has changed something."""
    held = [x]

    def writes():
        for k in range(n):
            held.append(held[-1] * 2)
            yield k

    def reads():
        while True:
            yield held[-1].sum()

    return [(k, y) for k, y in zip(writes(), reads())], len(held)


@nasty(lambda: ({5: v(1, 2), 0: v(3)}, 2), lambda: ({1: v(1), 0: v(2, 3)}, 3), lambda: ({}, 2))
def keys_in_a_function_that_calls_itself(named, n: int):
    """A loop over a dict goes over its keys, also where a call of the same function is inside it."""
    total = torch.zeros(())
    for k in named:
        total = total + named[k].sum() * (k + 1)
        if n > 0:
            total = total + keys_in_a_function_that_calls_itself(named, n - 1)
    return total


@nasty(lambda: (v(1, 2), 2), lambda: (v(1), 5), lambda: (v(), 0))
def generator_expressions_item_by_item(x, n: int):
    """A range has a `step` of its own, which is none of a generator's."""
    it, total = (k * 2 for k in range(n)), 0
    while (k := next(it, None)) is not None:
        total += k
        if total > 8:
            break
    known = (k for k in range(3))
    return x * total, next(it, -1), next(known), [next(known, 7) for _ in range(3)]


@nasty(lambda: (torch.ones(2), 2), lambda: (torch.ones(2), 3))
def shorter_by_a_name_that_the_loop_assigns(x, n: int):
    """The name goes on being the list that the loop goes over."""
    left = [0] * n
    for _ in left:
        left.pop()
        print(left)
        left = left
    return x * len(left)
