"""Comprehensions and generator expressions, over iterables of known length."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.script.frontend import calls
from jitgrad.script.frontend import expressions as ex
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.generators import Consumer, Generator
from jitgrad.script.frontend.values import Number, is_dynamic


def list_comprehension(context: Context, node: ast.ListComp) -> Any:
    """`[f(x) for x in xs if p(x)]`."""
    items: list[Any] = []
    _generate(context, node.generators, lambda: items.append(ex.evaluate(context, node.elt)))
    return calls.new_list(context, items)


def dict_comprehension(context: Context, node: ast.DictComp) -> Any:
    """`{k: v for ...}`, its keys known while compiling."""
    items: dict[Any, Any] = {}

    def add() -> None:
        key = calls.static(context, ex.evaluate(context, node.key), "a dict key")
        items[key] = ex.evaluate(context, node.value)

    _generate(context, node.generators, add)
    return calls.new_dict(context, items)


def set_comprehension(context: Context, node: ast.SetComp) -> Any:
    """`{f(x) for ...}`, its items known while compiling."""
    items: list[Any] = []
    _generate(context, node.generators, lambda: items.append(ex.evaluate(context, node.elt)))
    return new_set(context, items)


def set_display(context: Context, node: ast.Set) -> Any:
    """`{a, b}`, its items known while compiling."""
    return new_set(context, ex.elements(context, node.elts))


def new_set(context: Context, items: list[Any], cls: type = set) -> Any:
    """A set of static items: a plain Python set that nothing changes."""
    if is_dynamic(items):
        raise UnsupportedCall("a set of run-time values", context.span(), hint="use a list, or `torch.unique`")
    return calls.guarded(context, lambda: cls(items))


def generator_expression(context: Context, node: ast.GeneratorExp) -> Generator:
    """`(f(x) for x in xs)`: the outermost iterable is evaluated now, the rest when it is consumed."""
    frame = context.frame
    names = dict(frame.names)
    source = ex.evaluate(context, node.generators[0].iter)

    def produce(context: Context, consumer: Consumer) -> None:
        before = context.frame, context.node, context.frame.names
        mine = frame.names
        context.frame, frame.names = frame, names
        try:
            _generate(context, node.generators, lambda: consumer(ex.evaluate(context, node.elt)), source)
        finally:
            context.frame, context.node, _ = before
            frame.names = mine

    return Generator(produce)


_UNSET = object()


def _generate(context: Context, generators: list[ast.comprehension], yield_: Callable[[], Any],
              source: Any = _UNSET) -> None:
    from jitgrad.script.frontend.targets import assign

    frame = context.frame
    generator = generators[0]
    if source is _UNSET:
        source = ex.evaluate(context, generator.iter)
    items = calls.static_items(context, source)
    if items is None:
        raise UnsupportedCall("a comprehension over a length that is known only at run time", context.span(),
                              hint="write a `for` loop, or use tensor operations")
    before = dict(frame.names)
    scope = context.new_id()
    for n in ast.walk(generator.target):
        if isinstance(n, ast.Name):
            frame.names[n.id] = f"{n.id}.{scope}"
    try:
        for item in items:
            assign(context, generator.target, item)
            for test in generator.ifs:
                value = ex.condition(context, test)
                if isinstance(value, Number):
                    raise NotStatic("the length of this list is known only at run time", context.span(test),
                                    hint="use `torch.where` or a mask")
                if not value:
                    break
            else:
                if len(generators) > 1:
                    _generate(context, generators[1:], yield_)
                else:
                    yield_()
    finally:
        frame.names = before
