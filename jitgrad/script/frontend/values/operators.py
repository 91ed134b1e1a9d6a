"""What `+`, `-`, `@` and the other operators make of any values."""

from __future__ import annotations

import ast
import types
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents, list_methods, lists
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import instances, numbers, strings
from jitgrad.script.frontend.values.static import DUNDER, PLAIN, guarded
from jitgrad.script.frontend.values.values import (
    Number,
    SymDict,
    SymList,
    SymTensor,
    SymTuple,
    Text,
    Union,
    is_dynamic,
    type_word,
)

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.MatMult: "matmul"}
UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
           "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "matmul": "@", "lt": "<", "le": "<=", "gt": ">",
           "ge": ">=", "eq": "==", "ne": "!="}
#: static objects whose operators are Python's own
STATIC = (*PLAIN, set, frozenset, type, types.UnionType, types.GenericAlias)


def binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` on any values."""
    if isinstance(a, (str, Text)) or isinstance(b, Text):
        result = strings.binary(context, op, a, b)
        if result is not NotImplemented:
            return result
    if isinstance(a, Union) or isinstance(b, Union):
        a, b = forced(context, op, a, b)
    if isinstance(a, SymTensor) or isinstance(b, SymTensor):
        return guarded(context, lambda: DUNDER[op](a, b))
    if isinstance(a, (bool, int, float, Number)) and isinstance(b, (bool, int, float, Number)):
        return guarded(context, lambda: numbers.binary(context, op, a, b))
    if isinstance(a, SymList) and op in ("add", "mul"):
        return _list_arithmetic(context, op, a, b)
    if isinstance(b, SymList) and op == "mul" and isinstance(a, (int, Number)):
        return _list_arithmetic(context, op, b, a)
    if op == "or" and isinstance(a, (SymDict, dict)) and isinstance(b, (SymDict, dict)):
        return contents.new_dict(context, {**contents.dict_of(context, a), **contents.dict_of(context, b)})
    if isinstance(a, tuple) and isinstance(b, (tuple, int)):
        return guarded(context, lambda: DUNDER[op](a, b))
    if is_dynamic(a) or is_dynamic(b) or not isinstance(a, PLAIN) or not isinstance(b, PLAIN):
        result = instances.binary(context, op, a, b)
        if result is not NotImplemented:
            return result
        if isinstance(a, STATIC) and isinstance(b, STATIC):
            return guarded(context, lambda: DUNDER[op](a, b))
        raise merge.raise_now(context, TypeError, (
            f"unsupported operand type(s) for {SYMBOLS[op]}: '{calls.type_name(a)}' and '{calls.type_name(b)}'",))
    return guarded(context, lambda: DUNDER[op](a, b))


def forced(context: Context, op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The operands, of which a Union is taken to hold what the operator has a meaning for: Python's error if not."""
    first, second = f"'{calls.type_name(a)}'", f"'{calls.type_name(b)}'"
    what = "unsupported operand type(s) for {}: {} and {}"
    if op in ("lt", "le", "gt", "ge"):
        what = "'{}' not supported between instances of {} and {}"
    symbol = SYMBOLS[op]
    return (merge.force(context, a, what.format(symbol, "'{}'", second)),
            merge.force(context, b, what.format(symbol, first, "'{}'")))


def _list_arithmetic(context: Context, op: str, a: SymList, b: Any) -> Any:
    if isinstance(a, SymTuple) or isinstance(b, SymTuple):
        raise lists.not_static(context)
    if op == "add" and isinstance(b, SymList):
        held, more = lists.content(context, a), lists.content(context, b)
        if not isinstance(held, tuple) or not isinstance(more, tuple):
            return lists.new(context, lists.extend(context, held, more))
    if op == "mul" and isinstance(b, (int, Number)) and (
            isinstance(b, Number) or lists.run_items(context, a) is not None):
        if not isinstance(b, Number) or b.number_type in (int, bool):
            return calls.call(context, list_methods.repeated, (a, b), {})
        raise merge.raise_now(context, TypeError, ("can't multiply sequence by non-int of type 'float'",))
    items = contents.items_of(context, a)
    if op == "add" and isinstance(b, SymList):
        return contents.new_list(context, items + contents.items_of(context, b))
    if op == "mul" and isinstance(b, int):
        return contents.new_list(context, items * b)
    raise UnsupportedCall(f"a list {SYMBOLS[op]} {type_word(b)}", context.span())


def unary(context: Context, operator: ast.unaryop, operand: Any) -> Any:
    """`-a`, `+a`, `~a` on any value."""
    op = UNARY[type(operator)]
    sign = {"neg": "-", "pos": "+", "invert": "~"}[op]
    value = merge.force(context, operand, f"bad operand type for unary {sign}: '{{}}'")
    if isinstance(value, SymTensor):
        return guarded(context, lambda: DUNDER[op](value))
    method = instances.method_of(value, f"__{op}__")
    if method is not None:
        return calls.call(context, method, (value,), {})
    if is_dynamic(value) and not isinstance(value, Number):
        raise merge.raise_now(context, TypeError, (f"bad operand type for unary {sign}: '{calls.type_name(value)}'",))
    return guarded(context, lambda: numbers.unary(context, op, value))
