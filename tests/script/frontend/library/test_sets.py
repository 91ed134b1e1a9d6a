"""Sets of run-time items and sets that change: everything but an order."""

from __future__ import annotations

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((3,), (0,), (5,), (8,))
def set_runtime(n: int):
    s = set()
    for i in range(n):
        s.add(i * i % 4)
    return (len(s), sorted(s), 2 in s)


@program((3,), (0,), (5,), (8,))
def set_literal_rt(n: int):
    s = {n, n % 3, 1}
    t = {1, 2, 3}
    return (len(s), sorted(s | t), sorted(s & t), sorted(s - t), n in t, sorted(t | s), t == s, s == t,
            s <= t, t >= s, s ^ t == {1}, isinstance(s, set))


@program((3,), (0,), (5,), (8,))
def set_comp(n: int):
    s = {i % 3 for i in range(n)}
    s.discard(1)
    return (len(s), sorted(s), s)


@program((3,), (0,), (5,), (8,))
def seen(n: int):
    seen = set()
    out = []
    k = n
    while k not in seen:
        seen.add(k)
        out.append(k)
        k = k // 2 if k % 2 == 0 else 3 * k + 1
    return (out, len(seen), max(seen), min(seen))


@program((3,), (0,), (5,), (8,))
def errs(n: int):
    s = {n}
    try:
        s.remove(4)
    except KeyError as e:
        print('no', e)
    s.update([1, 2], {n + 1})
    s |= {9}
    return (len(s), sorted(s), s.isdisjoint({77}), s.issuperset([n]), len(s.difference([n])))


@program((3,), (0,), (5,), (8,))
def strs(n: int):
    s = {'a', 'b'}
    s.add('c')
    if n > 3:
        s.add('d')
    return (len(s), 'd' in s, sorted(s))


@program((3,), (0,), (5,), (8,))
def tuples(n: int):
    s = set()
    for i in range(n):
        for j in range(n):
            s.add((i % 2, j % 2))
    return (len(s), (1, n % 2) in s)


@program((3,), (0,), (5,), (8,))
def branch(n: int):
    s = {1, 2}
    if n > 3:
        s.add(n)
    else:
        s.discard(1)
    t = s
    t.add(100)
    return (len(s), 100 in s, bool(s), not set())


@program((3,), (0,), (5,), (8,))
def fz(n: int):
    return (len(frozenset((n, 1, n))), frozenset([n]) == frozenset([3]))


@program((3,), (0,), (5,), (8,))
def copies(n: int):
    s = {n, 1}
    t = s.copy()
    t.add(7)
    return (s, t, s is t, t > s, s < t, s != t)


@program((3,), (0,), (5,), (8,))
def grown(n: int):
    s = {1, 2}
    for i in range(n):
        s = s | {i, 2}
    return (len(s), s == {1, 2, 0})


@program((3,), (0,), (5,), (8,))
def halves(n: int):
    s = {i * 0.5 for i in range(n)}
    return (len(s), 0.5 in s)


@program((3,), (0,), (5,), (8,))
def by_a_local_function(n: int):
    s = set()

    def add(k):
        s.add(k)
    for i in range(n):
        add(i % 3)
    return len(s)


@program((3,), (0,), (5,), (8,))
def in_a_dict(n: int):
    d = {k: set() for k in range(2)}
    for i in range(n):
        d[i % 2].add(i)
    return [len(v) for v in d.values()]


@program((t(4), 3), (t(4), 5))
def graph(x, n: int):
    done, todo, acc = set(), [n % 4], x
    while todo:
        v = todo.pop()
        if v in done:
            continue
        done.add(v)
        acc = acc * 2 + x[v]
        for a, b in [(0, 1), (1, 2), (2, 3), (3, 0)]:
            if a == v:
                todo.append(b)
    return acc, len(done)


@program((t(4), 3), (t(4), 5))
def kept_columns(x, n: int):
    keep = {i for i in range(4) if (i + n) % 2}
    y = x * 0
    for i in range(4):
        if i in keep:
            y = y + x[i]
    return y


@program((3,), (0,), (5,))
def changed_in_place(n: int):
    a, b, c, d = {n, 7}, {n, 7}, {n, 7}, {n, 7}
    others = a, b, c, d
    a |= {n + 1}
    b &= {7, 9}
    c -= c
    d ^= {7, 8}
    return [sorted(s) for s in others], a is others[0], b is others[1], c is others[2], d is others[3]


@program((3,), (0,), (5,))
def known_sets_changed_in_place(n: int):
    s = {1}
    t = s
    s |= {2}
    s.difference_update([1])
    s.symmetric_difference_update({n, 9})
    return sorted(t), t is s, n


@program((3,), (1,))
def updated_by_itself(n: int):
    s = {n, 1}
    s.update(s)
    kept = s.copy()
    s.difference_update(s)
    kept.intersection_update([n], {n, 2})
    return len(s), s == set(), sorted(kept)


class Bag:
    """Goes over something else than what it holds."""

    def __init__(self):
        self.held = [9]

    def __iter__(self):
        return iter([1, 2])


BAG, GIVEN = Bag(), {5}


@program((3,), (5,))
def of_any_iterable(n: int):
    s = {n}
    s.update(BAG)
    return sorted(s)


@program((3,), (5,))
def which_class(n: int):
    return (type(frozenset({n}) | {1}) is frozenset, type({n} | frozenset({1})) is set, isinstance({n}, frozenset),
            type(GIVEN | frozenset({n})) is set, {n} == [n], {n} != {n})


@program((3,), (5,))
def with_what_is_no_set(n: int):
    return {n} | [1]


test_programs = suite(PROGRAMS)
