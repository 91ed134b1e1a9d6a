"""Operators of classes: which operand is asked first, and tensors beside objects."""

from __future__ import annotations

import jitgrad as torch
from tests.programs.nasty.harness import nasty


def v(*values):
    return torch.tensor([float(k) for k in values])


class Vec:
    def __init__(self, t):
        self.t = t

    def __add__(self, other):
        return Vec(self.t + (other.t if isinstance(other, Vec) else other))

    def __radd__(self, other):
        return Vec(other + self.t * 10)

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Vec(self.t * other)

    def __rmul__(self, other):
        return Vec(self.t * other * 100)

    def __matmul__(self, other):
        return self.t @ other.t

    def __lt__(self, other):
        return "less"


class Kid(Vec):
    """Asked first where the other is a Vec."""

    def __radd__(self, other):
        return Vec(self.t * 0 + 7)

    def __gt__(self, other):
        return "the kid is greater"


class Same(Vec):
    """Overrides nothing, and is not asked first."""


class Right:
    """Has the reflected operator alone."""

    def __rsub__(self, other):
        return other * 2

    def __gt__(self, other):
        return "greater"

    def __eq__(self, other):
        return "equal"

    __hash__ = None


@nasty(lambda: (v(1, 2), v(3, 4)), lambda: (v(1, 2).requires_grad_(), v(3, 4).requires_grad_()))
def subclass_is_asked_first(x, y):
    """The operand on the left is asked first whatever the classes."""
    a, b, c = Vec(x * 1), Kid(y * 1), Same(y * 1)
    return (a + b).t, (b + a).t, (b + b).t, (a + c).t, (c + a).t, a < b, b < a


@nasty(lambda: (v(1, 2), v(3, 4), 2), lambda: (v(1, 2).requires_grad_(), v(3, 4), 0))
def objects_beside_tensors(x, y, n: int):
    """A tensor takes no object, and refuses it before the object's class is asked."""
    a, r = Vec(x * 1), Right()
    return (a + y).t, (y + a).t, (y * a).t, (a * y).t, (n * a).t, a @ Vec(y), x - r, n - r, x < r, x == r, r == x


@nasty(lambda: (2,), lambda: (0,))
def own_class_is_not_asked_twice(n: int):
    """Two of one class: the reflected operator is not asked."""
    try:
        return Right() - Right()
    except TypeError as e:
        return str(e), n


@nasty(lambda: (v(1, 2), 4), lambda: (v(1, 2), 1), lambda: (v(), 3))
def compared_up_to_what_decides(x, n: int):
    """Tensors are compared although an item before them differs, or although they are one object."""
    y = x * 2
    a = x if n > 2 else y
    print((1, x) == (2, y), 1 in [1, x], (n, x) == (n + 1, y), [n, y] == [0, x], {"a": 1, "b": x} == {"a": 2, "b": y})
    print((n, x) < (n + 1, y), [1, x].index(1), [x, y].index(x), a in [x, y], [a, n] == [a, n], a is x)
    return (n, x) == (4, y)


@nasty(lambda: (v(1, 2), float("nan")), lambda: (v(1, 2), 2.0))
def not_a_number_is_itself(x, f: float):
    """A NaN is not found in the list that holds it."""
    t = x.sum().item() * f
    xs = [t, f]
    return t in xs, xs == xs, [f] == [f], (t,) == (t,), xs.count(t), xs.index(f), [t] == [t * 1]


@nasty(lambda: (v(1, 2), 3), lambda: (v(1, 2), 2), lambda: (v(1, 2), 1))
def a_tensor_and_what_is_none(x, n: int):
    """The message speaks of the classes of the program, not of the compiler's."""
    try:
        if n > 2:
            return x + [n]
        if n > 1:
            return {n: x} - x
        return x < [n]
    except TypeError as error:
        return str(error)


@nasty(lambda: (torch.tensor(2),), lambda: (torch.tensor([3]),), lambda: (torch.tensor([1, 2]),),
       lambda: (torch.tensor(1.5),))
def repeated_as_often_as_a_tensor_says(n):
    """A tensor of one whole number is an index, others are a TypeError."""
    said = "ab" * n + n * "c"
    print(said)
    return [1, 2] * n, len([n] * n)
