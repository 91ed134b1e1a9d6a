"""Lists, tuples, dicts and sets that are shared, grow, shrink and change while they are used."""

from __future__ import annotations

import collections
import itertools
from collections import Counter

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


@nasty(lambda: ([1, 2, 3],), lambda: ([5],))
def appended_to_the_caller(xs):
    """A list argument that grows is a copy."""
    ys = xs
    ys.append(4)
    xs = xs + [9]
    ys += [7]
    return xs, ys


@nasty(lambda: ([3, 1, 2],), lambda: ([5, 4, 9, 9],))
def sorted_is_new_sort_is_not(xs):
    """sorted gives a new list, sort changes the old one and gives None."""
    a = sorted(xs, reverse=True)
    r = xs.sort(key=lambda k: -k)
    xs.reverse()
    return a, r, xs


@nasty(lambda: (4,), lambda: (0,))
def list_grown_by_a_loop(n: int):
    """A list of a length known at run time."""
    xs = []
    for k in range(n):
        xs.append(k * k)
    xs.insert(0, -1)
    return xs, len(xs), xs[-1], sum(xs), max(xs)


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1))
def tensors_collected_then_changed(x, n: int):
    """A tensor in a list is changed after it was put there."""
    xs = []
    for k in range(n):
        xs.append(x)
        x = x + 1
    xs[0].mul_(10)
    return torch.stack(xs), x


@nasty(lambda: (3,), lambda: (5,))
def slices_of_lists(n: int):
    """Slice assignment changes the length, del shifts."""
    xs = [0, 1, 2, 3, 4, 5]
    xs[1:3] = [n]
    del xs[-1]
    ys = xs[:]
    ys[0] = 100
    xs[::2] = [7, 8, 9][:len(xs[::2])]
    return xs, ys, xs[::-1]


@nasty(lambda: (2,), lambda: (7,))
def order_of_a_dict(n: int):
    """A key that is set again keeps its place; one that was deleted comes last."""
    d = {"a": 1, "b": 2, "c": 3}
    d["a"] = n
    del d["b"]
    d["b"] = 5
    return list(d), list(d.values()), d.pop("c"), d


@nasty(lambda: ({"x": v(1, 2), "n": 1},), lambda: ({"x": v(3), "n": 5},))
def dict_argument_changed(d):
    """New keys, deleted keys and changed values reach the caller."""
    d["y"] = d["x"] * d["n"]
    d["n"] += 1
    del d["x"]
    d.setdefault("z", []).append(d["y"])
    return d.get("x"), len(d)


@nasty(lambda: (5,), lambda: (12,))
def counts_by_run_time_keys(n: int):
    """Keys that only the run knows."""
    counts = {}
    for k in range(n):
        r = k * k % 5
        counts[r] = counts.get(r, 0) + 1
    return counts, len(counts), 4 in counts


@nasty(lambda: (4,), lambda: (9,))
def run_time_keys_deleted(n: int):
    """A run-time key that is deleted and set again comes last."""
    d = {}
    for k in range(n):
        d[k % 3] = k
    first = d.pop(0)
    d[0] = first
    return d, list(d.items())


@nasty(lambda: (30,), lambda: (2,))
def memo_of_a_recursion(n: int):
    """A dict as the memo of a recurrence."""
    memo = {0: 0, 1: 1}
    for k in range(2, n + 1):
        memo[k] = memo[k - 1] + memo[k - 2]
    return memo[n]


@nasty(lambda: (2,), lambda: (9,))
def sets_of_constants(n: int):
    """Membership in a set, and operations of constant sets."""
    small = {1, 2, 3}
    both = small & {2, 3, 4}
    return n in small, n in both, len(small | {9}), n not in frozenset((2, 9)), sorted(small ^ {1})


@nasty(lambda: ((1, (2.0, v(3))),), lambda: ((4, (5.0, v(6, 7))),))
def nested_unpacking(t):
    """Nested and starred targets."""
    a, (b, c) = t
    first, *rest = (a, b, 7, 8)
    *init, last = rest
    (p, q), r = (first, last), init
    return a + b, c * p, q, r, [*r, *t[1]][0]


@nasty(lambda: ([1, 2],), lambda: ([3, 4],))
def assignment_order(xs):
    """The index of a target is evaluated after the assignment to its left."""
    i = 0
    i, xs[i] = 1, 9
    xs[0], i = i, xs[0]
    return xs, i


@nasty(lambda: ([0, 1, 2, 3], 1), lambda: ([5, 6, 7], 2))
def augmented_target_evaluated_once(xs, n: int):
    """The index of xs[f()] += 1 is evaluated twice."""
    calls = []

    def index():
        calls.append(1)
        return n

    xs[index()] += 10
    return xs, len(calls)


@nasty(lambda: (3,), lambda: (5,))
def comprehension_has_its_own_scope(n: int):
    """The variable of a comprehension leaks."""
    k = 100
    xs = [k * n for k in range(3)]
    d = {k: v for k, v in enumerate("ab")}
    return k, xs, d, [i * j for i in range(n) for j in range(i)]


@nasty(lambda: ([1, 2, 3], [4, 5]), lambda: ([1], [2, 3]))
def zip_and_friends(xs, ys):
    """zip ends with the shorter, enumerate starts where it is told, reversed is lazy."""
    pairs = list(zip(xs, ys))
    numbered = [i * x for i, x in enumerate(xs, start=2)]
    return pairs, numbered, list(reversed(xs)), [a - b for a, b in zip(xs, reversed(ys))]


@nasty(lambda: (4,), lambda: (1,))
def deque_rotates(n: int):
    """A deque that is full drops from the other end."""
    d = collections.deque([1, 2], maxlen=3)
    for k in range(n):
        d.append(k * 10)
    d.appendleft(-1)
    return list(d), d[0], len(d)


@nasty(lambda: ((v(1), v(2)), 0), lambda: ((v(1), v(2)), 1), lambda: ((v(1), v(2)), -1), lambda: ((v(1),), 3))
def tuple_indexed_by_the_run(t, k: int):
    """A tuple whose index only the run knows, negative or too large."""
    x = t[k]
    x.add_(1)
    return x


@nasty(lambda: ([1, 2, 3], 2), lambda: ([1, 2, 3], 7))
def index_and_count(xs, n: int):
    """in, index and count of a list with a run-time number."""
    if n in xs:
        return xs.index(n), xs.count(n)
    return xs.count(n), [x == n for x in xs]


@nasty(lambda: ([[1, 2], [3]],), lambda: ([[5], [6, 7]],))
def inner_list_shared(rows):
    """A row that is put into another list is the same list."""
    other = [rows[0], list(rows[1])]
    other[0].append(9)
    other[1].append(8)
    return other, rows


@nasty(lambda: (3, 2), lambda: (2, 3))
def transposed_table(n: int, m: int):
    """zip(*rows), nested comprehensions, a table made by the run."""
    rows = [[i * 10 + j for j in range(2)] for i in range(3)]
    rows[1][0] = n
    return [list(c) for c in zip(*rows)], [max(r) for r in rows], m


@nasty(lambda: (v(3, 1, 2),), lambda: (v(1, 5),))
def tolist_sorted(x):
    """Values of a tensor sorted in Python."""
    xs = x.tolist()
    xs.sort()
    return xs, xs[0] == x.min().item(), sorted(xs, key=lambda a: -a)[0]


@nasty(lambda: ({"a": 1}, {"a": 2, "b": 3}), lambda: ({"a": 5}, {"c": 1}))
def dicts_merged(a, b):
    """Later keys win, and the order is that of the first."""
    c = {**b, **a}
    a.update(b)
    return c, a | {"z": 0}, a == b, list(a.items())


@nasty(lambda: ([1, 2, 3],), lambda: ([],))
def empty_list_is_false(xs):
    """Truth of containers."""
    if xs:
        return xs[0], bool([0]), not ()
    return "empty", bool({}), len(xs)


@nasty(lambda: ([v(1), v(2)],), lambda: ([v(1), v(2), v(3)],))
def popped_item_is_the_same(xs):
    """pop gives the tensor itself."""
    last = xs.pop()
    last.add_(5)
    xs.insert(0, last)
    return last, xs[0] is last


@nasty(lambda: ([1, 2], 3), lambda: ([1, 2], 0))
def multiplied_and_compared(xs, n: int):
    """Comparison of lists and tuples goes item by item."""
    return xs * 2, (1, n) < (1, 2), xs == [1, 2], [1, n] > xs, (n, n) == (n, n)


@nasty(lambda: (5,), lambda: (2,))
def stack_machine(n: int):
    """push and pop of a list in a loop that the run bounds."""
    stack, total = [n], 0
    while stack:
        k = stack.pop()
        total += k
        if k > 1:
            stack.append(k - 1)
    return total


@nasty(lambda: (torch.arange(6.0).reshape(3, 2), torch.ones(2, 2), 1),
       lambda: (torch.arange(6.0).reshape(3, 2), torch.ones(2, 2), 0),
       lambda: (torch.arange(2.0).reshape(1, 2), torch.ones(4, 2), 0))
def pairs_of_rows_of_one_of_two(x, y, n: int):
    """Which tensor is gone over is a matter of the run, and so is how many rows it has."""
    v = x if n > 0 else y
    rows = list(v)
    a, *others = v
    pairs = [(p * q).sum() for p, q in itertools.combinations(v, 2)]
    return len(rows), a.sum(), len(others), sum(pairs) + x.sum()


@nasty(lambda: ([], 3), lambda: ([], 0))
def sum_of_none_is_a_number(xs, n: int):
    """What sum gives of no tensors has no methods of tensors."""
    for k in range(n):
        xs.append(torch.ones(2) * k)
    try:
        return sum(xs).sum()
    except AttributeError as error:
        return str(error)


@nasty(lambda: (torch.ones(2).requires_grad_(), torch.tensor(2.0).requires_grad_(), 3),
       lambda: (torch.ones(2).requires_grad_(), torch.tensor(2.0).requires_grad_(), 0))
def a_list_grows_in_what_a_loop_may_rebind(y, w, n: int):
    """The containers that the loop's variables hold change, the variables do not."""
    pair, table, nested = (torch.ones(2), [1]), {1: [[1]]}, [[1], [2]]
    for k in range(n):
        if 3 < 2:
            pair, table, nested = (y, [2]), {1: [[7]]}, [[3], [2]]
        pair[0].mul_(w)
        pair[1].append(k)
        table[1][0].append(k)
        nested[1].append(k)
        nested[0][0] += 1
    return pair[1], table, nested, (pair[0] * y).sum() * w


@nasty(lambda: (2,), lambda: (0,), lambda: (3,))
def an_item_of_one_of_two_lists_grows(n: int):
    """What is read of either list becomes one, a copy that nobody sees."""
    xs, ys = [[0], []], [[n, 3], [n]]
    for _ in range(n):
        xs.append([0])
        xs = ys
    xs[-1].append(1)
    return xs, ys


@nasty(*[lambda n=n: (torch.tensor([2.0, 3.0], requires_grad=True), n) for n in (0, 1, 3)])
def matrices_of_rows_that_grew(x, n: int):
    """`tensor` of lists of which only the run knows the length, in a list and in a tuple."""
    row = [1.0]
    for _ in range(n):
        row.append(x[0].item())
    return torch.tensor([row, [v + 1 for v in row]]) * x[0], torch.tensor((row, row), dtype=torch.int64)


@nasty(*[lambda n=n: (n,) for n in (0, 1, 3)])
def rows_of_two_lengths(n: int):
    """Which lengths they have is part of the message."""
    row = [1]
    for k in range(n):
        row.append(k)
    return torch.tensor([row, [1, 2]])


@nasty(lambda: (torch.tensor([2.0, 0.5]),), lambda: (torch.tensor([1.0, -0.5]),))
def a_beam_of_sequences(x):
    """Of each sequence the likeliest ends, of all these the best two."""
    beams = [([int(x[0])], 0.0)]
    for _ in range(3):
        found = []
        for sequence, score in beams:
            scores = torch.tensor([sequence]).float().mean() * x[1] * torch.arange(3.0)
            values, places = scores.log_softmax(-1).topk(2)
            for v, k in zip(values.tolist(), places.tolist()):  # noqa: B905
                found.append(([*sequence, k], score + v))
        beams = sorted(found, key=lambda b: -b[1])[:2]
    return [sequence for sequence, _ in beams]


COUNTED = (lambda: (3,), lambda: (7,), lambda: (0,))


@nasty(*COUNTED)
def counters_added(n: int):
    """What is not positive is dropped, but in `subtract`; what only one counts is 0 in the other."""
    a, b = Counter(k * k % 3 for k in range(n)), Counter([1, 1, 2])
    c = a.copy()
    c.subtract(b)
    c.subtract({2: n})
    return a + b, a - b, a | b, a & b, c, +c, -c, c.total(), list(b.elements()), a == b, a <= a + b, a < a, b >= a


@nasty(*COUNTED)
def counters_changed_in_place(n: int):
    """By operators, which keep the object; in a loop."""
    a, total = Counter("abca"), Counter()
    b = a
    a += Counter(a=n, b=-5)
    a -= Counter("a")
    a |= Counter(z=2)
    a &= Counter(a=9, z=1, q=3)
    for i in range(n):
        total += Counter([i % 2, i % 3])
    return a, a is b, total, total.most_common(1), total == Counter({0: 0}), a == {"a": 1}


class Config(dict):
    """Items that are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def scaled(self, x):
        return x * self.rate

    def __repr__(self):
        return f"Config of {len(self)}"


class Lengths(dict):
    def __missing__(self, key):
        return len(key)


CONFIG, LENGTHS = Config(rate=0.5, name="a"), Lengths(ab=7)
WORDS, ORDER = Counter("hello"), collections.OrderedDict(a=1, b=2)


@nasty(lambda: (v(1, 2), Config(rate=2.0)), lambda: (v(3), Config(rate=3.0)))
def dicts_of_own_classes(x, config):
    """Given: what their class says is what they say."""
    print(CONFIG, type(config).__name__, isinstance(CONFIG, Config), LENGTHS["abc"], LENGTHS["ab"])
    config["seen"] = 1
    config["rate"] += 1
    return CONFIG.scaled(x) * config.rate, config, config == {"rate": 2.0}, config.get("b", 4), {**config}


@nasty(lambda: (3, Counter("abca")), lambda: (4, Counter("b")))
def counters_that_were_given(n: int, counter):
    """What is not counted is 0, and their operators are theirs."""
    counter["a"] += n
    return WORDS["z"], WORDS.total(), WORDS + WORDS, counter["z"], counter, Counter(WORDS)["l"], type(ORDER) is dict


class Rates(dict):
    def __missing__(self, key):
        return -1


@nasty(lambda: (Counter([1, 1, 2]), Rates({1: 5, 3: 7}), 1), lambda: (Counter([1]), Rates({1: 5, 3: 7}), 2),
       lambda: (Counter(), Rates(), 3))
def what_a_dict_of_its_own_class_lacks(counter, rates, n: int):
    """Known at run time: what is there is not asked of `__missing__`."""
    seen = [counter[n], rates[n], rates.get(n)]
    if n in counter:
        counter[n] = counter[n] + 10
    return seen, counter, [rates[k] for k in range(n + 1)]


@nasty(lambda: ({"a": 1}, 3), lambda: ({"b": 1, "c": 2}, 5))
def dicts_updated_by_an_operator(given, n: int):
    """`|=` keeps the dict, under all its names, the caller's too."""
    made, counts, grown = {"a": n}, collections.defaultdict(int), {}
    same, kept = made, grown
    made |= {"b": n + 1}
    if n > 3:
        made |= [("c", n)]
    given |= made
    counts |= {"a": n}
    for i in range(n):
        grown |= {i: i * n}
    return made, same, given, counts, grown, grown is kept
