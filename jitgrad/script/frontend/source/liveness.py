"""Which names are read later: a backward pass over a function's AST, once per function.

Branches merge, and loops carry, only names that are live afterwards. Names that an inner function reads are live where
the function is, if its name is all that refers to it (it is only called); otherwise everywhere, since nobody knows when
it runs.
"""

import ast
from collections.abc import Sequence

from jitgrad.classes import dataclass, field
from jitgrad.script.frontend.source.source import DEFERRED, FunctionNode, Source, own_nodes

Names = frozenset[str]


@dataclass(slots=True)
class Scope:
    """Names of one function.

    Attributes:
        parameters: in order, `*args` and `**kwargs` included.
        local: every name that the function binds.
        captured: names that functions nested in it read or write.
        free, global_: names that a `nonlocal` or `global` statement declares.
        after: `id(statement)` -> names live after it.
        head: `id(loop)` -> names live at the loop's head (before its test).
        assigned: `id(loop)` -> names that it binds.
        rebound: `id(loop)` -> the same without those that only augmented assignments bind (`x += 1` keeps a tensor).
        yields: whether the function is a generator's.
    """

    parameters: tuple[str, ...]
    local: Names
    captured: Names
    free: Names = frozenset()
    global_: Names = frozenset()
    after: dict[int, Names] = field(default_factory=dict)
    head: dict[int, Names] = field(default_factory=dict)
    assigned: dict[int, Names] = field(default_factory=dict)
    rebound: dict[int, Names] = field(default_factory=dict)
    yields: bool = False


def scope_of(source: Source) -> Scope:
    """The scope of a function, computed on first use."""
    if source.scope is None:
        source.scope = _analyse(source.node)
    scope: Scope = source.scope
    return scope


def parameters_of(node: FunctionNode) -> tuple[str, ...]:
    """The names of a function's parameters in the order of its frame."""
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return tuple(names + [p.arg for p in (a.vararg, a.kwarg) if p is not None])


def names_bound(node: ast.AST, but: set[int] | None = None) -> set[str]:
    """Names that the code below `node` binds in its own scope (walrus inside comprehensions included).

    `but`: ids of Name nodes that do not count.
    """
    found = set()
    for n in own_nodes(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            if but is None or id(n) not in but:
                found.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(n.name)
        elif isinstance(n, ast.alias):
            found.add(n.asname or n.name.partition(".")[0])
        elif isinstance(n, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            found.update([n.name] if n.name is not None else [])
        elif isinstance(n, ast.MatchMapping) and n.rest is not None:
            found.add(n.rest)
        elif isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            found.update(w.target.id for w in ast.walk(n) if isinstance(w, ast.NamedExpr))
    return found


def names_read(node: ast.AST) -> set[str]:
    """Names that evaluating `node` may read, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _analyse(node: FunctionNode) -> Scope:
    parameters = parameters_of(node)
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    local: set[str] = set(parameters)
    captured: set[str] = set()
    free: set[str] = set()
    global_: set[str] = set()
    for statement in body:
        local |= names_bound(statement)
        captured |= set().union(*map(_names_used, _functions(statement)))
        for n in own_nodes(statement):
            if isinstance(n, ast.Nonlocal):
                free.update(n.names)
            elif isinstance(n, ast.Global):
                global_.update(n.names)
    local -= free | global_
    scope = Scope(parameters, frozenset(local), frozenset(captured & local), frozenset(free), frozenset(global_))
    if not isinstance(node, ast.Lambda):
        scope.yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for s in node.body for n in own_nodes(s))
        backwards = Pass(scope, node.body)
        backwards.block(node.body, set(backwards.always), set(), set())
    return scope


def _functions(node: ast.AST) -> list[ast.AST]:
    """The code below `node` that is evaluated later: functions and generators, also those that comprehensions make."""
    return [n for n in ast.walk(node) if isinstance(n, DEFERRED)]


def _names_used(node: ast.AST) -> set[str]:
    """Names around a nested function or a generator that it reads or writes."""
    named = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
    return names_read(node) | named | {name for n in ast.walk(node) if isinstance(n, ast.Nonlocal) for name in n.names}


def _only_called(body: Sequence[ast.stmt]) -> dict[int, ast.FunctionDef]:
    """The nested functions to which nothing but their own name refers, which is only called; by id of their node."""
    inside = [n for s in body for n in ast.walk(s)]
    called = {id(n.func) for n in inside if isinstance(n, ast.Call)}
    escaping = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in called}
    found = [n for s in body for n in own_nodes(s) if isinstance(n, ast.FunctionDef)]
    return {id(f): f for f in found if f.name not in escaping and not f.decorator_list and not any(
        isinstance(n, (*DEFERRED, ast.Yield, ast.YieldFrom)) for n in ast.walk(f) if n is not f)}


class Pass:
    """The backward pass: every method takes the names live after and gives those live before."""

    def __init__(self, scope: Scope, body: Sequence[ast.stmt]):
        self.scope = scope
        self.only_called = _only_called(body)
        others = [n for s in body for n in _functions(s) if id(n) not in self.only_called]
        self.always = {name for n in others for name in _names_used(n)} & scope.local
        #: function that is only called -> the names that are live where it is
        self.held: dict[str, set[str]] = {}
        for f in self.only_called.values():
            self.held[f.name] = self.held.get(f.name, set()) | (_names_used(f) & scope.local)
        self.always = self.with_held(self.always)

    def with_held(self, names: set[str]) -> set[str]:
        """The names, and those that functions among them read."""
        found, waiting = set(names), list(names)
        while waiting:
            new = self.held.get(waiting.pop(), set()) - found
            found |= new
            waiting.extend(new)
        return found

    def reads(self, node: ast.AST) -> set[str]:
        """Names that evaluating `node` may read, by functions that it calls included."""
        return self.with_held(names_read(node))

    def block(self, statements: Sequence[ast.stmt], live: set[str], on_break: set[str],
              on_continue: set[str]) -> set[str]:
        for statement in reversed(statements):
            live = self.statement(statement, live, on_break, on_continue)
        return live

    def statement(  # noqa: C901  (a case per statement)
            self, s: ast.stmt, live: set[str], on_break: set[str], on_continue: set[str]) -> set[str]:
        self.scope.after[id(s)] = frozenset(live)
        if isinstance(s, ast.If):
            then = self.block(s.body, live, on_break, on_continue)
            other = self.block(s.orelse, live, on_break, on_continue)
            return then | other | self.reads(s.test) | self.always
        if isinstance(s, ast.While):
            return self.loop(s, live, self.reads(s.test), set())
        if isinstance(s, ast.For):
            return self.loop(s, live, set(), names_bound(s.target)) | self.reads(s.iter)
        if isinstance(s, ast.With):  # every point of its body may go on behind it, with an exception that it takes
            before, self.always = self.always, self.always | live
            inner = self.block(s.body, live, on_break, on_continue)
            self.always = before
            return inner | set().union(*(self.reads(i.context_expr) for i in s.items))
        if isinstance(s, ast.Try):
            return self.attempt(s, live, on_break, on_continue)
        if isinstance(s, ast.Match):
            inner = set(live)
            for case in s.cases:
                inner |= self.block(case.body, live, on_break, on_continue) - names_bound(case.pattern)
                inner |= self.reads(case.pattern) | (self.reads(case.guard) if case.guard is not None else set())
            return inner | self.reads(s.subject) | self.always
        if isinstance(s, ast.Delete):
            killed = {t.id for target in s.targets for t in _targets(target)}
            return (live - killed) | self.reads(s) | self.always
        if isinstance(s, ast.Return):
            return (self.reads(s.value) if s.value is not None else set()) | self.always
        if isinstance(s, ast.Break):
            return on_break | self.always
        if isinstance(s, ast.Continue):
            return on_continue | self.always
        if isinstance(s, ast.Raise):
            return self.reads(s) | self.always
        if isinstance(s, ast.Assign):
            killed = {t.id for target in s.targets for t in _targets(target)}
            return (live - killed) | self.reads(s) | self.always
        if isinstance(s, ast.AnnAssign) and s.value is not None and isinstance(s.target, ast.Name):
            return (live - {s.target.id}) | self.reads(s.value) | self.always
        if isinstance(s, ast.AugAssign):
            read = self.reads(s)
            return live | read | ({s.target.id} if isinstance(s.target, ast.Name) else set())
        if isinstance(s, ast.FunctionDef):
            read = self.reads(s.args if id(s) in self.only_called else s)
            return (live - {s.name}) | read | self.always
        return live | self.reads(s)

    def attempt(self, s: ast.Try, live: set[str], on_break: set[str], on_continue: set[str]) -> set[str]:
        """A `try`: every point of its body may go on in a handler, and every way out passes `finally`."""
        before = self.always
        final = self.block(s.finalbody, live, on_break, on_continue)
        self.always = before | final if s.finalbody else before
        caught: set[str] = set()
        for handler in s.handlers:
            inner = self.block(handler.body, final, on_break, on_continue)
            caught |= (inner - {handler.name or ""}) | (self.reads(handler.type) if handler.type else set())
        otherwise = self.block(s.orelse, final, on_break, on_continue)
        self.always = self.always | caught
        body = self.block(s.body, otherwise | caught, on_break, on_continue)
        self.always = before
        return body | caught

    def loop(self, s: ast.While | ast.For, live: set[str], test: set[str], bound: set[str]) -> set[str]:
        after = self.block(s.orelse, live, set(), set()) if s.orelse else live
        head = after | test
        while True:  # a fixpoint; two rounds suffice but for loops nested in loops
            grown = head | (self.block(s.body, head, live, head) - bound)
            if grown == head:
                break
            head = grown
        self.scope.head[id(s)] = frozenset(head)
        self.scope.assigned[id(s)] = frozenset(names_bound(s))
        updates = {id(n.target) for n in own_nodes(s) if isinstance(n, ast.AugAssign)}
        self.scope.rebound[id(s)] = frozenset(names_bound(s, updates))
        return head


def bound_after(statements: Sequence[ast.stmt], bound: set[str]) -> set[str]:
    """The variables that are bound after statements on every way, where `bound` are before."""
    for s in statements:
        if isinstance(s, ast.If):
            bound = bound_after(s.body, bound) & bound_after(s.orelse, bound)
        elif isinstance(s, ast.With):
            bound = bound_after(s.body, bound.union(*map(names_bound, s.items)))
        elif isinstance(s, ast.Try):
            ways = [bound_after([*s.body, *s.orelse], bound), *(bound_after(h.body, bound) for h in s.handlers)]
            bound = bound_after(s.finalbody, set.intersection(*ways))
        elif isinstance(s, ast.Delete):
            bound = bound - names_bound(s)
        elif not isinstance(s, (ast.For, ast.While, ast.Match)):
            bound = bound | names_bound(s)
    return bound


def _targets(target: ast.expr) -> list[ast.Name]:
    """The names that an assignment target certainly rebinds."""
    if isinstance(target, ast.Name):
        return [target]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [n for t in target.elts for n in _targets(t)]
    if isinstance(target, ast.Starred):
        return _targets(target.value)
    return []


def always_leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether control certainly does not reach the end of the block (judged by its form)."""
    for s in statements:
        if isinstance(s, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(s, ast.If) and s.orelse and always_leaves(s.body) and always_leaves(s.orelse):
            return True
        if isinstance(s, ast.With) and always_leaves(s.body):
            return True
        if isinstance(s, ast.Try) and always_leaves([*s.body, *s.orelse]) and all(
                always_leaves(h.body) for h in s.handlers):
            return True
    return False


def exits(statements: Sequence[ast.stmt]) -> set[str]:
    """Which of "break", "continue", "return", "raise" may leave the block (a loop keeps its own break and continue)."""
    found: set[str] = set()
    for s in statements:
        if isinstance(s, ast.Return):
            found.add("return")
        elif isinstance(s, ast.Break):
            found.add("break")
        elif isinstance(s, ast.Continue):
            found.add("continue")
        elif isinstance(s, (ast.Raise, ast.Assert)):
            found.add("raise")
        elif isinstance(s, (ast.If, ast.With)):
            found |= exits(s.body) | exits(getattr(s, "orelse", []))
        elif isinstance(s, ast.Try):
            found |= exits([*s.body, *s.orelse, *s.finalbody])
            for handler in s.handlers:
                found |= exits(handler.body)
        elif isinstance(s, ast.Match):
            for case in s.cases:
                found |= exits(case.body)
        elif isinstance(s, (ast.While, ast.For)):
            found |= exits(s.body) & {"return", "raise"}
            found |= exits(s.orelse)
    return found
