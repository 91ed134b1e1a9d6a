"""Exceptions that cross functions: raised in their loops, or by what they do there, and handled further out."""

from __future__ import annotations

import contextlib
import itertools

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


def quotients(n: int, m: int):
    total = 0
    for k in range(n):
        total += 12 // (m - k)
    return total


def searched(x, limit: float):
    for k in range(len(x)):
        if x[k] > limit:
            raise ValueError("large", k)
    return x.sum()


def by_way(x, limit: float):
    y = searched(x, limit) + 1
    return y * 2


def tidied(x, limit: float):
    k = 0
    while k < len(x):
        try:
            if x[k] > limit:
                raise KeyError(k)
            k += 1
        finally:
            x[k - 1] += 10
    return k


def power(x, n: int):
    if n == 0:
        return x
    return power(x, n - 1) * x


def unlucky(x, n: int):
    if n > 5:
        t = 3
    r = unlucky(x, n - 1) if n > 0 else x
    return r + t if n > 5 else r * 2


@contextlib.contextmanager
def scope():
    print("enter")
    yield 1
    print("leave")


@contextlib.contextmanager
def closing():
    print("open")
    try:
        yield 2
    finally:
        print("close")


@nasty(lambda: (3, 9), lambda: (5, 2), lambda: (0, 0))
def arithmetic_in_a_loop_of_a_function(n: int, m: int):
    """A division in the loop of a function is handled by its caller."""
    try:
        total = quotients(n, m) + 1
    except ZeroDivisionError as e:
        total = str(e)
    return total


@nasty(lambda: (v(1, 2, 3), 2.5), lambda: (v(1, 2, 3), 9.0), lambda: (v(5), 1.0))
def raised_in_a_loop_of_a_function(x, limit: float):
    """What is raised in a loop of a function ends the loop, the function and the statement that called it."""
    y = x * 2
    try:
        y = searched(x, limit) * y
        print("found nothing")
    except ValueError as e:
        print(e.args[0], e.args[1])
    return y


@nasty(lambda: (v(1, 2, 3), 2.5), lambda: (v(1, 2, 3), 9.0))
def through_two_functions(x, limit: float):
    """An exception leaves a function by way of the one that called it."""
    r = x
    try:
        r = by_way(x, limit)
    except (KeyError, ValueError):
        r = r - 1
    else:
        r = r * 3
    return r


@nasty(lambda: (v(1, 2, 3), 2.5), lambda: (v(1, 2, 3), 9.0))
def through_a_finally(x, limit: float):
    """What `finally` says in the loop of a function runs once for each iteration, also the one that raises."""
    try:
        k = tidied(x, limit)
    except KeyError:
        k = -1
    return k


@nasty(lambda: (v(2.0), 4), lambda: (v(2.0), 0))
def recursion_in_a_try(x, n: int):
    """A recursion that is a loop may go too deep, which the caller handles."""
    try:
        y = power(x, n)
    except RecursionError:
        y = x
    return y


@nasty(lambda: (v(2.0), 4), lambda: (v(2.0), 2))
def caught_in_a_loop(x, n: int):
    """The loop around the `try` goes on after an exception from the loop of a function."""
    x, count = x * 2, 0
    for k in range(n):
        try:
            x = x + quotients(3, k)
        except ZeroDivisionError:
            count += 1
            continue
        x = x * 2
    return x, count


@nasty(lambda: ([], v(1, 2, 3), 4), lambda: ([7], v(1, 2, 3), 1))
def changes_before_it(xs, x, n: int):
    """What a function has changed before it raised stays changed."""
    def fill(items):
        for k in range(5):
            if k == n:
                raise IndexError(k)
            items.append(k)
            x[0] += 1
        return len(items)

    try:
        count = fill(xs)
    except IndexError:
        count = -1
    return count, len(xs)


@nasty(lambda: (v(1, 2, 3), 1.5), lambda: (v(1, 2, 3), 9.0))
def library_functions_in_a_try(x, limit: float):
    """Functions of Python's that a script goes through item by item raise nothing of their own."""
    kept = [float(k) for k in x if k < limit]
    try:
        print(kept, kept[::-1], kept == [1.0], max(kept))
        pairs = [(p + q).sum() for p, q in itertools.combinations(x, 2)]
        kept.reverse()
        counts = {}
        for k in range(len(kept)):
            counts["a" if kept[k] > 1 else "b"] = k
        print(counts, counts.pop("b"))
    except (IndexError, ValueError):
        return x
    return sum(pairs) * x


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 7))
def manager_that_is_not_resumed(x, n: int):
    """A generator that is a manager does not go on after its `yield` when an exception comes up there."""
    try:
        with scope() as k:
            if n > 3:
                raise KeyError("a")
            x = x + k
        x = x * 2
    except KeyError:
        x = x.exp()
    return x


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 7))
def manager_with_a_finally(x, n: int):
    """What a manager does in `finally` it does on both ways, the rest on one."""
    try:
        with closing() as k, scope():
            for j in range(n):
                if j > 3:
                    raise KeyError("a")
                x = x + k
        x = x * 2
    except KeyError:
        x = x.exp()
    return x


@nasty(lambda: (v(1, 2), 2), lambda: (v(1, 2), 7))
def manager_in_a_function(x, n: int):
    """A loop inside a manager, in a function whose caller handles what it raises."""
    def run(y):
        with scope() as k:
            for j in range(n):
                if j > 3:
                    raise KeyError("a")
                y = y + k
        return y * 3

    try:
        x = run(x)
    except KeyError:
        x = x.exp()
    return x


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 8), lambda: (v(1, 2), 1))
def many_statements_after_an_exit(x, n: int):
    """What follows a statement that may leave is left out as a whole, also where it leaves again."""
    for k in range(n):
        if k > 1:
            x = x + 1
            if k > 5:
                return x
            x = x * 2
        if k == 2:
            continue
        x = x + 0.5
        if n == 3:
            x = x - 4
            if k == 0:
                break
        x = x * 0.5
    else:
        x = -x
    return x * 2


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 0), lambda: (v(-9, 2), 5))
def exits_of_several_kinds(x, n: int):
    """A `break`, a `return` and an exception, each on one of the ways through a loop."""
    try:
        for k in range(6):
            if n == 0:
                if x.sum() > 0:
                    break
                x = x + 1
            elif n == 3:
                if k == 2:
                    return x, "returned"
                x = x * 2
            elif k == 4:
                raise ValueError(k)
            x = x + k
            print(k)
        x = x - 1
    except ValueError as e:
        return x, str(e)
    return x, "end"


@nasty(lambda: (v(1, 2),), lambda: (v(1, 2, 3),))
def finally_of_what_surely_fails(x):
    """What stands there is done before the handler around it."""
    y, k = x * 2, 1
    try:
        try:
            len(3)
        finally:
            y[1] += 2
            k = 7
    except TypeError as error:
        print(error)
    return y.sum() * k
