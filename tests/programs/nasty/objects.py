"""Classes: properties, descriptors, slots, operators, enums, dataclasses, named tuples, and objects that are shared."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import NamedTuple

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


class Box:
    kind = "box"
    made = 0

    def __init__(self, x, n=0):
        self.x, self.n = x, n

    @property
    def doubled(self):
        return self.x * 2

    @doubled.setter
    def doubled(self, value):
        self.x = value / 2
        self.n += 1

    @classmethod
    def empty(cls):
        return cls(torch.zeros(2), 7)

    @staticmethod
    def half(x):
        return x / 2


class Child(Box):
    kind = "child"

    @property
    def doubled(self):
        return super().doubled + self.n


class Slotted:
    __slots__ = ("count", "x")

    def __init__(self, x):
        self.x, self.count = x, 0


class Lazy:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        if name.startswith("get_"):
            return getattr(self, name[4:]) * 10
        raise AttributeError(f"no {name}")


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return getattr(obj, self.name)

    def __set__(self, obj, value):
        setattr(obj, self.name, abs(value))


class Checked:
    size = Positive()

    def __init__(self, size):
        self.size = size


class Vec:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __iadd__(self, other):
        self.x += other.x
        return self

    def __eq__(self, other):
        return self.x == other.x and self.y == other.y

    def __lt__(self, other):
        return self.x < other.x

    def __hash__(self):
        return 1

    def __neg__(self):
        return Vec(-self.x, -self.y)

    def __len__(self):
        return 2

    def __getitem__(self, k):
        return (self.x, self.y)[k]

    def __contains__(self, value):
        return value == self.x or value == self.y

    def __iter__(self):
        yield self.x
        yield self.y

    def __call__(self, k=1):
        return self.x * k

    def __bool__(self):
        return self.x != 0


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2

    def apply(self, x):
        return x.sum() if self is Mode.SUM else x.mean()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@dataclass
class Config:
    rate: float = 0.5
    steps: int = 2
    log: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    a: float
    b: float = 2.0


class Pair(NamedTuple):
    first: torch.Tensor
    second: int = 3

    def swapped(self):
        return Pair(self.first * self.second, 1)


Point = namedtuple("Point", "x y")


@nasty(lambda: (Box(v(1, 2)),), lambda: (Box(v(1, 2, 3), 4),))
def property_and_setter(b):
    """A property's value is kept from its first reading."""
    first = b.doubled
    b.x = b.x + 1
    second = b.doubled
    b.doubled = second * 4
    return first, second, b.n


@nasty(lambda: (Child(v(1, 2), 3),), lambda: (Box(v(1, 2), 3),), lambda: (Child(v(1, 2), 4),))
def overridden_property(b):
    """super() in a property, and the class that changes from call to call."""
    return b.doubled, b.kind, isinstance(b, Child)


@nasty(lambda: (2,), lambda: (3,))
def class_and_static_methods(n: int):
    """cls is the class that the method is called on."""
    a, b = Box.empty(), Child.empty()
    a.n += n
    return a.doubled + b.doubled, Box.half(a.x), type(b) is Child, a.n


@nasty(lambda: (Slotted(v(1, 2)),), lambda: (Slotted(v(3)),))
def slots(s):
    """Objects without a __dict__."""
    s.count += 1
    s.x = s.x * s.count
    return s.x, s


@nasty(lambda: (1.0, 2.0), lambda: (3.0, -1.0))
def operators(a: float, b: float):
    """Reflected and in-place operators, comparison, truth, iteration of an own class."""
    u, w = Vec(a, b), Vec(b, a)
    alias = u
    u += w
    x, y = 2 * -u
    return alias is u, x, y, u == w, w < u, len(u), u[1], a in w, u(3), bool(u), sum([u, w]).x


@nasty(lambda: (0.0,), lambda: (2.0,))
def truth_of_an_object(a: float):
    """An object with __bool__ in `if`, `and`, `or`, `not`."""
    u = Vec(a, 1.0)
    t = u or Vec(9.0, 9.0)
    return t.x, not u, bool(u and t), "yes" if u else "no"


@nasty(lambda: (v(1, 2), Mode.SUM), lambda: (v(1, 2), Mode.MEAN), lambda: (v(1, 2, 3), Mode.SUM))
def enum_argument(x, mode):
    """An enum's member is part of what a call is compiled for."""
    print(mode, mode.name, mode.value)
    return mode.apply(x), mode is Mode.SUM, {Mode.SUM: 1, Mode.MEAN: 2}[mode]


@nasty(lambda: (Config(), v(1, 2)), lambda: (Config(0.1, 4, ["a"]), v(1)))
def dataclass_default_factory(c, x):
    """Two objects share the list that a default factory makes."""
    d = Config(rate=c.rate * 2)
    d.log.append("new")
    c.log.append("old")
    for _ in range(c.steps):
        x = x * d.rate
    return x, d, replace(c, steps=9).steps


@nasty(lambda: (1.0,), lambda: (5.0,))
def frozen_dataclass(a: float):
    """Equality of dataclasses is that of their fields; one that is frozen cannot be set."""
    f, g = Frozen(a), Frozen(1.0)
    return f == g, f.b, replace(f, b=a).b


@nasty(lambda: (Pair(v(1, 2)),), lambda: (Pair(v(1, 2), 5),))
def named_tuple_methods(p):
    """Defaults, methods, unpacking and identity of a named tuple's items."""
    first, n = p
    q = p.swapped()
    return q, first is p[0], p._replace(second=n + 1), q.second


@nasty(lambda: (lambda b: (b, b))(Box(v(1, 2))), lambda: (Box(v(1, 2)), Box(v(1, 2))))
def object_twice(a, b):
    """Two arguments are one object."""
    a.x = a.x + 1
    b.n += 1
    return a.n, b.x, a is b


@nasty(lambda: (Box(v(1, 2)), True), lambda: (Box(v(1, 2)), False))
def object_chosen_and_written(a, c: bool):
    """The attribute of one of two objects is stored in the other."""
    b = Box(a.x, 5)
    t = a if c else b
    t.n = t.n + 10
    t.x = t.x * 2
    return a.n, b.n, t


@nasty(lambda: (Box(v(1, 2)),), lambda: (Box(v(1, 2, 3)),))
def attribute_is_shared_memory(b):
    """A tensor that two attributes name is one tensor."""
    b.y = b.x
    b.x.add_(1)
    b.x = b.x + 1
    b.y.mul_(2)
    return b.y


@nasty(lambda: (3,), lambda: (5,))
def linked_list(n: int):
    """Objects that refer to objects, made by a loop that is unrolled."""
    head = None
    for k in (1, 2, 3):
        head = Box(head, k * n)
    total, node = 0, head
    while node is not None:
        total, node = total * 10 + node.n, node.x
    return total


@nasty(lambda: (Box(v(1, 2)),), lambda: (Box(v(3, 4), 2),))
def bound_method_kept(b):
    """A bound method that was taken before its object changed sees the change."""
    f = b.half
    g = Vec(1.0, b.n).__add__
    b.n += 5
    return f(b.x), g(Vec(2.0, b.n)).y


@nasty(lambda: (Box(v(1, 2)),), lambda: (Box(v(1, 2, 3)),))
def deleted_and_dynamic_attributes(b):
    """setattr, getattr with computed names."""
    for name in ("a", "b"):
        setattr(b, "w_" + name, b.x * len(name))
    return getattr(b, "w_a") + b.w_b, hasattr(b, "w_c")


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 3))
def instance_shadows_the_class(x, n: int):
    """An attribute of the instance shadows that of the class, which stays as it is."""
    a, b = Box(x), Box(x)
    a.made = a.made + n
    return a.made, b.made, Box.made, a.kind


@nasty(lambda: (Checked(-3.0), 2.0), lambda: (Checked(1.0), -4.0))
def descriptor(c, s: float):
    """A data descriptor's __set__ is bypassed, of an argument and of an object made here."""
    before = c.size
    c.size = -s * 2
    d = Checked(s)
    d.size = -s
    return before, c.size, d.size, d


@nasty(lambda: (Level.LOW, 2), lambda: (Level.HIGH, 2))
def int_enum(level, n: int):
    """An IntEnum is an int in arithmetic and comparison."""
    return level + n, level > n, level == 3, int(level) * 2


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __get__(self, obj, owner=None):
        return obj.raw * self.factor

    def __set__(self, obj, value):
        obj.raw = value / self.factor


scaled = Scaled(2.0)


class Measured:
    length = scaled


@nasty(lambda: (Measured(), 2.0, 3.0), lambda: (Measured(), 5.0, -1.0))
def descriptor_with_state(m, factor: float, s: float):
    """What a descriptor itself holds is compiled in."""
    scaled.factor = 2.0
    m.length = s
    before = m.length
    scaled.factor = factor
    return before, m.length, m.raw


class Watched:
    """A property with a deleter, an attribute of the class, and an answer to every other name."""

    scale = 3

    def __init__(self, value):
        self.value = value
        self.log = []

    @property
    def level(self):
        return len(self.log)

    @level.deleter
    def level(self):
        self.log.append("deleted")

    @property
    def fixed(self):
        return 4

    def __getattr__(self, name):
        return len(name)


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0))
def deleters_run(x, n: int):
    """`del` of a property calls its deleter; without one it is an error, as for what only the class has."""
    w, errors = Watched(x * n), []
    del w.level
    try:
        del w.fixed
    except AttributeError as e:
        errors.append(str(e))
    try:
        del w.scale
    except AttributeError:
        errors.append("the class's")
    return w.level, errors, w.scale


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0), lambda: (v(1, 2).requires_grad_(), 1))
def own_or_inherited(x, n: int):
    """An attribute that one branch gives the object, and else its class or `__getattr__` answers for."""
    w, v = Watched(x), Watched(x)
    if n > 0:
        w.scale = 9
        w.other = n
    for k in range(n):
        v.scale = v.scale + k
    v.scale += 1
    if n > 1:
        del v.scale
    return w.value * w.scale, w.other, v.scale, Watched.scale


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 0))
def empty_slots(x, n: int):
    """A slot that holds nothing is no attribute."""
    s = Slotted(x)
    del s.x
    before = hasattr(s, "x")
    s.x = x * n
    del s.count
    return before, hasattr(s, "x"), hasattr(s, "count"), getattr(s, "count", n), s.x


class Counted:
    count = 3
    cache = None

    def __init__(self, x):
        self.x = x


@dataclass(frozen=True)
class Fixed:
    a: int = 1


@nasty(lambda: (Counted(v(1, 2)), 2), lambda: (Counted(v(1, 2)), 0), lambda: (Counted(v(1, 2).requires_grad_()), 1))
def outside_own_or_inherited(a, n: int):
    """What only one branch assigns to the caller's object is copied from its class on the other, or an error there."""
    if n > 0:
        a.count = a.count + n
        a.fresh = a.x * n
    for k in range(n):
        a.cache = a.x * k if a.cache is None else a.cache + 1
    return a.count, Counted.count, a.cache is None, a.fresh if n > 0 else a.x


@nasty(lambda: (Counted(v(1, 2)), 0), lambda: (Counted(v(1, 2)), 2))
def outside_unassigned(a, n: int):
    """An attribute that no branch of this run assigned."""
    if n > 0:
        a.fresh = n
    return a.fresh


@nasty(lambda: (Fixed(), 1), lambda: (Fixed(4), 0))
def frozen_outside(p, n: int):
    """A frozen dataclass of the caller's raises where it is assigned to, not when the call ends."""
    try:
        p.a = n
    except FrozenInstanceError as e:
        return str(e), p.a
    return p.a


class Link:
    def __init__(self, x, n, next=None):
        self.x, self.n, self.next = x, n, next


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def a_chain_returned(x, n: int):
    """The last link has no next one."""
    last = None
    for k in range(n):
        last = Link(x * k, k, last)
    return last


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 1))
def an_object_that_holds_itself(x, n: int):
    """The copy that a branch or a loop makes of it would have no end."""
    one, other = Link(x, 0), Link(x * 2, 1)
    one.next = one
    for k in range(n):
        one.n += k
        if k > 1:
            other.next = other
    return one, one.next.next.n, other


@nasty(lambda: (3,), lambda: (1,))
def a_list_that_holds_itself(n: int):
    """So would the one that the result is."""
    ys = []
    ys.append(ys)
    ys[0].append(ys)
    if n > 2:
        n = len(ys[0][1])
    return ys, n


@nasty(lambda: (3,), lambda: (1,))
def texts_of_what_holds_itself(n: int):
    """Dots stand for what is being shown."""
    d, c, t = {1: n}, Config(n), ([n],)
    d[2] = [d, n]
    t[0].append(t)
    c.log = [c]
    print(d, t, c)
    return f"{d}", n


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def an_outer_loop_walks_on(x, n: int):
    """The inner loop's variable is None or what the outer one is at, another object in each of its iterations."""
    at = Link(x, [0], Link(x * 2, [1]))
    seen = Link(x * 3, [2]) if n > 1 else None
    for _ in range(n):
        for _ in range(n):
            seen = at
        at = at.next
    return seen.x * 2, seen.n


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def made_anew_in_a_loop_in_a_loop(x, n: int):
    """What refers to itself is another object after some iterations: what one of them holds is one of them again."""
    link, k = Link(x, 1), 0
    link.next = None
    for _ in range(n):
        k = 0
        while k < n:
            k += 1
            link = Link(x + link.x, k)
        link.next = link
    return link.x, link.n, n > 0 and link.next is link
