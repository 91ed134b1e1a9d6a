"""Objects: properties, operators, descriptors, inheritance, dataclasses, enums, attributes that come and go."""

import dataclasses
import enum

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 3))


class Vector:
    """Operators of its own."""

    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return Vector(self.x + (other.x if isinstance(other, Vector) else other))

    def __radd__(self, other):
        return Vector(other + self.x * 10)

    def __mul__(self, k):
        return Vector(self.x * k)

    def __matmul__(self, other):
        return (self.x * other.x).sum()

    def __neg__(self):
        return Vector(-self.x)

    def __eq__(self, other):
        return isinstance(other, Vector) and bool((self.x == other.x).all())

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, k):
        return self.x[k] * 2

    def __setitem__(self, k, v):
        self.x[k] = v

    def __contains__(self, k):
        return k == 7

    def __call__(self, y, scale=1):
        return self.x * y * scale

    def __bool__(self):
        return False

    def __iter__(self):
        return iter([self.x, self.x + 1])

    def __str__(self):
        return f"<{len(self)}>"

    def __iadd__(self, other):
        self.x = self.x + other
        return self


class Account:
    """A property with a setter, a class method, a static method, a counter of the class."""

    rate = 2

    def __init__(self, value):
        self._value = value
        self.log = []

    @property
    def value(self):
        self.log.append("get")
        return self._value

    @value.setter
    def value(self, new):
        self.log.append("set")
        self._value = new

    @classmethod
    def of(cls, x):
        return cls(x * cls.rate)

    @staticmethod
    def twice(x):
        return x * 2


class Savings(Account):
    """What it inherits it extends."""

    rate = 3

    def __init__(self, value, bonus):
        super().__init__(value)
        self.bonus = bonus

    @property
    def value(self):
        return super().value + self.bonus


class Dynamic:
    """Attributes that are not there."""

    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        if name.startswith("x_"):
            return self.x * int(name[2:])
        raise AttributeError(name)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class State:
    x: torch.Tensor
    step: int = 0
    history: list = dataclasses.field(default_factory=list)

    def advance(self, k):
        self.history.append(k)
        return dataclasses.replace(self, x=self.x + k, step=self.step + 1)


@dataclasses.dataclass(frozen=True)
class Options:
    rate: float = 0.5
    on: bool = True


class Noted:
    """A context manager."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(f"exit {self.name} {kind is None}")
        return False


class Mixin:
    def name(self):
        return "mixin " + super().name()


class Base:
    def name(self):
        return "base"


class Both(Mixin, Base):
    pass


@program(*NS)
def operators_of_a_class(x, n):
    v = Vector(x)
    w = v + Vector(x * n) * 2
    return w.x, (1 + v).x, (-v).x, v @ w


@program(*NS)
def its_length_items_and_truth(x, n):
    v = Vector(x.clone())
    v[0] = n
    return len(v), v[1], 7 in v, n in v, "yes" if v else "no", v(2.0, scale=n)


@program(*NS)
def its_equality_and_text(x, n):
    a, b = Vector(x), Vector(x * n)
    return a == b, a != b, a == 3, str(a), f"{a}"


@program(*NS)
def it_is_iterated(x, n):
    a, b = Vector(x)
    return a, b, [v * n for v in Vector(x)]


@program(*NS)
def its_in_place_operator(x, n):
    v = Vector(x)
    w = v
    w += n
    return v.x, v is w


@program(*NS)
def properties_are_called_each_time(x, n):
    a = Account(x)
    for _ in range(2):
        a.value = a.value + n
    return a.value, a.log


@program(*NS)
def class_methods_know_their_class(x, n):
    return Account.of(x)._value, Savings.twice(n), Account(x).twice(n), Account.rate


@program(*NS)
def a_property_that_extends_another(x, n):
    s = Savings(x, n)
    return s.value, s.log, isinstance(s, Account), type(s).__name__


@program(*NS)
def attributes_made_on_demand(x, n):
    d = Dynamic(x)
    return d.x_3, hasattr(d, "x_2"), hasattr(d, "y"), getattr(d, "z", n)


@program(*NS)
def setattr_getattr_and_delattr(x, n):
    d = Dynamic(x)
    setattr(d, "y", n)
    d.w = x * 2
    del d.y
    return hasattr(d, "y"), getattr(d, "w")  # noqa: B009


@program(*NS)
def enums_are_compared_by_identity(x, n):
    c = Color.RED if n == 0 else Color.BLUE
    return c is Color.RED, c == Color.BLUE, c.name if n == 1 else "?", x


@program(*NS)
def a_dataclass_is_replaced(x, n):
    s = State(x)
    t2 = s.advance(n).advance(1)
    return s.step, t2.step, t2.x, s.history is t2.history, len(s.history)


@program(*NS)
def a_frozen_one_and_its_equality(x, n):
    a, b = Options(), Options(rate=0.5)
    return a == b, x * a.rate if a.on else x, Options(on=n > 0).on


@program(*NS)
def a_manager_is_left_in_order(x, n):
    log = []
    with Noted(log, "a") as a, Noted(log, "b"):
        log.append(a.name)
        if n == 1:
            return x * 2, log
        x = x + n
    return x, log


@program(*NS)
def the_order_of_inheritance(x, n):
    return Both().name(), issubclass(Both, Base), [c.__name__ for c in Both.__mro__[:3]], x


@program(*NS)
def methods_are_values(x, n):
    a = Account(x)
    f = a.twice
    g = Account.of
    return f(n), g(x)._value, callable(f)


@program(*NS)
def objects_in_a_list_are_changed(x, n):
    things = [Account(x), Account(x * 2)]
    for k, a in enumerate(things):
        a._value = a._value + k
    things[n % 2]._value = x * 100
    return [a._value for a in things]


@program(*NS)
def an_attribute_changes_its_type(x, n):
    a = Account(0)
    if n:
        a._value = x
    return a._value * 2


@program(*NS)
def none_until_it_is_set(x, n):
    a = Account(None)
    for k in range(n):
        a._value = x * k if a._value is None else a._value + x
    return a._value


@program(*NS)
def isinstance_of_several(x, n):
    v = (x, n, "a", None, [1])[n]
    return isinstance(v, torch.Tensor), isinstance(v, (int, str)), v is None


@program((torch.nn.Linear(3, 2), X), (torch.nn.Linear(3, 2), X * 2), compilations=None)
def a_module_is_given(m, x):
    y = m(x)
    return y, [name for name, _ in m.named_parameters()], m.training, m.weight.shape


@program((torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), X))
def modules_in_a_module(m, x):
    for layer in m:
        x = layer(x)
    return x, len(m), m[0].in_features
