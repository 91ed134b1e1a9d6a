"""What branches and loops bring together stays a choice of references: a write goes to the one that the run chose."""

from __future__ import annotations

from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Box:
    def __init__(self, v):
        self.v = v


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def optional_written(x, c: float):
    y = x if c > 0 else None
    if y is not None:
        y += 1
    return x * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def original_of_an_optional_written(x, c: float):
    y = x if c > 0 else None
    x += 1
    return (x if y is None else y) * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def optional_set_by_a_statement(x, c: float):
    y = None
    if c > 0:
        y = x
    if y is not None:
        y.mul_(3.0)
    return x.sum()


@program((t(3), 1.0), (t(3), -1.0))
def chosen_list(x, c: float):
    a, b = [x], [x * 2, x * 3]
    m = a if c > 0 else b
    m.append(x + 1)
    m[0] = x * 5
    return len(a), len(b), a[0], b[0], m[-1]


@program((t(3), 1.0), (t(3), -1.0))
def older_or_new_list(x, c: float):
    a = [x]
    b = a if c > 0 else [x * 2]
    b.append(x * 3)
    return len(a), len(b), a[0], b[0], a[-1], b[-1]


@program((t(3), 1.0), (t(3), -1.0))
def list_extended_in_place(x, c: float):
    a, b = [x], [x, x]
    m = a
    if c > 0:
        m = b
    m += [x * 2]
    return len(m), len(a), len(b), m[-1]


@program((t(3), 1.0), (t(3), -1.0))
def list_or_none(x, c: float):
    a = [x, x + 1]
    m = None
    if c > 0:
        m = a
    if m is not None:
        m.append(x)
    return len(a), a[-1]


@program((0,), (1,), (5,))
def one_of_two_lists_in_a_loop(n: int):
    a, b = [], []
    for i in range(n):
        (a if i % 2 == 0 else b).append(i)
    return len(a), len(b)


@program((0,), (1,), (5,))
def row_of_a_table(n: int):
    rows = [[], [], []]
    for i in range(n):
        rows[i % 3].append(i)
    return len(rows[0]), len(rows[1]), len(rows[2])


@program((t(3), 1), (t(3), -2))
def chosen_dict(x, k: int):
    p, q = {"a": k}, {"a": 2 * k}
    m = p if k > 0 else q
    m["a"] += 1
    return p["a"], q["a"], m["a"], x * m["a"]


@program((t(3), 1), (t(3), -2))
def dict_or_none(x, k: int):
    p = {"a": x}
    m = None
    if k > 0:
        m = p
    if m is not None:
        m["a"] = x * 2
    return p["a"] + 0


@program((0,), (1,), (2,), (4,))
def made_in_the_iteration(n: int):
    m = {"a": -1}
    for i in range(n):
        p, q = {"a": i}, {"a": 2 * i}
        m = p if i % 2 == 1 else q
        m["a"] += 10
    return m["a"]


@program((4,), (3,), (-1,))
def dicts_of_nested_branches(k: int):
    if k > 0:
        p, q = {"a": k}, {"a": 2 * k}
        m = p if k % 2 == 1 else q
    else:
        m = {"a": 3}
    m["a"] += 1
    return m["a"]


@program((t(3), 0), (t(3), 1), (t(3), 4))
def object_replaced_by_a_loop(x, n: int):
    p = q = Box(x)
    for i in range(n):
        if i == 2:
            p = Box(p.v + 1)
        p.v = p.v * 2
    return p.v + 0, q.v + 0


@program((t(3), 0), (t(3), 3))
def object_replaced_by_every_iteration(x, n: int):
    first = p = Box(x)
    for _ in range(n):
        p.v = p.v + 1
        p = Box(x)
    return first.v + 0


@program((t(3), 3), (t(3), -1), (t(3), 0))
def whether_they_are_one_list(x, n: int):
    d = e = [x, x + 1]
    if n > 0:
        d.append(x * n)
    elif n < 0:
        d = [x + 2]
    return d is e, d is not e, len(e)


@program((3,), (-1,))
def whether_they_are_one_object(n: int):
    p, q, r = Box(n), Box(n), {"a": n}
    m = p if n > 0 else q
    k = r if n > 1 else {"a": 1}
    return m is p, m is q, k is r


@program((3,), (-1,))
def one_item_or_none(n: int):
    found = kept = None
    if n > 1:
        found = (n,)
        kept = [n]
    return found, kept


@program((t(3), 3), (t(3), -1))
def lists_in_a_chosen_tuple(x, n: int):
    a = b = ([x], [x + 1])
    if n > 0:
        a = ([x * 2], a[1])
    a[0].append(x)
    a[1].append(x * 3)
    return len(b[0]), len(a[0]), len(b[1]), a[0] is b[0], a[1] is b[1]


test_programs = suite(PROGRAMS)
