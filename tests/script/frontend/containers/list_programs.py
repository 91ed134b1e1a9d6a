"""Programs with lists whose length is known at run time, as people write them, and arguments for each.

`CALLS`: (function, arguments). Where an exception is expected, eager raises it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jitgrad as torch


def _x(*shape: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape))


class Pair(NamedTuple):
    value: Any
    weight: Any


# --- append, then one tensor of it ---------------------------------------------------------------------------------


def stacked(x, n):
    hs, h = [], x
    for i in range(n):
        h = torch.tanh(h + i)
        hs.append(h)
    return torch.stack(hs)


def rnn_outputs(xs, h, w):
    outputs = []
    for t in range(xs.shape[0]):
        h = torch.tanh(xs[t] @ w + h)
        outputs.append(h)
    return torch.stack(outputs, dim=1), h


def every_other(x, w, n):
    hs, h = [], x
    for i in range(n):
        h = torch.tanh(h @ w)
        if i % 2 == 0:
            hs.append(h)
    return torch.stack(hs).sum(0) * 2, hs[0] + hs[-1], len(hs)


def ragged(x, n):
    xs = []
    for i in range(1, n):
        xs.append(x[:i] * i)
    return torch.cat(xs), len(xs)


def along_other_axes(x, n):
    xs = []
    for i in range(n):
        xs.append(x * i)
    return torch.cat(xs, 1), torch.cat(xs, dim=-1).sum(), torch.stack(xs, dim=1), torch.stack(xs, -1)


def ragged_stack(x, n):
    xs = []
    for i in range(n):
        xs.append(x[i:])
    return torch.stack(xs)


def until_it_settles(x, w):
    path = []
    while len(path) < 50:
        new = torch.tanh(x @ w)
        path.append(new)
        if (new - x).abs().max() < 1e-3:
            break
        x = new
    return torch.stack(path).sum(0), len(path)


def left_by_return(x, n):
    xs = []
    i = 0
    while True:
        y = (x * i).cos()
        if i >= n:
            break
        i += 1
        if i % 2:
            continue
        xs.append(y)
        if y.sum() > 2.5:
            return torch.stack(xs), 1
    return torch.stack(xs) * 2, 2


def nested(x, n):
    out = []
    for i in range(n):
        inner = []
        for j in range(i + 1):
            inner.append(x * j)
        out.append(torch.stack(inner).sum(0))
    return torch.stack(out)


def in_nested_loops(x, n):
    pairs = []
    for i in range(n):
        for j in range(i):
            if (i + j) % 2:
                pairs.append(x[i] * x[j])
    return torch.stack(pairs)


def grown_by_a_branch(x, n):
    a = [x]
    if x.sum() > n:
        a.append(x * 2)
    return torch.stack(a), len(a)


# --- reading -------------------------------------------------------------------------------------------------------


def indexed(x, n, i):
    xs = []
    for k in range(n):
        xs.append((x * k).sin())
    return xs[i] * xs[-1] + xs[len(xs) // 2] * xs[-len(xs)]


def fibonacci_of_tensors(x, n):
    xs = [x, x * 2]
    for k in range(n):
        xs.append(torch.tanh(xs[k] + xs[k + 1]))
    return xs[-1]


def attention_over_the_past(x, w, n):
    hs = [x]
    for _ in range(n):
        query = torch.tanh(hs[-1] @ w)
        total = x * 0
        for h in hs:
            total = total + h * (query * h).sum()
        hs.append(query + total)
    return hs[-1]


def iterated(x, n):
    xs = []
    for i in range(n):
        xs.append(x[i])
    t = x[0] * 0
    for i, y in enumerate(xs):
        t = t + i * y
    for a, b in zip(xs, reversed(xs), strict=True):
        t = t * a + b.sin()
    for a, i in zip(xs, range(n), strict=False):
        t = t + a * i
    return t


def unpacked(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    p, q, r = a
    return p + q * r


def out_of_range(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    return a[5]


def before_the_start(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    return a[-4]


def truth(x, n):
    xs = []
    for i in range(n):
        xs.append(i)
    return x * 2 if xs else x


# --- changing ------------------------------------------------------------------------------------------------------


def replaced(x, n):
    xs = []
    for i in range(n):
        xs.append(x * i)
    for i in range(n - 1):
        xs[i] = xs[i + 1] * xs[i].cos()
    xs[-1] = xs[0] + 1
    return torch.stack(xs)


def set_out_of_range(x, n):
    xs = []
    for i in range(n):
        xs.append(x * i)
    xs[4] = x
    return torch.stack(xs)


def stack_machine(x, n):
    st = []
    for i in range(n):
        st.append(x[i].sin())
        if i % 3 == 2:
            a = st.pop()
            b = st.pop()
            st.append(a * b)
    while len(st) > 1:
        a = st.pop()
        b = st.pop()
        st.append(torch.tanh(a + 2 * b))
    return st[0]


def queue(x, n):
    q = []
    for i in range(n):
        q.append(x * i)
    out = x * 0
    while q:
        out = out * 0.9 + q.pop(0)
        if len(q) > 3:
            q.pop(1)
    return out


def popped_too_often(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    a.pop()
    a.pop()
    a.pop()
    return a.pop()


def pop_out_of_range(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    return a.pop(3)


def inserted(x, n):
    xs = []
    for i in range(n):
        xs.insert(0, x * i)
        xs.insert(1, x - i)
    xs.insert(-1, x)
    xs.insert(100, x.sin())
    xs.insert(-100, x.cos())
    ys = xs.copy()
    ys.extend(xs)
    xs.clear()
    xs.append(x)
    return torch.stack(ys), torch.stack(xs)


def slices(x, n):
    xs = []
    for i in range(n):
        xs.append(x * i)
    a, b = xs[1:], xs[:-1]
    backwards = xs[n - 1:0:-2]
    return (torch.stack(a + b), torch.stack(xs[::2]), torch.stack(xs[::-1]), torch.stack(xs[-2:]), len(a),
            len(backwards), len(xs[n:]), len(xs[3:1]), torch.stack(xs[1:4:2]), len(xs[-100:100]))


def reversed_and_joined(x, n):
    xs = []
    for i in range(n):
        xs.append(x * i)
    ys = xs + [x]  # noqa: RUF005
    zs = [x, x * 2, *xs, x.sin()]
    xs += ys
    xs.reverse()
    ys.reverse()
    return torch.stack(xs), torch.stack(ys), torch.stack(zs), len(list(xs))


def two_names(x, n):
    a = []
    b = a
    t = (a, 1)
    for i in range(n):
        b.append(x * i)
    t[0].append(x)
    c = list(a)
    c.append(x)
    return len(a), len(b), len(c), torch.stack(a)


def _push(items, value):
    items.append(value)
    return len(items)


def through_a_call(x, n):
    items = []
    total = 0
    for i in range(n):
        total += _push(items, x * i)
    return torch.stack(items), total


def emptied_and_filled(x, n):
    window = []
    outs = []
    for i in range(n):
        window.append(x[i])
        if len(window) == 3:
            outs.append(torch.stack(window).mean(0))
            window.clear()
    return torch.stack(outs), len(window)


def sliding_window(x, n):
    window = []
    total = x[0] * 0
    for i in range(n):
        window.append(x[i])
        if len(window) > 3:
            window.pop(0)
        total = total + torch.stack(window).prod(0)
    return total


# --- numbers -------------------------------------------------------------------------------------------------------


def positions(x, n):
    ks = []
    for i in range(n):
        if x[i] > 0:
            ks.append(i)
    total = 0
    for k in ks:
        total += k
    return total, len(ks), sum(ks), 3 in ks, 99 not in ks, x[ks[0]] * ks[-1] if len(ks) > 0 else x[0]


def floats(x, n):
    ks = []
    for i in range(n):
        ks.append(float(x[i]) * 2.0)
    return max(ks), min(ks), sum(ks), ks[n // 2], x * sum(ks)


def mixed_numbers(x, n):
    ks = []
    for i in range(n):
        ks.append(i)
        if i == 2:
            ks.append(0.5)
    total = 0
    for k in ks:
        total += k
    return total, x.sum() * ks[-1]


def flags(x, n):
    bs = []
    for i in range(n):
        bs.append(bool(x[i] > 0))
    return all(bs), any(bs), bs.count(True), bs[0], len(bs)


def found(x, n):
    ks = []
    for i in range(n):
        ks.append(i * i)
    ks.remove(4)
    return ks.index(9), ks.count(1), x * ks[2]


def not_found(x, n):
    ks = []
    for i in range(n):
        ks.append(i * i)
    return ks.index(7)


def sieve(n):
    primes = []
    for i in range(2, n):
        prime = True
        for p in primes:
            if p * p > i:
                break
            if i % p == 0:
                prime = False
                break
        if prime:
            primes.append(i)
    return primes


def collatz(n):
    steps = []
    while n != 1:
        steps.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return steps, len(steps)


def printed(x, n):
    xs = []
    for i in range(n):
        xs.append(i)
        print("now", len(xs), xs[-1])
    print(len(xs), sum(xs))
    return x


# --- comprehensions and reductions ---------------------------------------------------------------------------------


def comprehensions(x, n):
    ys = [x[i] * i for i in range(n)]
    zs = [y.sin() for y in ys]
    ks = [i for i in range(n) if x[i].sum() > 0]
    pairs = [ys[i] * zs[j] for i in range(n) for j in range(i)]
    rows = [row.cos() for row in x]
    return torch.stack(ys), torch.stack(zs), len(ks), sum(ks), torch.stack(pairs), torch.stack(rows)


def filtered(x, n):
    return torch.stack([x * i for i in range(4) if i <= n])


def summed(x, n):
    xs = []
    for i in range(n):
        xs.append((x * i).sin())
    return sum(xs), sum([y * 2 for y in xs]), sum(xs, x)


def long_static_comprehension(x):
    return torch.stack([x * i for i in range(100)]).sum(0)


# --- tuples --------------------------------------------------------------------------------------------------------


def tuples(x, n):
    xs = []
    for i in range(n):
        xs.append((x[i], i, x[i].sin()))
    t = x[0] * 0
    for a, k, b in xs:
        t = t + a * k * b
    a, k, b = xs[-1]
    return t, a, k, b


def named(x, n):
    xs = []
    for i in range(n):
        xs.append(Pair(x * i, i * 0.5))
    return xs[1].value * xs[-1].weight


def beam(scores, width):
    """Keep the best: a list of (score, last) pairs."""
    best = [(scores[0].sum() * 0, 0)]
    for t in range(scores.shape[0]):
        candidates = []
        for total, _last in best:
            for k in range(scores.shape[1]):
                candidates.append((total + scores[t][k], k))
        best = []
        for _ in range(width):
            top = 0
            for i in range(len(candidates)):
                if candidates[i][0] > candidates[top][0]:
                    top = i
            best.append(candidates.pop(top))
    return best[0][0], best[0][1], len(best)


# --- trees ---------------------------------------------------------------------------------------------------------


def tree(x, w, actions):
    """Shift-reduce: an explicit stack; 0 shifts the next leaf, 1 combines the two on top."""
    stack = []
    at = 0
    for a in actions:
        if a == 0:
            stack.append(x[at])
            at += 1
        else:
            right = stack.pop()
            left = stack.pop()
            stack.append(torch.tanh(left @ w + right))
    return stack[-1], len(stack)


def depth_first(x, n):
    """A walk over the nodes 1..n of a binary heap."""
    todo = [1]
    order = []
    total = x[0] * 0
    while todo:
        node = todo.pop()
        order.append(node)
        total = torch.tanh(total + x[node - 1])
        if 2 * node + 1 <= n:
            todo.append(2 * node + 1)
        if 2 * node <= n:
            todo.append(2 * node)
    return total, order


# --- results -------------------------------------------------------------------------------------------------------


def returned(x, n):
    a = []
    for i in range(n):
        a.append(x * i)
    return a


def returned_structure(x, n):
    a, k = [], []
    for i in range(n):
        a.append((x * i, i))
        k.append(i * 0.5)
    return a, k, x.sum(), a


def returned_ragged(x, n):
    return [x[:i] * 2 for i in range(1, n)]


def returned_optional(x, n):
    a = []
    for i in range(n):
        a.append(x * i if i % 2 else None)
    return a


def untouched(x, y, n):
    """y is read only where n > 3."""
    xs = []
    for i in range(n):
        xs.append(x * i)
        if i > 3:
            xs.append(y)
    return torch.stack(xs)


# --- names, calls, text --------------------------------------------------------------------------------------------


def rebound(x, n):
    xs = []
    for i in range(n):
        xs = xs + [x * i]  # noqa: RUF005
    return torch.stack(xs)


def breadth_first(x, n):
    level, order, total = [1], [], x * 0
    while len(level) > 0:
        following = []
        for v in level:
            order.append(v)
            total = total + x * v
            for c in (2 * v, 2 * v + 1):
                if c <= n:
                    following.append(c)
        level = following
    return total, order


def swapped(x, n):
    a, b = [], []
    for i in range(n):
        a.append(x * i)
        a, b = b, a
    return len(a), len(b), torch.stack(a + b)


def by_a_closure(x, n):
    xs = []

    def push(v):
        xs.append(v)
        return len(xs)

    t = 0
    for i in range(n):
        t += push(x * i)
    return torch.stack(xs), t


def in_a_dict(x, n):
    d = {"a": [], "b": []}
    for i in range(n):
        d["a"].append(x * i)
        if i % 2:
            d["b"].append(x)
    return torch.stack(d["a"]), len(d["b"])


def made_by_a_call(x, n):
    def build(k):
        ys = []
        for j in range(k):
            ys.append(x + j)
        return ys

    t = x * 0
    for i in range(1, n):
        t = t + torch.stack(build(i)).sum(0)
    return t


def returned_early(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
        if i == 3:
            return out
    return out


def tensors_of_numbers(x, n):
    return torch.tensor([float(x[i]) for i in range(n)]), torch.tensor([i for i in range(n)])  # noqa: C416


def growing_items(x, n):
    xs, h = [], x
    for _ in range(n):
        h = torch.cat((h, x))
        xs.append(h)
    return torch.cat(xs), sum([y.sum() for y in xs])


def printed_whole(x, n):
    x = x.detach()
    xs, fs = [i for i in range(n)], [0.5 * i for i in range(n)]  # noqa: C416
    print(xs)
    print("got", fs, "and", xs, sep="; ", end="!\n")
    print([x * i for i in range(n)], 3, [(i, x[0] * i) for i in range(n)])
    return x


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (stacked, (_x(3), 4)), (stacked, (_x(3), 1)), (stacked, (_x(3), 40)), (stacked, (_x(3), 0)),
    (rnn_outputs, (_x(5, 2, 3), _x(2, 3), _x(3, 3))), (every_other, (_x(2, 3), _x(3, 3), 5)),
    (ragged, (_x(9), 6)), (along_other_axes, (_x(2, 3), 4)), (ragged_stack, (_x(4), 1)), (ragged_stack, (_x(4), 3)),
    (until_it_settles, (_x(2, 2), _x(2, 2) * 0.1)), (left_by_return, (_x(4), 9)), (left_by_return, (_x(4) * 0, 9)),
    (nested, (_x(4), 4)), (in_nested_loops, (_x(6), 6)), (grown_by_a_branch, (_x(4), -100)),
    (grown_by_a_branch, (_x(4), 100)), (indexed, (_x(3), 5, 2)), (indexed, (_x(3), 5, -5)),
    (fibonacci_of_tensors, (_x(3), 6)), (attention_over_the_past, (_x(3), _x(3, 3), 4)), (iterated, (_x(5, 2), 5)),
    (unpacked, (_x(4), 3)), (unpacked, (_x(4), 2)), (unpacked, (_x(4), 4)), (out_of_range, (_x(4), 3)),
    (out_of_range, (_x(4), 7)), (before_the_start, (_x(4), 3)), (before_the_start, (_x(4), 4)), (truth, (_x(2), 0)),
    (truth, (_x(2), 2)), (replaced, (_x(4), 5)), (set_out_of_range, (_x(4), 4)), (set_out_of_range, (_x(4), 6)),
    (stack_machine, (_x(11), 11)), (stack_machine, (_x(11, 3), 11)), (queue, (_x(4), 6)),
    (popped_too_often, (_x(4), 3)), (popped_too_often, (_x(4), 5)), (pop_out_of_range, (_x(4), 3)),
    (pop_out_of_range, (_x(4), 4)), (inserted, (_x(4), 3)), (slices, (_x(4), 6)), (reversed_and_joined, (_x(3), 4)),
    (two_names, (_x(4), 3)), (through_a_call, (_x(3), 4)), (emptied_and_filled, (_x(10, 2), 10)),
    (sliding_window, (_x(7, 2), 7)), (positions, (_x(7), 7)), (positions, (-_x(7).abs(), 7)), (floats, (_x(5), 5)),
    (mixed_numbers, (_x(3), 5)), (mixed_numbers, (_x(3), 2)), (flags, (_x(5), 5)), (found, (_x(3), 5)),
    (not_found, (_x(3), 5)), (sieve, (60,)), (collatz, (27,)), (collatz, (1,)), (printed, (_x(3), 3)),
    (comprehensions, (_x(5, 2), 5)), (filtered, (_x(3), 2)), (summed, (_x(3), 4)),
    (long_static_comprehension, (_x(3),)), (tuples, (_x(5, 2), 5)), (named, (_x(3), 4)), (beam, (_x(4, 3), 2)),
    (tree, (_x(4, 3), _x(3, 3), torch.tensor([0, 0, 1, 0, 0, 1, 1]))),
    (tree, (_x(4, 3), _x(3, 3), torch.tensor([0, 1]))), (depth_first, (_x(9, 2), 9)),
    (returned, (_x(3), 4)), (returned, (_x(3), 0)), (returned_structure, (_x(3), 3)), (returned_ragged, (_x(6), 5)),
    (returned_optional, (_x(3), 4)), (untouched, (_x(3), _x(3), 2)), (untouched, (_x(3), _x(3), 6)),
    (rebound, (_x(3), 4)), (breadth_first, (_x(3), 10)), (swapped, (_x(3), 5)), (by_a_closure, (_x(3), 4)),
    (in_a_dict, (_x(3), 5)), (made_by_a_call, (_x(3), 4)), (returned_early, (_x(3), 2)), (returned_early, (_x(3), 7)),
    (tensors_of_numbers, (_x(4), 4)), (growing_items, (_x(3), 3)), (printed_whole, (_x(2), 3)),
    (printed_whole, (_x(2), 0)),
]
