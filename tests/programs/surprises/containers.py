"""Lists, dicts, sets, tuples and deques: order, growth, aliases, keys of the run."""

import collections
import itertools

from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 2, 5))
Point = collections.namedtuple("Point", "x y")


@program(*NS, compilations=None)
def a_list_that_grows_in_a_loop(x, n):
    xs = [x]
    for k in range(n):
        xs.append(xs[-1] * 0.5 + k)
    return xs, len(xs)


@program(*NS)
def insert_pop_and_remove(x, n):
    xs = [1, 2, 3, n]
    xs.insert(1, 10)
    last = xs.pop()
    xs.remove(2)
    return xs, last, xs.index(3), xs.count(10), x


@program(*NS)
def slices_are_assigned(x, n):
    xs = [0, 1, 2, 3, 4]
    xs[1:3] = [n, n, n]
    del xs[0]
    xs[-1:] = []
    return xs, x


@program(*NS)
def a_copy_is_shallow(x, n):
    rows = [[1], [2]]
    again = list(rows)
    again[0].append(n)
    again.append([3])
    return rows, again, rows[0] is again[0], x


@program(*NS)
def lists_of_lists_in_a_loop(x, n):
    rows = [[] for _ in range(3)]
    for k in range(4):
        rows[k % 3].append(k + n)
    return rows, x


@program(*NS)
def star_unpacking(x, n):
    first, *middle, last = [n, 1, 2, 3]
    (a, b), c = (n, 2), x
    return first, middle, last, a, b, c


@program(*NS)
def swapping_items(x, n):
    xs = [x, x * 2, n]
    xs[0], xs[1] = xs[1], xs[0]
    i = 0
    i, xs[i] = 2, "new"
    return xs, i


@program(*NS)
def order_of_a_dict(x, n):
    d = {"b": 1, "a": n}
    d["c"] = 3
    del d["b"]
    d["b"] = 4
    return list(d), list(d.items()), list(reversed(d)), x


@program(*NS)
def a_dict_of_counts(x, n):
    d = {}
    for k in (1, 2, 1, n):
        d[k] = d.get(k, 0) + 1
    return sorted(d.items()), x


@program(*NS)
def merged_dicts(x, n):
    a, b = {"p": 1, "q": 2}, {"q": n}
    c = {**a, **b, "r": 0}
    a |= b
    a.update(s=5)
    return c, a, a.pop("p"), a.get("nope"), x


@program(*NS)
def dict_comprehension_with_tensors(x, n):
    d = {f"k{i}": x * i for i in range(3)}
    return {name: v + n for name, v in d.items() if name != "k1"}


@program(*NS)
def a_dict_keeps_the_object(x, n):
    y = x * 2
    d = {"y": y}
    y += n
    d["y"] *= 2
    return y, d["y"] is y


@program(*NS)
def tuples_are_compared_item_by_item(x, n):
    return (1, n) < (1, 3), (n, "a") == (2, "a"), max((n, "b"), (1, "c")), x


@program(*NS)
def named_tuples(x, n):
    p = Point(x, n)
    q = p._replace(y=n + 1)
    a, b = q
    return p.x, q.y, p[1], a, b, p._fields


@program(*NS)
def a_deque_with_a_length(x, n):
    d = collections.deque(maxlen=2)
    for k in range(3):
        d.append(x + k)
    d.appendleft(x * n)
    return list(d), len(d), d[0]


@program(*NS)
def products_and_accumulations(x, n):
    return (list(itertools.product([1, 2], "ab")), list(itertools.accumulate([1, n, 3])),
            list(itertools.chain([n], [2])), x)


@program(*NS)
def dicts_by_comprehension(x, n):
    a = {k: x * k for k in range(n) if k % 2}
    b = {k % 3: k for k in range(n)}
    c = {str(k): {j: k for j in range(k)} for k in range(n)}
    s = {k % 2 for k in range(n + 2) if k != n}
    return a, b, {v: k for k, v in b.items()}, c, sorted(s), {name: n for name in "ab" if n > 1}


@program(*NS)
def what_decides_first(x, n):
    y = x * 2
    z = x if n > 2 else y
    return (n, x) == (n + 1, y), 1 in [1, x], z in [x, y], [z, n] == [z, 2], [1, y].index(1), (n, x) < (n + 1, y)


@program(*NS)
def every_second_item(x, n):
    xs, ys, zs = list(range(n)), [x * k for k in range(n)], list(range(n + 3))
    del xs[::2]
    xs[::2] = [0] * len(xs[::2])
    ys[::-1] = list(ys)
    del ys[1::3]
    zs[n:0:-1] = zs[1:n + 1]
    del zs[-1:0:-2]
    return xs, ys, zs


@program(*NS)
def without_an_end(x, n):
    def powers(k):
        while True:
            yield k
            k = k * 2

    out = [x * k for k, _ in zip(powers(1), range(n))]
    for i, k in enumerate(powers(n + 1)):
        if i > 3:
            break
        out.append(x + k)
    return out, list(itertools.islice(itertools.cycle([1, n]), 5)), next(itertools.count(n))


@program(*NS)
def enumerate_and_reversed(x, n):
    out = []
    for i, v in enumerate(reversed([x, x * 2, x * 3]), start=n):
        out.append(v * i)
    return out


@program(*NS)
def any_all_sum_sorted(x, n):
    ks = [n, 3, 1]
    return any(k > 4 for k in ks), all(ks), sum(ks), sorted(ks, reverse=True), min(ks), x


@program(*NS)
def a_list_multiplied(x, n):
    xs = [0] * 3 + [n] * 2
    xs[0] += 1
    return xs, [x] * 2, (n,) * 3


@program(*NS)
def membership_by_value_and_by_identity(x, n):
    return n in [0, 1], n not in (5, 6), None in [n, None], "a" in {"a": 1}, x


@program(*NS)
def nested_containers_are_returned(x, n):
    return {"a": [(x, n), {"b": x * 2}], "c": ()}, [[]], ({},)


@program(*NS)
def sorting_in_place_by_a_key(x, n):
    rows = [(2, "b"), (1, "a"), (n, "c")]
    rows.sort(key=lambda r: r[0])
    return rows, x


@program(*NS)
def a_stack_as_a_loop(x, n):
    stack, out = [(n, 0)], []
    while stack:
        k, depth = stack.pop()
        out.append(k)
        if k > 1 and depth < 3:
            stack.append((k // 2, depth + 1))
            stack.append((k - 1, depth + 1))
    return out, x


@program(*NS)
def strings_are_sequences(x, n):
    word = "tensor"
    return word[2:], word[::-1], "ens" in word, word.upper().replace("T", "t"), "-".join(sorted(word)), n, x


@program(*NS)
def grouped_by_setdefault(x, n):
    groups = {}
    for k in (1, 2, 3, 4):
        groups.setdefault("even" if k % 2 == 0 else "odd", []).append(k * n)
    return groups, sorted(groups), x


@program(*NS)
def parts_of_what_is_empty_at_first(x, n):
    kept, nothing = [], ()
    for k in range(n):
        start = len(kept) - k % 2
        print(len(kept[start:]), len(kept[:k]), len(nothing[k:n]))
        del kept[start:]
        kept.append(x * k)
    return kept[n - 1:], [][n:], len(nothing[:n])


@program((t(3, 2), 4), (t(2, 2), 1), compilations=None)
def rest_of_what_the_run_says(x, n):
    first, *rest = x
    *start, last = range(n)
    rest.append(first * 2)
    return first, sum(rest), start, last


@program((t(3, 2), 4), (t(1, 2), 1), compilations=None)
def dicts_of_pairs_that_the_run_counts(x, n):
    return dict(enumerate(x)), dict(zip(range(n), x)), dict(zip("ab", x)), {k: v for k, v in zip(["a", "b"], x)}


@program(*NS, compilations=None)
def words_that_the_run_chooses_are_counted(x, n):
    found, sums, seen = {}, {}, collections.defaultdict(int)
    for w in ["a", "b", "a", "c", "a"][:n + 1]:
        found[w] = found.get(w, 0) + 1
        seen[w] += n
    for k in range(n):
        w = "even" if k % 2 == 0 else "odd"
        if w in sums:
            sums[w] += x.sum() * k
        else:
            sums[w] = x.sum()
    return found, dict(seen), sums, "odd" in sums


@program(*NS)
def keys_and_names_that_the_run_chooses(x, n):
    d = {"a": x * 1, "b": x * 2}
    k = "a" if n > 1 else "b"
    d[k].add_(1)
    taken = d.pop(k)
    d[k] = d.setdefault(k, x * 3) * 2
    del d["b" if n > 0 else "a"]
    getattr(taken, "mul_" if n > 1 else "add_")(2)
    return d, taken, len(d), hasattr(x, "tanh" if n > 1 else "tan")
