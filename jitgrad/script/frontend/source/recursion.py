"""Recursion whose depth the run decides, as a loop: functions that call one another become blocks of one function.

A call pushes the variables that are read after it, one list for each, and the block that goes on; it binds the
parameters and goes to the callee's first block. A return pops them. The lists grow like any list of the script, so that
gradients go through them, in the order in which the calls were made. At Python's limit of depth it raises as Python.

Source: J. C. Reynolds, Definitional interpreters for higher-order programming languages, 1972 (defunctionalisation).
"""

import ast
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.script.frontend.source.liveness import Pass, Scope, bound_after, names_bound, names_read, parameters_of
from jitgrad.script.frontend.source.source import Source, own_nodes

#: names that no program has
RESULT, RETURNS, BLOCK, RUNNING = "the result", "the way back", "the block", "running"
VALUE, ITEMS, START, PLACE = "the value", "the items", "the start", "the place"  # with a number each

#: iterables that have no length to count to
WITHOUT_LENGTH = ("enumerate", "zip", "map", "filter", "reversed", "iter")


class NotALoop(Exception):
    """A function calls itself where that cannot be a jump, in a generator expression, `try` or `with`."""


@dataclass(eq=False)
class _Block:
    """Statements, and how control goes on: ("go", block), ("if", test, block, block), ("call", function, call, target,
    block) or ("return", value)."""

    statements: list[ast.stmt] = field(default_factory=list)
    end: tuple[Any, ...] = ("return", None)
    target: str | None = None  # of one that a call comes back to: the variable for its result
    saved: list[str] = field(default_factory=list)  # ... and what it finds on the stacks
    live: frozenset[str] = frozenset()

    def next(self) -> list["_Block"]:
        return [part for part in self.end[1:] if isinstance(part, _Block)]


def as_loop(sources: Sequence[Source]) -> Source:
    """The first of some functions that call one another, as a function with a loop. Raises NotALoop."""
    machine = _Machine(sources)
    node = copy.copy(sources[0].node)
    node.body = machine.body()
    return sources[0].nested(node)


def surely_bound(name: str) -> bool:
    """Whether a variable is one of the loop's own, bound wherever it is read."""
    return name.startswith((RESULT, VALUE, ITEMS, START, PLACE))


def _name(name: str, store: bool = False) -> ast.Name:
    return ast.Name(name, ast.Store() if store else ast.Load())


def _set(name: str, value: Any) -> ast.Assign:
    return ast.Assign([_name(name, True)], value if isinstance(value, ast.expr) else ast.Constant(value))


def _method(name: str, method: str, *args: Any) -> ast.Call:
    return ast.Call(ast.Attribute(_name(name), method, ast.Load()),
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


class _Machine:
    """The blocks of all functions."""

    def __init__(self, sources: Sequence[Source]):
        self.function, self.first = 0, sources[0]
        self.nodes: list[Any] = [s.node for s in sources]
        self.index = {n.name: k for k, n in enumerate(self.nodes)}
        self.parameters = [list(parameters_of(n)) for n in self.nodes]
        self.made = 0
        self.shared: list[str] = []  # lists that all calls fill, each of them the end
        bodies = [self._own(s, k) for k, s in enumerate(sources)]
        self.entries = [_Block() for _ in sources]
        for self.function, body in enumerate(bodies):
            self.loops: list[tuple[_Block, _Block]] = []
            self._lower(body, self.entries[self.function])
        self.blocks = self._reached()
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

    # --- statements to blocks --------------------------------------------------------------------------------------

    def _fresh(self, what: str) -> str:
        self.made += 1
        return f"{what} {self.made}"

    def _calls(self, node: ast.AST) -> bool:
        return any(self._callee(n) is not None for n in ast.walk(node))

    def _callee(self, node: ast.AST) -> int | None:
        """Which of the functions a call calls: by its name, or as a method of the first parameter."""
        if not isinstance(node, ast.Call):
            return None
        f = node.func
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
            return self.index.get(f.attr) if f.value.id in self.parameters[self.function][:1] else None
        return self.index.get(f.id) if isinstance(f, ast.Name) else None

    def _breaks(self, s: ast.stmt) -> bool:
        """Whether a statement cannot stay one: it calls, returns, or leaves a loop that is blocks by now."""
        if self._calls(s) or any(isinstance(n, ast.Return) for n in own_nodes(s)):
            return True
        return bool(self.loops) and any(isinstance(n, (ast.Break, ast.Continue)) for n in _outside_loops(s))

    def _lower(self, statements: Sequence[ast.stmt], block: _Block | None) -> _Block | None:
        """Put statements into blocks; the block where control is afterwards, if it gets there."""
        for s in statements:
            if block is None:
                return None
            if self._breaks(s):
                block = self._statement(s, block)
            else:
                block.statements.append(s)
        return block

    def _statement(self, s: ast.stmt, block: _Block) -> _Block | None:
        if isinstance(s, ast.Return):
            block, value = self._hoist(s.value, block) if s.value is not None else (block, None)
            block.end = ("return", value)
            return None
        if isinstance(s, (ast.Break, ast.Continue)):
            block.end = ("go", self.loops[-1][isinstance(s, ast.Break)])
            return None
        if isinstance(s, ast.If):
            block, test = self._hoist(s.test, block)
            return self._branch(block, test, s.body, s.orelse)
        if isinstance(s, ast.While):
            return self._loop(block, s.test, [], s)
        if isinstance(s, ast.For):
            return self._for(s, block)
        if isinstance(s, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)) and s.value is not None:
            if any(self._calls(t) for t in getattr(s, "targets", ())):
                raise NotALoop
            new = copy.copy(s)
            block, new.value = self._hoist(s.value, block)
            block.statements.append(new)
            return block
        raise NotALoop

    def _branch(self, block: _Block, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
                ) -> _Block | None:
        yes, no, after = _Block(), _Block(), _Block()
        block.end = ("if", test, yes, no)
        ends = [self._lower(body, yes), self._lower(orelse, no)]
        for end in ends:
            if end is not None:
                end.end = ("go", after)
        return after if any(ends) else None

    def _loop(self, block: _Block, test: ast.expr, first: list[ast.stmt], s: ast.While | ast.For) -> _Block | None:
        head, body, other, after = _Block(), _Block(first), _Block(), _Block()
        block.end = ("go", head)
        end, test = self._hoist(test, head)
        end.end = ("if", test, body, other)
        self.loops.append((head, after))
        back = self._lower(s.body, body)
        self.loops.pop()
        if back is not None:
            back.end = ("go", head)
        done = self._lower(s.orelse, other)
        if done is not None:
            done.end = ("go", after)
        return after

    def _for(self, s: ast.For, block: _Block) -> _Block | None:
        """A loop over what has a length and items."""
        if isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) in WITHOUT_LENGTH:
            raise NotALoop
        block, over = self._hoist(s.iter, block)
        items, k = self._fresh(ITEMS), self._fresh(PLACE)
        start: ast.expr = ast.Constant(0)
        end: ast.expr = ast.Call(_name("len"), [_name(items)], [])
        item: ast.expr = ast.Subscript(_name(items), _name(k), ast.Load())
        if isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) < 3:
            *first, over = over.args  # numbers are saved, a range would not be
            start, end, item = first[0] if first else start, _name(items), _name(k)
        block.statements += [_set(k, start), _set(items, over)]
        step = ast.AugAssign(_name(k, True), ast.Add(), ast.Constant(1))
        return self._loop(block, ast.Compare(_name(k), [ast.Lt()], [end]), [ast.Assign([s.target], item), step], s)

    # --- expressions -----------------------------------------------------------------------------------------------

    def _hoist(self, e: Any, block: _Block) -> tuple[_Block, Any]:
        """An expression without the calls in it, which are made before; the block where it is evaluated."""
        if not self._calls(e):
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
        last = max([i for i, (_, _, x) in enumerate(slots) if self._calls(x)], default=-1)
        for i, (holder, key, x) in enumerate(slots[:last + 1]):
            block, holder[key] = self._hoist(x, block) if i == last or self._calls(x) else self._kept(x, block)
        if callee is None:
            return block, new
        after = _Block(target=self._fresh(VALUE))
        block.end = ("call", callee, new, after)
        return after, ast.copy_location(_name(str(after.target)), e)

    def _kept(self, x: Any, block: _Block) -> tuple[_Block, Any]:
        """An operand as it is before a later one is evaluated."""
        if _simple(x):
            return block, x
        if isinstance(x, (ast.keyword, ast.Starred, ast.FormattedValue)):
            new = copy.copy(x)
            block, new.value = self._kept(x.value, block)
            return block, new
        if not isinstance(x, ast.expr) or isinstance(x, ast.Slice):
            raise NotALoop
        target = self._fresh(VALUE)
        block.statements.append(ast.copy_location(_set(target, x), x))
        return block, ast.copy_location(_name(target), x)

    def _chosen(self, e: ast.IfExp | ast.BoolOp, block: _Block) -> tuple[_Block, Any]:
        """`a if c else b`, `a and b`, `a or b`, as a branch that sets a variable."""
        target = self._fresh(VALUE)

        def into(value: ast.expr) -> list[ast.stmt]:
            return [ast.copy_location(_set(target, value), value)]

        if isinstance(e, ast.IfExp):
            block, test = self._hoist(e.test, block)
            after = self._branch(block, test, into(e.body), into(e.orelse))
        else:
            first, *others = e.values
            start = self._lower(into(first), block)
            assert start is not None
            rest = into(others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(e.op, others), others[0]))
            sides = (rest, []) if isinstance(e.op, ast.And) else ([], rest)
            after = self._branch(start, _name(target), *sides)
        assert after is not None
        return after, ast.copy_location(_name(target), e)

    def _collected(self, e: ast.ListComp, block: _Block) -> tuple[_Block, Any]:
        """A comprehension as loops, its variables by names of their own. The list that is being filled is the end of
        one that all calls share: what a call inside puts there is taken away before it returns.
        """
        if any(isinstance(n, (ast.Lambda, ast.GeneratorExp, ast.NamedExpr)) for n in ast.walk(e)) or any(
                g.is_async for g in e.generators):
            raise NotALoop
        shared, start, target = self._fresh(ITEMS), self._fresh(START), self._fresh(VALUE)
        self.shared.append(shared)
        steps: list[ast.stmt] = [ast.Expr(_method(shared, "append", e.elt))]
        for g in reversed(e.generators):
            for test in reversed(g.ifs):
                steps = [ast.If(test, steps, [])]
            steps = [ast.For(g.target, g.iter, steps, [])]
        loop: Any = copy.deepcopy(steps[0])
        first, loop.iter = loop.iter, ast.Constant(None)  # which is evaluated outside
        own = {n.id: self._fresh(n.id) for g in e.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        for n in (n for n in ast.walk(loop) if isinstance(n, ast.Name)):
            n.id = own.get(n.id, n.id)
        loop.iter = first
        mine = ast.Slice(_name(start))
        made = [_set(start, ast.Call(_name("len"), [_name(shared)], [])), loop,
                _set(target, ast.Subscript(_name(shared), mine, ast.Load())),
                ast.Delete([ast.Subscript(_name(shared), mine, ast.Del())])]
        for part in (p for s in made for p in ast.walk(s) if isinstance(p, (ast.stmt, ast.expr))):
            ast.copy_location(part, part if hasattr(part, "lineno") else e)
        after = self._lower(made, block)
        assert after is not None
        return after, ast.copy_location(_name(target), e)

    # --- what is saved ---------------------------------------------------------------------------------------------

    def _reached(self) -> list[_Block]:
        """All blocks, each once; a call's callee comes by its entry."""
        found: dict[_Block, None] = {}
        waiting = list(reversed(self.entries))
        while waiting:
            block = waiting.pop()
            if block not in found:
                found[block] = None
                waiting += block.next()
        return list(found)

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
        before = [n for b in self.blocks for n in b.next()]
        self.apart = [b for b in self.blocks if b in self.entries or b.target or before.count(b) > 1]
        lists = [_set(self._stack(b, v), ast.List([], ast.Load())) for b in self.apart for v in b.saved]
        lists += [_set(name, ast.List([], ast.Load())) for name in self.shared]
        steps: list[ast.stmt] = []
        for k, b in reversed([*enumerate(self.apart)]):
            test = ast.Compare(_name(BLOCK), [ast.Eq()], [ast.Constant(k)])
            steps = self._code(b) if not steps else [ast.If(test, self._code(b), steps)]
        made = [*lists, _set(RETURNS, ast.List([], ast.Load())), _set(BLOCK, 0), _set(RUNNING, True),
                ast.While(_name(RUNNING), steps, []), ast.Return(_name(RESULT))]
        for s in made:
            for n in ast.walk(s):
                if not hasattr(n, "lineno") and isinstance(n, (ast.stmt, ast.expr)):
                    ast.copy_location(n, self.nodes[0])
        return made

    def _stack(self, block: _Block, name: str) -> str:
        return f"{name} at {self.apart.index(block)}"

    def _code(self, b: _Block) -> list[ast.stmt]:
        came: list[ast.stmt] = [_set(b.target, _name(RESULT))] if b.target else []
        came += [_set(v, _method(self._stack(b, v), "pop")) for v in b.saved]
        return [*came, *b.statements, *self._end(b)]

    def _go(self, b: _Block) -> list[ast.stmt]:
        return [_set(BLOCK, self.apart.index(b))] if b in self.apart else self._code(b)

    def _end(self, b: _Block) -> Iterator[ast.stmt]:
        kind, *parts = b.end
        if kind == "go":
            yield from self._go(parts[0])
        elif kind == "if":
            yield ast.copy_location(ast.If(parts[0], self._go(parts[1]), self._go(parts[2])), parts[0])
        elif kind == "return":
            yield _set(RESULT, parts[0])
            left = ast.Compare(ast.Call(_name("len"), [_name(RETURNS)], []), [ast.Eq()], [ast.Constant(0)])
            yield ast.If(left, [_set(RUNNING, False)], [_set(BLOCK, _method(RETURNS, "pop"))])
        else:
            callee, call, after = parts
            deep = ast.Compare(ast.Call(_name("len"), [_name(RETURNS)], []), [ast.Gt()],
                               [ast.Constant(sys.getrecursionlimit())])
            raised = ast.Call(_name("RecursionError"), [ast.Constant("maximum recursion depth exceeded")], [])
            yield ast.copy_location(ast.If(deep, [ast.Raise(raised, None)], []), call)
            given = {p: value for p, value in self._bound(callee, call).items() if p not in self.same}
            for v in after.saved:
                yield ast.Expr(_method(self._stack(after, v), "append", _name(v)))
            yield ast.Expr(_method(RETURNS, "append", self.apart.index(after)))
            places = ast.Tuple([_name(p, True) for p in given], ast.Store())
            yield ast.copy_location(ast.Assign([places], ast.Tuple(list(given.values()), ast.Load())), call)
            yield _set(BLOCK, self.apart.index(self.entries[callee]))

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


def _outside_loops(s: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that are in none of its loops."""
    yield s
    if not isinstance(s, (ast.For, ast.While)):
        for child in ast.iter_child_nodes(s):
            if isinstance(child, ast.stmt):
                yield from _outside_loops(child)
