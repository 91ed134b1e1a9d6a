"""`build`: a Python function and the objects of its first call -> `ScriptGraph`."""

import ast
import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from importlib import import_module
from typing import Any

from jitgrad import locks
from jitgrad.device import FACTS, asked
from jitgrad.dims import Assumed
from jitgrad.errors import NotStatic, ScriptError, SourceUnavailable, Span, TypeMismatch, UnsupportedCall
from jitgrad.ops import autocast
from jitgrad.ops.backend import backend, using
from jitgrad.ops.types import ListType, TensorType
from jitgrad.script.autodiff import inner
from jitgrad.script.call import signature as sig
from jitgrad.script.call.list_kinds import NOTHING, Kind
from jitgrad.script.frontend.batches import complex_kind, kind
from jitgrad.script.frontend.boundary import deferred_stores, list_arguments, placement
from jitgrad.script.frontend.boundary.inputs import Inputs
from jitgrad.script.frontend.boundary.results import Results
from jitgrad.script.frontend.containers import deques, mappings, ordered_lists, sequences, texts
from jitgrad.script.frontend.evaluate import attempts, expressions, merge, raised, statements
from jitgrad.script.frontend.gradients import carried_leaves, carried_losses, record, requires_grad, tape
from jitgrad.script.frontend.library import (addresses, builtins, copying, iterators, jitgrad_functions, numpylib,
                                             own_dicts, sets, stdlib)
from jitgrad.script.frontend.library.backend import SymbolicBackend
from jitgrad.script.frontend.library.outside import callbacks, environment
from jitgrad.script.frontend.library.written import complexes, dictionaries, stacks
from jitgrad.script.frontend.source.annotations import check as check_annotations
from jitgrad.script.frontend.source.source import source_of
from jitgrad.script.frontend.state import dispatch, effects, pooling, unrolling, versions
from jitgrad.script.frontend.state.context import APART, REFERENCES, SHORT_LOOPS, Context, Restart, activated
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.state.handlers import LATE
from jitgrad.script.frontend.state.memory import SHARED
from jitgrad.script.frontend.state.sizes import Sizes
from jitgrad.script.frontend.templates import identities, item_origins, pools
from jitgrad.script.frontend.values import functions, heap, instances, numbers, numeric, tensors, unions, writing
from jitgrad.script.frontend.values.values import Storage
from jitgrad.script.graph.ir import Block, Graph, Value

#: loaded for the kinds and handlers that they register
REGISTERED = (deques, mappings, ordered_lists, sequences, texts, addresses, builtins, complexes, copying, dictionaries,
              environment, iterators, jitgrad_functions, numpylib, own_dicts, sets, stacks, stdlib, complex_kind, kind,
              functions, instances, numeric, raised, tensors, unions)

_FUNCTIONALS = "jitgrad.script.frontend.library.functionals"
_OUTSIDE = "jitgrad.script.frontend.library.outside"
LATE.update({
    "jitgrad.func": lambda: (import_module(f"{_FUNCTIONALS}.transforms"), import_module(f"{_FUNCTIONALS}.mapping")),
    "jitgrad.autograd.functional": lambda: import_module(f"{_FUNCTIONALS}.transforms"),
    "jitgrad.optim": lambda: import_module("jitgrad.script.frontend.library.optimizers"),
    "jitgrad.nn": lambda: import_module("jitgrad.script.frontend.library.modules"),
    "logging": lambda: import_module(f"{_OUTSIDE}.logs"),
    **dict.fromkeys(("random", "numpy.random"), lambda: import_module(f"{_OUTSIDE}.draws"))})

dispatch.evaluate.fill(expressions.evaluate)
dispatch.run_block.fill(statements.run_block)
dispatch.run_function.fill(statements.run_function)
dispatch.call_marked.fill(callbacks.marked)
dispatch.branch.fill(merge.branch)
dispatch.replace_references.fill(identities.replaced)
dispatch.require_grad.fill(writing.require_grad)
dispatch.binary_number.fill(numbers.binary)
dispatch.unary_number.fill(numbers.unary)
dispatch.compare_numbers.fill(numbers.compare)
dispatch.extreme_number.fill(numbers.extreme)
dispatch.select_number.fill(numbers.select)
dispatch.history_word.fill(requires_grad.about)
dispatch.begin_loop.fill(carried_losses.begin)
dispatch.settle_loop.fill(carried_leaves.settle)
dispatch.intercept.fill(attempts.intercept)
dispatch.watch.fill(attempts.watch)
dispatch.after_call.fill(attempts.after_call)
dispatch.announce_stores.fill(deferred_stores.announce)

RESTARTS = 64
STACK = 10_000  # Python frames: inlined calls and nested branches take about fifteen each


class _DeepStack:
    """Python's limit of recursion is higher while any thread is inside, and then what it was before the first."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.RLock(), 0, 0
        locks.new_in_children(self)

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._before, STACK))
            self._inside += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setrecursionlimit(self._before)


_deep_stack = _DeepStack()


def build(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
          assumed: Assumed = Assumed.PARAMETERS, any_grads: bool = False, numbers: frozenset[Any] = frozenset(),
          lists: Mapping[sig.Source, Kind] = NOTHING, late_checks: bool = False,
          decided: dict[Any, str] | None = None) -> sig.ScriptGraph:
    """Specialise `function` for arguments like these; nothing is executed and no object is changed.

    Args:
        function: a plain Python function.
        args, kwargs: the first call's objects.
        assumed: what may be assumed of sizes (guarded); the rest is checked at run time.
        numbers: slots of ints (attributes, globals, closure variables) that are read at run time from the start.
        lists: lists and tuples that are taken with any length, and the kind of their items.
        any_grads: whether each call may find a `.grad` or None on each tensor; else they are as at the first call.
        late_checks: whether indices on the CPU are checked as those on a GPU, when the host next waits.
        decided: decisions to begin with, and what they are in words; gains those that another call will need, too.

    Raises:
        ScriptError: the function cannot be compiled.
    """
    if not inspect.isfunction(function):
        raise SourceUnavailable(f"`{function!r}` is no Python function",
                                hint="script functions written in Python; this one is built in")
    bound = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    check_annotations(function, bound.arguments)
    found = dict(decided or {})
    decisions: set[Any] = {*numbers, *found}
    if _takes_gradients(function):
        decisions.add(SHARED)
    log = list(found.values())
    refusal: BaseException | None = None  # so far
    modes = autocast.state()
    with _deep_stack:
        for _ in range(RESTARTS):
            try:
                script = _evaluate(function, bound.arguments, decisions, log, assumed, any_grads, lists, late_checks)
                if decided is not None:
                    decided.update(found)
                return script
            except Restart as restart:
                refusal = _told(refusal, restart.__cause__, decisions)
                decisions.discard(restart.replaces)
                decisions |= {restart.decision, pooling.IMPLIED.get(restart.decision, restart.decision)}
                log.append(restart.text)
                if not restart.of_call:
                    found[restart.decision] = restart.text
            except ScriptError as error:
                raise _told(refusal, error, decisions) or error from None
            finally:
                autocast.restore(modes)
    raise NotStatic("too many loops would have to be unrolled", source_of(function).span(source_of(function).node))


def _told(refusal: BaseException | None, later: BaseException | None, decisions: set[Any]) -> BaseException | None:
    """Which of two refusals is told: that of loops and objects as they are; of those the later, unless its place is the
    same."""
    if not isinstance(refusal, ScriptError) or not isinstance(later, ScriptError):
        return refusal or later
    instead = SHORT_LOOPS in decisions or pooling.OBJECTS in decisions
    return refusal if instead or later.span is None or later.span == refusal.span else later


def _takes_gradients(function: Callable[..., Any]) -> bool:
    """Whether the function seems to hold a training step: parameters are then found in the model and the optimizer."""
    source = source_of(function)
    return bool(source.once("takes gradients", lambda: any(
        isinstance(n, ast.Attribute) and n.attr in ("backward", "grad", "zero_grad") for n in ast.walk(source.node))))


def _evaluate(function: Callable[..., Any], arguments: dict[str, Any], decisions: set[Any], log: list[str],
              assumed: Assumed, any_grads: bool, lists: Mapping[sig.Source, Kind],
              late_checks: bool) -> sig.ScriptGraph:
    context = Context(Sizes(assumed), set(decisions), backend().is_grad_enabled())
    inputs = context.inputs = Inputs(context, any_grads, lists)
    context.late_checks = late_checks
    try:
        with asked() as facts:
            return _graph_of(context, inputs, function, arguments, log, facts)
    except ScriptError as refusal:
        decisions |= unrolling.found_out(context)
        again = None if versions.of(context).refused else _uncounted(context, refusal) or _of_several_types(
            context, refusal) or _apart(context, refusal) or pools.instead(context, refusal)
        again = again or unrolling.instead(context, refusal)
        if again is None:
            raise
        raise again from refusal
    finally:
        vars(context).clear()  # its parts know it: without this all would live until the next garbage collection


def _uncounted(context: Context, refusal: ScriptError) -> Restart | None:
    """The evaluation that may do without a refusal, if it was counted how often memory is written."""
    if context.counts_writes:
        return Restart(context.uncounted, f"writes are not counted, it is refused with that: {refusal.message}")
    return None


def _of_several_types(context: Context, refusal: ScriptError) -> Restart | None:
    """The evaluation that may do without a refusal of types, if values were merged by what they hold."""
    if isinstance(refusal, TypeMismatch) and not context.by_reference:
        return Restart(REFERENCES, f"names refer to objects: {refusal.message}")
    return None


def _apart(context: Context, refusal: ScriptError) -> Restart | None:
    """The evaluation that may do without a refusal, if branches were followed on either side to the end."""
    if isinstance(refusal, TypeMismatch) and APART not in context.decisions:
        return Restart(APART, f"what follows a branch is done on either side of it: {refusal.message}")
    return None


def _graph_of(context: Context, inputs: Inputs, function: Callable[..., Any], arguments: dict[str, Any],
              log: list[str], facts: Set[str]) -> sig.ScriptGraph:
    source = source_of(function)
    with activated(context), using(SymbolicBackend(context)):
        frame = Frame(context.new_id(), source, function, None, None)
        context.frame, context.node = frame, source.node
        for name, value in arguments.items():
            context.state.values[(frame.id, name)] = inputs.argument(value, sig.Arg(name), name)
        results = Results(context)
        written: dict[int, int] = {}
        stores: list[tuple[sig.Place, sig.Result]] = []
        try:
            value = statements.run_function(context, frame, source.node)
            changes = deferred_stores.changes(context)
            results.expect((value, *(c.value if c.content is None else c.content for c in changes)))
            tree: sig.Result = results.tree(value)
            recipes = [change.recipe(results) for change in changes]
            tree = results.with_pools(tree)
            stores += [(c.place, results.with_pools(r)) for c, r in zip(changes, recipes, strict=True)]
            inputs.keep_apart()
            written = _written(context, results)
            effects.commit_dirty(context)
        except effects.Raised:
            tree = sig.Static(None)
        placement.refuse_two(context)
        # on a GPU, what must be deterministic has scatters of its own
        for fact in sorted(facts if context.device.type == "cpu" else {*facts, "deterministic"}):
            inputs.guard(sig.Machine(fact), "equal", FACTS[fact]())
        list_arguments.bind_sizes(context)
        graph = Graph(Block(tuple(inputs.values), context.builder.block.nodes, tuple(results.outputs)),
                      source.name)
        input_types = [inputs.entry_types.get(i, v.type) for i, v in enumerate(graph.inputs)]
        _bind_inputs(context, graph)
        if context.sizes.changed:
            context.sizes.rewrite(graph.block)
        whose = tuple([i for i, v in enumerate(results.outputs) if v not in results.shown])
        freed = tape.freed_outputs(context, graph.outputs) if record.of(context).freed else set()
        answers = requires_grad.exactly(context, graph.outputs, [graph.block])
        kept = [i for i, v in enumerate(graph.outputs) if v not in freed]
        spoiled = [(i, *one) for i, found in zip(kept, tape.overwritten(
            context, [graph.block], [graph.outputs[i] for i in kept]), strict=True) for one in found]
        overwritten = tuple([(i, results.output(a) if isinstance(a, Value) else -1,
                              tape.told(context, graph.block, pieces, results.output)) for i, a, pieces in spoiled])
        told = {i: results.output(a) for i, a in enumerate(answers) if isinstance(a, Value)}
        expected = [(results.output(heap.read(context, worst)), *words)
                    for worst, words in placement.of(context).expected]
        graph.block.results = tuple(results.outputs)
        carried = [a is not False for a in answers]
        needed = any(context.has_history(v) for v in inputs.values)
        own = graph.outputs[:len(carried)]
        differentiable = tuple([i for i, v in enumerate(own) if carried[i] and v not in freed])
        _check_leaves(results, graph, [own[i] for i in differentiable])
        return sig.ScriptGraph(
            graph, inputs.sources, input_types, list(inputs.guards.values()),
            context.sizes.needed_guards(), tree,
            trip_guards=context.sizes.trips, int_symbols=inputs.int_symbols,
            commits=inputs.commits(), written=written,
            differentiable=differentiable,
            freed=tuple([i for i, v in enumerate(own) if carried[i] and v in freed]),
            overwritten=overwritten, recorded=told, results=len(own), whose=whose, alone=() if needed else tuple([
                i for i in differentiable if not isinstance(graph.outputs[i].type, ListType)]),
            stores=stores, recipes=inputs.recipes, unread=inputs.unread(),
            lists=inputs.lists_taken(), functions=[function, *context.functions], definitions=inputs.definitions,
            distinct=inputs.memory.distinct, calls_back=context.called_back,
            modules=inputs.modules, asked=tuple(context.asked),
            gradient_state=context.gradient_state, device_state=context.device_state, log=[*log, *context.log],
            device=context.device, on_host=tuple(sorted(results.on_host)),
            expected=expected)


def _check_leaves(results: Results, graph: Graph, recorded: Sequence[Value]) -> None:
    """Refuse to return a leaf that the script made beside a result that depends on it."""
    for leaf, span in results.leaves.items():
        assert leaf.root is not None
        if results.beside_owner(leaf):
            raise UnsupportedCall("a script cannot return a leaf that it made together with the tensor whose memory it "
                                  "shows", span, hint="write `.detach().clone().requires_grad_()`")
        _alone(graph, {leaf.root}, recorded, span)
    made = {leaf.root for leaf in item_origins.of(results.context).leaves if leaf.root is not None}
    for value, span in results.perhaps.items():
        _alone(graph, {value, *made}, [v for v in recorded if v not in results.perhaps], span)


def _alone(graph: Graph, leaves: Set[Value], recorded: Sequence[Value], span: Span | None) -> None:
    """Refuse a leaf, which may be the first of these, beside a result that depends on one of them."""
    if any(inner.depends_on(graph.block, v, leaves) for v in recorded):
        raise UnsupportedCall("a script cannot return a leaf that it made together with a result that depends on "
                              "it: a gradient taken outside would not reach the leaf", span,
                              hint="take the gradient in the script, or make the leaf outside")


def _written(context: Context, results: Results) -> dict[int, int]:
    """Tensor inputs written in place whose new content may carry a gradient: their final values as outputs."""
    found = {}
    for key in context.inputs.written:
        if isinstance(key, Storage) and not key.requires_grad:
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
