"""What is known of sizes: what is assumed of argument symbols, lower bounds, first-call hints."""

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Assumed, Call, Dim, Size, Symbol, dim, evaluate, product, substitute, symbols
from jitgrad.ops.types import TensorType, Type, map_dims, short_name
from jitgrad.script.graph.ir import Block, Node, Value, map_attr


class Sizes:
    """Facts that hold for the whole graph.

    Attributes:
        assumed: what is taken to be at other calls as at the first.
        hints: argument symbol -> its size at the first call.
        guards: pairs of sizes over argument symbols that were taken to be equal.
        held: sizes of parameters, each with the constant that it is taken to be.
        trips: pairs of sizes at entry that are equal where a loop runs (or does not) as at the first call.
        signed: symbols bound to ints that may be negative.
        changed: how often a size has come to stand for another one.
    """

    __slots__ = ("_canonical", "_constant", "_guarded", "_has", "_parts", "_replaced", "assumed", "changed", "guards",
                 "held", "hints", "signed", "trips")

    def __init__(self, assumed: Assumed):
        self.assumed = assumed
        self.changed = 0
        self.held: list[tuple[Size, Size]] = []
        self.hints: dict[Symbol, int] = {}
        self.guards: list[tuple[Size, Size]] = []
        self.trips: list[tuple[Size, Size]] = []
        self.signed: set[Symbol] = set()
        self._replaced: dict[Symbol, Size] = {}
        self._canonical: dict[Size, Size] = {}  # what `canonical` found, while none of its symbols was replaced
        self._has: dict[Symbol, list[Size]] = {}  # sizes among those, by the symbols in what was found
        self._constant: dict[Size, int] = {}  # sizes of several symbols that are guarded to be a constant
        self._guarded: set[tuple[Size, Size]] = set()  # the guards again, to search
        self._parts: list[tuple[Symbol, Size, int]] = []  # (s, q, n): s == n * q where q is a quotient of s

    def argument(self, hint: int) -> Size:
        """The size of an argument's axis: 1, or a fresh symbol."""
        if hint == 1:
            return 1
        symbol = Symbol(not_one=True)
        self.hints[symbol] = hint
        return dim(symbol)

    def hold(self, sizes: Sequence[Size], values: Sequence[int]) -> None:
        """Guard that sizes of arguments, which nothing knows by their symbols, are these constants."""
        self.held += [(size, n) for size, n in zip(sizes, values, strict=True) if size != n]

    def canonical(self, size: Size) -> Size:
        """`size` with unified symbols replaced."""
        replaced = self._replaced
        if isinstance(size, int) or not self.changed:
            return size
        found = self._canonical.get(size)
        if found is None:
            found = size
            while not isinstance(found, int) and not replaced.keys().isdisjoint(symbols(found)):
                found = substitute(found, replaced)  # what a symbol stands for may have been replaced since
            found = self._constant.get(found, found)
            self._canonical[size] = found
            for symbol in symbols(found):
                self._has.setdefault(symbol, []).append(size)
        return found

    def _replace(self, symbol: Symbol, size: Size) -> None:
        self._replaced[symbol] = size
        self.changed += 1
        for known in self._has.pop(symbol, ()):
            self._canonical.pop(known, None)

    def canonical_type(self, type_: Type) -> Type:
        """A type with unified symbols replaced."""
        if not self.changed:
            return type_
        if isinstance(type_, TensorType):
            dims = tuple([d if isinstance(d, int) else self.canonical(d) for d in type_.dims])
            return type_ if dims == type_.dims else TensorType(type_.dtype, dims)
        return map_dims(type_, self.canonical)

    def rewrite(self, block: Block) -> None:
        """Write every size in a block in terms of the symbols that remain after unification.

        The graph is still the frontend's alone, so values and attributes are changed in place: a copy would cost more
        than the evaluation.
        """
        for v in block.params:
            self._rewrite(v)
        for n in block.nodes:
            for v in n.outputs:
                self._rewrite(v)
            if n.attrs:
                self._rewrite_attrs(n)
            for b in n.blocks:
                self.rewrite(b)

    def _rewrite(self, v: Value) -> None:
        type_ = self.canonical_type(v.type)
        if type_ is not v.type:
            object.__setattr__(v, "type", type_)

    def _rewrite_attrs(self, n: Node) -> None:
        attrs = n.attrs
        assert isinstance(attrs, dict)
        for key, a in attrs.items():
            if isinstance(a, tuple) or hasattr(a, "terms"):
                attrs[key] = map_attr(a, self.canonical)
            elif key == "type":
                attrs[key] = map_dims(a, self.canonical)

    def needed_guards(self) -> list[tuple[Size, Size]]:
        """The guards without those that follow from others: what a symbol turned out to be may prove them."""
        own = [(a, b) for a, b in self.guards if _is_symbol(a) or _is_symbol(b) or a in self._constant
               or self.canonical(a) != self.canonical(b)]
        return self.held + own

    def equal(self, a: Size, b: Size) -> bool:
        """Whether a == b is known."""
        return a == b or self.canonical(a) == self.canonical(b)

    def hint(self, size: Size) -> int | None:
        """The size at the first call; None where it is not determined by the arguments."""
        if isinstance(size, int):
            return size
        if all(s in self.hints for s in symbols(size)):
            return evaluate(size, self.hints)
        return None

    def word(self, type_: TensorType) -> str:
        """A tensor's type with the sizes of the first call: `f32[3, 4]`; `?` where it is known only at run time."""
        hints = [self.hint(self.canonical(d)) for d in type_.dims]
        return f"{short_name(type_.dtype)}[{', '.join('?' if h is None else str(h) for h in hints)}]"

    def take_equal(self, pairs: Sequence[tuple[Size, Size]]) -> bool:
        """Assume that sizes are equal, pair by pair, where all are at the first call; where the arguments do not decide
        one, where that is known.
        """
        hints = [(self.hint(a), self.hint(b)) for a, b in pairs]
        if any(m != n or (m is None and not self.equal(a, b)) for (a, b), (m, n) in zip(pairs, hints, strict=True)):
            return False
        equal = all(self.assume_equal(a, b) for a, b in pairs)
        self.sharpen()
        return equal

    def assume_equal(self, a: Size, b: Size) -> bool:
        """Unify two sizes over argument symbols that are equal at the first call; False where that cannot be."""
        a, b = self.canonical(a), self.canonical(b)
        if a == b:
            return True
        if self.assumed is Assumed.NOTHING:
            return False
        hint = self.hint(a)
        if hint is None or hint != self.hint(b):
            return False
        self._take_equal(a, b)
        return True

    def sharpen(self) -> None:
        """Draw from the guards so far what they say of sizes by what has been guarded since, as far as it holds now:
        of products, as a reshape has them, what the factors say in which they differ.
        """
        for pair in list(self.guards):
            a, b = map(self.canonical, pair)
            terms = [term for side in (a, b) for term in (side.terms if isinstance(side, Dim) else (((), side),))]
            common = functools.reduce(Counter.__and__, [Counter(atoms) for atoms, _ in terms])
            if a != b and all(self.hint(Dim((((atom,), 1),))) for atom in common):
                self._take_equal(_divided(a, common), _divided(b, common))

    def fix(self, size: Size, value: int) -> None:
        """Guard that a size has the value that it has at the first call: it is this constant from here on."""
        self._take_equal(size, value)

    def _take_equal(self, a: Size, b: Size) -> None:
        """Guard that two sizes are equal, as they are at the first call, and replace a symbol if one is determined."""
        a, b = self.canonical(a), self.canonical(b)
        if a == b:
            return
        pairs = self._stronger(a, b) or self._stronger(b, a)
        if pairs:
            for pair in pairs:
                self._take_equal(*pair)
            return
        if not _is_symbol(a) and not _is_symbol(b):
            a, b = _solved(a, b)
        if isinstance(a, int):
            a, b = b, a
        if (a, b) in self._guarded:
            return
        self._guarded.add((a, b))
        self.guards.append((a, b))
        old, new = (b, a) if _is_symbol(b) else (a, b)
        if not isinstance(old, Dim) or old.symbol is None:  # the guard alone proves it
            if isinstance(b, int):  # so where that very size is met, it is the constant
                self._constant[a] = b
                self.changed += 1
                self._canonical = {size: found for size, found in self._canonical.items() if found != a}
            return  # else later uses compare hints again
        if old.symbol not in symbols(new):
            self._replace(old.symbol, new)
        else:
            self._parts += [(old.symbol, part, n) for part, n in _calls(new) if new == part * n]
        if self._parts:
            self._name_parts()

    def _name_parts(self) -> None:
        """Where s == n * ((s + c) // n) and a symbol stands for the quotient: s in terms of that symbol instead.

        So of four gates in one matrix and a state h, it is the matrix whose size is 4 * h.
        """
        for whole, part, n in self._parts:
            if whole in self._replaced:
                continue
            part = self.canonical(part)
            equal = (part, dim(whole) - part * (n - 1))  # any of the parts, the last
            symbol = next((s for s, size in self._replaced.items() if self.canonical(size) in equal), None)
            if symbol is not None:
                del self._replaced[symbol]
                self._canonical.clear()
                self._replace(whole, dim(symbol) * n)

    def _stronger(self, a: Size, b: Size) -> list[tuple[Size, Size]]:
        """Equalities that hold at the first call and say more than a == b, for a function of sizes."""
        call, hint = _only_call(a), self.hint(b)
        if call is None:
            return []
        if call.fn == "bcast" and hint != 1 and all(self.hint(part) == hint for part in call.args):
            return [(part, b) for part in call.args]
        if call.fn == "floordiv" and isinstance(call.args[1], int):
            top, n = call.args
            other = _only_call(b)
            if other is not None and other.fn == "floordiv" and other.args[1] == n:
                return [(top, other.args[0])] if self.hint(top) == self.hint(other.args[0]) else []
            if isinstance(b, int):
                symbol, rest = _solved(top, b * n)
                if _is_symbol(symbol) and isinstance(rest, int) and self.hint(symbol) == b * n:
                    return [(symbol, b * n)]
        return []

    def at_least(self, size: Size, low: int, all_known: bool = False) -> bool:
        """Whether size >= low is known, symbols but the signed ones being >= 0.

        all_known: by all that is known of functions of sizes. Not where the answer decides how a size is written: what
        a loop makes smaller by halves would have another form in each iteration, and never settle.
        """
        size = self.canonical(size)
        if isinstance(size, int):
            return size >= low
        bound = 0
        for monomial, coefficient in size.terms:
            if monomial == ():
                bound += coefficient
            elif coefficient < 0:
                taken = monomial[0] if all_known and len(monomial) == 1 else None
                rest = size - Dim(((monomial, coefficient),))
                return isinstance(taken, Call) and any(
                    self.at_least(rest * k + most * coefficient, low * k, True) for most, k in _most(taken))
            elif not all(atom not in self.signed if isinstance(atom, Symbol) else
                         self._is_nonnegative(atom) if all_known else _nonnegative(atom) for atom in monomial):
                return False
        return bound >= low

    def _is_nonnegative(self, call: Call) -> bool:
        if call.fn in ("min", "max"):
            return (any if call.fn == "max" else all)(self.at_least(a, 0, True) for a in call.args)
        if call.fn == "floordiv":
            return isinstance(call.args[1], int) and call.args[1] > 0 and self.at_least(call.args[0], 0, True)
        return _nonnegative(call)


def _most(call: Call) -> list[tuple[Size, int]]:
    """(most, k) where a function of sizes is at most `most` / k."""
    if call.fn == "min":
        return [(a, 1) for a in call.args]
    if call.fn in ("floordiv", "mod") and isinstance(call.args[1], int) and call.args[1] > 0:
        return [(call.args[0], call.args[1]) if call.fn == "floordiv" else (call.args[1] - 1, 1)]
    return []


def _calls(size: Size) -> list[tuple[Size, int]]:
    """The functions of sizes that are terms of a size, with their factors."""
    terms = size.terms if isinstance(size, Dim) else ()
    return [(Dim(((m, 1),)), n) for m, n in terms if len(m) == 1 and isinstance(m[0], Call)]


def _divided(size: Size, factors: Counter[Any]) -> Size:
    """A size without factors that all of its terms have."""
    if isinstance(size, int) or not factors:
        return size
    left = [product([coefficient, *[Dim((((atom,), 1),)) for atom in (Counter(atoms) - factors).elements()]])
            for atoms, coefficient in size.terms]
    return sum(left[1:], left[0])


def _only_call(size: Size) -> Call | None:
    """The function of sizes that a size is."""
    found = _calls(size)
    if len(found) == 1 and found[0][0] == size:
        call = found[0][0].terms[0][0][0]  # type: ignore[union-attr]
        return call if isinstance(call, Call) else None
    return None


def _is_symbol(size: Size) -> bool:
    return isinstance(size, Dim) and size.symbol is not None


def _solved(a: Size, b: Size) -> tuple[Size, Size]:
    """a == b as an equation for a symbol that has no factor, and is else nowhere or only in a quotient of its own."""
    difference = a - b
    if isinstance(difference, Dim):
        for monomial, coefficient in difference.terms:
            if abs(coefficient) == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
                rest = (difference - dim(monomial[0]) * coefficient) * -coefficient
                if monomial[0] not in symbols(rest) or any(rest == call * n for call, n in _calls(rest)):
                    return dim(monomial[0]), rest
    return a, b


def _nonnegative(call: Call) -> bool:
    """Whether a function of sizes is: those that may see a signed symbol are not asked."""
    if call.fn == "max" and any(isinstance(a, int) and a >= 0 for a in call.args):
        return True
    return call.fn == "bcast" or (call.fn == "mod" and isinstance(call.args[1], int) and call.args[1] > 0)
