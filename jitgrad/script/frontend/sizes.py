"""What is known of sizes: optimistic equalities between argument symbols, lower bounds, first-call hints."""

from __future__ import annotations

from jitgrad.dims import Call, Dim, Size, Symbol, dim, evaluate, substitute, symbols
from jitgrad.ops.types import TensorType, Type, map_dims
from jitgrad.script.ir import Block, Node, Value, map_attr


class Sizes:
    """Facts that hold for the whole graph.

    Attributes:
        hints: argument symbol -> its size at the first call.
        guards: pairs of sizes over argument symbols that were taken to be equal.
        trips: pairs of sizes at entry that are equal where a loop runs (or does not) as at the first call.
        signed: symbols bound to ints that may be negative.
    """

    __slots__ = ("_replaced", "guards", "hints", "optimistic", "signed", "trips")

    def __init__(self, optimistic: bool):
        self.optimistic = optimistic
        self.hints: dict[Symbol, int] = {}
        self.guards: list[tuple[Size, Size]] = []
        self.trips: list[tuple[Size, Size]] = []
        self.signed: set[Symbol] = set()
        self._replaced: dict[Symbol, Size] = {}

    def argument(self, hint: int) -> Size:
        """The size of an argument's axis: 1, or a fresh symbol."""
        if hint == 1:
            return 1
        symbol = Symbol(not_one=True)
        self.hints[symbol] = hint
        return dim(symbol)

    @property
    def changed(self) -> bool:
        """Whether any symbol stands for another size by now."""
        return bool(self._replaced)

    def canonical(self, size: Size) -> Size:
        """`size` with unified symbols replaced."""
        if isinstance(size, int) or not self._replaced:
            return size
        return substitute(size, self._replaced)

    def canonical_type(self, type_: Type) -> Type:
        """A type with unified symbols replaced."""
        if not self._replaced:
            return type_
        if isinstance(type_, TensorType):
            dims = tuple(self.canonical(d) for d in type_.dims)
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

    def assume_equal(self, a: Size, b: Size) -> bool:
        """Unify two sizes over argument symbols that are equal at the first call; False where that cannot be."""
        a, b = self.canonical(a), self.canonical(b)
        if a == b:
            return True
        if not self.optimistic:
            return False
        hint = self.hint(a)
        if hint is None or hint != self.hint(b):
            return False
        if (a, b) not in self.guards:
            self.guards.append((a, b))
        self._unify(a, b)
        return True

    def fix(self, size: Size, value: int) -> None:
        """Guard that a size has the value that it has at the first call: it is this constant from here on."""
        size = self.canonical(size)
        if size != value:
            self.guards.append((size, value))
            self._unify(size, value)

    def _unify(self, a: Size, b: Size) -> None:
        """Replace one of two sizes that a guard says are equal by the other, if it is a symbol."""
        old, new = (b, a) if isinstance(b, Dim) and b.symbol is not None else (a, b)
        symbol = old.symbol if isinstance(old, Dim) else None
        if symbol is None or symbol in symbols(new):
            return  # the guard alone proves it; later uses compare hints again
        self._replaced = {s: substitute(d, {symbol: new}) for s, d in self._replaced.items()}
        self._replaced[symbol] = new

    def at_least(self, size: Size, low: int) -> bool:
        """Whether size >= low is known, symbols but the signed ones being >= 0."""
        size = self.canonical(size)
        if isinstance(size, int):
            return size >= low
        bound = 0
        for monomial, coefficient in size.terms:
            if monomial == ():
                bound += coefficient
            elif coefficient < 0 or any(a in self.signed if isinstance(a, Symbol) else not _nonnegative(a)
                                        for a in monomial):
                return False
        return bound >= low


def _nonnegative(call: Call) -> bool:
    """Whether a function of sizes is: those that may see a signed symbol are not asked."""
    if call.fn == "max" and any(isinstance(a, int) and a >= 0 for a in call.args):
        return True
    return call.fn == "bcast" or (call.fn == "mod" and isinstance(call.args[1], int) and call.args[1] > 0)
