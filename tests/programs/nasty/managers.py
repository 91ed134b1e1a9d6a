"""Context managers that keep exceptions from going on, in some runs or all."""

from __future__ import annotations

import contextlib

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def leaf(value: float):
    return torch.tensor([value, value], requires_grad=True)


CALLS = tuple([lambda value=value, n=n: (leaf(value), n) for n in range(4) for value in (1.0, 0.2)])


class Swallow:
    """Takes some kinds."""

    def __init__(self, *kinds):
        self.kinds = kinds
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.seen.append(None if kind is None else kind.__name__)
        return kind is not None and issubclass(kind, self.kinds)


class Words:
    """Takes all, and keeps what they say."""

    def __init__(self):
        self.words = []

    def __enter__(self):
        return self.words

    def __exit__(self, kind, error, trace):
        self.words.append("left" if error is None else str(error))
        return True


class Maybe:
    """Takes all where its tensor is large."""

    def __init__(self, x):
        self.x = x

    def __enter__(self):
        return self

    def __exit__(self, *a):
        return self.x.sum() > 1


@nasty(*CALLS)
def names_bound_where_it_is_suppressed(x, n: int):
    """What was bound before the exception is bound behind the `with`, on every way."""
    y = x
    with contextlib.suppress(ValueError, KeyError):
        y = x * 2
        if n > 1:
            y = y * 5
            raise ValueError("a")
        y = x * 3
    return y


@nasty(*CALLS)
def suppressed_in_each_iteration(x, n: int):
    """A quotient of numbers of the run."""
    t = x + 1
    for k in range(n):
        with contextlib.suppress(ZeroDivisionError):
            t = t + 1 / (k - 1)
            t = t * 2
    return t


@nasty(*CALLS)
def taken_by_its_class(x, n: int):
    """The manager is told what came, once."""
    s = Swallow(ValueError)
    with s:
        if n == 2:
            raise ValueError("two")
        x = x * 2
    return x, s.seen


@nasty(*CALLS)
def taken_or_handled_outside(x, n: int):
    """Of two exceptions the manager takes one and a `try` the other."""
    s = Swallow(ValueError)
    try:
        with s:
            if n == 2:
                raise KeyError("two")
            if n == 1:
                raise ValueError
            x = x * 2
    except KeyError:
        x = x * 7
    return x, s.seen


@nasty(*CALLS)
def break_through_a_manager(x, n: int):
    """`__exit__` is called without an exception."""
    s, x = Swallow(ValueError), x + 1
    for k in range(3):
        with s:
            if k == n:
                break
            x = x * 2
    return x, s.seen


@nasty(*CALLS)
def return_through_a_manager(x, n: int):
    """The same for `return`."""
    s = Swallow(ValueError)
    with s:
        return x * 2
    return x


@nasty(*CALLS)
def taken_whatever_comes(x, n: int):
    """`__exit__` is always true, and writes down the message."""
    w = Words()
    with w as words:
        words.append("in")
        if n > 0:
            raise RuntimeError(f"n is {n}")
        x = x + 1
    return x, len(words)


@nasty(*CALLS)
def taken_where_a_tensor_says_so(x, n: int):
    """Whether the exception goes on is known only at run time."""
    with Maybe(x):
        if n > 1:
            raise ValueError("x")
        x = x * 2
    return x


@nasty(*CALLS)
def index_suppressed(x, n: int):
    """An index that only the run knows."""
    with contextlib.suppress(IndexError):
        x = x * [1, 2][n]
        x = x * 10
    return x


@nasty(*CALLS)
def suppressed_around_a_mode(x, n: int):
    """The mode ends with the exception."""
    with contextlib.suppress(ValueError), torch.no_grad():
        x = x * 2
        if n > 1:
            raise ValueError
    return x * 3


@nasty(*CALLS)
def managers_in_managers(x, n: int):
    """The inner one is asked first."""
    with Swallow(ValueError) as s:
        with Swallow(KeyError) as q:
            if n == 0:
                raise KeyError(1)
            if n == 1:
                raise ValueError(2)
            if n == 2:
                raise TypeError(3)
    return x, s.seen, q.seen


@nasty(*CALLS)
def suppressed_from_a_function(x, n: int):
    """What the function raises, in some runs."""
    def inner(v):
        if n == 1:
            raise ValueError("inner")
        return v * 2
    y = x
    with contextlib.suppress(ValueError):
        y = inner(x) + 1
        y = y + 1
    return y


@nasty(*CALLS)
def text_that_is_no_number(x, n: int):
    """`int` of a text that a branch chose."""
    r = None
    with contextlib.suppress(ValueError):
        r = int("x1" if n else "3")
    return r if r is not None else x


@nasty(*CALLS)
def continue_through_a_manager(x, n: int):
    """In a `while`, beside an exception."""
    k = 0
    while k < 4:
        k += 1
        with Swallow(ValueError):
            if k == n:
                continue
            if k == 3:
                raise ValueError
            x = x * 2
    return x


@nasty(*CALLS)
def assertion_suppressed(x, n: int):
    """By a base class of its class."""
    with contextlib.suppress(Exception):
        assert x.sum() < 2, "big"
        x = x * 2
    return x


@nasty(*CALLS)
def nothing_suppressed(x, n: int):
    """`suppress()` takes nothing."""
    with contextlib.suppress():
        x = x * 2
    return x


class Named:
    """Says when it is entered and left, and with what."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        print("in", self.name)
        return self.name

    def __exit__(self, kind, error, trace):
        print("out", self.name, kind)


def fails():
    raise ValueError("left badly")


@nasty(lambda: (leaf(1.0), 2), lambda: (leaf(2.0), 3))
def stacks_of_managers(x, n: int):
    """`ExitStack`: some entered under a condition, callbacks of a loop, what is kept for later."""
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(Named(4))
        if n > 2:
            stack.enter_context(Named(n))
        x = x * a
    with contextlib.ExitStack() as stack:
        for k in range(n):
            stack.callback(print, "k", k)
    with contextlib.ExitStack() as stack:
        stack.callback(print, "kept", sep="-")
        kept = stack.pop_all()
    print("later")
    kept.close()
    kept.close()
    return x


@nasty(lambda: (leaf(1.0), 2), lambda: (leaf(2.0), 3))
def a_stack_that_fails_while_it_is_left(x, n: int):
    """Those entered before are told, and may take it."""
    for taker in (Named(1), Swallow(ValueError)):
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(taker)
                stack.callback(fails)
                stack.enter_context(Named(2))
            print("taken")
        except ValueError as e:
            print("got", e)
    return x * n
