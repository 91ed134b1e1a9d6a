"""Exits and exceptions: finally, else, nested loops, errors whose text and place count, changes made before them."""

from __future__ import annotations

import contextlib

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


class Trace:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        print("in", self.name)
        return self

    def __exit__(self, *what):
        print("out", self.name)


class TooLarge(ValueError):
    pass


@contextlib.contextmanager
def scope(name):
    print("enter", name)
    yield name * 2
    print("leave", name)


@nasty(lambda: (3,), lambda: (0,))
def return_through_finally(n: int):
    """finally runs after the value of return is computed."""
    log = []
    try:
        if n:
            return n * 2, log
    finally:
        log.append("done")
        n = 100
    return n, log


@nasty(lambda: (5, 2), lambda: (5, 9))
def break_through_finally(n: int, stop: int):
    """break and continue run the finally of the try they leave."""
    count = 0
    for k in range(n):
        try:
            if k == stop:
                break
            if k % 2:
                continue
            count += 10
        finally:
            count += 1
    return count


@nasty(lambda: (v(1, 2), 1), lambda: (v(1, 2), 5))
def changed_before_the_error(x, k: int):
    """What was changed before an exception stays changed."""
    x.add_(1)
    y = x[k]
    x.add_(1)
    return y


@nasty(lambda: ([1], {"a": 1}, 2), lambda: ([1], {"a": 1}, 0))
def containers_before_the_error(xs, d, n: int):
    """Appended items and keys reach the caller though the call raises."""
    xs.append(n)
    d["b"] = n
    xs.append(10 // n)
    return xs


@nasty(lambda: (v(1, 2), 2.0), lambda: (v(1, 2), 9.0))
def raised_with_run_time_text(x, s: float):
    """The text of an exception holds what only the run knows."""
    if x.sum() < s:
        raise TooLarge(f"{s:.1f} is more than {x.sum().item()}")
    return x


@nasty(lambda: (3,), lambda: (-3,))
def assertions(n: int):
    """assert evaluates its message only where it fails."""
    assert n > 0, f"{n} is not positive: {1 // (n + 3)}"
    return n


@nasty(lambda: (2,), lambda: (0,))
def handled_division(n: int):
    """The rest of the try is skipped, the else too."""
    try:
        x = 10 // n
    except ZeroDivisionError as e:
        return str(e)
    else:
        x += 1
    return x


@nasty(lambda: ({"a": 1},), lambda: ({"b": 2},))
def missing_key(d):
    """KeyError that is handled by a default, or not."""
    try:
        x = d["a"]
    except KeyError:
        x = -1
    return x, d["b"] if "b" in d else d.get("c", 0)


@nasty(lambda: ([1, 2],), lambda: ([],))
def popped_from_empty(xs):
    """pop of an empty list raises."""
    return xs.pop(), xs.pop()


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 2))
def with_and_return(x, n: int):
    """A with block that is left by return, break and its end."""
    with Trace("a"), Trace("b") as b:
        for k in range(n):
            with Trace("loop"):
                if k == 1:
                    break
        if n == 2:
            return b.name
    return x * k


@nasty(lambda: (v(1, 2),), lambda: (v(1),))
def generator_as_a_manager(x):
    """contextlib.contextmanager."""
    with scope("s") as name:
        print(name)
        y = x + 1
    return y


@nasty(lambda: (2, 3), lambda: (3, 3), lambda: (0, 3))
def nested_else(n: int, m: int):
    """break of the inner loop skips only its own else."""
    found = []
    for i in range(n):
        for j in range(m):
            if i == j:
                break
            found.append((i, j))
        else:
            found.append((-1, i))
    else:
        found.append((-2, n))
    return found


@nasty(lambda: (3,), lambda: (8,))
def continue_in_while(n: int):
    """continue jumps to the condition, which has an effect."""
    seen, k = [], 0
    while (k := k + 1) < n:
        if k % 3 == 0:
            continue
        seen.append(k)
    return seen, k


@nasty(lambda: (4,), lambda: (10,))
def return_from_two_loops(n: int):
    """A return inside two loops and a with."""
    for i in range(n):
        with Trace(str(i)):
            j = 0
            while True:
                j += 1
                if i * j > 6:
                    return i, j
                if j > 3:
                    break
    return None


@nasty(lambda: (1,), lambda: (3,))
def bound_on_one_side(n: int):
    """A name that only one branch binds."""
    if n > 2:
        y = n * 2
    z = n + 1
    return z, y


@nasty(lambda: (1,), lambda: (2,))
def deleted_name(n: int):
    """A name after del, under a condition."""
    y = n
    if n > 1:
        del y
    return y


@nasty(lambda: (v(1, 2), None), lambda: (v(1, 2), v(3, 4)), lambda: (None, None))
def none_arguments(x, y):
    """None among tensors: attribute access and arithmetic raise."""
    if y is not None:
        return x + y
    return x.sum() if x is not None else x + 1


@nasty(lambda: (1,), lambda: (2,), lambda: (7,))
def match_statement(n: int):
    """Patterns with alternatives, guards and captures."""
    match n:
        case 1 | 3:
            return "odd"
        case k if k > 5:
            return "large", k
        case _:
            return "rest"


@nasty(lambda: ((1, 2),), lambda: ((0, 5),), lambda: ((1, 2, 3),))
def match_sequences(t):
    """Sequence patterns with stars."""
    match t:
        case (0, y):
            return "zero", y
        case (x, y):
            return x + y
        case (x, *rest):
            return x, rest


@nasty(lambda: ("x", 1.0), lambda: (2, 1.0), lambda: (v(1), 1.0))
def types_of_arguments(a, s: float):
    """An argument that is a string here and a tensor there."""
    if isinstance(a, str):
        return a * 2
    return a + s if isinstance(a, torch.Tensor) else a // 2


@nasty(lambda: (v(3, 4), 0.1), lambda: (v(100, 0), 0.1))
def loop_until_small(x, s: float):
    """A loop whose end depends on a tensor, with a limit of its own."""
    n = 0
    while x.norm() > 1:
        x = x * (1 - s)
        n += 1
        if n >= 20:
            break
    else:
        n = -n
    return x, n


@nasty(lambda: (2,), lambda: (1,))
def text_of_a_handled_exception(n: int):
    """A handled exception, and what it says of a number of the run."""
    try:
        raise KeyError(n)
    except KeyError as e:
        text = str(e)
    return text


@nasty(lambda: (v(1, 2), 4), lambda: (v(1, 2), 0), lambda: (v(0, 0), 2))
def number_where_no_iteration_was(x, n: int):
    """A sum that begins with 0 or None is a tensor although nothing was added to it."""
    total, best, k = 0, None, 0
    while k < n:
        j = 0
        while j < x.sum():
            total = total + x.sum() * j
            j += 1
        if best is None or total > best:
            best = total
        k += 1
    else:
        print("all", k)
    return total, best is None or best > 3


@nasty(lambda: (v(1, 2), 4), lambda: (v(1, 2), 1), lambda: (v(1, 2), 0))
def two_numbers_that_become_tensors(x, n: int):
    """The first iteration makes one of them a tensor, the second the other."""
    a, b = 0, 1.5
    while n > 0:
        a, b = b, a + x
        n -= 1
        if n == 2:
            return a, b, "early"
    return a, b


@nasty(lambda: (v(1, 2), v(3, 4), 1), lambda: (v(1, 2), v(3, 4), 0), lambda: (v(1, 2), v(3, 4), 2))
def written_on_the_way_out_of_a_loop(x, y, n: int):
    """Its body always raises, and what a name that it rebinds referred to is the argument itself."""
    t = x
    for _ in range(n):
        try:
            raise ValueError(n)
        finally:
            t.zero_()
            t = y * 2
    return t.sum()


@nasty(lambda: (v(1, 2), 1), lambda: (v(1, 2), 3), lambda: (v(1, 2), 0))
def written_before_it_fails(x, n: int):
    """A loop goes on with a name of the argument, and in an inner one that always fails it is written."""
    t = x.data
    for _ in range(2):
        for _ in range(n):
            t[0] = t[1]
            print(x)
            raise ValueError(n)
        t = t if n else x * 2
    return t.sum()
