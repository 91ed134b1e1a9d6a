"""Sizes in registers: what is known at entry is computed there, once, the rest where it is needed."""

import operator
from collections.abc import Callable, Container, Iterable, Iterator
from functools import reduce
from typing import Any

from jitgrad.codegen.llvm.function import Function
from jitgrad.dims import Atom, Dim, Size, Symbol, symbols
from jitgrad.kernels.values import Code, V


class Sizes:
    """Prints sizes as i64. `at_entry`: the symbols that are known there."""

    def __init__(self, function: Function, at_entry: Container[Symbol]):
        self.function, self.at_entry = function, at_entry
        self.known: dict[Size, str] = {}        # sizes that are computed in `entry`
        self.variables: dict[Symbol, str] = {}  # other symbols: their variable

    def value(self, size: Size, code: Code | None = None) -> V:
        """A size as i64. What is known at entry is computed there, once."""
        code = code or self.function.code
        if isinstance(size, int):
            return V(code, str(size), "i64", 1)
        return self._once(size, code, self._compute)

    def _once(self, size: Dim, code: Code, compute: Callable[[Dim, Code], V]) -> V:
        name = self.known.get(size)
        if name is None and all(s in self.at_entry for s in symbols(size)):
            name = self.known[size] = compute(size, self.function.entry).name
        return V(code, name, "i64", 1) if name is not None else compute(size, code)

    def _compute(self, size: Dim, code: Code) -> V:
        def factors(later: tuple[Atom, ...], coefficient: Size) -> Iterator[V]:
            if coefficient == size:
                yield self._sum(size, code)
            elif coefficient != 1 or not later:
                yield self.value(coefficient, code)
            yield from (self._atom(a, code) for a in later)

        return reduce(lambda a, b: V(code, a.name, "i64", 1) + b, (
            _multiplied(factors(*part), code) for part in self._parts(size)))

    def _parts(self, size: Dim) -> list[tuple[tuple[Atom, ...], Size]]:
        """`size` as a sum of products: atoms that are known only here, and a factor that is known at entry."""
        known = self.at_entry
        parts: dict[tuple[Atom, ...], Size] = {}
        for monomial, coefficient in size.terms:
            later = tuple([a for a in monomial if not all(s in known for s in symbols(alone(a)))])
            factor: Size = coefficient
            for a in monomial:
                if a not in later:
                    factor = alone(a) * factor
            parts[later] = factor + parts.get(later, 0)
        return list(parts.items())

    def _sum(self, size: Dim, code: Code) -> V:
        """A sum of products of atoms that are known at entry."""
        def term(monomial: tuple[Atom, ...], coefficient: int) -> V:
            if not monomial:
                return V(code, str(coefficient), "i64", 1)
            found = _multiplied((self._atom(a, code) for a in monomial), code)
            return found if coefficient == 1 else found * coefficient

        return reduce(operator.add, (term(*t) for t in size.terms))

    def _atom(self, atom: Atom, code: Code) -> V:
        """A symbol, or a function of sizes, which is computed once where it is known at entry."""
        if isinstance(atom, Symbol):
            return self._once(alone(atom), code, lambda _, code: code.read("i64", self.variable_of(atom)))
        return self._once(alone(atom), code, lambda _, code: self._call(atom, code))

    def variable_of(self, symbol: Symbol) -> str:
        found = self.variables.get(symbol)
        if found is None:
            found = self.variables[symbol] = self.function.variable("i64")
        return found

    def _call(self, call: Any, code: Code) -> V:
        a, *rest = [self.value(s, code) for s in call.args]
        a = V(code, a.name, "i64", 1)
        if call.fn == "not_one":
            return a.ne(1).cast("zext", "i64")
        for b in rest:
            if call.fn in ("min", "max"):
                a = a.intrinsic("s" + call.fn, b)
            elif call.fn == "bcast":
                a = a.ne(1).where(a, b)
            else:
                divisor = V(code, b.name, "i64", 1).eq(0).where(1, b)
                quotient, remainder = a.op("sdiv", divisor), a.op("srem", divisor)
                off = remainder.ne(0) & ((remainder ^ divisor) < 0)
                a = off.where(quotient - 1, quotient) if call.fn == "floordiv" else off.where(
                    remainder + divisor, remainder)
        return a


def _multiplied(factors: Iterable[V], code: Code) -> V:
    return reduce(lambda a, b: V(code, a.name, "i64", 1) * b, factors)


def alone(atom: Atom) -> Dim:
    """A size that is one symbol or call."""
    return Dim((((atom,), 1),))
