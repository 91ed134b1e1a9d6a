"""Objects: methods of every kind, inheritance, dunders, named tuples, dataclasses, enums, containers, calls."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict
from typing import Any, NamedTuple

import jitgrad as torch
from jitgrad import nn
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


class Base:
    scale = 2.0
    count = 3

    def __init__(self, w):
        self.w = w

    def apply(self, x):
        return x * self.w

    @property
    def doubled(self):
        return self.w * 2

    @classmethod
    def factor(cls, x):
        return x * cls.count

    @staticmethod
    def shifted(x, by=1):
        return x + by

    def template(self, x):
        return self.apply(x) + 1


class Derived(Base):
    count = 5

    def apply(self, x):
        return super().apply(x) - 1

    @property
    def doubled(self):
        return super().doubled + 1

    @classmethod
    def factor(cls, x):
        return super().factor(x) + 1


class Old(Base):
    def apply(self, x):
        return super(Old, self).apply(x) * 10


class Vec:
    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __add__(self, other):
        return self.a + other.a, self.b + other.b

    def __mul__(self, k):
        return self.a * k

    def __rmul__(self, k):
        return self.b * k

    def __neg__(self):
        return -self.a

    def __call__(self, x):
        return self.a * x + self.b

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.a if i == 0 else self.b

    def __iter__(self):
        return iter((self.a, self.b))

    def __contains__(self, k):
        return k == "a"

    def __eq__(self, other):
        return self.a is other.a

    def __lt__(self, other):
        return bool((self.a < other.a).all())

    def __matmul__(self, other):
        return (self.a * other.a).sum()

    def __bool__(self):
        return True

    __hash__ = None


@program((Base(t(3)), t(3)), (Derived(t(3)), t(3)), (Old(t(3)), t(3)), compilations=3)
def methods(obj, x):
    return (obj.apply(x), obj.doubled, obj.factor(x), obj.shifted(x, by=2), obj.template(x), obj.scale * x,
            type(obj).count, isinstance(obj, Base), type(obj) is Base, obj.__class__.__name__)


@program((Vec(t(3), t(3, seed=1)), Vec(t(3, seed=2), t(3)), t(3)))
def dunders(u, v, x):
    a, b = u + v
    c, d = u
    s = 0
    for part in u:
        s = s + part
    return (a, b, u * 2, 2 * u, -u, u(x), len(u), u[0], u[1], s, "a" in u, "b" in u, u == u, u == v, u < v, u @ v,
            x if u else -x, c, d, u != v)


class State(NamedTuple):
    h: Any
    c: Any
    step: int = 0


@program((State(t(3), t(3, seed=1)), t(3)))
def named_tuples(state, x):
    h = torch.tanh(state.h + x)
    new = State(h, state.c * 0.5, state.step + 1)
    again = new._replace(c=new.c + 1)
    a, b, n = again
    return again, a + b, n, new[0], len(new), new.step, new._fields, state._asdict()["h"]


@program((State(t(3), t(3, seed=1)), 4), (State(t(3), t(3, seed=1)), 0))
def named_tuple_in_loop(state, n: int):
    for _ in range(n):
        state = State(torch.tanh(state.h), state.c + state.h, state.step + 1)
    return state


@dataclasses.dataclass
class Config:
    width: int
    rate: float = 0.5
    name: str = "plain"
    weights: Any = None

    def scaled(self, x):
        return x * self.rate


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any

    def norm(self):
        return (self.x * self.x + self.y * self.y).sum()

    def moved(self, by):
        return Point(self.x + by, self.y)


@program((Config(3, 0.25, weights=t(3)), t(3)), (Config(3, 0.75, weights=t(3)), t(3)), compilations=None)
def dataclass_argument(config, x):
    return config.scaled(x) * config.width + config.weights


@program((t(3), 2.0), (t(3), -2.0))
def dataclass_made(x, k: float):
    p = Point(x, x * k)
    q = p.moved(1.0)
    c = Config(2, k)
    c.rate = c.rate + 1
    c.weights = x
    return p.norm() + q.norm(), c.scaled(x) + c.weights, c.width, isinstance(c, Config)


@program((t(3), 2.0), (t(3), -2.0))
def dataclass_returned(x, k: float):
    return Point(x * k, Config(2, k, weights=x))


@program((t(3), 3), (t(3), 0))
def dataclass_in_loop(x, n: int):
    p = Point(x, x * 0)
    for _ in range(n):
        p = Point(p.x * 0.5, p.y + p.x)
    return p.x, p.y


@program((t(3), 3.0), (t(3), -1.0))
def dataclass_in_branch(x, c: float):
    if c > 0:
        p = Point(x, x * 2)
    else:
        p = Point(x + 1, x)
    return p.norm()


@program((t(3), 3), (t(3), 0))
def object_mutated_in_loop(x, n: int):
    p = Config(1, 0.5, weights=x)
    for _ in range(n):
        p.weights = p.weights * p.rate
        p.width += 1
    return p.weights, p.width


class Accumulator:
    def __init__(self, size):
        self.total = torch.zeros(size)
        self.count = 0
        self.seen = []

    def add(self, x):
        self.total = self.total + x
        self.count += 1
        self.seen.append(x)
        return self

    @property
    def mean(self):
        return self.total / self.count


@program((t(3),))
def object_made(x):
    acc = Accumulator(3)
    acc.add(x).add(x * 2)
    return acc.mean, acc.count, len(acc.seen), acc.seen[1]


class Kind(enum.Enum):
    RELU = "relu"
    TANH = "tanh"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 4


@program((t(3), Kind.RELU, Level.LOW), (t(3), Kind.TANH, Level.HIGH), compilations=2)
def enums(x, kind, level):
    if kind is Kind.RELU:
        y = torch.relu(x)
    elif kind == Kind.TANH:
        y = torch.tanh(x)
    return y * level + Level.HIGH.value, kind.value, kind.name, Kind("relu") is kind


@program((t(3),))
def getattr_and_hasattr(x):
    b = nn.functional
    return getattr(b, "relu")(x), hasattr(x, "shape"), hasattr(x, "shap"), getattr(x, "nothing", 3), callable(b.relu)


class Bag:
    def __init__(self):
        self.values = {}
        self.level = 1


@program((Bag(), t(3)), grad=False)
def setattr_static(bag, x):
    setattr(bag, "level", 4)
    return x * bag.level, getattr(bag, "level")


@program((t(3), 2.0), (t(3), -2.0))
def type_tests(x, k: float):
    return (isinstance(x, torch.Tensor), isinstance(k, float), isinstance(k, (int, str)), type(k) is float,
            type(x) is torch.Tensor, issubclass(bool, int), isinstance([x], list), isinstance((x,), tuple),
            isinstance({"a": x}, dict), isinstance(None, type(None)), type(k).__name__, isinstance(k, int | float))


# --- dicts and lists -----------------------------------------------------------------------------------------------


@program((t(3),))
def dict_methods(x):
    d = {"a": x, "b": x * 2}
    e = dict(d, c=x + 1)
    f = d | {"a": x * 9, "z": 1}
    d.setdefault("q", x - 1)
    g = d.setdefault("a", x * 100)
    p = e.pop("a")
    q = e.pop("nothing", 7)
    d.update(b=x * 3)
    d.update({"r": 1})
    f |= {"y": 2}
    h = dict(zip(("u", "v"), (x, 2)))
    last = f.popitem()
    keys = list(d.keys()), sorted(e), tuple(d), len(d), "a" in d, "a" not in e
    got = d.get("nope"), d.get("b"), d.get("nope", x)
    i = dict.fromkeys(("m", "n"), 0)
    empty = {}
    empty["k"] = x
    d.clear()
    return d, e, f, g, p, q, h, keys, got, last, i, empty, {**e, "w": 1}, (1 if empty else 2)


@program((t(4), 4), (t(6), 5), (t(5), 2))
def lists_of_run_time_length(x, n: int):
    counts = [0] * n
    for i in range(10):
        counts[i % n] += 1
    firsts = list(x * 2)
    firsts.extend(x[1:])
    firsts += x[:n] * 3
    total = 0
    while len(firsts) > 1:
        total = total + firsts.pop() * firsts.pop(0)
    known = [1, 2] * n, n * [0.5], list(range(n)), sum(range(0, n, 2)), 3 in range(n), n in range(5, 0, -2)
    return counts, total, known, [0] * (n - 9), min(range(n), key=lambda i: float(x[i]))


@program((t(4), 4), (t(6), 5), (t(5), 2))
def sorted_at_run_time(x, n: int):
    order = sorted(range(len(x)), key=lambda i: float(x[i]))
    xs = [(i * 7) % 5 for i in range(n)]
    xs.sort(reverse=True)
    beams = [(x[0] * 0, x[:1])]
    for step in range(n):
        grown = []
        for score, path in beams:
            for k in range(3):
                grown.append((score + x[k] * (step + 1), torch.cat([path, x[k:k + 1]])))
        beams = sorted(grown, key=lambda b: b[0], reverse=True)[:2]
    ties = sorted([(n, 0), (2, 1), (n, 2), (1, 3)], key=lambda p: -p[0])
    least = min([v * 2 for v in x], key=lambda v: (v - 1).abs())
    return order, xs, beams[0][0], beams[0][1], ties, least, max([i for i in xs if i > 3], default=-1)


@program((t(4), 4), (t(6), 0))
def largest_of_a_list_of_run_time_length(x, n: int):
    return max([i for i in range(n)]), min((i for i in range(n)), key=lambda i: -i)


@program((t(3),))
def list_methods(x):
    a = [x, x * 2]
    a.append(x * 3)
    a.extend([x * 4])
    a += (x * 5,)
    a.insert(1, x - 1)
    p = a.pop()
    q = a.pop(0)
    b = a[1:] + [x]
    c = [0] * 3
    c[1] = 5
    c[0:1] = [7, 8]
    d = [3, 1, 2]
    d.sort()
    e = sorted(d, reverse=True)
    f = sorted(("bb", "a"), key=len)
    d.reverse()
    g = d.index(2), d.count(1), 3 in d, d == [3, 2, 1], d != [1], [1, 2] < [1, 3]
    h = d.copy()
    h.remove(3)
    k = list(reversed(h)), [*d, *h], a[::-1][0], 2 * [1]
    return a, b, c, d, e, f, g, h, k, p, q


@program((t(3), [t(3), t(3, seed=1)]), (t(3), [t(3), t(3, seed=1)]))
def append_to_argument(x, out):
    out.append(x * 2)
    out[0] = x
    return len(out)


@program((t(3), [t(3)], {"a": t(3)}, 0), (t(3), [t(3)], {"a": t(3)}, 3), (t(3), [t(3)], {"a": t(3)}, 9))
def changes_before_a_raise(x, out, cache, n):
    out.append(x * 2)
    for i in range(4):
        cache["a"] = cache["a"] + i
        if i == n:
            raise ValueError("in the loop", i)
        out[0] = x * i
    cache["k"] = x * n
    if n > 5:
        raise KeyError("after it")
    out.append(x)


@program((t(3), {"a": t(3)}), (t(3), {"a": t(3)}))
def write_argument_dict(x, cache):
    cache["k"] = x * 2
    cache["a"] = cache["a"] + 1
    return x + cache["k"], len(cache)


class Recorder:
    def __init__(self):
        self.history = []
        self.cache = {}
        self.best = None
        self.calls = 0

    def record(self, value):
        self.calls += 1
        self.history.append(value)


@program((Recorder(), t(3)), grad=False, compilations=2)
def history_of_attribute(recorder, x):
    loss = (x * x).sum()
    recorder.record(loss)
    recorder.record(2.5)
    recorder.cache["last"] = loss
    if recorder.best is None:
        recorder.best = loss
    return loss, len(recorder.history)


# --- functions -----------------------------------------------------------------------------------------------------


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        result = fn(*args, **kwargs)
        return result * 2
    return wrapper


def repeated(times):
    def decorate(fn):
        def wrapper(x):
            for _ in range(times):
                x = fn(x)
            return x
        return wrapper
    return decorate


@logged
def decorated(x, k=3):
    return x * k


@repeated(3)
def halved(x):
    return x / 2


def defaults(a, /, b, c=3, *rest, d, e=5, **more):
    return a + b * c + sum(rest) + d * e + more.get("f", 0)


@program((t(3), 2.0), (t(3), 1.5))
def calls(x, k: float):
    args = (x, 2)
    named = {"d": 4, "f": 6}
    part = functools.partial(defaults, x, d=1)
    twice = functools.reduce(lambda a, b: a + b, [x, x * 2, x * 3])
    return (decorated(x), decorated(x, k=k), halved(x), defaults(*args, **named), defaults(x, 1, 2, 7, 8, d=k),
            part(2, e=k), (lambda y, s=2: y * s)(x), twice, list(map(lambda v: v + 1, (1, 2))),
            list(filter(lambda v: v > 1, (1, 2, 3))), list(map(lambda a, b: a * b, (x, x), (1, 2))))


@program((t(3),))
def local_decorator(x):
    def twice(f):
        def g(y):
            return f(f(y))
        return g

    @twice
    def plus(y):
        return y + 1

    return plus(x)


@program((t(3), 4), (t(3), 1))
def recursive_nested(x, n: int):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    def tree(node):
        if isinstance(node, tuple):
            return tree(node[0]) * 2 + tree(node[1])
        return x * node

    return x * fact(5) + tree(((1, 2), (3, (4, 5)))) + n


def depth_sum(node):
    if isinstance(node, tuple):
        left, right = node
        return torch.tanh(depth_sum(left) + depth_sum(right))
    return node * 2


@program(((t(3), (t(3, seed=1), t(3, seed=2))),))
def tree_recursion(tree):
    return depth_sum(tree)


class TreeNode:
    def __init__(self, value, children=()):
        self.value = value
        self.children = children


def tree_total(node):
    total = node.value
    for child in node.children:
        total = total + tree_total(child)
    return total


@program((TreeNode(t(2), [TreeNode(t(2, seed=1)), TreeNode(t(2, seed=2), [TreeNode(t(2, seed=3))])]),))
def object_tree(root):
    return tree_total(root)


@program((t(3), 1.0), (t(3), -1.0))
def function_values(x, c: float):
    f = torch.tanh if c > 0 else torch.relu
    table = {"a": torch.sin, "b": lambda v: v * 3}
    return f(x) + table["a"](x) + table["b"](x)


class Total:
    def __init__(self, v):
        self.v = v

    def __iadd__(self, other):
        self.v = self.v + other
        return self

    def __add__(self, other):
        return NotImplemented


@program((t(2), 3), (t(2), 0))
def changed_by_an_operator(x, n):
    total = Total(x.sum())
    same = total
    for k in range(n):
        total += k
    total += x
    return same.v, total is same


@program((t(2), 3))
def keywords_that_are_none(x, n):
    def scaled(x, **named):
        return x * len(named)

    y = scaled(x, **{"a": n})
    return scaled(y, **{1: n})


class Row(list):
    """Of a class of its own: known by itself."""


@program((t(2, 3), torch.Size([3, 2])), (t(2, 3), torch.Size([6, 1])), (t(2, 3), torch.Size([1, 6])), compilations=None)
def given_a_size(x, size):
    return x.reshape(size), size.numel(), size[0]


@program((OrderedDict(a=2.0), Row([3.0])), (OrderedDict(a=5.0), Row([7.0])), compilations=None, grad=False)
def given_containers_of_other_classes(d, row):
    return d["a"] * 2, row[0] * 3


test_programs = suite(PROGRAMS)


def bump(k, acc=[0], *, seen={"n": 0}):  # noqa: B006
    acc[0] += k
    acc.append(k)
    seen["n"] += 1
    return acc[0], len(acc), seen["n"]


def test_defaults_that_are_lists_and_dicts_are_shared_by_all_calls():
    def f(x, k: int):
        return x * bump(k)[0], bump(k)[1:]

    found = []
    for run in (f, torch.script(f)):
        bump.__defaults__[0][:], bump.__kwdefaults__["seen"]["n"] = [0], 0
        found.append([(y.tolist(), rest) for y, rest in (run(torch.ones(1), k) for k in (2, 3, 4))])
        found[-1].append((list(bump.__defaults__[0]), bump.__kwdefaults__["seen"]["n"]))
    assert found[0] == found[1]
