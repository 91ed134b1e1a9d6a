"""Which bool a comparison of any values is, and which one a value: Python's or one of the run."""

from __future__ import annotations

import ast
from typing import Any

from jitgrad.dims import product
from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.ops.numbers import NUMBERS, operator_of
from jitgrad.script.frontend.containers import contents, foreign_dicts, list_methods, lists, open_dicts
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import heap, numbers, objects
from jitgrad.script.frontend.values.operators import forced
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Borrowed,
    Instance,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    TensorMap,
    Text,
    Union,
    is_dynamic,
    type_word,
)

COMPARE: dict[type[ast.AST], str] = {
    row.syntax: row.name for row in NUMBERS.values() if row.syntax and row.family == "comparison"}


def compare(context: Context, op: ast.cmpop, a: Any, b: Any) -> Any:
    """One comparison."""
    context.look(a, b)
    if isinstance(op, (ast.Is, ast.IsNot)):
        result = _is(context, a, b)
        return result if isinstance(op, ast.Is) else numbers.negate(context, result)
    if isinstance(op, (ast.In, ast.NotIn)):
        result = _in(context, a, b)
        return result if isinstance(op, ast.In) else numbers.negate(context, result)
    name = COMPARE[type(op)]
    if name in ("eq", "ne") and (isinstance(a, Union) or isinstance(b, Union)):
        return _compare_unions(context, name, a, b)
    a, b = forced(context, name, a, b)
    if isinstance(a, SymTensor) or isinstance(b, SymTensor):
        if a is None or b is None:
            return name == "ne"
        return effects.guarded(context, lambda: operator_of(name)(a, b))
    if isinstance(a, (bool, int, float, Number)) and isinstance(b, (bool, int, float, Number)):
        return numbers.compare(context, name, a, b)
    if isinstance(a, Text) or isinstance(b, Text):
        if a is b and name in ("eq", "ne"):
            return name == "eq"
        if not (isinstance(a, (str, Text)) and isinstance(b, (str, Text))) and name in ("eq", "ne"):
            return name == "ne"
        raise UnsupportedCall("a comparison of strings that are known only at run time", context.span(),
                              hint="compare the numbers that they are made of")
    for kind in (tuple, SymList):
        if isinstance(a, kind) and isinstance(b, kind) and (is_dynamic(a) or is_dynamic(b)):
            return _compare_collections(context, name, a, b)
    if isinstance(a, SymDict) and isinstance(b, SymDict) and name in ("eq", "ne"):
        return _compare_dicts(context, name, a, b)
    result = objects.compare(context, name, a, b)
    if result is not NotImplemented:
        return result
    if is_dynamic(a) or is_dynamic(b):
        if name in ("eq", "ne"):
            return name == "ne"
        raise UnsupportedCall(f"comparison of {type_word(a)} with {type_word(b)}", context.span())
    return effects.guarded(context, lambda: operator_of(name)(a, b))


def _compare_unions(context: Context, name: str, a: Any, b: Any) -> Any:
    if isinstance(a, Union):
        result = unions.switch(context, a, lambda x: compare(context, ast.Eq(), x, b))
    else:
        result = unions.switch(context, b, lambda x: compare(context, ast.Eq(), a, x))
    return result if name == "eq" else numbers.negate(context, result)


def _compare_collections(context: Context, name: str, a: Any, b: Any) -> Any:
    """Two tuples or two lists, perhaps of a length that only the run knows."""
    if not lists.is_open(context, a) and not lists.is_open(context, b):
        return _compare_sequences(context, name, contents.items_of(context, a), contents.items_of(context, b))
    if name in ("eq", "ne"):
        same = calls.call(context, list_methods.equal, (a, b), {})
        return same if name == "eq" else numbers.negate(context, same)
    first, second = (a, b) if name in ("lt", "ge") else (b, a)
    found = calls.call(context, list_methods.less, (first, second), {})
    return found if name in ("lt", "gt") else numbers.negate(context, found)


def _compare_sequences(context: Context, name: str, a: list[Any], b: list[Any]) -> Any:
    """Tuples and lists: equal items; the order is that of the first items that differ."""
    if name in ("eq", "ne"):
        result: Any = len(a) == len(b)
        if result:
            for x, y in zip(a, b, strict=True):
                same = True if x is y else truth(context, compare(context, ast.Eq(), x, y))
                result = numbers.both(context, result, same)
        return result if name == "eq" else numbers.negate(context, result)
    if not a or not b:
        return operator_of(name)(len(a), len(b))
    equal = truth(context, compare(context, ast.Eq(), a[0], b[0]))
    if not isinstance(equal, Number):
        return _compare_sequences(context, name, a[1:], b[1:]) if equal else _ordered(context, name, a[0], b[0])
    return merge.branch(context, equal, lambda: _compare_sequences(context, name, a[1:], b[1:]),
                        lambda: _ordered(context, name, a[0], b[0]))


def _ordered(context: Context, name: str, a: Any, b: Any) -> Any:
    node = next(cls for cls, op in COMPARE.items() if op == name)
    assert issubclass(node, ast.cmpop)
    return truth(context, compare(context, node(), a, b))


def _compare_dicts(context: Context, name: str, first: SymDict, second: SymDict) -> Any:
    if open_dicts.is_open(context, first) or open_dicts.is_open(context, second):
        same = open_dicts.equal(context, first, second)
        return same if name == "eq" else numbers.negate(context, same)
    a, b = contents.dict_of(context, first), contents.dict_of(context, second)
    result: Any = set(a) == set(b)
    if result:
        for key in a:
            result = numbers.both(context, result, truth(context, compare(context, ast.Eq(), a[key], b[key])))
    return result if name == "eq" else numbers.negate(context, result)


def _is(context: Context, a: Any, b: Any) -> Any:
    for value, other in ((a, b), (b, a)):
        if isinstance(value, Union):
            if is_dynamic(other):
                raise NotStatic("`is` between values that are known only at run time", context.span())
            test = unions.is_static(context, value, other)
            if isinstance(test, Number):
                test.maybe = (value, other)
            return test
    if isinstance(a, SymTensor) and isinstance(b, SymTensor):
        for storage in (a.storage, b.storage):
            if a.storage is not b.storage and (storage.alias or storage in heap.of(context).aliases):
                raise NotStatic("whether these are the same tensor: a branch or a loop chose one of them",
                                context.span(), hint="keep a bool that says which one was chosen")
        return heap.same_reference(a, b)
    if isinstance(a, bool) and isinstance(b, Number) and b.number_type is bool:
        a, b = b, a
    if isinstance(a, Number) and a.number_type is bool and isinstance(b, bool):
        return a if b else numbers.negate(context, a)
    return a is b


def _in(context: Context, item: Any, container: Any) -> Any:
    if isinstance(container, SymDict) and open_dicts.finds(context, container, item):
        return open_dicts.contains(context, container, item)
    if isinstance(container, SymDict):
        if isinstance(item, Number):
            return _in(context, item, tuple(contents.dict_of(context, container)))
        key = item if isinstance(item, SymTensor) else calls.static(context, item, "a dict key")
        return key in contents.dict_of(context, container)
    if isinstance(container, TensorMap):
        found = foreign_dicts.find(context, container, item)
        if not isinstance(found, Union):
            return found is not UNBOUND
        return numbers.negate(context, unions.is_static(context, found, UNBOUND))
    if isinstance(container, Range) or (isinstance(container, range) and isinstance(item, Number)):
        bounds = (container.start, container.stop, container.step)
        return truth(context, calls.call(context, list_methods.in_range, (item, *bounds), {}))
    method = objects.method_of(container, "__contains__")
    if method is not None and not isinstance(container, type):
        return truth(context, calls.call(context, method, (container, item), {}))
    if isinstance(container, (str, bytes, range)) or not (isinstance(container, (tuple, SymList))):
        if isinstance(container, (set, frozenset)) and isinstance(item, Number):
            return _in(context, item, tuple(container))
        if not is_dynamic(item) and not is_dynamic(container):
            return effects.guarded(context, lambda: item in container)
        raise UnsupportedCall(f"`in` with {type_word(container)}", context.span())
    if isinstance(container, SymList) and run_lists.run_items(context, container) is not None:
        return calls.call(context, list_methods.contains, (container, item), {})
    result: Any = False
    for x in contents.items_of(context, container):
        result = numbers.either(context, result, truth(context, compare(context, ast.Eq(), item, x)))
    return result


def truth(context: Context, value: Any) -> Any:
    """`bool(value)`: a Python bool or a run-time one."""
    if isinstance(value, Number):
        return numbers.truth(context, value)
    if isinstance(value, SymTensor):
        return effects.guarded(context, lambda: _tensor_truth(context, value))
    if isinstance(value, Union):
        return unions.switch(context, value, lambda v: truth(context, v))
    if isinstance(value, SymList):
        return truth(context, contents.length(context, value))
    if isinstance(value, SymDict):
        return truth(context, contents.length(context, value))
    if isinstance(value, TensorMap):
        return foreign_dicts.length(context, value) > 0
    if isinstance(value, Text):
        return True  # numbers and tensors have texts that are not empty
    if isinstance(value, Range):
        return truth(context, contents.length(context, value))
    if isinstance(value, (tuple, *calls.PLAIN)):
        return bool(value)
    for name in ("__bool__", "__len__"):
        method = objects.method_of(value, name)
        if method is not None:
            return truth(context, calls.call(context, method, (value,), {}))
    return True if isinstance(value, (Instance, Borrowed)) else bool(value)


def _tensor_truth(context: Context, value: SymTensor) -> Any:
    type_ = value.type_
    n = product(type_.dims)
    words = "Boolean value of Tensor with more than one value is ambiguous"
    if isinstance(n, int):
        if n != 1:
            raise RuntimeError(words if n else "Boolean value of Tensor with no values is ambiguous")
    else:
        backend().checker.equal(n, 1, lambda: words)  # type: ignore[attr-defined]
    return numbers.truth(context, backend().item(value))
