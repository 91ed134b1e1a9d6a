"""What Python does between the lines: properties, descriptors, iterators by turns, decorators, texts of objects."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import operator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jitgrad as torch
from tests.programs.nasty.harness import nasty

COUNTED = 0


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    BLUE = 3

    @property
    def warm(self):
        return self is Color.RED

    def scaled(self, x):
        return x * self.value


class Scaled:
    """A descriptor."""

    def __init__(self, factor):
        self.factor = factor

    def __get__(self, obj, owner=None):
        return obj.kept * self.factor

    def __set__(self, obj, value):
        obj.kept = value + self.factor


class Holder:
    value = Scaled(3)

    def __init__(self, kept):
        self.kept = kept


class OnDemand:
    def __init__(self, x):
        self.base, self.reads = x, 0

    def __getattr__(self, name):
        if name.startswith("times"):
            return self.base * int(name[5:])
        raise AttributeError(name)

    def __getitem__(self, k):
        self.reads += 1
        return self.base[k]

    def __bool__(self):
        return False


class Watched:
    def __init__(self, x):
        self.kept, self.log = x, []

    @property
    def x(self):
        self.log.append("get")
        return self.kept

    @x.setter
    def x(self, value):
        self.log.append("set")
        self.kept = value

    @x.deleter
    def x(self):
        self.log.append("del")
        self.kept = None


class Items:
    def __init__(self, x):
        self.x, self.log = x, []

    def __getitem__(self, k):
        self.log.append(("get", k))
        return self.x[k]

    def __setitem__(self, k, value):
        self.log.append(("set", k))
        self.x[k] = value

    def __delitem__(self, k):
        self.log.append(("del", k))


@contextmanager
def doubled(log, x):
    log.append("in")
    try:
        yield x * 2
    finally:
        log.append("out")


@dataclasses.dataclass
class Part:
    x: Any
    n: int = 2
    tags: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.n *= 2


@dataclasses.dataclass(order=True, frozen=True)
class Ranked:
    a: int
    b: float = 1.0


class Pair(NamedTuple):
    x: Any
    k: int = 1

    def product(self):
        return self.x * self.k


class Base:
    scale = 2

    def run(self, x):
        return self.first(x) * self.scale

    def first(self, x):
        return x


class Left(Base):
    def first(self, x):
        return super().first(x) + 1


class Right(Base):
    def first(self, x):
        return super().first(x) * 3


class Diamond(Left, Right):
    scale = 5

    def __init__(self):
        self.calls = 0

    def run(self, x):
        self.calls += 1
        return super().run(x)


class Link:
    def __init__(self, v, following=None):
        self.v, self.following = v, following


def v(*values):
    return torch.tensor([float(k) for k in values])


TWO = (lambda: (v(1, 2, 3), 3), lambda: (v(1, 2, 3), 1))
THREE = (*TWO, lambda: (v(1, 2, 3), 0))


@nasty(*TWO)
def enum_matched(x, n: int):
    """A member found by a run-time value."""
    c = Color(n)
    match c:
        case Color.RED:
            y = x
        case Color.GREEN | Color.BLUE:
            y = c.scaled(x)
    return y, c.name, c.warm


@nasty(*TWO)
def descriptor(x, n: int):
    """Reading and assigning are calls."""
    h = Holder(x)
    h.value = x * n
    return h.value, h.kept


@nasty(*TWO)
def property_updated_in_place(x, n: int):
    """`o.x += n` calls the setter, though the tensor is the same one."""
    o = Watched(x)
    o.x += n
    y = o.x
    del o.x
    return y, o.log, o.kept


@nasty(*TWO)
def items_updated_in_place(x, n: int):
    """`o[0] += n` calls `__setitem__`, though the tensor is the same one."""
    o = Items(x)
    o[0] += n
    o[1] *= 2
    del o[5]
    return o.log, o.x


@nasty(*TWO)
def item_of_a_tuple_updated_in_place(x, n: int):
    """The tensor is changed, and then it is an error."""
    t = (x, n)
    try:
        t[0] += 1
    except TypeError as e:
        return str(e), t[0]
    return None


@nasty(*TWO)
def attributes_on_demand(x, n: int):
    """What is not there is made, what is false is an object."""
    o = OnDemand(x)
    return o.times3, o[n - 1:], o.reads, o.times2 if not o else None


@nasty(*THREE)
def returned_through_finally(x, n: int):
    """Every way out of the loop passes the same lines."""
    log = []

    def run():
        for i in range(5):
            try:
                with doubled(log, x) as y:
                    if i == n:
                        return y * i
                    if i % 2:
                        continue
                    log.append(i)
            finally:
                log.append("f")
        return x

    return run(), log


@nasty(*TWO)
def dataclasses_replaced(x, n: int):
    """`__post_init__` runs again, and the list is shared."""
    a = Part(x, n)
    b = dataclasses.replace(a, n=5)
    a.tags.append(n)
    return a, b, a.tags is b.tags, a == a, repr(Part(n)), f"{Ranked(1)}", repr(Ranked(n))


@nasty(*TWO)
def dataclasses_ordered(x, n: int):
    """Compared field by field."""
    a, b = Ranked(n), Ranked(2, 0.5)
    return a < b, a == Ranked(n), sorted([b, a])[0].a, max(a, b).b


@nasty(*TWO)
def named_tuples(x, n: int):
    """Methods, replaced fields, starred."""
    t = Pair(x, n)
    u = t._replace(k=n + 1)
    a, *rest = u
    return t.product(), u.product(), a, rest, t._fields, repr(Pair(n)), str(Pair(n, 2))


@nasty(*TWO)
def diamond(x, n: int):
    """`super()` goes along the order of the object's class."""
    d = Diamond()
    return d.run(x), d.calls, isinstance(d, Right), d.scale, Diamond.__mro__[2].__name__


@nasty(*TWO)
def arguments_of_every_kind(x, n: int):
    """Positional only, by name only, the rest."""
    def f(a, /, b, *args, c=1, **named):
        return a, b, args, c, sorted(named.items())

    t, k = (x, n, 5), {"c": n, "z": 1}
    return f(*t, **k), f(n, b=2), f(*[1, 2], *(3,), **{"q": n}, c=9)


@nasty(*TWO)
def partials(x, n: int):
    """A partial of a partial; a name given again."""
    f = functools.partial(lambda a, b, c=0: a * b + c, x, c=n)
    return f(3), functools.partial(f, 2)(), f(3, c=1)


@nasty(*TWO)
def reduced(x, n: int):
    """Of items of the run, of none, with a first value."""
    numbers = functools.reduce(lambda a, b: a * 2 + b, range(n + 2))
    return numbers, functools.reduce(operator.add, [x] * n), functools.reduce(lambda a, b: a + b, [x, x], x * 0)


@nasty(*THREE)
def reduced_to_an_error(x, n: int):
    """Nothing to begin with."""
    return functools.reduce(lambda a, b: a + b, range(n))


@nasty(*TWO)
def global_of_an_inner_function(x, n: int):
    """The inner function reads and writes the global."""
    global COUNTED
    COUNTED = 0

    def more():
        global COUNTED
        COUNTED += n
        return COUNTED

    return [more() for _ in range(3)], COUNTED


@nasty(*TWO)
def iterators_by_turns(x, n: int):
    """`zip` of one iterator with itself."""
    it = iter(range(n + 4))
    pairs = list(zip(it, it))  # noqa: B905
    return pairs, list(zip(*[iter([x, x * 2, x * 3, x * 4])] * 2)), list(zip(*[iter("abcdefg")] * 3))  # noqa: B905


@nasty(*TWO)
def what_zip_took(x, n: int):
    """The first iterator has given an item before the second has none."""
    a, b = iter(range(5)), iter(range(5))
    return list(zip(a, [1, n])), next(a), list(zip([1, n], b)), next(b)  # noqa: B905


@nasty(*TWO)
def zipped_in_a_loop(x, n: int):
    """What a loop over `zip` leaves of an iterator of run-time length."""
    it, out = iter(range(n * 2)), []
    for p, q in zip(it, [7, 8, 9]):  # noqa: B905
        out.append(p * q)
    return out, list(it)


@nasty(*TWO)
def itertools_of_many_kinds(x, n: int):
    """Python's own answers."""
    return (list(itertools.chain([1], (n,), "ab")), list(itertools.accumulate([1, 2, n])),
            list(itertools.takewhile(lambda k: k < n, [0, 1, 2, 5])), list(itertools.pairwise([1, n, 4])),
            list(itertools.zip_longest([1, 2], [n], fillvalue=0)), list(itertools.starmap(pow, [(2, n), (3, 2)])))


@nasty(*TWO)
def stop_iteration_has_a_value(x, n: int):
    """What a handler sees of it."""
    def f(k):
        if k == 0:
            raise StopIteration("end")
        return k

    try:
        return [f(i) for i in (2, 1, 0)]
    except StopIteration as e:
        return e.value


@nasty(*TWO)
def grad_modes_as_decorators(x, n: int):
    """Calls are in the mode, the definition is not."""
    w = x.detach().requires_grad_()

    @torch.no_grad()
    def f(y):
        return y * n

    @torch.no_grad
    def g(y):
        return f(y) + y

    return f(w).requires_grad, g(w).requires_grad, (w * 1).requires_grad, torch.is_grad_enabled(), f(x)


@nasty(*TWO, lambda: (v(1), 20))
def items_of_a_range(x, n: int):
    """From the end, and out of it."""
    r = range(1, 10, n)
    try:
        return r[-1], r[0], len(r), r[2], r[-2]
    except IndexError as e:
        return str(e), r[-1]


@nasty(*TWO)
def other_bases(x, n: int):
    """Numbers of the run in bases 2, 8 and 16."""
    return bin(n), oct(-n), hex(n + 250), f"{n:b}", bin(True)


@nasty(*TWO)
def ordered_dicts(x, n: int):
    """Order is part of them."""
    o = collections.OrderedDict(b=1, a=n)
    o.move_to_end("b")
    o["c"] = x
    first = o.popitem(last=False)
    o.move_to_end("c", last=False)
    return o, list(o), first, list(reversed(o)), len(o)


@nasty(*THREE)
def linked_list_of_the_run(x, n: int):
    """Objects that refer to one another."""
    head = None
    for i in range(n):
        head = Link(i, head)
    out = []
    while head is not None:
        out.append(head.v)
        head = head.following
    return out


@nasty(*TWO)
def matched_by_structure(x, n: int):
    """Mappings, sequences, guards, classes."""
    match {"kind": "box", "size": (n, 2), "extra": x}:
        case {"kind": "box", "size": (1, _)}:
            r = "one"
        case {"kind": "box", "size": (a, b), **rest} if a > b:
            r = (a, b, sorted(rest))
    match [n, [1, 2, 3]]:
        case [1, *_]:
            q = 1
        case [k, [first, *others]]:
            q = (k, first, others)
    match n:
        case int() as w if w > 2:
            pass
        case _:
            w = 0
    return r, q, w


@nasty(*TWO)
def loops_with_else(x, n: int):
    """`else`, `break` and `continue` of two loops."""
    out = []
    for i in range(4):
        for j in range(4):
            if j == n:
                break
            if (i + j) % 2:
                continue
            out.append(i * 10 + j)
        else:
            out.append("full")
            continue
        if i == 2:
            break
    else:
        out.append("all")
    return out


@nasty(*TWO)
def slices_with_steps(x, n: int):
    """Assigned to, deleted, from the end."""
    xs = list(range(10))
    a, b = xs[::2], xs[::-3]
    xs[1:4] = [n]
    xs[::3] = [0] * len(xs[::3])
    del xs[-1]
    del xs[1::2]
    return xs, a, b, x[::2], xs[n:], xs[:-n], xs[-n:]


@nasty(*TWO)
def generators_by_recursion(x, n: int):
    """`yield from` of itself."""
    def down(k):
        if k > 0:
            yield k
            yield from down(k - 1)

    return list(down(3)), [k * n for k in down(2)]


@nasty(*TWO)
def generator_closed(x, n: int):
    """Its `finally` runs where the loop is left."""
    log = []

    def counted():
        try:
            yield from range(3)
        finally:
            log.append("closed")

    for k in counted():
        log.append(k)
        if k == 1:
            break
    return log


@nasty(*TWO)
def texts_of_all_kinds(x, n: int):
    """Formats, conversions, nested ones."""
    print(f"{x}", f"{x.sum():.3f}", f"{n=}", f"{n:05d}|{n:>4}|{n:<4}|{n:^4}|{n:+}", "%s %d %5.2f" % ("a", n, 2.5))
    print([x[0].item(), n], {"k": n}, (n,), sep="-", end="!\n")
    return f"{x[0]:.1e} {1 / 3:.{n}f} {1234567:,} {0.5:%} {'a':*^{n + 3}}", "{0} {k} {0!r}".format(n, k=x[0].item())


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 0))
def lists_that_strings_give(x, n: int):
    """What a constant string is split into is a list as any other, and may be changed."""
    words, lines = "a b".split(), "p\nq".splitlines()
    same = words
    words[0] = "c"
    if n > 2:
        words.append("d")
    lines += [f"{k}" for k in range(n)]
    return same, lines, "e f".split() + words, ", ".join("g h".split()), "b" in words, len(words)
