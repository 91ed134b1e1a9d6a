"""Statements: assignments, branches, loops, exits.

A pending exit is a flag in the state, `(frame or loop, "return" | "break" | "continue")`: False, True, or a run-time
bool where only some paths leave. What follows a statement that may leave runs under `if not left`; where one side of a
branch certainly leaves, the rest of the block moves into the other side instead.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedSyntax
from jitgrad.script.frontend.containers import generators, sequences
from jitgrad.script.frontend.containers.iteration import Iterator
from jitgrad.script.frontend.evaluate import (attempts, conditions, control, exceptions, expressions as ex, imports,
                                              loops, merge, names, patterns, scopes, targets)
from jitgrad.script.frontend.evaluate.carried.heads import Peel
from jitgrad.script.frontend.source.liveness import always_leaves, exits
from jitgrad.script.frontend.state import copies, effects, unrolling
from jitgrad.script.frontend.state.context import APART, Context
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import call, iterate
from jitgrad.script.frontend.values.values import UNBOUND, Iterable, Number, is_held


class _Loop:
    """A loop that is being evaluated, run-time or unrolled."""

    __slots__ = ("ends", "has_else", "id", "live", "place")

    def __init__(self, context: Context, s: ast.While | ast.For):
        self.id, self.live, self.has_else = context.new_id(), _names(context, s), bool(s.orelse)
        self.ends, self.place = True, context.span(s)  # whether any iteration may be the last one


# --- functions -----------------------------------------------------------------------------------------------------


def run_function(context: Context, frame: Frame, node: Any) -> Any:
    """Evaluate a function's body in its frame; what it returns."""
    if isinstance(node, ast.Lambda):
        return ex.evaluate(context, node.body)
    run_block(context, node.body)
    values = context.state.values
    flag = values.pop((frame.id, "return"), False)
    key = (frame.id, control.RESULT)
    if flag is False:
        values.pop(key, None)
        return None
    result = values.pop(key)
    if flag is True:
        return unions.without(context, result, UNBOUND, known=True)
    flag, known = control.returning(context, flag, result)
    return merge.branch(context, flag, lambda: unions.without(context, result, UNBOUND, known), lambda: None,
                        frozenset())


def run_block(context: Context, statements: Sequence[ast.stmt], passed: int = 0,
              decided: Mapping[int, bool] = attempts.UNDECIDED) -> None:
    """Evaluate statements in order, as far as control gets. `passed`, `decided`: of the first (`attempts.Step`)."""
    for i, s in enumerate(statements):
        context.node = s
        if context.tries or APART in context.decisions:
            ended = _attempted(context, statements[i:], passed, decided)
        else:
            ended = _statement(context, s, statements[i + 1:])
        if ended:
            return
        passed, decided = 0, attempts.UNDECIDED


def _statement(context: Context, s: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
    """Evaluate a statement; True where that is the end of its block: the rest was evaluated, or is not reached."""
    if isinstance(s, ast.If):
        if _if(context, s, rest):
            return True
    else:
        handler = HANDLERS.get(type(s))
        if handler is None:
            raise UnsupportedSyntax(f"`{type(s).__name__.lower()}` statement", context.span())
        handler(context, s)
    return _ended(context, rest)


def _ended(context: Context, rest: Sequence[ast.stmt]) -> bool:
    """After a statement: whether control has left its block, or `rest` was evaluated where it has not."""
    left = control.pending(context)
    if isinstance(left, Number) and rest:
        control.unless_left(context, left, partial(run_block, context, rest), control.live_after(context, rest[-1]))
    return left is not False


def _attempted(context: Context, statements: Sequence[ast.stmt], passed: int, decided: Mapping[int, bool]) -> bool:
    """Evaluate the first of the statements, which may have to be done again."""
    step = attempts.Step(context, passed, decided)
    context.steps.append(step)
    context.scopes.append({})
    try:
        ended = _statement(context, statements[0], statements[1:])
        context.scopes[-2].update(context.scopes[-1])
        return ended
    except (attempts.MayFail, attempts.Split) as unwinding:
        if unwinding.step is not step:
            raise
        found = unwinding
    finally:
        context.scopes.pop()
        context.steps.pop()
    step.back(context)
    if isinstance(found, attempts.Split):
        done = statements if found.and_rest else statements[:1]

        def side(outcome: bool) -> Callable[[], None]:
            return lambda: run_block(context, done, passed, {**decided, found.number: outcome})

        merge.branch(context, found.condition, side(True), side(False), control.live_after(context, done[-1]))
        return found.and_rest or _ended(context, statements[1:])
    if found.condition is None:
        exceptions.fail(context, found)
    else:
        merge.branch(context, found.condition, lambda: run_block(context, statements, step.seen, decided),
                     lambda: exceptions.fail(context, found), control.live_after(context, statements[-1]))
    return True


# --- branches ------------------------------------------------------------------------------------------------------


def _if(context: Context, s: ast.If, rest: Sequence[ast.stmt]) -> bool:
    """An `if`; True where the rest of the block was evaluated with it."""
    test = conditions.condition(context, s.test)
    if not isinstance(test, Number):
        run_block(context, s.body if test else s.orelse)
        return False
    then, other, consumed = list(s.body), list(s.orelse), False
    last: ast.stmt = s
    if rest and always_leaves(s.body):
        other, last, consumed = [*other, *rest], rest[-1], True
    elif rest and s.orelse and always_leaves(s.orelse):
        then, last, consumed = [*then, *rest], rest[-1], True

    true, false = (conditions.side(context, s.test, test, outcome, partial(run_block, context, statements))
                   for outcome, statements in ((True, then), (False, other)))
    merge.branch(context, test, true, false, control.live_after(context, last))
    return consumed


# --- loops ---------------------------------------------------------------------------------------------------------


def _names(context: Context, s: ast.While | ast.For) -> frozenset[str]:
    scope = context.frame.scope
    return scope.head[id(s)] | scope.after[id(s)]


def _leave(context: Context, loop: _Loop) -> Any:
    """After a body: whether the loop ends here."""
    values = context.state.values
    values.pop((loop.id, "continue"), None)
    leave = values.get((loop.id, "break"), False)
    if not loop.has_else:
        values.pop((loop.id, "break"), None)
    return _left(context, leave)


def _left(context: Context, broke: Any) -> Any:
    """Whether control goes on outside a loop: broken, or on its way to a return or a handler."""
    left = numbers.either(context, broke, context.state.values.get((context.frame.id, "return"), False))
    return numbers.either(context, left, control.to_handler(context)) if context.tries else left


def _body(context: Context, loop: _Loop, statements: Sequence[ast.stmt]) -> Any:
    frame = context.frame
    frame.loops.append(loop)
    try:
        run_block(context, statements)
    finally:
        frame.loops.pop()
    return _leave(context, loop)


def _finish(context: Context, s: ast.While | ast.For, loop: _Loop) -> None:
    """The `else` of a loop, and the end of its flags."""
    broke = context.state.values.pop((loop.id, "break"), False)
    if s.orelse:
        left = _left(context, broke)
        if isinstance(left, Number):
            control.unless_left(context, left, partial(run_block, context, s.orelse), control.live_after(context, s))
        elif not left:
            run_block(context, s.orelse)


def _while(context: Context, s: ast.While) -> None:
    _as_long(context, s, lambda: conditions.condition(context, s.test), lambda: None)


def _as_long(context: Context, s: ast.While | ast.For, test: Callable[[], Any], begin: Callable[[], None]) -> None:
    """A loop that goes on as long as `test` says; `begin` is the start of an iteration."""
    first = test()
    loop = _Loop(context, s)
    if first is False:
        _finish(context, s, loop)
        return

    def body(counter: Number | None) -> Any:
        begin()
        leave = _body(context, loop, s.body)
        if leave is True:
            return False
        if leave is False:
            return test()
        return merge.branch(context, leave, lambda: False, test, _names(context, s))

    loops.run_while(context, first, body, key=context.span(s), **_variables(context, s))
    _finish(context, s, loop)


def _variables(context: Context, s: ast.While | ast.For) -> dict[str, Any]:
    """What a loop reads and binds."""
    scope = context.frame.scope
    return {"names": _names(context, s), "assigned": scope.assigned[id(s)] & scope.local,
            "rebound": scope.rebound[id(s)]}


def _for(context: Context, s: ast.For) -> None:
    source = ex.evaluate(context, s.iter)
    context.node = s.iter
    source = sequences.gone_over(context, source)
    if isinstance(source, generators.Generator):
        _generated(context, s, source)
        return
    if isinstance(source, Iterator) and source.is_shared(context):
        _as_long(context, s, lambda: source.more(context),
                 lambda: targets.assign(context, s.target, source.take(context)))
        return
    iterable = effects.guarded(context, lambda: iterate(context, source))
    context.node = s
    assert iterable is not None
    loop = _Loop(context, s)
    place = context.span(s)
    wanted = ("unroll", place) in context.decisions
    separate = iterable.unrolled and isinstance(iterable.length, int)
    trips = iterable.length if separate else unrolling.trips(context, iterable.length, wanted)
    if trips is not None:
        with unrolling.repeated(context, trips):
            _unrolled(context, s, iterable if separate else Iterable(trips, iterable.item, True), loop)
    elif isinstance(iterable.length, int) and iterable.length == 0:
        _finish(context, s, loop)
    else:
        if wanted:
            raise NotStatic("the counter of this loop is an index into separate objects, for which the loop would have "
                            f"to be unrolled: it has {iterable.length} iterations, and at most "
                            f"{unrolling.UNROLL_LIMIT} are unrolled, those of loops around it multiplied",
                            context.span(s), hint="loop over the objects themselves")
        _counted(context, s, iterable, loop)
        if is_held(source):
            copies.gone_over(context, source)
        _finish(context, s, loop)


def _generated(context: Context, s: ast.For, source: generators.Generator) -> None:
    """A loop over a generator: its body runs at every `yield`."""
    frame, loop = context.frame, _Loop(context, s)
    context.waiting.append((frame.id, _names(context, s)))

    def consume(item: Any) -> Any:
        context.frame, context.node = frame, s
        targets.assign(context, s.target, item)
        return _body(context, loop, s.body)

    try:
        source.run(context, consume)
    finally:
        context.waiting.pop()
    context.frame, context.node = frame, s
    _finish(context, s, loop)


def _unrolled(context: Context, s: ast.For, iterable: Iterable, loop: _Loop) -> None:
    def step(k: int) -> None:
        context.node = s
        if not unrolling.goes_on(context, iterable, k):
            _finish(context, s, loop)
            return
        targets.assign(context, s.target, iterable.item(context, k))
        leave = _body(context, loop, s.body)
        if leave is False:
            step(k + 1)
        elif isinstance(leave, Number):
            live = loop.live | control.live_after(context, s)
            control.unless_left(context, leave, partial(step, k + 1), live)
        elif s.orelse:
            _finish(context, s, loop)

    step(0)
    context.state.values.pop((loop.id, "break"), None)


def _counted(context: Context, s: ast.For, iterable: Iterable, loop: _Loop) -> None:
    """A loop over a range or a tensor's first axis: a `scan`, or a `while` with a counter where it may be left."""
    length, place = iterable.length, loop.place
    leaves = (exits(s.body) & {"break", "return"} or exceptions.may_leave(context, s.body)
              or ("leaves", place) in context.decisions)

    def iteration(k: Any) -> Any:
        item = iterable.item(context, k)
        if isinstance(item, Number) and not isinstance(length, Number):
            context.counters.append((item, place))
        try:
            targets.assign(context, s.target, item)
            return _body(context, loop, s.body)
        finally:
            if context.counters and context.counters[-1][0] is item:
                context.counters.pop()

    loop.ends = bool(leaves)
    if not leaves:
        def body(counter: Number | None) -> Any:
            iteration(counter)
            return None

        entry = context.state
        try:
            try:
                loops.run(context, key=context.span(s), body=body, trips=length, first=None, **_variables(context, s))
            except Peel:
                _peel(context, s, iterable, loop, iteration)
        except loops.NoTrip:
            context.state = entry
        return
    counter_key = (context.frame.id, f"counter {s.lineno}:{s.col_offset}")
    context.state.values[counter_key] = 0
    name = counter_key[1]

    def guarded(counter: Number | None) -> Any:
        k = context.state.values[counter_key]
        if isinstance(k, Number):
            numbers.bounded(k, 0, length)
        leave = iteration(k)
        following = numbers.wrap(context, context.one("num.add", numbers.value_of(context, k), context.constant(1)))
        context.state.values[counter_key] = following
        if leave is True:
            return False
        more = numbers.wrap(context, context.one("num.lt", following.value, numbers.value_of(context, length)))
        return more if leave is False else numbers.both(context, numbers.negate(context, leave), more)

    first = numbers.compare(context, "gt", length, 0)
    loop_variables = _variables(context, s)
    for which in ("names", "assigned"):
        loop_variables[which] |= {name}
    loops.run_while(context, first, guarded, key=place, **loop_variables)
    context.state.values.pop(counter_key, None)


def _peel(context: Context, s: ast.For, iterable: Iterable, loop: _Loop, iteration: Callable[[Any], Any]) -> None:
    """The first iteration apart: afterwards every variable has its type. That there is one is guarded, if it is known
    at entry, else a branch."""
    length = iterable.length
    context.log.append(f"peeled the first iteration of the loop at {context.span(s)}")

    def once() -> None:
        iteration(0)
        rest = numbers.binary(context, "sub", length, 1)
        if isinstance(rest, int) and rest == 0:
            return
        if isinstance(rest, Number) and rest.low is None:
            rest.low = 0
        loops.run(context, key=(context.span(s), "rest"), body=body, trips=rest, first=None, **_variables(context, s))

    def body(counter: Number | None) -> Any:
        assert counter is not None
        k = numbers.wrap(context, context.one("num.add", counter.value, context.constant(1)))
        numbers.bounded(k, 1, length)
        iteration(k)
        return None

    if isinstance(length, int) or loops.require_trip(context, length):
        once()
    else:
        merge.branch(context, numbers.compare(context, "gt", length, 0), once, lambda: None, _names(context, s))


# --- other statements ----------------------------------------------------------------------------------------------


def _return(context: Context, s: ast.Return) -> None:
    frame = context.frame
    value = ex.evaluate(context, s.value) if s.value is not None else None
    key = (frame.id, control.RESULT)
    context.state.values[key] = value
    context.state.values[(frame.id, "return")] = True
    place = context.span(s)
    if place is not None:
        context.state.where[key] = place


def _break(context: Context, s: ast.Break) -> None:
    context.state.values[(context.frame.loops[-1].id, "break")] = True


def _continue(context: Context, s: ast.Continue) -> None:
    context.state.values[(context.frame.loops[-1].id, "continue")] = True


def _expression(context: Context, s: ast.Expr) -> None:
    if isinstance(s.value, ast.Yield):
        generators.yield_(context, ex.evaluate(context, s.value.value) if s.value.value is not None else None)
    elif isinstance(s.value, ast.YieldFrom):
        generators.yield_from(context, ex.evaluate(context, s.value.value))
    elif not isinstance(s.value, ast.Constant):
        ex.evaluate(context, s.value)


def _pass(context: Context, s: ast.Pass) -> None:
    return None


def _function(context: Context, s: ast.FunctionDef) -> None:
    decorators = [ex.evaluate(context, d) for d in s.decorator_list]
    function: Any = ex.make_function(context, s)
    for decorator in reversed(decorators):
        function = call(context, decorator, function)
    names.assign(context, s.name, function, s)


HANDLERS: dict[type[ast.AST], Callable[[Context, Any], Any]] = {
    ast.Assign: targets.assign_all, ast.AnnAssign: targets.annotated, ast.AugAssign: targets.augmented,
    ast.Delete: targets.delete, ast.While: _while, ast.For: _for, ast.Return: _return, ast.Break: _break,
    ast.Continue: _continue, ast.Expr: _expression, ast.Pass: _pass, ast.Nonlocal: _pass, ast.Global: _pass,
    ast.Assert: exceptions.assert_, ast.Raise: exceptions.raise_, ast.Try: exceptions.try_, ast.With: scopes.with_,
    ast.FunctionDef: _function, ast.Match: patterns.match, ast.Import: imports.import_,
    ast.ImportFrom: imports.import_from,
}
