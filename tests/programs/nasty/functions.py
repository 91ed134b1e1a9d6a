"""Functions: closures, defaults, generators, recursion over structure, counters outside, order of evaluation."""

from __future__ import annotations

import functools
import operator

import jitgrad as torch
from tests.programs.nasty.harness import nasty

calls = 0
history: list[int] = []
settings = {"rate": 0.5, "name": "base"}
offset = torch.tensor([10.0, 20.0])


def v(*values):
    return torch.tensor([float(k) for k in values])


def counted(x):
    global calls
    calls += 1
    return x * calls


def keyword_only(x, *, scale=2.0, shift: float = 0.0):
    return x * scale + shift


def variadic(*xs, **named):
    return sum(xs) + named.get("extra", 0), len(xs), sorted(named)


def pairs(n):
    for i in range(n):
        for j in range(i):
            yield i, j


def countdown(n):
    while n > 0:
        yield n
        n -= 1


def depth(tree):
    return 0 if not isinstance(tree, tuple) else 1 + max(depth(t) for t in tree)


def total(tree):
    if isinstance(tree, (tuple, list)):
        return sum(total(t) for t in tree)
    return tree * 2


def noisy(name, value):
    print("evaluated", name)
    return value


def twice(f):
    @functools.wraps(f)
    def inner(*args):
        return f(f(*args))

    return inner


@twice
def grown(x):
    return x + 1


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2),), lambda: (v(3),))
def global_counter(x):
    """A global that a called function counts up is compiled in."""
    a = counted(x)
    return a + counted(x), calls


@nasty(lambda: (1,), lambda: (2,), lambda: (3,))
def global_list(n: int):
    """A global list remembers the calls before."""
    history.append(n)
    return len(history), history[0], sum(history)


@nasty(lambda: (v(1, 2), 0.1), lambda: (v(1, 2), 0.2))
def global_dict(x, rate: float):
    """A global dict's value is read once."""
    y = x * settings["rate"]
    settings["rate"] = rate
    return y, settings["rate"], settings["name"]


@nasty(lambda: (v(1, 2),), lambda: (v(3, 4),))
def global_tensor_written(x):
    """A global tensor is a constant."""
    offset.add_(x)
    return offset * 2


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def late_binding(x):
    """Closures made by a loop see the loop variable's last value."""
    fs = [lambda y: y * k for k in (1, 2, 3)]
    gs = []
    for k in (1, 2, 3):
        gs.append(lambda y, k=k: y * k)
    return fs[0](x), gs[0](x), [g(x.sum()) for g in gs]


@nasty(lambda: (2,), lambda: (5,))
def nonlocal_counter(n: int):
    """A closure's variable is its own copy."""
    count = 0

    def step(by=1):
        nonlocal count
        count += by
        return count

    a = step()
    count *= 10
    return a, step(n), count


@nasty(lambda: (2.0,), lambda: (3.0,))
def closure_sees_the_rebinding(s: float):
    """A closure sees what is bound after it was made."""
    def f():
        return s * 2

    a = f()
    s = s + 1
    return a, f()


@nasty(lambda: ([5, 6, 7],), lambda: ([1, 2, 3, 4],))
def next_and_default(xs):
    """next takes one item, and the loop goes on behind it."""
    it = iter(xs)
    first = next(it)
    rest = [k * first for k in it]
    return first, rest, next((k for k in xs if k > 100), None)


@nasty(lambda: (((1.0, 2.0), 3.0),), lambda: ((((1.0, 2.0), 2.0), 3.0),), lambda: ((4.0,),))
def recursion_over_structure(tree):
    """The depth of a recursion over tuples differs from call to call."""
    return depth(tree), total(tree)


@nasty(lambda: ([v(1), [v(2, 3), (v(4),)]],), lambda: ([v(1)],))
def recursion_over_tensors(tree):
    """A tree of tensors, which differ in size."""
    def mapped(t):
        if isinstance(t, torch.Tensor):
            return t * 2
        return [mapped(u) for u in t]

    return mapped(tree)


@nasty(lambda: (0, 1), lambda: (2, 0))
def conditional_evaluation(a: int, b: int):
    """Only the chosen operand of a ternary is evaluated."""
    r = noisy("yes", 1) if a and noisy("asked", b) else noisy("no", 0)
    return r or noisy("or", 5)


@nasty(lambda: (v(1, 2), 3.0), lambda: (v(1), -1.0))
def arguments_of_every_kind(x, s: float):
    """Defaults, keywords, stars and names that only a keyword gives."""
    named = {"scale": s}
    return keyword_only(x, **named), keyword_only(x, shift=s), variadic(*[x, x], x, extra=s, b=1)


@nasty(lambda: (v(1, 2),), lambda: (v(3),))
def wrong_arguments(x):
    """The error of a call with too many arguments."""
    return keyword_only(x, 2.0)


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 5))
def partials_and_operators(x, n: int):
    """functools and operator."""
    f = functools.partial(keyword_only, scale=float(n))
    return f(x), f(x, shift=1.0), functools.reduce(operator.mul, [1, 2, n]), operator.itemgetter(1)([3, n])


@nasty(lambda: (v(1, 2),), lambda: (v(3),))
def decorated(x):
    """A decorator calls what it decorates twice."""
    return grown(x), grown.__name__, twice(lambda y: y * 3)(x)


@nasty(lambda: (v(1, 2), True), lambda: (v(1, 2), False))
def function_chosen(x, c: bool):
    """The function that is called depends on the run."""
    f = torch.sin if c else torch.cos
    g = (lambda y: y + 1) if not c else grown
    return f(x), g(x), [f, g][1](x)


@nasty(lambda: (v(3, 1), "sum"), lambda: (v(3, 1), "max"), lambda: (v(3, 1), "none"))
def dispatch_table(x, name: str):
    """A dict of functions, asked by a string."""
    table = {"sum": torch.sum, "max": lambda t: t.max() * 2}
    return table.get(name, lambda t: t.mean())(x)


@nasty(lambda: (3,), lambda: (4,))
def shadowed_names(n: int):
    """Names of builtins that the function binds."""
    sum = n * 2
    list = [sum, n]
    max = lambda *a: a[0]  # noqa: E731
    return sum, list, max(1, 9)


@nasty(lambda: (v(1, 2),), lambda: (v(5),))
def argument_rebound(x):
    """A parameter that the callee rebinds, or changes in place."""
    def rebinds(y):
        y = y * 100
        return y

    def changes(y):
        y += 1

    rebinds(x)
    changes(x)
    return x


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 4))
def same_function_other_types(x, n: int):
    """One helper is called with a tensor, an int, a float and a list."""
    def double(a):
        return a + a

    return double(x), double(n), double(0.5), double([n]), double("ab"), double((x,))[1]


@nasty(lambda: (5,), lambda: (0,))
def returns_from_everywhere(n: int):
    """None is returned where the function ends without a return."""
    def sign(k):
        if k > 0:
            return 1
        if k < 0:
            return -1

    return sign(n), sign(-n), sign(n) is None


@nasty(lambda: (4,), lambda: (6,))
def generator_in_a_loop(n: int):
    """The body of a generator runs between the iterations."""
    seen = []
    for i, j in pairs(3):
        seen.append(i * n + j)
    return seen, sum(i for i, _ in pairs(n))


@nasty(lambda: (4,), lambda: (2,))
def generator_left_early(n: int):
    """A generator that a loop leaves does not run on."""
    for k in countdown(n):
        print(k)
        if k < 3:
            return k
    return -1


@nasty(lambda: (1, 2), lambda: (3, 4))
def order_of_evaluation(a: int, b: int):
    """Keys, values, operands and arguments are evaluated from left to right."""
    d = {noisy("k", 1): noisy("v", a), noisy("k2", 2): b, **noisy("star", {5: b})}
    r = noisy("left", a) + noisy("right", b) * noisy("third", 2)
    return d, r, keyword_only(noisy("x", 1.0), shift=noisy("shift", 2.0))


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 0))
def functions_made_in_each_iteration(x, n: int):
    """A list of functions that an iteration makes and a comprehension goes over is not carried by the loop."""
    x = x * 2
    while n > 0:
        fs = []
        for k in (1, 2, 4):
            fs.append(lambda z, j=k: z * j - n)
        x = sum([g(x) for g in fs]) * 0.3
        n -= 1
    kept = [lambda: [n + x.sum() for _ in range(2)]]
    n = 7
    return x, [g()[0] for g in kept]
