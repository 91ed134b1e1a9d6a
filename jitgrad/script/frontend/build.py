"""`build`: a Python function and the objects of its first call -> `ScriptGraph`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, SourceUnavailable
from jitgrad.ops.backend import backend, using
from jitgrad.ops.types import TensorType, map_dims
from jitgrad.script import signature as sig
from jitgrad.script.frontend import heap, merge
from jitgrad.script.frontend.backend import SymbolicBackend
from jitgrad.script.frontend.context import Context, Restart, activated
from jitgrad.script.frontend.frames import Frame
from jitgrad.script.frontend.inputs import Inputs
from jitgrad.script.frontend.results import Results
from jitgrad.script.frontend.sizes import Sizes
from jitgrad.script.frontend.source import source_of
from jitgrad.script.frontend.statements import run_function
from jitgrad.script.frontend.values import Storage, Tail
from jitgrad.script.ir import Block, Graph, Node, Value, map_attr

RESTARTS = 64
STACK = 10_000  # Python frames: inlined calls and nested branches take about fifteen each


def build(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
          optimistic: bool = True) -> sig.ScriptGraph:
    """Specialise `function` for arguments like these; nothing is executed and no object is changed.

    Args:
        function: a plain Python function.
        args, kwargs: the first call's objects.
        optimistic: whether sizes that are equal now may be assumed equal (guarded); else they are checked at run time.

    Raises:
        ScriptError: the function cannot be compiled.
    """
    if not inspect.isfunction(function):
        raise SourceUnavailable(f"`{function!r}` is no Python function",
                                hint="script functions written in Python; this one is built in")
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    decisions: set[Any] = set()
    log: list[str] = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, STACK))
    try:
        for _ in range(RESTARTS):
            try:
                return _evaluate(function, bound.arguments, decisions, log, optimistic)
            except Restart as restart:
                decisions.add(restart.decision)
                log.append(restart.text)
    finally:
        sys.setrecursionlimit(limit)
    raise NotStatic("too many loops would have to be unrolled", source_of(function).span(source_of(function).node))


def _evaluate(function: Callable[..., Any], arguments: dict[str, Any], decisions: set[Any], log: list[str],
              optimistic: bool) -> sig.ScriptGraph:
    context = Context(Sizes(optimistic), set(decisions), backend().is_grad_enabled())
    context.inputs = Inputs(context)
    source = source_of(function)
    with activated(context), using(SymbolicBackend(context)):
        frame = Frame(context, source, function, None, None)
        context.frame, context.node = frame, source.node
        for name, value in arguments.items():
            context.state.values[(frame.id, name)] = context.inputs.argument(value, sig.Arg(name), name)
        results = Results(context)
        written: dict[int, int] = {}
        stores: list[tuple[sig.Place, sig.Result]] = []
        try:
            value = run_function(context, frame, source.node)
            tree: sig.Result = results.tree(value)
            stores = [(path, results.tree(context.state.values[slot]))
                      for slot, path in context.inputs.stores.items()]
            for container in context.inputs.changed:
                content = merge.fetch(context, context.state, container)
                kind = sig.Tail if isinstance(content, Tail) else sig.Content
                stores.append((kind(container.source), results.content(container, content)))
            written = _written(context, results)
            heap.commit_dirty(context)
        except merge.Raised:
            tree = sig.Static(None)
        graph = Graph(Block(tuple(context.inputs.values), context.builder.block.nodes, tuple(results.outputs)),
                      source.name)
        input_types = [v.type for v in graph.inputs]
        _bind_inputs(context, graph)
        if context.sizes.changed:
            _canonicalise(context, graph)
        return sig.ScriptGraph(
            graph, context.inputs.sources, input_types, list(context.inputs.guards.values()), context.sizes.guards,
            tree,
            trip_guards=context.sizes.trips, int_symbols=context.inputs.int_symbols,
            commits=context.inputs.commits(), written=written,
            differentiable=tuple(i for i, v in enumerate(graph.outputs) if v.id in context.builder.history),
            stores=stores, unread=context.inputs.unread(), functions=[function, *context.functions],
            log=[*log, *context.log])


def _written(context: Context, results: Results) -> dict[int, int]:
    """Tensor inputs written in place whose new content may carry a gradient: their final values as outputs."""
    found = {}
    for key in context.inputs.written:
        if isinstance(key, Storage):
            value = heap.current_value(context, key)
            if context.has_history(value) and context.grad:
                found[key.input] = results.output(value)
    return found


def _bind_inputs(context: Context, graph: Graph) -> None:
    """The graph's block binds the symbols of its inputs."""
    seen: dict[Any, None] = {}
    for v in graph.inputs:
        if isinstance(v.type, TensorType):
            for d in v.type.dims:
                d = context.sizes.canonical(d)
                if not isinstance(d, int) and d.symbol is not None:
                    seen[d.symbol] = None
    graph.block.binds = tuple(seen)


def _canonicalise(context: Context, graph: Graph) -> None:
    """Write every size in terms of the symbols that remain after unification.

    The graph is still ours alone, so values and attributes are changed in place: a copy would cost more than the
    evaluation.
    """
    canonical = context.sizes.canonical
    seen: set[int] = set()

    def value(v: Value) -> None:
        if v.id in seen:
            return
        seen.add(v.id)
        if isinstance(v.type, TensorType):
            object.__setattr__(v, "type", context.sizes.canonical_type(v.type))
        else:
            object.__setattr__(v, "type", map_dims(v.type, canonical))

    def visit(block: Block) -> None:
        for v in block.params:
            value(v)
        for n in block.nodes:
            for v in n.outputs:
                value(v)
            if n.attrs:
                _attrs(n)
            for inner in n.blocks:
                visit(inner)

    def _attrs(n: Node) -> None:
        attrs = n.attrs
        assert isinstance(attrs, dict)
        for key, a in attrs.items():
            if isinstance(a, tuple) or hasattr(a, "terms"):
                attrs[key] = map_attr(a, canonical)
            elif key == "type":
                attrs[key] = map_dims(a, canonical)

    visit(graph.block)


__all__ = ["build"]
