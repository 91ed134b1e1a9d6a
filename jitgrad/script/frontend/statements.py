"""Statements: assignments, branches, loops, exits.

A pending exit is a flag in the state, `(frame or loop, "return" | "break" | "continue")`: False, True, or a run-time
bool where only some paths leave. What follows a statement that may leave runs under `if not left`; where one side of a
branch certainly leaves, the rest of the block moves into the other side instead.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.errors import NotStatic, TypeMismatch, UnsupportedCall, UnsupportedSyntax
from jitgrad.script.frontend import calls, frames, lists, loops, merge, numbers
from jitgrad.script.frontend import expressions as ex
from jitgrad.script.frontend import templates as tp
from jitgrad.script.frontend.attributes import getattribute, setattribute
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.frames import Frame
from jitgrad.script.frontend.iteration import UNROLL_LIMIT, Iterable
from jitgrad.script.frontend.liveness import always_leaves, exits
from jitgrad.script.frontend.values import UNBOUND, Number, RunItems, SymList, SymTensor, Union, type_word

_RESULT = ("result",)


class _Loop:
    """A loop that is being evaluated, run-time or unrolled."""

    __slots__ = ("has_else", "id", "live")

    def __init__(self, context: Context, s: ast.While | ast.For):
        self.id, self.live, self.has_else = context.new_id(), _names(context, s), bool(s.orelse)


# --- functions -----------------------------------------------------------------------------------------------------


def run_function(context: Context, frame: Frame, node: Any) -> Any:
    """Evaluate a function's body in its frame; what it returns."""
    if isinstance(node, ast.Lambda):
        return ex.evaluate(context, node.body)
    run_block(context, node.body)
    values = context.state.values
    flag = values.pop((frame.id, "return"), False)
    key = (frame.id, _RESULT)
    if flag is False:
        values.pop(key, None)
        return None
    result = values.pop(key)
    if flag is True:
        return tp.without(context, result, UNBOUND, known=True)
    flag, known = _returned(context, flag, result)
    return merge.branch(context, flag, lambda: tp.without(context, result, UNBOUND, known), lambda: None, frozenset())


def _returned(context: Context, flag: Number, result: Any) -> tuple[Number, bool]:
    """A pending return as a condition: the presence of its result where that says it; else the flag."""
    if isinstance(result, Union) and result.tag is None and result.statics == (UNBOUND,):
        bound = numbers.negate(context, tp.is_static(context, result, UNBOUND))
        assert isinstance(bound, Number)
        return bound, False
    return flag, True


def run_block(context: Context, statements: Sequence[ast.stmt]) -> None:
    """Evaluate statements in order, as far as control gets."""
    for i, s in enumerate(statements):
        rest = statements[i + 1:]
        context.node = s
        if isinstance(s, ast.If):
            if _if(context, s, rest):
                return
        else:
            handler = HANDLERS.get(type(s))
            if handler is None:
                raise UnsupportedSyntax(f"`{type(s).__name__.lower()}` statement", context.span())
            handler(context, s)
        left = pending(context)
        if left is True:
            return
        if isinstance(left, Number):
            if rest:
                _under(context, left, rest, live_after(context, statements[-1]))
            return


def live_after(context: Context, s: ast.stmt) -> frozenset[str]:
    """Names read after a statement, on any way out of it."""
    live = context.frame.scope.after.get(id(s), frozenset())
    for loop in context.frame.loops:
        live = live | loop.live
    return live


def pending(context: Context) -> Any:
    """Whether control has left the current block: False, True or a run-time bool."""
    frame, values = context.frame, context.state.values
    result: Any = values.get((frame.id, "return"), False)
    if frame.loops:
        loop = frame.loops[-1]
        for kind in ("break", "continue"):
            result = numbers.either(context, result, values.get((loop.id, kind), False))
    return result


def _under(context: Context, left: Number, rest: Sequence[ast.stmt], live: frozenset[str]) -> None:
    """Run `rest` where control has not left."""
    frame = context.frame
    flag = context.state.values.get((frame.id, "return"), False)
    returned, known = flag is left, True
    if returned:
        left, known = _returned(context, left, context.state.values[(frame.id, _RESULT)])

    def gone() -> None:
        if returned:
            values = context.state.values
            values[(frame.id, "return")] = True
            values[(frame.id, _RESULT)] = tp.without(context, values[(frame.id, _RESULT)], UNBOUND, known)

    merge.branch(context, left, gone, lambda: run_block(context, rest), live)


# --- branches ------------------------------------------------------------------------------------------------------


def _if(context: Context, s: ast.If, rest: Sequence[ast.stmt]) -> bool:
    """An `if`; True where the rest of the block was evaluated with it."""
    test = ex.condition(context, s.test)
    if not isinstance(test, Number):
        run_block(context, s.body if test else s.orelse)
        return False
    then, other, consumed = list(s.body), list(s.orelse), False
    last: ast.stmt = s
    if rest and always_leaves(s.body):
        other, last, consumed = [*other, *rest], rest[-1], True
    elif rest and s.orelse and always_leaves(s.orelse):
        then, last, consumed = [*then, *rest], rest[-1], True

    def side(statements: list[ast.stmt], outcome: bool) -> Callable[[], None]:
        def run() -> None:
            ex.narrow(context, s.test, test, outcome)
            run_block(context, statements)
        return run

    merge.branch(context, test, side(then, True), side(other, False), live_after(context, last))
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
    return numbers.either(context, leave, values.get((context.frame.id, "return"), False))


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
        left = numbers.either(context, broke, context.state.values.get((context.frame.id, "return"), False))
        if isinstance(left, Number):
            merge.branch(context, left, lambda: None, lambda: run_block(context, s.orelse), live_after(context, s))
        elif not left:
            run_block(context, s.orelse)


def _while(context: Context, s: ast.While) -> None:
    first = ex.condition(context, s.test)
    loop = _Loop(context, s)
    if first is False:
        _finish(context, s, loop)
        return

    def body(counter: Number | None) -> Any:
        leave = _body(context, loop, s.body)
        if leave is True:
            return False

        def again() -> Any:
            return ex.condition(context, s.test)

        if leave is False:
            return again()
        return merge.branch(context, leave, lambda: False, again, _names(context, s))

    _run(context, s, loop, body, None, first)
    _finish(context, s, loop)


def _run(context: Context, s: ast.While | ast.For, loop: _Loop, body: Callable[[Number | None], Any], trips: Any,
         first: Any) -> None:
    names, assigned = _names(context, s), context.frame.scope.assigned[id(s)]
    loops.run(context, key=context.span(s), names=names, assigned=assigned, rebound=_rebound(context, s), body=body,
              trips=trips, first=first)


def _rebound(context: Context, s: ast.While | ast.For) -> frozenset[str]:
    return context.frame.scope.rebound[id(s)]


def _for(context: Context, s: ast.For) -> None:
    source = ex.evaluate(context, s.iter)
    context.node = s.iter
    iterable = calls.guarded(context, lambda: Iterable.of(context, source))
    context.node = s
    assert iterable is not None
    loop = _Loop(context, s)
    place = context.span(s)
    if isinstance(iterable.length, int) and (iterable.unrolled or ("unroll", place) in context.decisions):
        _unrolled(context, s, iterable, loop)
    elif isinstance(iterable.length, int) and iterable.length == 0:
        _finish(context, s, loop)
    else:
        if ("unroll", place) in context.decisions:
            raise NotStatic("this loop must be unrolled, because its counter is an index into separate objects, but "
                            "its length is known only at run time", context.span(s),
                            hint="loop over the objects themselves")
        _counted(context, s, iterable, loop)
        _finish(context, s, loop)


def _unrolled(context: Context, s: ast.For, iterable: Iterable, loop: _Loop) -> None:
    if not iterable.unrolled and iterable.length > UNROLL_LIMIT:
        raise NotStatic(f"this loop of {iterable.length} iterations would have to be unrolled (at most {UNROLL_LIMIT})",
                        context.span(s))

    def step(k: int) -> None:
        if k == iterable.length:
            _finish(context, s, loop)
            return
        assign(context, s.target, iterable.item(context, k))
        leave = _body(context, loop, s.body)
        if leave is False:
            step(k + 1)
        elif isinstance(leave, Number):
            merge.branch(context, leave, lambda: None, lambda: step(k + 1), loop.live | live_after(context, s))
        elif s.orelse:
            _finish(context, s, loop)

    step(0)
    context.state.values.pop((loop.id, "break"), None)


def _counted(context: Context, s: ast.For, iterable: Iterable, loop: _Loop) -> None:
    """A loop over a range or a tensor's first axis: a `scan`, or a `while` with a counter where it may be left."""
    leaves = exits(s.body) & {"break", "return"}
    length = iterable.length
    place = context.span(s)

    def iteration(k: Any) -> Any:
        item = iterable.item(context, k)
        if isinstance(item, Number) and not isinstance(length, Number):
            context.counters.append((item, place))
        try:
            assign(context, s.target, item)
            return _body(context, loop, s.body)
        finally:
            if context.counters and context.counters[-1][0] is item:
                context.counters.pop()

    if not leaves:
        def body(counter: Number | None) -> Any:
            iteration(counter)
            return None

        entry = context.state
        try:
            try:
                _run(context, s, loop, body, length, None)
            except loops.Peel:
                _peel(context, s, iterable, loop, iteration)
        except loops.NoTrip:
            context.state = entry
        return
    counter_key = (context.frame.id, f"counter {s.lineno}:{s.col_offset}")
    context.state.values[counter_key] = 0
    name = counter_key[1]

    def guarded(counter: Number | None) -> Any:
        k = context.state.values[counter_key]
        k.low, k.high = 0, numbers.size_of(length)
        leave = iteration(k)
        following = numbers.wrap(context, context.one("num.add", numbers.value_of(context, k), context.constant(1)))
        context.state.values[counter_key] = following
        if leave is True:
            return False
        more = numbers.wrap(context, context.one("num.lt", following.value, numbers.value_of(context, length)))
        return more if leave is False else numbers.both(context, numbers.negate(context, leave), more)

    first = numbers.compare(context, "gt", length, 0)
    names, assigned = _names(context, s), context.frame.scope.assigned[id(s)]
    loops.run(context, key=place, names=names | {name}, assigned=assigned | {name}, rebound=_rebound(context, s),
              body=guarded, trips=None, first=first)
    context.state.values.pop(counter_key, None)


def _peel(context: Context, s: ast.For, iterable: Iterable, loop: _Loop, iteration: Callable[[Any], Any]) -> None:
    """The first iteration apart: afterwards every variable has its type. Needs at least one iteration, guarded."""
    length = iterable.length
    if isinstance(length, Number) and context.inputs.entry_size(length) is None:
        raise TypeMismatch("a variable is a number before this loop and a tensor after its first iteration, and the "
                           "loop may not run at all", context.span(s),
                           hint="start with a tensor, for example `torch.zeros(...)`")
    loops.require_trip(context, length)
    frame = context.frame
    context.log.append(f"peeled the first iteration of the loop at {context.span(s)}")
    iteration(0)
    rest = numbers.binary(context, "sub", length, 1)
    if isinstance(rest, int) and rest == 0:
        return

    def body(counter: Number | None) -> Any:
        assert counter is not None
        k = numbers.wrap(context, context.one("num.add", counter.value, context.constant(1)))
        k.low, k.high = 1, numbers.size_of(length)
        iteration(k)
        return None

    names, assigned = _names(context, s), frame.scope.assigned[id(s)]
    if isinstance(rest, Number) and rest.low is None:
        rest.low = 0
    loops.run(context, key=(context.span(s), "rest"), names=names, assigned=assigned, rebound=_rebound(context, s),
              body=body, trips=rest, first=None)


# --- assignments ---------------------------------------------------------------------------------------------------


def assign_name(context: Context, name: str, value: Any, node: ast.AST) -> None:
    """Bind a name in the current frame."""
    frame = context.frame
    key = (frame.id, frame.names.get(name, name))
    context.state.values[key] = value
    place = context.span(node)
    if place is not None:
        context.state.where[key] = place


def assign(context: Context, target: ast.expr, value: Any) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        assign_name(context, target.id, value, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(context, target, value)
    elif isinstance(target, ast.Attribute):
        obj = ex.evaluate(context, target.value)
        context.node = target
        setattribute(context, obj, target.attr, value)
    elif isinstance(target, ast.Subscript):
        obj = ex.evaluate(context, target.value)
        index = ex.evaluate(context, target.slice)
        context.node = target
        calls.setitem(context, obj, index, value)
    else:
        raise UnsupportedSyntax(f"assignment to `{type(target).__name__}`", context.span(target))


def _unpack(context: Context, target: ast.Tuple | ast.List, value: Any) -> None:
    wanted = len(target.elts)
    starred = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), None)
    held = lists.run_items(context, value) if isinstance(value, SymList) else None
    if held is not None and starred is None:
        items = _unpacked_list(context, held, wanted)
    elif isinstance(value, SymTensor) and isinstance(calls.length(context, value), Number) and starred is None:
        n = calls.length(context, value)
        from jitgrad.script.frontend.backend import emit_check

        emit_check(context, numbers.compare(context, "eq", n, wanted), ValueError,
                   (f"not enough or too many values to unpack (expected {wanted})",))
        items = [calls.getitem(context, value, k) for k in range(wanted)]
    else:
        items = calls.items_of(context, value)
    if starred is None:
        if len(items) != wanted:
            text = (f"not enough values to unpack (expected {wanted}, got {len(items)})" if len(items) < wanted
                    else f"too many values to unpack (expected {wanted})")
            raise merge.raise_now(context, ValueError, (text,))
        for t, v in zip(target.elts, items, strict=True):
            assign(context, t, v)
        return
    after = wanted - starred - 1
    if len(items) < wanted - 1:
        raise merge.raise_now(context, ValueError, (
            f"not enough values to unpack (expected at least {wanted - 1}, got {len(items)})",))
    end = len(items) - after
    for t, v in zip(target.elts[:starred], items[:starred], strict=True):
        assign(context, t, v)
    star = target.elts[starred]
    assert isinstance(star, ast.Starred)
    assign(context, star.value, calls.new_list(context, items[starred:end]))
    for t, v in zip(target.elts[starred + 1:], items[end:], strict=True):
        assign(context, t, v)


def _unpacked_list(context: Context, held: RunItems, wanted: int) -> list[Any]:
    from jitgrad.script.frontend.backend import emit_check

    n = lists.length(context, held)
    emit_check(context, numbers.compare(context, "ge", n, wanted), ValueError,
               ("not enough values to unpack (expected ", str(wanted), ", got ", n, ")"))
    emit_check(context, numbers.compare(context, "le", n, wanted), ValueError,
               (f"too many values to unpack (expected {wanted})",))
    return list(lists.unpacked(context, held, wanted))


def _assign(context: Context, s: ast.Assign) -> None:
    value = ex.evaluate(context, s.value)
    for t in s.targets:
        assign(context, t, value)


def _annotated(context: Context, s: ast.AnnAssign) -> None:
    if s.value is not None:
        assign(context, s.target, ex.evaluate(context, s.value))


_INPLACE = {"add": "__iadd__", "sub": "__isub__", "mul": "__imul__", "truediv": "__itruediv__", "pow": "__ipow__",
            "floordiv": "__ifloordiv__", "mod": "__imod__", "and": "__iand__", "or": "__ior__", "xor": "__ixor__"}


def _augmented(context: Context, s: ast.AugAssign) -> None:
    op = ex.BINARY[type(s.op)]
    target = s.target
    if isinstance(target, ast.Name):
        old = frames.load(context, context.frame, target.id)
        assign_name(context, target.id, _updated(context, op, old, s), target)
    elif isinstance(target, ast.Attribute):
        obj = ex.evaluate(context, target.value)
        old = getattribute(context, obj, target.attr)
        new = _updated(context, op, old, s)
        if new is not old or not isinstance(new, SymTensor):
            setattribute(context, obj, target.attr, new)
    elif isinstance(target, ast.Subscript):
        obj, index = ex.evaluate(context, target.value), ex.evaluate(context, target.slice)
        old = calls.getitem(context, obj, index)
        calls.setitem(context, obj, index, _updated(context, op, old, s))


def _updated(context: Context, op: str, old: Any, s: ast.AugAssign) -> Any:
    value = ex.evaluate(context, s.value)
    context.node = s
    old = merge.force(context, old, f"unsupported operand type(s) for {ex.SYMBOLS[op]}=: '{{}}' and "
                                    f"'{calls.type_name(value)}'")
    if isinstance(old, SymTensor) and op in _INPLACE and hasattr(type(old), _INPLACE[op]):
        given = calls.argument(context, value)
        return calls.guarded(context, lambda: getattr(old, _INPLACE[op])(given))
    if isinstance(old, SymList) and op == "add":
        from jitgrad.script.frontend import containers

        containers.extend(context, old, value)
        return old
    return ex.binary(context, op, old, value)


# --- other statements ----------------------------------------------------------------------------------------------


def _return(context: Context, s: ast.Return) -> None:
    frame = context.frame
    value = ex.evaluate(context, s.value) if s.value is not None else None
    key = (frame.id, _RESULT)
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
    if not isinstance(s.value, ast.Constant):
        ex.evaluate(context, s.value)


def _pass(context: Context, s: ast.Pass) -> None:
    return None


def _assert(context: Context, s: ast.Assert) -> None:
    test = ex.condition(context, s.test)
    if test is True:
        return

    def fail() -> None:
        if s.msg is None:
            raise merge.raise_now(context, AssertionError, None)
        raise _raised(context, AssertionError, (ex.evaluate(context, s.msg),))

    if test is False:
        fail()
        return
    merge.branch(context, test, lambda: None, fail)
    ex.narrow(context, s.test, test, True)


def _raise(context: Context, s: ast.Raise) -> None:
    if s.exc is None:
        raise UnsupportedSyntax("a bare `raise`", context.span(s), hint="name the exception")
    value = ex.evaluate(context, s.exc)
    context.node = s
    if isinstance(value, type) and issubclass(value, BaseException):
        raise merge.raise_now(context, value, None)
    if isinstance(value, calls.ExceptionValue):
        raise _raised(context, value.cls, value.args)
    raise merge.raise_now(context, TypeError, ("exceptions must derive from BaseException",))


def _raised(context: Context, cls: type[BaseException], args: tuple[Any, ...]) -> merge.Raised:
    from jitgrad.script.frontend.printing import template_of

    if not args:
        return merge.raise_now(context, cls, None)
    if len(args) > 1:
        raise UnsupportedCall(f"`{cls.__name__}` with {len(args)} arguments", context.span(),
                              hint="give one message, an f-string")
    template, values = template_of(context, [args[0]])
    return merge.raise_now(context, cls, template, values)


def _with(context: Context, s: ast.With) -> None:
    before = context.grad
    for item in s.items:
        value = ex.evaluate(context, item.context_expr)
        if not isinstance(value, calls.GradScope):
            raise UnsupportedSyntax(f"`with` on {type_word(value)}", context.span(item.context_expr),
                                    hint="scripts know `no_grad()`, `enable_grad()` and `set_grad_enabled(...)`")
        context.grad = value.enabled
    try:
        run_block(context, s.body)
    finally:
        context.grad = before


def _function(context: Context, s: ast.FunctionDef) -> None:
    if s.decorator_list:
        raise UnsupportedSyntax("a decorator inside a script", context.span(s.decorator_list[0]),
                                hint="define the function outside")
    assign_name(context, s.name, ex.make_function(context, s), s)


HANDLERS: dict[type[ast.AST], Callable[[Context, Any], Any]] = {
    ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.While: _while,
    ast.For: _for, ast.Return: _return, ast.Break: _break, ast.Continue: _continue, ast.Expr: _expression,
    ast.Pass: _pass, ast.Assert: _assert, ast.Raise: _raise, ast.With: _with, ast.FunctionDef: _function,
}

__all__ = ["HANDLERS", "assign", "assign_name", "run_block",
           "run_function"]
