"""`collections.deque`: made, given, changed and returned as in Python, with tensors in it, also of run-time length."""

from __future__ import annotations

import collections
import copy

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.errors import UnsupportedCall
from tests.script.frontend.agree import ints, registry, suite, t

deque = collections.deque
PROGRAMS, program = registry()


@program((t(2), 3))
def both_ends(x, n):
    d = deque([x, x * 2])
    d.append(x + n)
    d.appendleft(x - n)
    first, last = d.popleft(), d.pop()
    return first * last, len(d), d[0], d[-1]


@program((t(2), 2), (t(2), 7), (t(2), 0))
def of_the_last_few(x, n):
    d = deque(maxlen=3)
    for k in range(n):
        d.append(x * k)
    total = x * 0
    for y in d:
        total = total + y
    return total, len(d), d.maxlen


@program((t(5, 3),), (t(2, 3),), (t(4, 3),))
def window(x):
    """A moving sum over the rows."""
    d = deque([x[0] * 0] * 2, 2)
    out = []
    for row in x:
        d.append(row)
        out.append(d[0] + d[1] * 2)
    return torch.stack(out), d


@program((ints(3, 1, 2), 4), (ints(5, 0), 1), (ints(0, 0, 7, 1), 2))
def breadth_first(children, limit):
    """Nodes in the order of their numbers; node k has `children[k]` children."""
    queue, seen, following = deque([0]), [], 1
    while queue and len(seen) < limit * 3:
        k = queue.popleft()
        seen.append(k)
        if k < len(children):
            for _ in range(int(children[k])):
                queue.append(following)
                following += 1
    return seen, len(queue)


@program((t(2), 3), (t(2), -1), (t(2), 0))
def in_a_branch(x, n):
    d = deque([x, x + 1], maxlen=2)
    e = d
    if n > 0:
        d.append(x * n)
    elif n < 0:
        d.appendleft(x * 3)
        d = deque([x + 5], maxlen=2)
    return d, e, d is e, len(e)


@program((t(2), 1), (t(2), 5))
def made_in_a_branch(x, n):
    d = deque([x * 2, x]) if n > 2 else deque([x])
    found = None
    if n > 1:
        found = deque([n], 4)
    return d, found, found is None


@program((t(2), 2), (t(2), -3), (t(2), 11), (t(2), 0), grad=False)
def rotated(x, n):
    d = deque([1, 2, n, 4])
    d.rotate()
    fixed = list(d)
    d.rotate(n)
    d.rotate(-1)
    return fixed, d


@program((t(2), 2), (t(2), 9), grad=False)
def searched(x, n):
    d = deque([5, n, 7, n])
    found = d.index(n), d.index(n, 2), d.count(n), n in d, n + 1 in d, 5 in d
    d.remove(n)
    d.insert(1, 70)
    d.reverse()
    copy = d.copy()
    copy.clear()
    return found, d, copy, d == copy, d == deque(d), d != [7], not copy


@program((t(2), 2), (t(2), 0), grad=False)
def extended(x, n):
    d = deque(range(3), maxlen=4)
    d.extend([n, n + 1])
    d += (7,)
    d.extendleft(k * n for k in range(2))
    e = d + deque([1])
    d.extend(d)
    d[1] = 20
    d[-1] += n
    del d[0]
    return d, e, sum(d), max(d), sorted(e), list(reversed(d)), tuple(e), e.maxlen


@program((deque([1, 2, 3]), 4), (deque([5, 1, 3]), 2), grad=False)
def changed_for_the_caller(d, n):
    d.append(n)
    d.popleft()
    d[0] = d[0] + n
    return d, len(d)


@program((deque([t(2), t(2, seed=1)], 2), t(2, seed=2)), compilations=2)
def history(past, x):
    """The tensors are the caller's own until they are pushed out."""
    y = x + past[0] * 2 + past[-1].sum()
    past.append(y)
    return y, past[0]


@program((deque(), t(2), 4), (deque(), t(2), 0), (deque(), t(2), 9))
def appended_in_a_loop(d, x, n):
    for k in range(n):
        d.append(x * k)
        if len(d) > 5:
            d.popleft()
    return d


@program((t(2), 3), (t(2), 0), grad=False)
def shown(x, n):
    d = deque([n, 2], maxlen=5)
    print(d, f"{d}", deque(), sep=" | ")
    return repr(d)


@program((t(2), 1), (t(2), 0))
def empty_pop(x, n):
    d = deque([x])
    for _ in range(n):
        d.pop()
    return d.popleft()


@program((t(2), 1), (t(2), 3), (t(2), -4))
def index_out_of_range(x, n):
    d = deque([x, x + 1, x + 2])
    return d[n]


@program((t(2), 2), grad=False)
def inserted_into_a_full_one(x, n):
    d = deque([n, 1], maxlen=2)
    d.insert(0, 3)
    return d


@program((t(2), 2), grad=False)
def not_there(x, n):
    return deque([n, 1]).index(n + 1)


@program((t(2), 2), grad=False)
def sliced(x, n):
    return deque([n, 1])[0:1]


@program((t(2), 2), grad=False)
def negative_length(x, n):
    return deque([n], maxlen=-1)


@program((t(2),3),(t(2),0))
def in_other_containers(x, n):
    a = {"q": deque([x], 3), "l": [deque([n])]}
    for k in range(n):
        a["q"].append(x * k)
        a["l"][0].append(k)
    return a, a["l"][0][-1]


@program((t(2),3),(t(2),1))
def deques_in_list(x, n):
    out = []
    for k in range(n):
        d = deque([k, k + 1], 4)
        d.append(n)
        out.append(d)
    return out


@program((deque([1.0, 2.0]), deque([3.0])), grad=False)
def two_given(a, b):
    a.extend(b)
    b.appendleft(a[0] * 2)
    return a is b, a, b


@program((deque([(1, 2), (3, 4)]), 5), grad=False)
def pairs(d, n):
    d.append((n, n))
    i, j = d.popleft()
    d.rotate(1)
    return i + j, d


@program((t(3, 2), 4), (t(3, 2), 1))
def beam(x, n):
    q = deque([(0, x[0])])
    best = x.sum() * 0
    while q:
        k, y = q.popleft()
        best = best + y.sum() * (k + 1)
        if k < n:
            q.append((k + 1, y * 0.5))
    return best


@program((t(2), 3), (t(2), -3), (t(2), 0))
def rotated_tensors(x, n):
    d = deque([x, x + 1, x + 2])
    d.rotate(n)
    return d[0], torch.stack(list(d))


@program((t(2), 4))
def of_no_items(x, n):
    d = deque(maxlen=0)
    d.append(x)
    d.appendleft(n)
    d.extend([1, 2])
    return d, len(d)


@program((t(2), 4), grad=False)
def handled(x, n):
    try:
        deque().pop()
    except IndexError as e:
        m = str(e)
    d = deque([n])
    try:
        for _ in range(n):
            d.popleft()
    except IndexError:
        m += "!"
    return m, d


@program((t(2), 4), grad=False)
def taken_apart_and_compared(x, n):
    d = deque([1, n])
    a, b = d
    *c, e = d
    kinds = isinstance(d, deque), isinstance(d, list), type(d) is deque, bool(deque())
    return a + b, c, e, kinds, d == deque([1, n]), d < deque([2]), d * 2, d != [0]


@program((t(2), 3), (t(2), 1))
def loop_rebinds(x, n):
    d = deque([x], 4)
    for _ in range(n):
        d = deque(d, 4)
        d.append(d[-1] * 2)
    return d, sum(y.sum() for y in d)


@program((t(2), 3), grad=False)
def beside_a_list(x, n):
    return [1] + deque([n])  # noqa: RUF005  (it raises)


@program((t(2), 3), grad=False)
def copied(x, n):
    d = deque([n, 2], 2)
    e = copy.copy(d)
    e.append(1)
    return d, e


@program((deque([1, 2], 3), 3), (deque([4, 5], 3), 3), grad=False)
def until_empty(d, n):
    k = 0
    while len(d) > 0 and k < n:
        k += d.popleft()
    return k


class Sub(deque):
    """Of another class, an object that is known by itself."""


@program((Sub([1, 2]), 3), grad=False)
def of_a_subclass(d, n):
    return len(d) + n


@program((3,), (2,))
def one_of_two_lengths(n: int):
    d = deque([n], 4) if n > 2 else deque([n], 1)
    d.append(n + 1)
    return d


test_programs = suite(PROGRAMS)


class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.past = deque(maxlen=3)
        self.w = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        self.past.append((x * self.w).detach())
        return sum(self.past, x * self.w)


@pytest.mark.parametrize("interpret", [False, True])
def test_an_attribute_is_the_same_object_and_grows(interpret):
    models = Memory(), Memory()
    same = models[1].past
    with torch.config.override(interpret=interpret):
        scripted = torch.script(models[1])
        for k in range(5):
            x = torch.tensor([1.0, k])
            mine, other = models[0](x), scripted(x)
            np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy())
            mine.sum().backward()
            other.sum().backward()
    assert models[1].past is same
    assert len(same) == 3
    assert [y.tolist() for y in same] == [y.tolist() for y in models[0].past]
    assert models[0].w.grad.tolist() == models[1].w.grad.tolist()


def test_an_empty_pop_says_where():
    def f(x, n):
        d = deque([x])
        for _ in range(n):
            d.popleft()
        return d

    with pytest.raises(IndexError, match="pop from an empty deque") as caught:
        torch.script(f)(torch.ones(2), 2)
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (__file__, f.__code__.co_firstlineno + 3)


def test_another_maxlen_is_another_program():
    @torch.script
    def f(d, x):
        d.append(x)
        return len(d)

    for maxlen, wanted in ((2, 2), (None, 3), (2, 2)):
        assert f(deque([1.0, 2.0], maxlen), 3.0) == wanted
    assert f.cache_info().compilations == 2


def test_a_change_while_a_loop_goes_over_it():
    def f(n):
        d = deque(range(n))
        for k in d:
            d.append(k)
        return d

    with pytest.raises(UnsupportedCall, match="changes while a loop goes over it"):
        torch.script(f)(99)


def test_one_given_twice_is_one():
    @torch.script
    def f(a, b):
        a.append(5.0)
        return b[-1], a is b

    d = deque([1.0])
    assert f(d, d) == (5.0, True)
    assert f(d, deque([1.0])) == (1.0, False)
    assert f(d, d) == (5.0, True)


def test_checked_against_eager():
    @torch.script(check=True)
    def f(d, x):
        d.append(x * 2)
        d[0] = x
        return d, sum(y.sum() for y in d)

    d = deque([t(2), t(2, seed=1)], 2)
    result, total = f(d, torch.ones(2))
    assert result is d
    assert [y.tolist() for y in d] == [[1.0, 1.0], [2.0, 2.0]]
    assert total.item() == 6.0


def test_ignored_functions_get_the_very_object():
    seen = []

    @torch.jit.ignore
    def look(d) -> int:
        seen.append(d)
        return len(d)

    @torch.script
    def f(d, n):
        d.append(n)
        return look(d), look(deque([n, n, n], 2))

    given = deque([1])
    assert f(given, 7) == (2, 2)
    assert seen[0] is given
    assert seen[1] == deque([7, 7], 2)
    assert seen[1].maxlen == 2
