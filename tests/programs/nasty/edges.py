"""Where Python has a rule that few remember: who binds a name, what an object is taken for, what an error says."""

from __future__ import annotations

import operator
from typing import Any

import jitgrad as torch
from tests.programs.nasty.harness import nasty

INTS = (lambda: (3,), lambda: (0,), lambda: (7,), lambda: (-4,))
TENSORS = (lambda: (torch.tensor([1.0, -2.0, 3.0], requires_grad=True), 2),
           lambda: (torch.tensor([0.5, 2.0, -1.0], requires_grad=True), 5),
           lambda: (torch.tensor([1.5, 2.5, -1.5], requires_grad=True), 0))


class Ordinal:
    """A number to those who ask it."""

    def __init__(self, v):
        self.v = v

    def __int__(self):
        return self.v * 10

    def __index__(self):
        return abs(self.v)

    def __float__(self):
        return self.v + 0.5

    def __reversed__(self):
        return [3, 2, self.v]

    def __iter__(self):
        yield self.v

    def __divmod__(self, other):
        return (self.v, other)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@nasty(*INTS)
def walrus_in_a_quantifier(n: int):
    """What `:=` binds is bound as far as the generator was taken, not further."""
    found = any((hit := k) * k > n for k in range(5))
    every = all((seen := k) < n for k in range(3))
    return found, hit, every, seen


@nasty(*INTS)
def walrus_in_generators(n: int):
    """It is a variable of the function around, also where the items are taken one by one."""
    out = []
    for v in ((m := k) * 2 for k in range(3)):
        out.append((v, m))
    first = next(((q := k) for k in range(10) if k > n), None)
    total = sum((r := k) for k in range(4))
    return out, m, first, q, total, r


@nasty(*INTS)
def first_bound_by_a_loop_of_an_inner_function(n: int):
    """A variable that no iteration of the loop has found bound."""
    def search():
        nonlocal last
        for k in range(n):
            last = k * k
            if last > 3:
                return True
        return False

    for last in ():  # binds nothing
        pass
    if search():
        return last
    try:
        return last
    except UnboundLocalError as error:
        return str(error)


@nasty(*TENSORS)
def generator_under_a_grad_mode(x, n: int):
    """The mode is that of the generator's statements, not of who takes the items."""
    @torch.no_grad()
    def multiples():
        for k in range(n):
            yield x * k

    out: list[Any] = []
    for v in multiples():
        y = x * 2
        out.append((v.requires_grad, y.requires_grad))
    return out, x * 3


@nasty(*INTS)
def yield_from_what_the_run_says(n: int):
    """The loop inside `yield from` ends with the loop that takes the items."""
    def items():
        yield 100
        yield from range(n)
        yield from [5, n]

    out = []
    for v in items():
        if v == 2:
            break
        out.append(v)
    return out, sum(items())


@nasty(*INTS)
def one_of_several_exceptions_raised(n: int):
    """A class or an object that the run chooses."""
    kinds = (ValueError, KeyError("x"), IndexError)
    try:
        raise kinds[n % 3]
    except (ValueError, LookupError) as error:
        return type(error).__name__, error.args


@nasty(*INTS)
def an_exception_chosen_and_not_handled(n: int):
    """Which one it is, only the run knows."""
    raise (ValueError, IndexError)[n > 2](n)


@nasty(*INTS)
def an_object_that_is_a_number(n: int):
    """`__int__`, `__index__`, `__float__`, `__reversed__`, `__divmod__`."""
    a = Ordinal(n)
    return (int(a), float(a), list("abcdefgh")[a], "x" * a, a * [1], len(range(a)), list(reversed(a)), list(a),
            divmod(a, 3), round(float(a)))


@nasty(*INTS)
def looked_for_in_a_tuple(n: int):
    """Equality of what only the run knows."""
    t = (n, 2, 3, n)
    try:
        place = t.index(7, 1)
    except ValueError as error:
        place = str(error)
    return t.count(3), t.index(3), t.count(n), place


@nasty(*INTS)
def true_or_a_number(n: int):
    """`True` is not `1`."""
    v = True if n > 2 else 1
    return v is True, v == 1, (n > 2) is True, v is not False


@nasty(*INTS)
def text_or_a_number(n: int):
    """What one of them has no meaning for raises where it is that one."""
    v = n if n > 2 else "ab"
    out = []
    for operation in (lambda: v + "!", lambda: v * 2, lambda: v[0], lambda: len(v), lambda: v < 5, lambda: -v):
        try:
            out.append(str(operation()))
        except TypeError as error:
            out.append(str(error))
    return out, v == "ab", f"{v!r:>5}"


@nasty(*TENSORS)
def a_tensor_or_its_parts(x, n: int):
    """Items of a tensor, or of a tuple."""
    v = x if n > 2 else (x * 2, x * 3)
    return v[0], len(v), [u.sum() for u in v]


@nasty(*INTS)
def attributes_without_a_dict(n: int):
    """`__slots__` lets nothing else in."""
    s = Slotted(n)
    out = []
    try:
        out.append(s.b)
    except AttributeError as error:
        out.append(str(error))
    s.b = 2
    try:
        s.c = 3
    except AttributeError as error:
        out.append(str(error))
    return out, s.a, s.b


@nasty(*INTS)
def arguments_by_keyword(n: int):
    """Built-ins that take one, and those that do not."""
    out = []
    for call in (lambda: len([], []), lambda: sorted([1], 2), lambda: min(), lambda: bool(1, 2), lambda: abs(x=1),
                 lambda: print(n, foo=1), lambda: [1].append(), lambda: {}.get(), lambda: int(n, base=2)):
        try:
            call()
            out.append("no error")
        except TypeError as error:
            out.append(str(error))
    return out, int("11", base=2), str(object=n), sum([n], start=1), list(enumerate("ab", start=n))


@nasty(*INTS)
def formats_that_do_not_fit(n: int):
    """Text of text, and errors that a handler sees."""
    out = [f"{[1, n]!r:>10}", f"{(n,)!s:<8}|", f"{n!r:>4}"]
    for call in (lambda: f"{n:q}", lambda: f"{n:.2d}", lambda: round("s"), lambda: round(n, "s"),
                 lambda: [1].insert("a", n), lambda: isinstance(n, 3), lambda: round(float("nan"))):
        try:
            call()
            out.append("no error")
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return out


@nasty(*TENSORS)
def numbers_alone_have_these(x, n: int):
    """A tensor has no `divmod` and no `round`."""
    out = [str(divmod(n, 3)), str(round(n, -1))]
    for call in (lambda: divmod(x, 2), lambda: round(x), lambda: n @ n, lambda: n & 1.5, lambda: ~(n / 2)):
        try:
            call()
            out.append("no error")
        except TypeError as error:
            out.append(str(error))
    return out


@nasty(*INTS)
def what_python_says_of_operands(n: int):
    """Sequences and numbers, sequences of other kinds, what has no order."""
    out = []
    for call in (lambda: "a" + n, lambda: [1] + (n,), lambda: (1,) + [n], lambda: "a" * (n / 2), lambda: n < "a",
                 lambda: [n] < n, lambda: None < n, lambda: {"a": n} < {"b": 1}, lambda: 1 in n,
                 lambda: {[n]: 1}, lambda: (lambda a: a)(), lambda: (lambda a, b=1: a)(1, 2, n), lambda: [].foo):
        try:
            call()
            out.append("no error")
        except (TypeError, AttributeError) as error:
            out.append(str(error))
    return out


@nasty(*INTS)
def parts_of_numbers(n: int):
    """Attributes and methods of numbers."""
    return (n.real, n.imag, n.numerator, n.denominator, n.bit_length(), n.bit_count(), n.conjugate(), (n / 2).imag,
            (n > 2).real, n.__class__ is int, operator.methodcaller("count", 3)([3, n]))


@nasty(lambda: (3, True), lambda: (3, False), lambda: (5, False))
def an_exception_that_is_kept(n: int, flag: bool):
    """It holds what only the run knows, and a branch chooses it."""
    kept = None
    for k in range(n):
        try:
            if k > 2 or flag:
                raise ValueError("late", n + k)
        except ValueError as error:
            kept = error
    try:
        raise KeyError(n) if kept is None else kept
    except LookupError as error:
        return "none", error.args
    except ValueError as error:
        return "kept", error.args


@nasty(lambda: (3, True), lambda: (3, False), lambda: (0, False))
def a_finally_that_raises(n: int, flag: bool):
    """What it raises takes the place of what was on its way, in the runs that it does."""
    log = []
    try:
        try:
            raise KeyError("first")
        finally:
            log.append("finally")
            if not flag:
                raise TypeError("second")
    except TypeError as error:
        log.append(str(error))
    except KeyError as error:
        log.append(repr(error))
    try:
        try:
            raise AttributeError("third")
        finally:
            log.append(str(6 // n))
    except ZeroDivisionError as error:
        log.append(str(error))
    return log


@nasty(lambda: (3, True), lambda: (3, False), lambda: (0, False))
def a_finally_that_raises_on_the_way_out(n: int, flag: bool):
    """A return or a break does not take place then."""
    log = []

    def search():
        try:
            for k in range(n):
                try:
                    pass
                except ValueError:
                    pass
                else:
                    return 5
                finally:
                    log.append("f")
                    "a" + k
        except TypeError:
            return -1
        return 0

    for k in range(n):
        try:
            try:
                if k == 1:
                    break
            finally:
                log.append("g")
                if flag and k == 1:
                    raise ValueError
        except ValueError:
            log.append("v")
    return search(), log


@nasty(lambda: (torch.ones(2, 2), 0.5), lambda: (torch.ones(2, 2), 2))
def a_number_where_a_tensor_is_wanted(w, s):
    """The message has its type."""
    return torch.matmul(s, w)
