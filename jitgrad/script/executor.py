"""Scripted functions: find the specialisation of a call, run it, put one node on the eager tape.

    ScriptFunction   what `@script` returns: signature, specialisations, counters
    Specialisation   one key: reads inputs and checks guards (`enter`), runs, rebuilds the Python result (`leave`)
    GraphFunction    a graph with its native code and, on demand, its gradient; knows nothing of Python arguments
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad import config
from jitgrad.dims import evaluate
from jitgrad.dtypes import get_default_dtype
from jitgrad.eager.grad_mode import is_grad_enabled
from jitgrad.eager.node import Node
from jitgrad.errors import ScriptError
from jitgrad.ops.types import OptionalType
from jitgrad.script import callback, diskcache, persist, show
from jitgrad.script import signature as sig
from jitgrad.script.gradfunction import GraphFunction
from jitgrad.script.ir import Graph
from jitgrad.script.results import result_writer
from jitgrad.script.sources import (
    EntryWriter,
    Unreadable,
    argument_guards,
    describe,
    input_symbols,
    parameter_reader,
    resolve,
    separate,
    tensor_key,
    type_of_tensor,
)
from jitgrad.script.stores import commit_writer, store_writer

if TYPE_CHECKING:
    from jitgrad.script.explain import Explanation


def _compiled_form(graph: Graph) -> Any:
    from jitgrad.script.explain.kernels import compiled_form

    return compiled_form(graph)


show.compiled_form.append(_compiled_form)

#: told of each call that was compiled for, before it runs: the function, the values of its parameters
observers: list[Callable[[ScriptFunction, tuple[Any, ...]], None]] = []
#: True and "sqrt" are the same; an int is a number of segments
Remat = bool | str | int | None

#: how many specialisations a function keeps; beyond that the one unused for longest goes
ENTRIES = 64


class CacheInfo(NamedTuple):
    """Counters of a scripted function.

    `compilations` counts signatures prepared in this process, from source or from disk; `disk_hits` those from disk.
    """

    hits: int
    misses: int
    compilations: int
    disk_hits: int
    entries: int


class _Mode(threading.local):
    eager = False


_mode = _Mode()


@contextmanager
def eager_mode() -> Any:
    """Run every scripted function as plain Python inside the `with` block (in this thread)."""
    before, _mode.eager = _mode.eager, True
    try:
        yield
    finally:
        _mode.eager = before


def is_eager() -> bool:
    """Whether scripted functions run as plain Python here and now."""
    return _mode.eager or not config.current().jit


class Specialisation:
    """A scripted function compiled for one key. `timing`: milliseconds that preparing it took."""

    __slots__ = (
        "__weakref__",
        "commit",
        "default_dtype",
        "enter",
        "function",
        "given",
        "grad_mode",
        "leave",
        "may_share",
        "options",
        "owner",
        "script",
        "spent",
        "store",
        "tangents",
        "timing",
    )

    def __init__(self, script: sig.ScriptGraph, params: Sequence[str], values: dict[str, Any], name: str,
                 function: GraphFunction | None = None):
        self.script = script
        unread = frozenset(script.unread)
        #: what the call's arguments must be; objects among them are known weakly, so that they can die
        self.given = [self._weakly(g) for p in params for g in argument_guards(sig.Arg(p), values[p], unread)]
        #: the list that this is taken out of when such an object dies
        self.owner: list[Specialisation] = []
        self.grad_mode, self.default_dtype = is_grad_enabled(), get_default_dtype()
        self.may_share = False  # whether `enter` looks at memory
        script.graph.name = name
        if function is None:
            objects = [resolve(s, values) for s in script.inputs]
            function = GraphFunction.prepare(script.graph, objects, name, script.differentiable)
        self.function = function
        self.enter = self._write_enter(params, values)
        self.leave = result_writer(script.result)
        self.store = store_writer(params, values, script.inputs, script.stores) if script.stores else None
        self.commit = commit_writer(params, values, script.commits) if script.commits else None
        self.spent = Node(f"{name}Backward", (), _nothing) if script.freed else None
        if self.spent is not None:
            self.spent.release()
        self.timing = 0.0
        self.options = True, False  # `optimistic` and `any_grads` of the frontend
        #: tangent programs, by the inputs that have directions (see `pushforward`)
        self.tangents: dict[Any, tuple[GraphFunction, tuple[int, ...]]] = {}

    @property
    def assumptions(self) -> list[sig.Guard]:
        """What a call must be like: of its arguments, then of what is read besides."""
        given = [g if ref is None else sig.Guard(g.source, g.kind, ref()) for g, ref in self.given]
        return given + self.script.guards

    def _weakly(self, guard: sig.Guard) -> tuple[sig.Guard, weakref.ref[Any] | None]:
        if guard.kind != "is" or isinstance(guard.value, (type, types.FunctionType, types.ModuleType)):
            return guard, None
        me = weakref.ref(self)

        def died(_: Any) -> None:
            specialisation = me()
            if specialisation is not None:
                with suppress(ValueError):
                    specialisation.owner.remove(specialisation)

        try:
            return sig.Guard(guard.source, guard.kind, None), weakref.ref(guard.value, died)
        except TypeError:
            return guard, None

    def _write_enter(self, params: Sequence[str], values: dict[str, Any]) -> Callable[[Sequence[Any]], Any]:
        """`enter(p)`: None where an assumption fails, else (objects, arrays) in the order of the graph's inputs."""
        script = self.script
        writer = EntryWriter(params, values)
        writer.require(f"{writer.constant(is_grad_enabled)}() is {self.grad_mode}")
        writer.require(f"{writer.constant(get_default_dtype)}() is {writer.constant(self.default_dtype)}")
        for guard, ref in self.given:
            if ref is None:
                writer.guard(guard)
            else:
                writer.require(f"{writer.read(guard.source)} is {writer.constant(ref)}()")
        for guard in script.guards:
            writer.guard(guard)
        symbols = input_symbols(writer, script.inputs, script.input_types)
        for a, b in script.size_guards:
            writer.require(f"{writer.size(a, symbols)} == {writer.size(b, symbols)}")
        names = [writer.read(s) for s in script.inputs]
        symbols |= {symbol: names[i] for symbol, i in script.int_symbols.items()}
        for a, b in script.trip_guards:
            writer.require(f"{writer.size(a, symbols)} == {writer.size(b, symbols)}")
        tensor_type = type_of_tensor()
        raw = list(names)
        tensors = [i for i, s in enumerate(script.inputs) if isinstance(resolve(s, values), tensor_type)]
        written = self.function.writes
        optional = {i for i, t in enumerate(script.input_types) if isinstance(t, OptionalType)}
        tensors = [i for i in tensors if i not in optional]
        for i in tensors:
            raw[i] = writer.array(names[i])
        for i in optional:
            raw[i] = f"({names[i]} if {names[i]} is None else {names[i]}._data)"
        if written and len(tensors) > 1:
            self.may_share = True
            others = "".join(f"{raw[i]}, " for i in tensors if i not in written)
            writer.require(f"{writer.constant(separate)}(({''.join(f'{raw[i]}, ' for i in written)}), ({others}))")
        return writer.finish(f"(({''.join(n + ', ' for n in names)}), [{', '.join(raw)}])")

    def run(self, params: Sequence[Any], entered: tuple[Any, list[Any]]) -> Any:
        """Execute with what `enter` returned."""
        try:
            if self.script.calls_back:
                snapshot = functools.partial(self._snapshot, params)
                with callback.running(callback.Run(entered[0], functools.partial(self._store, params), snapshot,
                                                   self._changed)):
                    return self._run(params, entered)
            return self._run(params, entered)
        except Exception as error:
            if hasattr(error, "_place") and not config.current().debug:
                from jitgrad.script.tracebacks import show_lines

                show_lines(error)
            raise

    def _run(self, params: Sequence[Any], entered: tuple[Any, list[Any]]) -> Any:
        objects, arrays = entered
        script = self.script
        on_commit = functools.partial(self.commit, params) if self.commit is not None else None
        if self.function.writes:
            outputs = self._run_writing(objects, arrays, on_commit)
        else:
            outputs = self.function(objects, arrays, on_commit)
        if self.spent is not None:  # their history was used up inside: a backward of them is eager's error
            for slot, i in enumerate(script.freed):
                if outputs[i] is not None:
                    self.spent.attach(outputs[i], slot)
        result = self.leave(objects, outputs)
        if self.store is not None:
            self.store(params, objects, outputs)
        return result

    def _run_writing(self, objects: Sequence[Any], arrays: list[Any], on_commit: Callable[[int, Any], None] | None
                     ) -> list[Any]:
        """Run a program that writes tensors in place: their versions count it, their history follows it.

        An exception may come after some of the writes: all are counted then.
        """
        written = self.script.written
        try:
            outputs = self.function(objects, arrays, on_commit)
        except BaseException:
            for index in self.function.writes:
                objects[index]._bump()
            raise
        for index in self.function.writes:
            if index not in written or not self.function.rebase(objects[index], outputs, written[index]):
                objects[index]._bump()
        return outputs

    def _snapshot(self, params: Sequence[Any]) -> Any:
        """What the script reads, now: the inputs, and the versions of tensors; None where an assumption fails."""
        entered = self.enter(params)
        if entered is None:
            return None
        return entered[0], [getattr(o, "_version", None) for o in entered[0]]

    def _changed(self, before: Any, after: Any) -> str:
        """The first input in which two snapshots differ, in words; "" where they agree."""
        if before is None or after is None:
            return "" if before is after else "an object"
        for source, a, b, m, n in zip(self.script.inputs, before[0], after[0], before[1], after[1], strict=True):
            same = a is b or (type(a) is type(b) and not isinstance(a, type_of_tensor()) and (a == b or a != a))
            if (not same or m != n) and not isinstance(source, sig.RngState):
                return f"`{describe(source)}`"
        return ""

    def _store(self, params: Sequence[Any], source: sig.Source, value: Any) -> None:
        """Assign to the attribute, item or variable at `source`."""
        values = dict(zip(self.script.parameters, params, strict=True))
        match source:
            case sig.Attr(base, name):
                setattr(resolve(base, values), name, value)
            case sig.Item(base, key):
                resolve(base, values)[key] = value
            case sig.Cell(function, index):
                function.__closure__[index].cell_contents = value
            case sig.Global(function, name):
                function.__globals__[name] = value
            case sig.RngState(part):
                from jitgrad.random import default_generator

                setattr(default_generator, part, value)
            case _:
                raise AssertionError(source)

    def mismatch(self, values: dict[str, Any]) -> str:
        """The first assumption that a call breaks, in words."""
        if is_grad_enabled() is not self.grad_mode:
            return f"the grad mode was {self.grad_mode}, is {not self.grad_mode}"
        if get_default_dtype() is not self.default_dtype:
            return f"the default dtype was {self.default_dtype}, is {get_default_dtype()}"
        for guard in self.assumptions:
            try:
                found = resolve(guard.source, values)
                other = resolve(guard.value, values) if guard.kind == "same" else None
            except Unreadable as missing:
                if guard.kind == "absent":
                    continue
                return f"{missing}"
            if guard.kind == "same":
                problem = "" if found is other else f"is another tensor than `{describe(guard.value)}`"
            else:
                problem = broken(guard, found)
            if problem:
                return f"`{describe(guard.source)}` {problem}"
        if self.may_share and not self._separate(values):
            return SHARED
        return self._size_mismatch(values)

    def other_grads(self, values: dict[str, Any]) -> bool:
        """Whether the call finds gradients on some parameters and not on others, and on other ones than here.

        Every step may find them on different ones: a program that asks at run time serves them all.
        """
        found: set[bool] = set()
        differs = False
        for guard in self.assumptions:
            if isinstance(guard.source, sig.Attr) and guard.source.name == "grad" and guard.kind != "optional":
                try:
                    there = resolve(guard.source, values) is not None
                except Unreadable:
                    return False
                found.add(there)
                differs |= there is not (guard.kind == "tensor")
        return differs and len(found) == 2

    def _size_mismatch(self, values: dict[str, Any]) -> str:
        script = self.script
        sizes: dict[Any, int] = {}
        try:
            objects = [resolve(s, values) for s in script.inputs]
        except Unreadable as missing:
            return f"{missing}"
        for found, type_ in zip(objects, script.input_types, strict=True):
            for d, n in zip(getattr(type_, "dims", ()), getattr(found, "shape", ()), strict=True):
                if not isinstance(d, int) and d.symbol is not None:
                    sizes[d.symbol] = n
        if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.size_guards):
            return SIZES
        sizes |= {symbol: objects[i] for symbol, i in script.int_symbols.items()}
        if any(evaluate(a, sizes) != evaluate(b, sizes) for a, b in script.trip_guards):
            return "whether a loop runs at all decides the type of a variable, and it differs from the first call"
        return "something read on the way changed"

    def _separate(self, values: dict[str, Any]) -> bool:
        objects = [resolve(s, values) for s in self.script.inputs]
        written = self.function.writes
        others = [o._data for i, o in enumerate(objects) if i not in written and isinstance(o, type_of_tensor())]
        return separate([objects[i]._data for i in written], others)


def _nothing(cotangents: list[Any]) -> list[Any]:
    """The backward of a node without inputs."""
    return []


#: reasons to compile again that no single guard has
SIZES = "sizes that were equal at the first call differ"
SHARED = "a tensor that is written shares memory with another, and did not at the first call"


def broken(guard: sig.Guard, found: Any) -> str:
    """How `found` breaks `guard`, in words; "" where it does not."""
    value: Any = guard.value
    match guard.kind:
        case "is":
            return "" if found is value else "is another object"
        case "equal":
            is_now = "a tensor" if isinstance(found, type_of_tensor()) else repr(found)
            return "" if type(found) is type(value) and found == value else f"was {value!r}, is {is_now}"
        case "type":
            return "" if type(found) is value else f"was {value.__name__}, is {type(found).__name__}"
        case "len":
            return "" if len(found) == value else f"had length {value}, has {len(found)}"
        case "keys":
            return "" if tuple(found) == value else "has other keys"
        case "absent":
            return "was absent, is there"
        case "contiguous":
            return "" if found._data.flags.c_contiguous is value else "has another order of memory"
        case "tensor":
            return _other_tensor(value, found)
        case "optional":
            return "" if found is None or (found.dtype is value and not found.requires_grad) else "is another tensor"
    raise AssertionError(guard.kind)


def _other_tensor(key: sig.TensorKey, found: Any) -> str:
    if not isinstance(found, type_of_tensor()):
        return f"was a tensor, is {type(found).__name__}"
    now = tensor_key(found)
    if now.dtype != key.dtype:
        return f"had dtype {key.dtype}, has {now.dtype}"
    if now.ndim != key.ndim:
        return f"had rank {key.ndim}, has {now.ndim}"
    if now.requires_grad is not key.requires_grad:
        return "did not require grad, does now" if now.requires_grad else "required grad, does not now"
    for axis, (was, one) in enumerate(zip(key.ones, now.ones, strict=True)):
        if was is not one:
            return f"had {'' if was else 'not '}size 1 along axis {axis}, has {found.shape[axis]}"
    return ""


class ScriptFunction:
    """A function that `@script` compiles at its first call per signature. Call it like the function.

    Attributes:
        eager: the undecorated function.
        remat: whether, and in how many segments, the gradient runs parts of loops again (`autodiff/segments.py`).
        check: whether the first call of each signature also runs eager and is compared (see `script/check.py`).
        graph: the graph of the last specialisation that ran, after passes; `print` it for its text.
        grad_graph: its backward.
        code, grad_code: the two as Python that runs.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], check: bool = False, remat: Remat = None):
        functools.update_wrapper(self, function)
        self.eager = function
        self.check, self.remat = check, remat
        self.recompilations: list[str] = []
        self._signature = inspect.signature(function, follow_wrapped=False)  # a decorator is part of the script
        self._params = tuple(self._signature.parameters)
        kinds = [p.kind for p in self._signature.parameters.values()]
        self._positional = len(kinds) if all(
            k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds) else -1
        self._bind = parameter_reader(function)
        self._specialisations: list[Specialisation] = []
        self._lock = threading.RLock()
        self._hits = self._misses = self._compilations = self._disk_hits = 0

    def __reduce__(self) -> str:
        """Pickled by name, as functions are. Raises TypeError where that name is not this object."""
        try:
            found = persist.import_by_name(self.__module__, self.__qualname__)
        except persist.NotStorable:
            found = None
        if found is not self:
            raise TypeError(f"cannot pickle the scripted function `{self.__qualname__}`: `{self.__module__}."
                            f"{self.__qualname__}` is another object; pickle the plain function and script it again")
        name: str = self.__qualname__
        return name

    def __copy__(self) -> ScriptFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptFunction:
        return self

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.__qualname__}: {len(self._specialisations)} specialisations>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundScript(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_eager():
            return self.eager(*args, **kwargs)
        params = args if not kwargs and len(args) == self._positional else self._bind(*args, **kwargs)
        specialisations = self._specialisations
        for index, specialisation in enumerate(specialisations):
            entered = specialisation.enter(params)
            if entered is not None:
                self._hits += 1
                if index:  # most recently used first
                    with self._lock:
                        specialisations.remove(specialisation)
                        specialisations.insert(0, specialisation)
                return specialisation.run(params, entered)
        return self._first(params)

    def _first(self, params: tuple[Any, ...]) -> Any:
        """A call that no specialisation takes: compile one. Raises ScriptError; nothing is changed then."""
        with self._lock:
            specialisation = self._specialise(params)
            entered = specialisation.enter(params)
        if entered is None:
            raise AssertionError(f"{self.__qualname__}: a fresh specialisation refuses its own call: "
                                 + specialisation.mismatch(dict(zip(self._params, params, strict=True))))
        for observe in observers:
            observe(self, params)
        if self.check or config.current().check:
            from jitgrad.script.check import checked

            again = entered
            return checked(self, specialisation, params, lambda: specialisation.run(
                params, specialisation.enter(params) or again))
        return specialisation.run(params, entered)

    def _specialise(self, params: tuple[Any, ...]) -> Specialisation:
        for specialisation in self._specialisations:  # another thread was first
            if specialisation.enter(params) is not None:
                return specialisation
        return self._prepare(params)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        """A new specialisation, from disk or from source."""
        values = dict(zip(self._params, params, strict=True))
        reason = ""
        optimistic, any_grads = True, False
        if self._specialisations:
            reason = self._specialisations[0].mismatch(values)
            optimistic = not any(s.mismatch(values) == SIZES for s in self._specialisations)
            any_grads = any(s.other_grads(values) for s in self._specialisations)
        self._misses += 1
        started = time.perf_counter()
        key = diskcache.key(self.eager, values, (optimistic, any_grads, self.remat))
        specialisation = self._stored(key, params, values)
        from_disk = specialisation is not None
        if specialisation is None:
            script = self.build(values, optimistic, any_grads)
            specialisation = Specialisation(script, self._params, values, self.__name__)
            diskcache.save(key, self.eager, values, script, specialisation.function)
        specialisation.options = optimistic, any_grads
        specialisation.timing = 1e3 * (time.perf_counter() - started)
        specialisation.owner = self._specialisations
        self._specialisations.insert(0, specialisation)
        del self._specialisations[ENTRIES:]
        self._compilations += 1
        self._disk_hits += from_disk
        if reason:
            self.recompilations.append(reason)
        config.log(1, f"compiled {self.__qualname__} in {specialisation.timing:.1f} ms"
                      + (" from the disk cache" if from_disk else "")
                      + (f" (recompiled: {reason})" if reason else ""))
        return specialisation

    def call_arguments(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bound parameters as positional and keyword arguments again."""
        bound = inspect.BoundArguments(self._signature, OrderedDict(values))
        return bound.args, bound.kwargs

    def build(self, values: dict[str, Any], optimistic: bool, any_grads: bool) -> sig.ScriptGraph:
        """The graph for parameters with these values, from source; see `frontend.build`. Raises ScriptError."""
        from jitgrad.script.frontend.build import build  # only here: a stored program runs without the frontend

        args, kwargs = self.call_arguments(values)
        numbers = self._varying(values)
        if numbers:
            try:
                return self._finished(build(self.eager, args, kwargs, optimistic, any_grads, numbers))
            except ScriptError:
                pass  # one of them is needed as a constant
        try:
            script = build(self.eager, args, kwargs, optimistic, any_grads)
        except ScriptError as error:
            if config.current().debug:
                raise
            raise error.with_traceback(None) from None  # the message has the place; our own frames hide it
        return self._finished(script)

    def _varying(self, values: dict[str, Any]) -> frozenset[Any]:
        """Slots of ints that were taken to be constants and have changed since: better read at run time."""
        found: set[Any] = set()
        for guard in {g.source: g for s in self._specialisations for g in s.script.guards
                      if g.kind == "equal" and type(g.value) is int}.values():
            with suppress(Unreadable):
                now = resolve(guard.source, values)
                if type(now) is not int or now == guard.value:
                    continue
                match guard.source:
                    case sig.Attr(base, name):
                        found.add(("attr", id(resolve(base, values)), name))
                    case sig.Global(function, name):
                        found.add(("global", id(function.__globals__), name))
                    case sig.Cell(function, index):
                        found.add(("cell", id(function.__closure__[index])))
        return frozenset(found)

    def _finished(self, script: sig.ScriptGraph) -> sig.ScriptGraph:
        """`script` as specialisations take it: with parameters, its loops in stretches where memory is to be spared."""
        script.parameters = self._params
        if self.remat and is_grad_enabled():
            from jitgrad.script.autodiff.segments import split_loops

            script.graph = split_loops(script.graph, self.remat)
        return script

    def _stored(self, key: str | None, params: tuple[Any, ...], values: dict[str, Any]) -> Specialisation | None:
        """The specialisation on disk, if it takes this call: the key does not tell sizes and memory apart."""
        stored = diskcache.load(key, self.eager, values)
        if stored is None:
            return None
        script, function = stored
        script.parameters = self._params
        try:
            specialisation = Specialisation(script, self._params, values, self.__name__, function)
        except Unreadable:  # stored for other objects: these do not have all that it reads
            return None
        return specialisation if specialisation.enter(params) is not None else None

    @property
    def compile_ms(self) -> float:
        """Milliseconds spent preparing all specialisations so far: frontend, passes, code generation."""
        return sum(s.timing for s in self._specialisations)

    # --- seeing ----------------------------------------------------------------------------------------------------

    def cache_info(self) -> CacheInfo:
        """Counters since the function was scripted."""
        return CacheInfo(self._hits, self._misses, self._compilations, self._disk_hits, len(self._specialisations))

    def specialise(self, *args: Any, **kwargs: Any) -> Specialisation:
        """The specialisation that a call with these arguments would run, compiled if need be, not run."""
        params = self._bind(*args, **kwargs)
        with self._lock:
            return self._specialise(params)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the function's parameters."""
        return self._params

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """What is compiled, most recently used first."""
        return tuple(self._specialisations)

    def specialisation_of(self, params: tuple[Any, ...]) -> Specialisation:
        """As `specialise`, for the values of the parameters."""
        with self._lock:
            return self._specialise(params)

    def explain(self, *args: Any, backward: bool = True, **kwargs: Any) -> Explanation:
        """What a call with these arguments costs, per line of the source, and why it was compiled as it is.

        The call is compiled once more with a timer around every kernel, matrix product and library call, and run a
        few times; so the figures are measured on these very arguments. Nothing that it does is kept: memory that the
        program writes is copied, assignments to attributes and `.grad` are dropped, what it prints is lost. Expect to
        wait for a compilation and some tenths of a second.

        Args:
            *args: as for a call; their sizes and values are those that are measured.
            backward: also run the gradient of every differentiable result, for a cotangent of ones. Where nothing
                requires a gradient there is none to run.
            **kwargs: as for a call.

        Returns:
            An `Explanation`. `print` it for

            - totals: time of a call, kernels, bytes, FLOP of products, workspace, bytes saved for the backward;
            - a table for each function of yours that takes part: per line time and bytes moved (forward, backward),
              FLOP, bytes that the line saves for the backward, and the steps that run for it;
            - the steps: kernel, product or library call with its share of the time and its rate;
            - why neighbouring ops are not one kernel;
            - decisions while compiling (unrolled loops, guarded sizes) and guards: what must stay for this program to
              be used again, and what is read at every entry and may change freely;
            - for each other specialisation, the first guard or part of the key in which this call differs.

            In notebooks it is shown as a table with bars.

        Raises:
            ScriptError: the function cannot be compiled for these arguments.
            RuntimeError: it calls ignored functions back, whose effects a measurement would repeat.

        >>> import jitgrad
        >>> @jitgrad.script
        ... def loss(x, w):
        ...     h = jitgrad.tanh(x @ w)
        ...     return (h * h).sum()
        >>> report = loss.explain(jitgrad.ones(4, 8), jitgrad.ones(8, 2, requires_grad=True))
        >>> [step.label for step in report.steps]
        ['product 1', 'kernel 1', 'kernel 2', 'product 2']
        >>> report.saved_bytes
        32
        """
        from jitgrad.script.explain import explain

        return explain(self, self._bind(*args, **kwargs), backward)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph, after passes, that a call with these arguments runs."""
        return self.specialise(*args, **kwargs).function.graph

    @property
    def graph(self) -> Graph:
        return self._latest().function.graph

    @property
    def source(self) -> str:
        """The function's Python source as the compiler read it: regenerated from its AST, comments gone.

        Raises:
            SourceUnavailable: the source cannot be read.
        """
        from jitgrad.script.frontend.source import source_of
        from jitgrad.script.unparse import unparse

        return unparse(source_of(self.eager).node)

    @property
    def code(self) -> str:
        """The graph as a Python module of one function, the user's lines as comments.

        It runs: parameters are the graph's inputs (`graph_inputs(*args)` gives them for a call), what it returns are
        the graph's outputs. Comments above it say where a parameter's value comes from.
        """
        from jitgrad.script.pycode import to_python

        latest = self._latest()
        return to_python(latest.function.graph, [describe(s) for s in latest.script.inputs])

    @property
    def grad_code(self) -> str:
        """The gradient as a Python module of two functions: one that returns (results, saved), one that takes saved
        values and a cotangent per differentiable result and returns a gradient, or None, per input that has one.

        Raises:
            RuntimeError: the last specialisation has no gradient (nothing requires one).
        """
        from jitgrad.script.pycode import gradient_to_python

        latest = self._latest()
        forward, backward = latest.function.gradient_graphs()
        return gradient_to_python(forward, backward, len(latest.function.graph.outputs),
                                  [describe(s) for s in latest.script.inputs])

    @property
    def grad_graph(self) -> Graph:
        """The backward as a graph: saved values and cotangents in; for each gradient the value, and whether any came.

        Raises:
            RuntimeError: the last specialisation has no gradient (nothing requires one).
        """
        return self._latest().function.gradient_graphs()[1]

    def graph_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The objects that a call with these arguments gives to the graph: its parameters in `code`, in order."""
        params = self._bind(*args, **kwargs)
        values = dict(zip(self._params, params, strict=True))
        return [resolve(s, values) for s in self.specialisation_of(params).script.inputs]

    def kernels(self, *args: Any, **kwargs: Any) -> list[str]:
        """The generated kernels as text, forward then backward; of the last specialisation where no arguments."""
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.kernels()

    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The machine code as text, forward then backward; of the last specialisation where no arguments."""
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.asm()

    def save(self, f: Any, example_inputs: Any = None) -> None:
        """Write all that was compiled, and what it reads, to a file; see `jitgrad.jit.save`."""
        from jitgrad.script.saved.api import save

        save(self, f, example_inputs)

    def export_onnx(self, path: Any, *args: Any, **options: Any) -> Any:
        """Write what a call with these arguments runs as an ONNX model; options as of `jitgrad.onnx.export`."""
        from jitgrad.onnx.api import export_function

        return export_function(self, path, *args, **options)

    def _latest(self) -> Specialisation:
        if not self._specialisations:
            raise RuntimeError(f"`{self.__name__}` has not been called yet: call it, or use "
                               f"`{self.__name__}.graph_for(*args)`")
        return self._specialisations[0]


class BoundScript:
    """A scripted method bound to an instance; the instance is part of the key."""

    __slots__ = ("__self__", "_script")

    def __init__(self, script: ScriptFunction, instance: Any):
        self._script, self.__self__ = script, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._script(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__", "__wrapped__"):
            raise AttributeError(name)  # protocols, such as copying, are the bound method's own
        attribute = getattr(self._script, name)
        if name in ("eager", "explain", "graph_for", "graph_inputs", "specialise"):
            return functools.partial(attribute, self.__self__)
        if name == "save":
            from jitgrad.script.saved.api import save

            return functools.partial(save, self)
        if name == "export_onnx":
            from jitgrad.onnx.api import export_function

            return functools.partial(export_function, self)
        if name in ("kernels", "asm"):
            return lambda *args, **kwargs: (attribute(self.__self__, *args, **kwargs) if args or kwargs
                                            else attribute())
        return attribute

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundScript, (self._script, self.__self__)

    def __repr__(self) -> str:
        return f"<bound {self._script!r} of {type(self.__self__).__name__}>"
