"""Statements: loops and their exits, targets, exceptions, scopes. (PYTEST_DONT_REWRITE: asserts stay as written.)"""

from __future__ import annotations

import contextlib
import math

import jitgrad as torch
from jitgrad import nn
from tests.script.frontend.agree import ints, registry, suite, t

PROGRAMS, program = registry()
MODULES = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])
NAMED = nn.ModuleDict({"first": nn.Linear(3, 3), "second": nn.ReLU()})
SEQUENCE = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())


# --- loops ---------------------------------------------------------------------------------------------------------


@program((t(3), 4), (t(3), 0), (t(3), 9))
def while_else(x, n: int):
    k = 0
    while k < n:
        x = x * 1.1
        k += 1
        if k == 7:
            break
    else:
        x = x + 1
    return x, k


@program((t(3), 4), (t(3), 0), (t(3), 9))
def for_else(x, n: int):
    for k in range(n):
        if k == 5:
            x = x - 1
            break
        x = x * 0.9
    else:
        x = x + 1
    return x


@program((t(3), 6, 2), (t(3), 3, 0), (t(3), 0, 1))
def continue_and_break_in_nested_loops(x, n: int, m: int):
    for i in range(n):
        if i % 2 == m:
            continue
        for j in range(i):
            if j > m:
                break
            x = x + 0.1 * j
        else:
            x = x * 0.5
    return x


@program((t(5), 0.5), (t(5), 100.0), (t(5), -9.0))
def return_from_nested_loops(x, limit: float):
    s = x.sum() * 0
    for i in range(len(x)):
        for j in range(i + 1):
            s = s + x[i] * x[j]
            if s > limit:
                return s, i, j
    return s, -1, -1


@program((t(4), 3.0), (t(4), -30.0), (t(4), 0.0))
def return_of_constants_that_differ(x, c: float):
    for d in (1, 2, 3):
        x = x * d
        if x.sum() > c:
            return x + 1, d
    return x, 4


@program((t(4), 3.0), (t(4), -30.0), (t(4), 1.0), (t(4), 100.0))
def constants_that_loops_put_in_tuples(x, c: float):
    found = None
    for d in (1, 2, 3):
        x = x * d
        if x.sum() > c:
            found = (x, "two" if d == 2 else "other", d)
    if found is None:
        return x, "none", 0.5
    return found


@program((t(4), 1.0), (t(4), -1.0))
def exits_inside_with(x, c: float):
    for k in range(5):
        with torch.no_grad():
            y = x * 2
            if c > 0:
                break
            if k == 2:
                return x + y
        x = x * 1.5
    return x + y


def quarters(*shape, seed=0):
    """Numbers whose sums of products are exact in half precision."""
    return (t(*shape, seed=seed).detach() * 4).round() / 4


@program((quarters(2, 3), quarters(3, 3), True), (quarters(2, 3), quarters(3, 3), False))
def autocast_regions(x, w, low: bool):
    with torch.autocast("cpu", dtype=torch.float16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    with torch.autocast("cpu", dtype=torch.float16) if low else contextlib.nullcontext():
        z = z + (x @ w).float()
    return y, z


@program((t(4), 3),)
def continue_inside_with(x, n: int):
    for k in range(n):
        with torch.no_grad():
            if k == 1:
                continue
        x = x * 2
    return x


@program((3,), (0,), (7,))
def ranges(n: int):
    total = 0
    for i in range(n):
        total += i
    for i in range(1, n):
        total += 10 * i
    for i in range(n, 0, -1):
        total += 100 * i
    for i in range(10, -n, -3):
        total += 1000 * i
    for i in range(0, n, 2):
        total += 7 * i
    return total


@program((t(4, 3),), (t(2, 3),), (t(5, 3),))
def over_rows(m):
    s = torch.zeros(3)
    for row in m:
        s = s * 0.5 + row
    return s


@program((t(3),))
def over_tuple_and_list(x):
    for scale in (1.0, 2.0, 0.5):
        x = x * scale
    for f in [torch.tanh, torch.sigmoid]:
        x = f(x)
    return x


@program(({"a": t(3), "b": t(3, seed=1)},))
def over_dict_views(d):
    s = 0
    names = ""
    for k in d:
        names += k
    for k in d.keys():
        names += k
    for v in d.values():
        s = s + v
    for k, v in d.items():
        s = s + v * (2 if k == "b" else 1)
    return s, names


@program((t(4, 3), 2), (t(6, 3), 3))
def enumerate_from_start(m, start: int):
    s = torch.zeros(3)
    for i, row in enumerate(m, start):
        s = s + i * row
    for i, row in enumerate(m, start=1):
        s = s - i * row
    return s


@program((t(4, 3), t(3, 3, seed=1)), (t(2, 3), t(5, 3)))
def zip_of_unequal_lengths(a, b):
    s = torch.zeros(3)
    for x, y in zip(a, b):
        s = s + x * y
    for i, x in zip(range(3), a):
        s = s + i * x
    return s


@program((t(4, 3),), (t(6, 3),))
def reversed_rows(m):
    s = torch.zeros(3)
    for row in reversed(m):
        s = s * 0.5 + row
    for i in reversed(range(len(m))):
        s = s + i * m[i]
    for k in reversed((1, 2)):
        s = s * k
    return s


@program((t(2, 3),))
def over_modules(x):
    for layer in MODULES:
        x = layer(x)
    for i, layer in enumerate(MODULES):
        x = layer(x) * (i + 1)
    for name, layer in NAMED.items():
        x = layer(x) + len(name)
    for name in NAMED:
        x = NAMED[name](x)
    for layer in NAMED.values():
        x = layer(x)
    for layer in SEQUENCE:
        x = layer(x)
    for layer in MODULES[1:]:
        x = layer(x)
    for layer in reversed(MODULES):
        x = layer(x)
    return x + len(MODULES) + len(SEQUENCE)


@program((t(3),))
def over_string(x):
    for c in "abca":
        if c == "a":
            x = x + 1
        else:
            x = x * 2
    return x


@program((t(3),))
def over_set(x):
    for c in {1, 2, 3}:
        x = x + c
    for c in frozenset((4, 5)):
        x = x * c
    return x


def pairs(n):
    for i in range(n):
        for j in range(i):
            yield i, j


def layers_of(modules):
    for m in modules:
        if isinstance(m, nn.Linear):
            yield m
    yield torch.tanh


@program((t(3),))
def over_generator_function(x):
    for i, j in pairs(4):
        x = x + i * j
    for f in layers_of(MODULES):
        x = f(x)
    return x + sum(i for i, _ in pairs(3))


@program((t(3), 2.0), (t(3), 0.0))
def walrus_in_while(x, a: float):
    k = 0
    while (y := a * k) < 5.0 and k < 10:
        x = x + y
        k += 1
    return x, y


@program((t(3),))
def generator_expressions(x):
    s = sum(x * i for i in range(3))
    a = any(i > 2 for i in range(3)), all(i < 3 for i in range(3))
    m = max(i * i for i in (1, -3, 2)), min(abs(i) for i in (1, -3, 2))
    v = torch.stack(list(x * i for i in range(3)))
    w = torch.cat([x[i:i + 1] for i in (2, 1)])
    u = tuple(x[i] for i in range(3))
    n = "".join(c for c in "hello" if c != "l")
    d = dict((k, x * v) for k, v in (("a", 1), ("b", 2)))
    return s, a, m, v, w, u, n, d


@program((t(3),))
def comprehensions(x):
    a = [x * i + j for i in range(3) if i != 1 for j in (1, 2) if j < i + 2]
    b = {k: x * v for k, v in {"p": 1, "q": 2}.items() if v > 1}
    c = [[i * j for j in range(3)] for i in range(2)]
    e = sum({i % 2 for i in range(5)})
    return a, b, c, e


def doubled_sum(*parts):
    return sum([part * 2 for part in parts])


@program((t(3), t(3)), (-t(3), t(3)))
def comprehension_in_a_branch(x, y):
    y = y * 1
    total = x
    if x.sum() > 0:
        total = doubled_sum(x, y)
    y += 1  # the comprehension's variable, bound on one side, is gone
    return total, y


@program((t(3), 3), (t(3), 5))
def late_binding(x, n: int):
    fs = []
    for i in (1, 2, 3):
        fs.append(lambda y: y * i)
    gs = [lambda y, i=i: y * i for i in (1, 2, 3)]
    s = 0
    for f in fs:
        s = s + f(x)
    for g in gs:
        s = s + g(x)
    for i in range(n):
        s = s + i
    return s + fs[0](x)


# --- exceptions ----------------------------------------------------------------------------------------------------


@program((t(3), 1.0), (t(3), -1.0))
def try_finally(x, c: float):
    try:
        y = x * 2
        if c > 0:
            return y
    finally:
        print("done", c)
    return y + 1


@program((t(3),))
def static_except(x):
    try:
        d = {"a": 1}
        y = x * d["b"]
    except KeyError:
        y = x + 10
    try:
        y = y + 1
    except ValueError:
        y = y * 100
    else:
        y = y - 3
    finally:
        y = y * 2
    return y


@program((t(3),))
def except_attribute(x):
    try:
        y = x.no_such_thing
    except AttributeError:
        y = x
    try:
        import_error = int("three")
    except (TypeError, ValueError) as e:
        import_error = 3
        print("caught", e)
    return y * import_error


@program((t(3),), (t(5),), compilations=2)
def except_static_raise(x):
    def check(n):
        if n > 4:
            raise ValueError("too many")
        return n
    try:
        k = check(3)
        k = check(9)
    except ValueError as e:
        print(e)
        k = 2
    return x * k


@program((t(3), 1.0), (t(3), -1.0))
def raise_with_message(x, c: float):
    if c < 0:
        raise ValueError(f"negative: {c:.2f} for {x.shape[0]}")
    return x * c


@program((t(3), 1.0), (t(3), -1.0))
def raise_from(x, c: float):
    if c < 0:
        raise ValueError("negative") from KeyError("x")
    if c < -5:
        raise ValueError("more") from None
    return x * c


class ShapeError(RuntimeError):
    pass


@program((t(3), 1), (t(3), 4))
def raise_own_class(x, n: int):
    if x.shape[0] != n:
        raise ShapeError("expected {} got {}".format(n, x.shape[0]))
    return x * n


@program((t(3), 2), (t(3), -2))
def asserts(x, n: int):
    assert n > 0, "n must be positive, is %d" % n
    assert x.ndim == 1
    assert isinstance(x, torch.Tensor), "no tensor"
    return x * n


@program((t(3), 2), (t(3), -2))
def bare_assert(x, n: int):
    assert n > 0
    return x * n


@program((t(3), 1.0), (t(3), -1.0))
def reraise(x, c: float):
    try:
        if c < 0:
            raise ValueError("negative")
        y = x * c
    except ValueError:
        print("seen")
        raise
    return y


# --- names ---------------------------------------------------------------------------------------------------------


@program((t(3), True), (t(3), False))
def delete_name(x, c: bool):
    y = x * 2
    z = y + 1
    del y
    if c:
        y = x
    return z + y


@program((t(3),))
def delete_items(x):
    d = {"a": x, "b": x * 2}
    del d["a"]
    items = [x, x + 1, x + 2, x + 3]
    del items[0]
    del items[-1]
    parts = [1, 2, 3, 4]
    del parts[1:3]
    return d, items, parts


@program((t(3), 4), (t(3), 1))
def nonlocal_writes(x, n: int):
    count = 0
    total = x * 0

    def step(y):
        nonlocal count, total
        count += 1
        total = total + y * count

    for _ in range(n):
        step(x)
    step(x * 2)
    return total, count


COUNT = 0
RATE = 0.5


@program((t(3),))
def reads_globals(x):
    return x * RATE + COUNT


@program((t(3),))
def chained_and_swapped(x):
    a = b = x * 2
    a, b = b + 1, a
    (c, d), e = (a, b), 3
    [f, g] = [c, d]
    head, *middle, last = (x, x + 1, x + 2, x + 3)
    first, *rest = [1, 2, 3]
    *init, end = "abc"
    return a, b, e, f, g, head, middle, last, first, rest, init, end


class Box:
    def __init__(self, value):
        self.value = value
        self.items = [1, 2]


@program((Box(t(3)), t(3)), grad=False)
def augmented_attribute(box, x):
    box.value += x
    y = x * 1
    y[0] += 5
    y[1:] *= 2
    z = y
    z -= 1
    w = y[0:2]
    w /= 2
    return y, z, w


@program((t(2, 2), 5))
def augmented_operators(x, n: int):
    y = x * 1
    y += 1
    y -= 0.5
    y *= 2
    y /= 3
    y **= 2
    y @= x
    n += 1
    n -= 2
    n *= 3
    n //= 2
    n %= 5
    n **= 2
    n <<= 2
    n >>= 1
    n |= 8
    n &= 12
    n ^= 5
    f = 7.5
    f //= 2
    f %= 2
    b = x > 0
    b &= x < 1
    b |= x > 2
    b ^= True
    return y, n, f, b


@program((ints(1, 2, 3),))
def augmented_ints(i):
    j = i + 0
    j <<= 2
    j >>= 1
    j //= 2
    j %= 2
    return j


@program((t(3), 1), (t(3), 2), (t(3), 7))
def match_numbers(x, n: int):
    match n:
        case 1:
            return x
        case 2 | 3:
            return x * 2
        case k if k > 5:
            return x * k
        case _:
            return -x


@program((t(3), "relu"), (t(3), "tanh"), (t(3), "other"), compilations=3)
def match_strings(x, kind):
    match kind:
        case "relu":
            y = torch.relu(x)
        case "tanh" | "sigmoid":
            y = torch.tanh(x)
        case other:
            y = x * len(other)
    return y


@program((t(3), (1, 2)), (t(3), (1, 2, 3)), (t(3), ()), compilations=3)
def match_sequences(x, shape):
    match shape:
        case ():
            return x
        case (a, b):
            return x * a + b
        case (a, *rest):
            return x * a + len(rest)


@program((t(3),))
def annotated(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = x * 2
    z: int
    z = 3
    n: "list[int]" = [1, 2]
    return y * z + n[0]


@program((t(3),))
def docstring_and_pass(x):
    """What it does."""
    pass
    ...
    "a string"
    if x.ndim:
        pass
    else:
        pass
    return x


@program((t(3), 3), (t(3), 9))
def while_true_break(x, n: int):
    k = 0
    while True:
        x = x * 1.1
        k += 1
        if k >= n or k == 5:
            break
    return x, k


@program((t(3), 3), (t(3), 0))
def return_in_both(x, n: int):
    while True:
        if n <= 0:
            return x
        n -= 1
        x = x * 1.5


class Scope:
    def __init__(self, name):
        self.name = name
        self.depth = 0
    def __enter__(self):
        print("enter", self.name)
        self.depth += 1
        return self
    def __exit__(self, *error):
        print("exit", self.name)
        return None


@contextlib.contextmanager
def scaled(k):
    print("begin", k)
    yield k * 2
    print("end", k)


@program((t(3), 1.0), (t(3), -1.0))
def context_managers(x, c: float):
    with Scope("a") as s:
        y = x * s.depth
        if c < 0:
            return y
    with scaled(3) as k, contextlib.nullcontext(5) as m:
        y = y * k + m
    return y


def count_up(n):
    k = 0
    while k < n:
        if k % 3 != 1:
            yield k
        k += 1


def both(n):
    yield from count_up(n)
    yield 100


@program((t(3), 6), (t(3), 0), (t(3), 9))
def generator_with_run_time_loop(x, n: int):
    total = 0
    for k in count_up(n):
        x = x + k
        total += k
        if total > 12:
            break
    else:
        x = x * 2
    for k in both(3):
        total += k
    return x, total


@program((t(3), 6), (t(3), 0))
def return_inside_generator_loop(x, n: int):
    for k in count_up(n):
        x = x * 1.5
        if k >= 3:
            return x, k
    return x, -1


@program((t(3), 2), (t(3), 7))
def finally_before_a_failing_check(x, n: int):
    try:
        y = x[n] * 2
    finally:
        print("cleanup", n)
    return y


@program((t(3), 2.0), (t(3), 0.0))
def finally_before_a_division(x, a: float):
    try:
        y = x * (1.0 / a)
    finally:
        print("cleanup")
    return y


@program((t(3), 1), (t(3), 5), (t(3), -1))
def nested_try(x, n: int):
    out = 0
    try:
        try:
            if n > 3:
                raise ValueError("big")
            if n < 0:
                raise KeyError("neg")
            out += 1
        except ValueError:
            out += 10
        else:
            out += 100
        finally:
            out += 1000
    except KeyError:
        out += 5
    return x * out


@program((t(4), 1, 0), (t(4), 3, 1), (t(4), 0, 1), (t(4), 2, 20), (t(4), 4, 1), (t(4), -5, 1))
def errors_that_only_the_run_knows(x, n: int, k: int):
    total, out = 0.5, []
    try:
        a = x[n]
        b = a / (10 // k)
        total = total + 1 / n
        out.append(b)
    except IndexError as e:
        b = x[0] * 2
        print("index", e)
    except ZeroDivisionError as e:
        b = x[1] * 3
        print("zero", e)
    else:
        b = b + 1
    finally:
        print("done", total)
    return b * total, len(out)


@program((t(4), ints(1, 0, 2, 7, 3)), (t(4), ints(0, 0)))
def errors_handled_in_a_loop(x, ks):
    s, bad = x.sum(), 0
    for i in range(ks.shape[0]):
        k = int(ks[i].item())
        try:
            if x.shape[0] // k > 1:
                s = s + x[k] * x.mean()
            s = s * (1 + k)
        except (ZeroDivisionError, IndexError):
            bad += 1
    return s, bad


@program((t(3), 0), (t(3), 1), (t(3), 2), (t(3), 3))
def error_of_a_called_function_handled(x, n: int):
    def safe(v):
        return 1 / v

    try:
        y = x * (safe(n - 1) + safe(n - 2))
    except ZeroDivisionError:
        y = x - 5
    return y


@program((t(3), 1), (t(3), 4))
def error_that_ends_a_loop(x, n: int):
    i = 0
    try:
        while True:
            x = x + 1 / (n - i)
            i += 1
    except ZeroDivisionError as e:
        print(e, i)
    return x


@program((t(3), 0.0, -1), (t(3), 2.0, -1), (t(3), 0.0, 2), (t(3), -4.0, 3), (t(3), math.nan, 1))
def arithmetic_outside_its_domain(x, a: float, n: int):
    try:
        r = a ** n + (n + 7) ** 2
        r = r + math.sqrt(a)
        r = r + math.log(a) * n
    except ZeroDivisionError as e:
        print(e)
        r = 1.0
    except ValueError as e:
        print(e)
        r = 2.0
    finally:
        print("done")
    return x * r


class Tally:
    count = 0

    def bump(self):
        self.count += 1
        return self.count


@program((t(3), 0), (t(3), 2))
def what_a_failing_statement_did_before_it_failed(x, n: int):
    tally, items, y = Tally(), [1, 2], x * 1
    try:
        z = tally.bump() * items.pop() + y.add_(1).sum() * (tally.bump() / n)
    except ZeroDivisionError:
        z = x.sum()
    return z, tally.count, len(items), y


@program((t(3), ints(1, 2, 0, 4)), (t(3), ints(1, 2, 3)))
def error_that_ends_a_for_loop(x, ks):
    done = 0
    try:
        for k in range(ks.shape[0]):
            x = x * 0.5 + 1 / int(ks[k].item())
            done += 1
    except ZeroDivisionError:
        x = x - 1
    return x, done


@program((t(3), 5), (t(3), 1))
def what_only_finally_reads(x, n: int):
    i, k = 1, 2
    try:
        if n > 3:
            raise KeyError
    except KeyError:
        k = 5
    else:
        i -= 2
    finally:
        print("finally", i, k)
    return x


@program((t(3), 5), (t(3), -1), (t(3), 2))
def arguments_of_an_exception_that_some_runs_raise(x, n: int):
    try:
        if n > 3:
            raise KeyError(n)
        if n < 0:
            raise IndexError(n - 1)
    except LookupError as error:
        return x * error.args[0] + isinstance(error, KeyError)
    return x


@program((t(3), 5), (t(3), -1), (t(3), 2))
def one_of_several_raised_again(x, n: int):
    try:
        if n > 3:
            raise ValueError("a")
        if n < 0:
            raise KeyError("b")
    except (ValueError, KeyError) as error:
        print("again", type(error).__name__, error)
        raise
    return x


@program((t(3), 0), (t(3), 1), (t(3), 4))
def text_that_a_branch_chose(x, n: int):
    word = "none" if n < 1 else ("one" if n < 2 else "many")
    print(f"<{word:>5}>", word)
    if n > 3:
        raise ValueError(f"{word!r} of {n}")
    return x * n


@program((t(4), 2), (t(4), 9), (t(4), 0))
def raise_in_loop_handled_outside(x, n: int):
    try:
        for i in range(n):
            x = x * 1.1
            if i == 5:
                raise StopIteration
        x = x + 1
    except StopIteration:
        x = x - 1
    return x


@program((t(4), 5), (t(4), 2))
def try_in_loop(x, n: int):
    k = 0
    for i in range(n):
        try:
            if i == 3:
                raise ValueError("three")
            k += 1
            x = x * 2
        except ValueError as e:
            print("caught", e)
            continue
        x = x + 1
    return x, k


def counter():
    n = 0
    def step(by=1):
        nonlocal n
        n += by
        return n
    return step


@program((t(3), 4),)
def closure_with_state(x, m: int):
    a, b = counter(), counter()
    for _ in range(m):
        a(2)
    b()
    return x * a() + b()


@program((t(3), 1.0), (t(3), -1.0))
def text_of_branches(x, c: float):
    s = f"a{c}" if c > 0 else f"a{c * 2}"
    names = ["x", "y"]
    print(s, names, f"{names[0]!r}")
    for k in (0, 1):
        s = s + str(k)
    return s


@program((t(3), 4), (t(3), 1))
def objects_with_optional_attribute(x, n: int):
    class_ = Box2()
    for i in range(n):
        if i == 2:
            class_.best = x * i
    return class_.best if class_.best is not None else x


class Box2:
    def __init__(self):
        self.best = None


@program((t(3), 1.0), (t(3), -1.0))
def attribute_on_one_side(x, c: float):
    b = Box2()
    if c > 0:
        b.extra = x
    b.best = x * 2
    return b.extra + b.best


@program((t(5), 2), (t(5), 5), (t(5), 9))
def next_items(x, n: int):
    it = iter([x[0], x[1], x[2]])
    a = next(it)
    b = next(it)
    rest = [v * 2 for v in it]
    k = next((i for i in range(7) if i * i > n), -1)
    f = next((v for v in [1, 2, 3] if v > 1), None)
    return a - b, rest, k, f, next(iter(x)), next(enumerate(x))[1], next(iter(()), 3)


@program((t(5), 2), (t(5), 90), (t(5), 9))
def next_of_nothing(x, n: int):
    print("before")
    k = next(i for i in range(7) if i * i > n)
    print("after", k)
    return x * k


@program((t(5), 2), (t(5), 90), (t(5), 9))
def next_or_none(x, n: int):
    v = next((x[i] for i in range(5) if i > n), None)
    if v is None:
        return x
    return x * v


def multiples(xs, k):
    return (x * k for x in xs)


@program((t(3), 2), (t(3), 5))
def generator_returned(x, n: int):
    s = x * 0
    for v in scaled((x, x + 1, x + 2), n):
        s = s * 0.5 + v
    return s


@program((t(3), 2), (t(3), 5))
def generator_names(x, n: int):
    i = n
    s = x * 0
    for v in (x * i for i in (1, 2, 3)):
        s = s + v * i
    return s, i


@program((t(3), 2), (t(3), 50))
def generator_left(x, n: int):
    s = x * 0
    for v in (k * 3 for k in (1, 2, 3)):
        if v > n:
            break
        s = s + v
    else:
        s = s - 1
    for v in (k * 3 for k in (1, 2, 3)):
        if v == 6:
            break
        s = s + v
    for v in (k * 3 for k in (1, 2, 3)):
        print(v)
        if v > n:
            return s
    return s * 2


test_programs = suite(PROGRAMS)

TOTAL = 0


def adds_to_global(n: int):
    global TOTAL
    TOTAL += n
    return TOTAL * 2


def keeps_tensor(x):
    global KEPT
    KEPT = x * 2
    return KEPT + 1


def test_global_writes() -> None:
    global TOTAL
    outcomes = []
    for f in (adds_to_global, torch.script(adds_to_global)):
        TOTAL = 1
        outcomes.append([f(n) for n in (1, 2, 3)] + [TOTAL])
    assert outcomes[0] == outcomes[1] == [4, 8, 14, 7]
    scripted = torch.script(keeps_tensor)
    for k in (1.0, 2.0):
        assert scripted(torch.full((2,), k)).tolist() == [2 * k + 1] * 2
        assert KEPT.tolist() == [2 * k] * 2
    assert scripted.cache_info().compilations == 1
