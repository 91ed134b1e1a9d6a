"""Recursion whose depth the run decides, as a loop: functions that call one another become blocks of one function.

A call pushes the variables that are read after it, one list for each, and the block that goes on; it binds the
parameters and goes to the callee's first block. A return pops them. The lists grow like any list of the script, so that
gradients go through them, in the order in which the calls were made. At Python's limit of depth it raises as Python.

Source: J. C. Reynolds, Definitional interpreters for higher-order programming languages, 1972 (defunctionalisation).
"""

import ast
import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jitgrad.script.frontend.source.blocks import (BLOCK, ITEMS, PLACE, START, VALUE, Block, Lowering, NotALoop, named,
                                                   placed, set_)
from jitgrad.script.frontend.source.liveness import Pass, Scope, bound_after, names_bound, names_read, parameters_of
from jitgrad.script.frontend.source.source import Source

#: names that no program has
RESULT, RETURNS, RUNNING = "the result", "the way back", "running"


def as_loop(sources: Sequence[Source], at_places: Callable[..., Any] | None = None) -> Source:
    """The first of some functions that call one another, as a function with a loop. Raises NotALoop.

    `at_places` gives of what a `for` goes over what has items at places; without it all has.
    """
    machine = _Machine(sources, at_places)
    node = copy.copy(sources[0].node)
    node.body = machine.body()
    return sources[0].nested(node)


def surely_bound(name: str) -> bool:
    """Whether a variable is one of the loop's own, bound wherever it is read."""
    return name.startswith((RESULT, VALUE, ITEMS, START, PLACE))


def _method(name: str, method: str, *args: Any) -> ast.Call:
    return ast.Call(ast.Attribute(named(name), method, ast.Load()),
                    [a if isinstance(a, ast.expr) else ast.Constant(a) for a in args], [])


def _simple(node: ast.AST) -> bool:
    """Whether it does not matter when an expression is evaluated: it names something."""
    return isinstance(node, (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.unaryop)) or (
        isinstance(node, ast.Attribute) and _simple(node.value))


class _Renamed(ast.NodeTransformer):
    """The variables of one of several functions, by names of its own; lines counted as in the first one's file."""

    def __init__(self, names: set[str], function: str, lines: int):
        self.names, self.function, self.lines = names, function, lines

    def visit(self, node: ast.AST) -> Any:
        if hasattr(node, "lineno"):
            node.lineno, node.end_lineno = node.lineno + self.lines, node.end_lineno + self.lines  # type: ignore[attr-defined]
        if isinstance(node, ast.Name) and node.id in self.names:
            node.id = f"{node.id} of {self.function}"
        return self.generic_visit(node)


class _Machine(Lowering):
    """The blocks of all functions."""

    def __init__(self, sources: Sequence[Source], at_places: Callable[..., Any] | None):
        super().__init__(at_places)
        self.function, self.first = 0, sources[0]
        self.nodes: list[Any] = [s.node for s in sources]
        self.index = {n.name: k for k, n in enumerate(self.nodes)}
        self.parameters = [list(parameters_of(n)) for n in self.nodes]
        self.shared: list[str] = []  # lists that all calls fill, each of them the end
        bodies = [self._own(s, k) for k, s in enumerate(sources)]
        self.entries = [Block() for _ in sources]
        for self.function, body in enumerate(bodies):
            self.loops = []
            self.lower(body, self.entries[self.function])
        self.blocks = self.reached()
        self.same = self._unchanged()
        self._live()

    def _own(self, source: Source, index: int) -> list[ast.stmt]:
        """A function's body, its variables renamed where there are several functions."""
        node: Any = source.node
        if isinstance(node, ast.Lambda) or node.args.vararg or node.args.kwarg or source.file != self.first.file:
            raise NotALoop
        local = set(self.parameters[index]).union(*map(names_bound, node.body))
        if local & self.index.keys() or len(self.index) < len(self.nodes):
            raise NotALoop
        for n in (n for s in node.body for n in ast.walk(s)):
            closes = isinstance(n, (ast.FunctionDef, ast.Lambda, ast.GeneratorExp)) and names_read(n) & local
            if closes or isinstance(n, (ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global)):
                raise NotALoop
        if index == 0:
            return list(node.body)
        rename = _Renamed(local, node.name, source.first - self.first.first)
        self.parameters[index] = [f"{p} of {node.name}" for p in self.parameters[index]]
        return [rename.visit(copy.deepcopy(s)) for s in node.body]

    def leaves(self, node: ast.AST) -> bool:
        return any(self._callee(n) is not None for n in ast.walk(node))

    def _callee(self, node: ast.AST) -> int | None:
        """Which of the functions a call calls: by its name, or as a method of the first parameter."""
        if not isinstance(node, ast.Call):
            return None
        f = node.func
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
            return self.index.get(f.attr) if f.value.id in self.parameters[self.function][:1] else None
        return self.index.get(f.id) if isinstance(f, ast.Name) else None

    # --- expressions -----------------------------------------------------------------------------------------------

    def hoist(self, e: Any, block: Block) -> tuple[Block, Any]:
        """An expression without the calls in it, which are made before; the block where it is evaluated."""
        if not self.leaves(e):
            return block, e
        if isinstance(e, (ast.Lambda, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)) or (
                isinstance(e, ast.Compare) and len(e.ops) > 1):
            raise NotALoop
        if isinstance(e, ast.ListComp):
            return self._collected(e, block)
        if isinstance(e, (ast.IfExp, ast.BoolOp)):
            return self._chosen(e, block)
        callee = self._callee(e)
        new = copy.copy(e)
        slots: list[tuple[Any, Any, ast.AST]] = []  # where each operand stands
        for name, value in ast.iter_fields(e):
            if isinstance(value, list):
                new.__dict__[name] = copied = list(value)
                slots += [(copied, k, x) for k, x in enumerate(copied) if isinstance(x, ast.AST)]
            elif isinstance(value, ast.AST) and not (callee is not None and name == "func"):
                slots.append((new.__dict__, name, value))
        last = max([i for i, (_, _, x) in enumerate(slots) if self.leaves(x)], default=-1)
        for i, (holder, key, x) in enumerate(slots[:last + 1]):
            block, holder[key] = self.hoist(x, block) if i == last or self.leaves(x) else self._kept(x, block)
        if callee is None:
            return block, new
        after = Block(target=self.fresh(VALUE))
        block.end = ("call", callee, new, after)
        return after, ast.copy_location(named(str(after.target)), e)

    def _kept(self, x: Any, block: Block) -> tuple[Block, Any]:
        """An operand as it is before a later one is evaluated."""
        if _simple(x):
            return block, x
        if isinstance(x, (ast.keyword, ast.Starred, ast.FormattedValue)):
            new = copy.copy(x)
            block, new.value = self._kept(x.value, block)
            return block, new
        if not isinstance(x, ast.expr) or isinstance(x, ast.Slice):
            raise NotALoop
        target = self.fresh(VALUE)
        block.statements.append(ast.copy_location(set_(target, x), x))
        return block, ast.copy_location(named(target), x)

    def _chosen(self, e: ast.IfExp | ast.BoolOp, block: Block) -> tuple[Block, Any]:
        """`a if c else b`, `a and b`, `a or b`, as a branch that sets a variable."""
        target = self.fresh(VALUE)

        def into(value: ast.expr) -> list[ast.stmt]:
            return [ast.copy_location(set_(target, value), value)]

        if isinstance(e, ast.IfExp):
            block, test = self.hoist(e.test, block)
            after = self.branch(block, test, into(e.body), into(e.orelse))
        else:
            first, *others = e.values
            start = self.lower(into(first), block)
            assert start is not None
            rest = into(others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(e.op, others), others[0]))
            sides = (rest, []) if isinstance(e.op, ast.And) else ([], rest)
            after = self.branch(start, named(target), *sides)
        assert after is not None
        return after, ast.copy_location(named(target), e)

    def _collected(self, e: ast.ListComp, block: Block) -> tuple[Block, Any]:
        """A comprehension as loops, its variables by names of their own. The list that is being filled is the end of
        one that all calls share: what a call inside puts there is taken away before it returns.
        """
        if any(isinstance(n, (ast.Lambda, ast.GeneratorExp, ast.NamedExpr)) for n in ast.walk(e)) or any(
                g.is_async for g in e.generators):
            raise NotALoop
        shared, start, target = self.fresh(ITEMS), self.fresh(START), self.fresh(VALUE)
        self.shared.append(shared)
        steps: list[ast.stmt] = [ast.Expr(_method(shared, "append", e.elt))]
        for g in reversed(e.generators):
            for test in reversed(g.ifs):
                steps = [ast.If(test, steps, [])]
            steps = [ast.For(g.target, g.iter, steps, [])]
        loop: Any = copy.deepcopy(steps[0])
        first, loop.iter = loop.iter, ast.Constant(None)  # which is evaluated outside
        own = {n.id: self.fresh(n.id) for g in e.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        for n in (n for n in ast.walk(loop) if isinstance(n, ast.Name)):
            n.id = own.get(n.id, n.id)
        loop.iter = first
        mine = ast.Slice(named(start))
        made = [set_(start, ast.Call(named("len"), [named(shared)], [])), loop,
                set_(target, ast.Subscript(named(shared), mine, ast.Load())),
                ast.Delete([ast.Subscript(named(shared), mine, ast.Del())])]
        for part in (p for s in made for p in ast.walk(s) if isinstance(p, (ast.stmt, ast.expr))):
            ast.copy_location(part, part if hasattr(part, "lineno") else e)
        after = self.lower(made, block)
        assert after is not None
        return after, ast.copy_location(named(target), e)

    # --- what is saved ---------------------------------------------------------------------------------------------

    def _live(self) -> None:
        """Which variables are read from each block on, and so what calls save; NotALoop where one may be unbound."""
        local = {p for ps in self.parameters for p in ps}.union(
            *(names_bound(s) for b in self.blocks for s in b.statements), {b.target for b in self.blocks if b.target})
        backwards, grown = Pass(Scope((), frozenset(local), frozenset()), []), True
        while grown:
            grown = False
            for b in reversed(self.blocks):
                live = set().union(*(n.live - {n.target} for n in b.next()))
                live |= set().union(*(names_read(e) for e in b.end[1:] if isinstance(e, ast.AST)))
                live = backwards.block(b.statements, live, set(), set()) & local
                if live != b.live:
                    b.live, grown = frozenset(live), True
        for b in self.blocks:
            b.saved = sorted(b.live - {b.target} - self.same) if b.target else []
        bound = dict.fromkeys(self.blocks, local) | dict(zip(self.entries, map(set, self.parameters), strict=True))
        for b in self.blocks * len(self.blocks):
            bound |= {n: bound[n] & (bound_after(b.statements, bound[b]) | {str(n.target)}) for n in b.next()}
        if any(not bound[b] >= set(b.saved) for b in self.blocks):  # Python minds only if it is read later
            raise NotALoop

    def _unchanged(self) -> set[str]:
        """The parameters that are what the first call gave: every call passes them on."""
        if len(self.nodes) > 1:
            return set()
        calls = [self._bound(*b.end[1:3]) for b in self.blocks if b.end[0] == "call"]
        bound = set().union(*(names_bound(s) for b in self.blocks for s in b.statements))
        return {p for p in self.parameters[0] if p not in bound and all(ast.unparse(c[p]) == p for c in calls)}

    # --- blocks to statements --------------------------------------------------------------------------------------

    def body(self) -> list[ast.stmt]:
        """The function's body: stacks, and a loop in which each iteration is a block."""
        self.number([b for b in self.blocks if b in self.entries or b.target])
        lists = [set_(self._stack(b, v), ast.List([], ast.Load())) for b in self.apart for v in b.saved]
        lists += [set_(name, ast.List([], ast.Load())) for name in self.shared]
        made = [*lists, set_(RETURNS, ast.List([], ast.Load())), set_(BLOCK, 0), set_(RUNNING, True),
                ast.While(named(RUNNING), self.chain(), []), ast.Return(named(RESULT))]
        return placed(made, self.nodes[0])

    def _stack(self, block: Block, name: str) -> str:
        return f"{name} at {self.apart.index(block)}"

    def code(self, b: Block) -> list[ast.stmt]:
        came: list[ast.stmt] = [set_(b.target, named(RESULT))] if b.target else []
        came += [set_(v, _method(self._stack(b, v), "pop")) for v in b.saved]
        return [*came, *super().code(b)]

    def end(self, b: Block) -> Iterator[ast.stmt]:
        kind, *parts = b.end
        if kind == "return":
            yield set_(RESULT, parts[0])
            left = ast.Compare(ast.Call(named("len"), [named(RETURNS)], []), [ast.Eq()], [ast.Constant(0)])
            yield ast.If(left, [set_(RUNNING, False)], [set_(BLOCK, _method(RETURNS, "pop"))])
        elif kind != "call":
            yield from super().end(b)
        else:
            callee, call, after = parts
            deep = ast.Compare(ast.Call(named("len"), [named(RETURNS)], []), [ast.Gt()],
                               [ast.Constant(sys.getrecursionlimit())])
            raised = ast.Call(named("RecursionError"), [ast.Constant("maximum recursion depth exceeded")], [])
            yield ast.copy_location(ast.If(deep, [ast.Raise(raised, None)], []), call)
            given = {p: value for p, value in self._bound(callee, call).items() if p not in self.same}
            for v in after.saved:
                yield ast.Expr(_method(self._stack(after, v), "append", named(v)))
            yield ast.Expr(_method(RETURNS, "append", self.apart.index(after)))
            places = ast.Tuple([named(p, True) for p in given], ast.Store())
            yield ast.copy_location(ast.Assign([places], ast.Tuple(list(given.values()), ast.Load())), call)
            yield set_(BLOCK, self.apart.index(self.entries[callee]))

    def _bound(self, callee: int, call: ast.Call) -> Mapping[str, ast.expr]:
        """Parameter -> argument of a call; defaults where they are constants."""
        names, args = self.parameters[callee], self.nodes[callee].args
        plain = parameters_of(self.nodes[callee])
        given = [call.func.value, *call.args] if isinstance(call.func, ast.Attribute) else list(call.args)
        if any(isinstance(a, ast.Starred) for a in given) or len(given) > len(args.posonlyargs) + len(args.args):
            raise NotALoop
        bound = dict(zip(plain, given, strict=False))
        bound.update({k.arg: k.value for k in call.keywords if k.arg})
        positional = [*args.posonlyargs, *args.args]
        optional = positional[len(positional) - len(args.defaults):]
        defaults = dict(zip([p.arg for p in optional], args.defaults, strict=True))
        defaults.update({p.arg: d for p, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None})
        bound = {**{p: d for p, d in defaults.items() if isinstance(d, ast.Constant)}, **bound}
        if set(bound) != set(plain):
            raise NotALoop
        return {name: bound[p] for name, p in zip(names, plain, strict=True)}
