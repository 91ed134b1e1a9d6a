"""The dispatcher of a scripted function: find the specialisation of a call, or make one, and run it.

    Dispatcher       what runs `@script`: signature, specialisations, counters; `inspect/face.py` shows it to users
    Specialisation   (`call/specialisation.py`) one key: reads inputs and checks guards, runs, rebuilds the result
    GraphFunction    (`call/graph_function.py`) a graph with its native code and, on demand, its gradient; puts one node
                     on the eager tape; knows nothing of Python arguments
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from jitgrad import config, locks
from jitgrad.dims import Assumed
from jitgrad.eager import profiling
from jitgrad.eager.autograd.grad_mode import is_grad_enabled
from jitgrad.errors import ScriptError
from jitgrad.script.call import list_kinds, signature as sig
from jitgrad.script.call.sources import Unreadable, parameter_reader, resolve
from jitgrad.script.call.specialisation import Specialisation
from jitgrad.script.call.tracebacks import refused
from jitgrad.script.stored import diskcache
from jitgrad.script.stored.records import Program, program_of

#: told of each call that was compiled for, before it runs: the function, the values of its parameters
observers: list[Callable[[Dispatcher, tuple[Any, ...]], None]] = []
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


class Scripted(NamedTuple):
    """What is behind an object that `script` or `load` returned: the dispatcher, and its first argument if it has one.

    `name`: what a file of it is called.
    """

    function: Dispatcher
    instance: Any
    name: str

    def pushforward(self, primals: tuple[Any, ...], flat: Sequence[Any], directions: Sequence[Any]) -> Any:
        """(output, tangent) for tangents of the tensors in the arguments; None where this must go the general way."""
        if is_eager():
            return None
        from jitgrad.script.call.pushforward import push

        given = primals if self.instance is None else (self.instance, *primals)
        return push(self.function.specialise(*given), self.function._bind(*given), flat, directions)


def scripted(obj: Any) -> Scripted | None:
    """What is behind an object that `script` or `load` returned; None for any other."""
    behind = getattr(type(obj), "_scripted", None)
    return None if behind is None else behind(obj)


class Shown:
    """An attribute of a module that a scripted function runs: the function's, bound to the module."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else getattr(instance._bound(), self.name)


@contextmanager
def eager_mode() -> Any:
    """Run every scripted function as plain Python inside the `with` block (in this thread)."""
    before, config.mode.eager = config.mode.eager, True
    try:
        yield
    finally:
        config.mode.eager = before


def is_eager() -> bool:
    """Whether scripted functions run as plain Python here and now."""
    return config.mode.eager or not config.current().jit


class Dispatcher:
    """A function that is compiled at its first call per signature: which specialisation takes a call.

    Attributes:
        eager: the undecorated function.
        remat: whether, and in how many segments, the gradient runs parts of loops again (`autodiff/segments.py`).
        parameters: the names of the function's parameters.
        specialisations: what is compiled, most recently used first.
        recompilations: why all specialisations but the first were compiled.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], remat: Remat = None):
        functools.update_wrapper(self, function)
        self.eager = function
        self.remat = remat
        self.recompilations: list[str] = []
        self._signature = inspect.signature(function, follow_wrapped=False)  # a decorator is part of the script
        self.parameters = tuple(self._signature.parameters)
        kinds = [p.kind for p in self._signature.parameters.values()]
        self._positional = len(kinds) if all(
            k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds) else -1
        self._bind = parameter_reader(function)
        self.specialisations: list[Specialisation] = []
        self._any_length: set[sig.Source] = set()  # lists whose length was seen to differ between calls
        self._objects: dict[sig.Source, weakref.ref[Any]] = {}  # objects that were compiled for
        self._by_class: set[sig.Source] = set()  # objects that were seen to differ between calls
        self._constants: dict[sig.Source, int] = {}  # ints that were taken to be constants
        #: what abandoned evaluations found out about the source, and in words, by what is taken by its kind
        self._decided: dict[frozenset[sig.Source], dict[Any, str]] = {}
        self._lock = threading.RLock()
        locks.new_in_children(self)
        self._hits = self._misses = self._compilations = self._disk_hits = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if config.mode.eager or not config._current.jit:  # `is_eager()` without its two frames
            return self.eager(*args, **kwargs)
        params = args if not kwargs and len(args) == self._positional else self._bind(*args, **kwargs)
        specialisations = self.specialisations
        for specialisation in specialisations:
            entered = specialisation.enter(params)
            if entered is not None:
                self._hits += 1
                if specialisation is not specialisations[0]:  # most recently used first
                    with self._lock:
                        specialisations.remove(specialisation)
                        specialisations.insert(0, specialisation)
                return specialisation.run(params, entered)
        try:
            specialisation, entered = self._first(params)
        except ScriptError as error:
            if config.current().debug:
                raise
            raise refused(error) from None
        return self._run_first(specialisation, params, entered)

    def _first(self, params: tuple[Any, ...]) -> tuple[Specialisation, Any]:
        """A call that no specialisation takes: compile one, enter it. Raises ScriptError; nothing is changed then."""
        with self._lock:
            specialisation = self._specialise(params)
            entered = specialisation.enter(params)
        if entered is None:
            from jitgrad.script.call.mismatch import mismatch

            raise AssertionError(f"{self.__qualname__}: a fresh specialisation refuses its own call: "
                                 + mismatch(specialisation, self.values_of(params)))
        for observe in observers:
            observe(self, params)
        return specialisation, entered

    def _run_first(self, specialisation: Specialisation, params: tuple[Any, ...], entered: Any) -> Any:
        """The call that a specialisation was compiled for."""
        return specialisation.run(params, entered)

    def _specialise(self, params: tuple[Any, ...]) -> Specialisation:
        for specialisation in self.specialisations:  # another thread was first
            if specialisation.enter(params) is not None:
                return specialisation
        with locks.collector_paused():
            return self._prepare(params)

    def _prepare(self, params: tuple[Any, ...]) -> Specialisation:
        """A new specialisation, from disk or from source."""
        values = self.values_of(params)
        reason = ""
        assumed, any_grads = Assumed.PARAMETERS, False
        lists: dict[sig.Source, list_kinds.Kind] = {}
        if self.specialisations or self._objects:
            lists = self._lists(values)
        if self.specialisations:
            from jitgrad.script.call.mismatch import mismatch, other_grads, still_assumed

            reasons = [mismatch(s, values) for s in self.specialisations]
            reason, assumed = reasons[0], min(map(still_assumed, reasons))
            any_grads = any(other_grads(s, values) for s in self.specialisations)
        self._misses += 1
        started = time.perf_counter()
        mode = assumed, any_grads, self.remat
        key = diskcache.key(self.eager, values, mode, lists)
        specialisation = self._stored(key, params, values)
        from_disk = specialisation is not None
        decided = self._decided.setdefault(frozenset(lists), {})
        if specialisation is None:
            script = self.build(values, assumed, any_grads, lists, decided)
            specialisation = Specialisation(script, self.parameters, values, self.__name__)
            if script.lists.keys() != lists.keys():  # some are separate objects after all
                key = diskcache.key(self.eager, values, mode, script.lists)
            diskcache.save(key, self.eager, values, script, specialisation.function)
            specialisation.function.finish()
        specialisation.options = assumed, any_grads, specialisation.script.lists, dict(decided)
        specialisation.timing = 1e3 * (time.perf_counter() - started)
        specialisation.owner = self.specialisations
        for guard in specialisation.assumptions:
            if guard.kind == "equal" and type(guard.value) is int:
                self._constants.setdefault(guard.source, guard.value)
            if guard.kind == "is" and list_kinds.is_plain_object(guard.value):
                with suppress(TypeError):  # nothing can refer to it weakly
                    self._objects.setdefault(guard.source, weakref.ref(guard.value))
        self.specialisations.insert(0, specialisation)
        del self.specialisations[ENTRIES:]
        self._compilations += 1
        self._disk_hits += from_disk
        if reason:
            self.recompilations.append(reason)
        config.log(1, f"compiled {self.__qualname__} in {specialisation.timing:.1f} ms"
                      + (" from the disk cache" if from_disk else "")
                      + (f" (recompiled: {reason})" if reason else ""))
        return specialisation

    def values_of(self, params: Sequence[Any]) -> dict[str, Any]:
        """Bound parameters by name."""
        return dict(zip(self.parameters, params, strict=True))

    def call_arguments(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bound parameters as positional and keyword arguments again."""
        bound = inspect.BoundArguments(self._signature, OrderedDict(values))
        return bound.args, bound.kwargs

    def build(self, values: dict[str, Any], assumed: Assumed, any_grads: bool,
              lists: Mapping[sig.Source, list_kinds.Kind] = list_kinds.NOTHING,
              decided: dict[Any, str] | None = None, late_checks: bool = False) -> sig.ScriptGraph:
        """The graph for parameters with these values, from source; see `frontend.build`. Raises ScriptError."""
        from jitgrad.script.frontend.build import build  # only here: a stored program runs without the frontend

        args, kwargs = self.call_arguments(values)
        numbers = self._varying(values)
        decided = {} if decided is None else decided
        both = [(frozenset[Any](), lists), (numbers, list_kinds.NOTHING)] if numbers and lists else []
        for slots, kinds in [(numbers, lists), *both]:
            if slots or kinds or decided:
                with suppress(ScriptError):  # one of them is needed as a constant, a list as separate objects
                    return self._finished(build(self.eager, args, kwargs, assumed, any_grads, slots, kinds,
                                                late_checks, decided))
        decided.clear()
        return self._finished(build(self.eager, args, kwargs, assumed, any_grads, late_checks=late_checks,
                                    decided=decided))

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
        for s in self.specialisations:
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
                    for s in self.specialisations:
                        before = s.script.lists.get(source)
                        kind = kind if before is None else list_kinds.joined(kind, before) or kind
                    found[source] = kind
        return found

    def _finished(self, script: sig.ScriptGraph) -> sig.ScriptGraph:
        """`script` as specialisations take it: with parameters, its loops in segments where memory is to be spared."""
        script.parameters = self.parameters
        if self.remat and is_grad_enabled():
            from jitgrad.script.autodiff.segments import split_loops

            script.graph = split_loops(script.graph, self.remat)
        return script

    def _stored(self, key: str | None, params: tuple[Any, ...], values: dict[str, Any]) -> Specialisation | None:
        """The specialisation on disk that takes this call, if any: the key does not tell sizes and memory apart."""
        for script, function in diskcache.load(key, self.eager, values):
            script.parameters = self.parameters
            with suppress(Unreadable):  # stored for other objects: these do not have all that it reads
                specialisation = Specialisation(script, self.parameters, values, self.__name__, function)
                if specialisation.enter(params) is not None:
                    return specialisation
        return None

    @property
    def compile_ms(self) -> float:
        """Milliseconds spent preparing all specialisations so far: frontend, passes, code generation."""
        return sum(s.timing for s in self.specialisations)

    # --- what is there ---

    def cache_info(self) -> CacheInfo:
        """Counters since the function was scripted."""
        return CacheInfo(self._hits, self._misses, self._compilations, self._disk_hits, len(self.specialisations))

    def specialise(self, *args: Any, **kwargs: Any) -> Specialisation:
        """The specialisation that a call with these arguments would run, compiled if need be, not run."""
        return self.specialisation_of(self._bind(*args, **kwargs))

    @property
    def programs(self) -> list[Program]:
        """What is compiled, as records, the latest first."""
        return [program_of(s) for s in self.specialisations]

    def specialisation_of(self, params: tuple[Any, ...]) -> Specialisation:
        """As `specialise`, for the values of the parameters."""
        with self._lock:
            return self._specialise(params)


profiling.POINTS += [(Specialisation, "run", lambda s, *_: (f"script::{s.function.name}", ())),
                     (Dispatcher, "_first", lambda f, *_: (f"script::compile {f.__name__}", ()))]
