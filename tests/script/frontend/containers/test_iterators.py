"""Iterators: an item that was taken is gone, wherever it was taken."""

from __future__ import annotations

import jitgrad as torch
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((t(3), 0), (t(3), 3), compilations=None)
def taken_in_a_branch(x, n: int):
    it = iter([x, x * 2, x * 3])
    y = next(it)
    if n > 2:
        y = y + next(it)
    return y * next(it)


@program((t(3), 0), (t(3), 4), compilations=None)
def taken_until_none(x, n: int):
    it, total = iter(range(n)), 0
    while True:
        k = next(it, None)
        if k is None:
            break
        total += k
    return x * total


@program((t(3), 0), (t(3), 4), compilations=None)
def taken_until_it_stops(x, n: int):
    it, total = iter(range(n)), 0
    try:
        while True:
            total += next(it)
    except StopIteration:
        print("done", total)
    return x * total


@program((t(3), 3), (t(3), 12), compilations=None)
def used_twice(x, n: int):
    pairs = zip(range(n), range(10), strict=False)
    first, second = list(pairs), list(pairs)
    return x * len(first), len(second)


@program((t(3), 0), (t(3), 2), (t(3), 6), compilations=None)
def left_and_gone_on(x, n: int):
    it = iter(range(n))
    for k in it:
        if k > 2:
            break
        x = x + k
    for k in it:
        x = x * k
    return x


@program((t(4, 3), 0), (t(4, 3), 2), (t(4, 3), 4), compilations=None)
def rows_taken_by_a_loop(x, n: int):
    rows, total = iter(x), 0.0
    for k in range(n):
        total = total + next(rows).sum() * (k + 1)
    for row in rows:
        total = total + row.sum() ** 2
    return total


@program((t(4, 3), 0), (t(4, 3), 1), (t(4, 3), 5), compilations=None)
def gone_over_by_an_inner_loop(x, n: int):
    rows, total = iter(x), torch.zeros(())
    for _ in range(n):
        for row in rows:
            total = total + row.sum() ** 2
            if row.sum() > 0.5:
                break
    return total


@program((t(3), 1), compilations=None)
def taken_in_its_own_loop(x, n: int):
    it = iter([1, 2, 3])
    for v in it:
        x = x * v + next(it, 0)
    return x


@program((t(3),))
def pairs_of_one(x):
    it = iter([1.0, 2.0, 3.0, 4.0])
    return [x * u + v for u, v in zip(it, it, strict=False)]


@program((t(3), 0), (t(3), 3), compilations=None)
def items_of_a_generator(x, n: int):
    rows = (x * j for j in range(n))
    made = iter(list(rows))
    first = next(made, x)
    return first, list(made), next(made, None)


@program((t(3), 3), compilations=None)
def what_is_mapped_is_read_when_taken(x, n: int):
    k, rows = 2.0, [x, x * 2]

    def scaled(v):
        return v * k

    it = map(scaled, rows)
    first = next(it)
    k = 5.0
    rows[1] = x - 1
    return first, next(it)


@program((t(3),))
def more_than_there_are(x):
    it = iter([x, x * 2])
    print("before")
    return next(it), next(it), next(it)


@program((t(3), 0), (t(3), 1), (t(3), 5), compilations=None)
def taken_by_a_function(x, n: int):
    it = iter(range(n))

    def take():
        return next(it, -1)

    return x * take(), take(), take(), list(it)


@program((t(4, 3),))
def the_first_apart(x):
    it = enumerate(x)
    k, row = next(it)
    total = row * 2
    for k, row in it:
        total = total + row * k
    return total, k


@program((t(3),), compilations=None)
def made_again_when_it_stops(x):
    batches, found = iter([x, x + 1]), []
    for _ in range(4):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter([x, x + 1])
            batch = next(batches)
        found.append(batch.sum())
    return found


@program((t(4, 3),), (-t(4, 3),), compilations=None)
def any_takes_till_it_knows(x):
    it = map(torch.sum, x)
    return any(v > 0.2 for v in it), list(it)


@program((t(3),))
def next_of_a_list(x):
    return next([x])


class Count:
    def __init__(self, end: int):
        self.k, self.end = 0, end

    def __next__(self):
        if self.k >= self.end:
            raise StopIteration
        self.k += 1
        return self.k


@program((t(3), 0), (t(3), 1), (t(3), 4), compilations=None)
def next_of_an_object(x, n: int):
    counter = Count(n)
    return x * next(counter) + next(counter)


@program((t(3),))
def several_at_a_time(x):
    total = 0
    for it in [iter([1, 2, 3]), iter([4, 5])]:
        total = total + next(it) * 10
        for v in it:
            total = total + v
    return x * total


@program((t(3), 0), (t(3), 2), (t(3), 9), compilations=None)
def zipped_and_left(x, n: int):
    pairs, found = zip([x, x * 2, x * 3], range(n), strict=False), []
    for v, k in pairs:
        if k == 1:
            break
        found.append(v * k)
    return found, [v + k for v, k in pairs]


@program((t(3),))
def unpacked_and_summed(x):
    it, numbers = iter([x, x + 1, x + 2]), iter(range(3))
    first, *others = it
    return first, len(others), next(it, None), sum(numbers), sum(numbers)


NS = tuple((t(3), n) for n in (0, 1, 2, 3, 5, 20, 80))


@program(*NS)
def made_by_each_iteration(x, n: int):
    k = 0
    while k < n:
        k += 1
        d = {j: j * k for j in range(n)}
        if n % 2 == k % 2:
            del d[next(iter(d))]
        x = x * 0.5 + sum(d.values())
    return x


@program(*NS)
def pairs_by_next(x, n: int):
    items = iter(range(n))
    for k in items:
        x = x * (k % 3) + next(items, 0)
    return x


@program((t(4), 3), (t(5), 1), (t(2), 4), (t(0), 3))
def pairs_of_elements(x, n: int):
    it, s = iter(x), x.sum() * 0
    for v in it:
        if n > 2:
            s = s + v * next(it, 10.0)
        else:
            s = s - v
        if s > 100:
            break
    else:
        s = s + 1000
    return s, len(list(it))


@program(*NS)
def ended_by_the_body(x, n: int):
    it, out = iter(range(n)), []
    for k in it:
        if k % 3 == 0:
            continue
        try:
            j = next(it)
        except StopIteration:
            print("end", k)
            break
        out.append(k * j)
        for m in it:
            if m > 7:
                break
            out.append(m)
    return sum(out), x * len(out)


@program(*NS)
def objects_by_turns(x, n: int):
    it = iter([x, x * 2, x * 3])
    for v in it:
        for _ in range(n):
            x = (x + v * next(it, 1.0)) * 0.1
    return x


@program(*NS)
def taken_in_some_iterations(x, n: int):
    it = iter([1, 2, 3, 4])
    for k in it:
        if k < n:
            x = x * next(it, 9)
        x = x + k
    return x


@program((t(3), 2), (t(3, seed=1), 2), (-t(3), 1), (t(3), 0))
def a_chosen_iterator(x, n: int):
    items, others = iter(range(n)), iter(x)
    if x.sum() > 0:
        items = others
    return next(items, 7), next(items, 8), x, len(list(others))


@program(*NS)
def one_of_two_by_turns(x, n: int):
    p, q = iter(x), iter(x * 2)
    for k in range(n):
        it = p if k % 2 else q
        x = x + next(it, 0.5)
    return x, list(p), list(q)


test_iterators = suite(PROGRAMS)
