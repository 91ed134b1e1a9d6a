"""Expressions: each node type has one function `(context, node) -> value`."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall, UnsupportedSyntax
from jitgrad.ops.backend import backend
from jitgrad.script.frontend import (
    calls,
    containers,
    contents,
    frames,
    growing,
    heap,
    listlib,
    lists,
    lowering,
    mappings,
    merge,
    numbers,
    objects,
    strings,
    subscripts,
)
from jitgrad.script.frontend.attributes import getattribute
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.values import (
    UNBOUND,
    Borrowed,
    Function,
    Instance,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    SymTuple,
    TensorMap,
    Text,
    Union,
    is_dynamic,
    type_word,
)

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.MatMult: "matmul"}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
           "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "matmul": "@", "lt": "<", "le": "<=", "gt": ">",
           "ge": ">=", "eq": "==", "ne": "!="}
#: static objects whose operators are Python's own
STATIC = (*calls.PLAIN, set, frozenset, type, types.UnionType, types.GenericAlias)
COMPARE: dict[type[ast.AST], str] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
                                     ast.GtE: "ge"}
UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def evaluate(context: Context, node: ast.expr) -> Any:
    """The value of an expression."""
    before, context.node = context.node, node
    try:
        handler = HANDLERS.get(type(node))
        if handler is None:
            raise UnsupportedSyntax(f"`{type(node).__name__}` expression", context.span())
        return handler(context, node)
    finally:
        context.node = before


def _constant(context: Context, node: ast.Constant) -> Any:
    return node.value


def _name(context: Context, node: ast.Name) -> Any:
    return frames.load(context, context.frame, node.id)


def _tuple(context: Context, node: ast.Tuple) -> Any:
    return tuple(elements(context, node.elts))


def elements(context: Context, nodes: list[ast.expr]) -> list[Any]:
    """The values of a display or of positional arguments, `*xs` spread."""
    items: list[Any] = []
    for e in nodes:
        if isinstance(e, ast.Starred):
            items += contents.items_of(context, evaluate(context, e.value))
        else:
            items.append(evaluate(context, e))
    return items


def _list(context: Context, node: ast.List) -> Any:
    if not any(isinstance(e, ast.Starred) for e in node.elts):
        return contents.new_list(context, elements(context, node.elts))
    made = contents.new_list(context, [])
    for e in node.elts:
        if isinstance(e, ast.Starred):
            containers.extend(context, made, evaluate(context, e.value))
        else:
            containers.append(context, made, evaluate(context, e))
    return made


def _dict(context: Context, node: ast.Dict) -> Any:
    items: dict[Any, Any] = {}
    for k, v in zip(node.keys, node.values, strict=True):
        value = evaluate(context, v)
        if k is None:
            items.update(contents.dict_of(context, value))
        else:
            items[calls.static(context, evaluate(context, k), "a dict key")] = value
    return contents.new_dict(context, items)


def _attribute(context: Context, node: ast.Attribute) -> Any:
    return getattribute(context, evaluate(context, node.value), node.attr)


def _subscript(context: Context, node: ast.Subscript) -> Any:
    return subscripts.getitem(context, evaluate(context, node.value), index_of(context, node.slice))


def index_of(context: Context, node: ast.expr) -> Any:
    """The value between square brackets."""
    return evaluate(context, node)


def _slice(context: Context, node: ast.Slice) -> Any:
    return slice(*(None if p is None else evaluate(context, p) for p in (node.lower, node.upper, node.step)))


def _binary(context: Context, node: ast.BinOp) -> Any:
    left, right = evaluate(context, node.left), evaluate(context, node.right)
    return binary(context, BINARY[type(node.op)], left, right)


def binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` on any values."""
    if isinstance(a, (str, Text)) or isinstance(b, Text):
        result = strings.binary(context, op, a, b)
        if result is not NotImplemented:
            return result
    if isinstance(a, Union) or isinstance(b, Union):
        a, b = _forced(context, op, a, b)
    if isinstance(a, SymTensor) or isinstance(b, SymTensor):
        return calls.guarded(context, lambda: calls.DUNDER[op](a, b))
    if isinstance(a, (bool, int, float, Number)) and isinstance(b, (bool, int, float, Number)):
        return calls.guarded(context, lambda: numbers.binary(context, op, a, b))
    if isinstance(a, SymList) and op in ("add", "mul"):
        return _list_arithmetic(context, op, a, b)
    if isinstance(b, SymList) and op == "mul" and isinstance(a, (int, Number)):
        return _list_arithmetic(context, op, b, a)
    if op == "or" and isinstance(a, (SymDict, dict)) and isinstance(b, (SymDict, dict)):
        return contents.new_dict(context, {**contents.dict_of(context, a), **contents.dict_of(context, b)})
    if isinstance(a, tuple) and isinstance(b, (tuple, int)):
        return calls.guarded(context, lambda: calls.DUNDER[op](a, b))
    if is_dynamic(a) or is_dynamic(b) or not isinstance(a, calls.PLAIN) or not isinstance(b, calls.PLAIN):
        result = objects.binary(context, op, a, b)
        if result is not NotImplemented:
            return result
        if isinstance(a, STATIC) and isinstance(b, STATIC):
            return calls.guarded(context, lambda: calls.DUNDER[op](a, b))
        raise merge.raise_now(context, TypeError, (
            f"unsupported operand type(s) for {SYMBOLS[op]}: '{calls.type_name(a)}' and '{calls.type_name(b)}'",))
    return calls.guarded(context, lambda: calls.DUNDER[op](a, b))


def _forced(context: Context, op: str, a: Any, b: Any) -> tuple[Any, Any]:
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
            return calls.call(context, listlib.repeated, (a, b), {})
        raise merge.raise_now(context, TypeError, ("can't multiply sequence by non-int of type 'float'",))
    items = contents.items_of(context, a)
    if op == "add" and isinstance(b, SymList):
        return contents.new_list(context, items + contents.items_of(context, b))
    if op == "mul" and isinstance(b, int):
        return contents.new_list(context, items * b)
    raise UnsupportedCall(f"a list {SYMBOLS[op]} {type_word(b)}", context.span())


def _unary(context: Context, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        return numbers.negate(context, condition(context, node.operand))
    return unary(context, node.op, evaluate(context, node.operand))


def unary(context: Context, operator: ast.unaryop, operand: Any) -> Any:
    """`-a`, `+a`, `~a` on any value."""
    op = UNARY[type(operator)]
    sign = {"neg": "-", "pos": "+", "invert": "~"}[op]
    value = merge.force(context, operand, f"bad operand type for unary {sign}: '{{}}'")
    if isinstance(value, SymTensor):
        return calls.guarded(context, lambda: calls.DUNDER[op](value))
    method = objects.method_of(value, f"__{op}__")
    if method is not None:
        return calls.call(context, method, (value,), {})
    if is_dynamic(value) and not isinstance(value, Number):
        raise merge.raise_now(context, TypeError, (f"bad operand type for unary {sign}: '{calls.type_name(value)}'",))
    return calls.guarded(context, lambda: numbers.unary(context, op, value))


def _compare(context: Context, node: ast.Compare) -> Any:
    left = evaluate(context, node.left)
    return _chain(context, left, list(zip(node.ops, node.comparators, strict=True)))


def _chain(context: Context, left: Any, rest: list[tuple[ast.cmpop, ast.expr]]) -> Any:
    op, node = rest[0]
    right = evaluate(context, node)
    first = compare(context, op, left, right)
    if len(rest) == 1:
        return first
    test = truth(context, first)
    if not isinstance(test, Number):
        return _chain(context, right, rest[1:]) if test else first
    return merge.branch(context, test, lambda: _chain(context, right, rest[1:]), lambda: first)


def compare(context: Context, op: ast.cmpop, a: Any, b: Any) -> Any:
    """One comparison."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        result = _is(context, a, b)
        return result if isinstance(op, ast.Is) else numbers.negate(context, result)
    if isinstance(op, (ast.In, ast.NotIn)):
        result = _in(context, a, b)
        return result if isinstance(op, ast.In) else numbers.negate(context, result)
    name = COMPARE[type(op)]
    if name in ("eq", "ne") and (isinstance(a, Union) or isinstance(b, Union)):
        return _compare_unions(context, name, a, b)
    a, b = _forced(context, name, a, b)
    if isinstance(a, SymTensor) or isinstance(b, SymTensor):
        if a is None or b is None:
            return name == "ne"
        return calls.guarded(context, lambda: calls.DUNDER[name](a, b))
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
    return calls.guarded(context, lambda: calls.DUNDER[name](a, b))


def _compare_unions(context: Context, name: str, a: Any, b: Any) -> Any:
    if isinstance(a, Union):
        result = merge.switch(context, a, lambda x: compare(context, ast.Eq(), x, b))
    else:
        result = merge.switch(context, b, lambda x: compare(context, ast.Eq(), a, x))
    return result if name == "eq" else numbers.negate(context, result)


def _compare_collections(context: Context, name: str, a: Any, b: Any) -> Any:
    """Two tuples or two lists, perhaps of a length that only the run knows."""
    if not lists.is_open(context, a) and not lists.is_open(context, b):
        return _compare_sequences(context, name, contents.items_of(context, a), contents.items_of(context, b))
    if name in ("eq", "ne"):
        same = calls.call(context, listlib.equal, (a, b), {})
        return same if name == "eq" else numbers.negate(context, same)
    first, second = (a, b) if name in ("lt", "ge") else (b, a)
    found = calls.call(context, listlib.less, (first, second), {})
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
        return calls.DUNDER[name](len(a), len(b))
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
    if growing.is_open(context, first) or growing.is_open(context, second):
        same = growing.equal(context, first, second)
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
            test = lowering.is_static(context, value, other)
            if isinstance(test, Number):
                test.maybe = (value, other)
            return test
    if isinstance(a, SymTensor) and isinstance(b, SymTensor):
        for storage in (a.storage, b.storage):
            if a.storage is not b.storage and (storage.alias or storage in context.links):
                raise NotStatic("whether these are the same tensor: a branch or a loop chose one of them",
                                context.span(), hint="keep a bool that says which one was chosen")
        return heap.same_reference(a, b)
    if isinstance(a, bool) and isinstance(b, Number) and b.number_type is bool:
        a, b = b, a
    if isinstance(a, Number) and a.number_type is bool and isinstance(b, bool):
        return a if b else numbers.negate(context, a)
    return a is b


def _in(context: Context, item: Any, container: Any) -> Any:
    if isinstance(container, SymDict) and growing.finds(context, container, item):
        return growing.contains(context, container, item)
    if isinstance(container, SymDict):
        if isinstance(item, Number):
            return _in(context, item, tuple(contents.dict_of(context, container)))
        key = item if isinstance(item, SymTensor) else calls.static(context, item, "a dict key")
        return key in contents.dict_of(context, container)
    if isinstance(container, TensorMap):
        found = mappings.find(context, container, item)
        if not isinstance(found, Union):
            return found is not UNBOUND
        return numbers.negate(context, lowering.is_static(context, found, UNBOUND))
    if isinstance(container, Range) or (isinstance(container, range) and isinstance(item, Number)):
        bounds = (container.start, container.stop, container.step)
        return truth(context, calls.call(context, listlib.in_range, (item, *bounds), {}))
    method = objects.method_of(container, "__contains__")
    if method is not None and not isinstance(container, type):
        return truth(context, calls.call(context, method, (container, item), {}))
    if isinstance(container, (str, bytes, range)) or not (isinstance(container, (tuple, SymList))):
        if isinstance(container, (set, frozenset)) and isinstance(item, Number):
            return _in(context, item, tuple(container))
        if not is_dynamic(item) and not is_dynamic(container):
            return calls.guarded(context, lambda: item in container)
        raise UnsupportedCall(f"`in` with {type_word(container)}", context.span())
    if isinstance(container, SymList) and lists.run_items(context, container) is not None:
        return calls.call(context, listlib.contains, (container, item), {})
    result: Any = False
    for x in contents.items_of(context, container):
        result = numbers.either(context, result, truth(context, compare(context, ast.Eq(), item, x)))
    return result


def truth(context: Context, value: Any) -> Any:
    """`bool(value)`: a Python bool or a run-time one."""
    if isinstance(value, Number):
        return numbers.truth(context, value)
    if isinstance(value, SymTensor):
        return calls.guarded(context, lambda: _tensor_truth(context, value))
    if isinstance(value, Union):
        return merge.switch(context, value, lambda v: truth(context, v))
    if isinstance(value, SymList):
        return truth(context, contents.length(context, value))
    if isinstance(value, SymDict):
        return truth(context, contents.length(context, value))
    if isinstance(value, TensorMap):
        return mappings.length(context, value) > 0
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
    from jitgrad import dims

    type_ = value.type_
    n = dims.product(type_.dims)
    words = "Boolean value of Tensor with more than one value is ambiguous"
    if isinstance(n, int):
        if n != 1:
            raise RuntimeError(words if n else "Boolean value of Tensor with no values is ambiguous")
    else:
        backend().checker.equal(n, 1, lambda: words)  # type: ignore[attr-defined]
    return numbers.truth(context, backend().item(value))


def _bool_op(context: Context, node: ast.BoolOp) -> Any:
    return _operands(context, node.values, isinstance(node.op, ast.And))


def _operands(context: Context, nodes: list[ast.expr], conjunction: bool) -> Any:
    value = evaluate(context, nodes[0])
    if len(nodes) == 1:
        return value
    test = truth(context, value)
    if not isinstance(test, Number):
        return _operands(context, nodes[1:], conjunction) if bool(test) == conjunction else value
    boolean = isinstance(value, Number) and value.number_type is bool

    def rest() -> Any:
        narrow(context, nodes[0], test, conjunction)
        return _operands(context, nodes[1:], conjunction)

    def keep() -> Any:
        return (not conjunction) if boolean else value

    return merge.branch(context, test, rest, keep) if conjunction else merge.branch(context, test, keep, rest)


def condition(context: Context, node: ast.expr) -> Any:
    """The truth of an expression: a bool or a bool Number. Operands of `and` and `or` need no common type here."""
    if not isinstance(node, ast.BoolOp):
        return truth(context, evaluate(context, node))
    return _conditions(context, node.values, isinstance(node.op, ast.And))


def _conditions(context: Context, nodes: list[ast.expr], conjunction: bool) -> Any:
    test = condition(context, nodes[0])
    if len(nodes) == 1:
        return test
    if not isinstance(test, Number):
        return _conditions(context, nodes[1:], conjunction) if bool(test) == conjunction else test

    def rest() -> Any:
        narrow(context, nodes[0], test, conjunction)
        return _conditions(context, nodes[1:], conjunction)

    def keep() -> Any:
        return not conjunction

    return merge.branch(context, test, rest, keep) if conjunction else merge.branch(context, test, keep, rest)


def _conditional(context: Context, node: ast.IfExp) -> Any:
    test = condition(context, node.test)
    if not isinstance(test, Number):
        return evaluate(context, node.body if test else node.orelse)

    def side(expression: ast.expr, outcome: bool) -> Callable[[], Any]:
        def run() -> Any:
            narrow(context, node.test, test, outcome)
            return evaluate(context, expression)
        return run

    return merge.branch(context, test, side(node.body, True), side(node.orelse, False))


def narrow(context: Context, test: ast.expr, value: Any, outcome: bool, direct: bool = True) -> None:
    """Use what a condition says: after `x is not None` a name that may be None holds its value.

    `direct`: the condition is this very test, not an `and` or `or` that it is part of.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(context, test.operand, value, not outcome, direct)
        return
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) == outcome:
            for part in test.values:
                narrow(context, part, value, outcome, False)
        return
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name)
            and isinstance(test.ops[0], (ast.Is, ast.IsNot)) and isinstance(test.comparators[0], ast.Constant)
            and test.comparators[0].value is None):
        return
    key = (context.frame.id, test.left.id)
    union = context.state.values.get(key)
    if isinstance(union, Union):
        is_none = isinstance(test.ops[0], ast.Is) == outcome
        context.state.values[key] = None if is_none else lowering.without(context, union, None, not direct)


def _named(context: Context, node: ast.NamedExpr) -> Any:
    from jitgrad.script.frontend.targets import assign_name

    value = evaluate(context, node.value)
    assign_name(context, node.target.id, value, node)
    return value


def _lambda(context: Context, node: ast.Lambda) -> Any:
    return make_function(context, node)


def make_function(context: Context, node: ast.Lambda | ast.FunctionDef) -> Function:
    """A function object defined in the script."""
    defaults = tuple(evaluate(context, d) for d in node.args.defaults)
    kw = {a.arg: evaluate(context, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
          if d is not None}
    cache = context.nested
    source = cache.get(node)
    if source is None:
        source = cache[node] = context.frame.source.nested(node)
    return Function(node, source, context.frame, defaults, kw)


def _call(context: Context, node: ast.Call) -> Any:
    fn = evaluate(context, node.func)
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
            kwargs.update(contents.dict_of(context, value))
        else:
            kwargs[k.arg] = value
    return calls.call(context, fn, tuple(args), kwargs)


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
            spec = calls.static(context, _joined(context, part.format_spec), "a format specification")
        parts.append((value, "" if part.conversion == -1 else chr(part.conversion), spec))
    return strings.text(context, parts)


from jitgrad.script.frontend import comprehensions  # noqa: E402  (its functions evaluate expressions)

HANDLERS: dict[type[ast.AST], Callable[[Context, Any], Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Tuple: _tuple, ast.List: _list, ast.Dict: _dict,
    ast.Attribute: _attribute, ast.Subscript: _subscript, ast.Slice: _slice, ast.BinOp: _binary, ast.UnaryOp: _unary,
    ast.Compare: _compare, ast.BoolOp: _bool_op, ast.IfExp: _conditional, ast.NamedExpr: _named, ast.Lambda: _lambda,
    ast.Call: _call, ast.JoinedStr: _joined, ast.Set: comprehensions.set_display,
    ast.ListComp: comprehensions.list_comprehension, ast.GeneratorExp: comprehensions.generator_expression,
    ast.SetComp: comprehensions.set_comprehension, ast.DictComp: comprehensions.dict_comprehension,
}

__all__ = ["HANDLERS", "binary", "compare", "condition", "elements", "evaluate", "make_function", "narrow", "truth",
           "unary"]
