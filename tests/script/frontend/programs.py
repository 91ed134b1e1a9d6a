"""Programs on which eager and scripted must agree: (function, lists of arguments)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.eager.autograd.grad_mode import no_grad
from jitgrad.eager.construct import wrap
from jitgrad.ops.library import creation, elementary
from jitgrad.ops.library.shapes import join

PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = []


def t(*shape: int, seed: int = 0) -> Any:
    return wrap(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def vector(*values: float) -> Any:
    return wrap(np.array(values, dtype=np.float32))


def ints(*values: int) -> Any:
    return wrap(np.array(values, dtype=np.int64))


def program(*cases: tuple[Any, ...]) -> Any:
    def add(function: Any) -> Any:
        PROGRAMS.extend((function, case) for case in cases)
        return function
    return add


# --- straight lines ------------------------------------------------------------------------------------------------


@program((t(3, 4), t(4, 2)), (t(1, 4), t(4, 2)))
def matmul_relu(x, w):
    return (x @ w).relu().sum()


@program((t(3), 2.0), (t(3), 2), (t(3), True))
def weak_number(x, a):
    return x * a + 1


@program((ints(1, 2), 2.5), (ints(1, 2), 2))
def weak_number_promotes(x, a):
    return x * a


@program((t(2, 3),))
def chained(x):
    y = x.t()
    z = y.reshape(-1)
    return z[1:4], x.mean(), x.max()


@program((t(4),))
def tuple_assignment(x):
    a, (b, *c) = x, (x + 1, x + 2, x + 3)
    a, b = b, a
    return a, b, c[0], c[1]


@program((3, 4), (-3, 4), (7, -2))
def floor_and_mod(a, b):
    return a // b, a % b, a / b, -a, abs(a), a - b, a * b


@program((7, 0), (7, 2))
def division_by_zero(a, b):
    return a // b


@program((7.5, 0.0), (7.5, 2.0))
def float_division_by_zero(a, b):
    return a / b


@program((2.0, 3), (2.0, -3), (2.0, 0))
def power_of_float(a, b):
    return a ** b


@program((2 ** 62,), (5,))
def overflow_free(a):
    return a - 1 + 1


@program((1.5, 2.5), (3.5, 1.5))
def extremes(a, b):
    return min(a, b), max(a, b), round(a), int(b), float(3), bool(a)


@program((0.3,), (2.0,))
def mathematics(x):
    return math.sqrt(x) + math.sin(x) * math.exp(x), math.floor(x), math.pi * x


@program((-1.0,))
def math_domain(x):
    return math.sqrt(x)


@program((t(3, 5),), (t(3, 1),))
def shapes(x):
    n, m = x.shape
    return n * m + 1, x.shape[0] // 2, x.ndim, len(x), x.size(-1), x.numel()


@program((t(3, 5),))
def make_like_shape(x):
    n = x.shape[0]
    return creation.zeros(n, 2), creation.arange(n), creation.ones(n + 1)


@program((4,), (1,))
def make_of_size(n):
    return creation.zeros(n, 2)


# --- branches ------------------------------------------------------------------------------------------------------


@program((t(3), 1.0), (t(3), -1.0))
def if_else(x, c):
    if c > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@program((t(3), 1.0), (t(3), -1.0))
def if_without_else(x, c):
    if c > 0:
        x = x * 2
    return x + 1


@program((1.0,), (-1.0,), (0.0,))
def elif_chain(c):
    if c > 0:
        r = 1
    elif c < 0:
        r = 2.5
    else:
        r = 3
    return r // 2


@program((True,), (False,))
def number_of_two_kinds(c):
    x = 1 if c else 2.5
    return x // 2, x + 1


@program((t(3), 1.0), (t(3), -1.0))
def early_return(x, c):
    if c > 0:
        return x
    y = x + 1
    return y * 2


@program((t(3), 1.0), (t(3), -1.0), (t(3), 5.0))
def returns_in_nested_branches(x, c):
    if c > 0:
        if c > 3:
            return x + 10
        x = x * 2
    else:
        x = x - 1
    return x


@program((t(3), 1.0), (t(3), -1.0))
def one_side_name(x, c):
    if c > 0:
        y = x * 2
    return y


@program((t(3), 1.0), (t(3), -1.0))
def one_side_name_unused(x, c):
    if c > 0:
        y = x * 2
        x = y
    return x


@program((t(3), 1.0), (t(3), -1.0))
def none_or_tensor(x, c):
    y = None
    if c > 0:
        y = x * 2
    if y is None:
        return x
    return y + 1


@program((t(3), 1.0), (t(3), -1.0))
def none_result(x, c):
    if c > 0:
        return x * 2
    return None


@program((t(3), 1.0), (t(3), -1.0))
def none_falls_off(x, c):
    if c > 0:
        return x * 2


@program((1.0,), (-1.0,))
def raises(c):
    if c > 0:
        raise ValueError(f"c is {c:.2f}, not negative")
    return c


@program((1.0,), (-1.0,))
def asserts(c):
    assert c < 0, "must be negative"
    return c * 2


@program((t(3), 1.0, 2.0), (t(3), -1.0, 2.0), (t(3), -1.0, -2.0), (t(3), 0.0, 0.0))
def and_or_operands(x, a, b):
    return a and b, a or b, not a, (a and b) or 3.5


@program((1, 5), (3, 5), (7, 5))
def chained_comparison(a, b):
    return 0 < a < b, a == b, a != b <= 5


@program((t(3), True), (t(3), False))
def different_functions(x, flag):
    act = elementary.tanh if flag else elementary.sigmoid
    return act(x)


@program((t(3), True), (t(3), False))
def lambdas(x, flag):
    scale = 3.0
    f = (lambda v: v * scale) if flag else (lambda v: v + scale)
    return f(x)


@program((vector(1, 2, 3),), (vector(-1, -2, -3),))
def tensor_condition(x):
    if x.sum() > 0:
        return x
    return -x


@program((vector(1, 2),), (vector(1),))
def ambiguous_truth(x):
    if x > 0:
        return x
    return -x


@program((t(2), t(3), True), (t(2), t(3), False))
def sizes_differ_in_branches(x, y, c):
    z = x if c else y
    return z * 2, z.shape[0]


@program((t(3), 1.0), (t(3), -1.0))
def walrus(x, c):
    if (d := c * 2) > 0:
        return x * d
    return x - d


# --- loops ---------------------------------------------------------------------------------------------------------


@program((t(3), 4), (t(3), 0), (t(3), 1))
def repeat(x, n):
    for _ in range(n):
        x = x * 2 + 1
    return x


@program((t(5, 3),), (t(1, 3),))
def sum_rows(x):
    total = creation.zeros(3)
    for row in x:
        total = total + row
    return total


@program((t(5),),)
def sum_elements_from_zero(x):
    total = 0
    for v in x:
        total = total + v
    return total


@program((t(5, 3),), (t(1, 3),))
def sum_rows_from_zero(x):
    total = 0
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


@program((10,), (1,), (0,))
def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@program((t(4), 0.5), (t(4), 100.0))
def while_tensor(x, limit):
    n = 0
    while x.abs().sum() < limit:
        x = x * 2
        n += 1
    return x, n


@program((vector(2.0, 9.0, 0.01, 40.0),))
def newton(a):
    x = a
    steps = 0
    while steps < 50:
        nxt = 0.5 * (x + a / x)
        steps += 1
        if bool((nxt - x).abs().max() < 1e-5):
            x = nxt
            break
        x = nxt
    return x, steps


@program((10, 3), (10, 20))
def break_in_for(n, k):
    total = 0
    for i in range(n):
        if i == k:
            break
        total += i
    return total, i


@program((10,), (0,))
def continue_in_for(n):
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        total += i
    return total


@program((10, 3), (10, 30), (0, 0))
def return_in_for(n, k):
    for i in range(n):
        if i * i > k:
            return i
    return -1


@program((10, 3), (10, 30))
def return_in_while_true(n, k):
    i = 0
    while True:
        i += 1
        if i > n:
            return 0.5
        if i * 2 > k:
            return float(i)


@program((5, 3), (5, 30))
def for_else(n, k):
    for i in range(n):
        if i == k:
            found = i
            break
    else:
        found = -1
    return found


@program((3, 4), (0, 4), (3, 0))
def nested_loops(n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            if j > i:
                break
            total += i * j
    return total


@program((t(3, 3), 3), (t(3, 3), 0))
def nested_data_dependent(x, n):
    count = 0
    for i in range(n):
        while x.sum() < 10 * (i + 1):
            x = x + 1
            count += 1
            if count > 20:
                return x, count
        x = x - 0.5
    return x, count


@program((5, 1), (2, 7))
def range_forms(n, start):
    a = 0
    for i in range(start, n):
        a += i
    for i in range(n, 0, -1):
        a += i * 10
    for i in range(0, n, 2):
        a += i * 100
    return a


@program((t(4, 2),))
def enumerate_and_zip(x):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, x * 2, strict=True)):
        s = s + i * (a * b).sum()
    return s


@program((t(4, 2),))
def reversed_rows(x):
    h = creation.zeros(2)
    for i in reversed(range(x.shape[0])):
        h = h * 0.5 + x[i]
    return h


@program((t(3),))
def static_loop_over_tuple(x):
    for f in (elementary.tanh, elementary.sigmoid, elementary.exp):
        x = f(x)
    return x


@program((t(3), 3), (t(3), 2))
def loop_variable_after(x, n):
    for i in range(n):
        x = x + i
    return x, i


@program((0,), (2,))
def loop_variable_unbound(n):
    for i in range(n):  # noqa: B007
        pass
    return i


@program((t(3), 4), (t(3), 0))
def none_before_loop(x, n):
    best = None
    for i in range(n):
        if best is None:
            best = x
        else:
            best = best + i
    return best


@program((t(2, 2), 3), (t(2, 2), 0))
def growing(x, n):
    for _ in range(n):
        x = join.cat([x, x[:1]])
    return x, x.shape[0]


@program((1, 5), (1, 0))
def number_becomes_float(x, n):
    for _ in range(n):
        x = x / 2
    return x


@program((6,), (0,))
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


# --- references ----------------------------------------------------------------------------------------------------


@program((t(3),))
def inplace_argument(x):
    x += 1
    return x


@program((t(3), t(3)),)
def inplace_through_alias(x, y):
    z = x
    z.mul_(2)
    z = y
    z.add_(1)
    return x + y


@program((t(3, 3),))
def inplace_view(x):
    row = x[0]
    row += 10
    x[1] = row * 2
    x[:, 2] = 0.0
    return x, row


@program((t(3, 3),))
def view_sees_write(x):
    y = x.clone()
    row = y[1]
    y.zero_()
    return row, y.t()[0]


@program((t(3), t(3, seed=1), True), (t(3), t(3, seed=1), False))
def write_through_choice(p, q, c):
    v = p if c else q
    v += 1
    return p, q, v


@program((t(3), t(3, seed=1), True), (t(3), t(3, seed=1), False))
def choice_sees_write(p, q, c):
    v = p if c else q
    p *= 3
    return v


@program((t(3), True), (t(3), False))
def write_in_branch(x, c):
    y = x.clone()
    z = y[:2]
    if c:
        z += 1
    return y


@program((t(4), 3), (t(4), 0))
def write_in_loop(x, n):
    y = x.clone()
    for i in range(n):
        y[i] = y[i] * 2
    return y


@program((t(4), 3),)
def write_argument_in_loop(x, n):
    for i in range(n):
        x += i
    return x.sum()


@program((t(4), 9), (t(4), 2))
def index_out_of_range_after_writes(x, n):
    for i in range(n):
        x[i] = 0.0
    return x


@program((t(4),))
def returns_argument(x):
    y = x + 1
    return x, y, x


@program((t(4, 4),))
def returns_views(x):
    return x[1], x.t(), x[:, 1:3]


@program((t(3), 1.0), (t(3), -1.0))
def print_in_branch(x, c):
    print("c is", c)
    if c > 0:
        print(f"{c:.3f} positive", end="!\n")
    return x


@program((3,), (0,))
def print_in_loop(n):
    for i in range(n):
        print(i, i * 0.5, sep=", ")


@program((t(3), 1.0), (t(3), -1.0))
def write_then_raise(x, c):
    x += 1
    if c < 0:
        raise RuntimeError("stopped")
    x += 1
    return x


@program((t(3), 1.0), (t(3), -1.0))
def lists_of_branches(x, c):
    items = [x]
    if c > 0:
        items.append(x * 2)
    else:
        items.append(x * 3)
    return items


@program(*[(t(3), c, d) for c in (True, False) for d in (True, False)])
def choice_of_choices(x, c, d):
    p, q, r = x * 1, x * 2, x * 3
    a = p if c else q
    b = a if d else r
    b += 10
    return p, q, r, a, b


@program((t(3), 0), (t(3), 1), (t(3), 5))
def rebind_then_write(x, n):
    h = x
    for _ in range(n):
        h = h * 2
        h += 1
    return h, x


@program((t(2, 3), 0), (t(2, 3), 3))
def rows_written_in_loop(x, n):
    y = x.clone()
    rows = [y[0], y[1]]
    for r in rows:
        r.mul_(2)
    for i in range(n):
        rows[0].add_(i)
    return y


@program((t(3), 5), (t(3), 1))
def while_else(x, n):
    while n > 0:
        n -= 1
        if n == 2:
            return x + 1
        x = x * 2
    else:
        x = x - 100
    return x


# --- functions -----------------------------------------------------------------------------------------------------


def _helper(x, k=2.0, *, shift=1.0):
    if k > 3:
        return x
    return x * k + shift


@program((t(3), 5.0), (t(3), 1.0))
def calls_helper(x, k):
    return _helper(x), _helper(x, k), _helper(x, k=k, shift=0.0)


@program((t(3), 3), (t(3), 0))
def inner_function(x, n):
    scale = 2.0

    def step(v, i):
        return v * scale + i

    for i in range(n):
        x = step(x, i)
    return x


@program((t(3),))
def star_arguments(x):
    def f(*args, **kwargs):
        return args[0] + args[1] * kwargs["k"]
    pair = (x, x + 1)
    return f(*pair, k=2.0), f(*pair, **{"k": 3.0})


@program((t(3),))
def comprehension(x):
    parts = [x * i for i in range(4) if i != 2]
    total = sum(parts)
    return total, len(parts), [p.sum() for p in parts][1]


def _recurse(x, n):
    if n == 0:
        return x
    return _recurse(x * 2, n - 1)


@program((t(3),))
def static_recursion(x):
    return _recurse(x, 3)


@program((t(3),))
def without_gradient(x):
    with no_grad():
        y = x * 2
    return y + x


@program((((t(3), t(3, seed=1)), {"k": 2.0})), (((t(3), t(3, seed=1)), {"k": 2.0})))
def containers(pair, options):
    a, b = pair
    made = {"sum": a + b, "k": options["k"]}
    return made, [a, b * made["k"]], (1, "text", None)


@program((t(2, 3), t(3, 2)), (t(2, 3), t(2, 2)))
def shape_clash(x, y):
    return x @ y


@program((t(5), 7), (t(5), -2), (t(5), 2), (t(5), -6))
def index_checks(x, i):
    return x[i]


@program((t(6), 1, 4), (t(6), -3, 100), (t(6), 4, 2))
def run_time_slices(x, a, b):
    return x[a:b], x[:b].sum(), x[a:]


@program((1, 2, 3), (4, 4, 4))
def pick_from_tuple(a, b, c):
    items = (a, b, c)
    k = a % 3
    return items[k], items[-1]


@program((t(3), 2), (t(3), 0), (t(3), 5))
def pick_function(x, k):
    fs = (elementary.tanh, elementary.sigmoid, elementary.exp)
    return fs[k](x)


@program((t(3),))
def unrolled_by_index(x):
    fs = (elementary.tanh, elementary.sigmoid, elementary.exp)
    for i in range(3):
        x = fs[i](x)
    return x


# --- objects -------------------------------------------------------------------------------------------------------


class Counter:
    """State that a script reads and writes."""

    def __init__(self) -> None:
        self.n = 3
        self.rate = 0.5
        self.flag = True
        self.name = "counter"
        self.weight = t(3)
        self.parts = [t(3, seed=1), t(3, seed=2)]
        self.table = {"a": 1.5, "b": t(3, seed=3)}
        self.last = None

    @property
    def double(self):
        return self.rate * 2

    def scale(self, x, by=1.0):
        return x * self.rate * by

    def __call__(self, x):
        return self.scale(x)


counter = Counter()
FACTOR = 0.25


@program((t(3),))
def global_objects(x):
    y = counter(x) + counter.double + FACTOR
    for p in counter.parts:
        y = y + p
    return y * counter.table["a"] + counter.table["b"] + counter.weight, counter.name


@program((t(3), Counter()))
def counts_calls(x, state):
    state.n += 1
    state.rate = state.rate * 0.5
    return x * state.n, state.n


@program((t(3), Counter(), 1.0), (t(3), Counter(), -1.0))
def counts_in_branch(x, state, c):
    if c > 0:
        state.n += 2
    print(state.n)
    if c < 0:
        raise ValueError("after the write")
    return x


@program((t(3), Counter(), 4))
def counts_in_loop(x, state, n):
    for _ in range(n):
        state.n += 1
    return state.n, x


@program((t(3), Counter()))
def rebinds_attribute(x, state):
    state.last = x * 2
    return state.last + 1


@program((t(3), Counter()))
def writes_attribute_tensor(x, state):
    state.weight += x
    state.weight[0] = 1.0
    return state.weight.sum()


@program((t(3), Counter()))
def attribute_dispatch(x, state):
    if state.flag and hasattr(state, "rate") and not hasattr(state, "missing"):
        return state.scale(x, by=getattr(state, "missing", 2.0))
    return x


# --- more numbers and exits ----------------------------------------------------------------------------------------


@program((5, 2.0), (-5, 2.0), (0, -1.5))
def mixed_arithmetic(a, b):
    return a + b, a * 2 - b, a // b, a % b, a < b, a == b, (a > 0) + 1, divmod(a, 3), -a ** 2


@program((12, 10), (0, 255))
def bits(a, b):
    return a & b, a | b, a ^ b, a << 2, b >> 1, ~a


@program((2 ** 40, 2 ** 40))
def product_in_range(a, b):
    return a // 1024 * (b // 1024)


@program((3, -1))
def negative_shift(a, b):
    return a << b


@program((True, False), (False, False))
def booleans(a, b):
    return a and b, a or b, a & b, a | b, not a, a + b, a == b, int(a), float(b)


@program((2.5,), (-2.5,), (0.5,))
def rounding(x):
    return round(x), int(x), x // 1, math.floor(x), math.ceil(x), math.trunc(x)


@program((float("inf"),), (float("nan"),))
def int_of_infinity(x):
    return int(x)


@program((6, 4), (0, 0), (5, 9))
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@program((20, 7), (20, 3), (1, 1))
def primes(n, stop):
    found = 0
    k = 2
    while k < n:
        is_prime = True
        for d in range(2, k):
            if k % d == 0:
                is_prime = False
                break
        if is_prime:
            found += 1
            if found == stop:
                return k
        k += 1
    return -found


@program((t(4), 5, 2), (t(4), 5, 9), (t(4), 0, 0))
def return_tensor_in_loop(x, n, k):
    for i in range(n):
        x = x * 1.5
        if i == k:
            return x + 100
        if x.sum() > 1e6:
            break
    return x


@program((t(4), 5), (t(4), 0))
def optional_in_loop(x, n):
    best = None
    for i in range(n):
        y = (x * i).sum()
        if best is None or y > best:
            best = y
    return best


@program((5, 3), (2, 0))
def continue_and_break(n, skip):
    out = 0
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if i == skip:
            continue
        out = out * 10 + i
    return out


@program((t(3), 3), (t(3), 0))
def rebinding_in_both(x, n):
    a, b = x, x + 1
    for _ in range(n):
        a, b = b, a * 0.5
    return a, b


@program((t(3), 3, True), (t(3), 3, False))
def branch_in_loop(x, n, c):
    for i in range(n):
        if c:
            x = x + i
            c = False
        else:
            x = x * 2
            c = bool(x.sum() > 0)
    return x


@program((t(2, 3), 2), (t(2, 3), 0))
def static_unrolled_break(x, k):
    for i, f in enumerate((elementary.tanh, elementary.sigmoid, elementary.exp)):
        if i == k:
            break
        x = f(x)
    return x


@program((t(3, 3),), (t(1, 1),))
def gather_and_mask(x):
    y = x.clone()
    y[y < 0] = 0.0
    rows = creation.arange(x.shape[0])
    return y, x[rows, rows], x[..., -1], x[None], elementary.tanh(x)[0, 0].item()


@program((t(4, 6),), (t(4, 1),))
def reshape_with_sizes(x):
    n, m = x.shape
    return x.reshape(n * m), x.reshape(m, -1).shape[1], x.view(-1, 1).expand(-1, 2), x.unsqueeze(0).squeeze(0)


@program((t(3), t(3)), (t(3), t(1)), (t(1), t(3)))
def broadcast(x, y):
    return x + y, x * y.sum()


@program((t(3), t(4)),)
def broadcast_clash(x, y):
    return x + y


@program((t(3), 2.0),)
def formatted(x, c):
    print(f"{c:>8.2f}|{c!r}|{3}|{'a' + 'b'}", x.shape[0], (c, 1), [1, c])
    return f"{3:02d}"
