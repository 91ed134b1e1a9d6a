"""Comprehensions and generator expressions."""

import ast
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents, sequences
from jitgrad.script.frontend.containers.generators import Generator, opened
from jitgrad.script.frontend.evaluate import conditions, loops, merge, targets
from jitgrad.script.frontend.source.liveness import names_read
from jitgrad.script.frontend.state import dispatch, effects, unrolling
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import call, iterate, set_item
from jitgrad.script.frontend.values.values import Function, Iterable, Number, sequence


def list_comprehension(context: Context, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
    """`[f(x) for x in xs if p(x)]`, of known length or not."""
    made = contents.new_list(context, [])

    def add() -> None:
        sequences.append(context, made, dispatch.evaluate(context, node.elt))

    _generate(context, node, node.generators, add)
    return made


def consumed(context: Context, node: ast.GeneratorExp, fn: Any) -> Any:
    """A generator expression that is the only argument of a call of `fn`: the list of its items."""
    block = context.builder.block
    begin = len(block.nodes)
    made = list_comprehension(context, node)
    if isinstance(fn, (Function, types.FunctionType)) and any(
            n.op in ("print", "commit", "callback") for n in block.nodes[begin:]):
        raise UnsupportedCall("a generator with effects as an argument", context.span(),
                              hint="write a list, `[...]`, or a `for` loop")
    return made


def quantified(context: Context, node: ast.GeneratorExp, all_: bool) -> Any:
    """`any(test(x) for x in xs)`, `all(...)`: a function with a loop, which ends with the item that decides."""
    test: ast.expr = ast.UnaryOp(ast.Not(), node.elt) if all_ else node.elt
    found = ast.If(test, [ast.Return(ast.Constant(not all_))], [])
    return _searched(context, node, found, ast.Return(ast.Constant(all_)), ())


def first(context: Context, node: ast.GeneratorExp, default: tuple[Any, ...]) -> Any:
    """`next(f(x) for x in xs if test(x))`, with a default or without: a function with a loop."""
    end: ast.stmt = ast.Return(ast.Name(_DEFAULT, ast.Load())) if default else ast.Raise(
        ast.Name("StopIteration", ast.Load()), None)
    return _searched(context, node, ast.Return(node.elt), end, default)


def _searched(context: Context, node: ast.GeneratorExp, found: ast.stmt, end: ast.stmt,
              default: tuple[Any, ...]) -> Any:
    """Call a function that goes through the loops of `node`, with `found` inside them and `end` after them."""
    outer = context.frame.source
    source = outer.once(node, lambda: outer.nested(_loop_of(node, found, end, context.frame.scope.global_)))
    start = dispatch.evaluate(context, node.generators[0].iter)
    none = default or (None,)
    return call(context, Function(source.node, source, context.frame.closed_over(), (), {}), start, *none)


def _loop_of(node: ast.GeneratorExp, body: ast.stmt, end: ast.stmt, global_: Collection[str]) -> ast.FunctionDef:
    """The definition of that function; its first parameter is what the outermost `for` goes over. What `:=` in it binds
    is the function's around it, or is global there."""
    named = {n.target.id: None for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
    declared: list[ast.stmt] = [ast.Global([n]) if n in global_ else ast.Nonlocal([n]) for n in named]
    for k, generator in reversed(list(enumerate(node.generators))):
        for condition in reversed(generator.ifs):
            body = ast.If(condition, [body], [])
        source = generator.iter if k else ast.Name(_SOURCE, ast.Load())
        body = ast.For(generator.target, source, [body], [], None)
    parameters = ast.arguments([], [ast.arg(_SOURCE), ast.arg(_DEFAULT)], None, [], [], None, [])
    made = ast.FunctionDef("<genexpr>", parameters, [*declared, body, end], [], None, None)
    for n in ast.walk(made):
        if isinstance(n, (ast.stmt, ast.expr, ast.arg)) and not hasattr(n, "lineno"):
            ast.copy_location(n, node)
    return made


#: whether this Python evaluates comprehensions in the function around them (PEP 709)
INLINES = sys.version_info >= (3, 12)
_SOURCE, _DEFAULT = ".0", ".1"  # names that no program can have


def dict_comprehension(context: Context, node: ast.DictComp) -> Any:
    """`{k: v for ...}`: a dict that is filled."""
    made = contents.new_dict(context, {})

    def add() -> None:
        key = dispatch.evaluate(context, node.key)
        set_item(context, made, key, dispatch.evaluate(context, node.value))

    _generate(context, node, node.generators, add)
    return made


def set_comprehension(context: Context, node: ast.SetComp) -> Any:
    """`{f(x) for ...}`."""
    return call(context, set, list_comprehension(context, node))


def generator_expression(context: Context, node: ast.GeneratorExp) -> Any:
    """`(f(x) for x in xs)`: a generator function, called; the outermost iterable is evaluated now."""
    return _searched(context, node, ast.Expr(ast.Yield(node.elt)), ast.Pass(), ())


def _trips(context: Context, iterable: Iterable) -> int | None:
    """How many items are taken one by one; None where that is a loop."""
    length = iterable.length
    if isinstance(length, int) and (iterable.unrolled or length <= unrolling.UNROLL_LIMIT):
        return length
    return unrolling.trips(context, length, False)


def _generate(context: Context, node: ast.expr, generators: list[ast.comprehension], yield_: Callable[[], Any]) -> None:
    """Evaluate the loops of comprehension `node`: `yield_` for each item."""
    frame = context.frame
    bound = frozenset(n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
    generator = generators[0]
    source = opened(context, dispatch.evaluate(context, generator.iter))
    by_turns = isinstance(source, Generator)
    iterable = sequence([]) if by_turns else effects.guarded(context, lambda: iterate(context, source))
    assert iterable is not None
    length = iterable.length
    trips = _trips(context, iterable)
    before = dict(frame.names)
    apart = isinstance(node, ast.GeneratorExp) or not INLINES
    scope = context.new_id()
    for n in ast.walk(generator.target):
        if isinstance(n, ast.Name):
            frame.names[n.id] = f"{n.id}.{scope}"
    frame.inside += apart

    def item(k: Any) -> None:
        take(iterable.item(context, k))

    def take(value: Any) -> Any:
        """At a `yield` of a generator that is gone over, or in an iteration."""
        context.frame, context.node = frame, node
        targets.assign(context, generator.target, value)
        tested(generator.ifs)
        return False

    def tested(tests: list[ast.expr]) -> None:
        if not tests:
            if len(generators) > 1:
                _generate(context, node, generators[1:], yield_)
            else:
                yield_()
            return
        value = conditions.condition(context, tests[0])
        if not isinstance(value, Number):
            if value:
                tested(tests[1:])
            return

        def taken() -> None:
            conditions.narrow(context, tests[0], value, True)
            tested(tests[1:])

        merge.branch(context, value, taken, lambda: None)

    try:
        if by_turns:
            context.waiting.append((frame.id, frozenset(names_read(node))))
            try:
                source.run(context, take)
            finally:
                context.waiting.pop()
            context.frame, context.node = frame, node
        elif trips is not None:
            with unrolling.repeated(context, trips):
                taken = iterable if iterable.unrolled else Iterable(trips, iterable.item, True)
                k = 0
                while unrolling.goes_on(context, taken, k):
                    item(k)
                    k += 1
        else:
            loops.run(context, key=(context.span(generator.iter), "comprehension"), names=bound, assigned=bound,
                      rebound=bound, body=item, trips=length, first=None)
    finally:
        own, frame.names = frame.names, before
        frame.inside -= apart
    if not any(isinstance(n, (ast.Lambda, ast.GeneratorExp)) for n in ast.walk(node)):  # else they may read them later
        for name in set(own.values()) - set(before.values()):
            context.state.values.pop((frame.id, name), None)
