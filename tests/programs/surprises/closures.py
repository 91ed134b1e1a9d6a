"""Functions in functions: late binding, nonlocal, defaults, decorators, partials, generators."""

import functools

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
NS = tuple((X, n) for n in (0, 1, 2, 5))


@program((X,))
def closures_of_a_loop_see_its_last_value(x):
    """All of them see the variable, not its value when they were made."""
    fs = []
    for k in range(3):
        fs.append(lambda: x * k)  # noqa: B023
    return [f() for f in fs]


@program((X,))
def defaults_keep_the_value_of_their_turn(x):
    fs = [lambda k=k: x * k for k in range(3)]
    return [f() for f in fs]


@program((X, 4), (X, 0))
def nonlocal_counts(x, n):
    count = 0

    def step(v):
        nonlocal count, x
        count += 1
        x = x + v

    for k in range(n):
        step(k)
    return count, x


@program((X,))
def a_name_is_bound_later(x):
    def f():
        return later * 2

    later = x + 1
    return f()


@program((X, 0), (X, 1))
def a_name_that_may_be_unbound(x, k):
    """Python raises when it is read, not where it is not set."""
    if k:
        y = x * 2
    try:
        return y
    except UnboundLocalError as e:
        return str(e)


@program((X,))
def inner_functions_call_each_other(x):
    def even(n):
        return x if n == 0 else odd(n - 1)

    def odd(n):
        return x * 2 if n == 0 else even(n - 1)

    return even(4), odd(4)


@program((X,))
def a_decorator_of_an_inner_function(x):
    calls = []

    def counted(f):
        @functools.wraps(f)
        def run(*args, **kwargs):
            calls.append(f.__name__)
            return f(*args, **kwargs)
        return run

    @counted
    def double(v, by=2):
        return v * by

    return double(x), double(x, by=3), calls, double.__name__


@program((X,))
def partials_of_partials(x):
    def f(a, b, c=1):
        return a * b + c

    g = functools.partial(functools.partial(f, x, c=5), 3)
    return g(), g(c=7)


@program((X, 3), (X, 5), compilations=None)
def reduce_with_a_lambda(x, n):
    return functools.reduce(lambda a, b: a * 0.5 + b, [x * k for k in range(n)], x)


@program((X,))
def star_arguments_in_every_place(x):
    def f(a, *rest, b=10, **named):
        return a, len(rest), b, sorted(named)

    xs = (1, 2)
    return f(x, *xs, 3, b=4, c=5, **{"d": 6}), f(*xs), f(a=1)


@program((X,))
def keyword_only_and_positional_only(x):
    def f(a, /, b, *, c):
        return a * b + c

    first = f(x, 2, c=1)
    try:
        f(a=x, b=2, c=1)
    except TypeError:
        first = first * 10
    return first


@program((X,))
def evaluation_order_of_arguments(x):
    seen = []

    def say(k):
        seen.append(k)
        return k

    def f(*args, **kwargs):
        return len(args) + len(kwargs)

    n = f(say(1), *[say(2), say(3)], a=say(4), **{"b": say(5)})
    m = {say(6): say(7)}[say(6)] if say(8) else 0
    return n, m, seen, x


@program((X, 3), (X, 0))
def a_generator_is_lazy(x, n):
    """Nothing of it runs before somebody asks."""
    seen = []

    def numbers():
        for k in range(n):
            seen.append(k)
            yield x * k

    g = numbers()
    before = len(seen)
    total = x * 0
    for v in g:
        total = total + v
    return before, len(seen), total


@program((X, 2), (X, 3), compilations=None)
def comprehensions_have_their_own_names(x, n):
    k = 10
    squares = [k * k for k in range(n)]
    nested = [a * b for a in range(n) for b in range(a)]
    return k, squares, nested, {k: k + 1 for k in range(n)}, x


@program((X, 1), (X, 4))
def walrus_in_a_condition(x, n):
    if (m := n * 2) > 3 and (y := x * m).sum() > -100:
        return y, m
    return x, m


@program((X,))
def lambdas_in_a_dict(x):
    table = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
    return {name: f(x, 2.0) for name, f in table.items()}


@program((X, 0), (X, 1))
def a_function_chosen_by_the_run(x, k):
    f = torch.sin if k else (lambda v: v * 2)
    return f(x) + f(x)


@program((X,))
def map_filter_zip_reversed(x):
    xs = list(map(lambda a, b: a * b, [x, x + 1], [1, 2]))
    kept = list(filter(lambda k: k % 2, range(5)))
    return xs, kept, list(zip(kept, reversed(kept))), list(enumerate("ab", 1))  # noqa: B905


@program((X,))
def sorted_by_a_key_and_stable(x):
    words = ["pear", "fig", "apple", "kiwi"]
    return sorted(words, key=len), sorted(words, key=lambda w: (-len(w), w)), max(words, key=len), x


@program((X, 3), (X, -1))
def a_while_loop_with_else(x, n):
    k = 0
    while k < 3:
        if k == n:
            break
        k += 1
    else:
        x = x * 100
    return x, k


@program((X, 2), (X, 9))
def for_else_and_continue(x, wanted):
    for k in range(5):
        if k % 2:
            continue
        if k == wanted:
            break
        x = x + 1
    else:
        k = -1
    return x, k


@program((X, 3), (X, 0))
def the_loop_variable_stays(x, n):
    k = -5
    for k in range(n):  # noqa: B007
        x = x + 1
    return k, x


@program(*NS)
def functions_of_a_comprehension_bind_late(x, n):
    fs = [((lambda: i), [i * 2 for i in range(2)]) for i in range(3)]
    return [f() for f, _ in fs], [b for _, b in fs], x * n


@program(*NS)
def generators_of_a_comprehension_bind_late(x, n):
    gs = [(v * i for v in (1, 2)) for i in range(3)]
    return [list(g) for g in gs], x * n


@program(*NS)
def defaults_of_functions_made_by_a_loop(x, n):
    fs = []
    for i in range(3):
        def f(v, *, k=i):
            return v * i + k
        fs.append(f)
    i = 100
    return [f(x) for f in fs], [f(x, k=n) for f in fs]
