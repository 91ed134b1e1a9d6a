"""Sizes of merged values: which one size stands for two."""

from typing import ClassVar

from jitgrad.dims import Dim, Size, Symbol, dim, is_not_one, symbols
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.paths import Path
from jitgrad.script.graph.ir import attr_symbols, map_attr


class Sizer:
    """What says which size holds two.

    Args:
        context: the evaluation.
        mark: symbols with this number or a later one are not known where the merged value lives.
    """

    #: whether the sizes are those of a list's elements
    of_elements: ClassVar[bool]
    #: whether what differs otherwise, as dicts by their keys, is better kept on either side of a branch
    apart = False

    def __init__(self, context: Context, mark: int):
        self.context, self.mark = context, mark

    def join(self, a: Size, b: Size) -> Size:
        """One size for both."""
        raise NotImplementedError

    def alone(self, size: Size) -> Size:
        """The size of what is there on one side only."""
        return size


class Widener(Sizer):
    """Sizes of merged values: optimistic equality first, else a fresh symbol."""

    of_elements = False

    def __init__(self, context: Context, mark: int, apart: bool = False):
        super().__init__(context, mark)
        self.apart = apart
        self.fresh: list[Symbol] = []

    def join(self, a: Size, b: Size) -> Size:
        sizes = self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if a == b and self.visible(a):
            return a
        if isinstance(a, Dim) and a.symbol in self.fresh and (is_not_one(b) or not a.symbol.not_one):
            return a  # a symbol is one location's: `b` may be another's, which goes on to be another size
        if self.visible(a) and self.visible(b) and sizes.assume_equal(a, b):
            return sizes.canonical(a)
        return self.new(is_not_one(a) and is_not_one(b))

    def alone(self, size: Size) -> Size:
        known = self.visible(size) and not any(s in self.fresh for s in symbols(size))
        return size if known else self.new(is_not_one(size))

    def new(self, not_one: bool) -> Size:
        symbol = Symbol(not_one=not_one)
        self.fresh.append(symbol)
        return dim(symbol)

    def sees(self, path: Path) -> bool:
        """Whether the sizes in a path of views are all known outside."""
        canonical = self.context.sizes.canonical
        return all(self.visible(dim(s)) for _, attrs in path for a in attrs.values()
                   for s in attr_symbols(map_attr(a, canonical)))

    def visible(self, size: Size) -> bool:
        """Whether a size is known outside, or is one of the fresh ones."""
        hints = self.context.sizes.hints
        return all(s.number < self.mark or s in hints or s in self.fresh for s in symbols(size))


class Elements(Sizer):
    """Sizes of a list's elements: those known where the list lives stay, others are open."""

    of_elements = True

    def join(self, a: Size, b: Size) -> Size:
        sizes = self.context.sizes
        a, b = sizes.canonical(a), sizes.canonical(b)
        if self.known(a) and self.known(b) and (a == b or sizes.assume_equal(a, b)):
            return sizes.canonical(a)
        for mine, other in ((a, b), (b, a)):
            if isinstance(mine, Dim) and mine.symbol in self.context.open and (
                    is_not_one(other) or not is_not_one(mine)):
                return mine
        return self.new(is_not_one(a) and is_not_one(b))

    def known(self, size: Size) -> bool:
        """Whether a size is the same wherever the list is seen."""
        context = self.context
        return all((s.number < self.mark or s in context.sizes.hints) and s not in context.open for s in symbols(size))

    def new(self, not_one: bool) -> Size:
        symbol = Symbol(not_one=not_one)
        self.context.open.add(symbol)
        return dim(symbol)
