"""Scripted functions: find the specialisation of a call, or make one, and run it.

    ScriptFunction   what `@script` returns: signature, specialisations, counters
    Specialisation   (`specialisation.py`) one key: reads inputs and checks guards, runs, rebuilds the Python result
    GraphFunction    (`gradfunction.py`) a graph with its native code and, on demand, its gradient; puts one node on the
                     eager tape; knows nothing of Python arguments
"""

from __future__ import annotations

import functools
import gc
import inspect
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgrad import config
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.errors import ScriptError
from jitgrad.script.call import list_kinds
from jitgrad.script.call import signature as sig
from jitgrad.script.call.mismatch import SIZES, mismatch, other_grads
from jitgrad.script.call.sources import Unreadable, describe, parameter_reader, resolve
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.graph.ir import Graph
from jitgrad.script.inspect import show
from jitgrad.script.stored import diskcache, fingerprints

if TYPE_CHECKING:
    from jitgrad.script.inspect.explain import Explanation
    from jitgrad.script.inspect.explain.moved import Traffic


def _compiled_form(graph: Graph) -> Any:
    from jitgrad.script.inspect.explain.kernels import compiled_form

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


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Inside, nobody looks for cyclic garbage: the graphs live till the end, and searching them took a tenth of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class ScriptFunction:
    """A function that `@script` compiles at its first call per signature. Call it like the function.

    Attributes:
        eager: the undecorated function.
        remat: whether, and in how many segments, the gradient runs parts of loops again (`autodiff/segments.py`).
        check: whether the first call of each signature also runs eager and is compared (see `script/inspect/check.py`).
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
        self._any_length: set[sig.Source] = set()  # lists whose length was seen to differ between calls
        self._objects: dict[sig.Source, weakref.ref[Any]] = {}  # objects that were compiled for
        self._by_class: set[sig.Source] = set()  # objects that were seen to differ between calls
        self._constants: dict[sig.Source, int] = {}  # ints that were taken to be constants
        self._lock = threading.RLock()
        self._hits = self._misses = self._compilations = self._disk_hits = 0

    def __reduce__(self) -> str:
        """Pickled by name, as functions are. Raises TypeError where that name is not this object."""
        try:
            found = fingerprints.import_by_name(self.__module__, self.__qualname__)
        except fingerprints.NotStorable:
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
                                 + mismatch(specialisation, dict(zip(self._params, params, strict=True))))
        for observe in observers:
            observe(self, params)
        if self.check or config.current().check:
            from jitgrad.script.inspect.check import checked

            again = entered
            return checked(self, specialisation, params, lambda: specialisation.run(
                params, specialisation.enter(params) or again))
        return specialisation.run(params, entered)

    def _specialise(self, params: tuple[Any, ...]) -> Specialisation:
        for specialisation in self._specialisations:  # another thread was first
            if specialisation.enter(params) is not None:
                return specialisation
        with _collector_paused():
            return self._prepare(params)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        """A new specialisation, from disk or from source."""
        values = dict(zip(self._params, params, strict=True))
        reason = ""
        optimistic, any_grads = True, False
        lists: dict[sig.Source, list_kinds.Kind] = {}
        if self._specialisations or self._objects:
            lists = self._lists(values)
        if self._specialisations:
            reason = mismatch(self._specialisations[0], values)
            optimistic = not any(mismatch(s, values) == SIZES for s in self._specialisations)
            any_grads = any(other_grads(s, values) for s in self._specialisations)
        self._misses += 1
        started = time.perf_counter()
        mode = optimistic, any_grads, self.remat
        key = diskcache.key(self.eager, values, mode, lists)
        specialisation = self._stored(key, params, values)
        from_disk = specialisation is not None
        if specialisation is None:
            script = self.build(values, optimistic, any_grads, lists)
            specialisation = Specialisation(script, self._params, values, self.__name__)
            if script.lists.keys() != lists.keys():  # some are separate objects after all
                key = diskcache.key(self.eager, values, mode, script.lists)
            diskcache.save(key, self.eager, values, script, specialisation.function)
        specialisation.options = optimistic, any_grads, specialisation.script.lists
        specialisation.timing = 1e3 * (time.perf_counter() - started)
        specialisation.owner = self._specialisations
        for guard in specialisation.assumptions:
            if guard.kind == "equal" and type(guard.value) is int:
                self._constants.setdefault(guard.source, guard.value)
            if guard.kind == "is" and list_kinds.is_plain_object(guard.value):
                with suppress(TypeError):  # nothing can refer to it weakly
                    self._objects.setdefault(guard.source, weakref.ref(guard.value))
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

    def build(self, values: dict[str, Any], optimistic: bool, any_grads: bool,
              lists: Mapping[sig.Source, list_kinds.Kind] = list_kinds.NOTHING,
              late_checks: bool = False) -> sig.ScriptGraph:
        """The graph for parameters with these values, from source; see `frontend.build`. Raises ScriptError."""
        from jitgrad.script.frontend.build import build  # only here: a stored program runs without the frontend

        args, kwargs = self.call_arguments(values)
        numbers = self._varying(values)
        for slots, kinds in ((numbers, lists), (frozenset[Any](), lists), (numbers, list_kinds.NOTHING)):
            if slots or kinds:
                with suppress(ScriptError):  # one of them is needed as a constant, a list as separate objects
                    return self._finished(build(self.eager, args, kwargs, optimistic, any_grads, slots, kinds,
                                                late_checks))
        try:
            script = build(self.eager, args, kwargs, optimistic, any_grads, late_checks=late_checks)
        except ScriptError as error:
            if config.current().debug:
                raise
            raise error.with_traceback(None) from None  # the message has the place; our own frames hide it
        return self._finished(script)

    def _varying(self, values: dict[str, Any]) -> frozenset[Any]:
        """Slots of ints that were taken to be constants and have changed since: better read at run time."""
        found: set[Any] = set()
        for source, before in self._constants.items():
            with suppress(Unreadable):
                now = resolve(source, values)
                if type(now) is not int or now == before:
                    continue
                match source:
                    case sig.Attr(base, name):
                        found.add(("attr", id(resolve(base, values)), name))
                    case sig.Global(function, name):
                        found.add(("global", id(function.__globals__), name))
                    case sig.Cell(function, index):
                        found.add(("cell", id(function.__closure__[index])))
        return frozenset(found)

    def _lists(self, values: dict[str, Any]) -> dict[sig.Source, list_kinds.Kind]:
        """Lists and tuples that had another length before, and are of one kind: better taken with any length. Objects
        that were others before: better known by their class."""
        for s in self._specialisations:
            for guard in s.assumptions:
                if guard.kind == "len" and guard.source not in self._any_length:
                    with suppress(Unreadable):
                        now = resolve(guard.source, values)
                        if type(now) in (list, tuple) and len(now) != guard.value:
                            self._any_length.add(guard.source)
        found: dict[sig.Source, list_kinds.Kind] = {}
        for source, known in self._objects.items():
            with suppress(Unreadable):
                now = resolve(source, values)
                if list_kinds.is_plain_object(now) and (source in self._by_class or known() is not now):
                    self._by_class.add(source)
                    found[source] = list_kinds.BY_CLASS
        for source in self._any_length:
            with suppress(Unreadable):
                now = resolve(source, values)
                kind = list_kinds.kind_of(now) if type(now) in (list, tuple) else None
                if kind is not None:
                    for s in self._specialisations:
                        before = s.script.lists.get(source)
                        kind = kind if before is None else list_kinds.joined(kind, before) or kind
                    found[source] = kind
        return found

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
            RuntimeError: it calls ignored functions back, whose effects a measurement would repeat; or its tensors
                are on a GPU, of which `traffic` tells.

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
        from jitgrad.script.inspect.explain import explain

        return explain(self, self._bind(*args, **kwargs), backward)

    def traffic(self, *args: Any, backward: bool = True, **kwargs: Any) -> Traffic:
        """What a call with these arguments launches and moves on a GPU, counted on any machine; nothing is run.

        Tensors on the CPU are taken as if they were on the GPU. `print` the result for launches, bytes read and
        written, lines of the source and where the host waits, step by step, and why neighbours are not one kernel.

        Args:
            *args: as for a call; their sizes are those that are counted.
            backward: also the gradient of every differentiable result.
            **kwargs: as for a call.

        Raises:
            ScriptError: the function cannot be compiled for these arguments.

        >>> import jitgrad
        >>> @jitgrad.script
        ... def scaled(x, y):
        ...     return (x * y).exp() + x
        >>> found = scaled.traffic(jitgrad.ones(1000, 8), jitgrad.ones(1000, 8))
        >>> found.launches, found.bytes
        (1, 96000)
        """
        from jitgrad.script.inspect.explain.moved import count

        return count(self, self._bind(*args, **kwargs), backward)

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
        from jitgrad.script.frontend.source.source import source_of
        from jitgrad.script.inspect.unparse import unparse

        return unparse(source_of(self.eager).node)

    @property
    def code(self) -> str:
        """The graph as a Python module of one function, the user's lines as comments.

        It runs: parameters are the graph's inputs (`graph_inputs(*args)` gives them for a call), what it returns are
        the graph's outputs. Comments above it say where a parameter's value comes from.
        """
        from jitgrad.script.inspect.pycode import to_python
        from jitgrad.script.passes.dce import without_outputs

        latest = self._latest()
        graph = without_outputs(latest.function.graph, latest.script.results)
        return to_python(graph, [describe(s) for s in latest.script.inputs])

    @property
    def grad_code(self) -> str:
        """The gradient as a Python module of two functions: one that returns (results, saved), one that takes saved
        values and a cotangent per differentiable result and returns a gradient, or None, per input that has one.

        Raises:
            RuntimeError: the last specialisation has no gradient (nothing requires one).
        """
        from jitgrad.script.inspect.pycode import gradient_to_python
        from jitgrad.script.passes.dce import without_outputs

        latest = self._latest()
        forward, backward = latest.function.gradient_graphs()
        results, all_ = latest.script.results, len(latest.function.graph.outputs)
        forward = without_outputs(forward, results, all_)
        return gradient_to_python(forward, backward, results, [describe(s) for s in latest.script.inputs])

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

    def kernels(self, *args: Any, device: str = "cpu", **kwargs: Any) -> list[str]:
        """The generated kernels as text, forward then backward; of the last specialisation where no arguments.

        `device="cuda"`: the same loop nests as CUDA C++, on any machine. Raises ValueError for another device.
        """
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.kernels(device)

    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The machine code as text, forward then backward; of the last specialisation where no arguments."""
        chosen = self.specialise(*args, **kwargs) if args or kwargs else self._latest()
        return chosen.function.asm()

    def save(self, f: Any, example_inputs: Any = None) -> None:
        """Write all that was compiled, and what it reads, to a file; see `jitgrad.jit.save`."""
        from jitgrad.script.stored.file.api import save

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
            from jitgrad.script.stored.file.api import save

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
