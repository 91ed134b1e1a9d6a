"""Sizes of axes: an int, or an integer expression over symbols in canonical form.

A `Dim` is a polynomial with integer coefficients over *atoms*; an atom is a `Symbol` (bound by a graph input, a block
parameter, an op with data-dependent size, or `dim.bind`) or an opaque function of dims (floor division, remainder,
min, max, broadcast). Two sizes are equal where their canonical forms are equal. Arithmetic that cancels to a
constant returns a plain int, so `isinstance(d, int)` is the test for "known".
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Union

_numbering = itertools.count()


class Symbol:
    """One unknown size. `not_one` says that it is known to differ from 1 (so it never broadcasts)."""

    __slots__ = ("name", "not_one", "number")

    def __init__(self, name: str = "", *, not_one: bool = False):
        self.number = next(_numbering)
        self.name = name or f"s{self.number}"
        self.not_one = not_one

    def __repr__(self) -> str:
        return self.name


class Call:
    """An opaque function of dims: `floordiv`, `mod`, `min`, `max`, `bcast`."""

    __slots__ = ("_hash", "_text", "args", "fn")

    def __init__(self, fn: str, args: tuple[Size, ...]):
        self.fn, self.args = fn, args
        self._hash = hash((fn, args))
        self._text = ""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Call) and self._hash == other._hash and self.fn == other.fn
                                 and self.args == other.args)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if not self._text:  # kept: sorting asks again and again, and calls nest
            self._text = f"{self.fn}({', '.join([render(a, repr) for a in self.args])})"
        return self._text


Atom = Union[Symbol, Call]
Monomial = tuple[Atom, ...]  # sorted by `_order`; () is the constant term


def _order(atom: Atom) -> tuple[int, str]:
    return (atom.number, "") if isinstance(atom, Symbol) else (1 << 60, repr(atom))


class Dim:
    """A size that is not a constant: monomial -> coefficient, never empty, never only the constant term."""

    __slots__ = ("_hash", "_symbols", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        self.terms = terms
        self._hash = hash(terms)
        self._symbols: frozenset[Symbol] | None = None  # found when first asked for

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that this dim is, or None where it is an expression."""
        if len(self.terms) == 1:
            (monomial, coefficient), = self.terms
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
                return monomial[0]
        return None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self._hash == other._hash and self.terms == other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Size) -> Size:
        if other == 0:
            return self
        terms = dict(self.terms)
        for monomial, coefficient in _terms(other):
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _make(terms)

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            if other == 1:
                return self
            return Dim(tuple([(m, c * other) for m, c in self.terms])) if other else 0
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                m = tuple(sorted(m1 + m2, key=_order))
                terms[m] = terms.get(m, 0) + c1 * c2
        return _make(terms)

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + (other * -1)

    def __rsub__(self, other: Size) -> Size:
        return (self * -1) + other

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        if _spelling.into is not None:
            _spelling.into.append(self)
            return f"\0{len(_spelling.into) - 1}\0"
        return render(self, repr)


Size = Union[int, Dim]


def render(size: Size, atom: Callable[[Atom], str], times: str = "*", number: Callable[[int], str] = str) -> str:
    """`size` as a sum of products: of a number, left out where it is 1, and what `atom` makes of symbols and calls."""
    if isinstance(size, int):
        return number(size)
    terms = []
    for monomial, coefficient in size.terms:
        factors = [atom(a) for a in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, number(coefficient))
        terms.append(times.join(factors))
    return " + ".join(terms)


def render_call(fn: str, args: Sequence[str]) -> str:
    """A function of sizes as Python: an operator, in parentheses, where there is one."""
    operator = {"floordiv": " // ", "mod": " % "}.get(fn)
    return f"({operator.join(args)})" if operator else f"{fn}({', '.join(args)})"


class _Spelling(threading.local):
    into: list[Dim] | None = None


_spelling = _Spelling()


@contextmanager
def spelled() -> Iterator[list[Dim]]:
    """Inside, a Dim prints as NUL, its number, NUL, and is appended to the list: how messages become templates."""
    found: list[Dim] = []
    _spelling.into = found
    try:
        yield found
    finally:
        _spelling.into = None


def dim(symbol: Symbol) -> Dim:
    """The dim that is just `symbol`."""
    return Dim((((symbol,), 1),))


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    return size.terms if isinstance(size, Dim) else (((), size),)


def _make(terms: dict[Monomial, int]) -> Size:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    if len(kept) > 1:
        kept.sort(key=lambda t: (len(t[0]), [_order(a) for a in t[0]]))
    return Dim(tuple(kept))


def call(fn: str, *args: Size) -> Size:
    """`fn` of sizes, folded where all are ints or an identity applies."""
    if all(isinstance(a, int) for a in args):
        return FUNCTIONS[fn](*args)
    if fn in ("min", "max", "bcast"):
        distinct = tuple(dict.fromkeys(args))
        if len(distinct) == 1:
            return distinct[0]
        if fn == "bcast":
            distinct = tuple(a for a in distinct if a != 1)
            if len(distinct) == 1:
                return distinct[0]
            for a in distinct:
                if is_not_one(a):
                    return a  # the other is 1 or equal, by the check that precedes every broadcast
            args = distinct
        else:
            args = _flat(fn, distinct)
            if len(args) == 1:
                return args[0]
    if fn == "floordiv":
        quotient = exact_quotient(args[0], args[1])
        if quotient is not None:
            return quotient
        if isinstance(args[1], int) and args[1] > 0:
            return _split_quotient(args[0], args[1])
    if fn == "mod" and exact_quotient(args[0], args[1]) is not None:
        return 0
    return Dim((((Call(fn, tuple(args)),), 1),))


def _flat(fn: str, args: tuple[Size, ...]) -> tuple[Size, ...]:
    """The operands of a `min` or `max` in another one beside the others, if these are two at most: min(min(a, 2), 3)
    is min(a, 2)."""
    parts: list[Size] = []
    for a in args:
        atoms = a.terms[0][0] if isinstance(a, Dim) and len(a.terms) == 1 and a.terms[0][1] == 1 else ()
        inner = atoms[0] if len(atoms) == 1 and isinstance(atoms[0], Call) and atoms[0].fn == fn else None
        parts += [a] if inner is None else inner.args
    known = [a for a in parts if isinstance(a, int)]
    found: tuple[Size, ...] = tuple(dict.fromkeys(a for a in parts if not isinstance(a, int)))
    if known:
        found = (*found, FUNCTIONS[fn](known))
    return found if len(found) <= 2 else args


def _split_quotient(a: Size, n: int) -> Size:
    """a // n with the multiples of n in front: (2h - 1) // 2 is h - 1, (h - 1) // 2 is (h + 1) // 2 - 1."""
    whole = _make({m: c // n for m, c in _terms(a)})
    rest = _make({m: c % n for m, c in _terms(a)})
    if isinstance(rest, int):
        return whole + rest // n
    part = Dim((((Call("floordiv", (rest, n)),), 1),))
    return part + whole


def exact_quotient(a: Size, b: Size) -> Size | None:
    """a / b where every term of `a` is a multiple of the single-term `b`."""
    b_terms = _terms(b)
    if len(b_terms) != 1 or b_terms[0][1] == 0:
        return None
    b_monomial, b_coefficient = b_terms[0]
    result: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(a):
        rest = list(monomial)
        for atom in b_monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % b_coefficient:
            return None
        result[tuple(rest)] = coefficient // b_coefficient
    return _make(result)


def floordiv(a: Size, b: Size) -> Size:
    return call("floordiv", a, b)


def mod(a: Size, b: Size) -> Size:
    return call("mod", a, b)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes; 1 for none."""
    result: Size = 1
    for s in sizes:
        result = s * result if isinstance(result, int) else result * s
    return result


FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
    "bcast": lambda *sizes: next((s for s in sizes if s != 1), 1),
    "not_one": lambda a: int(a != 1),  # factor of a stride that vanishes where a size of 1 is repeated
}


def is_small(size: Size) -> bool:
    """Whether a size is less than 2**53, as sizes of tensors are that it is made of by small factors."""
    return all(abs(factor) <= 1 << 10 for _, factor in _terms(size))


def is_difference(size: Size) -> bool:
    """Whether something is subtracted in `size`, so that it might be negative where its symbols are not."""
    return isinstance(size, Dim) and any(coefficient < 0 or any(
        is_difference(a) for atom in monomial if isinstance(atom, Call) for a in atom.args)
        for monomial, coefficient in size.terms)


def is_not_one(size: Size) -> bool:
    """Whether `size` is known to differ from 1."""
    if isinstance(size, int):
        return size != 1
    symbol = size.symbol
    if symbol is not None:
        return symbol.not_one
    if math.gcd(*[c for _, c in size.terms]) != 1:
        return True
    if len(size.terms) == 1:  # a product of sizes none of which is 1
        (monomial, _), = size.terms
        return any(isinstance(a, Symbol) and a.not_one for a in monomial)
    return False


def symbols(size: Size) -> frozenset[Symbol]:
    """The symbols that occur in `size`."""
    if isinstance(size, int):
        return _NO_SYMBOLS
    known = size._symbols
    if known is None:
        found: set[Symbol] = set()
        for monomial, _ in size.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    found.update(*[symbols(a) for a in atom.args])
        known = size._symbols = frozenset(found)
    return known


_NO_SYMBOLS: frozenset[Symbol] = frozenset()


def evaluate(size: Size, values: Mapping[Symbol, int]) -> int:
    """The number that `size` is under `values`; KeyError for an unbound symbol."""
    known = substitute(size, values)
    if isinstance(known, Dim):
        raise KeyError(f"unbound symbols in the size `{known}`")
    return known


def substitute(size: Size, mapping: Mapping[Symbol, Size]) -> Size:
    """`size` with symbols replaced; symbols that `mapping` lacks stay, except that `evaluate` needs all."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        term: Size = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                factor: Size = mapping[atom] if atom in mapping else dim(atom)
            else:
                factor = call(atom.fn, *(substitute(a, mapping) for a in atom.args))
            term = factor * term if isinstance(term, int) else term * factor
        total = term + total if isinstance(total, int) else total + term
    return total


class Assumed(IntEnum):
    """What a program takes sizes to be at every call: nothing; those that were equal at the first call, equal; those of
    parameters, which a model has for life, the constants that they are, too."""

    NOTHING = 0
    EQUAL = 1
    PARAMETERS = 2
