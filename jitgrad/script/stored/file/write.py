"""Programs and the objects that they read, as JSON; graphs as text. `read.py` is the inverse."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jitgrad.ops.types import SeqType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import broken, describe, problem
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.text import to_text
from jitgrad.script.stored.encoder import Encoder
from jitgrad.script.stored.file.snapshot import Snapshot
from jitgrad.script.stored.file.spans import SpanWriter
from jitgrad.script.stored.records import Program
from jitgrad.script.stored.values import Json, NotSavable, class_name, fault_name, is_plain, to_plain


class ProgramWriter(Encoder):
    """Turns programs into JSON and text; `snapshot` collects what they read."""

    def __init__(self, snapshot: Snapshot, defaults: dict[str, Any]):
        super().__init__()
        self.snapshot, self.defaults = snapshot, defaults
        self.spans = SpanWriter()
        self.graphs: list[str] = []

    def program(self, program: Program) -> Json:
        """One specialisation. Raises NotSavable, and Unreadable where what it read is gone."""
        script = program.script
        self.symbols = {}
        return {
            "name": program.name,
            "grad_mode": program.grad_mode,
            "default_dtype": program.default_dtype.name,
            "autocast": None if program.autocast is None else [d and d.name for d in program.autocast],
            "arguments": [self._argument(g) for g in program.arguments if self.snapshot.is_argument(g.source)],
            **self.script(replace(script, guards=[g for g in script.guards if g.kind != "inherited"])),
            "differentiable": None if script.differentiable is None else list(script.differentiable),
            "spans": [self.spans.number(node.span) for node in walk(script.graph.block)],
            "objects": self._graph(script.graph),
        }

    def source(self, source: sig.Source) -> Json:
        return self.snapshot.move(source)

    def target(self, source: sig.Source) -> Json:
        return self.snapshot.target(source)

    def class_name(self, cls: Any) -> Json:
        return class_name(cls)

    def type(self, type_: Type) -> Json:
        if isinstance(type_, SeqType):
            raise NotSavable(f"an input of type `{type_}`")
        return super().type(type_)

    def _graph(self, graph: Graph) -> Json:
        """Append the text of a graph; the names of the exceptions in it that are not Python's."""
        for node in walk(graph.block):
            if node.op.startswith("callback"):
                raise NotSavable(f"a call of a Python function ({node.span}): a saved program runs without Python "
                                 "source")
        objects: dict[str, Any] = {}
        self.graphs.append(to_text(graph, spans=False, objects=objects))
        found = {}
        for name, value in objects.items():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ != "builtins":
                found[name] = fault_name(value)
            elif not (isinstance(value, type) and issubclass(value, BaseException)):
                raise NotSavable(f"the object {value!r} in its graph")
        return found

    # --- assumptions -----------------------------------------------------------------------------------------------

    def _argument(self, guard: sig.Guard) -> Json:
        """What is assumed of an argument: its class is of the table, or it is the parameter's default."""
        source, value = guard.source, guard.value
        if guard.kind == "is" and not is_plain(value):
            if isinstance(source, sig.Arg) and self.defaults.get(source.name, self) is value:
                return [self.snapshot.move(source), "default", None]
            raise NotSavable(f"the argument `{describe(source)}` is an object of class `{type(value).__qualname__}`, "
                             "which the program was compiled for: make it part of the function's closure, or save a "
                             "scripted method of it")
        return self.guard(guard)

    def guard(self, guard: sig.Guard) -> Json:
        value, kind = guard.value, guard.kind
        if kind == "is":
            stored = to_plain(value) if self.snapshot.is_argument(guard.source) else None
        elif kind == "type":
            stored = class_name(value)
        elif kind == "keys":
            stored = [self.snapshot.key(k) for k in value]
        else:
            stored = self.assumed(guard)
        if kind == "absent":  # the path itself cannot be read
            assert isinstance(guard.source, (sig.Attr, sig.Item, sig.At))
            return [self.snapshot.path(guard.source), kind, None]
        return [self.snapshot.move(guard.source), kind, stored]


def parameters(function: Any, bound: bool, snapshot: Snapshot) -> tuple[list[Json], dict[str, Any]]:
    """The parameters of the function's calls, and their defaults."""
    stored, defaults = [], {}
    for number, p in enumerate(inspect.signature(function, follow_wrapped=False).parameters.values()):
        if bound and number == 0:
            continue
        default: Json = None
        if p.default is not p.empty:
            defaults[p.name] = p.default
            data = isinstance(p.default, (list, tuple, dict)) or hasattr(p.default, "_data")
            default = ({"plain": to_plain(p.default)} if is_plain(p.default)
                       else {"node": snapshot.node(p.default)} if data else {"own": str(p.default)[:80]})
        stored.append([p.name, int(p.kind), default])
    return stored, defaults


def still_holds(snapshot: Snapshot, guards: Sequence[sig.Guard]) -> bool:
    """Whether what cannot be changed on the loaded objects is as the program assumed it: identities and structure.

    Values of numbers and strings, dtypes and needs-gradient flags can change there as here.
    """
    return not any(problem(guard, snapshot.values, broken) for guard in guards
                   if not snapshot.is_argument(guard.source)
                   and guard.kind not in ("equal", "alike", "tensor", "contiguous", "order", "optional"))
