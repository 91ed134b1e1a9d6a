"""Expressions: each node type has one function `(context, node) -> value`. What operators mean is elsewhere."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.errors import UnsupportedSyntax
from jitgrad.ops.numbers import NUMBERS
from jitgrad.script.frontend.containers import contents, sequences
from jitgrad.script.frontend.evaluate import comprehensions, conditions, merge, names
from jitgrad.script.frontend.evaluate.targets import BINARY
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import FRONTEND, Context
from jitgrad.script.frontend.templates import pools
from jitgrad.script.frontend.values import numbers, strings
from jitgrad.script.frontend.values.protocol import (binary, call, compare, contains, get_attribute, get_item,
                                                     identical, is_dynamic, is_open, items_of, kind_of, set_item, truth,
                                                     unary)
from jitgrad.script.frontend.values.values import Container, Function, Number, SymList, SymTensor

UNARY: dict[type[ast.AST], str] = {ast.UAdd: "pos", **{
    row.syntax: row.name for row in NUMBERS.values() if row.syntax and row.family == "unary"}}


def _compared(op: str) -> Callable[[Context, Any, Any], Any]:
    return lambda context, a, b: compare(context, op, a, b)


COMPARISONS: dict[type[ast.AST], Callable[[Context, Any, Any], Any]] = {
    ast.Is: identical, ast.IsNot: lambda context, a, b: numbers.negate(context, identical(context, a, b)),
    ast.In: lambda context, a, b: contains(context, b, a),
    ast.NotIn: lambda context, a, b: numbers.negate(context, contains(context, b, a)), **{
        row.syntax: _compared(row.name) for row in NUMBERS.values()
        if row.syntax and row.family == "comparison"}}


def evaluate(context: Context, node: ast.expr) -> Any:
    """The value of an expression."""
    before, context.node = context.node, node
    try:
        handler = HANDLERS.get(type(node))
        if handler is None:
            raise UnsupportedSyntax(f"`{type(node).__name__}` expression", context.span())
        value = handler(context, node)
        if isinstance(value, Container) and isinstance(node, _MAKERS):
            pools.made(context, value)
        return value
    finally:
        context.node = before


#: expressions that may make a container
_MAKERS = (ast.List, ast.Dict, ast.Call, ast.BinOp, ast.Subscript, ast.ListComp, ast.DictComp)


def _constant(context: Context, node: ast.Constant) -> Any:
    return node.value


def _name(context: Context, node: ast.Name) -> Any:
    return names.load(context, context.frame, node.id)


def _tuple(context: Context, node: ast.Tuple) -> Any:
    return tuple(elements(context, node.elts))


def elements(context: Context, nodes: list[ast.expr]) -> list[Any]:
    """The values of a display or of positional arguments, `*xs` spread."""
    items: list[Any] = []
    for e in nodes:
        if isinstance(e, ast.Starred):
            items += items_of(context, evaluate(context, e.value))
        else:
            items.append(evaluate(context, e))
    return items


def _list(context: Context, node: ast.List) -> Any:
    if not any(isinstance(e, ast.Starred) for e in node.elts):
        return contents.new_list(context, elements(context, node.elts))
    made = contents.new_list(context, [])
    for e in node.elts:
        if isinstance(e, ast.Starred):
            sequences.extend(context, made, evaluate(context, e.value))
        else:
            sequences.append(context, made, evaluate(context, e))
    return made


def _dict(context: Context, node: ast.Dict) -> Any:
    items: dict[Any, Any] = {}
    made: Any = None  # once a key is known only at run time
    for k, v in zip(node.keys, node.values, strict=True):
        if k is None:
            more = evaluate(context, v)
            if made is None and not is_open(context, more):
                items.update(contents.dict_of(context, more))
                continue
            made = made or contents.new_dict(context, items)
            call(context, get_attribute(context, made, "update"), more)
            continue
        key, value = evaluate(context, k), evaluate(context, v)
        if made is None and is_dynamic(key):
            made = contents.new_dict(context, items)
        if made is None:
            items[key] = value
        else:
            set_item(context, made, key, value)
    return contents.new_dict(context, items) if made is None else made


def _set(context: Context, node: ast.Set) -> Any:
    """`{a, b}`."""
    return call(context, set, contents.new_list(context, elements(context, node.elts)))


def _attribute(context: Context, node: ast.Attribute) -> Any:
    return get_attribute(context, evaluate(context, node.value), node.attr)


def _subscript(context: Context, node: ast.Subscript) -> Any:
    obj, index = evaluate(context, node.value), index_of(context, node.slice)
    # what stands for Python's and the library's functions asks lists and tensors for items that are there
    sure = isinstance(obj, (SymList, SymTensor, tuple)) and context.frame.source.file.startswith(FRONTEND)
    with effects.unhandled(context, sure):
        return get_item(context, obj, index)


def index_of(context: Context, node: ast.expr) -> Any:
    """The value between square brackets."""
    return evaluate(context, node)


def _slice(context: Context, node: ast.Slice) -> Any:
    return slice(*(None if p is None else evaluate(context, p) for p in (node.lower, node.upper, node.step)))


def _binary(context: Context, node: ast.BinOp) -> Any:
    left, right = evaluate(context, node.left), evaluate(context, node.right)
    return binary(context, BINARY[type(node.op)], left, right)


def _unary(context: Context, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        return numbers.negate(context, conditions.condition(context, node.operand))
    return unary(context, UNARY[type(node.op)], evaluate(context, node.operand))


def _compare(context: Context, node: ast.Compare) -> Any:
    left = evaluate(context, node.left)
    return _chain(context, left, list(zip(node.ops, node.comparators, strict=True)))


def _chain(context: Context, left: Any, rest: list[tuple[ast.cmpop, ast.expr]]) -> Any:
    op, node = rest[0]
    right = evaluate(context, node)
    first = COMPARISONS[type(op)](context, left, right)
    if len(rest) == 1:
        return first
    test = truth(context, first)
    if not isinstance(test, Number):
        return _chain(context, right, rest[1:]) if test else first
    return merge.branch(context, test, lambda: _chain(context, right, rest[1:]), lambda: first)


def _bool_op(context: Context, node: ast.BoolOp) -> Any:
    return conditions.joined(context, node, evaluate)


def _conditional(context: Context, node: ast.IfExp) -> Any:
    test = conditions.condition(context, node.test)
    if not isinstance(test, Number):
        return evaluate(context, node.body if test else node.orelse)

    then, other = (conditions.side(context, node.test, test, outcome, partial(evaluate, context, expression))
                   for outcome, expression in ((True, node.body), (False, node.orelse)))
    return merge.branch(context, test, then, other)


def _named(context: Context, node: ast.NamedExpr) -> Any:
    value = evaluate(context, node.value)
    names.assign(context, node.target.id, value, node)
    return value


def _lambda(context: Context, node: ast.Lambda) -> Any:
    return make_function(context, node)


def make_function(context: Context, node: ast.Lambda | ast.FunctionDef) -> Function:
    """A function object defined in the script."""
    defaults = tuple(evaluate(context, d) for d in node.args.defaults)
    kw = {a.arg: evaluate(context, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
          if d is not None}
    outer = context.frame.source
    source = outer.once(node, lambda: outer.nested(node))
    return Function(node, source, context.frame.closed_over(), defaults, kw)


def _callee(context: Context, node: ast.expr) -> Any:
    if not isinstance(node, ast.Attribute):
        return evaluate(context, node)
    before, context.node = context.node, node
    try:
        obj = evaluate(context, node.value)
        return kind_of(obj).callee(context, obj, node.attr)
    finally:
        context.node = before


def _call(context: Context, node: ast.Call) -> Any:
    fn = _callee(context, node.func)
    if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        if fn in (any, all) and not node.keywords:
            return comprehensions.quantified(context, node.args[0], fn is all)
        if fn is next:
            return comprehensions.first(context, node.args[0], ())
        args = [comprehensions.consumed(context, node.args[0], fn)]
    elif fn is next and len(node.args) == 2 and isinstance(node.args[0], ast.GeneratorExp):
        return comprehensions.first(context, node.args[0], (evaluate(context, node.args[1]),))
    else:
        args = elements(context, node.args)
    kwargs: dict[str, Any] = {}
    for k in node.keywords:
        value = evaluate(context, k.value)
        if k.arg is None:
            more = contents.dict_of(context, value)
            if not all(isinstance(name, str) for name in more):
                raise effects.raise_now(context, TypeError, ("keywords must be strings",))
            kwargs.update(more)
        else:
            kwargs[k.arg] = value
    return call(context, fn, *args, **kwargs)


def _joined(context: Context, node: ast.JoinedStr) -> Any:
    parts: list[Any] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        value = evaluate(context, part.value)
        spec = ""
        if part.format_spec is not None:
            assert isinstance(part.format_spec, ast.JoinedStr)
            spec = _joined(context, part.format_spec)
        parts.append((value, "" if part.conversion == -1 else chr(part.conversion), spec))
    return strings.joined(context, parts)


HANDLERS: dict[type[ast.AST], Callable[[Context, Any], Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Tuple: _tuple, ast.List: _list, ast.Dict: _dict,
    ast.Attribute: _attribute, ast.Subscript: _subscript, ast.Slice: _slice, ast.BinOp: _binary, ast.UnaryOp: _unary,
    ast.Compare: _compare, ast.BoolOp: _bool_op, ast.IfExp: _conditional, ast.NamedExpr: _named, ast.Lambda: _lambda,
    ast.Call: _call, ast.JoinedStr: _joined, ast.Set: _set,
    ast.ListComp: comprehensions.list_comprehension, ast.GeneratorExp: comprehensions.generator_expression,
    ast.SetComp: comprehensions.set_comprehension, ast.DictComp: comprehensions.dict_comprehension,
}
