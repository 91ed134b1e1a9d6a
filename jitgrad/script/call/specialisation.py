"""A scripted function compiled for one key: from the call's objects to the program's inputs, and back.

    enter   generated: reads every input from its source and checks every assumption, None where one fails
    run     executes the `GraphFunction`, counts what was written, rebuilds the Python result, stores what is left over
"""

from __future__ import annotations

import collections
import functools
import itertools
import struct
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jitgrad import config, dtypes
from jitgrad.dims import Assumed
from jitgrad.dtypes import get_default_dtype
from jitgrad.eager.arrays.arrays import library
from jitgrad.eager.autograd.grad_mode import is_grad_enabled, mode as grad_mode
from jitgrad.eager.autograd.node import Node, storage_of
from jitgrad.ops import autocast
from jitgrad.ops.types import ListType, OptionalType, TensorType
from jitgrad.random import default_generator
from jitgrad.script.call import arrayguards, signature as sig
from jitgrad.script.call.entering import EntryWriter, distinct, known_shapes, picker, separate
from jitgrad.script.call.graph_function import GraphFunction
from jitgrad.script.call.sources import (MISSES, SEQUENCES, Unreadable, argument_guards, broken, describe, elem_of,
                                         problem, resolve, type_of_tensor)
from jitgrad.script.call.storing import Leave, commit_writer, gather, leave_writer
from jitgrad.script.graph import effects
from jitgrad.script.graph.numbers import OVERFLOW

if TYPE_CHECKING:
    from jitgrad.script.call import callback

#: so many tensors are told apart in pairs: shorter than a set of them
FEW = 3


class Specialisation:
    """A scripted function compiled for one key; `function.finish()` before the first call.

    `timing`: milliseconds that preparing it took.
    """

    def __init__(self, script: sig.ScriptGraph, params: Sequence[str], values: dict[str, Any], name: str,
                 function: GraphFunction | None = None):
        self.script = script
        unread = frozenset(script.unread)
        #: what the call's arguments must be; objects among them are known weakly, so that they can die
        self.given = [self._weakly(g) for p in params
                      for g in argument_guards(sig.Arg(p), values[p], unread, script.lists)]
        #: the list that this is taken out of when such an object dies
        self.owner: list[Specialisation] = []
        self.grad_mode, self.default_dtype = is_grad_enabled(), get_default_dtype()
        #: what autocast casts to, None where it is off
        self.autocast = autocast.mode.low
        self.may_share = False  # whether `enter` looks at memory
        script.graph.name = name
        if function is None:
            objects = [resolve(s, values) for s in script.inputs]
            function = GraphFunction.prepare(script.graph, objects, name, script.differentiable, script.device,
                                             script.on_host, wait=False)
        self.function = function
        self.enter = self._write_enter(params, values)
        self.leave = leave_writer(params, values, script.inputs, script.result, script.stores, script.guards)
        new_grads = {place.base for place, made in script.stores if isinstance(place, sig.Attr) and place.name == "grad"
                     and isinstance(made, sig.Output)}.difference(
                         s.base for s in script.inputs if isinstance(s, sig.Attr) and s.name == "grad")
        #: tensors whose `.grad` the program makes anew, surely and whatever it was: it goes first, with its memory
        self.outdated = [i for i, s in enumerate(script.inputs) if s in new_grads
                         and function.faces and not any(face.sites for face in function.faces)
                         and isinstance(resolve(s, values), type_of_tensor())]
        #: what stores changes when the program raises or calls back, by the recipes that it follows, or the call
        self.left: dict[Any, Leave] = {}
        self.commit = commit_writer(params, values, script.commits) if script.commits else None
        self.spent = Node(f"{name}Backward", (), _nothing) if script.freed else None
        if self.spent is not None:
            self.spent.release()
        #: the inputs that are the state of the random numbers, and which part of it
        self.draws = [(i, s.attribute) for i, s in enumerate(script.inputs) if isinstance(s, sig.RngState)]
        #: whether results have a history of their own, or something is expected of them
        self.is_told = bool(script.freed or script.alone or script.expected or script.recorded)
        #: whether a call only runs the program and rebuilds its result
        self.is_plain = not (script.calls_back or script.commits or function.writes or self.is_told
                             or script.overwritten)
        #: of the inputs that the program writes: those that get an output's history, where a flag says so, and what
        #: picks the others, of which the write is only counted
        self.rebased = {i: (j, script.recorded.get(j)) for i, j in script.written.items() if i in function.writes}
        self.counted = picker([i for i in function.writes if i not in script.written])
        self.timing = 0.0
        #: `assumed`, `any_grads` and `lists` of the frontend
        self.options: tuple[Assumed, bool, Mapping[sig.Source, Any], dict[Any, str]] = (
            Assumed.PARAMETERS, False, {}, {})
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
        native = bool(self.function.faces) and self.function.device.type == "cpu"
        writer = EntryWriter(params, values, native=native)
        writer.require(f"{writer.constant(grad_mode)}.enabled is {self.grad_mode}")
        writer.require(f"{writer.constant(autocast.mode)}.low is {writer.constant(self.autocast)}")
        writer.require(f"{writer.constant(dtypes)}._default is {writer.constant(self.default_dtype)}")
        for guard, ref in self.given:
            if ref is None:
                writer.guard(guard)
            else:
                writer.require(f"{writer.read(guard.source)} is {writer.constant(ref)}()")
        for guard in script.guards:
            writer.guard(guard)
        writer.definitions(script.definitions)
        names = [writer.read(s) for s in script.inputs]
        shapes, done = known_shapes(writer, script)
        size_guards = [guard for number, guard in enumerate(script.size_guards) if number not in done]
        tensor_type = type_of_tensor()
        optional = {i for i, t in enumerate(script.input_types) if isinstance(t, OptionalType)}
        tensors = [i for i, s in enumerate(script.inputs)
                   if i not in optional and isinstance(resolve(s, values), tensor_type)]
        lists = [i for i, t in enumerate(script.input_types)
                 if isinstance(t, ListType) and isinstance(t.elem, TensorType)]
        written = frozenset(self.function.writes)
        if script.distinct:
            writer.require(self._distinction(writer, names, tensors, lists))
        self.may_share = bool(written) and len(tensors) + len(lists) > 1
        quick = None
        if native:
            known = self.may_share and not lists and len({names[i] for i in tensors}) == len(tensors)
            quick = arrayguards.plan(writer, script, names, shapes, size_guards,
                                     {names[i]: i in written for i in tensors} if known else {})
        held = None
        if self.function.device.type != "cpu" and not (self.may_share and lists):
            held = arrayguards.held(writer, script, names, tensors, size_guards, written if self.may_share else ())
        if held is not None:
            writer.tensors(shapes, arrays=False, among=held.names)
        writer.tensors(shapes, arrays=quick is None,
                       among=None if held is None else writer.guarded.keys() - set(held.names))
        raw = list(names)
        for i in tensors:
            raw[i] = f"{names[i]}._data"
        for i in lists:
            writer.lines.append(f"l{i} = [x._data for x in {names[i]}]")
            raw[i] = f"l{i}"
        for i in optional:
            raw[i] = f"({names[i]} if {names[i]} is None else {names[i]}._data)"
        writer.lines.append(f"r = [{', '.join(raw)}]")
        separation = self._separation(writer, tensors, [raw[i] for i in lists]) if self.may_share else ""
        if quick is not None:
            with writer.block(f"not {quick.condition(writer)}"):
                writer.tensors(shapes, own=False)
                writer.sizes(script, [size_guards[i] for i in sorted(quick.sizes)])
                if quick.separates:
                    writer.require(separation)
            size_guards = [guard for i, guard in enumerate(size_guards) if i not in quick.sizes]
        if held is not None:
            separation = held.emit(writer, script, shapes, size_guards)
            size_guards = [guard for i, guard in enumerate(size_guards) if i not in held.sizes]
        numbers = {symbol: names[i] for symbol, i in script.int_symbols.items()}
        writer.sizes(script, size_guards)
        writer.sizes(script, script.trip_guards, numbers)
        if separation and (quick is None or not quick.separates):
            writer.require(separation)
        writer.numbers()
        return writer.finish(f"(({''.join(n + ', ' for n in names)}), r)")

    def _distinction(self, writer: EntryWriter, names: Sequence[str], tensors: Sequence[int],
                     lists: Sequence[int]) -> str:
        """The condition that no tensor is found on two paths. Those of other types are not one, and what is written
        has memory of its own."""
        written = frozenset(self.function.writes)
        left = [i for i in tensors if i not in written]
        kinds = {i: (type_.dtype, len(type_.dims)) for i in (*left, *lists)
                 for type_ in [elem_of(self.script.input_types[i])]}
        count = collections.Counter(kinds.values())
        among = [names[i] for i in left if count[kinds[i]] > 1]
        if not lists and len(among) <= FEW:
            return " and ".join(f"{a} is not {b}" for a, b in itertools.combinations(among, 2)) or "True"
        one, listed = ", ".join(among), ", ".join([f"*{names[i]}" for i in lists if count[kinds[i]] > 1])
        return f"{writer.constant(distinct)}([{one}], [{listed}])" if one else "True"

    def _separation(self, writer: EntryWriter, tensors: Sequence[int], lists: Sequence[str]) -> str:
        """The condition that what is written has memory of its own; `r` is the list of the program's inputs."""
        written = self.function.writes
        others = f"{writer.constant(picker(sorted({*tensors}.difference(written))))}(r)"
        if lists:
            others = f"(*{others}, {', '.join([f'*{name}' for name in lists])})"
        return f"{writer.constant(separate)}({writer.constant(picker(written))}(r), {others})"

    def run(self, params: Sequence[Any], entered: tuple[Any, list[Any]]) -> Any:
        """Execute with what `enter` returned."""
        for i in self.outdated:
            entered[0][i]._grad = None
        try:
            if self.is_plain:
                return self.leave(params, entered[0], self.function(*entered))
            if self.draws:
                with default_generator:
                    return self._run(params, self._drawing(entered))
            return self._run(params, entered) if self.script.calls_back else self._call(params, entered)
        except struct.error:  # nothing has run: an int does not go into its 64 bits
            raise OverflowError(OVERFLOW) from None
        except BaseException as error:
            pending = effects.take(error)
            if pending is not None:
                self._store_pending(params, entered[0], pending)
            if hasattr(error, "_place") and not config.current().debug:
                from jitgrad.script.call.tracebacks import show_lines

                show_lines(error)
            raise

    def _drawing(self, entered: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
        """What `enter` returned, with the state of the random numbers as it is now that no other thread draws."""
        objects, arrays = list(entered[0]), entered[1]
        for i, part in self.draws:
            objects[i] = arrays[i] = getattr(default_generator, part)
        return objects, arrays

    def _run(self, params: Sequence[Any], entered: tuple[Any, list[Any]]) -> Any:
        if not self.script.calls_back:
            return self._call(params, entered)
        from jitgrad.script.call import callback

        leave = functools.partial(self._leave_to, params, entered[0])
        run = callback.Run(leave, functools.partial(self._snapshot, params), _changed, bool(self.draws))
        with callback.running(run):
            return self._call(params, entered)

    def _call(self, params: Sequence[Any], entered: tuple[Any, list[Any]]) -> Any:
        """Run a program that does more than give results.

        What it writes in place is counted by versions, and gets its history. An exception may come after some of the
        writes: all are counted then.
        """
        objects, arrays = entered
        function = self.function
        on_commit = functools.partial(self.commit, params) if self.commit is not None else None
        try:
            outputs = function(objects, arrays, on_commit)
            if self.script.overwritten:
                self._spoil(objects, outputs)
        except BaseException:
            for index in function.writes:
                objects[index]._bump()
            raise
        for x in self.counted(objects):
            storage = x._storage or storage_of(x)  # without its frame, nearly always
            storage.version += 1
            if storage.mirrors is not None:
                storage.mirrors.follow(x._data)
        for index, (output, flag) in self.rebased.items():
            if (flag is not None and not outputs[flag]) or not function.rebase(objects[index], outputs, output):
                objects[index]._bump()
        if self.is_told:
            self._tell(outputs)
        return self.leave(params, objects, outputs)

    def _tell(self, outputs: list[Any]) -> None:
        """Give results the history that they have, or say what is expected of them."""
        script = self.script
        if self.spent is not None:  # their history was used up inside: a backward of them is eager's error
            for slot, i in enumerate(script.freed):
                if outputs[i] is not None:
                    self.spent.attach(outputs[i], slot)
        if script.alone:
            alone = Node(f"{self.function.name}Backward", (), _nothing, _nothing)
            for slot, i in enumerate(script.alone):
                if outputs[i] is not None:
                    alone.attach(outputs[i], slot)
        for i, error, head, tail in script.expected:
            library(outputs[i]._data).expect(outputs[i]._data, error, head, tail)
        for i, flag in script.recorded.items():
            _keep_history(outputs[i], outputs[flag])

    def _store_pending(self, params: Sequence[Any], objects: Sequence[Any], pending: effects.Pending) -> None:
        """Store what the program had changed when it raised."""
        script = self.script
        followed, stores, outputs = gather(pending, script.recipes, script.graph.name, script.device)
        leave = self.left.get(followed)
        if leave is None:
            values = dict(zip(script.parameters, params, strict=True))
            leave = self.left[followed] = leave_writer(
                script.parameters, values, script.inputs, sig.Static(None),
                [(place, result) for place, (result, _) in stores.items()],
                parts=[part for _, part in stores.values()])
        leave(params, objects, outputs)

    def _spoil(self, objects: Sequence[Any], outputs: list[Any]) -> None:
        """Put outputs of which the history needs what the program has overwritten behind a node that says so."""
        for i, flag, pieces in reversed(self.script.overwritten):  # the node that is attached last is asked first
            _spoil(outputs[i], True if flag < 0 else outputs[flag],
                   "".join([_piece(p, objects, outputs) for p in pieces]))

    def _snapshot(self, params: Sequence[Any], call: callback.Callback) -> list[tuple[str, Any]]:
        """What the script has read or assigned, now, by name: objects and versions, and which assumptions hold."""
        script, values = self.script, dict(zip(self.script.parameters, params, strict=True))
        entered = self.enter(params)
        objects = entered[0] if entered is not None else [_resolved(s, values) for s in script.inputs]
        found: list[tuple[str, Any]] = []
        for source, o in zip(script.inputs, objects, strict=True):
            if not isinstance(source, sig.RngState):
                found.append((f"`{describe(source)}`", _seen(o)))
        for place, _ in call.stores:
            if not isinstance(place, (sig.RngState, sig.Tail)):
                base = place.base if isinstance(place, (sig.Content, sig.Item)) else place
                found.append((f"`{describe(base)}`", _seen(_resolved(base, values))))
        holds = [True] if entered is not None else [_holds(g, values) for g in script.guards]
        return [*found, ("an object", holds if not all(holds) else [])]

    def _leave_to(self, params: Sequence[Any], objects: Sequence[Any], call: callback.Callback,
                  given: Sequence[Any]) -> Any:
        """Store what the script has changed before it calls back; the arguments of that."""
        leave = self.left.get(call)
        if leave is None:
            values = dict(zip(self.script.parameters, params, strict=True))
            leave = self.left[call] = leave_writer(self.script.parameters, values, self.script.inputs,
                                                   call.arguments, call.stores)
        return leave(params, objects, given)


_MISSING = object()


def _resolved(source: sig.Source, values: dict[str, Any]) -> Any:
    try:
        return resolve(source, values)
    except Unreadable:
        return _MISSING


def _seen(found: Any) -> Any:
    """An object and what a change of it would change: a tensor's version, the items of a list or dict."""
    if isinstance(found, SEQUENCES):
        return [found, *[_seen(x) for x in found]]
    if isinstance(found, dict):
        return [found, *found, *found.values()]
    return [found, getattr(found, "_version", None)]


def _keep_history(output: Any, recorded: Any) -> None:
    """Leave an output without history where the run says so; of a list each item."""
    if type(output) is list:
        for item, flag in zip(output, recorded, strict=True):
            _keep_history(item, flag)
    elif output is not None and not recorded:
        output._node, output._slot, output._needs = None, 0, False


def _piece(piece: Any, objects: Sequence[Any], outputs: Sequence[Any]) -> str:
    """A piece of a message: text, an output, or how often an input was written: before, and since."""
    if isinstance(piece, tuple):
        at, since = piece
        return str(objects[at]._version + (since if since >= 0 else outputs[~since]))
    return piece if isinstance(piece, str) else str(outputs[piece])


def _spoil(output: Any, flag: Any, text: str) -> None:
    """Let the backward of an output, of a list each item, be an error where the run says so."""
    if type(output) is list:
        for k, item in enumerate(output):
            _spoil(item, flag[k:k + 1] and flag[k] if type(flag) is list else flag, text)
    elif output is not None and output._node is not None and flag:
        def refused(cotangents: list[Any]) -> list[Any]:
            raise RuntimeError(text)

        Node(output._node.name(), (output,), refused, refused).attach(output)


def _holds(guard: sig.Guard, values: dict[str, Any]) -> bool:
    """Whether an assumption holds now."""
    try:
        return not problem(guard, values, broken)
    except MISSES:
        return False


def _changed(before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]]) -> str:
    """The first thing in which two snapshots differ, in words; "" where they agree."""
    return next((name for (name, a), (_, b) in zip(before, after, strict=True) if not _alike(a, b)), "")


def _alike(a: Any, b: Any) -> bool:
    if type(a) is list and type(b) is list and a is not b:
        return len(a) == len(b) and all(map(_alike, a, b))
    return _same(a, b)


def _same(a: Any, b: Any) -> bool:
    """Whether an input is what it was: the object, or the number."""
    return a is b or (type(a) is type(b) and not isinstance(a, type_of_tensor()) and bool(a == b or a != a))


def _nothing(cotangents: list[Any]) -> list[Any]:
    """The backward of a node without inputs."""
    return []
