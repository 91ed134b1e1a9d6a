"""Generators that are asked item by item, as a function that goes on to the next `yield`: its blocks begin behind one.

    def rows(x):                  def rows(x):
        for r in x:        ->         r, items, place, item = ...
            yield r * 2               def step():
                                          nonlocal ...
                                          while True: ...  # goes on, sets `item`; whether there is one
                                      def last():
                                          return item
                                      return step, last

Its variables are those of the function around them, so that they are there when it is called again.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.script.frontend.source.blocks import (BLOCK, ITEMS, PLACE, START, VALUE, Block, Lowering, called, named,
                                                   placed, set_)
from jitgrad.script.frontend.source.liveness import names_bound, parameters_of
from jitgrad.script.frontend.source.source import Source, own_nodes

#: names that no program has
NEXT, ITEM = "the next block", f"{VALUE} that came"


@dataclass(frozen=True)
class Walk:
    """Functions for loops: `at_places(iterable)` is that, or a list of its items; over what is no range
    `begin(iterable)` gives what it goes over, of which `more(it, k)` says whether there is an item k, and `item(it, k)`
    gives it."""

    at_places: Callable[..., Any]
    begin: Callable[..., Any]
    more: Callable[..., Any]
    item: Callable[..., Any]


def as_steps(source: Source, walk: Walk) -> Source:
    """A generator function as one that returns the function which gives the next item. Raises NotALoop."""
    node: Any = copy.copy(source.node)
    node.body = _Steps(source, walk).body()
    return source.nested(node)


class _Steps(Lowering):
    """The blocks of a generator function."""

    def __init__(self, source: Source, walk: Walk):
        super().__init__(walk.at_places)
        node: Any = source.node
        self.node, self.walk = node, walk
        self.done = Block()
        self.resumed: list[Block] = []
        self.entries = [Block(), self.done]
        end = self.lower(node.body, self.entries[0])
        if end is not None:
            end.end = ("go", self.done)

    def leaves(self, node: ast.AST) -> bool:
        return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node))

    def statement(self, s: ast.stmt, block: Block) -> Block | None:
        if isinstance(s, ast.Return):
            block.statements += [ast.Expr(s.value)] if s.value is not None else []
            block.end = ("go", self.done)
            return None
        value = s.value if isinstance(s, ast.Expr) else None
        if isinstance(value, ast.Yield):
            after = Block()
            self.resumed.append(after)
            block.end = ("yield", value.value or ast.copy_location(ast.Constant(None), s), after)
            return after
        if isinstance(value, ast.YieldFrom):
            item = self.fresh(ITEMS)
            each = ast.For(named(item, True), value.value, [ast.Expr(ast.Yield(named(item)))], [], None)
            placed([each], s)
            return self.for_(each, block)
        return super().statement(s, block)

    def for_(self, s: ast.For, block: Block) -> Block | None:
        over: Any = s.iter
        if _calls(over, "range") and len(over.args) < 3:
            return super().for_(s, block)
        k = self.fresh(PLACE)
        block.statements.append(set_(k, 0))
        more, item = self._over(over, k, block)
        step = ast.AugAssign(named(k, True), ast.Add(), ast.Constant(1))
        return self.loop(block, more, [ast.Assign([s.target], item), step], s)

    def _over(self, e: Any, k: str, block: Block) -> tuple[ast.expr, ast.expr]:
        """Whether an iterable has an item k, and that item; where a loop over it begins, `block` goes on."""
        if _calls(e, "zip") and e.args and all(ast.unparse(k) == "strict=False" for k in e.keywords):
            parts = [self._over(a, k, block) for a in e.args]
            items: list[ast.expr] = [item for _, item in parts]
            return ast.BoolOp(ast.And(), [more for more, _ in parts]), ast.Tuple(items, ast.Load())
        if _calls(e, "enumerate") and len(e.args) < 3:
            start = self.fresh(START)
            first = [*e.args[1:], *[a.value for a in e.keywords], ast.Constant(0)][0]
            more, item = self._over(e.args[0], k, block)
            block.statements.append(set_(start, first))
            return more, ast.Tuple([ast.BinOp(named(start), ast.Add(), named(k)), item], ast.Load())
        items_ = self.fresh(ITEMS)
        block.statements.append(ast.copy_location(set_(items_, called(self.walk.begin, e)), e))
        return called(self.walk.more, named(items_), named(k)), called(self.walk.item, named(items_), named(k))

    def end(self, b: Block) -> Iterator[ast.stmt]:
        if b is self.done:
            yield ast.Return(ast.Constant(False))
        elif b.end[0] == "yield":
            _, value, after = b.end
            yield ast.copy_location(set_(ITEM, value), b.end[1])
            yield set_(NEXT, self.apart.index(after))
            yield ast.Return(ast.Constant(True))
        else:
            yield from super().end(b)

    def body(self) -> list[ast.stmt]:
        """The function's body. While a step runs the next one is the last, as that of a generator that has raised."""
        self.number([*self.entries, *self.resumed])
        statements = [s for b in self.reached() for s in b.statements]
        own = [n for s in self.node.body for n in own_nodes(s)]
        outer = {n for s in own if isinstance(s, (ast.Nonlocal, ast.Global)) for n in s.names}
        parameters = set(parameters_of(self.node))
        local = parameters.union(*map(names_bound, statements)) - outer
        step, last = (_function(name) for name in ("step", "last"))
        step.body = [ast.Nonlocal([NEXT, ITEM, *sorted(local)]), set_(BLOCK, named(NEXT)),
                     set_(NEXT, self.apart.index(self.done)), ast.While(ast.Constant(True), self.chain(), [])]
        last.body = [ast.Return(named(ITEM))]
        unbound: list[ast.stmt] = [set_(n, None) for n in sorted({ITEM, *local} - parameters)]
        functions: list[ast.expr] = [named(step.name), named(last.name)]
        return placed([set_(NEXT, 0), ast.If(ast.Constant(False), unbound, []), step, last,
                       ast.Return(ast.Tuple(functions, ast.Load()))], self.node)


def _function(name: str) -> Any:
    """A function by a name that no program has."""
    made: Any = ast.parse("def f(): pass").body[0]
    made.name = f"the {name}"
    return made


def _calls(e: ast.expr, function: str) -> bool:
    return isinstance(e, ast.Call) and ast.unparse(e.func) == function
