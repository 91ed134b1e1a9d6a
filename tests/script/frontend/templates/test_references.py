"""What branches and loops bring together stays a choice of references: a write goes to the one that the run chose."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad.errors import UnsupportedCall
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


# --- objects that a branch or an iteration makes ------------------------------------------------------------------


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_list_or_none(x, c: float):
    m = [x] if c > 0 else None
    if m is not None:
        m[0] += 1
    return x * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_dict_or_none(x, c: float):
    m = {"a": x} if c > 0 else None
    if m is not None:
        m["a"] += 1
    return x * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_object_or_none(x, c: float):
    m = Box(x) if c > 0 else None
    if m is not None:
        m.v += 1
    return x * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_tuple_or_none(x, c: float):
    m = (x, x * 2) if c > 0 else None
    if m is not None:
        a, b = m
        a += 1
        b += 1
    return x * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def two_fresh_lists(x, c: float):
    y = x * 3
    m = [x, y] if c > 0 else [y, x]
    m[0] += 1
    m[1] *= 2
    return x * 2, y * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def nested_fresh(x, c: float):
    y = x * 3
    m = {"a": [x, (y, 1)]} if c > 0 else {"a": [y, (x, 2)]}
    m["a"][0] += 1
    m["a"][1][0].mul_(2)
    return x * 2, y * 2, m["a"][1][1]


@program((t(3), t(3, seed=1), 1.0), (t(3), t(3, seed=1), -1.0), grad=False)
def ternary(x, y, c: float):
    chosen = x if c > 0 else y
    chosen += 1
    return x * 2, y * 2


@program((t(3), t(3, seed=1), 1.0), (t(3), t(3, seed=1), -1.0), grad=False)
def ternary_view(x, y, c: float):
    chosen = x if c > 0 else y[:2]
    chosen[0] = 7
    chosen *= 2
    return x * 2, y * 2, chosen.sum()


@program((t(3), t(3, seed=1), 1), (t(3), t(3, seed=1), 2), grad=False)
def mask_write(x, y, k: int):
    m = (x, y)[k % 2]
    m[m > 0.3] = -2.0
    return x * 2, y * 2


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_and_view(x, c: float):
    if c > 0:
        y = x + 1
        v = y[0]
    else:
        y = x * 2
        v = y[1]
    y += 1
    v *= 10
    return y, v


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def fresh_and_view_same(x, c: float):
    if c > 0:
        y = x + 1
        v = y[:2]
    else:
        y = x * 2
        v = y[:2]
    y += 1
    v *= 10
    return y, v


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def swap_in_branch(x, c: float):
    a = x + 1
    b = x * 2
    if c > 0:
        a, b = b, a
    a += 1
    b *= 3
    return a, b


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def share_in_branch(x, c: float):
    a = x + 1
    b = x * 2
    if c > 0:
        b = a
    a += 1
    b *= 3
    return a, b, a is b


@program((t(3), 0), (t(3), 1), (t(3), 4), grad=False)
def swap_in_loop(x, n: int):
    a = x + 1
    b = x * 2
    first = a
    for i in range(n):
        a += i
        a, b = b, a
    b *= 2
    return a, b, first


@program((t(3), 0), (t(3), 1), (t(3), 4), grad=False)
def rebinding_in_loop(x, n: int):
    a = x + 1
    first = a
    for i in range(n):
        a *= 2
        if i == 1:
            a = a + 1
    a -= 3
    return a, first


@program((t(3), 0), (t(3), 1), (t(3), 4), grad=False)
def object_of_loop(x, n: int):
    p = Box(x * 1)
    kept = p
    for _ in range(n):
        p = Box(p.v)
        p.v += 1
    return kept.v, p.v


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def tensor_in_tuple(x, c: float):
    pair = (x, x + 1) if c > 0 else (x * 2, x)
    pair[0].add_(1)
    pair[1].mul_(2)
    return x * 1, pair[0] + pair[1]


@program((t(3), 1.0), (t(3), -1.0))
def is_of_chosen(x, c: float):
    a, b = [x], [x * 2, x * 3]
    m = a if c > 0 else b
    m.append(x)
    return m is a, m is b, a is b


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def attribute_chosen(x, c: float):
    p, q = Box(x), Box(x * 2)
    m = p if c > 0 else q
    m.v.add_(1)
    m.v = m.v * 2
    return p.v, q.v, x * 1


@program((t(3), t(3, seed=2), 4), (t(3), t(3, seed=2), 1), grad=False)
def alternates(x, y, n: int):
    for i in range(n):
        m = x if i % 2 == 0 else y
        m += i
    return x * 1, y * 1


@program((t(3), t(3, seed=2), 4), (t(3), t(3, seed=2), 0), grad=False)
def last_chosen(x, y, n: int):
    m = x
    for _ in range(n):
        m = y if m is x else x
        m.add_(1.0)
    m.mul_(2.0)
    return x * 1, y * 1, m


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def return_the_argument(x, c: float):
    y = x * 2
    r = x if c > 0 else y
    r += 1
    return r, [r, {"a": r}]


@program(((t(3), t(3, seed=1)), 0), ((t(3), t(3, seed=1)), 1), grad=False)
def tuple_argument_indexed(xs, k: int):
    m = xs[k]
    m.mul_(2)
    xs[k - 1].add_(1)
    return m.sum()


@program(([t(3), t(3, seed=1)], 0), ([t(3), t(3, seed=1)], 1), grad=False)
def list_argument_indexed(xs, k: int):
    m = xs[k]
    m.mul_(2)
    xs[k - 1].add_(1)
    return m.sum()


@program(({"a": t(3), "b": t(3, seed=1)}, 0), ({"a": t(3), "b": t(3, seed=1)}, 1), grad=False)
def dict_argument_chosen(d, k: int):
    m = d["a"] if k else d["b"]
    m.mul_(2)
    d["a"].add_(1)
    return m.sum()


@program((t(3), 1.0), (t(3), -1.0))
def try_reference(x, c: float):
    y = x * 1
    m = None
    try:
        m = y
        if c > 0:
            raise ValueError("no")
        m = x * 2
    except ValueError:
        pass
    m.add_(1)
    return y, m


@program((t(3), 5), (t(3), 2))
def loop_break_reference(x, n: int):
    best = x * 0
    ys = [x * 1, x * 2, x * 3]
    for i in range(n):
        y = ys[i % 3]
        if i == 3:
            best = y
            break
    best += 10
    return best, ys[0], ys[1], ys[2]


@program((t(3), 1.0), (t(3), -1.0))
def read_without_and_with_history(x, c: float):
    a, b = x * 2, x + 1
    u = a if c > 0 else b
    u[1:] = x[:2].exp()
    with torch.no_grad():
        shown = u - b
    return u * 3, shown


@program((t(3), 1.0), (t(3), -1.0), grad=False)
def gradient_added_to_one_of_two(x, c: float):
    y = x * 2
    w = x.detach().clone().requires_grad_()
    (w * 2).sum().backward()
    w.grad = x * 1 if c > 0 else y
    (w * 3).sum().backward()
    return w.grad, x * 1, y


# --- changed before it is chosen, in the next iteration ----------------------------------------------------------


@program((t(3), t(3, seed=1), 4), (t(3), t(3, seed=1), 1), grad=False)
def written_before_it_is_chosen(x, y, n: int):
    m, s = y, torch.zeros(())
    for i in range(n):
        x += 1
        s = s + m.sum()
        m = x if i % 2 == 0 else y
    return s


@program((t(3), t(3, seed=1), 4), (t(3), t(3, seed=1), 1), grad=False)
def list_changed_before_it_is_chosen(x, y, n: int):
    a, b = [x], [y]
    m, s = b, torch.zeros(())
    for i in range(n):
        a[0] = x * i
        s = s + m[0].sum()
        m = a if i % 2 == 0 else b
    return s


@program((t(3), t(3, seed=1), 4), (t(3), t(3, seed=1), 1), grad=False)
def object_in_a_tuple(x, y, n: int):
    m, s = (y * 1, 1), torch.zeros(())
    for i in range(n):
        x += 1
        s = s + m[0].sum() * m[1]
        m = (x if i % 2 == 0 else y, 1)
    return s


@program((t(3), t(3, seed=1), 4), (t(3), t(3, seed=1), 1), grad=False)
def without_a_branch(x, y, n: int):
    m, s = y, torch.zeros(())
    for _ in range(n):
        x += 1
        s = s + m.sum()
        m = x
    return s


test_programs = suite(PROGRAMS)


# --- what references cannot tell ---------------------------------------------------------------------------------


def moving_view(x, n: int):
    m = x[0]
    for i in range(n):
        m.add_(1)
        m = x[i]
    return x.sum()


def one_of_several(x, n: int):
    best = cur = x * 1
    for i in range(n):
        cur = cur + 1
        if i % 2 == 0:
            best = cur
        best.mul_(2)
    return best, cur


@pytest.mark.parametrize(("function", "error", "why"), [
    (moving_view, UnsupportedCall, "another view of it in every iteration"),
    (one_of_several, UnsupportedCall, "one of several, and another variable too"),
])
def test_refused_at_the_line(function, error, why):
    with pytest.raises(error, match=why) as raised:
        torch.script(function)(t(99, 2), 99)
    assert "test_references.py" in str(raised.value)
    assert "hint:" in str(raised.value)
