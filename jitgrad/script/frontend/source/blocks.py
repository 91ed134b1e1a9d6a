"""Functions as blocks: what leaves a function in the middle and comes back goes on with a block's number.

A function whose loops and branches are taken apart wherever control leaves inside them is a loop over a chain of `if`s,
one for each block (`recursion.py`: calls of itself; `resumption.py`: `yield`).
"""

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.script.frontend.source.source import own_nodes

#: names that no program has
BLOCK = "the block"
VALUE, ITEMS, START, PLACE = "the value", "the items", "the start", "the place"  # with a number each
#: iterables that have no length to count to
WITHOUT_LENGTH = ("enumerate", "zip", "map", "filter", "reversed", "iter")


class NotALoop(Exception):
    """A function leaves where that cannot be a jump: in a generator expression, `try` or `with`."""


@dataclass(eq=False)
class Block:
    """Statements, and how control goes on: ("go", block), ("if", test, block, block), ("call", function, call, target,
    block), ("yield", value, block) or ("return", value)."""

    statements: list[ast.stmt] = field(default_factory=list)
    end: tuple[Any, ...] = ("return", None)
    target: str | None = None  # of one that a call comes back to: the variable for its result
    saved: list[str] = field(default_factory=list)  # ... and what it finds on the stacks
    live: frozenset[str] = frozenset()

    def next(self) -> list["Block"]:
        return [part for part in self.end[1:] if isinstance(part, Block)]


def named(of: str, store: bool = False) -> ast.Name:
    return ast.Name(of, ast.Store() if store else ast.Load())


def set_(target: str, value: Any) -> ast.Assign:
    return ast.Assign([named(target, True)], value if isinstance(value, ast.expr) else ast.Constant(value))


def called(function: Any, *args: ast.expr) -> ast.Call:
    """A call of a function that is no name's."""
    return ast.Call(ast.Constant(function), list(args), [])


def placed(statements: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """Statements, those parts of them that have no place at that of a node."""
    for n in (n for s in statements for n in ast.walk(s)):
        if not hasattr(n, "lineno") and isinstance(n, (ast.stmt, ast.expr)):
            ast.copy_location(n, at)
    return statements


class Lowering:
    """The blocks of functions. A subclass says where control leaves, and what the ends of its blocks are."""

    def __init__(self, at_places: Callable[..., Any] | None):
        self.made, self.at_places = 0, at_places  # gives of what a loop goes over what has items at places
        self.loops: list[tuple[Block, Block]] = []  # the head and what comes after it, of those around
        self.entries: list[Block] = []
        self.apart: list[Block] = []  # blocks with a number; the others follow what goes to them

    def leaves(self, node: ast.AST) -> bool:
        """Whether control leaves somewhere in a node, and comes back."""
        raise NotImplementedError

    def hoist(self, e: Any, block: Block) -> tuple[Block, Any]:
        """An expression in which control does not leave, and the block where it is evaluated."""
        return block, e

    def end(self, b: Block) -> Iterator[ast.stmt]:
        """How a block goes on."""
        kind, *parts = b.end
        if kind == "go":
            yield from self._go(parts[0])
        elif kind == "if":
            yield ast.copy_location(ast.If(parts[0], self._go(parts[1]), self._go(parts[2])), parts[0])

    def code(self, b: Block) -> list[ast.stmt]:
        """What a block does."""
        return [*b.statements, *self.end(b)]

    def number(self, apart: Sequence[Block]) -> None:
        """Give numbers to some blocks and to those that more than one goes to; all of them are reached."""
        blocks = self.reached()
        before = [n for b in blocks for n in b.next()]
        self.apart = [b for b in blocks if b in apart or before.count(b) > 1]

    def chain(self) -> list[ast.stmt]:
        """The statement that does what the block does whose number is set."""
        steps: list[ast.stmt] = []
        for k, b in reversed([*enumerate(self.apart)]):
            test = ast.Compare(named(BLOCK), [ast.Eq()], [ast.Constant(k)])
            steps = self.code(b) if not steps else [ast.If(test, self.code(b), steps)]
        return steps

    def fresh(self, what: str) -> str:
        self.made += 1
        return f"{what} {self.made}"

    def breaks(self, s: ast.stmt) -> bool:
        """Whether a statement cannot stay one: control leaves in it, or a loop that is blocks by now."""
        if self.leaves(s) or any(isinstance(n, ast.Return) for n in own_nodes(s)):
            return True
        return bool(self.loops) and any(isinstance(n, (ast.Break, ast.Continue)) for n in _outside_loops(s))

    def lower(self, statements: Sequence[ast.stmt], block: Block | None) -> Block | None:
        """Put statements into blocks; the block where control is afterwards, if it gets there."""
        for s in statements:
            if block is None:
                return None
            if self.breaks(s):
                block = self.statement(s, block)
            else:
                block.statements.append(s)
        return block

    def statement(self, s: ast.stmt, block: Block) -> Block | None:
        if isinstance(s, ast.Return):
            block, value = self.hoist(s.value, block) if s.value is not None else (block, None)
            block.end = ("return", value)
            return None
        if isinstance(s, (ast.Break, ast.Continue)):
            block.end = ("go", self.loops[-1][isinstance(s, ast.Break)])
            return None
        if isinstance(s, ast.If):
            block, test = self.hoist(s.test, block)
            return self.branch(block, test, s.body, s.orelse)
        if isinstance(s, ast.While):
            return self.loop(block, s.test, [], s)
        if isinstance(s, ast.For):
            return self.for_(s, block)
        if isinstance(s, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)) and s.value is not None:
            if any(self.leaves(t) for t in getattr(s, "targets", ())):
                raise NotALoop
            new = copy.copy(s)
            block, new.value = self.hoist(s.value, block)
            block.statements.append(new)
            return block
        raise NotALoop

    def branch(self, block: Block, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
                ) -> Block | None:
        yes, no, after = Block(), Block(), Block()
        block.end = ("if", test, yes, no)
        ends = [self.lower(body, yes), self.lower(orelse, no)]
        for end in ends:
            if end is not None:
                end.end = ("go", after)
        return after if any(ends) else None

    def loop(self, block: Block, test: ast.expr, first: list[ast.stmt], s: ast.While | ast.For) -> Block | None:
        head, body, other, after = Block(), Block(first), Block(), Block()
        block.end = ("go", head)
        end, test = self.hoist(test, head)
        end.end = ("if", test, body, other)
        self.loops.append((head, after))
        back = self.lower(s.body, body)
        self.loops.pop()
        if back is not None:
            back.end = ("go", head)
        done = self.lower(s.orelse, other)
        if done is not None:
            done.end = ("go", after)
        return after

    def for_(self, s: ast.For, block: Block) -> Block | None:
        """A loop over what has a length and items."""
        if isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) in WITHOUT_LENGTH:
            raise NotALoop
        block, over = self.hoist(s.iter, block)
        items, k = self.fresh(ITEMS), self.fresh(PLACE)
        start: ast.expr = ast.Constant(0)
        end: ast.expr = ast.Call(named("len"), [named(items)], [])
        item: ast.expr = ast.Subscript(named(items), named(k), ast.Load())
        if isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) < 3:
            *first, over = over.args  # numbers are saved, a range would not be
            start, end, item = first[0] if first else start, named(items), named(k)
        elif self.at_places is not None:
            over = ast.copy_location(called(self.at_places, over), s.iter)
        block.statements += [set_(k, start), set_(items, over)]
        step = ast.AugAssign(named(k, True), ast.Add(), ast.Constant(1))
        return self.loop(block, ast.Compare(named(k), [ast.Lt()], [end]), [ast.Assign([s.target], item), step], s)

    def reached(self) -> list[Block]:
        """All blocks, each once; a call's callee comes by its entry."""
        found: dict[Block, None] = {}
        waiting = list(reversed(self.entries))
        while waiting:
            block = waiting.pop()
            if block not in found:
                found[block] = None
                waiting += block.next()
        return list(found)

    def _go(self, b: Block) -> list[ast.stmt]:
        return [set_(BLOCK, self.apart.index(b))] if b in self.apart else self.code(b)


def _outside_loops(s: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that are in none of its loops."""
    yield s
    if not isinstance(s, (ast.For, ast.While)):
        for child in ast.iter_child_nodes(s):
            if isinstance(child, ast.stmt):
                yield from _outside_loops(child)
