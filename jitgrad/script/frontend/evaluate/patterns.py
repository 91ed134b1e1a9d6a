"""`match`: each case is a test and the names it binds, tried in order like `if` and `elif`."""

import ast
from typing import Any

from jitgrad.errors import UnsupportedSyntax
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.evaluate import conditions, control, expressions as ex, merge, names, targets
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import (call, class_of, compare, get_attribute, has_attribute, identical,
                                                     items_of, truth)
from jitgrad.script.frontend.values.values import Number, SymDict, SymList, SymTensor

Bindings = list[tuple[str, Any]]


def match(context: Context, s: ast.Match) -> None:
    """The statement."""
    subject = ex.evaluate(context, s.subject)
    live = control.live_after(context, s)

    def case(index: int) -> None:
        if index == len(s.cases):
            return
        current = s.cases[index]
        context.node = current.pattern
        bindings: Bindings = []
        test = _matches(context, current.pattern, subject, bindings)
        if test is False:
            case(index + 1)
            return

        def taken() -> None:
            for name, value in bindings:
                names.assign(context, name, value, current.pattern)
            guard = True if current.guard is None else conditions.condition(context, current.guard)
            if isinstance(guard, Number):
                merge.branch(context, guard, lambda: dispatch.run_block(context, current.body),
                             lambda: case(index + 1), live)
            elif guard:
                dispatch.run_block(context, current.body)
            else:
                case(index + 1)

        if test is True:
            taken()
        else:
            merge.branch(context, test, taken, lambda: case(index + 1), live)

    case(0)


def _matches(context: Context, pattern: ast.pattern, subject: Any, bindings: Bindings) -> Any:
    """Whether `subject` fits: a bool or a run-time bool; what it binds is added to `bindings`."""
    if isinstance(pattern, ast.MatchValue):
        return truth(context, compare(context, "eq", subject, ex.evaluate(context, pattern.value)))
    if isinstance(pattern, ast.MatchSingleton):
        return identical(context, subject, pattern.value)
    if isinstance(pattern, (ast.MatchAs, ast.MatchStar)):
        inner = pattern.pattern if isinstance(pattern, ast.MatchAs) else None
        test = True if inner is None else _matches(context, inner, subject, bindings)
        if pattern.name is not None:
            bindings.append((pattern.name, subject))
        return test
    if isinstance(pattern, ast.MatchOr):
        return _alternatives(context, pattern, subject, bindings)
    if isinstance(pattern, ast.MatchSequence):
        return _sequence(context, pattern, subject, bindings)
    if isinstance(pattern, ast.MatchMapping):
        return _mapping(context, pattern, subject, bindings)
    if isinstance(pattern, ast.MatchClass):
        return _class(context, pattern, subject, bindings)
    raise UnsupportedSyntax(f"`{type(pattern).__name__}` in a `match`", context.span(pattern))


def _alternatives(context: Context, pattern: ast.MatchOr, subject: Any, bindings: Bindings) -> Any:
    result: Any = False
    for part in pattern.patterns:
        mine: Bindings = []
        test = _matches(context, part, subject, mine)
        if mine and test is not False and (isinstance(test, Number) or isinstance(result, Number)):
            raise UnsupportedSyntax("names bound by alternatives of which one is chosen at run time",
                                    context.span(pattern), hint="write a `case` for each")
        if result is not True and test is True:
            bindings += mine
        result = numbers.either(context, result, test)
    return result


def _sequence(context: Context, pattern: ast.MatchSequence, subject: Any, bindings: Bindings) -> Any:
    if not isinstance(subject, (tuple, SymList)):
        if isinstance(subject, SymTensor):
            raise UnsupportedSyntax("a sequence pattern for a tensor", context.span(pattern),
                                    hint="unpack it: `a, b = x`")
        return False
    items = items_of(context, subject)
    star = next((i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)), None)
    count = len(pattern.patterns)
    if len(items) != count if star is None else len(items) < count - 1:
        return False
    if star is not None:
        items = targets.with_rest(context, items, star, count)
    return _all(context, list(zip(pattern.patterns, items, strict=True)), bindings)


def _all(context: Context, parts: list[tuple[ast.pattern, Any]], bindings: Bindings) -> Any:
    result: Any = True
    for part, value in parts:
        result = numbers.both(context, result, _matches(context, part, value, bindings))
        if result is False:
            return False
    return result


def _mapping(context: Context, pattern: ast.MatchMapping, subject: Any, bindings: Bindings) -> Any:
    if not isinstance(subject, (SymDict, dict)):
        return False
    items = dict(contents.dict_of(context, subject))
    parts = []
    for key, part in zip(pattern.keys, pattern.patterns, strict=True):
        wanted = static(context, ex.evaluate(context, key), "a dict key")
        if wanted not in items:
            return False
        parts.append((part, items.pop(wanted)))
    if pattern.rest is not None:
        bindings.append((pattern.rest, contents.new_dict(context, items)))
    return _all(context, parts, bindings)


def _class(context: Context, pattern: ast.MatchClass, subject: Any, bindings: Bindings) -> Any:
    cls = ex.evaluate(context, pattern.cls)
    test = call(context, isinstance, subject, cls)
    if test is False:
        return False
    if isinstance(test, Number):
        raise UnsupportedSyntax("a class pattern for a value whose type is known only at run time",
                                context.span(pattern), hint="test it with `is None` or `isinstance` first")
    names = list(pattern.kwd_attrs)
    if pattern.patterns:
        if cls in (int, float, bool, str, tuple, list, dict):
            return _all(context, [(pattern.patterns[0], subject)], bindings)
        names = [*getattr(class_of(subject), "__match_args__", ())[:len(pattern.patterns)], *names]
    parts = []
    for name, part in zip(names, [*pattern.patterns, *pattern.kwd_patterns], strict=True):
        if not has_attribute(context, subject, name):
            return False
        parts.append((part, get_attribute(context, subject, name)))
    return _all(context, parts, bindings)
