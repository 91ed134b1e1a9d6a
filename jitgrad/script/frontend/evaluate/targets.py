"""Assignment: names, attributes, items, unpacking, augmented assignment, `del`."""

import ast
from typing import Any

from jitgrad.errors import UnsupportedCall, UnsupportedSyntax
from jitgrad.ops.numbers import NUMBERS
from jitgrad.script.frontend.containers import contents, lists
from jitgrad.script.frontend.evaluate import names
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.values import checks, numbers, protocol
from jitgrad.script.frontend.values.objects import class_attribute, is_property
from jitgrad.script.frontend.values.protocol import (call, class_of, delete_attribute, delete_item, get_attribute,
                                                     get_item, in_place, is_open, items_of, set_attribute, set_item)
from jitgrad.script.frontend.values.values import (UNBOUND, Number, RunItems, RunText, SymDict, SymList, SymTensor,
                                                   Text, Union)

#: operators by their nodes
BINARY: dict[type[ast.AST], str] = {ast.MatMult: "matmul", **{
    row.syntax: row.name for row in NUMBERS.values() if row.syntax and row.arity == 2 and row.family != "comparison"}}


def assign(context: Context, target: ast.expr, value: Any) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        names.assign(context, target.id, value, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(context, target, value)
    elif isinstance(target, ast.Attribute):
        obj = dispatch.evaluate(context, target.value)
        context.node = target
        set_attribute(context, obj, target.attr, value)
    elif isinstance(target, ast.Subscript):
        obj = dispatch.evaluate(context, target.value)
        index = dispatch.evaluate(context, target.slice)
        context.node = target
        set_item(context, obj, index, value)
    else:
        raise UnsupportedSyntax(f"assignment to `{type(target).__name__}`", context.span(target))


def _unpack(context: Context, target: ast.Tuple | ast.List, value: Any) -> None:
    wanted = len(target.elts)
    starred = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), None)
    if isinstance(value, (Text, RunText)) or (starred is not None and is_open(context, value)):
        value = call(context, list, value)
    held = run_lists.run_items(context, value) if isinstance(value, SymList) else None
    if held is not None:
        for t, v in zip(target.elts, _unpacked_list(context, value, held, wanted, starred), strict=True):
            assign(context, t.value if isinstance(t, ast.Starred) else t, v)
        return
    if isinstance(value, (SymTensor, Union)) and is_open(context, value):
        _check_count(context, protocol.length(context, value), wanted)
        items = [get_item(context, value, k) for k in range(wanted)]
    else:
        items = items_of(context, value)
    if len(items) < wanted - (starred is not None) or (starred is None and len(items) > wanted):
        least = str(wanted) if starred is None else f"at least {wanted - 1}"
        text = (f"too many values to unpack (expected {wanted})" if len(items) > wanted
                else f"not enough values to unpack (expected {least}, got {len(items)})")
        raise effects.raise_now(context, ValueError, (text,))
    if starred is not None:
        items = with_rest(context, items, starred, wanted)
    for t, v in zip(target.elts, items, strict=True):
        assign(context, t.value if isinstance(t, ast.Starred) else t, v)


def with_rest(context: Context, items: list[Any], star: int, count: int) -> list[Any]:
    """As many items as `count`: in place `star` is a list of those that are not taken one by one."""
    end = len(items) - (count - star - 1)
    return [*items[:star], contents.new_list(context, items[star:end]), *items[end:]]


def _unpacked_list(context: Context, value: SymList, held: RunItems, wanted: int, starred: int | None) -> list[Any]:
    """The items of a list of run-time length, those of a starred name in a list."""
    n = run_lists.length(context, held)
    if starred is None:
        _check_count(context, n, wanted)
        return list(lists.unpacked(context, held, wanted))
    after = wanted - starred - 1
    _check_least(context, n, wanted - 1, "at least ")
    return [*lists.unpacked(context, held, starred), get_item(context, value, slice(starred, -after or None)),
            *[get_item(context, value, k - after) for k in range(after)]]


def _check_least(context: Context, n: Number, wanted: int, words: str = "") -> None:
    checks.emit_check(context, numbers.compare(context, "ge", n, wanted), ValueError,
               (f"not enough values to unpack (expected {words}", str(wanted), ", got ", n, ")"))


def _check_count(context: Context, n: Number, wanted: int) -> None:
    """Python's complaint about a number of values known at run time."""
    _check_least(context, n, wanted)
    checks.emit_check(context, numbers.compare(context, "le", n, wanted), ValueError,
               (f"too many values to unpack (expected {wanted})",))


def assign_all(context: Context, s: ast.Assign) -> None:
    value = dispatch.evaluate(context, s.value)
    for t in s.targets:
        assign(context, t, value)


def annotated(context: Context, s: ast.AnnAssign) -> None:
    if s.value is not None:
        assign(context, s.target, dispatch.evaluate(context, s.value))


def augmented(context: Context, s: ast.AugAssign) -> None:
    op = BINARY[type(s.op)]
    target = s.target
    if isinstance(target, ast.Name):
        old = names.load(context, context.frame, target.id)
        names.assign(context, target.id, _updated(context, op, old, s), target)
    elif isinstance(target, ast.Attribute):
        obj = dispatch.evaluate(context, target.value)
        old = get_attribute(context, obj, target.attr)
        new = _updated(context, op, old, s)
        if new is not old or not isinstance(new, SymTensor) or is_property(
                class_attribute(class_of(obj), target.attr)):
            set_attribute(context, obj, target.attr, new)
    elif isinstance(target, ast.Subscript):
        obj, index = dispatch.evaluate(context, target.value), dispatch.evaluate(context, target.slice)
        old = get_item(context, obj, index)
        new = _updated(context, op, old, s)
        if new is not old or not isinstance(new, SymTensor) or not isinstance(obj, (SymDict, SymList)):
            set_item(context, obj, index, new)


def _updated(context: Context, op: str, old: Any, s: ast.AugAssign) -> Any:
    value = dispatch.evaluate(context, s.value)
    context.node = s
    return in_place(context, op, old, value)


def delete(context: Context, s: ast.Delete) -> None:
    """`del` of names, items and attributes."""
    for target in s.targets:
        _delete(context, target)


def _delete(context: Context, target: ast.expr) -> None:
    if isinstance(target, ast.Name):
        names.load(context, context.frame, target.id)  # an unbound name is an error here
        key = names.place(context.frame, target.id)
        if key is None:
            raise UnsupportedCall(f"`del` of the global `{target.id}`", context.span(target),
                                  hint="assign None to it")
        context.state.values[key] = UNBOUND
    elif isinstance(target, (ast.Tuple, ast.List)):
        for t in target.elts:
            _delete(context, t)
    elif isinstance(target, ast.Attribute):
        obj = dispatch.evaluate(context, target.value)
        context.node = target
        delete_attribute(context, obj, target.attr)
    elif isinstance(target, ast.Subscript):
        obj, index = dispatch.evaluate(context, target.value), dispatch.evaluate(context, target.slice)
        context.node = target
        delete_item(context, obj, index)
